"""Scores with their intervals, as tidy rows: means over images, over languages, and gaps between tiers.

One bootstrap resamples the images once for all rows (AMB-36). A row's value is a ratio of two sums over
images, such as hits over captions, and each resample gives it anew; so means over languages, gaps between
tiers and differences between two towers are paired, whichever images each of them rests on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from workbench.errors import InputError
from workbench.gallery import IMAGES
from workbench.languages import tier_map as resolve_tier_map
from workbench.retrieval import DIFFERENCE, PERCENT, Bootstrap

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "tower", "corpus", "gallery", "tier_map", "language", "tier", "pool", "direction", "protocol", "ties", "metric",
    "value", "low", "high", "n", "seed",
)  # fmt: skip
"""What every row has. Those of :mod:`workbench.sweep_frame` that a score without a patch has, and

- ``pool``: ``"language"`` where only candidates of one language compete, ``"mixed"`` where all do;
- ``ties``: the rule for ties.
"""


@dataclass(frozen=True)
class Estimate:
    """A number and its resamples.

    Attributes
    ----------
    value : float
    resampled : array of shape (resample,)
        NaN where a resample drew none of the images that the number rests on.
    n : int
        Images that it rests on.
    by_image : array of shape (image,)
        What each image adds to it: their mean is the value, and they tell whether images differ at all.
    ends : tuple of float
        Lowest and highest score that an image can have.
    """

    value: float
    resampled: Float[np.ndarray, " resample"]
    n: int
    by_image: Float[np.ndarray, " image"]
    ends: tuple[float, float] = PERCENT

    def __sub__(self, other: "Estimate") -> "Estimate":
        return Estimate(
            self.value - other.value,
            self.resampled - other.resampled,
            min(self.n, other.n),
            self.by_image - other.by_image,
            DIFFERENCE,
        )


@dataclass(frozen=True)
class Estimates:
    """Rows that are filled one by one.

    Attributes
    ----------
    bootstrap : Bootstrap
        Over all images of the corpus.
    fixed : mapping of str to value
        Columns that are the same in every row.
    images : str
        Hash of the images, in order: only estimates on the same ones can be paired.
    extra : mapping of str to str
        Columns besides :data:`COLUMNS`, and their pandas types.
    """

    bootstrap: Bootstrap
    fixed: Mapping[str, Any]
    images: str
    extra: Mapping[str, str] = field(default_factory=dict)
    _labels: list[dict[str, Any]] = field(default_factory=list)
    _values: list[Estimate] = field(default_factory=list)

    def add(
        self,
        labels: Mapping[str, Any],
        sums: Float[np.ndarray, " image"],
        counts: Float[np.ndarray, " image"] | None = None,
    ) -> Estimate:
        """Add the ratio of two sums over images; without counts, the mean of the first."""
        weights = np.ones(self.bootstrap.n) if counts is None else counts
        above, below = self.bootstrap.means(sums), self.bootstrap.means(weights)
        resampled = np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)
        value = float(np.sum(sums) / np.sum(weights))
        by_image = value + (sums - value * weights) / np.mean(weights)
        return self._put(labels, Estimate(value, resampled, int((weights > 0).sum()), by_image))

    def add_mean(self, labels: Mapping[str, Any], members: Sequence[Estimate]) -> Estimate:
        """Add the mean over some rows, each weighing the same."""
        value = float(np.mean([member.value for member in members]))
        resampled = np.mean([member.resampled for member in members], axis=0)
        by_image = np.mean([member.by_image for member in members], axis=0)
        return self._put(labels, Estimate(value, resampled, max(member.n for member in members), by_image))

    def add_tiers(self, labels: Mapping[str, Any], members: Mapping[str, Estimate], tiers: Mapping[str, str]) -> None:
        """Add the mean over the languages of each tier, and the gap between each two tiers (S3-24).

        Parameters
        ----------
        labels : mapping
            Columns other than ``language`` and ``tier``.
        members : mapping of str to Estimate
            By language.
        tiers : mapping of str to str
            Language to tier; the order of the tiers is theirs in here.
        """
        means = {}
        for tier in dict.fromkeys(tiers.values()):
            found = [estimate for language, estimate in members.items() if tiers.get(language) == tier]
            if found:
                means[tier] = self.add_mean({**labels, "language": "mean", "tier": tier}, found)
        for high, low in combinations(means, 2):
            gap = replace(means[high] - means[low], n=max(means[high].n, means[low].n))
            self._put({**labels, "language": "gap", "tier": f"{high} − {low}"}, gap)

    def _put(self, labels: Mapping[str, Any], found: Estimate) -> Estimate:
        self._labels.append({**self.fixed, **labels})
        self._values.append(found)
        return found

    @property
    def columns(self) -> list[str]:
        """Columns of the frame, in order."""
        return [*COLUMNS[:-5], *self.extra, *COLUMNS[-5:]]

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """All rows, in the order in which they were added."""
        return self._frame(self._labels, self._values)

    def _frame(self, labels: Iterable[Mapping[str, Any]], values: Sequence[Estimate]) -> "pd.DataFrame":
        import pandas as pd

        rows = []
        for label, found in zip(labels, values, strict=True):
            smoothed = self.bootstrap.smoothed(found.resampled, found.by_image, found.ends, found.n)
            kept = smoothed[np.isfinite(smoothed)]
            low, high = self.bootstrap.interval(kept, found.value) if len(kept) else (np.nan, np.nan)
            numbers = {"value": found.value, "low": float(low), "high": float(high), "n": found.n}
            rows.append({**label, **numbers, "seed": self.bootstrap.seed})
        frame = pd.DataFrame(rows, columns=self.columns)
        return frame.astype({"n": "int64", "seed": "int64", **self.extra})

    def minus(self, other: "Estimates") -> "pd.DataFrame":
        """Difference of each row to the same row of another, with its paired interval.

        Two towers on one corpus, two protocols, two templates: columns that have one value here and another
        there say what is compared, and become ``"a − b"``. The rest of a row must be the same.

        Raises
        ------
        InputError
            If the two don't rest on the same images and resamples, or have other rows.
        """
        ours, theirs = self.bootstrap, other.bootstrap
        if self.images != other.images or (ours.seed, ours.resamples, ours.n) != (
            theirs.seed,
            theirs.resamples,
            theirs.n,
        ):
            raise InputError(
                "These two scores do not rest on the same images and the same resamples, so their difference is not a "
                "paired one. Score both on one corpus, with the same limit, seed and resamples."
            )
        names = [name for name in self.columns if name not in COLUMNS[-5:] and name in other.columns]
        arms = [
            name
            for name in names
            if self._only(name) != other._only(name) and None not in (self._only(name), other._only(name))
        ]
        keys = [name for name in names if name not in arms]
        place = {tuple(label.get(key) for key in keys): k for k, label in enumerate(other._labels)}
        labels, values = [], []
        for label, found in zip(self._labels, self._values, strict=True):
            key = tuple(label.get(name) for name in keys)
            if key not in place:
                raise InputError(f"The second scores have no row with {dict(zip(keys, key, strict=True))}.")
            twin = other._values[place[key]]
            labels.append({**label, **{name: f"{label[name]} − {other._labels[place[key]][name]}" for name in arms}})
            values.append(found - twin)
        return self._frame(labels, values)

    def _only(self, name: str) -> Any:
        """The value of a column where it is the same in every row, else None."""
        found = {label.get(name) for label in self._labels}
        return found.pop() if len(found) == 1 else None


def estimates_of(
    tower: str,
    corpus: Any,
    tier_map: str | Mapping[str, str],
    resamples: int,
    seed: int,
    extra: Mapping[str, str] | None = None,
    gallery: str = IMAGES,
) -> Estimates:
    """Return an empty table for one tower on one corpus, of any kind that has a name and image ids."""
    fixed = {"tower": tower, "corpus": corpus.name, "gallery": gallery, "tier_map": resolve_tier_map(tier_map)[0]}
    images = sha256("\0".join(corpus.image_ids).encode()).hexdigest()
    return Estimates(Bootstrap(len(corpus.image_ids), resamples, seed), fixed, images, extra or {})
