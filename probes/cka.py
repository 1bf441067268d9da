"""Linear CKA: how alike two languages arrange the same images, whatever the axes (S3-80 to S3-83).

Centred kernel alignment compares two sets of rows through the similarities *within* each set. Turning,
shifting or scaling a set changes nothing; only the arrangement counts. With centred rows X and Y of the same
n captions,

    CKA(X, Y) = HSIC(X, Y) / sqrt(HSIC(X, X) HSIC(Y, Y)),     HSIC(X, Y) = ||Xᵀ Y||²_F.

This *biased* form, the one that papers print, is far from 0 for unrelated rows as soon as there are no more
captions than features: with n = 50 and d = 768 two independent Gaussians reach 0.94. The *debiased* form puts
the unbiased estimate of HSIC in its place (Song et al. 2012; the inner product of U-centred distance matrices
of Székely & Rizzo 2014), which is 0 on average for unrelated rows and may be negative. Both come from the
same few numbers, so both are always returned. With K = X Xᵀ, L = Y Yᵀ and k, l their diagonals,

    n(n-3) HSIC_u = ||Xᵀ Y||²_F - n/(n-2) Σ kᵢ lᵢ + Σ kᵢ Σ lᵢ / ((n-1)(n-2)).

The *null* shuffles the captions of each language: what CKA would be if the two sets shared a shape but no
content. Intervals are a delete-a-group jackknife over captions; a bootstrap would repeat captions and push CKA
up (:mod:`probes._resampling`).
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int

from probes._checks import Parallel, Rows, check_tiers, named, parallel_rows, say_undefined, spread
from probes._gram import Products, products, turned_products
from probes._resampling import check_count, circle_turns, jackknife_groups, jackknife_interval, p_value
from workbench.arrays import ArrayLike, as_matrix
from workbench.errors import InputError

Estimator = Literal["biased", "debiased"]
_MINIMUM = 4  # captions; the unbiased estimate divides by n - 3


def linear_cka(x: ArrayLike, y: ArrayLike, *, debiased: bool = False) -> float:
    """Return the linear CKA of two sets of rows.

    Parameters
    ----------
    x, y : arrays of shape (n, d) and (n, e)
        Row i is the same caption in both. The widths may differ.
    debiased : bool
        The estimate that is 0 on average for unrelated rows.

    Returns
    -------
    float
        At most 1. The biased form is at least 0; the debiased one may be negative.

    Raises
    ------
    InputError
        If n differs or is less than 4, all rows of one side are the same, or a value is not finite.
    """
    first = as_matrix(x, "x", minimum_rows=_MINIMUM)
    second = as_matrix(y, "y", minimum_rows=_MINIMUM)
    if len(first) != len(second):
        raise InputError(f"x has {len(first)} rows and y {len(second)}. Row i must be the same caption in both.")
    for name, rows in (("x", first), ("y", second)):
        if spread(rows) == 0:
            raise InputError(f"All rows of {name} are the same, so it has no arrangement to compare.")
    # Columns of zeros make the widths equal and change no product.
    both = np.zeros((2, len(first), max(first.shape[1], second.shape[1])))
    both[0, :, : first.shape[1]], both[1, :, : second.shape[1]] = first, second
    return float(_alignments(products(both)[0])[int(debiased)][0, 1])


@dataclass(frozen=True)
class CKAResult:
    """CKA of every pair of languages at every depth.

    Attributes
    ----------
    languages : tuple of str
    depths : tuple of int
    biased, debiased : arrays of shape (depth, language, language)
        NaN where a language's rows at a depth are all the same.
    null_biased, null_debiased : arrays of shape (draw, depth, language, language)
        With the captions of each language shuffled; NaN on the diagonal.
    without_biased, without_debiased : arrays of shape (group, depth, language, language)
        Without each group of captions, for the jackknife.
    n, d : int
        Captions and features.
    seed : int
    """

    languages: tuple[str, ...]
    depths: tuple[int, ...]
    biased: Float[np.ndarray, "depth language language"] = field(repr=False)
    debiased: Float[np.ndarray, "depth language language"] = field(repr=False)
    null_biased: Float[np.ndarray, "draw depth language language"] = field(repr=False)
    null_debiased: Float[np.ndarray, "draw depth language language"] = field(repr=False)
    without_biased: Float[np.ndarray, "group depth language language"] = field(repr=False)
    without_debiased: Float[np.ndarray, "group depth language language"] = field(repr=False)
    n: int
    d: int
    seed: int

    def values(self, estimator: Estimator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return values, null draws and jackknife values of one estimator."""
        if estimator not in get_args(Estimator):
            raise InputError(f"estimator={estimator!r} came; it is 'biased' or 'debiased'.")
        if estimator == "biased":
            return self.biased, self.null_biased, self.without_biased
        return self.debiased, self.null_debiased, self.without_debiased


@dataclass(frozen=True)
class TierCKA:
    """The mean CKA over the pairs of languages of two tiers, by depth.

    Attributes
    ----------
    pair : tuple of str
        The tiers, such as ``("HRL", "LRL")``.
    estimator : {"biased", "debiased"}
    n_pairs : int
        Unordered pairs of different languages.
    value, low, high : arrays of shape (depth,)
        The mean, and its 95 % jackknife interval over captions.
    null, null_low, null_high : arrays of shape (depth,)
        Mean and 95 % range of the same mean with shuffled captions.
    p : array of shape (depth,)
        How often the shuffled mean reaches the value.
    """

    pair: tuple[str, str]
    estimator: Estimator
    n_pairs: int
    value: Float[np.ndarray, " depth"]
    low: Float[np.ndarray, " depth"]
    high: Float[np.ndarray, " depth"]
    null: Float[np.ndarray, " depth"]
    null_low: Float[np.ndarray, " depth"]
    null_high: Float[np.ndarray, " depth"]
    p: Float[np.ndarray, " depth"]


def cka_by_depth(
    trajectory: Parallel,
    languages: Iterable[str] | None = None,
    depths: Sequence[int] | None = None,
    *,
    permutations: int = 100,
    groups: int = 20,
    seed: int = 0,
) -> CKAResult:
    """Compute CKA for every pair of languages, in one pass over depths (S3-80).

    Parameters
    ----------
    trajectory : DataArray, or mapping of str to array
        As ``capture`` returns it, with dimensions (language, caption, depth, feature); or by language rows of
        shape (caption, feature) or (caption, depth, feature).
    languages : iterable of str, optional
        All by default.
    depths : sequence of int, optional
        All by default.
    permutations : int
        Draws of the null; 0 for none.
    groups : int
        Groups of the jackknife, at most one a caption; 0 for no intervals.
    seed : int

    Returns
    -------
    CKAResult

    Raises
    ------
    InputError
        If fewer than two languages or four captions came, or a value is not finite.

    Notes
    -----
    Everything is float64. A depth goes through Gram matrices, of shape (n, n), or covariances, of shape (d, d),
    whichever costs less over all pairs; both in strips, so that memory does not grow with n². A draw of the null
    puts the captions on a circle in random order (the same for all draws) and turns each language by another
    random amount, which :mod:`probes._gram` does for all draws at once.
    """
    rows = parallel_rows(trajectory, languages, depths, minimum_rows=_MINIMUM, minimum_languages=2)
    count, n = len(rows.languages), rows.n
    own = jackknife_groups(n, check_count("groups", groups), seed, least_kept=_MINIMUM)
    order, turns = circle_turns(n, check_count("permutations", permutations), count, seed)
    shape = (len(rows.depths), count, count)
    values = np.full((2, *shape), math.nan)
    null = np.full((2, len(turns), *shape), math.nan)
    without = np.full((2, len(own), *shape), math.nan)
    undefined, shapeless = [], []
    for place, block in rows.each_depth():
        whole, rest = products(block, own)
        values[:, place] = _alignments(whole)
        for group, part in enumerate(rest):
            without[:, group, place] = _alignments(part)
        for draw, part in enumerate(_turned(block[:, order], turns)):
            null[:, draw, place] = _alignments(part)
        same = spread(block) == 0
        for k in np.flatnonzero(np.isnan(np.diagonal(values[1, place])) & ~same):
            shapeless.append(f"{rows.languages[k]!r} at depth {rows.depths[place]}")
        for k in np.flatnonzero(same):
            undefined.append(f"{rows.languages[k]!r} at depth {rows.depths[place]}")
            for stack in (values, null, without):
                stack[..., place, k, :] = stack[..., place, :, k] = math.nan
    null[..., range(count), range(count)] = math.nan
    if undefined:
        say_undefined(f"CKA of {named(undefined)}", "all rows there are the same")
    if shapeless:
        say_undefined(f"Debiased CKA of {named(shapeless)}", "the rows there are no more alike than unrelated ones")
    return CKAResult(
        rows.languages, rows.depths, values[0], values[1], null[0], null[1], without[0], without[1], n, rows.d, seed
    )


def _turned(rows: Rows, turns: Int[np.ndarray, "draw l"]) -> Iterator[Products]:
    """Yield the products with the captions of each language turned on their circle, for each draw."""
    if not len(turns):
        return
    cross = turned_products(rows)
    sizes = np.square(rows - rows.mean(axis=1, keepdims=True)).sum(axis=2)
    languages, n = sizes.shape
    a, b = np.indices((languages, languages))
    for turn in turns:
        rolled = np.stack([np.roll(own, -places) for own, places in zip(sizes, turn, strict=True)])
        yield Products(cross[(turn[b] - turn[a]) % n, a, b], rolled)


def tier_means(result: CKAResult, tiers: Mapping[str, str], estimator: Estimator = "debiased") -> list[TierCKA]:
    """Average CKA over the pairs of languages of each two tiers: HRL–HRL, HRL–LRL, LRL–LRL (S3-81).

    Parameters
    ----------
    result : CKAResult
    tiers : mapping of str to str
        Tier of each language (:func:`workbench.languages.tiers`).
    estimator : {"biased", "debiased"}

    Returns
    -------
    list of TierCKA
        One a pair of tiers that has a pair of different languages, tiers in the order of the languages.

    Raises
    ------
    InputError
        If the map lacks a language.
    """
    own = check_tiers(result.languages, tiers)
    values, null, without = result.values(estimator)
    names = list(dict.fromkeys(own))
    means = []
    for i, first in enumerate(names):
        for second in names[i:]:
            pairs = _pairs(own, first, second)
            if not len(pairs):
                continue
            value, chance, parts = (_mean_over(stack, pairs) for stack in (values, null, without))
            low, high = jackknife_interval(value, parts)
            empty = np.full_like(value, math.nan)
            bottom, top = np.quantile(chance, [0.025, 0.975], axis=0) if len(chance) else (empty, empty)
            centre = chance.mean(axis=0) if len(chance) else empty
            p = p_value(value, chance)
            means.append(TierCKA((first, second), estimator, len(pairs), value, low, high, centre, bottom, top, p))
    return means


def tier_difference(
    result: CKAResult, tiers: Mapping[str, str], within: tuple[str, str], between: tuple[str, str],
    estimator: Estimator = "debiased",
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return one tier pair's mean minus another's by depth, with the interval of the difference (S3-81).

    The difference is taken within each jackknife group, so what both sides share drops out of its interval.

    Returns
    -------
    tuple of three arrays of shape (depth,)
        Difference, lower and upper end.

    Raises
    ------
    InputError
        If a tier pair has no pair of languages.
    """
    own = check_tiers(result.languages, tiers)
    values, _, without = result.values(estimator)
    sides = []
    for first, second in (within, between):
        pairs = _pairs(own, first, second)
        if not len(pairs):
            raise InputError(f"There is no pair of languages of the tiers {first!r} and {second!r}.")
        sides.append((_mean_over(values, pairs), _mean_over(without, pairs)))
    value = sides[0][0] - sides[1][0]
    return value, *jackknife_interval(value, sides[0][1] - sides[1][1])


def _pairs(own: Sequence[str], first: str, second: str) -> Int[np.ndarray, "pair 2"]:
    found = [
        (a, b)
        for a in range(len(own))
        for b in range(a + 1, len(own))
        if sorted((own[a], own[b])) == sorted((first, second))
    ]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _mean_over(matrices: Float[np.ndarray, "... l l"], pairs: Int[np.ndarray, "pair 2"]) -> np.ndarray:
    return matrices[..., pairs[:, 0], pairs[:, 1]].mean(axis=-1)


def _alignments(found: Products) -> tuple[np.ndarray, np.ndarray]:
    """Return biased and debiased CKA of every pair of languages."""
    sizes, n = found.sizes, found.sizes.shape[1]
    total = sizes.sum(axis=1)
    unbiased = found.cross - n / (n - 2) * (sizes @ sizes.T) + np.outer(total, total) / ((n - 1) * (n - 2))
    values = []
    for hsic in (found.cross, unbiased):
        # Of rows that are all equally far apart nothing is left but the rounding of what is subtracted.
        own = np.sqrt(np.where(np.diag(hsic) > 1e-12 * np.diag(found.cross), np.diag(hsic), math.nan))
        value = hsic / np.outer(own, own)
        # A set agrees with itself to the bit, not to the last rounding.
        np.fill_diagonal(value, np.where(np.isnan(own), math.nan, 1.0))
        values.append(value)
    return values[0], values[1]
