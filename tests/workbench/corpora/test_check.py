import json

import pytest

from tests.workbench.corpora.test_babel_imagenet import write as write_babel
from tests.workbench.corpora.test_cvqa import changed
from tests.workbench.corpora.test_cvqa import write as write_cvqa
from tests.workbench.corpora.test_parallel_lines import write_flores
from tests.workbench.corpora.test_xcm import write as write_xcm
from tests.workbench.corpora.writing import KEYS, write_lines, write_translations, write_xm3600, xm3600_lines
from workbench.corpora.check import check_corpus, render_report
from workbench.errors import InputError


def counts(report) -> dict:
    return {count.code: count for count in report.languages}


def test_a_benchmark_is_counted_and_what_is_missing_is_said(tmp_path):
    folder = write_xm3600(tmp_path / "xm")
    (folder / "images" / f"{KEYS[2]}.jpg").unlink()
    report = check_corpus(folder)
    assert (report.benchmark, report.kind) == ("xm3600", "parallel")
    assert (report.listed, report.published, report.missing_images) == (4, 3600, 1)
    found = counts(report)
    assert (found["en"].texts, found["en"].duplicates) == (7, 1)
    assert (found["zh"].one_character, found["he"].right_to_left) == (2, 4)
    assert (found["fil"].benchmark, found["fil"].model) == ("fil", "tgl_Latn")
    assert report.problems == (
        "4 images are listed, and the benchmark has 3,600.",
        f"1 of 4 images are not here; the first is '{KEYS[2]}'. There is no images/{KEYS[2]}.jpg.",
    )
    assert not report.ok


def test_every_fault_is_listed_where_loading_stops_at_the_first(tmp_path):
    lines: list = xm3600_lines()
    lines[0]["en"]["caption"] = ["x", 3]
    lines[1]["xx"] = {"caption": ["y"]}
    lines[2]["he"]["caption"] = [" "]
    del lines[3]["zh"]
    folder = write_xm3600(tmp_path / "xm", [*lines, ["no object"]])
    report = check_corpus(folder)
    says = "\n".join(report.problems)
    for part in (
        "Line 1 of",
        "a caption in 'en' that is no text",
        "Line 2 of",
        "the entry 'xx'",
        "Line 5 of",
        "1 captions in 'he' are empty",
        "1 images have no caption in 'zh'",
    ):
        assert part in says
    assert counts(report)["he"].empty == 1


def test_what_can_not_be_read_at_all_is_a_problem_and_no_exception(tmp_path):
    folder = write_translations(tmp_path / "f", "filenames.txt")
    (folder / "swh_Latn.txt").write_text("<!DOCTYPE html>")
    write_lines(folder / "tgl_Latn.txt", ["a", "b"])
    report = check_corpus(f"flickr30k-200:{folder}")
    says = "\n".join(report.problems)
    assert "swh_Latn.txt' is no data file" in says
    assert "tgl_Latn.txt' has 2 lines" in says
    assert counts(report)["en"].texts == 3
    (folder / "filenames.txt").write_text("404: Not Found")
    report = check_corpus(f"flickr30k-200:{folder}")
    assert report.layout == ""
    assert len(report.problems) == 1
    assert "error page" in report.problems[0]
    assert "can not be read" in render_report(report)


def test_a_whole_corpus_of_ones_own_has_nothing_wrong(tmp_path):
    folder = tmp_path / "mine"
    write_translations(folder, "names.txt", {})
    lines = [{"image": f"images/{n}000.jpg", "captions": {"en": f"text {n}", "sw": "maandishi"}} for n in (1, 2, 3)]
    (folder / "captions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    report = check_corpus(folder)
    assert report.ok
    assert report.benchmark == "folder"
    assert report.published is None
    assert counts(report)["sw"].duplicates == 2
    text = render_report(report)
    assert "Nothing is wrong." in text
    assert "3 images, 0 images missing" in text
    assert "2 of which repeat another of their language: ties that no tower breaks" in text


def test_an_image_on_two_lines_is_a_problem(tmp_path):
    folder = tmp_path / "mine"
    write_translations(folder, "names.txt", {})
    lines = [{"image": "images/1000.jpg", "captions": {"en": "x"}}] * 2
    (folder / "captions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert check_corpus(folder).problems == ("The image 'images/1000.jpg' is listed twice. Ids must be unique.",)


def test_images_are_opened_when_asked(tmp_path):
    folder = write_xm3600(tmp_path / "xm")
    path = folder / "images" / f"{KEYS[3]}.jpg"
    path.write_bytes(path.read_bytes()[:100])
    assert len(check_corpus(folder).problems) == 1
    report = check_corpus(folder, open_images=True)
    assert any(f"{KEYS[3]}" in problem and "can't be opened" in problem for problem in report.problems)
    assert "1 images would be turned by exif='apply'" in report.notes


def test_texts_without_images_lack_none(tmp_path):
    report = check_corpus(write_flores(tmp_path / "f"))
    assert (report.benchmark, report.listed, report.missing_images) == ("flores-200", 3, 0)
    assert report.problems == ("3 texts are listed, and the benchmark has 1,012.",)


def test_names_of_classes_are_counted(tmp_path):
    report = check_corpus(write_babel(tmp_path / "b"))
    assert (report.benchmark, report.listed) == ("babel-imagenet", 6)
    assert (counts(report)["de"].texts, counts(report)["de"].duplicates) == (3, 1)
    assert report.problems == ("3 classes do not have 50 images; the first is class 0 with 2.",)
    assert report.notes == ("1 languages have no templates and are scored with the bare name: br",)


def test_questions_are_counted_and_each_bad_row_named(tmp_path):
    path = write_cvqa(tmp_path / "c.parquet", changed(1, Label=-1))
    report = check_corpus(path)
    assert (report.benchmark, report.listed, report.published) == ("cvqa", 2, 10_374)
    assert any("Row 2 of" in problem and "answers are hidden" in problem for problem in report.problems)
    assert "2 pairs of a language and a country" in report.notes


def test_triplets_are_counted(tmp_path):
    report = check_corpus(write_xcm(tmp_path / "x"))
    assert (report.benchmark, report.listed, report.published, report.missing_images) == ("3xcm", 2, 11_723, 5)
    assert "no image_metadata, so there are no text queries: image to image only" in report.notes


def test_a_report_is_plain_data_and_plain_text(tmp_path):
    report = check_corpus(write_translations(tmp_path / "f", "filenames.txt"))
    content = json.loads(json.dumps(report.to_dict()))
    assert content["ok"] is False
    assert [language["code"] for language in content["languages"]] == ["en", "quy_Latn", "sw", "fil"]
    lines = render_report(report).splitlines()
    heads = next(line for line in lines if line.split()[:1] == ["language"])
    row = next(line for line in lines if line.split()[:1] == ["fil"])
    assert heads.index("model") == row.index("tgl_Latn", row.index("tgl_Latn") + 1), "columns stand below their heads"
    assert row.split() == ["fil", "tgl_Latn", "tgl_Latn", "3", "0", "0", "1", "0", "0"]


def test_a_long_list_of_problems_is_cut_in_the_text_and_whole_in_the_data(tmp_path):
    lines = [{"image/key": f"{n}", "en": {"caption": [n]}} for n in range(40)]
    folder = tmp_path / "xm"
    folder.mkdir()
    (folder / "captions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    report = check_corpus(folder)
    assert len(report.problems) > 40
    assert f"… and {len(report.problems) - 20} more" in render_report(report)


@pytest.mark.parametrize("place", ["no such place", "emoji-36"])
def test_what_is_no_corpus_to_check_is_refused(place):
    with pytest.raises(InputError):
        check_corpus(place)


def test_a_place_that_is_nobodys_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no corpus that is recognised.*NAME:.*flickr30k-200"):
        check_corpus(tmp_path)


def test_an_option_that_a_check_has_no_use_for_is_refused(tmp_path):
    folder = write_translations(tmp_path / "f", "filenames.txt")
    with pytest.raises(InputError, match="flickr30k-200 takes no 'subset'"):
        check_corpus(folder, subset="present")
    with pytest.raises(InputError, match="flickr30k-200 takes no 'pictures'"):
        check_corpus(folder, pictures="x")
    (folder / "images").rename(tmp_path / "photos")
    assert check_corpus(folder, images=tmp_path / "photos").missing_images == 0
