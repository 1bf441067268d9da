import contextlib
import inspect
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import workbench.corpora
from tests.workbench.corpora.writing import KEYS, write_translations, write_xm3600
from workbench.corpora import Corpus, corpus_languages, load_benchmark, load_corpus, reading
from workbench.corpora import folder as folder_module
from workbench.corpora.benchmarks import BENCHMARKS
from workbench.corpora.loading import Found, find_corpus
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
    with pytest.raises(InputError, match=r"No corpus is called 'imagenette'.*emoji-36.*xm3600.*captions\.jsonl"):
        load_corpus("imagenette")


def test_an_unknown_protocol_is_refused_before_anything_is_read():
    with pytest.raises(InputError, match="Did you mean 'first'"):
        load_corpus("no such corpus", protocol="frist")  # pyright: ignore[reportArgumentType]


def test_a_file_that_is_no_corpus_is_refused(tmp_path):
    (tmp_path / "captions.txt").write_text("a cat\n")
    for place in (tmp_path, tmp_path / "captions.txt"):
        with pytest.raises(InputError, match=r"has no captions\.jsonl"):
            load_corpus(place)
    (tmp_path / "captions.csv").write_text("image,en\n")
    with pytest.raises(InputError, match="is empty: it has no row"):
        load_corpus(tmp_path / "captions.csv")


@pytest.fixture
def data(tmp_path):
    write_xm3600(tmp_path / "data" / "xm3600")
    write_translations(tmp_path / "data" / "xtd200", "test_image_names.txt")
    return tmp_path / "data"


def test_a_benchmark_is_found_below_the_root_of_the_data(data, monkeypatch, tmp_path):
    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert find_corpus("xm3600", data) == Found(BENCHMARKS["xm3600"], str(data / "xm3600"))
    assert find_corpus("xtd-200", data).place == str(data / "xtd200")
    assert find_corpus("xm3600-1k", data).place == str(data / "xm3600")
    with pytest.raises(InputError, match=r"'xm3600' is not part of the bench, .*xm3600:FOLDER, or set WORKBENCH_DATA"):
        find_corpus("xm3600")
    monkeypatch.setenv("WORKBENCH_DATA", str(data))
    assert find_corpus("xm3600").place == str(data / "xm3600")
    monkeypatch.delenv("WORKBENCH_DATA")
    monkeypatch.chdir(data)
    assert find_corpus("xm3600").place == "xm3600"
    assert load_corpus("xm3600", ["en"], subset="present").languages == ("en",)


def test_a_benchmark_and_its_place_are_named_together(data):
    for name in (f"xm3600:{data}/xm3600", f"xm3600:{data}/xm3600/captions.jsonl"):
        assert load_corpus(name, ["en"], subset="present").name.startswith("xm3600:present@")
    with pytest.raises(InputError, match="There is no '/nowhere' to read xm3600 from"):
        load_corpus("xm3600:/nowhere")
    with pytest.raises(InputError, match="'xm3600:' names no place"):
        load_corpus("xm3600:")
    with pytest.raises(InputError, match=r"No corpus is called 'xm360:/x'.*Did you mean 'xm3600'"):
        load_corpus("xm360:/x")
    for missing in ("/nowhere/mine.csv", "data/nowhere"):
        with pytest.raises(InputError, match=f"There is no file or folder '{missing}'"):
            load_corpus(missing)


def test_a_place_alone_is_recognised_by_its_files(data, folder):
    assert find_corpus(data / "xm3600").benchmark.name == "xm3600"
    assert find_corpus(data / "xtd200").benchmark.name == "xtd-200"
    assert find_corpus(folder).benchmark.name == "folder"


def test_a_folder_with_a_colon_in_its_name_is_found(tmp_path):
    write_xm3600(tmp_path / "a:b")
    assert find_corpus(str(tmp_path / "a:b")).benchmark.name == "xm3600"


def test_the_wrong_benchmark_for_a_place_is_refused(data):
    with pytest.raises(InputError, match=r"is no copy of XTD10"):
        load_corpus(f"xtd10:{data}/xm3600")
    with pytest.raises(InputError, match=r"is no copy of flickr30k-200: it has no filenames\.txt"):
        load_corpus(f"flickr30k-200:{data}/xtd200")


def test_an_option_that_a_benchmark_does_not_take_is_refused(data, folder):
    with pytest.raises(InputError, match="xm3600 takes no 'templates'"):
        load_corpus(f"xm3600:{data}/xm3600", templates=["a {}"])
    with pytest.raises(InputError, match="folder takes no 'split'"):
        load_corpus(folder, split="test")
    with pytest.raises(InputError, match="emoji-36 takes no 'subset'"):
        load_corpus("emoji-36", subset="present")
    assert len(load_benchmark(folder, ["en"], subset=None, with_images=True, split=None)) == 4


@settings(deadline=None)
@given(st.text() | st.text("ab:/.\\\0~", max_size=12) | st.integers(200, 6000).map(lambda n: "x" * n + ":" + "y" * n))
def test_no_name_ends_in_anything_but_a_benchmark_or_one_clear_error(name):
    # Any other exception, a path too long or with a null in it, would end this test.
    with contextlib.suppress(InputError):
        assert find_corpus(name).benchmark.name in BENCHMARKS


def test_limits_and_subsets_come_together(data):
    corpus = load_corpus(f"xm3600:{data}/xm3600", ["en"], subset="present", limit=2)
    assert corpus.image_ids == KEYS[:2]


def test_every_benchmark_can_be_opened_and_lists_real_arguments():
    for benchmark in BENCHMARKS.values():
        known = set(inspect.signature(benchmark.open).parameters)
        assert {*benchmark.accepts, *(set(benchmark.given) - set(benchmark.build_options))} <= known, benchmark.name
        assert set(benchmark.build_options) <= set(inspect.signature(benchmark.build).parameters)
        assert not benchmark.fits(Path("no such place"))


def test_a_folder_is_parsed_once_for_its_languages_and_its_captions(folder, monkeypatch):
    reading._CACHE.clear()
    parsed, real = [], folder_module._entry
    monkeypatch.setattr(folder_module, "_entry", lambda *args: parsed.append(1) or real(*args))
    assert corpus_languages(folder) == ("en", "sw")
    load_corpus(folder, ["en"])
    load_corpus(folder, ["sw"], drop_incomplete=True)
    assert len(parsed) == 4, "one look at each line"


def test_the_package_names_what_it_offers():
    assert set(dir(workbench.corpora)) >= {"Corpus", "check_corpus", "load_benchmark", "load_corpus"}
    with pytest.raises(AttributeError):
        workbench.corpora.load_nothing  # noqa: B018
