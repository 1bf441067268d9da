import json

import pytest

from tests.workbench.corpora.writing import KEYS, XM3600, write_jsonl, write_xm3600, xm3600_lines
from workbench.corpora import reading, xm3600
from workbench.corpora.loading import corpus_languages, load_corpus
from workbench.corpora.reading import Faults
from workbench.corpora.source import build_corpus
from workbench.corpora.subsets import RECIPES, Recipe
from workbench.corpora.xm3600 import open_xm3600, recognises
from workbench.errors import InputError
from workbench.language_codes import Codes


@pytest.fixture
def folder(tmp_path):
    return write_xm3600(tmp_path / "xm3600")


def load(folder, languages=None, **options):
    return build_corpus(open_xm3600(folder, Faults(), images=4), languages, **options)


def test_a_folder_is_read_with_all_captions_of_every_image(folder):
    corpus = load(folder)
    assert corpus.name == "xm3600"
    assert corpus.image_ids == KEYS
    assert corpus.captions == {language: tuple(map(tuple, lists)) for language, lists in XM3600.items()}
    assert corpus.subset is None
    assert len(corpus.images()) == 4


def test_one_character_and_right_to_left_captions_are_legal_and_duplicates_are_counted(folder):
    corpus = load(folder)
    assert corpus.captions["zh"][0] == ("船",)
    assert corpus.captions["he"][3] == ("ירח",)
    assert {language: corpus.duplicates(language) for language in corpus.languages} == {
        "en": 1, "he": 0, "zh": 0, "fil": 0
    }  # fmt: skip
    assert corpus.duplicates("en", "first") == 1
    assert [len(corpus.texts("en", protocol)[0]) for protocol in ("first", "all")] == [4, 7]


def test_captions_may_be_wrapped(folder):
    plain = load(folder).hash
    write_jsonl(folder / "captions.jsonl", xm3600_lines(wrapped=True))
    assert recognises(folder)
    assert load(folder).hash == plain


def test_windows_line_ends_and_no_last_line_end_make_no_difference(folder):
    plain = load(folder).hash
    lines = [json.dumps(line) for line in xm3600_lines()]
    (folder / "captions.jsonl").write_bytes("\r\n".join(lines).encode())
    assert load(folder).hash == plain


def test_a_language_is_found_by_any_of_its_codes(folder):
    for names in (["fil", "he"], ["tgl_Latn", "heb_Hebr"], ["tl", "iw"]):
        assert load(folder, names).languages == ("fil", "he")
    corpus = load(folder)
    assert corpus.codes == {
        "en": Codes("en", "eng_Latn"),
        "he": Codes("he", "heb_Hebr"),
        "zh": Codes("zh", "zho_Hans"),
        "fil": Codes("fil", "tgl_Latn"),
    }
    assert corpus.texts("heb_Hebr")[0] == corpus.texts("he")[0] == [texts[0] for texts in XM3600["he"]]
    assert corpus.select(["iw"]).languages == ("he",)
    with pytest.raises(InputError, match=r"no language 'Hebr'.*Did you mean 'he'"):
        load(folder, ["Hebr"])


def test_a_copy_that_is_not_whole_is_refused(folder):
    with pytest.raises(InputError, match=r"xm3600 has 3,600 images, and 4 are listed.*inflates every score"):
        build_corpus(open_xm3600(folder, Faults()))


def test_a_missing_image_is_refused_unless_a_subset_is_named(folder):
    (folder / "images" / f"{KEYS[2]}.jpg").unlink()
    with pytest.raises(InputError, match=rf"1 of the 4 images of xm3600 are not here; the first is '{KEYS[2]}'"):
        load(folder)
    corpus = load(folder, subset="present")
    assert corpus.image_ids == (KEYS[0], KEYS[1], KEYS[3])
    assert corpus.captions["he"] == (("סירה אדומה",), ("שתי עזים",), ("ירח",))
    assert corpus.subset is not None
    assert corpus.name == f"xm3600:present@{corpus.subset.sha256[:8]}"
    described = corpus.describe()
    assert described["subset"]["ids_sha256"] == corpus.subset.sha256
    assert described["subset"]["images"] == 3


def test_no_image_at_all_points_to_the_texts(folder):
    for key in KEYS:
        (folder / "images" / f"{key}.jpg").unlink()
    with pytest.raises(InputError, match=r"None of the 4 images.*with_images=False"):
        load(folder)
    corpus = load(folder, with_images=False)
    assert corpus.text_only
    assert corpus.captions["fil"][3] == ("buwan", "bilog na buwan")
    with pytest.raises(InputError, match="no images"):
        corpus.images()


def test_a_recipe_is_part_of_the_name_and_can_be_replaced(folder, monkeypatch, tmp_path):
    monkeypatch.setitem(RECIPES, "xm3600-1k", Recipe("xm3600-1k", "xm3600", 2, 4, "a test"))
    corpus = load_corpus(f"xm3600-1k:{folder}")
    assert len(corpus) == 2
    assert corpus.subset is not None
    assert corpus.name == f"xm3600-1k@{corpus.subset.sha256[:8]}"
    ids = tmp_path / "paper.txt"
    ids.write_text(f"{KEYS[3]}\n{KEYS[0]}\n")
    replaced = load_corpus(f"xm3600-1k:{folder}", subset=ids)
    assert replaced.image_ids == (KEYS[0], KEYS[3])
    assert replaced.name.startswith("xm3600:paper@")


def test_a_subset_whose_image_is_missing_is_refused(folder):
    (folder / "images" / f"{KEYS[2]}.jpg").unlink()
    with pytest.raises(InputError, match=rf"1 of the 2 images of xm3600:custom@.*the first is '{KEYS[2]}'"):
        load(folder, subset=[KEYS[1], KEYS[2]])


def test_the_fields_evaluators_do_not_turn_images_and_neither_does_the_loader(folder):
    ignored, applied = load(folder), load(folder, exif="apply")
    assert ignored.open_image(KEYS[1]).size == (16, 8)
    assert applied.open_image(KEYS[1]).size == (8, 16)
    assert ignored.open_image(KEYS[2]).mode == "RGB"
    assert ignored.hash != applied.hash, "other pixels are another corpus"
    assert ignored.describe()["image_policy"]["exif_rotation"] == "ignored"
    assert applied.describe()["image_policy"]["exif_rotation"] == "applied"


def test_a_hole_is_named_and_can_be_left_out(folder):
    lines = xm3600_lines()
    del lines[1]["fil"]
    lines[2]["he"]["caption"] = []
    write_jsonl(folder / "captions.jsonl", lines)
    with pytest.raises(InputError, match=rf"no caption in 'he' for the image '{KEYS[2]}'"):
        load(folder)
    assert load(folder, ["en", "zh"]).languages == ("en", "zh")
    assert load(folder, drop_incomplete=True).left_out == {"no caption in every language: he lacks 1, fil lacks 1": 2}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"image/key": "../secret"}, "the key '../secret', which is no plain file name"),
        ({"image/key": None}, "has the id None"),
        ({"xx": {"caption": ["x"]}}, "the entry 'xx', which is no language of Crossmodal-3600"),
        ({"en": {"tokens": ["x"]}}, "the entry 'en', which is no language .* with a list 'caption'"),
        ({"en": {"caption": ["x", 3]}}, "a caption in 'en' that is no text"),
        ({"en": {"caption": ["x\ud83d"]}}, "half a character"),
    ],
)
def test_a_broken_line_is_named(folder, change, says):
    lines = xm3600_lines()
    lines[2] |= change
    (folder / "captions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(InputError, match=rf"Line 3 of .*{says}"):
        load(folder)


def test_an_integer_key_is_read_as_text(folder):
    lines = xm3600_lines()
    lines[3]["image/key"] = 4000
    write_jsonl(folder / "captions.jsonl", lines)
    assert load(folder, subset="present").image_ids == KEYS[:3]


def test_a_key_on_two_lines_is_refused(folder):
    lines = xm3600_lines()
    lines[3]["image/key"] = KEYS[0]
    write_jsonl(folder / "captions.jsonl", lines)
    with pytest.raises(InputError, match=f"'{KEYS[0]}' twice"):
        load(folder)


def test_a_truncated_or_foreign_file_is_refused(folder):
    path = folder / "captions.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(InputError, match=r"Line 4 of .*is not JSON.*truncated"):
        load(folder)
    path.write_bytes(b"<!DOCTYPE html><html></html>")
    with pytest.raises(InputError, match="error page of a server"):
        load(folder)
    path.write_text("\n")
    with pytest.raises(InputError, match="no line of Crossmodal-3600"):
        load(folder)


def test_the_file_is_parsed_once_for_its_languages_and_its_captions(folder, monkeypatch):
    reading._CACHE.clear()
    parsed = []
    real = xm3600._entry
    monkeypatch.setattr(xm3600, "_entry", lambda *args: parsed.append(1) or real(*args))
    assert corpus_languages(f"xm3600:{folder}") == ("en", "he", "zh", "fil")
    load_corpus(f"xm3600:{folder}", ["en", "fil"], subset="present")
    assert len(parsed) == 4, "one look at each line"


def test_it_is_told_from_a_folder_of_ones_own(folder, tmp_path):
    assert recognises(folder)
    assert recognises(folder / "captions.jsonl")
    own = write_jsonl(tmp_path / "own" / "captions.jsonl", [{"image": "a.jpg", "captions": {"en": "x"}}])
    assert not recognises(own.parent)
    assert load_corpus(folder, subset="present").name.startswith("xm3600:")
