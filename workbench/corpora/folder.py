"""A corpus of your own: a folder with ``captions.jsonl`` and the images that it names.

One line an image::

    {"image": "pictures/0001.jpg", "captions": {"en": "a red bus", "sw": ["basi jekundu", "basi"]}}

``image`` is a path inside the folder, and doubles as the image's id unless the line has an ``"id"``. A
caption is a text or a list of texts. Every line needs every language; ``drop_incomplete`` leaves out the
lines that lack one. A table of your own is read by :mod:`workbench.corpora.table`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from workbench.corpora.base import Corpus
from workbench.corpora.reading import Faults, as_id, checked_text, decode, parse_once
from workbench.corpora.source import Captions, Source, build_corpus
from workbench.errors import InputError
from workbench.language_codes import Codes, codes_of, own_codes
from workbench.parsing import loads

FILE = "captions.jsonl"
_SHAPE = 'A line is {"image": "a.jpg", "captions": {"en": "a text", "sw": "a text"}}.'


@dataclass(frozen=True)
class _Entry:
    image_id: str
    image: str
    captions: Mapping[str, tuple[str, ...]]


def load_folder(folder: str | Path, languages: Iterable[str] | None = None, *, drop_incomplete: bool = False) -> Corpus:
    """Load a folder with ``captions.jsonl``.

    Parameters
    ----------
    folder : str or Path
        The folder, or its ``captions.jsonl``.
    languages : iterable of str, optional
        All languages that any line has, by default.
    drop_incomplete : bool
        Leave out images that lack a caption in one of the languages, instead of refusing the corpus.

    Returns
    -------
    Corpus

    Raises
    ------
    InputError
        If the file is absent, a line is broken, an image is absent or outside the folder, or a caption is
        missing or empty.
    """
    return build_corpus(open_folder(Path(folder), Faults()), languages, drop_incomplete=drop_incomplete)


def folder_languages(folder: str | Path) -> tuple[str, ...]:
    """Return the languages that any line of a corpus folder has."""
    return open_folder(Path(folder), Faults()).languages


def recognises_folder(place: Path) -> bool:
    """Whether this is a corpus folder, or its ``captions.jsonl``."""
    return captions_file(place).is_file()


def captions_file(place: Path) -> Path:
    """Return the captions file of a place that is the folder or the file itself."""
    return place if place.name == FILE else place / FILE


def open_folder(place: Path, faults: Faults) -> Source:
    """Read ``captions.jsonl`` and look for the images that it names."""
    path = captions_file(place)
    if not path.is_file():
        raise InputError(f"{str(path.parent)!r} is no corpus: it has no {FILE}. {_SHAPE}")
    entries, wrong = parse_once(path, _parse)
    faults.extend(wrong)
    if not entries and not wrong:
        raise InputError(f"{str(path)!r} is empty. {_SHAPE}")
    root = path.parent.resolve()
    files: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for entry in entries:
        try:
            files[entry.image_id] = inside(root, entry.image, path)
        except InputError as error:
            missing[entry.image_id] = str(error)
    spelt = dict.fromkeys(language for entry in entries for language in entry.captions)
    named = {own: language for language, own in own_codes(spelt, repr(str(path))).items()}

    def read(language: str, _: Faults) -> Captions:
        return [entry.captions.get(named[language], ()) for entry in entries]

    return Source(
        benchmark=root.name,
        layout=f"folder with {FILE}",
        image_ids=tuple(entry.image_id for entry in entries),
        codes={own: Codes(language, codes_of(own).model) for own, language in named.items()},
        read=read,
        store=files.get,
        missing=missing,
        description=f"{len(entries)} images from {FILE}",
    )


def _parse(content: bytes, path: Path) -> tuple[list[_Entry], list[str]]:
    faults = Faults(strict=False)
    # Not splitlines(): JSON allows U+2028 and its like inside a text, and they end no line.
    lines = [(number, line) for number, line in enumerate(decode(content, path).split("\n"), 1) if line.strip()]
    entries = (_entry(line, f"Line {number} of {str(path)!r}", faults) for number, line in lines)
    return [entry for entry in entries if entry], faults.found


def _entry(line: str, where: str, faults: Faults) -> _Entry | None:
    try:
        entry = loads(line, where)
    except InputError as error:
        faults.add(f"{error} {_SHAPE}")
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("image"), str):
        faults.add(f"{where} names no image. {_SHAPE}")
        return None
    captions = entry.get("captions")
    if not isinstance(captions, dict) or not captions:
        faults.add(f"{where} has no captions. {_SHAPE}")
        return None
    image_id = as_id(entry["id"], where, faults) if "id" in entry else entry["image"]
    texts = {language: read_texts(given, language, where, faults, f" {_SHAPE}") for language, given in captions.items()}
    return None if image_id is None else _Entry(image_id, entry["image"], texts)


def read_texts(given: object, language: str, where: str, faults: Faults, hint: str = "") -> tuple[str, ...]:
    """Read the caption or captions of one image in one language, out of JSON."""
    many = given if isinstance(given, list) else [given]
    checked = (checked_text(text, where, f"a caption in {language!r}", faults, hint) for text in many)
    return tuple(text for text in checked if text is not None)


def inside(root: Path, name: str, path: Path) -> Path:
    """Return the file that a name stands for, if it lies in the folder and exists."""
    try:
        file = (root / name).resolve()
    except (ValueError, OSError) as error:
        raise InputError(f"{str(path)!r} names the image {name!r}, which is no path: {error}.") from None
    if not file.is_relative_to(root):
        raise InputError(f"{str(path)!r} names the image {name!r}, which lies outside the corpus folder.")
    try:
        found = file.is_file()
    except OSError:  # a name of more bytes than the file system takes
        found = False
    if not found:
        raise InputError(f"{str(path)!r} names the image {name!r}, which does not exist.")
    return file
