"""Where the images of a benchmark are: files in folders, or the rows of a data set.

A store gives an id's encoded image as bytes or as a file, or None where there is none; how it is opened
(:mod:`workbench.corpora.images`) does not depend on where it was. Files are looked up in a listing of their
folders, once, and not by joining a path with a name that some file holds.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from PIL.Image import Image

from workbench.corpora.images import Exif, check_exif, open_image
from workbench.errors import InputError

Store = Callable[[str], "bytes | Path | None"]
"""Gives the encoded image of an id, or None."""

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp")


def list_files(root: Path, folders: Iterable[str]) -> dict[str, Path]:
    """Return ``{file name: path}`` of some folders below a root; the first folder that has a name wins."""
    found: dict[str, Path] = {}
    for folder in folders:
        place = root / folder
        if place.is_dir():
            for path in sorted(place.iterdir()):
                if path.name not in found and path.is_file():
                    found[path.name] = path
    return found


def folder_store(
    image_ids: Sequence[str], root: Path, folders: Iterable[str], name_of: Callable[[str], str] = str
) -> dict[str, Path]:
    """Find the files of some images.

    Parameters
    ----------
    image_ids : sequence of str
    root : Path
    folders : iterable of str
        Below the root, in the order in which they are searched.
    name_of : callable
        File name of an id.

    Returns
    -------
    dict of str to Path
        Without the ids whose file is absent.
    """
    files = list_files(root, folders)
    named = ((image_id, files.get(name_of(image_id))) for image_id in image_ids)
    return {image_id: path for image_id, path in named if path is not None}


def any_suffix(files: Mapping[str, Path], stem: str) -> Path | None:
    """Return the image file of a stem, whatever its suffix."""
    for suffix in SUFFIXES:
        for name in (stem + suffix, stem + suffix.upper()):
            if name in files:
                return files[name]
    return None


class Opener:
    """Opens and hashes the images of a store, under one EXIF policy.

    Parameters
    ----------
    store : Store
    exif : {"apply", "ignore"}
    """

    def __init__(self, store: Store, exif: Exif) -> None:
        self._store = store
        self._exif: Exif = check_exif(exif)
        self._hashes: dict[str, str] = {}

    def open(self, image_id: str) -> Image:
        """Open the image of an id as RGB."""
        return open_image(self._source(image_id), f"image {image_id}", self._exif)

    def hash(self, image_id: str) -> str:
        """SHA-256 of the encoded image."""
        if image_id not in self._hashes:
            source = self._source(image_id)
            content = source if isinstance(source, bytes) else source.read_bytes()
            self._hashes[image_id] = hashlib.sha256(content).hexdigest()
        return self._hashes[image_id]

    def _source(self, image_id: str) -> bytes | Path:
        source = self._store(image_id)
        if source is None:
            raise InputError(f"The image {image_id!r} is not here. Check the corpus with `workbench corpora check`.")
        return source


def no_image(image_id: str) -> Image:
    """Stand in for ``open_image`` where there are texts only."""
    raise InputError(f"{image_id!r} is a text of a corpus without images; there is nothing to open.")
