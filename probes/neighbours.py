"""How many of the nearest images two languages share (S3-89).

A caption's K nearest images are a set. The Jaccard index of two such sets, #(A∩B) / #(A∪B), for a caption in
some language and the same caption in English says whether one would *see* the same things, also where neither
finds the right image. Two sets drawn at random from G images overlap as well, all the more the larger K is
beside G, so the value that chance gives is returned too, together with the value for unrelated captions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from probes._resampling import Estimates, mean_over_captions
from probes.modality_gap import unit_rows
from workbench.arrays import ArrayLike, as_matrix, check_rows
from workbench.errors import InputError
from workbench.splits import generator as seeded

CUTOFFS = (1, 5, 10, 50)
_BLOCK = 2**23  # similarities held at once


@dataclass(frozen=True)
class Jaccard:
    """Agreement of the nearest images of two sets of queries.

    Attributes
    ----------
    cutoffs : tuple of int
        K.
    by_query : array of shape (K, n)
        Jaccard index of each query.
    unrelated : array of shape (K,)
        Mean with the reference's queries deranged.
    chance : array of shape (K,)
        Expected value of two random sets of K out of the gallery.
    n, gallery : int
        Queries and candidates.
    seed : int
    """

    cutoffs: tuple[int, ...]
    by_query: Float[np.ndarray, "k n"] = field(repr=False)
    unrelated: Float[np.ndarray, " k"]
    chance: Float[np.ndarray, " k"]
    n: int
    gallery: int
    seed: int

    def means(self, *, resamples: int = 1000) -> Estimates:
        """Return the mean over queries by K, with its bootstrap interval."""
        return mean_over_captions(self.by_query, resamples=resamples, seed=self.seed)


def topk_jaccard(
    queries: ArrayLike, reference: ArrayLike, gallery: ArrayLike, cutoffs: Sequence[int] = CUTOFFS, *, seed: int = 0
) -> Jaccard:
    """Compare the nearest candidates of queries with those of reference queries.

    Parameters
    ----------
    queries, reference : arrays of shape (n, d)
        Captions of a language and of English; or of a tower before and after a change. Row i is the same item.
    gallery : array of shape (G, d)
        Candidates, such as image embeddings. Ranking is by cosine; ties go to the earlier candidate.
    cutoffs : sequence of int
        K, each below G.
    seed : int
        For the derangement of unrelated queries.

    Returns
    -------
    Jaccard

    Raises
    ------
    InputError
        If shapes differ, a row is zero or not finite, or a K is not between 1 and G - 1.
    """
    candidates = unit_rows(as_matrix(gallery, "gallery"), "gallery")
    size, d = candidates.shape
    wanted = _check_cutoffs(cutoffs, size)
    sides = []
    for name, rows in (("queries", queries), ("reference", reference)):
        sides.append(nearest(unit_rows(as_matrix(rows, name, columns=d), name), candidates, max(wanted)))
    check_rows(len(sides[0]), {"reference": sides[1]})
    return jaccard_of_lists(sides[0], sides[1], size, wanted, seed=seed)


def jaccard_of_lists(
    first: Int[np.ndarray, "n k"],
    second: Int[np.ndarray, "n k"],
    gallery: int,
    cutoffs: Sequence[int] = CUTOFFS,
    *,
    seed: int = 0,
) -> Jaccard:
    """Compare ranked lists that exist already.

    Parameters
    ----------
    first, second : int arrays of shape (n, k)
        Candidates of each query, nearest first, none twice.
    gallery : int
        How many candidates there are.
    cutoffs : sequence of int
        K, each at most k and below ``gallery``.
    seed : int

    Returns
    -------
    Jaccard

    Raises
    ------
    InputError
        If shapes differ, lists are too short, or a K is out of range.
    """
    from workbench.intervention import derangement

    first, second = np.asarray(first), np.asarray(second)
    if first.ndim != 2 or first.shape != second.shape or len(first) < 2:
        raise InputError(
            f"Ranked lists of shapes {first.shape} and {second.shape} came; give two of the same shape (n, k)."
        )
    wanted = _check_cutoffs(cutoffs, gallery)
    if max(wanted) > first.shape[1]:
        raise InputError(f"Lists of {first.shape[1]} candidates came, too short for K = {max(wanted)}.")
    other = derangement(len(first), seeded(seed, 23))
    by_query = np.stack([_jaccard(first[:, :k], second[:, :k]) for k in wanted])
    unrelated = np.array([_jaccard(first[:, :k], second[other, :k]).mean() for k in wanted])
    chance = np.array([chance_jaccard(k, gallery) for k in wanted])
    return Jaccard(wanted, by_query, unrelated, chance, len(first), gallery, seed)


def nearest(queries: Float[np.ndarray, "n d"], gallery: Float[np.ndarray, "g d"], k: int) -> Int[np.ndarray, "n k"]:
    """Return the ``k`` candidates of the greatest inner product, best first; the earlier one where two tie."""
    found = np.empty((len(queries), k), dtype=np.int64)
    step = max(1, _BLOCK // len(gallery))
    for start in range(0, len(queries), step):
        similarity = queries[start : start + step] @ gallery.T
        found[start : start + step] = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
    return found


def chance_jaccard(k: int, gallery: int) -> float:
    """Return the expected Jaccard index of two random sets of ``k`` out of ``gallery``."""
    from scipy.stats import hypergeom

    shared = np.arange(k + 1)
    return float((hypergeom.pmf(shared, gallery, k, k) * shared / (2 * k - shared)).sum())


def _jaccard(first: Int[np.ndarray, "n k"], second: Int[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
    k = first.shape[1]
    both = np.sort(np.concatenate([first, second], axis=1), axis=1)
    # No candidate stands twice in one list, so equal neighbours are shared ones.
    shared = (both[:, 1:] == both[:, :-1]).sum(axis=1)
    return shared / (2 * k - shared)


def _check_cutoffs(cutoffs: Sequence[int], gallery: int) -> tuple[int, ...]:
    wanted = tuple(cutoffs)
    if not wanted:
        raise InputError("No K came. Give some, such as (1, 5, 10, 50).")
    for k in wanted:
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k < gallery:
            raise InputError(
                f"K = {k!r} came for {gallery} candidates; K is a whole number from 1 to {gallery - 1}. With K = "
                f"{gallery} every set is the whole gallery."
            )
    return tuple(int(k) for k in wanted)
