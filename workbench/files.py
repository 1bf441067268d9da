"""Files that are either whole or absent, and that lie in their folder whatever they are called.

A language, a tower, a figure or a cell is named by a user or by a file, and a file is named after it.
:func:`path_below` is the one way from such a name to a path.
"""

import contextlib
import errno
import os
import tempfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from workbench.errors import InputError, WorkbenchError

LONGEST = 255
"""Bytes of the longest file name that common file systems hold."""

_RESERVED = {"CON", "PRN", "AUX", "NUL", *(f"{port}{k}" for port in ("COM", "LPT") for k in range(1, 10))}
_SEPARATORS = '/\\:*?"<>|~'


def check_name(name: object, what: str = "A name", suffix: str = "") -> str:
    """Return a name that can be the name of a file, or say why it can't.

    Parameters
    ----------
    name : object
        As a user or a file gave it.
    what : str
        What is called so, to begin the message with.
    suffix : str
        What the file's name has after it.

    Raises
    ------
    InputError
        If it is no text, empty, ``.`` or ``..``, begins with a dot, begins or ends with a blank, ends with a dot, has
        a separator or a character without a shape, is a name that Windows keeps for itself, or is too long.
    """
    fault = _fault(name, suffix)
    if fault:
        shown = repr(name) if len(repr(name)) <= 80 else repr(name)[:80] + "…"
        raise InputError(
            f"{what} can't be called {shown}: {fault}. Files are named after it; use letters, digits, '-' and '_'."
        )
    return str(name)


def _fault(name: object, suffix: str) -> str | None:
    if not isinstance(name, str):
        return "it is no text"
    if not name.strip():
        return "it is empty"
    if any(letter in _SEPARATORS for letter in name):
        return f"it holds one of {' '.join(_SEPARATORS)}"
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") for letter in name):
        return "it holds a character that can't be seen"
    if name != name.strip() or name[0] == "." or name[-1] == ".":
        return "it begins with a dot or a blank, or ends with one"
    if name.partition(".")[0].strip().upper() in _RESERVED:
        return "Windows keeps that name for itself"
    if len((name + suffix).encode()) > LONGEST:
        return f"it is longer than the {LONGEST} bytes of a file's name"
    return None


def path_below(folder: str | Path, name: object, suffix: str = "", what: str = "A name") -> Path:
    """Return the file of a folder that is called after something; it is always in that folder.

    Raises
    ------
    InputError
        As :func:`check_name` does.
    """
    return Path(folder) / (check_name(name, what, suffix) + suffix)


def as_path(given: str | Path, what: str = "The path") -> Path:
    """Return a path that a user gave and that may be asked about, whether or not anything is there.

    Raises
    ------
    InputError
        If no path can be called so, or a folder on the way may not be looked into.
    """
    try:
        path = Path(given).expanduser()
        path.exists()
    except (OSError, ValueError, RuntimeError) as error:
        # Too long, with a NUL inside, of a user who is not there, or behind a closed door.
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{what} {str(given)[:80]!r} can't be looked at: {reason}. Give another.") from None
    return path


class DiskError(WorkbenchError, OSError):
    """The disk is full or broken: nothing was wrong with what was asked for."""


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what a file system says while something is written into one sentence.

    Raises
    ------
    InputError
        If the place can't be written to.
    DiskError
        If there is no room, or the disk fails.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, WorkbenchError):
            raise
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise DiskError(
                f"{str(path)!r} can't be written: {reason}. What is finished is kept. Make room, then give the command "
                "again."
            ) from None
        raise InputError(f"{str(path)!r} can't be written: {reason}. Choose another place, with --out.") from None


def check_writable(folder: Path) -> None:
    """Refuse a folder that can't be made or written to; nothing is left behind.

    Raises
    ------
    InputError
        If it is a file or below one, its name is too long, or it is read-only.
    """
    with writing(folder):
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "it is a file and no folder")
        there = folder
        while not there.exists():
            there = there.parent
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{str(there)!r} is a file and no folder")
        made = [part for part in (folder, *folder.parents) if not part.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        try:
            # Asking for the permission is not enough: root has it on a file system that is read-only.
            handle, probe = tempfile.mkstemp(dir=folder, prefix=".manifest.json.")
            os.close(handle)
            os.unlink(probe)
        finally:
            for part in made:
                part.rmdir()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and move it into place, so that a kill leaves no half of it.

    Raises
    ------
    InputError, DiskError
        As :func:`writing` says.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # The name itself may fill what a file system allows; the temporary one adds to it.
        stem = f".{path.name}.".encode()[:200].decode(errors="ignore")
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=stem)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            # mkstemp makes files that only their owner may read; a result is meant to be shared.
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
