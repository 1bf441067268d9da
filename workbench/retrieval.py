"""Ranks, the metrics made of them, and how sure one may be of a mean.

A caption is ranked against the images (``t2i``) and an image against the captions (``i2t``). A rank is kept
as two counts, how many candidates are strictly better and how many tie, because how ties count changes a
score: a tower that gives every image the same embedding has R@1 of 100 % under the optimistic rule. The
default is the *expected* score under a random order of the tied.

Similarities are float32, means and intervals float64. An interval is a percentile bootstrap over images;
every arm sees the same resamples, so that the interval of a difference is the paired one (AMB-36).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.errors import InputError

Ties = Literal["optimistic", "expected", "pessimistic"]
Direction = Literal["i2t", "t2i"]

CUTOFFS = (1, 5, 10)
METRICS = (*(f"R@{k}" for k in CUTOFFS), "MRR")


@dataclass(frozen=True)
class Ranks:
    """Where targets ended up.

    Attributes
    ----------
    better : int array of shape (..., n)
        Candidates with a strictly higher similarity than the target.
    tied : int array, same shape
        Other candidates with exactly the target's similarity.
    """

    better: np.ndarray
    tied: np.ndarray

    def hits(self, k: int, ties: Ties = "expected") -> np.ndarray:
        """Chance that the target is among the first ``k``: 0, 1, or between where it ties."""
        if ties == "optimistic":
            return (self.better < k).astype(np.float64)
        if ties == "pessimistic":
            return (self.better + self.tied < k).astype(np.float64)
        return np.clip((k - self.better) / (self.tied + 1.0), 0.0, 1.0)

    def reciprocal(self, ties: Ties = "expected") -> np.ndarray:
        """Reciprocal of the rank, or its mean over the orders of the tied."""
        if ties == "optimistic":
            return 1.0 / (self.better + 1.0)
        if ties == "pessimistic":
            return 1.0 / (self.better + self.tied + 1.0)
        harmonic = _harmonic(int((self.better + self.tied).max(initial=0)) + 1)
        return (harmonic[self.better + self.tied + 1] - harmonic[self.better]) / (self.tied + 1.0)

    def score(self, metric: str, ties: Ties = "expected") -> np.ndarray:
        """One metric for each target, in percent: ``"R@k"`` or ``"MRR"``."""
        if metric == "MRR":
            return 100.0 * self.reciprocal(ties)
        if metric.startswith("R@") and metric[2:].isdecimal() and int(metric[2:]) > 0:
            return 100.0 * self.hits(int(metric[2:]), ties)
        raise InputError(f"There is no metric {metric!r}. Use 'MRR' or 'R@k' with a whole number k, such as 'R@5'.")


def _harmonic(n: int) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, n + 1))])


def unit(embeddings: Float[Tensor, "... d"], what: str) -> Float[Tensor, "... d"]:
    """Normalise embeddings in float32; refuse NaN, infinity and zero rows, which have no direction."""
    embeddings = embeddings.float()
    norm = torch.linalg.vector_norm(embeddings, dim=-1, keepdim=True)
    bad = ~torch.isfinite(norm) | (norm == 0)
    if bad.any():
        row = int(bad.reshape(-1).nonzero()[0, 0])
        raise InputError(
            f"The {what} hold {int(bad.sum())} rows that are zero, NaN or infinite (the first is row {row}), and "
            "nothing can be ranked against them. Look for a broken image or a tower in half precision."
        )
    return embeddings / norm


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
        caption, shape (image,); its other own captions are no competitors.
    """
    similarity = texts @ gallery.T
    own = similarity.gather(1, owner[:, None])
    t2i = Ranks(_count(similarity > own, 1), _count(similarity == own, 1) - 1)
    if len(owner) == len(gallery):
        # One caption an image, the common case: its own similarity is the best own one.
        order = torch.argsort(owner)
        best = own[order, 0]
        own_ties = 1
    else:
        best = torch.full((len(gallery),), -torch.inf).scatter_reduce(0, owner, own[:, 0], "amax")
        own_ties = torch.zeros(len(gallery)).index_add(0, owner, (own[:, 0] == best[owner]).float())
        own_ties = own_ties.numpy().astype(np.int32)
    i2t = Ranks(_count(similarity > best, 0), _count(similarity == best, 0) - own_ties)
    return {"i2t": i2t, "t2i": t2i}


def _count(matches: Tensor, dim: int) -> np.ndarray:
    # Summing booleans goes through int64, eight times the memory; int32 is enough.
    return matches.sum(dim, dtype=torch.int32).numpy()


def top_images(texts: Float[Tensor, "caption d"], gallery: Float[Tensor, "image d"], k: int) -> np.ndarray:
    """Return the ``k`` nearest images of each caption, nearest first; int32 of shape (caption, k)."""
    return (texts @ gallery.T).topk(min(k, len(gallery)), dim=1).indices.numpy().astype(np.int32)


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
        generator = np.random.default_rng([seed, 36])
        # How often each image is drawn is all that a mean depends on.
        self.weights = generator.multinomial(n, np.full(n, 1.0 / n), size=resamples) / n
        self.n, self.resamples, self.seed, self.level = n, resamples, seed, level

    def means(self, scores: np.ndarray) -> np.ndarray:
        """Mean of each resample: (..., n) to (..., resamples)."""
        return np.asarray(scores, dtype=np.float64) @ self.weights.T

    def interval(self, resampled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the interval of statistics of shape (..., resamples)."""
        tail = (1 - self.level) / 2
        low, high = np.quantile(resampled, [tail, 1 - tail], axis=-1)
        return low, high


def summarise(scores: Mapping[str, np.ndarray], bootstrap: Bootstrap) -> Iterable[tuple[str, float, float, float]]:
    """Yield (name, mean, low, high) for each named array of per-image scores."""
    for name, values in scores.items():
        low, high = bootstrap.interval(bootstrap.means(values))
        yield name, float(np.mean(values)), float(low), float(high)
