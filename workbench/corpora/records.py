"""Rows with named columns, whatever file or library they come from: CSV, TSV, JSON Lines, Parquet, ``datasets``.

Columns are read when they are asked for. Pictures inside a table are looked at one cell at a time, so that a
gallery is never held in memory twice.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.corpora.reading import Delimited, decode, parse_once, read_csv
from workbench.errors import InputError, suggest
from workbench.packed import parquet_columns, read_parquet
from workbench.parsing import loads

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")


class Records(ABC):
    """Rows with named columns.

    Attributes
    ----------
    what : str
        How errors name the table.
    columns : tuple of str
    n : int
        Rows.
    blank_is_absent : bool
        Whether an empty cell means that there is nothing: in CSV it can't mean anything else.
    notes : tuple of str
        What a check should mention and is no fault.
    """

    what: str
    columns: tuple[str, ...]
    n: int
    blank_is_absent = False
    notes: tuple[str, ...] = ()

    @abstractmethod
    def values(self, column: str) -> list[Any]:
        """All values of a column."""

    @abstractmethod
    def cell(self, column: str, row: int) -> Any:
        """One value."""

    @abstractmethod
    def absent(self, column: str) -> list[int]:
        """Rows in which a column holds nothing."""

    @abstractmethod
    def is_text(self, column: str) -> bool:
        """Whether a column holds texts, and not pictures."""

    def where(self, row: int) -> str:
        """Name a row for an error."""
        return f"Row {row + 1} of {self.what}"

    def first(self, names: Sequence[str]) -> str | None:
        """Return the first of some column names that the table has."""
        return next((name for name in names if name in self.columns), None)

    def need(self, names: Sequence[str]) -> None:
        """Refuse a table that lacks a column."""
        for name in names:
            if name not in self.columns:
                raise InputError(
                    f"{self.what} has no column {name!r}.{suggest(name, self.columns)} It needs {', '.join(names)}; "
                    f"it has {', '.join(self.columns)}."
                )


class ListRecords(Records):
    """Rows that were read as Python values."""

    def __init__(self, what: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], lines: Sequence[int]) -> None:
        self.what, self.columns, self.n = what, tuple(columns), len(rows)
        self._rows, self._lines = rows, lines
        self._place = {name: place for place, name in enumerate(self.columns)}

    def values(self, column: str) -> list[Any]:
        """All values of a column."""
        place = self._place[column]
        return [row[place] for row in self._rows]

    def cell(self, column: str, row: int) -> Any:
        """One value."""
        return self._rows[row][self._place[column]]

    def absent(self, column: str) -> list[int]:
        """Rows in which a column holds nothing."""
        empty = (None, "") if self.blank_is_absent else (None,)
        return [row for row, value in enumerate(self.values(column)) if value in empty]

    def is_text(self, column: str) -> bool:
        """Whether a column holds texts, and not pictures."""
        return all(isinstance(value, str | None) for value in self.values(column))

    def where(self, row: int) -> str:
        """Name a line for an error."""
        return f"Line {self._lines[row]} of {self.what}"


class CsvRecords(ListRecords):
    """Rows of a comma- or tab-separated file: every value is a text."""

    blank_is_absent = True


class ArrowRecords(Records):
    """Rows of an Arrow table whose columns are loaded one by one.

    Parameters
    ----------
    what : str
    columns : sequence of str
    n : int
    load : callable
        Gives a column as an Arrow chunked array.
    """

    def __init__(self, what: str, columns: Sequence[str], n: int, load: "Callable[[str], pa.ChunkedArray]") -> None:
        self.what, self.columns, self.n = what, tuple(columns), n
        self._load = load
        self._columns: dict[str, pa.ChunkedArray] = {}

    def _column(self, column: str) -> "pa.ChunkedArray":
        if column not in self._columns:
            found = self._load(column)
            if len(found) != self.n:
                raise InputError(f"The column {column!r} of {self.what} has {len(found):,} rows and not {self.n:,}.")
            self._columns[column] = found
        return self._columns[column]

    def _python(self, column: str, convert: Callable[[], Any]) -> Any:
        try:
            return convert()
        except (ValueError, OverflowError, TypeError, ImportError) as error:
            # A time that Python's calendar does not reach, a type that it has no value for.
            raise InputError(f"The column {column!r} of {self.what} can't be read: {error}.") from None

    def values(self, column: str) -> list[Any]:
        """All values of a column."""
        return self._python(column, self._column(column).to_pylist)

    def cell(self, column: str, row: int) -> Any:
        """One value."""
        return self._python(column, self._column(column)[row].as_py)

    def absent(self, column: str) -> list[int]:
        """Rows in which a column holds nothing."""
        import pyarrow as pa

        array = self._column(column)
        masks = [array]
        if pa.types.is_struct(array.type):
            # A picture whose bytes and path are both null is as absent as a null.
            parts = zip((field.name for field in array.type), array.flatten(), strict=True)
            masks = [part for name, part in parts if name in ("bytes", "path")] or masks
        gone = zip(*(mask.is_null().to_pylist() for mask in masks), strict=True)
        return [row for row, every in enumerate(gone) if all(every)]

    def is_text(self, column: str) -> bool:
        """Whether a column holds texts, and not pictures."""
        import pyarrow as pa

        kind = self._column(column).type
        return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def read_table(path: Path) -> Records:
    """Open a table by its suffix: ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet``.

    Raises
    ------
    InputError
        If the suffix is another, or the file can't be read as what it says.
    """
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        columns, rows, notes = parse_once(path, _csv)
        table = CsvRecords(repr(str(path)), columns, [cells for _, cells in rows], [line for line, _ in rows])
        table.notes = notes
        return table
    if kind == ".jsonl":
        columns, rows, lines = parse_once(path, _json_lines)
        return ListRecords(repr(str(path)), columns, rows, lines)
    if kind == ".parquet":
        return _parquet(path)
    raise InputError(f"{str(path)!r} is no table that can be read. Give one of {', '.join(TABLE_SUFFIXES)}.")


def _csv(content: bytes, path: Path) -> Delimited:
    return read_csv(decode(content, path), path)


def _json_lines(content: bytes, path: Path) -> tuple[list[str], list[list[Any]], list[int]]:
    entries: list[tuple[int, dict[str, Any]]] = []
    for number, line in enumerate(decode(content, path).split("\n"), 1):
        if not line.strip():
            continue
        where = f"Line {number} of {str(path)!r}"
        entry = loads(line, where)
        if not isinstance(entry, dict):
            raise InputError(f'{where} is no object. A line is such as {{"image": "a.jpg", "en": "a text"}}.')
        entries.append((number, entry))
    columns = list(dict.fromkeys(name for _, entry in entries for name in entry))
    return columns, [[entry.get(name) for name in columns] for _, entry in entries], [number for number, _ in entries]


def _parquet(path: Path) -> ArrowRecords:
    columns, n = parquet_columns(path)

    def load(column: str) -> "pa.ChunkedArray":
        return read_parquet(path, [column])[column]

    return ArrowRecords(repr(str(path)), columns, n, load)
