"""Files that are either whole or absent."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from workbench.errors import InputError, WorkbenchError


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
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
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
