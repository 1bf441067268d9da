"""Crossmodal-3600: 3,600 photos, each described by people in 36 languages, about twice (S3-17).

As distributed: ``captions.jsonl``, one line an image, and ``images/<key>.jpg``. A line has ``image/key``,
``image/locale`` (where the photo was picked) and one object a language whose ``caption`` is a list. Some copies
wrap the languages into a ``captions`` object; both are read. The captions are descriptions, not translations,
so a language may have other numbers of them than another: Bengali has one an image, Māori about 1.3.

One-character captions are real (fi, ja, ko, zh), and 1,447 captions repeat another of their language, which no
tower can tell apart; a check counts them. From the ``datasets`` library: ``floschne/xm3600``, a split a language.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.corpora.folder import read_texts
from workbench.corpora.hub import is_dataset, open_tables
from workbench.corpora.reading import Faults, as_id, decode, parse_once
from workbench.corpora.source import Captions, Source
from workbench.corpora.stores import folder_store
from workbench.corpora.table import source_of_tables
from workbench.errors import InputError
from workbench.language_codes import Codes, bench_code, codes_of, scheme_codes
from workbench.parsing import loads

NAME = "xm3600"
IMAGES = 3600
LICENCE = "captions CC BY 4.0, images CC BY 2.0"
DESCRIPTION = "3,600 photos described in 36 languages (Crossmodal-3600)"
FILE = "captions.jsonl"
FOLDERS = ("images", ".")
_KEY, _LOCALE = "image/key", "image/locale"


@dataclass(frozen=True)
class _Entry:
    key: str
    captions: Mapping[str, tuple[str, ...]]


def captions_file(place: Path) -> Path:
    """Return the captions file of a place that is the folder or the file itself."""
    return place if place.name == FILE else place / FILE


def recognises(place: Path) -> bool:
    """Whether the first line of ``captions.jsonl`` is one of Crossmodal-3600."""
    path = captions_file(place)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return f'"{_KEY}"'.encode() in file.readline(65536)


def open_xm3600(
    place: Path | str, faults: Faults, *, split: str | None = None, revision: str | None = None, images: int = IMAGES
) -> Source:
    """Find Crossmodal-3600 in a folder or in a data set.

    Parameters
    ----------
    place : Path or str
        Folder, its ``captions.jsonl``, a saved data set, or a hub id.
    faults : Faults
    split, revision : str, optional
        Of a data set.
    images : int
        Images that a whole copy has.
    """
    if not captions_file(Path(place)).is_file() and is_dataset(place):
        tables = open_tables(place, split=split, revision=revision)
        return source_of_tables(
            NAME, tables.splits, faults, scheme="xm3600", kind="data set", published=images, licence=LICENCE,
            description=DESCRIPTION, exif="ignore", origin=tables.origin,
        )  # fmt: skip
    path = captions_file(Path(place))
    entries, wrong = parse_once(path, _parse)
    faults.extend(wrong)
    if not entries:
        raise InputError(f"{str(path)!r} has no line of Crossmodal-3600: a line has {_KEY!r} and an object a language.")
    ids = tuple(entry.key for entry in entries)
    store = folder_store(ids, path.parent, FOLDERS, lambda key: f"{key}.jpg")
    named = dict.fromkeys(language for entry in entries for language in entry.captions)
    codes = {bench_code(language, "xm3600"): language for language in named}

    def read(language: str, _: Faults) -> Captions:
        return [entry.captions.get(codes[language], ()) for entry in entries]

    return Source(
        benchmark=NAME,
        layout=f"Crossmodal-3600 folder with {FILE}",
        image_ids=ids,
        codes={own: Codes(theirs, codes_of(own).model) for own, theirs in codes.items()},
        read=read,
        store=store.get,
        missing={key: f"There is no images/{key}.jpg." for key in ids if key not in store},
        published=images,
        licence=LICENCE,
        description=DESCRIPTION,
        exif="ignore",
    )


def _parse(content: bytes, path: Path) -> tuple[list[_Entry], list[str]]:
    faults = Faults(strict=False)
    lines = [(number, line) for number, line in enumerate(decode(content, path).split("\n"), 1) if line.strip()]
    entries = [_entry(line, f"Line {number} of {str(path)!r}", faults) for number, line in lines]
    return [entry for entry in entries if entry], faults.found


def _entry(line: str, where: str, faults: Faults) -> _Entry | None:
    try:
        entry = loads(line, where)
    except InputError as error:
        faults.add(str(error))
        return None
    if not isinstance(entry, dict) or _KEY not in entry:
        faults.add(f"{where} has no {_KEY!r}, so it is no line of Crossmodal-3600.")
        return None
    key = as_id(entry[_KEY], where, faults)
    if key is None:
        return None
    if Path(key).name != key:
        faults.add(f"{where} has the key {key!r}, which is no plain file name.")
        return None
    return _Entry(key, _captions(entry, where, faults))


def _captions(entry: dict[str, Any], where: str, faults: Faults) -> dict[str, tuple[str, ...]]:
    wrapped = entry.get("captions")
    given = wrapped if isinstance(wrapped, dict) else entry
    found = {}
    for language, value in given.items():
        if language in (_KEY, _LOCALE, "captions"):
            continue
        # "caption/tokenized" and its lower-cased twin lie beside "caption" and are not for reading.
        texts = value.get("caption") if isinstance(value, dict) else value
        if texts is None or language not in scheme_codes("xm3600"):
            faults.add(
                f"{where} has the entry {language!r}, which is no language of Crossmodal-3600 with a list 'caption'."
            )
            continue
        found[language] = read_texts(texts, language, where, faults)
    return found
