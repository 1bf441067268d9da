"""A correlation over a handful of languages, with what it takes to not over-read it (S3-87, S3-94).

With ten languages a correlation of 0.5 is no news, and one language can make it or break it. So the result
carries a permutation p for both coefficients (exact where all orders can be tried) and each coefficient with
each language left out in turn.
"""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from probes._checks import named
from probes._resampling import check_count
from workbench.errors import InputError
from workbench.splits import generator as seeded

_LEAST = 4


@dataclass(frozen=True)
class Correlation:
    """Pearson's and Spearman's correlation of two numbers by name.

    Attributes
    ----------
    names : tuple of str
        Languages, in the order of the given mapping.
    x, y : arrays of shape (n,)
    pearson, spearman : float
    pearson_p, spearman_p : float
        Two-sided permutation p: how often shuffled values correlate as strongly.
    without : dict of str to (float, float)
        Pearson and Spearman with one name left out; NaN where the rest is constant.
    n : int
    draws : int
        Permutations behind p.
    exact : bool
        Whether these were all permutations.
    """

    names: tuple[str, ...]
    x: Float[np.ndarray, " n"] = field(repr=False)
    y: Float[np.ndarray, " n"] = field(repr=False)
    pearson: float
    spearman: float
    pearson_p: float
    spearman_p: float
    without: dict[str, tuple[float, float]] = field(repr=False)
    n: int
    draws: int
    exact: bool

    @property
    def pearson_range(self) -> tuple[float, float]:
        """Least and greatest Pearson correlation with one name left out."""
        return _ends(pearson for pearson, _ in self.without.values())

    @property
    def spearman_range(self) -> tuple[float, float]:
        """Least and greatest Spearman correlation with one name left out."""
        return _ends(spearman for _, spearman in self.without.values())


def correlate(
    x: Mapping[str, float], y: Mapping[str, float], *, permutations: int = 10_000, seed: int = 0
) -> Correlation:
    """Correlate two numbers over the same names.

    Parameters
    ----------
    x, y : mapping of str to float
        The same names in both; the order is that of ``x``.
    permutations : int
        Draws of the permutation test. Where there are no more orders than this, all are tried.
    seed : int

    Returns
    -------
    Correlation

    Raises
    ------
    InputError
        If names differ, fewer than 4 came, or a side is constant or not finite.
    """
    draws = check_count("permutations", permutations, 1)
    names = tuple(x)
    if set(x) != set(y):
        odd = named(sorted(set(x) ^ set(y)))
        raise InputError(f"The two sides of a correlation need the same names; only one side has {odd}.")
    if len(names) < _LEAST:
        raise InputError(f"A correlation over {len(names)} names says nothing; give {_LEAST} or more.")
    first, second = (np.array([float(side[name]) for name in names]) for side in (x, y))
    for which, side in (("first", first), ("second", second)):
        if not np.isfinite(side).all():
            raise InputError(f"The {which} side is NaN or infinite for {names[int(np.argmin(np.isfinite(side)))]!r}.")
        if side.max() == side.min():
            raise InputError(f"The {which} side is {side[0]} for every name, and a constant correlates with nothing.")
    exact = len(names) <= 12 and math.factorial(len(names)) <= draws
    if exact:
        orders = np.array(list(itertools.permutations(range(len(names)))))
    else:
        generator = seeded(seed, 17)
        orders = np.stack([generator.permutation(len(names)) for _ in range(draws)])
    ranks = _ranks(first), _ranks(second)
    pearson, spearman = _pearson(first, second), _pearson(*ranks)
    return Correlation(
        names, first, second, pearson, spearman, _p(pearson, first, second, orders, exact),
        _p(spearman, *ranks, orders, exact), _leave_one_out(names, first, second), len(names), len(orders), exact,
    )  # fmt: skip


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    a, b = x - x.mean(), y - y.mean()
    size = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / size) if size > 0 else math.nan


def _ranks(values: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata

    return rankdata(values)


def _p(observed: float, x: np.ndarray, y: np.ndarray, orders: np.ndarray, exact: bool) -> float:
    a, b = x - x.mean(), y - y.mean()
    shuffled = np.abs(a[orders] @ b) / np.sqrt((a @ a) * (b @ b))
    reached = int((shuffled >= abs(observed) - 1e-12).sum())
    # The observed order is among all orders; among drawn ones it counts as one more.
    return reached / len(orders) if exact else (1 + reached) / (1 + len(orders))


def _leave_one_out(names: tuple[str, ...], x: np.ndarray, y: np.ndarray) -> dict[str, tuple[float, float]]:
    found = {}
    for place, name in enumerate(names):
        a, b = np.delete(x, place), np.delete(y, place)
        found[name] = (_pearson(a, b), _pearson(_ranks(a), _ranks(b)))
    return found


def _ends(values: Iterable[float]) -> tuple[float, float]:
    found = np.array(list(values))
    return float(np.nanmin(found)), float(np.nanmax(found))
