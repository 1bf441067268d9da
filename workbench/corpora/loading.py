"""Find a corpus by what it is called or where it is.

One rule, for Python and for ``--corpus``:

==============  ====================================================================================
``NAME``        ``emoji-36`` or ``emoji-pseudo``, which are built in; or a benchmark, in the folder of its name
                below the root of your data: the argument ``root``, else the environment variable
                ``WORKBENCH_DATA``, else the current folder
``NAME:PLACE``  that benchmark, in a folder, a file, a data set that ``datasets`` saved, or a hub id
``PLACE``       a folder or file whose files tell what it is, your own among them
==============  ====================================================================================

Names are in :mod:`workbench.corpora.benchmarks`; three stand for your own: ``folder``, ``table`` and ``dataset``.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from workbench.corpora.base import Corpus, Protocol, check_protocol
from workbench.corpora.benchmarks import BENCHMARKS, BUILT_IN, KIND_WORDS, Benchmark
from workbench.corpora.reading import Faults
from workbench.errors import InputError, suggest
from workbench.languages import XM3600_LANGUAGES, tiers

if TYPE_CHECKING:
    from workbench.corpora.choices import ChoiceCorpus
    from workbench.corpora.classification import ClassificationCorpus
    from workbench.corpora.triplets import TripletCorpus

    AnyCorpus = Corpus | ClassificationCorpus | ChoiceCorpus | TripletCorpus

ROOT_VARIABLE = "WORKBENCH_DATA"

# An option with its default value may be given to any benchmark; it asks for nothing.
_DEFAULTS = {"drop_incomplete": False, "with_images": True, "prompts": True}


@dataclass(frozen=True)
class Found:
    """A benchmark and where it is."""

    benchmark: Benchmark
    place: str


def find_corpus(name: str | Path, root: str | Path | None = None) -> Found:
    """Resolve a name by the rule of this module; what is built in is not for here.

    Raises
    ------
    InputError
        If nothing goes by the name, or the place holds nothing that is recognised.
    """
    text = str(name)
    if text in BENCHMARKS:
        return _below_root(BENCHMARKS[text], root)
    if _exists(text):
        return Found(recognise_place(Path(text)), text)
    head, colon, place = text.partition(":")
    if colon and head in BENCHMARKS:
        return _named(BENCHMARKS[head], place)
    raise InputError(_unknown(text))


def recognise_place(place: Path) -> Benchmark:
    """Say whose files a place holds.

    Raises
    ------
    InputError
        If it is nobody's.
    """
    for benchmark in BENCHMARKS.values():
        if benchmark.fits(place):
            return benchmark
    raise InputError(
        f"{str(place)!r} is no corpus that is recognised: it has no captions.jsonl, no table captions.csv, .tsv or "
        f".parquet, and not the files of a benchmark. Say what it is with NAME:{place}, where NAME is one of "
        f"{', '.join(BENCHMARKS)}."
    )


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        # Too long, or with a character that no path may have.
        return False


def _named(benchmark: Benchmark, place: str) -> Found:
    from workbench.corpora.hub import is_hub_id

    if not place:
        raise InputError(
            f"'{benchmark.name}:' names no place. Give a folder, such as {benchmark.name}:data/{benchmark.name}."
        )
    if not _exists(place) and not is_hub_id(place):
        raise InputError(
            f"There is no {place!r} to read {benchmark.name} from. Give a folder, a file, or a hub id such as org/name."
        )
    return Found(benchmark, place)


def _below_root(benchmark: Benchmark, root: str | Path | None) -> Found:
    base = Path(root if root is not None else os.environ.get(ROOT_VARIABLE) or ".")
    folders = (benchmark.name, *benchmark.folders)
    for folder in folders:
        if (base / folder).exists():
            return Found(benchmark, str(base / folder))
    looked_for = " or ".join(repr(folder) for folder in folders)
    raise InputError(
        f"The benchmark {benchmark.name!r} is not part of the bench, and {str(base)!r} has no folder {looked_for}. Say "
        f"where it is: {benchmark.name}:FOLDER, or set {ROOT_VARIABLE} to the folder that holds your benchmarks."
    )


def _unknown(name: str) -> str:
    from workbench.corpora.hub import is_hub_id

    known = [*BUILT_IN, *BENCHMARKS]
    head = name.partition(":")[0]
    # A colon says that a benchmark was meant.
    if head == name and ("/" in name or "\\" in name or Path(name).suffix in (".csv", ".tsv", ".jsonl", ".parquet")):
        hub = f" If it is a data set on the hub, say so: dataset:{name}." if is_hub_id(name) else ""
        return f"There is no file or folder {name!r}.{hub} Paths are taken from the folder that the command runs in."
    hub = f" For a data set on the hub say what it is, such as dataset:{name}." if is_hub_id(name) else ""
    return (
        f"No corpus is called {name!r}.{suggest(head, known)}{hub} Give a built-in name ({', '.join(BUILT_IN)}), a "
        f"benchmark and its place as NAME:FOLDER ({', '.join(BENCHMARKS)}), or a folder with captions.jsonl."
    )


def corpus_languages(name: str | Path, *, root: str | Path | None = None, **options: Any) -> tuple[str, ...]:
    """Return the languages that a corpus has, by the bench's codes, without opening its images.

    Parameters
    ----------
    name : str or Path
        As for :func:`load_benchmark`.
    root : str or Path, optional
    **options
        Those that :func:`load_benchmark` takes; what does not bear on languages is left aside.
    """
    if str(name) in BUILT_IN:
        return XM3600_LANGUAGES if str(name) == "emoji-36" else tuple(tiers("pseudo"))
    found = find_corpus(name, root)
    check_options(found.benchmark, options, found.benchmark.options)
    return open_found(found, Faults(), options).languages


def open_found(found: Found, faults: Faults, options: dict[str, Any]) -> Any:
    """Find the files of a benchmark, with the options that bear on that."""
    chosen = {name: options[name] for name in found.benchmark.accepts if options.get(name) is not None}
    given = {name: value for name, value in found.benchmark.given.items() if name not in found.benchmark.build_options}
    place = found.place if found.benchmark.module not in ("folder", "table") else Path(found.place)
    return found.benchmark.open(place, faults, **given, **chosen)


def check_options(benchmark: Benchmark, options: dict[str, Any], legal: Sequence[str]) -> None:
    """Refuse an option that would do nothing; one that asks for nothing may be given to any benchmark."""
    for option, value in options.items():
        if option not in legal and value is not None and value != _DEFAULTS.get(option):
            takes = f"It takes {', '.join(legal)}." if legal else "It takes none."
            raise InputError(f"{benchmark.name} takes no {option!r} here.{suggest(option, legal)} {takes}")


def load_benchmark(
    name: str | Path,
    languages: Iterable[str] | None = None,
    *,
    limit: int | None = None,
    root: str | Path | None = None,
    **options: Any,
) -> "AnyCorpus":
    """Load any benchmark, of whatever kind.

    Parameters
    ----------
    name : str or Path
        By the rule of :mod:`workbench.corpora.loading`.
    languages : iterable of str, optional
        All by default. The bench's codes, the benchmark's own, and aliases such as ``iw``.
    limit : int, optional
        Keep the first ``limit`` images, images a class, questions or triplets.
    root : str or Path, optional
        Folder that holds benchmarks under their names.
    **options
        ``subset``: ``"present"``, a recipe's name, a file of ids, or ids. ``with_images=False``: texts alone.
        ``exif``: ``"apply"`` or ``"ignore"``. ``images``: another folder, or a data set, with the images. ``split``,
        ``revision``, ``config``: of a data set. ``drop_incomplete``: leave out images that lack a caption.
        Classification: ``prompts=False``, ``english``. Questions: ``template``, ``variant``.

    Returns
    -------
    Corpus, ClassificationCorpus, ChoiceCorpus or TripletCorpus
        By the kind of the benchmark.

    Raises
    ------
    InputError
        If there is no such corpus, it is not whole, or an option is not one of its.
    """
    wanted = _wanted(languages)
    if str(name) in BUILT_IN:
        return load_corpus(name, wanted, limit=limit)
    found = find_corpus(name, root)
    benchmark = found.benchmark
    check_options(benchmark, options, benchmark.options)
    source = open_found(found, Faults(), options)
    built = {option: options[option] for option in benchmark.build_options if options.get(option) is not None}
    given = {option: value for option, value in benchmark.given.items() if option in benchmark.build_options}
    return benchmark.build(source, wanted, **{**given, **built}).select(limit=limit)


def load_corpus(
    name: str | Path,
    languages: Iterable[str] | None = None,
    *,
    protocol: Protocol = "first",
    limit: int | None = None,
    drop_incomplete: bool = False,
    root: str | Path | None = None,
    **options: Any,
) -> Corpus:
    """Load a corpus of parallel captions.

    Parameters
    ----------
    name : str or Path
        By the rule of :mod:`workbench.corpora.loading`: ``"emoji-36"``, ``"xm3600:/data/xm3600"``, or a folder.
    languages : iterable of str, optional
        All languages of the corpus by default.
    protocol : {"first", "all"}
        Whether one caption an image or all of them will be ranked.
    limit : int, optional
        Keep the first ``limit`` images.
    drop_incomplete : bool
        Leave out images that lack a caption in one of the languages.
    root : str or Path, optional
        Folder that holds benchmarks under their names.
    **options
        As for :func:`load_benchmark`.

    Raises
    ------
    InputError
        If there is no such corpus, or something in it can't be used.
    """
    check_protocol(protocol)
    wanted = _wanted(languages)
    if str(name) in BUILT_IN:
        for option, value in options.items():
            if value is not None and value != _DEFAULTS.get(option):
                raise InputError(f"{name} takes no {option!r}; it is built in and whole.")
        return _load_built_in(str(name), wanted, protocol).select(limit=limit)
    kind = find_corpus(name, root).benchmark.kind
    if kind not in ("parallel", "texts"):
        raise InputError(
            f"{str(name)!r} is for {KIND_WORDS[kind]} and has no parallel captions. Load it with "
            "workbench.corpora.load_benchmark, or score it with `workbench score`."
        )
    corpus = load_benchmark(name, wanted, limit=limit, root=root, drop_incomplete=drop_incomplete, **options)
    return cast(Corpus, corpus)


def _load_built_in(name: str, languages: list[str] | None, protocol: Protocol) -> Corpus:
    if name == "emoji-pseudo":
        from workbench.corpora.pseudo import load_pseudo

        return load_pseudo(languages)
    from workbench.corpora.emoji36 import load_emoji36

    return load_emoji36(languages, with_keywords=protocol == "all")


def _wanted(languages: Iterable[str] | None) -> list[str] | None:
    if isinstance(languages, str):
        raise InputError(f"The languages came as one text, {languages!r}. Give a list, such as ['en', 'sw'].")
    wanted = None if languages is None else list(languages)
    if wanted is not None and not wanted:
        raise InputError("No language was chosen. Name at least one, or leave the languages out to take all.")
    return wanted
