"""Reading text files that were downloaded: what goes wrong with them, found once for all benchmarks.

A caption file may be the error page of a server, or the pointer of a large-file store; its lines may end as
on Windows and its last line in nothing; a text may hold half an emoji. A reader that does not look turns each
into wrong tokens without a word.

A loader reports what is wrong to a :class:`Faults`. Loading stops at the first; a check collects them all.
"""

import csv
import hashlib
import io
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from workbench.errors import InputError
from workbench.parsing import loads

T = TypeVar("T")

_PAGE = (b"<!doctype", b"<html", b"<?xml", b"404: not found", b"404 not found")
_POINTER = b"version https://git-lfs.github.com/spec/"


class Faults:
    """Where a loader says what is wrong.

    Parameters
    ----------
    strict : bool
        Raise the first fault. Otherwise keep them in ``found``, and the loader goes on.
    """

    def __init__(self, strict: bool = True) -> None:
        self.strict = strict
        self.found: list[str] = []

    def add(self, message: str) -> None:
        """Raise or keep one fault."""
        if self.strict:
            raise InputError(message)
        self.found.append(message)

    def extend(self, messages: Iterable[str]) -> None:
        """Raise the first of some faults, or keep them all."""
        for message in messages:
            self.add(message)


def read_text(path: Path) -> str:
    """Read a UTF-8 text file, with or without a byte order mark.

    Raises
    ------
    InputError
        If it is absent, not UTF-8, an error page or the pointer of a large-file store.
    """
    return decode(read_bytes(path), path)


def read_bytes(path: Path) -> bytes:
    """Read a file, or say that it is absent."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{str(path)!r} does not exist.") from None
    except OSError as error:
        raise InputError(f"{str(path)!r} can't be read: {error.strerror or error}.") from None


def decode(content: bytes, path: Path) -> str:
    """Turn the bytes of a file into text; refuse what is no text of a benchmark."""
    head = content[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith(_POINTER):
        raise InputError(
            f"{str(path)!r} is the pointer that Git LFS keeps in place of a file. Fetch the file with `git lfs pull`."
        )
    if head.startswith(_PAGE[:3]) or (len(content) < 512 and head.startswith(_PAGE[3:])):
        raise InputError(
            f"{str(path)!r} is no data file: it holds the error page of a server, stored by a download that failed. "
            "Delete it and download it again."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{str(path)!r} is not UTF-8 ({error.reason} at byte {error.start}).") from None


def split_lines(text: str) -> list[str]:
    """Split at line feeds, with or without a carriage return before; a last line needs no end.

    Not ``str.splitlines``: U+2028 and its like may stand inside a caption.
    """
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file; see :func:`split_lines`."""
    return split_lines(read_text(path))


def parse_json(content: bytes, path: Path, *, finite: bool = True) -> Any:
    """Parse a JSON file, or say where it breaks."""
    return loads(decode(content, path), repr(str(path)), finite=finite)


def checked_text(value: object, where: str, what: str, faults: Faults, hint: str = "") -> str | None:
    """Return a text, or report why it is none.

    An empty text is let through: the corpus names it with its image.

    Parameters
    ----------
    value : object
    where : str
        ``"Line 3 of 'captions.jsonl'"``.
    what : str
        ``"a caption in 'en'"``.
    faults : Faults
    hint : str
        What to add: how it should look.
    """
    if not isinstance(value, str):
        faults.add(f"{where} has {what} that is no text.{hint}")
        return None
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        faults.add(
            f"{where} has {what} with half a character (a lone surrogate such as \\ud83d); it was probably cut in the "
            "middle of an emoji."
        )
        return None
    return value


def as_id(value: object, where: str, faults: Faults) -> str | None:
    """Return an id as text: files of one benchmark may hold it as a number and as a text."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    faults.add(f"{where} has the id {value!r}; an id is a text or a whole number.")
    return None


Delimited = tuple[list[str], list[tuple[int, list[str]]], tuple[str, ...]]


def read_csv(text: str, path: Path) -> Delimited:
    """Split the text of a comma- or, by its suffix ``.tsv``, tab-separated file with a header.

    A cell of a TSV file is what stands between two tabs: nothing quotes a tab or a line end there, so that a stray
    quote can't swallow what follows. In CSV a quoted cell may span lines.

    Returns
    -------
    columns : list of str
    rows : list of (int, list of str)
        Number of the line that a row begins in, and its cells, as many as there are columns. Blank lines are skipped.
    notes : tuple of str
        What is legal and may not be meant: rows that span lines, or quotes that are part of a cell.

    Raises
    ------
    InputError
        If it is empty, a column has no name or the name of another, or a row has too many or too few cells.
    """
    tabs = path.suffix.lower() == ".tsv"
    lines = _tsv_rows(text) if tabs else _csv_rows(text, path)
    columns = [name.strip() for name in lines[0][2]] if lines else []
    if not any(columns):
        raise InputError(f"{str(path)!r} is empty: it has no line with the names of columns.")
    seen: set[str] = set()
    for place, name in enumerate(columns, 1):
        if not name:
            raise InputError(f"Column {place} of {str(path)!r} has no name. Name it in the first line, or remove it.")
        if name in seen:
            raise InputError(f"{str(path)!r} has the column {name!r} twice. Rename one, or remove it.")
        seen.add(name)
    for line, _, cells in lines[1:]:
        if len(cells) != len(columns):
            quotes = (
                "no cell of a TSV file can hold a tab"
                if tabs
                else ("a text that holds the separator must stand in double quotes")
            )
            raise InputError(
                f"Line {line} of {str(path)!r} has {len(cells)} cells for {len(columns)} columns; {quotes}."
            )
    return columns, [(line, cells) for line, _, cells in lines[1:]], _notes(lines, path, tabs)


def _tsv_rows(text: str) -> list[tuple[int, int, list[str]]]:
    return [(number, number, line.split("\t")) for number, line in enumerate(split_lines(text), 1) if line]


def _csv_rows(text: str, path: Path) -> list[tuple[int, int, list[str]]]:
    # Newlines inside quotes are part of a cell, so the csv module splits the lines.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows, first = [], 1
    try:
        for cells in reader:
            if cells:
                rows.append((first, reader.line_num, cells))
            first = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"Line {max(first, reader.line_num)} of {str(path)!r} can't be read: {error}.") from None
    return rows


def _notes(lines: list[tuple[int, int, list[str]]], path: Path, tabs: bool) -> tuple[str, ...]:
    if tabs:
        quoted = [line for line, _, cells in lines if any(cell[:1] == '"' for cell in cells)]
        if not quoted:
            return ()
        return (
            f"{len(quoted):,} lines of {path.name} have a cell that begins with a quote, the first line {quoted[0]}: "
            "it is part of the text, since nothing is quoted in TSV",
        )
    spanning = [(first, last) for first, last, _ in lines if last > first]
    if not spanning:
        return ()
    (first, last), several = spanning[0], "row spans" if len(spanning) == 1 else "rows span"
    return (
        f"{len(spanning):,} {several} several lines of {path.name}, the first lines {first} to {last}; a stray double "
        "quote would do the same",
    )


_CACHE: OrderedDict[tuple[str, str, str], Any] = OrderedDict()
_KEPT = 4


def parse_once(path: Path, parse: Callable[[bytes, Path], T]) -> T:
    """Parse a file, or return what came of the very same bytes before.

    A command asks a corpus first for its languages and then for its captions; parsing is what takes long.
    The key is the content, so a file that changes is never read stale. What is returned is shared: callers
    must not change it.
    """
    content = read_bytes(path)
    key = (f"{parse.__module__}.{parse.__qualname__}", str(path), hashlib.sha256(content).hexdigest())
    if key in _CACHE:
        _CACHE.move_to_end(key)
        return _CACHE[key]
    result = parse(content, path)
    _CACHE[key] = result
    while len(_CACHE) > _KEPT:
        _CACHE.popitem(last=False)
    return result
