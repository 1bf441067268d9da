"""Do two linear subspaces meet? Principal angles, for what erasure removes and what averaging removes (S3-39).

Between an r-dimensional and an s-dimensional subspace there are min(r, s) principal angles, from 0 (a shared
direction) to 90 degrees (nothing shared). Their mean squared cosine is the share of the smaller subspace that
lies in the larger one. For two random subspaces of d dimensions it is max(r, s)/d on average, not 0, and that
is what a found overlap has to be held against.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from probes._checks import Parallel, parallel_rows
from workbench.arrays import ArrayLike, as_matrix
from workbench.errors import InputError


@dataclass(frozen=True)
class PrincipalAngles:
    """Angles between two subspaces.

    Attributes
    ----------
    degrees : array of shape (min(ranks),)
        From the smallest to the largest.
    overlap : float
        Mean squared cosine: the share of the smaller subspace that lies in the larger one.
    chance : float
        Expected overlap of two random subspaces of these ranks.
    ranks : (int, int)
    d : int
        Dimensions of the space.
    """

    degrees: Float[np.ndarray, " angle"] = field(repr=False)
    overlap: float
    chance: float
    ranks: tuple[int, int]
    d: int


def principal_angles(first: ArrayLike, second: ArrayLike, *, tolerance: float = 1e-8) -> PrincipalAngles:
    """Return the principal angles between the row spaces of two matrices.

    Parameters
    ----------
    first, second : arrays of shape (r, d) and (s, d)
        Rows span the subspaces; they need be neither orthogonal nor independent.
    tolerance : float
        Singular values below this share of the largest one count as 0.

    Returns
    -------
    PrincipalAngles

    Raises
    ------
    InputError
        If widths differ, or a subspace is empty because its matrix is zero.
    """
    from scipy.linalg import subspace_angles

    a = basis(first, "first", tolerance=tolerance)
    b = basis(second, "second", tolerance=tolerance)
    if a.shape[1] != b.shape[1]:
        raise InputError(f"The subspaces lie in {a.shape[1]} and {b.shape[1]} dimensions. Give two of one space.")
    angles = subspace_angles(a.T, b.T)[::-1]
    ranks, d = (len(a), len(b)), a.shape[1]
    overlap = float(np.square(np.cos(angles)).mean())
    return PrincipalAngles(np.degrees(angles), overlap, max(ranks) / d, ranks, d)


def basis(rows: ArrayLike, name: str = "rows", *, tolerance: float = 1e-8) -> Float[np.ndarray, "rank d"]:
    """Return orthonormal rows that span the same subspace, the strongest first."""
    matrix = as_matrix(rows, name, minimum_rows=1)
    _, values, directions = np.linalg.svd(matrix, full_matrices=False)
    if values[0] == 0:
        raise InputError(f"{name} is zero everywhere and spans nothing.")
    return directions[values > tolerance * values[0]]


def language_subspace(embeddings: Parallel, languages: Iterable[str] | None = None) -> Float[np.ndarray, "rank d"]:
    """Return a basis of what the mean embeddings of languages differ in: at most languages - 1 directions.

    Parameters
    ----------
    embeddings : DataArray, or mapping of str to array of shape (n, d)
    languages : iterable of str, optional
    """
    rows = parallel_rows(embeddings, languages, minimum_languages=2)
    means = rows.only().mean(axis=1)
    return basis(means - means.mean(axis=0), "the language means")


def averaging_subspace(
    embeddings: Parallel, rank: int, languages: Iterable[str] | None = None
) -> Float[np.ndarray, "rank d"]:
    """Return the main directions of what averaging over languages takes away (S3-39).

    For each caption these are the differences between its embedding in a language and the mean over the
    languages; the subspace is that of their first principal directions, not centred.

    Parameters
    ----------
    embeddings : DataArray, or mapping of str to array of shape (n, d)
    rank : int
        How many directions; the rank of the subspace that it is compared with, to be fair to both.
    languages : iterable of str, optional

    Raises
    ------
    InputError
        If the differences have fewer dimensions than ``rank``.
    """
    rows = parallel_rows(embeddings, languages, minimum_languages=2)
    block = rows.only()
    directions = basis((block - block.mean(axis=0)).reshape(-1, rows.d), "the differences from the mean")
    if not 1 <= rank <= len(directions):
        raise InputError(f"rank={rank} came; the differences from the mean have {len(directions)} dimensions.")
    return directions[:rank]
