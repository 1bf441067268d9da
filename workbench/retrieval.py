"""Ranks, the metrics made of them, and how sure one may be of a mean.

A caption is ranked against the images (``t2i``) and an image against the captions (``i2t``). A rank is kept
as counts, how many candidates are strictly better and how many tie, because how ties count changes a score:
a tower that gives every image the same embedding has R@1 of 100 % under the optimistic rule. The default is
the *expected* score under a random order of the tied.

Similarities are float32, means and intervals float64. Rows with the same bits always tie: a matrix product
may give them last bits that differ by their place, so one result is copied to all of them. An interval is a
percentile bootstrap over images; every arm sees the same resamples, so that the interval of a difference is
the paired one (AMB-36).
"""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from workbench.errors import InputError, suggest
from workbench.splits import generator as seeded

Ties = Literal["optimistic", "expected", "pessimistic"]
Direction = Literal["i2t", "t2i"]

TIES: tuple[Ties, ...] = ("optimistic", "expected", "pessimistic")
CUTOFFS = (1, 5, 10)
METRICS = (*(f"R@{k}" for k in CUTOFFS), "MRR")
ROUNDING = 1e-5
"""What two passes that compute the same may differ by, relative to the length of an embedding."""
PERCENT = (0.0, 100.0)
"""Lowest and highest score of an image."""
DIFFERENCE = (-100.0, 100.0)
"""Lowest and highest difference of two scores of an image."""

_FEW = 10.0  # where n·p or n·(1 − p) falls below it, textbooks leave the normal approximation


@dataclass(frozen=True)
class Ranks:
    """Where the first of a query's targets ended up.

    Attributes
    ----------
    better : int array of shape (..., n)
        Candidates with a strictly higher similarity than the best target.
    tied : int array, same shape
        Candidates with exactly its similarity that are no targets.
    own : int array, same shape, optional
        Targets with exactly its similarity, itself included; one each by default. More than one of them
        makes it likelier that a random order of the tied puts one early.
    """

    better: np.ndarray
    tied: np.ndarray
    own: np.ndarray | None = None

    def hits(self, k: int, ties: Ties = "expected") -> np.ndarray:
        """Chance that a target is among the first ``k``: 0, 1, or between where it ties."""
        if ties == "optimistic":
            return (self.better < k).astype(np.float64)
        if ties == "pessimistic":
            return (self.better + self.tied < k).astype(np.float64)
        expected = np.clip((k - self.better) / (self.tied + 1.0), 0.0, 1.0)
        if self.own is not None:
            several = (self.own > 1) & (expected > 0) & (self.tied > 0)
            places = (k - self.better)[several]
            expected[several] = 1 - _no_target(places, self.tied[several], self.own[several])
        return expected

    def reciprocal(self, ties: Ties = "expected", k: int | None = None) -> np.ndarray:
        """Reciprocal of the rank, or its mean over the orders of the tied; 0 for ranks beyond ``k``."""
        if ties == "optimistic":
            return _inverse(self.better + 1, k)
        if ties == "pessimistic":
            return _inverse(self.better + self.tied + 1, k)
        last = self.better + self.tied + 1
        harmonic = np.concatenate([[0.0], np.cumsum(_inverse(np.arange(1, int(last.max(initial=0)) + 1), k))])
        expected = (harmonic[last] - harmonic[self.better]) / (self.tied + 1.0)
        if self.own is not None:
            several = (self.own > 1) & (self.tied > 0)
            cases = np.stack([self.better[several], self.tied[several], self.own[several]], axis=-1)
            distinct, case = np.unique(cases.reshape(-1, 3), axis=0, return_inverse=True)
            means = np.array([_mean_reciprocal(better, others, own, k) for better, others, own in distinct.tolist()])
            expected[several] = means[case.reshape(-1)] if len(means) else 0.0
        return expected

    def score(self, metric: str, ties: Ties = "expected") -> np.ndarray:
        """One metric for each query, in percent: ``"R@k"``, ``"MRR"``, or ``"MRR@k"`` (0 beyond rank k)."""
        check_ties(ties)
        if metric == "MRR":
            return 100.0 * self.reciprocal(ties)
        name, k = split_cutoff(metric)
        if name == "R" and k:
            return 100.0 * self.hits(k, ties)
        if name == "MRR" and k:
            return 100.0 * self.reciprocal(ties, k)
        raise InputError(
            f"There is no metric {metric!r}. Use 'MRR' or 'R@k' with a whole number k, such as 'R@5', or 'MRR@10'."
        )


def check_ties(ties: str) -> Ties:
    """Return the rule for ties, or say which ones there are."""
    if ties not in TIES:
        raise InputError(f"There is no rule {ties!r} for ties.{suggest(ties, TIES)} Use one of {', '.join(TIES)}.")
    return ties


def split_cutoff(metric: str) -> tuple[str, int | None]:
    """Split ``"R@5"`` into ``("R", 5)``; the number is None where there is no legal one."""
    name, _, k = metric.partition("@")
    return name, int(k) if re.fullmatch("[0-9]{1,9}", k) and int(k) > 0 else None


def _inverse(rank: np.ndarray, k: int | None) -> np.ndarray:
    return 1.0 / rank if k is None else np.where(rank <= k, 1.0 / rank, 0.0)


def _no_target(places: np.ndarray, others: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Chance that none of ``own`` targets is in the first ``places`` of a random order with ``others``."""
    chance = np.ones(len(places))
    for j in range(1, int(own.max(initial=0)) + 1):
        factor = np.clip(others + j - places, 0, None) / (others + j)
        chance *= np.where(j <= own, factor, 1.0)
    return chance


def _mean_reciprocal(better: int, others: int, own: int, k: int | None) -> float:
    """Mean of 1/rank of the first of ``own`` targets in a random order with ``others``, after ``better``."""
    places = np.arange(others + 1)
    # Chance that the first target comes after each place, and so that it comes exactly there.
    after = np.cumprod((others - places) / (others + own - places))
    exactly = np.concatenate([[1.0], after[:-1]]) - after
    return float(exactly @ _inverse(better + 1 + places, k))


def unit(embeddings: Float[Tensor, "... d"], what: str) -> Float[Tensor, "... d"]:
    """Normalise embeddings in float32; refuse NaN, infinity and zero rows, which have no direction."""
    embeddings = embeddings.float()
    return embeddings / lengths(embeddings, what)[..., None]


def lengths(embeddings: Float[Tensor, "... d"], what: str, start: int = 0) -> Float[Tensor, "..."]:
    """Euclidean lengths; NaN, infinity and zero are refused. ``start`` is the number of the first row."""
    norm = torch.linalg.vector_norm(embeddings, dim=-1)
    bad = ~torch.isfinite(norm) | (norm == 0)
    if bad.any():
        row = start + int(bad.reshape(-1).nonzero()[0, 0])
        raise InputError(
            f"The {what} hold {int(bad.sum())} rows that are zero, NaN or infinite (the first is row {row}), and "
            "nothing can be ranked against them. Look for a broken image or a tower in half precision."
        )
    return norm


def rank(
    texts: Float[Tensor, "caption d"], gallery: Float[Tensor, "image d"], owner: Int[Tensor, " caption"]
) -> dict[Direction, Ranks]:
    """Rank captions against images and images against captions.

    Parameters
    ----------
    texts : Tensor of shape (caption, d)
        Unit embeddings (:func:`unit`).
    gallery : Tensor of shape (image, d)
        Unit embeddings.
    owner : int Tensor of shape (caption,)
        Row of the image that a caption describes. Each image needs at least one caption.

    Returns
    -------
    dict
        ``"t2i"``: ranks of each caption's image, shape (caption,). ``"i2t"``: ranks of each image's best own
        caption, shape (image,), which is what a hit among "any of its captions" needs.
    """
    return rank_and_top(texts, gallery, owner)[0]


def rank_and_top(
    texts: Float[Tensor, "caption d"],
    gallery: Float[Tensor, "image d"],
    owner: Int[Tensor, " caption"],
    k: int = 0,
) -> tuple[dict[Direction, Ranks], np.ndarray]:
    """Return what :func:`rank` and :func:`top_images` return, from one matrix of similarities."""
    similarity = similarities(texts, gallery)
    scores, owners = similarity.numpy(), owner.numpy()
    own = scores[np.arange(len(owners)), owners]
    t2i = Ranks(better := _count(scores > own[:, None], 1), _count(scores >= own[:, None], 1) - better - 1)
    if len(owners) == len(gallery):
        # One caption an image, the common case: its own similarity is the best own one.
        best = np.empty_like(own)
        best[owners] = own
        several, own_ties = None, 1
    else:
        best = np.full(len(gallery), -np.inf, dtype=own.dtype)
        np.maximum.at(best, owners, own)
        own_ties = np.bincount(owners[own == best[owners]], minlength=len(gallery)).astype(np.int32)
        several = own_ties
    i2t = Ranks(better := _count(scores > best, 0), _count(scores >= best, 0) - better - own_ties, several)
    return {"i2t": i2t, "t2i": t2i}, top_k(similarity, k)[1].astype(np.int32)


def _count(matches: np.ndarray, axis: int) -> np.ndarray:
    # Bytes summed by numpy: about 20 times faster than a sum of booleans in torch, which goes through int64.
    return matches.view(np.uint8).sum(axis, dtype=np.int32)


def similarities(
    queries: Float[Tensor, "query d"], candidates: Float[Tensor, "candidate d"]
) -> Float[Tensor, "query candidate"]:
    """Dot products in float32, equal to the bit for rows that are."""
    found = queries.float() @ candidates.float().T
    for rows, dim in ((queries, 0), (candidates, 1)):
        first = alike(rows.numpy())
        again = np.flatnonzero(first != np.arange(len(first)))
        if len(again):
            index = torch.from_numpy(again)
            found.index_copy_(dim, index, found.index_select(dim, torch.from_numpy(first[again])))
    return found


def alike(rows: Shaped[np.ndarray, "row d"]) -> Int[np.ndarray, " row"]:
    """For each row of numbers or token ids, the first row that has the same bits."""
    first = np.arange(len(rows))
    raw = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
    # Few rows share their first numbers; only those are compared in full.
    start = np.ascontiguousarray(raw[:, :8])
    keys = start.view(f"u{start.shape[1]}")[:, 0] if start.shape[1] in (2, 4, 8) else start[:, 0]
    _, group, count = np.unique(keys, return_inverse=True, return_counts=True)
    seen: dict[bytes, int] = {}
    for row in np.flatnonzero(count[group] > 1).tolist():
        first[row] = seen.setdefault(raw[row].tobytes(), row)
    return first


def settle(
    embeddings: Float[Tensor, "... caption d"],
    first: Sequence[int] | Int[np.ndarray, " caption"],
    tolerance: float = ROUNDING,
) -> Float[Tensor, "... caption d"]:
    """Give rows that are equal but for rounding the bits of the first of them.

    Captions with the same tokens have the same embedding, but two batches may compute it with other last
    bits, and then nothing ties.

    Parameters
    ----------
    embeddings : Tensor of shape (..., caption, d)
    first : sequence of int
        For each caption the first with the same tokens (:func:`first_places`).
    tolerance : float
        Distance, relative to the length, that counts as rounding. Rows that were patched in two ways are
        further apart and stay as they are.
    """
    places = torch.as_tensor(first)
    again = (places != torch.arange(len(places))).nonzero()[:, 0]
    if not len(again):
        return embeddings
    own = embeddings[..., again, :]
    earlier = embeddings[..., places[again], :]
    apart = torch.linalg.vector_norm(own - earlier, dim=-1, keepdim=True)
    near = apart <= tolerance * torch.linalg.vector_norm(earlier, dim=-1, keepdim=True)
    return embeddings.index_copy(-2, again, torch.where(near, earlier, own))


def top_k(similarity: Float[Tensor, "query candidate"], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ``k`` highest similarities of each query and whose they are; of the tied, the lowest first.

    Returns
    -------
    values : float32 array of shape (query, k)
        Highest first.
    candidates : int64 array of shape (query, k)
    """
    n = similarity.shape[1]
    k = min(k, n)
    # One more than asked for shows whether the last place was shared, and then who should have it.
    values, found = similarity.topk(min(k + 1, n), dim=1)
    cut = (values[:, k] == values[:, k - 1]).nonzero()[:, 0].tolist() if 0 < k < n else []
    by_id = found[:, :k].argsort(dim=1)
    values, found = values[:, :k].gather(1, by_id), found[:, :k].gather(1, by_id)
    order = values.argsort(dim=1, descending=True, stable=True)
    values, found = values.gather(1, order).numpy(), found.gather(1, order).numpy()
    for row in cut:
        scores = similarity[row].numpy()
        ids = np.flatnonzero(scores >= values[row, -1])
        ids = ids[np.argsort(-scores[ids], kind="stable")[:k]]
        values[row], found[row] = scores[ids], ids
    return values, found


def first_places(keys: Sequence[Hashable]) -> list[int]:
    """Return for each key where the same one stands first, which is its own place where it is not repeated."""
    here: dict[Hashable, int] = {}
    return [here.setdefault(key, place) for place, key in enumerate(keys)]


def top_images(texts: Float[Tensor, "caption d"], gallery: Float[Tensor, "image d"], k: int) -> np.ndarray:
    """Return the ``k`` nearest images of each caption, nearest first; int32 of shape (caption, k)."""
    return top_k(similarities(texts, gallery), k)[1].astype(np.int32)


def by_image(scores: np.ndarray, owner: np.ndarray, n_images: int) -> np.ndarray:
    """Average scores of captions, (..., caption), over the captions of each image, (..., image)."""
    if scores.shape[-1] == n_images:
        return scores[..., np.argsort(owner, kind="stable")]
    counts = np.bincount(owner, minlength=n_images)
    order = np.argsort(owner, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.add.reduceat(scores[..., order], starts, axis=-1) / counts


class Bootstrap:
    """Percentile bootstrap over images, with one set of resamples for every arm.

    Where all images but a few say the same, resamples of them do too, and an interval would have no width: 50 hits
    of 50 would prove a rate of 100 %. :meth:`smoothed` adds half an image of each extreme there, drawn anew for each
    resample, which is the interval that a proportion gets from Jeffreys' prior.

    Parameters
    ----------
    n : int
        Number of images.
    resamples : int
    seed : int
    level : float
        Coverage of the interval.
    """

    def __init__(self, n: int, resamples: int = 1000, seed: int = 0, level: float = 0.95) -> None:
        if n < 2:
            raise InputError(f"An interval needs at least 2 images; {n} came.")
        if resamples < 1 or not 0 < level < 1:
            raise InputError(f"resamples={resamples} and level={level} came; use at least 1, and between 0 and 1.")
        generator = seeded(seed, 36)
        # How often each image is drawn is all that a mean depends on.
        self.weights = generator.multinomial(n, np.full(n, 1.0 / n), size=resamples) / n
        # What two more images weigh, one of either extreme. A generator of its own leaves the resamples as they are.
        self.extremes = np.random.default_rng([seed, 19]).standard_gamma(0.5, size=(2, resamples))
        self.n, self.resamples, self.seed, self.level = n, resamples, seed, level

    def means(self, scores: np.ndarray) -> np.ndarray:
        """Mean of each resample: (..., n) to (..., resamples)."""
        return np.asarray(scores, dtype=np.float64) @ self.weights.T

    def smoothed(
        self,
        resampled: Float[np.ndarray, "... resample"],
        scores: Float[np.ndarray, "... n"],
        ends: tuple[float, float] = PERCENT,
        n: int | None = None,
    ) -> Float[np.ndarray, "... resample"]:
        """Widen resampled means where all that images differ by is carried by fewer than ten of them.

        Parameters
        ----------
        resampled : array of shape (..., resample)
            What :meth:`means` gave for the scores.
        scores : array of shape (..., n)
            Percent of each image, or differences of two.
        ends : tuple of float
            Lowest and highest score that an image can have: :data:`PERCENT`, or :data:`DIFFERENCE` of two arms.
        n : int, optional
            Images that the mean rests on, where that is not all of them.

        Returns
        -------
        array of shape (..., resample)
            Unchanged where the images differ enough.
        """
        scores, n = np.asarray(scores, dtype=np.float64), n or self.n
        apart = np.square(scores - scores.mean(axis=-1, keepdims=True))
        apart[apart < 1e-18] = 0.0
        # How many images carry the variance: of a few hits among many misses, about the number of hits.
        fourth = np.square(apart).sum(axis=-1)
        carrying = np.divide(np.square(apart.sum(axis=-1)), fourth, out=np.zeros_like(fourth), where=fourth > 0)
        few = (carrying < _FEW)[..., None]
        if not few.any():
            return resampled
        low, high = self.extremes
        wider = (n * resampled + ends[0] * low + ends[1] * high) / (n + low + high)
        return np.where(few, wider, resampled)

    def mean_interval(
        self, scores: Float[np.ndarray, "... n"], ends: tuple[float, float] = PERCENT
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the interval of a mean over images: (..., n) to (...)."""
        return self.interval(self.smoothed(self.means(scores), scores, ends), np.mean(scores, axis=-1))

    def interval(
        self, resampled: Float[np.ndarray, "... resample"], value: Float[np.ndarray, "..."] | float = np.nan
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the interval of statistics, which holds their ``value`` where that is given."""
        tail = (1 - self.level) / 2
        low, high = np.quantile(resampled, [tail, 1 - tail], axis=-1)
        return np.fmin(low, value), np.fmax(high, value)
