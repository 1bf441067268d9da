import json

import pytest
from PIL import Image

import workbench.corpora
from workbench.corpora import Corpus, load_corpus
from workbench.errors import InputError


@pytest.fixture
def folder(tmp_path):
    lines = []
    for row in range(4):
        Image.new("RGB", (2, 2), (row, 0, 0)).save(tmp_path / f"{row}.png")
        lines.append({"image": f"{row}.png", "captions": {"en": [f"number {row}", f"{row}"], "sw": f"namba {row}"}})
    del lines[1]["captions"]["sw"]
    (tmp_path / "captions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


def test_the_built_in_corpus_is_found_by_name():
    corpus = load_corpus("emoji-36", ["en", "sw"], limit=10)
    assert isinstance(corpus, Corpus)
    assert (corpus.name, len(corpus), corpus.languages) == ("emoji-36", 10, ("en", "sw"))


def test_the_protocol_all_gives_the_built_in_corpus_its_keywords():
    corpus = load_corpus("emoji-36", ["en"], protocol="all", limit=10)
    assert len(corpus.texts("en", "all")[0]) > 10
    assert len(load_corpus("emoji-36", ["en"], limit=10).texts("en", "all")[0]) == 10


@pytest.mark.parametrize("as_given", [str, lambda path: path, lambda path: f"{path}/"])
def test_a_folder_is_found_by_path(folder, as_given):
    corpus = load_corpus(as_given(folder), ["en"], protocol="all")
    assert corpus.texts("en", "all")[0][:2] == ["number 0", "0"]


def test_languages_may_be_any_iterable(folder):
    assert load_corpus(folder, (code for code in ["en"])).languages == ("en",)
    assert load_corpus("emoji-36", (code for code in ["mi"])).languages == ("mi",)


def test_incomplete_images_are_left_out_only_when_asked(folder):
    with pytest.raises(InputError, match="drop-incomplete"):
        load_corpus(folder)
    corpus = load_corpus(folder, drop_incomplete=True, limit=2)
    assert corpus.image_ids == ("0.png", "2.png")
    assert list(corpus.left_out.values()) == [1]


@pytest.mark.parametrize("limit", [1, 0, -1])
def test_a_limit_below_two_is_refused(folder, limit):
    for name in (folder, "emoji-36"):
        with pytest.raises(InputError, match="at least 2"):
            load_corpus(name, ["en"], limit=limit)


def test_no_language_is_refused(folder):
    for name in (folder, "emoji-36"):
        with pytest.raises(InputError, match="No language was chosen"):
            load_corpus(name, [])


@pytest.mark.parametrize("name", ["emoji36", "Emoji-36", "emoji_36"])
def test_a_misspelt_name_gets_a_hint(name):
    with pytest.raises(InputError, match="Did you mean 'emoji-36'"):
        load_corpus(name)


def test_an_unknown_name_says_what_there_is():
    with pytest.raises(InputError, match=r"No corpus is called 'xm3600'.*emoji-36.*captions\.jsonl"):
        load_corpus("xm3600")


def test_an_unknown_protocol_is_refused_before_anything_is_read():
    with pytest.raises(InputError, match="Did you mean 'first'"):
        load_corpus("no such corpus", protocol="frist")  # pyright: ignore[reportArgumentType]


def test_a_file_that_is_no_corpus_is_refused(tmp_path):
    (tmp_path / "captions.csv").write_text("image,en\n")
    with pytest.raises(InputError, match=r"has no captions\.jsonl"):
        load_corpus(tmp_path / "captions.csv")


def test_the_package_names_what_it_offers():
    assert set(dir(workbench.corpora)) >= {"Corpus", "load_corpus"}
    with pytest.raises(AttributeError):
        workbench.corpora.load_nothing  # noqa: B018
