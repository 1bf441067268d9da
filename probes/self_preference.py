"""Whether a tower prefers images of the query's own culture to images of what the query means (S0-37 to S0-42).

A trial is a forced choice. The query names a concept in a language; three images stand for election:

- *semantic*: the same concept, from another country;
- *cultural*: another concept, from the country of the query's language;
- *non-relevant*: another concept from another country.

The image most similar to the query wins. ``M_sem``, ``M_cul`` and ``M_non`` are shares of trials won, and

    self-preference  SP = M_cul / M_sem

is 0 for a tower that goes by meaning alone. The same trials with an image as the query are the image-to-image
variant. Who won is said by :func:`workbench.metrics.wins`: the published rule, ``"first"``, gives a tie to the
image listed first, which is the semantic one, and ``"shared"`` splits it. Where no trial was won by the
semantic image SP is infinite, and where none was won by the cultural one either it is undefined;
:attr:`WinRates.log_ratio` is finite in both cases.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from workbench.arrays import ArrayLike, as_labels, as_matrix
from workbench.errors import InputError
from workbench.retrieval import Bootstrap, unit

CANDIDATES = ("sem", "cul", "non")
"""Order of the three candidates in every array."""

_BLOCK = 8192  # trials


@dataclass(frozen=True)
class WinRates:
    """How many trials each kind of candidate won.

    Attributes
    ----------
    sem, cul, non : float
        Trials won; whole numbers unless ties were shared.
    """

    sem: float
    cul: float
    non: float

    def __post_init__(self) -> None:
        counts = np.array([self.sem, self.cul, self.non], dtype=np.float64)
        if not np.isfinite(counts).all() or (counts < 0).any() or counts.sum() == 0:
            raise InputError(
                f"Trials won of {self.sem}, {self.cul} and {self.non} came; they must be 0 or more, with one trial "
                "or more in all."
            )

    @property
    def n(self) -> float:
        """Trials."""
        return self.sem + self.cul + self.non

    @property
    def percent(self) -> tuple[float, float, float]:
        """M_sem, M_cul and M_non."""
        return 100 * self.sem / self.n, 100 * self.cul / self.n, 100 * self.non / self.n

    @property
    def sp(self) -> float:
        """M_cul / M_sem; infinite where M_sem is 0 and M_cul is not, NaN where both are 0 (AMB-40)."""
        return self_preference(self.cul, self.sem)

    @property
    def log_ratio(self) -> float:
        """Natural log of M_cul / M_sem with half a trial added to either, which is always finite."""
        return float(np.log((self.cul + 0.5) / (self.sem + 0.5)))


def self_preference(cultural: float, semantic: float) -> float:
    """Return ``cultural / semantic``, trials won or shares of them, without a division by zero.

    Infinite where nothing but the cultural candidate won, NaN where neither won a trial.
    """
    if semantic == 0:
        return float("inf") if cultural > 0 else float("nan")
    return float(cultural / semantic)


def triplet_similarity(
    queries: Float[np.ndarray, "trial d"], images: Float[np.ndarray, "image d"], rows: Int[np.ndarray, "trial 3"]
) -> Float[np.ndarray, "trial 3"]:
    """Cosine similarity of each query with its three candidates, float32.

    Parameters
    ----------
    queries : array or Tensor of shape (trial, d)
        Text embeddings, or image embeddings for the image-to-image variant; any length.
    images : array or Tensor of shape (image, d)
    rows : int array of shape (trial, 3)
        Rows of ``images``: the semantic, the cultural and the non-relevant candidate.

    Raises
    ------
    InputError
        If shapes do not fit, a row is not there, or an embedding has no direction.
    """
    texts, gallery = (torch.as_tensor(values) for values in (queries, images))
    places = np.asarray(rows)
    if places.ndim != 2 or places.shape[1] != 3 or places.dtype.kind not in "iu" or len(places) != len(texts):
        raise InputError(
            f"Candidates of shape {places.shape} and type {places.dtype} came for {len(texts)} queries; give the "
            "numbers of three images a query."
        )
    if texts.ndim != 2 or gallery.ndim != 2 or texts.shape[1] != gallery.shape[1]:
        raise InputError(
            f"Queries of shape {tuple(texts.shape)} and images of shape {tuple(gallery.shape)} came; both need the "
            "same number of columns."
        )
    if places.min(initial=0) < 0 or places.max(initial=0) >= len(gallery):
        raise InputError(f"A candidate has the number {int(places.max())}; there are {len(gallery)} images.")
    texts, gallery = unit(texts, "queries"), unit(gallery, "images")
    found = np.empty(places.shape, dtype=np.float32)
    for start in range(0, len(places), _BLOCK):
        part = slice(start, start + _BLOCK)
        chosen = gallery[torch.as_tensor(places[part].astype(np.int64))]
        found[part] = torch.einsum("td,tcd->tc", texts[part], chosen).numpy()
    return found


def count_ties(similarity: ArrayLike) -> int:
    """Trials in which two candidates or more share the highest similarity."""
    scores = as_matrix(similarity, "similarity", minimum_rows=1, columns=3)
    return int(((scores == scores.max(1, keepdims=True)).sum(1) > 1).sum())


def win_rates(wins: Float[np.ndarray, "trial 3"]) -> WinRates:
    """Add up trials, as :func:`workbench.metrics.wins` gives them: ``wins(similarity, "first")`` as published."""
    won = as_matrix(wins, "wins", minimum_rows=1, columns=3)
    if (won < 0).any() or not np.allclose(won.sum(1), 1):
        raise InputError(
            "The wins of a trial must be 0 or more and sum to 1. workbench.metrics.wins makes them from similarities."
        )
    return WinRates(*won.sum(0).tolist())


def win_intervals(
    wins: Float[np.ndarray, "trial 3"],
    clusters: Sequence[object] | np.ndarray | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Mapping[str, tuple[float, float]]:
    """Percentile bootstrap of the win rates (percent) and of SP.

    Parameters
    ----------
    wins : float array of shape (trial, 3)
    clusters : sequence of length trial, optional
        What is drawn as one: the query text, as a rule, since trials that share it are not independent. Every
        trial by itself by default.
    resamples, seed, level
        As in :class:`workbench.retrieval.Bootstrap`.

    Returns
    -------
    mapping of str to tuple of float
        ``M_sem``, ``M_cul``, ``M_non`` and ``SP`` to the two ends; both NaN where there is one cluster only.
        An end of SP may be infinite.
    """
    won = as_matrix(wins, "wins", minimum_rows=1, columns=3)
    if clusters is not None:
        codes, names = as_labels(clusters, len(won), "clusters", minimum_classes=1)
        summed = np.zeros((len(names), 3))
        np.add.at(summed, codes, won)
        won = summed
    if len(won) < 2:
        return {name: (float("nan"), float("nan")) for name in ("M_sem", "M_cul", "M_non", "SP")}
    sums = Bootstrap(len(won), resamples, seed, level).weights @ won
    ends: dict[str, tuple[float, float]] = {}
    tail = (1 - level) / 2
    for place, name in enumerate(CANDIDATES):
        low, high = np.quantile(100 * sums[:, place] / sums.sum(1), [tail, 1 - tail])
        ends[f"M_{name}"] = (float(low), float(high))
    ratios = np.array([self_preference(cul, sem) for sem, cul, _ in sums])
    if np.isnan(ratios).all():
        ends["SP"] = (float("nan"), float("nan"))
    else:
        # An observed value, not a point between two: halfway between a number and infinity is nothing.
        known = ratios[~np.isnan(ratios)]
        low, high = np.quantile(known, [tail, 1 - tail], method="inverted_cdf")
        ends["SP"] = (float(low), float(high))
    return ends


def weighted_rates(rates: Float[np.ndarray, "group 3"], trials: Float[np.ndarray, " group"]) -> Float[np.ndarray, " 3"]:
    """Win rates of all trials from those of groups, each weighing as many trials as it has (S0-42).

    SP of the whole is the ratio of two of these, and no mean of the groups' SP.
    """
    shares = as_matrix(rates, "rates", minimum_rows=1, columns=3)
    weights = np.asarray(trials, dtype=np.float64)
    if weights.shape != (len(shares),) or not (np.isfinite(weights).all() and (weights > 0).all()):
        raise InputError(f"Give a number of trials above 0 for each of the {len(shares)} groups.")
    return weights @ shares / weights.sum()


def z_pooled(similarity: ArrayLike) -> Float[np.ndarray, " 3"]:
    """Mean standardised similarity of each candidate (S0-39).

    All scores of the three candidates are standardised together, by their population standard deviation, so
    that towers whose cosines fill different ranges can be laid side by side. The three means sum to 0.

    Raises
    ------
    InputError
        If all scores are equal.
    """
    scores = as_matrix(similarity, "similarity", minimum_rows=1, columns=3)
    deviation = scores.std()
    if deviation <= 1e-12 * max(np.abs(scores).max(), 1e-300):
        raise InputError("All similarities are equal, so they have no scale. Look for a tower that ignores its input.")
    return ((scores - scores.mean()) / deviation).mean(0)
