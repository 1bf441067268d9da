"""Flickr30k-200, XTD-200, XTD10 and FLORES-200: a file a language, tied together by the number of a line."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.workbench.corpora.writing import LINES, NAMES, write_image, write_lines, write_translations
from workbench.corpora.flickr30k200 import open_flickr30k200
from workbench.corpora.flores200 import open_flores200
from workbench.corpora.loading import corpus_languages, load_corpus, recognise_place
from workbench.corpora.parallel_lines import line_reader
from workbench.corpora.reading import Faults
from workbench.corpora.source import build_corpus
from workbench.corpora.xtd10 import open_xtd10
from workbench.corpora.xtd200 import open_xtd200
from workbench.errors import InputError
from workbench.language_codes import Codes

TRANSLATED = [("filenames.txt", open_flickr30k200, "flickr30k-200"), ("test_image_names.txt", open_xtd200, "xtd-200")]


def load(opener, folder, languages=None, *, images=None, **options):
    return build_corpus(opener(folder, Faults(), images=images, published=3), languages, **options)


@pytest.mark.parametrize(("names_file", "opener", "name"), TRANSLATED)
def test_line_i_of_each_file_describes_image_i(tmp_path, names_file, opener, name):
    folder = write_translations(tmp_path / "x", names_file)
    corpus = load(opener, folder)
    assert (corpus.name, corpus.image_ids) == (name, NAMES)
    assert corpus.captions == {
        "en": tuple((text,) for text in LINES["eng_Latn"]),
        "quy_Latn": tuple((text,) for text in LINES["quy_Latn"]),
        "sw": tuple((text,) for text in LINES["swh_Latn"]),
        "fil": tuple((text,) for text in LINES["tgl_Latn"]),
    }
    assert len(corpus.images()) == 3
    assert corpus.exif == "ignore"
    assert corpus.duplicates("fil") == 1
    assert recognise_place(folder).name == name


def test_no_carriage_return_gets_into_a_caption(tmp_path):
    folder = write_translations(tmp_path / "x", "filenames.txt")
    assert (folder / "swh_Latn.txt").read_bytes().count(b"\r\n") == 2
    corpus = load(open_flickr30k200, folder)
    assert not [text for lists in corpus.captions.values() for texts in lists for text in texts if "\r" in text]


def test_languages_go_by_the_code_of_the_bench_the_benchmark_or_an_alias(tmp_path):
    folder = write_translations(tmp_path / "x", "filenames.txt")
    assert load(open_flickr30k200, folder, ["sw", "fil"]).languages == ("sw", "fil")
    assert load(open_flickr30k200, folder, ["swh_Latn", "tgl_Latn"]).languages == ("sw", "fil")
    corpus = load(open_flickr30k200, folder)
    assert corpus.codes["sw"] == Codes("swh_Latn", "swh_Latn")
    with pytest.raises(InputError, match=r"no language 'quz'.*nearest that it has is 'quy_Latn'"):
        load(open_flickr30k200, folder, ["quz"])


@pytest.mark.parametrize("lines", [["a", "b"], ["a", "b", "c", "d"], []])
def test_a_file_of_another_length_is_refused(tmp_path, lines):
    folder = write_translations(tmp_path / "x", "filenames.txt")
    write_lines(folder / "swh_Latn.txt", lines)
    with pytest.raises(InputError, match=r"swh_Latn\.txt' has . lines, and .*filenames\.txt' names 3 images"):
        load(open_flickr30k200, folder)
    assert load(open_flickr30k200, folder, ["en"]).languages == ("en",), "a language that is not asked for is not read"


def test_an_error_page_in_place_of_a_language_is_refused(tmp_path):
    folder = write_translations(tmp_path / "x", "filenames.txt")
    (folder / "swh_Latn.txt").write_bytes(b"404: Not Found")
    with pytest.raises(InputError, match=r"swh_Latn\.txt' .*error page of a server"):
        load(open_flickr30k200, folder)


def test_an_empty_line_is_a_missing_caption(tmp_path):
    folder = write_translations(tmp_path / "x", "filenames.txt")
    write_lines(folder / "swh_Latn.txt", ["a", " ", "c"])
    with pytest.raises(InputError, match=r"no caption in 'sw' for the image '2000\.jpg'"):
        load(open_flickr30k200, folder)


def test_old_copies_have_another_file_for_english(tmp_path):
    folder = write_translations(tmp_path / "x", "filenames.txt")
    (folder / "eng_Latn.txt").rename(folder / "eng_captions.txt")
    (folder / "readme.txt").write_text("not a language\n")
    source = open_flickr30k200(folder, Faults(), published=3)
    assert "en" in source.languages
    assert source.notes == ("readme.txt is no file of a language",)
    assert build_corpus(source).captions["en"][0] == ("a man with a kite",)


@pytest.mark.parametrize("name", ["../1000.jpg", "/etc/passwd", "a/b.jpg", ""])
def test_a_name_that_is_no_plain_file_name_is_refused(tmp_path, name):
    folder = write_translations(tmp_path / "x", "filenames.txt")
    write_lines(folder / "filenames.txt", ["1000.jpg", name, "3000.jpg"])
    with pytest.raises(InputError, match=r"Line 2 of .*no plain file name"):
        load(open_flickr30k200, folder)


def test_images_may_lie_elsewhere(tmp_path):
    folder = write_translations(tmp_path / "x", "filenames.txt")
    (folder / "images").rename(tmp_path / "photos")
    with pytest.raises(InputError, match="None of the 3 images"):
        load(open_flickr30k200, folder)
    assert len(load(open_flickr30k200, folder, images=tmp_path / "photos").images()) == 3
    with pytest.raises(InputError, match="no folder"):
        load(open_flickr30k200, folder, images=tmp_path / "absent")
    assert load(open_flickr30k200, folder, with_images=False).text_only


def test_a_pool_that_is_not_whole_is_refused(tmp_path):
    folder = write_translations(tmp_path / "x", "filenames.txt")
    with pytest.raises(InputError, match="flickr30k-200 has 1,000 images, and 3 are listed"):
        load_corpus(folder)
    (folder / "images" / "2000.jpg").unlink()
    assert load_corpus(folder, subset="present").image_ids == ("1000.jpg", "3000.jpg")
    assert corpus_languages(folder) == ("en", "quy_Latn", "sw", "fil")


def write_xtd10(folder):
    """As the repository has it: three folders, Windows line ends, no last one."""
    write_lines(folder / "XTD10" / "test_image_names.txt", NAMES)
    for place, code, lines in (
        ("XTD10", "en", LINES["eng_Latn"]),
        ("XTD10", "es", ["un hombre", "dos mujeres", "un perro"]),
        ("STAIR", "jp", ["男", "女", "犬"]),
        ("MIC", "de", ["ein Mann", "zwei Frauen", "ein Hund"]),
    ):
        write_lines(folder / place / f"test_1kcaptions_{code}.txt", lines, "\r\n", final=False)
    for name in NAMES:
        write_image(folder / "val2014" / name)
    return folder


def test_xtd10_lies_in_three_folders_and_calls_japanese_jp(tmp_path):
    folder = write_xtd10(tmp_path / "xtd")
    corpus = load(open_xtd10, folder)
    assert corpus.languages == ("en", "es", "de", "ja")
    assert corpus.captions["ja"] == (("男",), ("女",), ("犬",))
    assert corpus.codes["ja"] == Codes("jp", "jpn_Jpan")
    assert load(open_xtd10, folder, ["jp", "ja", "jpn_Jpan"]).languages == ("ja",)
    assert len(corpus.images()) == 3
    assert recognise_place(folder).name == "xtd10"


def test_xtd10_in_one_folder_is_read_too(tmp_path):
    folder = write_xtd10(tmp_path / "xtd")
    expected = load(open_xtd10, folder).hash
    for path in list(folder.glob("*/*.txt")):
        path.rename(folder / path.name)
    assert load(open_xtd10, folder).hash == expected


def test_a_language_that_xtd10_does_not_have_is_refused(tmp_path):
    folder = write_xtd10(tmp_path / "xtd")
    write_lines(folder / "test_1kcaptions_xx.txt", ["a", "b", "c"])
    with pytest.raises(InputError, match="named by 'xx', which is no language of XTD10"):
        load(open_xtd10, folder)


def write_flores(folder):
    for split in ("dev", "devtest"):
        write_lines(folder / split / f"eng_Latn.{split}", [f"{split} one", f"{split} two", f"{split} three"])
        write_lines(folder / split / f"swh_Latn.{split}", ["moja", "mbili", "tatu"], "\r\n", final=False)
        write_lines(folder / f"metadata_{split}.tsv", ["URL\tdomain\ttopic"])
    return folder


def load_flores(folder, languages=None, split=None, published=3):
    return build_corpus(open_flores200(folder, Faults(), split=split, published=published), languages)


def test_flores_has_texts_and_no_images(tmp_path):
    folder = write_flores(tmp_path / "f")
    corpus = load_flores(folder)
    assert corpus.text_only
    assert corpus.image_ids == ("devtest-0001", "devtest-0002", "devtest-0003")
    assert corpus.captions == {
        "en": (("devtest one",), ("devtest two",), ("devtest three",)),
        "sw": (("moja",), ("mbili",), ("tatu",)),
    }
    assert load_flores(folder, split="dev").captions["en"][0] == ("dev one",)
    assert load_flores(folder, split="dev").hash != corpus.hash
    with pytest.raises(InputError, match="has texts and no images"):
        corpus.lazy_images()
    assert corpus.describe()["image_policy"] is None
    assert recognise_place(folder).name == "flores-200"


def test_unequal_flores_files_are_refused(tmp_path):
    folder = write_flores(tmp_path / "f")
    write_lines(folder / "devtest" / "swh_Latn.devtest", ["moja", "mbili"])
    with pytest.raises(InputError, match=r"swh_Latn\.devtest' has 2 lines, and 3 are expected"):
        load_flores(folder)


def test_flores_that_is_not_whole_is_refused(tmp_path):
    folder = write_flores(tmp_path / "f")
    for name, count in ((f"flores-200:{folder}", "1,012"), (f"flores-200-dev:{folder}", "997")):
        with pytest.raises(InputError, match=f"flores-200 has {count} texts, and 3 are listed"):
            load_corpus(name)
    assert load_corpus(f"flores-200-dev:{folder}", subset=["dev-0002", "dev-0003"]).captions["sw"] == (
        ("mbili",),
        ("tatu",),
    )
    with pytest.raises(InputError, match=r"no part 'tes'.*Use 'devtest' or 'dev'"):
        open_flores200(folder, Faults(), split="tes")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), min_size=1).filter(str.strip)
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_any_texts_come_back_from_a_file(tmp_path, lines, end, final):
    # A byte order mark at the very start is none of the text, and a lone line end is an empty line.
    assume(bool(lines) and not lines[0].startswith("\ufeff"))
    path = write_lines(tmp_path / "a.txt", lines, end, final)
    ids = [str(number) for number in range(len(lines))]
    expected = [(line,) for line in lines]
    assert list(line_reader({"en": path}, ids, None)("en", Faults())) == expected
