"""FLORES-200: sentences of web articles, translated by people into 204 languages. Texts only, no images (S3-22).

As distributed: ``dev/swh_Latn.dev`` (997 lines) and ``devtest/swh_Latn.devtest`` (1,012). Line i is the same sentence
in every file, and that is all that aligns them. Token counts and the comparison of languages inside a tower
use ``devtest``. From the ``datasets`` library: ``facebook/flores``, a configuration a language with the column
``sentence``, or one with a column ``sentence_swh_Latn`` a language.

The Tamazight text (``tzm_Tfng``) is known to be another language, Standard Moroccan Tamazight.
"""

from collections.abc import Callable
from pathlib import Path

from workbench.corpora.hub import config_names, is_dataset, is_saved, open_tables
from workbench.corpora.parallel_lines import CAPTION_RULE, line_count, line_reader
from workbench.corpora.reading import Faults
from workbench.corpora.source import Captions, Source
from workbench.corpora.table import source_of_tables
from workbench.errors import InputError, suggest
from workbench.language_codes import Codes, codes_of, scheme_codes

NAME = "flores-200"
SENTENCES = {"dev": 997, "devtest": 1012}
LICENCE = "CC BY-SA 4.0"
DESCRIPTION = "sentences of web articles in 204 languages (FLORES-200), texts only"


def recognises(place: Path) -> bool:
    """Whether a folder has ``dev`` or ``devtest`` with a file named by a FLORES-200 code."""
    return any(_files(place, split) for split in SENTENCES)


def _files(place: Path, split: str) -> dict[str, Path]:
    known = scheme_codes("flores")
    return {path.stem: path for path in sorted((place / split).glob(f"*.{split}")) if path.stem in known}


def open_flores200(
    place: Path | str,
    faults: Faults,
    *,
    split: str | None = None,
    revision: str | None = None,
    published: int | None = None,
) -> Source:
    """Find FLORES-200 in a folder or a data set.

    Parameters
    ----------
    place : Path or str
    faults : Faults
    split : {"devtest", "dev"}, optional
        ``"devtest"`` by default.
    revision : str, optional
    published : int, optional
        Sentences of a whole copy; those of the split by default.
    """
    part = split or "devtest"
    if part not in SENTENCES:
        raise InputError(f"FLORES-200 has no part {part!r}.{suggest(part, SENTENCES)} Use 'devtest' or 'dev'.")
    root, whole = Path(place), SENTENCES[part] if published is None else published
    if not recognises(root) and is_dataset(place):
        return _dataset(place, part, faults, whole, revision)
    files = _files(root, part)
    if not files:
        raise InputError(
            f"{str(place)!r} has no file such as {part}/eng_Latn.{part}, so it is no copy of the {part} part of "
            "FLORES-200."
        )
    # The English file, or the first, says how many sentences there are; each file is held to it when it is read.
    measure = files.get("eng_Latn", next(iter(files.values())))
    ids = tuple(f"{part}-{number + 1:04d}" for number in range(line_count(measure)))
    own = {scheme_codes("flores")[code]: code for code in files}
    return _source(
        f"FLORES-200 folder, {part}", ids, own, whole,
        line_reader({code: files[theirs] for code, theirs in own.items()}, ids, None),
    )  # fmt: skip


def _source(
    layout: str,
    ids: tuple[str, ...],
    own: dict[str, str],
    published: int,
    read: Callable[[str, Faults], Captions],
    origin: str = "",
) -> Source:
    return Source(
        benchmark=NAME,
        layout=layout,
        image_ids=ids,
        codes={code: Codes(theirs, codes_of(code).model) for code, theirs in own.items()},
        read=read,
        store=None,
        published=published,
        licence=LICENCE,
        description=DESCRIPTION,
        caption_rule=CAPTION_RULE,
        origin=origin,
    )


def _dataset(place: Path | str, part: str, faults: Faults, published: int, revision: str | None) -> Source:
    known = scheme_codes("flores")
    configs = [] if is_saved(place) else [name for name in config_names(place, revision) if name in known]
    if not configs:
        tables = open_tables(place, revision=revision)
        return source_of_tables(
            NAME, {part: tables.only((part,))}, faults, scheme="flores", kind=f"data set, {part}", published=published,
            licence=LICENCE, description=DESCRIPTION, origin=tables.origin,
        )  # fmt: skip
    own = {known[code]: code for code in configs}

    def column(code: str) -> tuple[list[str], str]:
        tables = open_tables(place, config=code, split=part, revision=revision)
        table = tables.only((part,))
        table.need(["sentence"])
        return table.values("sentence"), tables.origin

    sentences, origin = column(own.get("en", configs[0]))
    ids = tuple(f"{part}-{number + 1:04d}" for number in range(len(sentences)))

    def read(language: str, faults: Faults) -> Captions:
        texts, _ = column(own[language])
        if len(texts) != len(ids):
            faults.add(f"{own[language]} of {place} has {len(texts):,} sentences, and {len(ids):,} are expected.")
        return [(text,) for text in texts[: len(ids)]] + [()] * max(0, len(ids) - len(texts))

    return _source(f"data set with a configuration a language, {part}", ids, own, published, read, origin)
