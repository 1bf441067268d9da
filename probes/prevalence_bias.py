"""Whether a mixed list favours captions of well-resourced languages: LBKL, DLBKL and the signed share (S0-10 to S0-13).

An image is ranked against the captions of all languages at once. Each caption belongs to one of two groups:
*low*, the low-resource languages, or the rest. The first ``k`` captions give the low group a share Q, which
is compared with a share P that is given:

    LBKL@k = mean over queries of  sum over the two groups  P ln(P / Q),   with Q = 0 replaced by 1e-9

DLBKL discounts a caption at rank r by ``1 / log2(r + 1)`` before shares are taken, so that the top of the
list weighs more. Published values use P = ½ for either group, whatever the pool holds; the share of the pool
is the other legal choice, and is told by its name.

Four things keep a reader from reading too much into either number, and each has a function here:

- Both are unsigned. A list of low-resource captions only scores as badly as one without any. The share of
  low-resource captions (:func:`low_share`) says which it is.
- At k = 1 a list holds one group, so the value is the same constant for every tower (:func:`ceiling`).
- Few captions scatter: a retriever that cannot see languages is not at 0 but on the line of
  :func:`sampling_null`.
- Two groups hide which language wins. :func:`language_kl` compares all languages, and is a measure of its
  own: its values can't be compared with LBKL's.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from jaxtyping import Bool, Float, Int

from workbench.errors import InputError
from workbench.splits import generator as seeded

EPSILON = 1e-9
"""What a share of zero is replaced by before the logarithm. The others are not renormalised."""

DEPTHS = (1, 5, 10, 15, 25, 50, 99)
"""The depths of published values."""

# A sum over all 2^k orders of labels takes no longer than a good simulation up to here.
_ENUMERABLE = 16


@dataclass(frozen=True)
class SamplingNull:
    """What a retriever scores that draws captions without seeing their language.

    Attributes
    ----------
    mean : float
    low, high : float
        Where the mean over so many queries lies in 95 of 100 such draws (normal approximation).
    n : int
        Queries.
    """

    mean: float
    low: float
    high: float
    n: int


def lbkl(low: Bool[np.ndarray, "query rank"], k: int, *, prior: float = 0.5) -> Float[np.ndarray, " query"]:
    """Language-bias KL divergence of the first ``k`` captions of each query, in nats; LBKL@k is the mean.

    Parameters
    ----------
    low : bool array of shape (query, rank)
        Whether the caption at each rank, best first, is in the low-resource group; 0 and 1 will do.
    k : int
        Captions that count, at most the length of the lists.
    prior : float
        P of the low group, between 0 and 1: ½ as published, or the group's share of the pool.

    Returns
    -------
    float64 array of shape (query,)

    Raises
    ------
    InputError
        If the lists are not rectangular, hold something other than 0 and 1, are shorter than ``k``, or the
        prior is not between 0 and 1.
    """
    return share_kl(group_shares(low, k, discounted=False), _prior(prior))


def dlbkl(low: Bool[np.ndarray, "query rank"], k: int, *, prior: float = 0.5) -> Float[np.ndarray, " query"]:
    """Discounted LBKL of each query: a caption at rank r weighs ``1 / log2(r + 1)``. Arguments as in :func:`lbkl`."""
    return share_kl(group_shares(low, k, discounted=True), _prior(prior))


def low_share(low: Bool[np.ndarray, "query rank"], k: int, *, discounted: bool = False) -> Float[np.ndarray, " query"]:
    """Share of low-resource captions among the first ``k`` of each query, 0 to 1: the sign that LBKL lacks."""
    return group_shares(low, k, discounted=discounted)[:, 0]


def group_shares(low: Bool[np.ndarray, "query rank"], k: int, *, discounted: bool) -> Float[np.ndarray, "query 2"]:
    """Shares Q of the low group and of the rest among the first ``k`` captions of each query.

    Each group is summed by itself: ``1 - q`` would leave 1e-16 where a share is 0, and 1e-16 is not replaced
    by 1e-9.
    """
    first = _lists(low, k)
    weights = _weights(k, discounted)
    return np.stack([(first * weights).sum(1), (~first * weights).sum(1)], axis=1) / weights.sum()


def share_kl(shares: Float[np.ndarray, "... group"], prior: Float[np.ndarray, " group"]) -> Float[np.ndarray, "..."]:
    """KL divergence of given shares from a prior, ``sum P ln(P / Q)``, with Q = 0 replaced by 1e-9; in nats."""
    q = np.where(shares == 0, EPSILON, shares)
    p = np.broadcast_to(prior, shares.shape)
    terms = np.zeros(shares.shape)
    # A group that is expected never contributes nothing, whatever its share.
    np.log(p / q, out=terms, where=p > 0)
    return (p * terms).sum(-1)


def ceiling(prior: float = 0.5) -> float:
    """Return the largest value that LBKL and DLBKL can take: every list holds one group alone.

    With P = ½ it is 9.6685 and is also the value at k = 1, whatever the tower.
    """
    return float(share_kl(np.eye(2), _prior(prior)).max())


def uniform_value(share: float, *, prior: float = 0.5) -> float:
    """Return LBKL of lists in which the low group has exactly a share; 0.0141 for 21 of 36 languages and P = ½."""
    if not 0 <= share <= 1:
        raise InputError(f"A share of {share} came; it must be between 0 and 1.")
    return float(share_kl(np.array([share, 1 - share]), _prior(prior)))


@lru_cache(maxsize=256)
def sampling_null(
    k: int,
    share: float,
    n: int,
    *,
    discounted: bool = False,
    prior: float = 0.5,
    draws: int = 50_000,
    seed: int = 0,
) -> SamplingNull:
    """Return what pure chance scores: each caption is low with the same probability, whatever the query.

    Values near this line say nothing about a tower. They fall with ``k``, so curves of two depths can't be
    compared with each other without it.

    Parameters
    ----------
    k : int
    share : float
        Probability of a low-resource caption, strictly between 0 and 1; the share of the pool, as a rule.
    n : int
        Queries of the mean that the interval is for.
    discounted : bool
        DLBKL in place of LBKL.
    prior : float
    draws, seed : int
        For DLBKL above k = 16, where the orders are too many to be summed. Lists of one group alone are
        counted exactly even then, since they are rare and their value is the largest.

    Returns
    -------
    SamplingNull
        LBKL's is exact, by the binomial distribution.
    """
    if not 0 < share < 1:
        raise InputError(
            f"A share of {share} came; a pool needs captions of both groups, so it is strictly between 0 and 1."
        )
    if k < 1 or n < 1 or draws < 1:
        raise InputError(f"k={k}, n={n} and draws={draws} came; each must be at least 1.")
    p = _prior(prior)
    if not discounted:
        from scipy.stats import binom

        counts = np.arange(k + 1)
        values, chances = share_kl(np.stack([counts, k - counts], axis=1) / k, p), binom.pmf(counts, k, share)
    elif k <= _ENUMERABLE:
        orders = np.array(list(product([False, True], repeat=k)))
        values = dlbkl(orders, k, prior=prior)
        chances = np.prod(np.where(orders, share, 1 - share), axis=1)
    else:
        values, chances = _simulated(k, share, prior, draws, seed)
    mean = float(values @ chances)
    variance = float((values - mean) ** 2 @ chances)
    reach = 1.959964 * math.sqrt(max(variance, 0.0) / n)
    return SamplingNull(mean, max(mean - reach, 0.0), mean + reach, n)


def _simulated(k: int, share: float, prior: float, draws: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Values of DLBKL and their probabilities: both one-group lists exactly, mixed ones by simulation."""
    orders = seeded(seed, k).random((draws, k)) < share
    orders = orders[orders.any(1) & ~orders.all(1)]
    alone = np.stack([np.ones(k, dtype=bool), np.zeros(k, dtype=bool)])
    chances = np.array([share**k, (1 - share) ** k])
    if not len(orders):
        raise InputError(
            f"None of {draws:,} lists of {k} holds both groups at a share of {share}. Raise draws for this share."
        )
    rest = np.full(len(orders), (1 - chances.sum()) / len(orders))
    return dlbkl(np.concatenate([alone, orders]), k, prior=prior), np.concatenate([chances, rest])


def language_kl(
    languages: Int[np.ndarray, "query rank"], k: int, n_languages: int, *, prior: np.ndarray | None = None
) -> Float[np.ndarray, " query"]:
    """KL divergence over all languages instead of two groups (AMB-38); no published value is of this kind.

    A list of ``k`` captions can't hold more than ``k`` languages, and each absent one costs
    ``P ln(P / 1e-9)``, so for small ``k`` the floor (:func:`language_kl_floor`) is high.

    Parameters
    ----------
    languages : int array of shape (query, rank)
        Number of the language at each rank, 0 to ``n_languages - 1``.
    k : int
    n_languages : int
    prior : float array of shape (n_languages,), optional
        P; the same for every language by default.

    Returns
    -------
    float64 array of shape (query,)
    """
    array = np.asarray(languages)
    if array.ndim != 2 or array.dtype.kind not in "iu" or array.size == 0:
        raise InputError(
            f"Languages of shape {array.shape} and type {array.dtype} came; give whole numbers of shape (query, rank)."
        )
    if array.min() < 0 or array.max() >= n_languages:
        raise InputError(
            f"A language has the number {int(array.max() if array.max() >= n_languages else array.min())}; with "
            f"{n_languages} languages the numbers run from 0 to {n_languages - 1}."
        )
    _check_k(k, array.shape[1])
    if prior is None:
        p = np.full(n_languages, 1.0 / n_languages)
    else:
        p = np.asarray(prior, dtype=np.float64)
        if p.shape != (n_languages,) or not np.isfinite(p).all() or (p < 0).any() or abs(p.sum() - 1) > 1e-9:
            raise InputError(f"The prior must give {n_languages} shares of 0 or more that sum to 1.")
    counts = np.zeros((len(array), n_languages))
    np.add.at(counts, (np.arange(len(array))[:, None], array[:, :k]), 1.0)
    return share_kl(counts / k, p)


def language_kl_floor(k: int, n_languages: int) -> float:
    """Return the lowest value of :func:`language_kl` under a uniform prior: languages as even as ``k`` allows."""
    _check_k(k, k)
    counts = np.full(n_languages, k // n_languages, dtype=np.float64)
    counts[: k % n_languages] += 1
    return float(share_kl(counts / k, np.full(n_languages, 1.0 / n_languages)))


def _weights(k: int, discounted: bool) -> np.ndarray:
    return 1.0 / np.log2(np.arange(2, k + 2)) if discounted else np.ones(k)


def _prior(low: float) -> np.ndarray:
    if not 0 < low < 1:
        raise InputError(
            f"A prior of {low} for the low-resource group came; it must be strictly between 0 and 1, such as 0.5."
        )
    return np.array([low, 1 - low])


def _lists(low: np.ndarray, k: int) -> np.ndarray:
    array = np.asarray(low)
    if array.ndim != 2 or array.size == 0:
        raise InputError(f"Lists of shape {array.shape} came; give one row a query and one column a rank.")
    if array.dtype != bool:
        if array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all():
            raise InputError("The lists hold something other than 0 and 1. Give True where a caption is low-resource.")
        array = array.astype(bool)
    _check_k(k, array.shape[1])
    return array[:, :k]


def _check_k(k: int, length: int) -> None:
    if not 1 <= k <= length:
        raise InputError(f"k={k} came for lists of {length} captions; use 1 to {length}.")
