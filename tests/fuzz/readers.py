"""Everything in the bench that reads a file: how a sound one is made, and how it is read to the end."""

import csv
import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tests.workbench.corpora import writing
from workbench.errors import InputError

Read = Callable[[], object]


@dataclass(frozen=True)
class Reader:
    """A reader.

    Attributes
    ----------
    name : str
    make : callable
        Writes sound files into a folder and returns what reads them.
    suffixes : tuple of str
        Of the files that are damaged; all of them by default.
    cost : int
        How many times as long as others it takes: it gets so many times fewer inputs.
    """

    name: str
    make: Callable[[Path], Read]
    suffixes: tuple[str, ...] = ()
    cost: int = 1

    def takes(self, path: Path) -> bool:
        """Whether a file is one to damage."""
        return not self.suffixes or path.suffix in self.suffixes


READERS: dict[str, Reader] = {}


def reader(name: str, *suffixes: str, cost: int = 1) -> Callable[[Callable[[Path], Read]], Callable[[Path], Read]]:
    """Put a function into the list of readers."""

    def add(make: Callable[[Path], Read]) -> Callable[[Path], Read]:
        READERS[name] = Reader(name, make, suffixes, cost)
        return make

    return add


# -- corpora -----------------------------------------------------------------------------------------


def _all_of(place: str, **options: Any) -> Read:
    """Check a corpus as the command does, and load it as far as it goes."""

    def read() -> None:
        from workbench.corpora.check import check_corpus, render_report
        from workbench.corpora.loading import corpus_languages, load_benchmark

        try:
            report = check_corpus(place, open_images=True)
            render_report(report)
            json.dumps(report.to_dict()).encode("utf-8")
        except InputError:
            pass
        corpus_languages(place)
        corpus: Any = load_benchmark(place, **options)
        json.dumps(corpus.describe())
        for language in corpus.languages:
            _texts(corpus, language)
        if not corpus.text_only:
            list(corpus.lazy_images() if hasattr(corpus, "lazy_images") else corpus.images())

    return read


def _texts(corpus: Any, language: str) -> None:
    if hasattr(corpus, "rows"):
        corpus.rows()
    elif hasattr(corpus, "questions"):
        [corpus.texts_of(question) for question in corpus.questions]
    else:
        corpus.texts(language)


def _images(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        writing.write_image(folder / name)


LINES = [
    {"image": "p/a.jpg", "captions": {"en": "a red bus", "sw": ["basi jekundu", "basi"]}},
    {"id": 7, "image": "p/b.jpg", "captions": {"en": ["a cat"], "sw": "paka"}},
    {"id": "c", "image": "p/c.jpg", "captions": {"en": "two goats", "sw": "mbuzi wawili"}},
]


@reader("folder", ".jsonl")
def _folder(folder: Path) -> Read:
    writing.write_jsonl(folder / "captions.jsonl", LINES)
    _images(folder, ["p/a.jpg", "p/b.jpg", "p/c.jpg"])
    return _all_of(str(folder))


LONG = [
    ["image", "language", "caption"],
    *([f"p/{name}.jpg", language, f"{language} {name}"] for name in "abc" for language in ("en", "sw", "zh")),
]
WIDE = [
    ["image", "en", "sw", "zho_Hans"],
    *([f"p/{name}.jpg", f"a {name}", f"{name} moja", f"一 {name}"] for name in "abc"),
]


def _table(name: str, suffix: str, rows: Sequence[Sequence[str]]) -> None:
    @reader(f"{name} {suffix[1:]}", suffix)
    def make(folder: Path) -> Read:
        _images(folder, ["p/a.jpg", "p/b.jpg", "p/c.jpg"])
        path = folder / f"photos{suffix}"
        if suffix == ".parquet":
            pq.write_table(pa.table({head: [row[k] for row in rows[1:]] for k, head in enumerate(rows[0])}), path)
        elif suffix == ".jsonl":
            writing.write_jsonl(path, [dict(zip(rows[0], row, strict=True)) for row in rows[1:]])
        else:
            with path.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",").writerows(rows)
        return _all_of(str(path))


for _name, _rows in (("long", LONG), ("wide", WIDE)):
    for _suffix in (".csv", ".tsv", ".jsonl", ".parquet"):
        _table(_name, _suffix, _rows)


@reader("table with pictures", ".parquet")
def _pictures(folder: Path) -> Read:
    table = {
        "image_id": ["a", "b"], "image": [{"bytes": writing.jpeg(), "path": None}] * 2, "caption_en": ["x", "y"],
        "caption_sw": ["z", "w"],
    }  # fmt: skip
    pq.write_table(pa.table(table), folder / "captions.parquet")
    return _all_of(str(folder))


@reader("nested table", ".jsonl")
def _nested(folder: Path) -> Read:
    writing.write_jsonl(
        folder / "photos.jsonl", [{"id": name, **line} for name, line in zip("xyz", LINES, strict=True)]
    )
    _images(folder, ["p/a.jpg", "p/b.jpg", "p/c.jpg"])
    return _all_of(str(folder / "photos.jsonl"))


@reader("xm3600", ".jsonl")
def _xm3600(folder: Path) -> Read:
    writing.write_xm3600(folder)
    return _all_of(str(folder), subset="present")


@reader("flickr30k-200", ".txt")
def _flickr(folder: Path) -> Read:
    writing.write_translations(folder, "filenames.txt")
    return _all_of(str(folder), subset="present")


@reader("xtd-200", ".txt")
def _xtd200(folder: Path) -> Read:
    writing.write_translations(folder, "test_image_names.txt")
    return _all_of(f"xtd-200:{folder}", subset="present")


@reader("xtd10", ".txt")
def _xtd10(folder: Path) -> Read:
    from tests.workbench.corpora.test_parallel_lines import write_xtd10

    write_xtd10(folder)
    return _all_of(str(folder), subset="present")


@reader("flores-200")
def _flores(folder: Path) -> Read:
    from tests.workbench.corpora.test_parallel_lines import write_flores

    write_flores(folder)
    ids = folder / "ids.txt"
    ids.write_text("devtest-0001\ndevtest-0003\n")
    return _all_of(f"flores-200:{folder}", subset=str(ids))


@reader("babel-imagenet", ".json")
def _babel(folder: Path) -> Read:
    from tests.workbench.corpora.test_babel_imagenet import write
    from workbench.corpora.imagenet import wnids

    write(folder)
    (folder / "english.json").write_text(
        json.dumps({"labels": [f"name {k}" for k in range(len(wnids()))], "templates": ["{}"]})
    )
    read = _all_of(str(folder), subset="present")

    def both() -> None:
        from workbench.corpora.loading import load_benchmark

        try:
            read()
        finally:
            load_benchmark(str(folder), with_images=False, english=str(folder / "english.json"))

    return both


@reader("cvqa", ".parquet")
def _cvqa(folder: Path) -> Read:
    from tests.workbench.corpora.test_cvqa import write

    write(folder / "cvqa.parquet")
    return _all_of(f"cvqa:{folder / 'cvqa.parquet'}", subset="present")


@reader("3xcm", ".csv", ".jsonl")
def _xcm(folder: Path) -> Read:
    from tests.workbench.corpora.test_xcm import ITEMS, metadata, write

    write(folder)
    writing.write_jsonl(folder / "image_metadata.jsonl", metadata())
    _images(folder, [f"images/{image}.jpg" for image in ITEMS])
    return _all_of(str(folder), subset="present")


@reader("saved data set", ".json", ".arrow", cost=10)
def _saved(folder: Path) -> Read:
    import datasets

    # What the library makes of a folder that is none of its own lands in its cache.
    vars(importlib.import_module("datasets.config"))["HF_DATASETS_CACHE"] = folder / "cache"
    datasets.disable_progress_bars()
    rows = {"image_id": ["a", "b"], "image": [{"bytes": writing.jpeg(), "path": None}] * 2, "caption_en": ["x", "y"]}
    datasets.Dataset.from_dict(rows).save_to_disk(str(folder))
    return _all_of(f"dataset:{folder}")


@reader("subset ids")
def _subset(folder: Path) -> Read:
    from workbench.corpora.subsets import resolve_subset

    path = folder / "ids.txt"
    path.write_text("a\nb\nc\n")
    return lambda: resolve_subset(str(path), "xm3600", ["a", "b", "c", "d"]).describe()


@reader("images", cost=2)
def _pictures_of_all_kinds(folder: Path) -> Read:
    from workbench.corpora.images import open_image

    grey = np.arange(64, dtype=np.int32).reshape(8, 8) * 1000
    picture = Image.new("RGBA", (9, 7), (200, 9, 9, 100))
    for suffix in ("png", "gif", "webp", "tiff"):
        picture.save(folder / f"a.{suffix}")
    picture.convert("RGB").save(folder / "a.jpg", exif=_orientation())
    picture.convert("RGB").save(folder / "a.bmp")
    picture.convert("RGB").save(folder / "a.jp2")
    picture.convert("RGB").save(folder / "a.ppm")
    Image.fromarray(grey).save(folder / "deep.tiff")
    Image.fromarray(grey.astype(np.float32)).save(folder / "fraction.tiff")
    Image.fromarray(grey.astype(np.uint16)).save(folder / "deep.png")
    paths = sorted(folder.iterdir())

    def read() -> None:
        wrong = None
        for path in paths:
            try:
                open_image(path)
                open_image(path.read_bytes() if path.is_file() else b"", exif="ignore")
            except InputError as error:
                wrong = error
        if wrong:
            raise wrong

    return read


def _orientation() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


@reader("quality scores", ".json", ".csv")
def _quality(folder: Path) -> Read:
    from workbench.corpora.quality import read_scores

    (folder / "q.json").write_text('{"sw": 0.84, "te": 0.5}')
    (folder / "q.csv").write_text("language,score\nsw,0.8\nsw,0.9\nte,1\n")

    def read() -> None:
        try:
            read_scores(folder / "q.json")
        finally:
            read_scores(folder / "q.csv")

    return read


# -- maps and descriptions -----------------------------------------------------------------------------


@reader("tier map", ".json")
def _tiers(folder: Path) -> Read:
    from workbench.languages import say_tiers, tier_map

    path = folder / "mine.json"
    path.write_text(json.dumps({"en": "HRL", "de": "HRL", "sw": "LRL", "iw": "LRL", "ok1": "LRL"}))

    def read() -> None:
        name, tiers = tier_map(path)
        say_tiers(name, tiers, ["en", "sw"])

    return read


@reader("description", ".toml")
def _description(folder: Path) -> Read:
    from workbench.towers.description import read_description, shipped

    sound = {name: path.read_bytes() for name, path in shipped().items()}
    for name in ("e5-v", "jina-embeddings-v4", "internvl2.5"):
        (folder / f"{name}.toml").write_bytes(sound[name])
    paths = sorted(folder.glob("*.toml"))

    def read() -> None:
        wrong = None
        for path in paths:
            try:
                found = read_description(path)
                _ = found.prompt, found.image_prompt
            except InputError as error:
                wrong = error
        if wrong:
            raise wrong

    return read


# -- towers --------------------------------------------------------------------------------------------


def _embeddings(suffix: str) -> None:
    @reader(f"embeddings {suffix[1:]}", suffix)
    def make(folder: Path) -> Read:
        from tests.analyses.factory import make_corpus
        from tests.workbench.towers.test_precomputed import arrays, write

        corpus = make_corpus()
        path = write(folder / f"mine{suffix}", *arrays(corpus))

        def read() -> None:
            from workbench.towers import load_tower

            tower = load_tower(path)
            _ = tower.fingerprint
            for language in corpus.languages:
                tower.embed_captions(corpus, language)

        return read


for _suffix in (".npz", ".safetensors", ".parquet"):
    _embeddings(_suffix)


def _model(name: str, checkpoint: Callable[..., Path], **options: Any) -> None:
    @reader(f"model {name}", ".json", ".toml", cost=20)
    def make(folder: Path) -> Read:
        place = checkpoint(folder)

        def read() -> None:
            from workbench.towers import load_tower

            tower = load_tower(place, **options)
            tower.encode_text(["a cat", "two dogs"])
            if tower.has_images:
                tower.encode_images([Image.new("RGB", (40, 30), "red")])

        return read


def _models() -> None:
    from tests.checkpoints import CHECKPOINTS
    from tests.checkpoints.text_only import TEXT_ONLY

    for name, checkpoint in {**CHECKPOINTS, **TEXT_ONLY}.items():
        if name != "open_clip":
            _model(name, checkpoint)


_models()


@reader("model weights", ".safetensors", cost=20)
def _weights(folder: Path) -> Read:
    from tests.checkpoints import CHECKPOINTS

    CHECKPOINTS["clip"](folder)

    def read() -> None:
        from workbench.towers import load_tower

        load_tower(folder).encode_text(["a cat"])

    return read


# -- runs ----------------------------------------------------------------------------------------------


@reader("run", ".json", ".safetensors")
def _run(folder: Path) -> Read:
    from workbench.runs import Run

    config = {"tower": "t", "corpus": {"name": "c"}, "seed": 0}
    arrays = {"ranks": np.arange(6).reshape(2, 3), "x": np.float32(3)}
    run = Run(folder, config)
    run.write_cell("sw", arrays)

    def read() -> None:
        again = Run(folder, config)
        again.read_cell("sw")

    return read


@reader("results", ".parquet", ".json", ".csv", cost=10)
def _results(folder: Path) -> Read:
    from analyses.baselines import baseline
    from analyses.checkpoint import checkpoint_table
    from tests.analyses.test_comparison import sweep
    from tests.analyses.test_export import make_run

    frame = sweep()
    make_run(folder, [baseline(frame), checkpoint_table(frame)])
    frame.to_parquet(folder / "results.parquet")

    def read() -> None:
        from analyses.comparison import compare_run
        from analyses.export import export_run, read_figure

        wrong = None
        for part in (
            lambda: compare_run(folder),
            lambda: export_run(folder, ["csv", "tex"], out=folder / "out"),
            *(lambda path=path: read_figure(path) for path in sorted((folder / "figures").glob("*.json"))),
        ):
            try:
                part()
            except InputError as error:
                wrong = error
        if wrong:
            raise wrong

    return read


@reader("trajectory")
def _trajectory(folder: Path) -> Read:
    from tests.analyses.factory import make_corpus
    from workbench.towers import load_tower
    from workbench.trajectory import capture, open_trajectory

    corpus = make_corpus()
    tower = load_tower("emoji-causal")
    capture(tower, corpus, list(corpus.languages)[:2], depths=[0, 6, 12], out=folder, progress=False)

    def read() -> None:
        first = open_trajectory(folder)
        open_trajectory(
            folder, languages=[str(first.language[0].item())], depths=[0], captions=[str(first.caption[0].item())]
        )

    return read


@reader("eraser")
def _eraser(folder: Path) -> Read:
    from interventions.erasers import INLP, LEACE
    from interventions.erasers.store import load_eraser, save_eraser
    from workbench.towers import load_tower

    tower = load_tower("emoji-causal")
    rows = np.random.default_rng(0).standard_normal((60, tower.width)).astype(np.float32)
    labels = np.repeat(["en", "sw", "te"], 20)
    save_eraser(LEACE().fit(rows, labels), folder / "leace.safetensors", tower, 3)
    save_eraser(INLP(2).fit(rows, labels), folder / "inlp.safetensors", tower, 3)

    def read() -> None:
        wrong = None
        for name in ("leace", "inlp"):
            try:
                load_eraser(folder / f"{name}.safetensors", tower, 3).transform(rows)
            except InputError as error:
                wrong = error
        if wrong:
            raise wrong

    return read
