"""A table of your own: CSV, TSV, JSON Lines or Parquet, with images and their captions by language.

Long form, a row a caption, so that an image may have several in a language::

    image,language,caption
    pictures/0001.jpg,en,a red bus
    pictures/0001.jpg,sw,basi jekundu

Wide form, a row an image, and a column a language::

    image,en,sw
    pictures/0001.jpg,a red bus,basi jekundu

Paths are relative to the table. Parquet may hold the pictures themselves, as the ``datasets`` library stores
them. A table without an image column is a corpus of texts, such as parallel captions for training (S3-23).
"""

from collections.abc import Mapping
from pathlib import Path

from workbench.corpora.hub import is_dataset, open_tables
from workbench.corpora.images import Exif
from workbench.corpora.layouts import Layout, picture, read_layout
from workbench.corpora.reading import Faults
from workbench.corpora.records import TABLE_SUFFIXES, Records, read_table
from workbench.corpora.source import Captions, Source
from workbench.corpora.stores import Store
from workbench.errors import InputError
from workbench.language_codes import Codes, codes_of, own_codes

STEM = "captions"
__all__ = ["is_dataset", "open_dataset", "open_table", "source_of_tables", "table_file"]


def table_file(place: Path) -> Path | None:
    """Return the table that a place is, or holds under the name ``captions``; None if there is none."""
    if place.suffix.lower() in TABLE_SUFFIXES and place.is_file():
        return place
    if not place.is_dir():
        return None
    found = [path for suffix in TABLE_SUFFIXES if (path := place / f"{STEM}{suffix}").is_file()]
    if len(found) > 1:
        raise InputError(f"{str(place)!r} has {' and '.join(path.name for path in found)}. Name the one that is meant.")
    return found[0] if found else None


def open_table(place: Path, faults: Faults) -> Source:
    """Read a table of parallel captions."""
    path = table_file(place)
    if path is None:
        raise InputError(
            f"{str(place)!r} is no table. Give a file that ends in {', '.join(TABLE_SUFFIXES)}, or a folder with a "
            f"file {STEM} of such a kind."
        )
    records = read_table(path)
    if records.n == 0:
        raise InputError(f"{str(path)!r} is empty: it has no row below the names of its columns.")
    name = path.resolve().parent.name if path.stem == STEM else path.stem
    return source_of_tables(
        name, {path.stem: records}, faults, root=path.parent.resolve(), kind=f"table {path.suffix[1:]}"
    )


def source_of_tables(
    benchmark: str,
    tables: Mapping[str, Records],
    faults: Faults,
    *,
    root: Path | None = None,
    scheme: str | None = None,
    kind: str = "table",
    published: int | None = None,
    licence: str = "the user's own",
    description: str = "",
    exif: Exif = "apply",
    origin: str = "",
) -> Source:
    """Turn tables in any of the forms of :mod:`workbench.corpora.layouts` into a source.

    Parameters
    ----------
    benchmark : str
    tables : mapping of str to Records
        By split.
    faults : Faults
    root : Path, optional
        Folder that image paths are relative to.
    scheme : str, optional
        Whose codes name the languages. The languages go by the bench's codes, however the table spells them.
    kind, published, licence, description, exif, origin
        See :class:`~workbench.corpora.source.Source`.
    """
    layout = read_layout(tables, scheme, faults)
    if not layout.captions:
        raise InputError(f"{next(iter(tables.values())).what} has no caption in any language.")
    spelt = own_codes(layout.captions, next(iter(tables.values())).what, scheme)
    named = {own: language for language, own in spelt.items()}
    codes = {own: Codes(language, codes_of(own).model) for own, language in named.items()}
    missing = _missing(layout, root)

    def read(language: str, _: Faults) -> Captions:
        return layout.texts(named[language])

    notes = [note for records in tables.values() for note in records.notes]
    ignored = f"columns that are not read: {', '.join(layout.ignored)}" if layout.ignored else ""
    return Source(
        benchmark=benchmark,
        layout=f"{kind}, {layout.form} form",
        image_ids=tuple(layout.ids),
        codes=codes,
        read=read,
        store=_store(layout, root) if layout.pictures else None,
        missing=missing,
        published=published,
        licence=licence,
        description=description or f"{len(layout.ids)} {'images' if layout.pictures else 'texts'} from a {kind}",
        exif=exif,
        origin=origin,
        notes=(*([ignored] if ignored else []), *notes),
    )


def _store(layout: Layout, root: Path | None) -> Store:
    def find(image_id: str) -> bytes | Path | None:
        if image_id not in layout.pictures:
            return None
        table, column, row = layout.pictures[image_id]
        return picture(table.cell(column, row), root, table.what)

    return find


def _missing(layout: Layout, root: Path | None) -> dict[str, str]:
    """Ids without a picture. Pictures inside a table are only asked whether they are null, not read."""
    absent: dict[tuple[int, str], set[int]] = {}
    paths: dict[tuple[int, str], bool] = {}
    missing = {}
    for image_id, (table, column, row) in layout.pictures.items():
        key = (id(table), column)
        if key not in absent:
            absent[key] = set(table.absent(column))
            paths[key] = root is not None and table.is_text(column)
        if row in absent[key]:
            missing[image_id] = f"{table.where(row)} has no picture."
        elif paths[key]:
            try:
                picture(table.cell(column, row), root, table.what)
            except InputError as error:
                missing[image_id] = str(error)
    return missing


def open_dataset(
    place: Path | str,
    faults: Faults,
    *,
    config: str | None = None,
    split: str | None = None,
    revision: str | None = None,
) -> Source:
    """Read a data set of the ``datasets`` library that has one of the forms of a table."""
    tables = open_tables(place, config=config, split=split, revision=revision)
    name = tables.origin.partition("@")[0] or Path(place).resolve().name
    return source_of_tables(name, tables.splits, faults, kind="data set", origin=tables.origin)
