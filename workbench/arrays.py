"""Arrays that come from a user: any of NumPy, torch or xarray in, one checked float64 matrix out.

Statistics are taken in float64. In half or single precision one coordinate that is a hundred times larger
than the rest can push everything else below the rounding error, and nothing says so. A half-precision
array is therefore upcast, and a warning says that what it had lost by then stays lost.
"""

import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Float, Shaped

from workbench.errors import InputError

if TYPE_CHECKING:
    import torch
    import xarray

ArrayLike: TypeAlias = "np.ndarray | torch.Tensor | xarray.DataArray | Sequence[Any]"
"""What a probe or an eraser takes for an array."""


# A warning points at the user's line, not at the probe that checked the array.
_OWN = ("workbench", "probes", "interventions", "analyses")


class PrecisionWarning(UserWarning):
    """Half-precision values were upcast to float64; digits that they never had are not back."""


def as_array(values: ArrayLike, name: str, *, upcast: bool = True) -> Float[np.ndarray, "..."]:
    """Return values as finite float64 numbers.

    Parameters
    ----------
    values : array, Tensor or DataArray
        Tensors are detached and taken to the CPU.
    name : str
        How a message calls the array.
    upcast : bool
        Whether float32 becomes float64 here. Without, the caller does it block by block.

    Returns
    -------
    float64 array
        A view of the given values where they are float64 NumPy already, so it must not be written to.

    Raises
    ------
    InputError
        If the values are no real numbers, or one of them is NaN or infinite.
    """
    array, kind = _to_numpy(values, name)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} holds {array.dtype} values, not real numbers. Give an array of floats.")
    say_upcast(kind, name)
    if upcast or kind != "float32":
        array = array.astype(np.float64, copy=False)
    finite = np.isfinite(array)
    if not finite.all():
        place = ", ".join(str(k) for k in np.argwhere(~finite)[0])
        raise InputError(
            f"{name} holds NaN or infinity: {int((~finite).sum())} of {array.size} values, the first at [{place}]. "
            "Leave these rows out, or find the pass that made them."
        )
    return array


def as_matrix(
    values: ArrayLike, name: str, *, minimum_rows: int = 2, columns: int | None = None, upcast: bool = True
) -> Float[np.ndarray, "n d"]:
    """Return values as a finite float64 matrix, one row a sample.

    Parameters
    ----------
    values : array, Tensor or DataArray of shape (n, d)
    name : str
        How a message calls the array.
    minimum_rows : int
        Fewest rows that the statistic makes sense for.
    columns : int, optional
        Columns that it must have.
    upcast : bool
        As in :func:`as_array`.

    Raises
    ------
    InputError
        If it is no matrix, has too few rows or no column, has another width, or holds NaN or infinity.
    """
    array = as_array(values, name, upcast=upcast)
    if array.ndim != 2:
        raise InputError(f"{name} has shape {array.shape}; give a matrix of shape (n, d), one row a sample.")
    if len(array) < minimum_rows:
        raise InputError(f"{name} has {len(array)} rows; {minimum_rows} or more are needed.")
    if array.shape[1] == 0:
        raise InputError(f"{name} has no columns; give one column a feature.")
    if columns is not None and array.shape[1] != columns:
        raise InputError(f"{name} has {array.shape[1]} columns where {columns} are needed.")
    return array


def as_labels(
    labels: ArrayLike, n: int, name: str = "labels", *, minimum_classes: int = 2, minimum_each: int = 1
) -> tuple[np.ndarray, Shaped[np.ndarray, " classes"]]:
    """Return class labels as integers from 0, and the classes in sorted order.

    Parameters
    ----------
    labels : array or sequence of length n
        Texts or whole numbers.
    n : int
        Rows of the matrix that they label.
    name : str
        How a message calls them.
    minimum_classes, minimum_each : int
        Fewest classes, and fewest rows of each.

    Returns
    -------
    tuple of int array of shape (n,) and array of shape (classes,)

    Raises
    ------
    InputError
        If there is not one label a row, a label is missing, or there are too few classes or too few rows of one.
    """
    if isinstance(labels, Sequence) and not isinstance(labels, str):
        # NumPy would turn a missing label in a list of texts into the text "nan".
        labels = np.array(labels, dtype=object)
    array, _ = _to_numpy(labels, name)
    if array.ndim != 1 or len(array) != n:
        raise InputError(f"{name} has shape {array.shape} for {n} rows. Give one label a row, in the same order.")
    if array.dtype.kind == "O":
        if any(label is None or label != label for label in array):
            raise InputError(f"{name} has missing values (None or NaN). Leave these rows out.")
        array = np.array(array.tolist())
    if array.dtype.kind == "f" and not (np.isfinite(array).all() and (array == np.round(array)).all()):
        raise InputError(f"{name} holds fractions, NaN or infinity. Labels are texts or whole numbers.")
    classes, codes, counts = np.unique(array, return_inverse=True, return_counts=True)
    if len(classes) < minimum_classes:
        only = f" (all are {classes[0]!s:.40})" if len(classes) == 1 else ""
        raise InputError(f"{name} names {len(classes)} class{only}; {minimum_classes} or more are needed.")
    few = np.flatnonzero(counts < minimum_each)
    if len(few):
        raise InputError(
            f"{name}: class {classes[few[0]]!s:.40} has {counts[few[0]]} of {n} rows; each class needs "
            f"{minimum_each} or more. Leave the class out or add rows."
        )
    return codes.astype(np.int64), classes


def say_upcast(dtype: object, name: str) -> None:
    """Warn of a half-precision dtype; any other is fine."""
    kind = str(dtype).removeprefix("torch.")
    if kind in ("float16", "bfloat16"):
        warnings.warn(
            f"{name} came in {kind}, with 2 or 3 significant digits. It was upcast to float64; capture in float32 "
            "if small differences matter.",
            PrecisionWarning,
            stacklevel=caller_level(),
        )


def check_rows(n: int, arrays: dict[str, np.ndarray]) -> None:
    """Refuse arrays whose rows do not match.

    Raises
    ------
    InputError
        If one of the named arrays has not ``n`` rows.
    """
    for name, array in arrays.items():
        if len(array) != n:
            raise InputError(
                f"{name} has {len(array)} rows where {n} are needed. Row i must be the same sample in every array."
            )


def constant_columns(matrix: Float[np.ndarray, "n d"]) -> np.ndarray:
    """Return the indices of columns that have the same value in every row."""
    return np.flatnonzero(matrix.max(axis=0) == matrix.min(axis=0))


def _to_numpy(values: Any, name: str) -> tuple[np.ndarray, str]:
    """Return a NumPy array and the name of the dtype that came."""
    if hasattr(values, "detach") and hasattr(values, "cpu"):  # a torch tensor, without importing torch
        kind = str(values.dtype).removeprefix("torch.")
        values = values.detach().cpu()
        return (values.float() if kind == "bfloat16" else values).numpy(), kind
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name} is no array: {error}.") from None
    return array, str(array.dtype)


def caller_level() -> int:
    """Return the ``stacklevel`` at which a warning points at the first caller outside of the bench's packages."""
    level, frame = 0, sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OWN:
        level, frame = level + 1, frame.f_back
    return level + 1
