"""Benchmarks of one text file a language, whose line i describes line i of a list of names.

The line number is all that holds the languages together, so a file of another length is refused: a caption
would otherwise silently describe its neighbour's image. Lines may end as on Windows, and a last line in nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from workbench.corpora.hub import is_dataset, open_tables
from workbench.corpora.layouts import picture
from workbench.corpora.reading import Faults, decode, parse_once, split_lines
from workbench.corpora.records import Records
from workbench.corpora.source import Captions
from workbench.corpora.stores import Store, folder_store
from workbench.errors import InputError

CAPTION_RULE = "one a line, line ends removed"
_FOLDERS = ("images", "flickr30k-images", "train2014", "val2014", "images/train2014", "images/val2014", ".")


def read_names(path: Path, faults: Faults) -> tuple[str, ...]:
    """Read a list of image file names, one a line."""
    names = [line.strip() for line in parse_once(path, _lines)]
    kept = []
    for number, name in enumerate(names, 1):
        if not name or Path(name).name != name:
            faults.add(f"Line {number} of {str(path)!r} is {name!r}, which is no plain file name of an image.")
        else:
            kept.append(name)
    if not kept:
        raise InputError(f"{str(path)!r} names no image.")
    return tuple(kept)


def line_reader(files: Mapping[str, Path], ids: Sequence[str], names: Path | None) -> Callable[[str, Faults], Captions]:
    """Return what reads the captions of one language.

    Parameters
    ----------
    files : mapping of str to Path
        By language.
    ids : sequence of str
        As many as each file must have lines.
    names : Path, optional
        The file that holds them, for the error.
    """

    def read(language: str, faults: Faults) -> Captions:
        path = files[language]
        lines = parse_once(path, _lines)
        if len(lines) != len(ids):
            than = f"{str(names)!r} names {len(ids):,} images" if names else f"{len(ids):,} are expected"
            faults.add(
                f"{str(path)!r} has {len(lines):,} lines, and {than}. The line number is what ties a caption to its "
                "image, so nothing in this file can be trusted; download it again."
            )
        captions: list[tuple[str, ...]] = [(line,) if line.strip() else () for line in lines[: len(ids)]]
        return [*captions, *[()] * (len(ids) - len(captions))]

    return read


def line_count(path: Path) -> int:
    """Return how many lines a text file has."""
    return len(parse_once(path, _lines))


def _lines(content: bytes, path: Path) -> list[str]:
    return split_lines(decode(content, path))


def find_images(ids: Sequence[str], root: Path, images: str | Path | None) -> tuple[Store, dict[str, str]]:
    """Find the images of a list of file names.

    Parameters
    ----------
    ids : sequence of str
        File names.
    root : Path
        Folder of the benchmark.
    images : str or Path, optional
        Another folder, or a data set with the columns ``filename`` and ``image`` (``nlphuji/flickr30k``).

    Returns
    -------
    store : Store
    missing : dict of str to str
        Ids without an image, and where it was looked for.
    """
    if images is not None and is_dataset(images):
        return _dataset_images(ids, images)
    place = root if images is None else Path(images)
    if not place.is_dir():
        raise InputError(f"There is no folder {str(place)!r} with images.")
    found = folder_store(ids, place, _FOLDERS)
    return found.get, {
        name: f"It was looked for in {place.name}/images and the like." for name in ids if name not in found
    }


def _dataset_images(ids: Sequence[str], images: str | Path) -> tuple[Store, dict[str, str]]:
    table = open_tables(images).only()
    names, column = table.first(("filename", "file_name", "image_id", "id")), table.first(("image",))
    if names is None or column is None:
        raise InputError(
            f"{table.what} has the columns {', '.join(table.columns)}; images need 'filename' and 'image'."
        )
    rows = {str(name): row for row, name in enumerate(table.values(names))}
    absent = set(table.absent(column))
    missing = {name: f"{table.what} has no such row." for name in ids if rows.get(name, -1) in {-1, *absent}}
    return _cells(table, column, rows), missing


def _cells(table: Records, column: str, rows: Mapping[str, int]) -> Store:
    def find(image_id: str) -> bytes | Path | None:
        return picture(table.cell(column, rows[image_id]), None, table.what) if image_id in rows else None

    return find
