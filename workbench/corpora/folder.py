"""A corpus of your own: a folder with ``captions.jsonl`` and the images that it names.

One line an image::

    {"image": "pictures/0001.jpg", "captions": {"en": "a red bus", "sw": ["basi jekundu", "basi"]}}

``image`` is a path inside the folder, and doubles as the image's id unless the line has an ``"id"``. A
caption is a text or a list of texts. Every line needs every language; ``drop_incomplete`` leaves out the
lines that lack one.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from PIL.Image import Image

from workbench.corpora.base import Corpus, keep_complete, unknown_language
from workbench.corpora.images import open_image
from workbench.errors import InputError

FILE = "captions.jsonl"
_SHAPE = 'A line is {"image": "a.jpg", "captions": {"en": "a text", "sw": "a text"}}.'


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
    path, entries = _read(folder)
    root = path.parent.resolve()
    known = _languages(entries)
    wanted = known if languages is None else list(dict.fromkeys(languages))
    for language in wanted:
        if language not in known:
            raise InputError(unknown_language(str(path.parent), language, known))
    ids = [image_id for image_id, _, _ in entries]
    captions = {language: [entry.get(language, ()) for _, _, entry in entries] for language in wanted}
    rows, left_out = keep_complete(path.parent.name, ids, captions, drop_incomplete)
    files = {entries[row][0]: _inside(root, entries[row][1], path) for row in rows}

    def open_one(image_id: str) -> Image:
        return open_image(files[image_id])

    def hash_one(image_id: str) -> str:
        return hashlib.sha256(files[image_id].read_bytes()).hexdigest()

    return Corpus(
        name=path.parent.resolve().name,
        image_ids=tuple(ids[row] for row in rows),
        captions={language: tuple(tuple(captions[language][row]) for row in rows) for language in wanted},
        open_image=open_one,
        licence="the user's own",
        description=f"{len(rows)} images from {FILE}",
        image_hash=hash_one,
        left_out=left_out,
    )


def folder_languages(folder: str | Path) -> tuple[str, ...]:
    """Return the languages that any line of a corpus folder has."""
    return tuple(_languages(_read(folder)[1]))


def _read(folder: str | Path) -> tuple[Path, list[tuple[str, str, dict[str, tuple[str, ...]]]]]:
    path = Path(folder)
    path = path if path.name == FILE else path / FILE
    if not path.is_file():
        raise InputError(f"{str(path.parent)!r} is no corpus: it has no {FILE}. {_SHAPE}")
    entries = [_parse(line, number, path) for number, line in _lines(path)]
    if not entries:
        raise InputError(f"{str(path)!r} is empty. {_SHAPE}")
    return path, entries


def _languages(entries: list[tuple[str, str, dict[str, tuple[str, ...]]]]) -> list[str]:
    return list(dict.fromkeys(language for _, _, captions in entries for language in captions))


def _lines(path: Path) -> list[tuple[int, str]]:
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{str(path)!r} is not UTF-8 ({error.reason} at byte {error.start}).") from None
    # Not splitlines(): JSON allows U+2028 and its like inside a text, and they end no line.
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _parse(line: str, number: int, path: Path) -> tuple[str, str, dict[str, tuple[str, ...]]]:
    where = f"Line {number} of {str(path)!r}"
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where} is not JSON ({error}); the file may be truncated. {_SHAPE}") from None
    if not isinstance(entry, dict) or not isinstance(entry.get("image"), str):
        raise InputError(f"{where} names no image. {_SHAPE}")
    captions = entry.get("captions")
    if not isinstance(captions, dict) or not captions:
        raise InputError(f"{where} has no captions. {_SHAPE}")
    texts: dict[str, tuple[str, ...]] = {}
    for language, given in captions.items():
        many = given if isinstance(given, list) else [given]
        if not all(isinstance(text, str) for text in many):
            raise InputError(f"{where} has a caption in {language!r} that is no text. {_SHAPE}")
        if any("\ud800" <= letter <= "\udfff" for text in many for letter in text):
            raise InputError(
                f"{where} has a caption in {language!r} with half a character (a lone surrogate such as "
                "\\ud83d); it was probably cut in the middle of an emoji."
            )
        texts[language] = tuple(many)
    return str(entry.get("id", entry["image"])), entry["image"], texts


def _inside(root: Path, name: str, path: Path) -> Path:
    try:
        file = (root / name).resolve()
    except (ValueError, OSError) as error:
        raise InputError(f"{str(path)!r} names the image {name!r}, which is no path: {error}.") from None
    if not file.is_relative_to(root):
        raise InputError(f"{str(path)!r} names the image {name!r}, which lies outside the corpus folder.")
    if not file.is_file():
        raise InputError(f"{str(path)!r} names the image {name!r}, which does not exist.")
    return file
