"""JSON and TOML that somebody else wrote, read so that nothing is lost or slips through in silence.

Python's readers let the last of two equal keys win, take ``NaN`` for a number, and end in a traceback on texts that
are nested a thousand times or hold a number of 5,000 digits. Here each of these is an :class:`InputError` that names
the file. Everything that the bench reads goes through :func:`loads` or :func:`load_toml`.
"""

import json
import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.errors import InputError

DEEPEST = 100
"""Levels of lists and objects inside each other. Nothing that the bench reads has ten."""

_LONGEST_NUMBER = 100


def loads(text: str | bytes, what: str, *, finite: bool = True) -> Any:
    """Parse JSON.

    Parameters
    ----------
    text : str or bytes
    what : str
        How an error names it: ``"Line 3 of 'captions.jsonl'"``.
    finite : bool
        Refuse ``NaN`` and ``Infinity``, which only Python writes. The bench's own tables have them.

    Raises
    ------
    InputError
        If it is no JSON, an object has a key twice, it is nested too deeply, a number is NaN, infinite or of more
        than a hundred digits, or a text holds half a character.
    """
    try:
        found = json.loads(
            text,
            object_pairs_hook=_Pairs(what),
            parse_int=_whole,
            parse_float=_real,
            parse_constant=_constant if finite else float,
        )
    except InputError:
        raise
    except RecursionError:
        raise InputError(_too_deep(what)) from None
    except ValueError as error:
        raise InputError(f"{what} is not JSON ({error}); the file may be truncated.") from None
    _check(found, what, finite)
    return found


def load_file(path: Path, what: str | None = None, *, finite: bool = True) -> Any:
    """Parse a JSON file of UTF-8; errors as of :func:`loads`, and if it can't be read."""
    return loads(_bytes(path), what or repr(str(path)), finite=finite)


def load_toml(path: Path, what: str | None = None) -> dict[str, Any]:
    """Parse a TOML file of UTF-8, held to what :func:`loads` holds JSON to."""
    what = what or repr(str(path))
    try:
        found = tomllib.loads(_bytes(path).decode("utf-8"))
    except RecursionError:
        raise InputError(_too_deep(what)) from None
    except ValueError as error:
        raise InputError(f"{what} is not TOML: {error}.") from None
    _check(found, what)
    return found


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{str(path)!r} can't be read: {error.strerror or error}.") from None


class _Pairs:
    def __init__(self, what: str) -> None:
        self._what = what

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))
            raise InputError(
                f"{self._what} has the key {twice!r} twice in one object, and only one of the two can be meant. Remove "
                "the other."
            )
        return found


def _whole(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _real(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def _constant(token: str) -> float:
    raise ValueError(f"{token} is no number of JSON")


def _too_deep(what: str) -> str:
    return f"{what} is nested more than {DEEPEST} levels deep, and nothing that the bench reads is. It may be damaged."


def _check(found: Any, what: str, finite: bool = True) -> None:
    """Refuse what is too deep to walk, and texts and numbers that nothing can write again."""
    # A list of what is still to be looked at, and not recursion, which is what a deep text breaks.
    level, depth = [found], 0
    while level:
        if depth > DEEPEST:
            raise InputError(_too_deep(what))
        level = [inner for part in level for inner in _inside(part, what, finite)]
        depth += 1


def _inside(part: Any, what: str, finite: bool) -> Iterator[Any]:
    if isinstance(part, dict):
        for key, value in part.items():
            _check_leaf(key, what, finite)
            yield value
    elif isinstance(part, list):
        yield from part
    else:
        _check_leaf(part, what, finite)


def _check_leaf(value: Any, what: str, finite: bool) -> None:
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InputError(
            f"{what} has the text {value[:40]!r} with half a character (a lone surrogate such as \\ud83d); it was "
            "probably cut in the middle of an emoji."
        )
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**_LONGEST_NUMBER:
        raise InputError(f"{what} holds a whole number of more than {_LONGEST_NUMBER} digits.")
    if finite and isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{what} holds {value}, which is no finite number.")
