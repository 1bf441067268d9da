"""Errors that teach: what came, what is legal, what to do.

Everything that a user can get wrong raises :class:`InputError` (a :class:`ValueError`), and the command
line prints its message as one line and exits with 2. Everything else is a fault of the bench.
"""

import difflib
import itertools
from collections.abc import Iterable


class WorkbenchError(Exception):
    """Base of every error that the bench raises on purpose."""


class InputError(WorkbenchError, ValueError):
    """The user's input can't be used: an unknown name, a missing caption, a broken file."""


class TowerError(InputError):
    """A checkpoint can't be used as a text tower, or is not the one that it claims to be."""


class HookError(WorkbenchError, RuntimeError):
    """A read or a patch did not happen as asked; no result of that forward pass can be trusted."""


def suggest(given: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest known name, or an empty string."""
    # Both are cut: the comparison takes the product of their lengths, and either may come from a file.
    by_lower = {str(name).lower()[:100]: str(name) for name in itertools.islice(known, 2000)}
    near = difflib.get_close_matches(str(given).lower()[:100], by_lower, n=1, cutoff=0.5)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""
