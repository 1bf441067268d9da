"""The images of ImageNet's validation set, with the number of each one's class.

A folder a class (``val/n01440764/*.JPEG``), or a data set with ``image`` and ``label``. The number of a class is its
place among the 1,000 sorted WordNet ids, which are listed in ``imagenet_wnids.txt``: counting the folders that are
there would number a folder of some of them wrongly.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path

from workbench.corpora.hub import is_dataset, open_tables
from workbench.corpora.layouts import picture
from workbench.corpora.stores import SUFFIXES, Store
from workbench.errors import InputError

_FOLDERS = ("val", "images", "imagenet/val", "ILSVRC2012/val", ".")

Found = tuple[dict[str, int], Store | None, str]


@lru_cache(maxsize=1)
def wnids() -> tuple[str, ...]:
    """WordNet ids of the 1,000 classes, sorted: the place of one is the number of its class."""
    return tuple(resources.files("workbench.corpora").joinpath("imagenet_wnids.txt").read_text("ascii").split())


def find_imagenet(root: Path, images: str | Path | None, split: str | None, revision: str | None) -> Found:
    """Find the images.

    Parameters
    ----------
    root : Path
        Folder below which they are looked for.
    images : str or Path, optional
        Another folder, a data set, or a hub id, instead.
    split, revision : str, optional
        Of a data set; ``"validation"`` by default.

    Returns
    -------
    classes : dict of str to int
        Image id to the number of its class; empty where nothing was named and nothing found.
    store : Store or None
    origin : str
        Hub id and commit.

    Raises
    ------
    InputError
        If what was named holds no such images.
    """
    if images is not None and is_dataset(images):
        return _dataset_images(images, split, revision)
    places = [root / folder for folder in _FOLDERS] if images is None else [Path(images), Path(images) / "val"]
    known = {wnid: number for number, wnid in enumerate(wnids())}
    for place in places:
        folders = [path for path in sorted(place.iterdir()) if path.name in known] if place.is_dir() else []
        if folders:
            return _folder_images(folders, known)
    if images is not None:
        flat = Path(images).is_dir() and any(Path(images).glob("ILSVRC2012_val_*"))
        raise InputError(
            f"{str(images)!r} has no folder of a class, such as {wnids()[0]}."
            + (" Its images lie side by side; sort them into a folder a class first." if flat else "")
        )
    return {}, None, ""


def _folder_images(folders: Sequence[Path], known: Mapping[str, int]) -> Found:
    files, numbers = {}, {}
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if path.suffix.lower() in SUFFIXES:
                image_id = f"{folder.name}/{path.name}"
                files[image_id], numbers[image_id] = path, known[folder.name]
    return numbers, files.get, ""


def _dataset_images(place: str | Path, split: str | None, revision: str | None) -> Found:
    tables = open_tables(place, split=split, revision=revision)
    table = tables.only(("validation", "val"))
    table.need(["image", "label"])
    labels, absent = table.values("label"), table.absent("image")
    if absent:
        raise InputError(f"{table.where(absent[0])} has no picture, and {len(absent) - 1} others have none either.")
    numbers: dict[str, int] = {}
    for row, label in enumerate(labels):
        if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < len(wnids()):
            raise InputError(
                f"{table.where(row)} has the label {label!r}; labels run from 0 to 999. A hidden label is -1: take the "
                "validation split."
            )
        numbers[f"{row:05d}"] = label

    def find(image_id: str) -> bytes | Path | None:
        return picture(table.cell("image", int(image_id)), None, table.what)

    return numbers, find, tables.origin
