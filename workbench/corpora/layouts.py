"""The forms in which a table can hold parallel captions, told apart by its columns.

========================  ==========================================================================
long                      a row a caption: ``image``, ``language``, ``caption``
wide                      a row an image: ``image``, and a column a language, ``en`` or ``caption_en``
nested                    a row an image: ``image``, ``captions``: ``{"en": ["a text"], "sw": ["a text"]}``
a split a language        as ``floschne/xm3600``: in each, a row an image with its ``captions``
========================  ==========================================================================

An ``id`` (or ``image_id``, ``image_key``, …) names the image where its path should not. A column that is neither
is refused, not ignored, unless the languages are marked with ``caption_``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.corpora.folder import inside, read_texts
from workbench.corpora.reading import Faults, as_id
from workbench.corpora.records import Records
from workbench.corpora.source import Captions
from workbench.errors import InputError
from workbench.language_codes import is_column_name, scheme_codes

ID_COLUMNS = ("id", "image_id", "image_key", "image/key", "key", "img_id", "filename", "file_name")
IMAGE_COLUMNS = ("image", "image_path", "path", "file_name", "filename")
CAPTION_COLUMNS = ("captions", "caption", "sentence", "text")
LANGUAGE_COLUMNS = ("language", "lang", "locale")
PREFIXES = ("caption_", "captions_", "sentence_")

FORMS = (
    "A table has an image column and either language and caption columns (long form), or a column a language, named by "
    "its code or caption_CODE (wide form)."
)


@dataclass
class Layout:
    """What was found in a table.

    Attributes
    ----------
    form : str
    ids : list of str
        Images, in order of appearance.
    captions : dict
        A language as the table writes it, to image id, to captions.
    pictures : dict
        Image id to the table, column and row of its picture; empty for texts without images.
    ignored : list of str
        Columns that were not read.
    """

    form: str
    ids: list[str] = field(default_factory=list)
    captions: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    pictures: dict[str, tuple[Records, str, int]] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def see(self, image_id: str) -> None:
        """Take note of an image, with or without captions."""
        if image_id not in self._seen:
            self._seen.add(image_id)
            self.ids.append(image_id)

    def add(self, image_id: str, language: str, texts: tuple[str, ...]) -> None:
        """Add captions of an image, after those that it has."""
        of_language = self.captions.setdefault(language, {})
        of_language[image_id] = of_language.get(image_id, ()) + texts

    def texts(self, language: str) -> Captions:
        """For each image, its captions in a language."""
        found = self.captions[language]
        return [found.get(image_id, ()) for image_id in self.ids]


def read_layout(tables: Mapping[str, Records], scheme: str | None, faults: Faults) -> Layout:
    """Read parallel captions out of one table, or out of one for each language.

    Parameters
    ----------
    tables : mapping of str to Records
        By name of the split.
    scheme : str, optional
        Whose codes name the languages; the bench's, FLORES-200's and their aliases by default.
    faults : Faults

    Raises
    ------
    InputError
        If no form fits.
    """
    caption = [table.first(CAPTION_COLUMNS) for table in tables.values()]
    if len(tables) > 1 and all(is_code(name, scheme) for name in tables) and all(caption):
        return _split_a_language(tables, faults)
    if len(tables) > 1:
        raise InputError(
            f"There are {len(tables)} splits ({', '.join(tables)}) that are no languages. Name one: "
            f"split={next(iter(tables))!r}."
        )
    table = next(iter(tables.values()))
    column, language = caption[0], table.first(LANGUAGE_COLUMNS)
    if column and language:
        return _long(table, language, column, faults)
    if column == "captions" and any(isinstance(value, dict) for value in table.values(column)):
        return _nested(table, column, faults)
    return _wide(table, scheme, faults)


def is_code(name: str, scheme: str | None) -> bool:
    """Whether a name is a code of a benchmark's scheme or, without one, a code that the bench knows."""
    return is_column_name(name) or (scheme is not None and name in scheme_codes(scheme))


class _Ids:
    """Ids and pictures of the rows of one table."""

    def __init__(self, table: Records, layout: Layout, faults: Faults) -> None:
        self.table, self.layout, self.faults = table, layout, faults
        self.column = table.first(ID_COLUMNS)
        self.image = table.first(IMAGE_COLUMNS)
        names = self.column or self.image
        self.values = table.values(names) if names else [str(row + 1) for row in range(table.n)]

    @property
    def used(self) -> set[str]:
        return {name for name in (self.column, self.image) if name}

    def of(self, row: int) -> str | None:
        """Return the id of a row, and remember where its picture is."""
        value = self.values[row]
        if isinstance(value, dict):
            value = value.get("path")
        if isinstance(value, bytes) or value is None:
            self.faults.add(
                f"{self.table.where(row)} has no id for its image. Add a column 'id' with a name for each image."
            )
            return None
        image_id = as_id(value, self.table.where(row), self.faults)
        if image_id is None:
            return None
        self.layout.see(image_id)
        if self.image:
            first = self.layout.pictures.setdefault(image_id, (self.table, self.image, row))
            self._same_picture(first, row, image_id)
        return image_id

    def _same_picture(self, first: tuple[Records, str, int], row: int, image_id: str) -> None:
        table, column, there = first
        if table is not self.table or row == there or self.column is None or column == self.column:
            return
        here = table.cell(column, row)
        if isinstance(here, str) and here != table.cell(column, there):
            self.faults.add(
                f"{table.where(row)} gives the id {image_id!r} the image {here!r}, and {table.where(there)} gave it "
                f"{table.cell(column, there)!r}."
            )


def _long(table: Records, language: str, caption: str, faults: Faults) -> Layout:
    layout = Layout("long")
    ids = _Ids(table, layout, faults)
    rows = zip(table.values(language), table.values(caption), strict=True)
    for row, (code, given) in enumerate(rows):
        image_id, where = ids.of(row), table.where(row)
        if not isinstance(code, str) or not code.strip():
            faults.add(f"{where} names no language but {code!r}.")
        elif image_id is not None:
            layout.add(image_id, code, read_texts(given, code, where, faults))
    layout.ignored = [name for name in table.columns if name not in {*ids.used, language, caption}]
    return layout


def _nested(table: Records, column: str, faults: Faults) -> Layout:
    layout = Layout("nested")
    ids = _Ids(table, layout, faults)
    for row, given in enumerate(table.values(column)):
        image_id, where = ids.of(row), table.where(row)
        if not isinstance(given, dict):
            faults.add(f"{where} has no captions.")
        elif image_id is not None:
            # An Arrow struct has a null for each language that a row lacks.
            for language, texts in given.items():
                if texts is not None:
                    _once(layout, image_id, language, where, faults)
                    layout.add(image_id, language, read_texts(texts, language, where, faults))
    layout.ignored = [name for name in table.columns if name not in {*ids.used, column}]
    return layout


def _wide(table: Records, scheme: str | None, faults: Faults) -> Layout:
    layout = Layout("wide")
    prefix = next((p for p in PREFIXES if any(name.startswith(p) and name != p for name in table.columns)), None)
    named_id = next((name for name in table.columns if name.strip().lower() == "id"), None)
    if prefix is None and named_id:
        raise InputError(
            f"{table.what} has a column {named_id!r}, which may be the image's id or Indonesian. Call it image_id, or "
            "name the captions of a language caption_CODE, such as caption_id."
        )
    ids = _Ids(table, layout, faults)
    rest = [name for name in table.columns if name not in ids.used]
    if prefix:
        languages = {name: name.removeprefix(prefix) for name in rest if name.startswith(prefix) and name != prefix}
        layout.ignored = [name for name in rest if name not in languages]
    else:
        languages = {name: name for name in rest if is_code(name, scheme)}
        for name in rest:
            if name not in languages:
                faults.add(
                    f"{table.what} has the column {name!r}, which is no language code. Name the captions of a language "
                    f"caption_CODE, such as caption_{name}, and other columns are left alone. {FORMS}"
                )
    if not languages:
        raise InputError(f"{table.what} has no captions; its columns are {', '.join(table.columns)}. {FORMS}")
    cells = {language: table.values(column) for column, language in languages.items()}
    for row in range(table.n):
        image_id, where = ids.of(row), table.where(row)
        for language, values in cells.items():
            given = values[row]
            if image_id is not None and given is not None and not (table.blank_is_absent and given == ""):
                _once(layout, image_id, language, where, faults)
                layout.add(image_id, language, read_texts(given, language, where, faults))
    for language in cells:
        layout.captions.setdefault(language, {})
    return layout


def _once(layout: Layout, image_id: str, language: str, where: str, faults: Faults) -> None:
    if layout.captions.get(language, {}).get(image_id):
        faults.add(f"{where} describes the image {image_id!r} a second time in {language!r}. One row an image, please.")


def _split_a_language(tables: Mapping[str, Records], faults: Faults) -> Layout:
    layout = Layout("a split a language")
    for language, table in tables.items():
        ids = _Ids(table, layout, faults)
        caption = table.first(CAPTION_COLUMNS) or ""
        for row, given in enumerate(table.values(caption)):
            image_id, where = ids.of(row), table.where(row)
            if image_id is not None:
                _once(layout, image_id, language, where, faults)
                layout.add(image_id, language, read_texts(given, language, where, faults))
        layout.ignored = [name for name in table.columns if name not in {*ids.used, caption}]
    return layout


def picture(value: Any, root: Path | None, what: str) -> bytes | Path:
    """Return the encoded picture that a cell holds or names.

    Parameters
    ----------
    value : bytes, str or dict
        The file's content, its path, or ``{"bytes": …, "path": …}`` as the ``datasets`` library stores it.
    root : Path, optional
        Folder that a path must lie in; without one only what ``datasets`` itself wrote may be a path.
    what : str
        How errors name the table.

    Raises
    ------
    InputError
        If there is no picture, or its path leads elsewhere.
    """
    if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
        return value["bytes"]
    if isinstance(value, bytes):
        return value
    path = value.get("path") if isinstance(value, dict) else value
    if isinstance(path, str) and root is not None:
        return inside(root, path, Path(what))
    if isinstance(path, str) and isinstance(value, dict) and Path(path).is_file():
        return Path(path)
    raise InputError(f"{what} has no picture here, but {value!r}.")
