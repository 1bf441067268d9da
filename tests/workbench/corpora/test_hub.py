"""Benchmarks from the ``datasets`` library: saved data sets, folders of Parquet files, and hub ids without a hub."""

import hashlib
import json
import sys

import pytest

from tests.workbench.corpora.test_cvqa import EXTRA
from tests.workbench.corpora.test_cvqa import ROWS as QUESTIONS
from tests.workbench.corpora.test_xcm import ITEMS, ROLES, metadata
from tests.workbench.corpora.test_xcm import ROWS as TRIPLETS
from tests.workbench.corpora.writing import KEYS, LINES, NAMES, XM3600, jpeg, write_translations
from workbench.corpora.babel_imagenet import build_classification, open_babel_imagenet
from workbench.corpora.cvqa import build_choices, open_cvqa
from workbench.corpora.flickr30k200 import open_flickr30k200
from workbench.corpora.flores200 import open_flores200
from workbench.corpora.hub import is_dataset, is_hub_id, open_tables
from workbench.corpora.loading import corpus_languages, load_corpus
from workbench.corpora.reading import Faults
from workbench.corpora.source import build_corpus
from workbench.corpora.xcm import build_triplets, open_3xcm
from workbench.corpora.xm3600 import open_xm3600
from workbench.corpora.xtd10 import open_xtd10
from workbench.errors import InputError

datasets = pytest.importorskip("datasets", reason="the extra 'hub' is not installed")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Keep what the library copies inside the test's folder, and its progress bars off."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


def pictures(n: int, path=None) -> list[dict]:
    return [{"bytes": jpeg((60 * row, 20, 200)), "path": path} for row in range(n)]


def xm3600_splits():
    """As ``floschne/xm3600``: a split a language, the picture a plain struct, in another order in each split."""
    splits = {}
    for place, (language, lists) in enumerate(XM3600.items()):
        order = list(range(4))[:: -1 if place % 2 else 1]
        splits[language] = datasets.Dataset.from_dict(
            {
                "image_id": [KEYS[row] for row in order],
                "image_locale": ["en"] * 4,
                "captions": [lists[row] for row in order],
                "captions_tokenized": [lists[row] for row in order],
                "captions_tokenized_lowercase": [lists[row] for row in order],
                "image": [pictures(4)[row] for row in order],
            }
        )
    return datasets.DatasetDict(splits)


def shards(folder, splits, config=""):
    """A folder as on the hub: Parquet files named after their split."""
    for name, table in splits.items():
        path = folder / (config or "data") / f"{name}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        table.to_parquet(path)
    return folder


@pytest.mark.parametrize("form", ["saved", "shards"])
def test_xm3600_has_a_split_a_language(tmp_path, form):
    place = tmp_path / "xm"
    if form == "saved":
        xm3600_splits().save_to_disk(place)
    else:
        shards(place, xm3600_splits())
    source = open_xm3600(place, Faults(), images=4)
    assert set(source.languages) == set(XM3600)
    corpus = build_corpus(source, XM3600)
    assert corpus.image_ids == KEYS
    assert corpus.captions == {language: tuple(map(tuple, lists)) for language, lists in XM3600.items()}
    assert len({image.tobytes() for image in corpus.images()}) == 4
    assert corpus.exif == "ignore"
    assert build_corpus(source, ["iw"]).languages == ("he",)
    with pytest.raises(InputError, match="3,600 images, and 4 are listed"):
        load_corpus(f"xm3600:{place}")


def test_pictures_are_those_of_the_id_whatever_the_order_of_a_split(tmp_path):
    xm3600_splits().save_to_disk(tmp_path / "xm")
    corpus = build_corpus(open_xm3600(tmp_path / "xm", Faults(), images=4), ["he"])
    assert corpus.image_ids == KEYS
    wanted = [jpeg((60 * row, 20, 200)) for row in range(4)]
    assert [corpus.image_hash(key) for key in KEYS] == [hashlib.sha256(content).hexdigest() for content in wanted]


def test_a_picture_that_a_split_lacks_is_missing(tmp_path):
    splits = xm3600_splits()
    only = datasets.DatasetDict({"en": splits["en"].map(lambda row: {**row, "image": {"bytes": None, "path": None}})})
    only.save_to_disk(tmp_path / "xm")
    with pytest.raises(InputError, match="None of the 4 images of xm3600"):
        build_corpus(open_xm3600(tmp_path / "xm", Faults(), images=4))


def test_nested_captions_are_read(tmp_path):
    """As ``Tierone2025part2/crossmodal_3600``: one table, the captions an object."""
    nested = datasets.Dataset.from_dict(
        {
            "image_key": list(KEYS),
            "captions": [{language: lists[row] for language, lists in XM3600.items()} for row in range(4)],
            "image": pictures(4),
        }
    ).cast_column("image", datasets.Image())
    nested.save_to_disk(tmp_path / "xm")
    corpus = build_corpus(open_xm3600(tmp_path / "xm", Faults(), images=4))
    assert corpus.captions["fil"][3] == ("buwan", "bilog na buwan")
    assert [image.mode for image in corpus.images()] == ["RGB"] * 4


def test_a_selection_of_a_data_set_keeps_its_rows_and_pictures(tmp_path):
    table = datasets.Dataset.from_dict({"image_id": list(KEYS), "image": pictures(4), "caption_en": list("abcd")})
    table.select([3, 1]).save_to_disk(tmp_path / "some")
    corpus = load_corpus(f"dataset:{tmp_path / 'some'}")
    assert corpus.image_ids == (KEYS[3], KEYS[1])
    assert corpus.captions["en"] == (("d",), ("b",))
    assert corpus.images()[0].tobytes() != corpus.images()[1].tobytes()


def wide(scheme_codes: dict[str, list[str]]):
    return datasets.Dataset.from_dict(
        {"filename": list(NAMES), "image": pictures(3), **{f"caption_{code}": v for code, v in scheme_codes.items()}}
    )


def test_translations_in_a_wide_table_go_by_the_codes_of_their_benchmark(tmp_path):
    wide(LINES).save_to_disk(tmp_path / "f")
    corpus = build_corpus(open_flickr30k200(tmp_path / "f", Faults(), published=3))
    assert corpus.languages == ("en", "sw", "fil", "quy_Latn")
    assert corpus.image_ids == NAMES
    assert corpus.codes["fil"].benchmark == "tgl_Latn"
    wide({"en": ["a", "b", "c"], "jp": ["男", "女", "犬"]}).save_to_disk(tmp_path / "x")
    corpus = build_corpus(open_xtd10(tmp_path / "x", Faults(), published=3), ["ja"])
    assert corpus.captions == {"ja": (("男",), ("女",), ("犬",))}


def test_captions_from_files_may_have_their_images_in_a_data_set(tmp_path):
    """As ``nlphuji/flickr30k``: more images than are needed, in another order, found by file name."""
    folder = write_translations(tmp_path / "f", "filenames.txt")
    for path in (folder / "images").iterdir():
        path.unlink()
    order = ["9999.jpg", *NAMES[::-1]]
    datasets.Dataset.from_dict({"filename": order, "image": pictures(4)}).save_to_disk(tmp_path / "photos")
    source = open_flickr30k200(folder, Faults(), images=tmp_path / "photos", published=3)
    corpus = build_corpus(source)
    assert corpus.captions["sw"][0] == ("mwanamume na tiara",)
    assert corpus.image_hash("1000.jpg") == hashlib.sha256(jpeg((180, 20, 200))).hexdigest()
    datasets.Dataset.from_dict({"filename": order[:2], "image": pictures(2)}).save_to_disk(tmp_path / "fewer")
    with pytest.raises(InputError, match="2 of the 3 images of flickr30k-200"):
        build_corpus(open_flickr30k200(folder, Faults(), images=tmp_path / "fewer", published=3))


def test_flores_is_read_from_a_table_with_a_column_a_language(tmp_path):
    table = datasets.Dataset.from_dict(
        {"id": [1, 2], "URL": ["x", "y"], "sentence_eng_Latn": ["one", "two"], "sentence_swh_Latn": ["moja", "mbili"]}
    )
    datasets.DatasetDict({"dev": table.select([0]), "devtest": table}).save_to_disk(tmp_path / "f")
    corpus = build_corpus(open_flores200(tmp_path / "f", Faults(), published=2))
    assert corpus.text_only
    assert corpus.captions == {"en": (("one",), ("two",)), "sw": (("moja",), ("mbili",))}


def test_flores_is_read_from_a_configuration_a_language(tmp_path):
    texts = {"eng_Latn": ["one", "two"], "swh_Latn": ["moja", "mbili"]}
    card = ["---", "configs:"]
    for code, lines in texts.items():
        shards(tmp_path / "f", {"devtest": datasets.Dataset.from_dict({"id": [1, 2], "sentence": lines})}, code)
        card += [f"- config_name: {code}", "  data_files:", "  - split: devtest", f"    path: {code}/devtest-*"]
    (tmp_path / "f" / "README.md").write_text("\n".join([*card, "---", ""]))
    corpus = build_corpus(open_flores200(tmp_path / "f", Faults(), published=2))
    assert corpus.captions == {"en": (("one",), ("two",)), "sw": (("moja",), ("mbili",))}


def test_cvqa_is_read_from_shards(tmp_path):
    table = {name: [row[name] for row in QUESTIONS] for name in QUESTIONS[0]}
    table |= {name: [value] * 3 for name, value in EXTRA.items()} | {"image": pictures(3)}
    rows = datasets.Dataset.from_dict(table).cast_column("image", datasets.Image())
    place = shards(tmp_path / "cvqa", {"test": rows})
    corpus = build_choices(open_cvqa(place, Faults(), published=3))
    assert corpus.answers.tolist() == [2, 0, 3]
    assert len({image.tobytes() for image in corpus.images()}) == 3
    rows.save_to_disk(tmp_path / "saved")
    assert build_choices(open_cvqa(tmp_path / "saved", Faults(), published=3)).hash == corpus.hash


def test_3xcm_is_read_from_two_saved_configurations(tmp_path):
    flat = {
        f"{role}_{part}": [(row[place], *ITEMS[row[place]])[which] for row in TRIPLETS]
        for place, role in enumerate(ROLES)
        for which, part in enumerate(("image_id", "concept", "country"))
    }
    datasets.Dataset.from_dict(flat).save_to_disk(tmp_path / "x" / "benchmark")
    lines = metadata()
    table = {name: [line[name] for line in lines] for name in lines[0]} | {"image": pictures(5)}
    datasets.Dataset.from_dict(table).save_to_disk(tmp_path / "x" / "image_metadata")
    corpus = build_triplets(open_3xcm(tmp_path / "x", Faults(), published=2))
    assert corpus.texts() == ["basi", "รถบัส"]
    assert len({image.tobytes() for image in corpus.images()}) == 5


def test_the_images_of_imagenet_are_read_with_their_labels(tmp_path):
    folder = tmp_path / "babel"
    folder.mkdir()
    (folder / "babel_imagenet.json").write_text(json.dumps({"TL": [[1, 2], ["isda", "pating"]]}))
    table = datasets.Dataset.from_dict({"image": pictures(4), "label": [2, 1, 2, 1]})
    datasets.DatasetDict({"train": table.select([0]), "validation": table}).save_to_disk(tmp_path / "imagenet")
    source = open_babel_imagenet(folder, Faults(), images=tmp_path / "imagenet", per_class=2)
    corpus = build_classification(source)
    assert corpus.task("fil")[1].tolist() == [1, 0, 1, 0]
    assert len({image.tobytes() for image in corpus.images()}) == 4
    hidden = datasets.Dataset.from_dict({"image": pictures(2), "label": [0, -1]})
    hidden.save_to_disk(tmp_path / "hidden")
    with pytest.raises(InputError, match=r"Row 2 of .*label -1; .*validation split"):
        open_babel_imagenet(folder, Faults(), images=tmp_path / "hidden")


def test_ones_own_data_set_is_found_by_its_folder(tmp_path):
    table = datasets.Dataset.from_dict(
        {"image_id": ["a", "b"], "image": pictures(2), "en": ["x", "y"], "sw": ["u", "v"]}
    )
    table.save_to_disk(tmp_path / "mine")
    corpus = load_corpus(tmp_path / "mine")
    assert (corpus.name, corpus.languages) == ("mine", ("en", "sw"))
    assert corpus_languages(tmp_path / "mine") == ("en", "sw")
    datasets.DatasetDict({"train": table, "test": table}).save_to_disk(tmp_path / "parts")
    with pytest.raises(InputError, match=r"2 splits \(train, test\) that are no languages. Name one"):
        load_corpus(tmp_path / "parts")
    assert load_corpus(tmp_path / "parts", split="test").captions == corpus.captions
    with pytest.raises(InputError, match=r"no split 'tset'.*Did you mean 'test'"):
        load_corpus(tmp_path / "parts", split="tset")


def test_a_hub_id_that_can_not_be_reached_is_one_clear_error():
    with pytest.raises(InputError, match="datasets library can't open 'someone/nothing-here'"):
        load_corpus("xm3600:someone/nothing-here")


def test_a_hub_id_without_a_benchmark_is_asked_what_it_is():
    with pytest.raises(InputError, match="dataset:someone/nothing-here"):
        load_corpus("someone/nothing-here")


def test_what_is_on_disk_is_no_hub_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert not is_hub_id("org/name")
    assert is_hub_id("org/other")
    assert not any(is_hub_id(name) for name in ("name", "/org/name", "../name", "a/b/c", "org/na me", ""))
    assert not is_dataset("org/name")
    with pytest.raises(InputError, match="has no revision"):
        open_tables("org/name", revision="main")
    with pytest.raises(InputError, match="neither exists nor is a hub id"):
        open_tables("a/b/c")


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"eos-workbench\[hub\]"):
        open_tables("org/name")


def test_a_hub_id_is_loaded_at_a_commit_that_goes_into_the_manifest(monkeypatch, tmp_path):
    """The hub itself is out of reach here; what is asked of it and what is recorded is not."""
    from huggingface_hub import HfApi

    asked = []
    table = datasets.Dataset.from_dict({"image_id": ["a"], "image": pictures(1), "en": ["x"]})

    def load_dataset(path, name=None, revision=None):
        asked.append((path, name, revision))
        return datasets.DatasetDict({"test": table})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(
        HfApi, "dataset_info", lambda self, name, revision=None: type("Info", (), {"sha": f"of-{revision}"})
    )
    corpus = load_corpus("dataset:org/mine", revision="v1", config="small")
    assert asked == [("org/mine", "small", "of-v1")]
    assert corpus.origin == "org/mine@of-v1"
    assert corpus.describe()["origin"] == "org/mine@of-v1"
    assert corpus.name == "org/mine"
