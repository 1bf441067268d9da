"""Intervals and chance levels for statistics that are no plain mean.

A mean over captions gets its interval from :class:`workbench.retrieval.Bootstrap`. CKA and the silhouette
compare captions with each other, and there a bootstrap misleads: it draws captions twice, a caption and its
copy agree perfectly, and the statistic rises. The delete-a-group jackknife takes captions away instead.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from workbench.errors import InputError
from workbench.splits import generator as seeded


def jackknife_groups(n: int, groups: int, seed: int, *, least_kept: int = 2) -> list[Int[np.ndarray, " own"]]:
    """Sort captions into random groups, each to be taken away in turn.

    Returns
    -------
    list of int arrays
        Together all captions. At most one group a caption; none if too few captions would be left.
    """
    groups = min(groups, n)
    if groups < 2 or n - -(-n // groups) < least_kept:
        return []
    return np.array_split(seeded(seed, 11).permutation(n), groups)


def jackknife_interval(
    value: Float[np.ndarray, "..."], without: Float[np.ndarray, "groups ..."], level: float = 0.95
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """Return the ends of the interval of a statistic from its values without each group.

    The variance is (g-1)/g times the sum of squares about the mean of the g values; Student's t with g-1
    degrees of freedom gives the width.
    """
    from scipy.stats import t

    groups = len(without)
    if groups == 0:
        return np.full_like(value, math.nan), np.full_like(value, math.nan)
    variance = (groups - 1) / groups * np.square(without - without.mean(axis=0)).sum(axis=0)
    half = t.ppf((1 + level) / 2, groups - 1) * np.sqrt(variance)
    return value - half, value + half


def circle_turns(
    n: int, draws: int, languages: int, seed: int
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, "draw language"]]:
    """Return a random order of captions, and by how many places each draw turns each language.

    No two languages are turned alike, so no caption keeps its partner.
    """
    generator = seeded(seed, 13)
    order = generator.permutation(n)
    if languages > n:
        return order, generator.integers(n, size=(draws, languages))
    turns = [generator.choice(n, languages, replace=False) for _ in range(draws)]
    return order, np.array(turns, dtype=np.int64).reshape(draws, languages)


def p_value(observed: Float[np.ndarray, "..."], draws: Float[np.ndarray, "draws ..."]) -> Float[np.ndarray, "..."]:
    """Return the one-sided permutation p: how often chance reaches the observed value.

    The observed arrangement counts as one of the draws, so that p is never 0.
    """
    if len(draws) == 0:
        return np.full_like(observed, math.nan)
    p = (1 + (draws >= observed - 1e-12).sum(axis=0)) / (1 + len(draws))
    return np.where(np.isnan(observed), math.nan, p)


def check_count(name: str, value: int, least: int = 0) -> int:
    """Refuse a count that is no whole number or too small."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name}={value!r} came; it must be a whole number of {least} or more.")
    return int(value)


class Estimates(NamedTuple):
    """Values and the ends of their 95 % intervals, arrays of one shape."""

    value: Float[np.ndarray, "..."]
    low: Float[np.ndarray, "..."]
    high: Float[np.ndarray, "..."]


def mean_over_captions(values: Float[np.ndarray, "... n"], *, resamples: int = 1000, seed: int = 0) -> Estimates:
    """Average over captions, with a percentile bootstrap that draws the same captions for all rows.

    NaN in a row gives NaN for it.
    """
    from workbench.retrieval import Bootstrap

    bootstrap = Bootstrap(values.shape[-1], check_count("resamples", resamples, 1), seed)
    return Estimates(values.mean(axis=-1), *bootstrap.interval(bootstrap.means(values)))
