"""The list of what can be loaded: names, what recognises them on disk, and what reads them.

A module is imported when its benchmark is first asked for.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Kind = Literal["parallel", "texts", "classification", "choices", "triplets"]

KIND_WORDS: Mapping[Kind, str] = {
    "parallel": "retrieval of images and captions",
    "texts": "parallel texts without images",
    "classification": "zero-shot classification",
    "choices": "questions with four answers",
    "triplets": "forced choice between three images",
}

_BUILD: Mapping[Kind, tuple[str, str, tuple[str, ...]]] = {
    "parallel": ("source", "build_corpus", ("subset", "drop_incomplete", "exif", "with_images")),
    "texts": ("source", "build_corpus", ("subset", "drop_incomplete")),
    "classification": ("babel_imagenet", "build_classification", ("prompts", "subset", "exif", "with_images")),
    "choices": ("cvqa", "build_choices", ("template", "variant", "subset", "exif", "with_images")),
    "triplets": ("xcm", "build_triplets", ("subset", "exif", "with_images")),
}


@dataclass(frozen=True)
class Benchmark:
    """Something that can be named in front of a place.

    Attributes
    ----------
    name : str
    kind : str
        What it measures, and so what loading it gives.
    module : str
        Below ``workbench.corpora``.
    opener : str
        Its function that finds the files.
    accepts : tuple of str
        Keyword arguments of the opener that a user may give.
    recognises : str
        Its function that knows its files; empty where it can only be named.
    folders : tuple of str
        Names under which it is looked for below the root of all data.
    given : mapping
        Arguments that the name stands for: a release, a part, a subset.
    size : str
        Images and languages, for a list.
    """

    name: str
    kind: Kind
    module: str
    opener: str
    accepts: tuple[str, ...] = ()
    recognises: str = "recognises"
    folders: tuple[str, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    size: str = ""

    def _function(self, module: str, name: str) -> Callable[..., Any]:
        return getattr(importlib.import_module(f"workbench.corpora.{module}"), name)

    def fits(self, place: Path) -> bool:
        """Whether the files of a place are those of this benchmark."""
        return bool(self.recognises) and bool(self._function(self.module, self.recognises)(place))

    @property
    def open(self) -> Callable[..., Any]:
        """The function that finds the files: ``open(place, faults, **options)``."""
        return self._function(self.module, self.opener)

    @property
    def build(self) -> Callable[..., Any]:
        """The function that makes the corpus: ``build(source, languages, **options)``."""
        module, name, _ = _BUILD[self.kind]
        return self._function(module, name)

    @property
    def build_options(self) -> tuple[str, ...]:
        """Keyword arguments of :attr:`build`."""
        return _BUILD[self.kind][2]

    @property
    def options(self) -> tuple[str, ...]:
        """Every option that loading this benchmark knows."""
        return (*self.accepts, *self.build_options)


_DATA = ("split", "revision")

_ALL = (
    # In the order in which a place is asked whose it is: what has the most telling files comes first.
    Benchmark("3xcm", "triplets", "xcm", "open_3xcm", ("images", "revision"), size="11,723 triplets, 12 languages"),
    Benchmark(
        "babel-imagenet", "classification", "babel_imagenet", "open_babel_imagenet", ("images", "english", *_DATA),
        size="50,000 images, 1,000 classes, 298 or 93 languages",
    ),
    Benchmark(
        "babel-imagenet-298", "classification", "babel_imagenet", "open_babel_imagenet", ("images", "english", *_DATA),
        recognises="", folders=("babel-imagenet",), given={"release": "298"}, size="the list of 298 languages",
    ),
    Benchmark(
        "babel-imagenet-93", "classification", "babel_imagenet", "open_babel_imagenet", ("images", "english", *_DATA),
        recognises="", folders=("babel-imagenet",), given={"release": "93"}, size="the first list, of 93 languages",
    ),
    Benchmark("xtd10", "parallel", "xtd10", "open_xtd10", ("images", *_DATA), size="1,000 images, 11 languages"),
    Benchmark(
        "flickr30k-200", "parallel", "flickr30k200", "open_flickr30k200", ("images", *_DATA),
        size="1,000 images, 201 languages",
    ),
    Benchmark(
        "xtd-200", "parallel", "xtd200", "open_xtd200", ("images", *_DATA), folders=("xtd200",),
        size="1,000 images, 201 languages",
    ),
    Benchmark(
        "flores-200", "texts", "flores200", "open_flores200", ("revision",), folders=("flores200_dataset",),
        size="1,012 sentences, 204 languages",
    ),
    Benchmark(
        "flores-200-dev", "texts", "flores200", "open_flores200", ("revision",), recognises="",
        folders=("flores-200", "flores200_dataset"), given={"split": "dev"}, size="the 997 sentences of its dev part",
    ),
    Benchmark("xm3600", "parallel", "xm3600", "open_xm3600", _DATA, size="3,600 images, 36 languages"),
    Benchmark(
        "xm3600-1k", "parallel", "xm3600", "open_xm3600", _DATA, recognises="", folders=("xm3600",),
        given={"subset": "xm3600-1k"}, size="1,000 of the images of xm3600",
    ),
    Benchmark("cvqa", "choices", "cvqa", "open_cvqa", _DATA, size="10,374 questions, 31 languages"),
    Benchmark("folder", "parallel", "folder", "open_folder", recognises="recognises_folder", size="your own"),
    Benchmark("table", "parallel", "table", "open_table", recognises="table_file", size="your own"),
    Benchmark(
        "dataset", "parallel", "table", "open_dataset", ("config", *_DATA), recognises="is_dataset", size="your own"
    ),
)  # fmt: skip

BENCHMARKS: Mapping[str, Benchmark] = {benchmark.name: benchmark for benchmark in _ALL}
"""Every benchmark by name."""

BUILT_IN = ("emoji-36", "emoji-pseudo")
