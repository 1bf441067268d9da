"""Trajectory divergence: how far a language's rows are from a reference, block after block (S3-06, S3-84 to S3-87).

For a language L and a depth k, D_k(L) is the mean over captions of the distance between the row of L and the
row of the same caption in the reference: a language such as English, or the mean row of several. Four
distances are offered, since each hides something:

``cosine``
    1 - cos. Blind to the size of rows; small wherever all rows share one large direction.
``l2``
    Euclidean. Grows with depth because rows do.
``relative``
    Euclidean over the norm of the reference's row.
``whitened``
    The Mahalanobis distance under the covariance of the reference's rows at that depth, over sqrt(2d): 1 is as
    far apart as two unrelated captions of the reference. The covariance is shrunk after Ledoit & Wolf (2004),
    so it exists with fewer captions than features too.

A distance means little without the distance of what is *not* parallel, so each result carries that too: the
same mean with the reference's captions deranged.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from probes._checks import Parallel, check_tiers, named, parallel_rows, say_undefined, spread
from probes._resampling import Estimates, mean_over_captions
from probes.correlation import Correlation, correlate
from workbench.errors import InputError
from workbench.languages import COMMON_CRAWL_SHARE
from workbench.splits import generator as seeded

Distance = Literal["cosine", "l2", "relative", "whitened"]


@dataclass(frozen=True)
class Divergence:
    """Distances of languages from a reference, at every depth.

    Attributes
    ----------
    languages : tuple of str
    depths : tuple of int
    reference : tuple of str
        One language, or those whose mean row is the reference.
    distance : {"cosine", "l2", "relative", "whitened"}
    by_caption : array of shape (language, depth, caption)
        NaN where the distance is undefined.
    unrelated : array of shape (language, depth)
        Mean distance to the reference of another caption.
    shrinkage : array of shape (depth,)
        Weight of the spherical part in the covariance; NaN for other distances than the whitened one. With
        several references, of the mean of all of them.
    n, d : int
        Captions and features.
    seed : int
    """

    languages: tuple[str, ...]
    depths: tuple[int, ...]
    reference: tuple[str, ...]
    distance: Distance
    by_caption: Float[np.ndarray, "language depth caption"] = field(repr=False)
    unrelated: Float[np.ndarray, "language depth"] = field(repr=False)
    shrinkage: Float[np.ndarray, " depth"] = field(repr=False)
    n: int
    d: int
    seed: int

    def means(self, *, resamples: int = 1000) -> Estimates:
        """Return D_k(L) with its bootstrap interval over captions; arrays of shape (language, depth)."""
        return mean_over_captions(self.by_caption, resamples=resamples, seed=self.seed)

    def areas(self) -> dict[str, float]:
        """Return the area under each language's curve over depth, divided by the range of depths (S3-85).

        Depths where the distance is undefined are left out of the range.
        """
        means = self.by_caption.mean(axis=-1)
        has = ~np.isnan(means).any(axis=0)
        depths = np.array(self.depths)[has]
        if len(depths) < 2:
            raise InputError("An area under a curve needs two depths or more with a value.")
        area = np.trapezoid(means[:, has], depths, axis=1) / (depths[-1] - depths[0])
        return dict(zip(self.languages, map(float, area), strict=True))


def divergence_by_depth(
    trajectory: Parallel,
    reference: str | Sequence[str] = "en",
    languages: Iterable[str] | None = None,
    depths: Sequence[int] | None = None,
    *,
    distance: Distance = "cosine",
    leave_out_target: bool = True,
    seed: int = 0,
) -> Divergence:
    """Measure how far languages are from a reference at each depth.

    Parameters
    ----------
    trajectory : DataArray, or mapping of str to array
        As in :func:`probes.cka.cka_by_depth`.
    reference : str or sequence of str
        A language, or several whose mean row is the reference.
    languages : iterable of str, optional
        Those to measure. By default all, without the reference where that is one language.
    depths : sequence of int, optional
    distance : {"cosine", "l2", "relative", "whitened"}
    leave_out_target : bool
        Whether a language that is one of several references is measured against the others only (AMB-22).
    seed : int
        For the derangement of unrelated captions.

    Returns
    -------
    Divergence

    Raises
    ------
    InputError
        If a language is missing, a language would be measured against itself alone, or a row is zero.
    """
    from workbench.intervention import derangement

    if distance not in get_args(Distance):
        raise InputError(f"distance={distance!r} came; it is one of {', '.join(map(repr, get_args(Distance)))}.")
    sources = (reference,) if isinstance(reference, str) else tuple(dict.fromkeys(reference))
    if not sources:
        raise InputError("No reference came. Give a language, or several.")
    wanted = None if languages is None else list(dict.fromkeys([*languages, *sources]))
    rows = parallel_rows(trajectory, wanted, depths, minimum_rows=2)
    own = [rows.place(source) for source in sources]
    chosen = [name for name in (rows.languages if languages is None else languages) if (name,) != sources]
    if not chosen or (languages is not None and len(chosen) < len(list(languages))):
        raise InputError(f"{sources[0]!r} can't be measured against itself. Give another language or reference.")
    found = np.full((len(chosen), len(rows.depths), rows.n), math.nan)
    unrelated = np.full(found.shape[:2], math.nan)
    shrinkage = np.full(len(rows.depths), math.nan)
    other = derangement(rows.n, seeded(seed, 19))
    undefined = []
    for k, block in rows.each_depth():
        root = None
        if distance == "whitened":
            whole = block[own].mean(axis=0)
            if spread(whole) == 0:
                undefined.append(f"depth {rows.depths[k]}")
                continue
            root, shrinkage[k] = _covariance_root(whole)
        for place, name in enumerate(chosen):
            others = [at for at in own if at != rows.place(name)] if leave_out_target else own
            mean = block[others].mean(axis=0)
            row, where = block[rows.place(name)], f"{name!r} at depth {rows.depths[k]}"
            found[place, k] = _distances(row, mean, distance, root, where)
            unrelated[place, k] = _distances(row, mean[other], distance, root, where).mean()
    if undefined:
        say_undefined(f"The whitened distance at {named(undefined)}", "all rows of the reference there are the same")
    return Divergence(
        tuple(chosen), rows.depths, sources, distance, found, unrelated, shrinkage, rows.n, rows.d, seed
    )  # fmt: skip


def _covariance_root(rows: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "d d"], float]:
    """Return the Cholesky factor of the shrunk covariance, and how far it was shrunk."""
    from sklearn.covariance import ledoit_wolf

    scale = rows.std(axis=0)
    # A feature that never changes in the reference has no scale of its own.
    scale[scale == 0] = np.sqrt(np.square(scale).mean())
    correlation, shrinkage = ledoit_wolf(rows / scale)
    return scale[:, None] * np.linalg.cholesky(correlation), float(shrinkage)


def _distances(
    rows: Float[np.ndarray, "n d"], reference: Float[np.ndarray, "n d"], distance: Distance,
    root: np.ndarray | None, where: str,
) -> Float[np.ndarray, " n"]:  # fmt: skip
    difference = rows - reference
    if root is not None:
        from scipy.linalg import solve_triangular

        white = solve_triangular(root, difference.T, lower=True)
        return np.sqrt(np.square(white).sum(axis=0) / (2 * rows.shape[1]))
    if distance == "l2":
        return np.linalg.norm(difference, axis=1)
    size = np.linalg.norm(reference, axis=1)
    if not size.all():
        raise InputError(f"The rows of the references of {where} cancel out; a mean of zero has no direction or size.")
    if distance == "relative":
        return np.linalg.norm(difference, axis=1) / size
    own = np.linalg.norm(rows, axis=1)
    # Half the squared distance of unit vectors: exactly 0 for equal rows, where 1 - u·v is off by rounding.
    return np.square(rows / own[:, None] - reference / size[:, None]).sum(axis=1) / 2


def tier_gap(
    result: Divergence, tiers: Mapping[str, str], low: str = "LRL", high: str = "HRL", *, resamples: int = 1000
) -> Estimates:
    """Return the mean divergence of one tier minus that of another, by depth (S3-84, AMB-24).

    Parameters
    ----------
    result : Divergence
    tiers : mapping of str to str
    low, high : str
        The gap is ``low`` minus ``high``: positive where the low tier is further from the reference.
    resamples : int

    Returns
    -------
    Estimates
        Arrays of shape (depth,); intervals are of the difference, over captions.

    Raises
    ------
    InputError
        If the map lacks a language or no language has one of the tiers.
    """
    own = np.array(check_tiers(result.languages, tiers))
    for tier in (low, high):
        if tier not in own:
            raise InputError(
                f"No measured language has the tier {tier!r}. The tiers are: {', '.join(dict.fromkeys(own.tolist()))}."
            )
    difference = result.by_caption[own == low].mean(axis=0) - result.by_caption[own == high].mean(axis=0)
    return mean_over_captions(difference, resamples=resamples, seed=result.seed)


def residuals_at(
    trajectory: Parallel,
    depth: int,
    reference: str | Sequence[str] = "en",
    languages: Iterable[str] | None = None,
    *,
    relative: bool = False,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, tuple[float, float, float]]:
    """Return r_M(L), the mean Euclidean distance from the reference's rows at depth M (S3-86, AMB-25).

    Parameters
    ----------
    trajectory : DataArray, or mapping of str to array
        A mapping must hold rows of this depth alone.
    depth : int
        M, such as the depth after the last block of the trunk.
    reference : str or sequence of str
        English, or the languages of a tier for their mean.
    languages : iterable of str, optional
    relative : bool
        Whether to divide by the norm of the reference's row.
    resamples, seed : int

    Returns
    -------
    dict of str to (float, float, float)
        Value and 95 % interval by language.
    """
    result = divergence_by_depth(
        trajectory, reference, languages, [depth], distance="relative" if relative else "l2", seed=seed
    )
    found = result.means(resamples=resamples)
    return {
        name: (float(found.value[k, 0]), float(found.low[k, 0]), float(found.high[k, 0]))
        for k, name in enumerate(result.languages)
    }


def prevalence_correlation(
    residual: Mapping[str, float],
    shares: Mapping[str, float] = COMMON_CRAWL_SHARE,
    *,
    leave_out: Iterable[str] = ("en",),
    permutations: int = 10_000,
    seed: int = 0,
) -> Correlation:
    """Correlate how much of the web a language fills, as log10, with its residual (S3-87, AMB-28).

    Prevalence goes together with the quality of captions and with how well a tokeniser covers a language, so a
    correlation here names no cause.

    Parameters
    ----------
    residual : mapping of str to float
        A number by language, such as the values of :func:`residuals_at`.
    shares : mapping of str to float
        Percent of a corpus; Common Crawl's by default.
    leave_out : iterable of str
        Languages not to use; English, which fills near half of the web and is mostly the reference itself.
    permutations, seed : int

    Returns
    -------
    Correlation
        x is log10 of the share, y the residual.

    Raises
    ------
    InputError
        If a language has no share, or fewer than 4 are left.
    """
    skipped = set(leave_out)
    names = [name for name in residual if name not in skipped]
    missing = [name for name in names if not shares.get(name, 0) > 0]
    if missing:
        raise InputError(
            f"There is no prevalence of {', '.join(missing)}. Give `shares` that have it, or leave it out."
        )
    logs = {name: math.log10(shares[name]) for name in names}
    return correlate(logs, {name: residual[name] for name in names}, permutations=permutations, seed=seed)
