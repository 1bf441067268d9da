"""Files that unpack to more than they hold, Parquet and npz, read within a limit.

A few kilobytes can unpack to more than any machine holds. What embeddings and captions compress to is known well
enough: to a tenth, seldom to a twentieth. So a file that claims to hold a hundred times its size is refused before it
is unpacked, unless what comes out is small.
"""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workbench.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

SMALL = 2**28
"""Bytes that any file may unpack to."""

RATIO = 100
"""What a larger one may grow by."""

CELLS = 500_000_000
"""Numbers or texts of a table, however small it is packed: a run of equal ones takes no room at all."""


def check_unpacked(packed: int, unpacked: int, what: str) -> None:
    """Refuse what would unpack to far more than it holds.

    Parameters
    ----------
    packed, unpacked : int
        Bytes.
    what : str
        How an error names it.
    """
    if unpacked > max(SMALL, packed * RATIO):
        raise InputError(
            f"{what} has {_size(packed)} and unpacks to {_size(unpacked)}; more than {_size(SMALL)} are read only from "
            f"a file of at least a {RATIO}th of that. No captions or embeddings compress so well: it is damaged, or "
            "made to fill the memory. If it is right, store it uncompressed."
        )


def _size(n: int) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if n < 1024 or unit == "TiB":
            return f"{n:,.0f} {unit}"
        n //= 1024
    return ""


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of an npz file of numbers and texts.

    Raises
    ------
    InputError
        If it can't be read, holds Python objects, or unpacks to too much.
    """
    try:
        with zipfile.ZipFile(path) as file:
            check_unpacked(path.stat().st_size, sum(entry.file_size for entry in file.infolist()), repr(path.name))
        with np.load(path, allow_pickle=False) as file:
            return {name: np.asarray(file[name]) for name in file.files}
    except InputError:
        raise
    except Exception as error:
        # NumPy and zipfile between them raise whatever the damaged byte leads to: KeyError, SyntaxError, zlib's own.
        raise _unreadable(path, "npz file", error) from None


def parquet_columns(path: Path) -> tuple[list[str], int]:
    """Return the columns of a Parquet file and its number of rows.

    Raises
    ------
    InputError
        If it can't be read, names a column twice, or unpacks to too much.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            columns, rows = list(file.schema_arrow.names), file.metadata.num_rows
            groups = [file.metadata.row_group(k).total_byte_size for k in range(file.metadata.num_row_groups)]
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise _unreadable(path, "Parquet file", error) from None
    check_unpacked(path.stat().st_size, sum(groups), repr(str(path)))
    if rows * max(1, len(columns)) > CELLS:
        raise InputError(
            f"{str(path)!r} says that it has {rows:,} rows of {len(columns)} columns; tables of at most {CELLS:,} "
            "cells are read. It is damaged, or made to fill the memory."
        )
    if len(set(columns)) < len(columns):
        seen: set[str] = set()
        twice = next(name for name in columns if name in seen or seen.add(name))
        raise InputError(f"{str(path)!r} has the column {twice!r} twice. Rename one, or remove it.")
    return columns, rows


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> "pa.Table":
    """Read a Parquet file, or some columns of it, and make sure that its texts are texts.

    Raises
    ------
    InputError
        As :func:`parquet_columns` does, or if a text is not UTF-8.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    parquet_columns(path)
    try:
        table = pq.read_table(path, columns=None if columns is None else list(columns))
        # Arrow believes a file that its texts are UTF-8; whoever reads one then gets the error.
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise _unreadable(path, "Parquet file", error) from None
    return table


def read_frame(path: Path) -> "pd.DataFrame":
    """Read a Parquet file as pandas would, with its index and types where it was pandas that wrote it.

    Raises
    ------
    InputError
        As :func:`read_parquet` does, or if what pandas wrote of its columns is damaged.
    """
    table = read_parquet(path)
    try:
        return table.to_pandas()
    except Exception as error:
        # What pandas keeps in the file is JSON of its own, read by code that believes it.
        raise _unreadable(path, "Parquet file", error) from None


def _unreadable(path: Path, kind: str, error: Exception) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"{str(path)!r} does not exist.")
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return InputError(
        f"{str(path)!r} is no {kind} that can be read ({reason}); it may be truncated or in another layout."
    )
