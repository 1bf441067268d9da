"""Silhouette: how much a point sits with its own label rather than with the nearest other one.

For a point, a is its mean distance to the other points of its label and b the least mean distance to the
points of another label; its silhouette is (b - a) / max(a, b), between -1 and 1 (Rousseeuw 1987). With
languages as labels it asks whether a tower sorts captions by language (S0-50).

The cosine distance from a point to a label, averaged, needs the mean of the label's unit vectors and nothing
else: mean_j (1 - u·uⱼ) = 1 - u·mean_j(uⱼ). So the cosine silhouette is exact in time linear in the number of
points. The Euclidean one has no such shortcut; it goes through blocks of distances, so that memory stays flat.
Both formulas subtract nearly equal numbers where points nearly coincide; such distances are taken again from the
differences of the points themselves, and rows that are the same direction, or the same point, are 0 apart.

A row of zeros is an error in both: it has no cosine, and in this project it stands for a row that a caption
does not have.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

from probes._checks import Parallel, Rows, named, parallel_rows, say_undefined, spread
from probes._resampling import check_count, jackknife_groups, jackknife_interval
from workbench.arrays import ArrayLike, as_labels, as_matrix
from workbench.errors import InputError

Metric = Literal["cosine", "euclidean"]
_BLOCK = 2**23  # distances held at once
_CACHED = 2**15  # numbers of a block of points that are worked on at once
_CLOSE = 1e-6  # share of the numbers subtracted below which a difference has lost too many digits


@dataclass(frozen=True)
class Silhouette:
    """Silhouettes of labelled points.

    Attributes
    ----------
    score : float
        Mean over all points.
    by_label : dict of str to float
        Mean over the points of each label.
    values : array of shape (n,)
        Of each point; 0 for the only point of its label.
    metric : {"cosine", "euclidean"}
    n, d : int
        Points and features.
    """

    score: float
    by_label: dict[str, float]
    values: Float[np.ndarray, " n"] = field(repr=False)
    metric: Metric
    n: int
    d: int


@dataclass(frozen=True)
class SilhouetteByDepth:
    """Silhouettes of languages at every depth.

    Attributes
    ----------
    languages : tuple of str
    depths : tuple of int
    value, low, high : arrays of shape (depth, language)
        Mean over the captions of a language, and its 95 % jackknife interval over images. NaN at a depth
        where all rows of all languages are the same.
    overall, overall_low, overall_high : arrays of shape (depth,)
        Mean over all captions.
    metric : {"cosine", "euclidean"}
    n, d : int
        Captions of each language that were used, and features.
    """

    languages: tuple[str, ...]
    depths: tuple[int, ...]
    value: Float[np.ndarray, "depth language"] = field(repr=False)
    low: Float[np.ndarray, "depth language"] = field(repr=False)
    high: Float[np.ndarray, "depth language"] = field(repr=False)
    overall: Float[np.ndarray, " depth"] = field(repr=False)
    overall_low: Float[np.ndarray, " depth"] = field(repr=False)
    overall_high: Float[np.ndarray, " depth"] = field(repr=False)
    metric: Metric
    n: int
    d: int


def silhouette_scores(points: ArrayLike, labels: ArrayLike, metric: Metric = "cosine") -> Silhouette:
    """Return the silhouette of every point, and its means.

    Parameters
    ----------
    points : array of shape (n, d)
    labels : array or sequence of length n
        Texts or whole numbers, at least two different ones and fewer than n.
    metric : {"cosine", "euclidean"}

    Raises
    ------
    InputError
        If a row is zero, a value not finite, labels do not match the rows, or all rows have one label or each
        its own.

    Notes
    -----
    Equal to ``sklearn.metrics.silhouette_samples``; distances are float64.
    """
    _check_metric(metric)
    matrix = as_matrix(points, "points", upcast=False)
    codes, classes = as_labels(labels, len(matrix))
    if len(classes) == len(matrix):
        raise InputError(f"Each of the {len(matrix)} points has a label of its own, so no label has a distance inside.")
    values = _samples(matrix, codes, len(classes), metric)
    by_label = np.bincount(codes, values) / np.bincount(codes)
    means = {str(label): float(mean) for label, mean in zip(classes, by_label, strict=True)}
    return Silhouette(float(values.mean()), means, values, metric, *matrix.shape)


def silhouette_by_depth(
    trajectory: Parallel,
    languages: Iterable[str] | None = None,
    depths: Sequence[int] | None = None,
    *,
    metric: Metric = "cosine",
    groups: int | None = None,
    seed: int = 0,
) -> SilhouetteByDepth:
    """Measure at each depth how far rows are sorted by language.

    Parameters
    ----------
    trajectory : DataArray, or mapping of str to array
        As in :func:`probes.cka.cka_by_depth`.
    languages : iterable of str, optional
    depths : sequence of int, optional
    metric : {"cosine", "euclidean"}
    groups : int, optional
        Groups of images of the jackknife; 0 for no intervals. By default 20 for cosine and 0 for Euclidean
        distances, where each group costs a whole pass.
    seed : int

    Returns
    -------
    SilhouetteByDepth

    Raises
    ------
    InputError
        If fewer than two languages or two captions came, or a row is zero or not finite.
    """
    _check_metric(metric)
    rows = parallel_rows(trajectory, languages, depths, minimum_rows=2, minimum_languages=2)
    count = check_count("groups", (20 if metric == "cosine" else 0) if groups is None else groups)
    own = jackknife_groups(rows.n, count, seed)
    value = np.full((len(rows.depths), len(rows.languages)), math.nan)
    without = np.full((len(own), *value.shape), math.nan)
    undefined = []
    for place, block in rows.each_depth():
        if spread(block.reshape(-1, rows.d)) == 0:
            undefined.append(f"depth {rows.depths[place]}")
            continue
        value[place] = _of_languages(block, metric)
        for group, left_out in enumerate(own):
            without[group, place] = _of_languages(np.delete(block, left_out, axis=1), metric)
    if undefined:
        say_undefined(f"The silhouette at {named(undefined)}", "all rows there are the same")
    ends = jackknife_interval(value, without)
    overall = value.mean(axis=1)
    overall_ends = jackknife_interval(overall, without.mean(axis=2))
    return SilhouetteByDepth(
        rows.languages, rows.depths, value, *ends, overall, *overall_ends, metric=metric, n=rows.n, d=rows.d
    )


def distinct_captions(captions: Mapping[str, Sequence[Hashable]]) -> dict[str, Bool[np.ndarray, " n"]]:
    """Return which captions of each language are there for the first time (S0-50, AMB-41).

    A text that two languages share is kept once, under the first of them, since a point can't be told from its
    double by language.

    Parameters
    ----------
    captions : mapping of str to sequence
        Texts of each language.

    Returns
    -------
    dict of str to bool array
        True for captions to keep.
    """
    seen: set[Hashable] = set()
    kept = {}
    for language, texts in captions.items():
        first = []
        for text in texts:
            first.append(text not in seen)
            seen.add(text)
        kept[language] = np.array(first, dtype=bool)
    return kept


def _check_metric(metric: str) -> None:
    if metric not in get_args(Metric):
        raise InputError(f"metric={metric!r} came; it is 'cosine' or 'euclidean'.")


def _of_languages(block: Rows, metric: Metric) -> Float[np.ndarray, " language"]:
    languages, n, d = block.shape
    codes = np.repeat(np.arange(languages), n)
    return _samples(block.reshape(-1, d), codes, languages, metric).reshape(languages, n).mean(axis=1)


def _samples(
    points: Float[np.ndarray, "n d"], codes: Int[np.ndarray, " n"], classes: int, metric: Metric
) -> Float[np.ndarray, " n"]:
    counts = np.bincount(codes, minlength=classes).astype(np.float64)
    to_label = (_cosine_sums if metric == "cosine" else _euclidean_sums)(points, codes, counts)
    every = np.arange(len(points))
    own = to_label[every, codes]
    to_label /= counts
    to_label[every, codes] = np.inf
    nearest, count = to_label.min(axis=1), counts[codes]
    inside = own / np.maximum(count - 1, 1)
    larger = np.maximum(inside, nearest)
    # Alone in its label, or on top of its own and the nearest label alike: 0 by convention.
    return np.where((count > 1) & (larger > 0), (nearest - inside) / np.where(larger > 0, larger, 1.0), 0.0)


def _refuse_zero_rows(size: Float[np.ndarray, " n"]) -> None:
    zero = np.flatnonzero(size == 0)
    if len(zero):
        raise InputError(
            f"{len(zero)} of {len(size)} rows are zero, the first is row {zero[0]}. A zero row has no direction, and "
            "stands for a caption without such a row. Leave these captions out."
        )


def _cosine_sums(points: np.ndarray, codes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Sum the cosine distances from each point to the points of each label; its own distance counts as 0."""
    n, d = points.shape
    # Blocks that stay in the cache: twice through the points is then hardly more than reading them twice.
    height = max(1, _CACHED // d)
    blocks = [slice(start, min(start + height, n)) for start in range(0, n, height)]
    size, sums = np.empty(n), np.zeros((len(counts), d))  # sums of unit vectors, by label
    for own in blocks:
        block = points[own].astype(np.float64)
        size[own] = np.sqrt(np.einsum("nd,nd->n", block, block))
        share = np.zeros((len(counts), len(block)))
        share[codes[own], np.arange(len(block))] = 1.0 / np.where(size[own] > 0, size[own], 1.0)
        sums += share @ block
    _refuse_zero_rows(size)
    if not np.isfinite(size).all():
        raise InputError("The norm of a row overflows; its values are beyond 1e150. Scale the points down.")
    found = np.empty((n, len(counts)))
    for own in blocks:
        found[own] = counts - points[own].astype(np.float64) @ sums.T / size[own, None]
    for label in np.flatnonzero((found < _CLOSE * counts).any(axis=0)):
        near = np.flatnonzero(found[:, label] < _CLOSE * counts[label])
        found[near, label] = _close_sums(points, size, np.flatnonzero(codes == label), near, height)
    return found


def _close_sums(points: np.ndarray, size: np.ndarray, own: np.ndarray, near: np.ndarray, height: int) -> np.ndarray:
    """Sum the cosine distances from rows ``near`` to rows ``own`` as half the squared differences of unit vectors.

    With c the mean of the own ones, sum_j |u - uⱼ|² = n |u - c|² + sum_j |uⱼ - c|², in which nothing cancels. All is
    taken relative to one of the own ones, so that coinciding rows leave exactly nothing.
    """
    first = points[own[0]].astype(np.float64) / size[own[0]]

    def shifted(rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        for start in range(0, len(rows), height):
            part = rows[start : start + height]
            yield slice(start, start + height), points[part].astype(np.float64) / size[part, None] - first

    middle = np.sum([block.sum(axis=0) for _, block in shifted(own)], axis=0) / len(own)
    spread_inside = sum(np.square(block - middle).sum() for _, block in shifted(own))
    found = np.empty(len(near))
    for place, block in shifted(near):
        found[place] = (len(own) * np.square(block - middle).sum(axis=1) + spread_inside) / 2
    # Two copies of a row, one scaled, differ by what rounding leaves of their norms.
    rounding = len(own) * points.shape[1] * np.square(8 * np.finfo(np.float64).eps)
    return np.where(found <= rounding, 0.0, found)


def _euclidean_sums(points: np.ndarray, codes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Sum the Euclidean distances from each point to the points of each label, a block at a time."""
    points = points.astype(np.float64, copy=False)
    _refuse_zero_rows(np.abs(points).max(axis=1))
    # Points that coincide are one point that counts several times; + 0.0 makes -0.0 the same as 0.0.
    points, place = np.unique(points + 0.0, axis=0, return_inverse=True)
    place, n = place.reshape(-1), len(points)
    member = np.zeros((n, len(counts)))
    np.add.at(member, (place, codes), 1.0)
    # A shift changes no distance, and small numbers lose less in |x|² + |y|² - 2xy.
    centred = points - points.mean(axis=0)
    square = np.einsum("nd,nd->n", centred, centred)
    found = np.empty((n, len(counts)))
    columns = min(n, _BLOCK)
    height = max(1, _BLOCK // columns)
    for start in range(0, n, height):
        own = slice(start, min(start + height, n))
        total = np.zeros((own.stop - own.start, len(counts)))
        for left in range(0, n, columns):
            other = slice(left, min(left + columns, n))
            distance = centred[own] @ centred[other].T
            distance *= -2.0
            distance += square[own, None]
            distance += square[other]
            close = distance < _CLOSE * np.minimum(square[own, None], square[other])
            rows, others = np.nonzero(close)
            for part in range(0, len(rows), height):
                pair = rows[part : part + height], others[part : part + height]
                apart = points[own.start + pair[0]] - points[other.start + pair[1]]
                distance[pair] = np.einsum("nd,nd->n", apart, apart)
            np.maximum(distance, 0.0, out=distance)
            np.sqrt(distance, out=distance)
            total += distance @ member[other]
        found[own] = total
    return found[place]
