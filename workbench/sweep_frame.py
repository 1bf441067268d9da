"""From ranks to the tidy frame: one row a number, with its interval.

Columns: ``tower, corpus, gallery, tier_map, language, tier, intervention, source, depth, block, direction, protocol,
metric, value, low, high, n, seed``.

- ``intervention`` is ``"none"`` for the frozen tower, whose ``depth`` and ``block`` are empty.
- ``gallery`` is what captions are ranked against: ``"images"``, or such as ``"captions:en"``.
- ``language`` is ``"mean"`` in rows of a tier: the mean over its languages, each weighing the same.
- ``metric`` is ``R@1``, ``R@5``, ``R@10`` or ``MRR`` in percent; ``lift R@1`` and so on, the paired
  difference to the frozen tower in points; and ``rescue R@1``, the lift as a share of the distance to the
  source language's own score (S3-52), where there is one source and it is ahead. Of several draws of one random
  intervention there are rows for the mean of their scores too, and ``sd over draws R@1``, their spread in points.
- ``metric`` is ``captions touched`` in rows that say how many percent of the captions an intervention could patch,
  which there are only where that is not all of them: a caption of three words has no fourth token.
- ``low`` and ``high`` are the ends of a 95 % bootstrap interval over images, ``n`` the number of images.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.corpora.base import Corpus, Protocol
from workbench.intervention import Intervention
from workbench.retrieval import DIFFERENCE, METRICS, Bootstrap, Direction, Ranks, by_image
from workbench.towers.base import Tower

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "tower", "corpus", "gallery", "tier_map", "language", "tier", "intervention", "source", "depth", "block",
    "direction", "protocol", "metric", "value", "low", "high", "n", "seed",
)  # fmt: skip

DIRECTIONS: tuple[Direction, ...] = ("i2t", "t2i")

# Below this distance to the source, in points, a rescued share is noise divided by noise.
_SMALLEST_GAP = 1.0


@dataclass(frozen=True)
class SweepSettings:
    """Everything that a sweep was asked for, checked."""

    interventions: list[Intervention]
    languages: tuple[str, ...]
    depths: list[int]
    n_blocks: int
    tier_map: str
    tiers: dict[str, str]
    protocol: Protocol
    gallery: str
    seed: int
    resamples: int
    batch_size: int | None

    def describe(self) -> dict[str, Any]:
        """Return the settings as JSON-like values."""
        return {
            "interventions": [intervention.describe() for intervention in self.interventions],
            "languages": list(self.languages),
            "depths": self.depths,
            "tier_map": {"name": self.tier_map, "tiers": self.tiers},
            "protocol": self.protocol,
            "gallery": self.gallery,
            "seed": self.seed,
            "resamples": self.resamples,
            "batch_size": self.batch_size,
        }


@dataclass(frozen=True)
class LanguageCell:
    """Everything that was measured for one language.

    Attributes
    ----------
    arrays : mapping of str to array
        ``clean_{direction}_{better,tied}`` of shape (n,); ``patched_{direction}_{better,tied}`` of shape
        (intervention, depth, n), where n counts images for i2t and captions for t2i; ``clean_top`` (caption,
        5) and ``patched_top`` (intervention, depth, caption, 5), the nearest images; ``change``
        (intervention, depth), the mean relative change of the patched row; ``moved``, of the same shape, whether any
        embedding can have changed; ``touched`` (intervention,), the
        captions that had the row; ``tokens`` and ``truncated``, counts over captions.
    """

    arrays: Mapping[str, np.ndarray]

    def clean(self, direction: str) -> Ranks:
        """Ranks without a patch."""
        return self._ranks(f"clean_{direction}")

    def patched(self, direction: str) -> Ranks:
        """Ranks under every intervention and depth, shape (intervention, depth, n)."""
        return self._ranks(f"patched_{direction}")

    def _ranks(self, name: str) -> Ranks:
        # Stored in the smallest unsigned type, in which a difference would wrap around.
        return Ranks(*(self.arrays[f"{name}_{part}"].astype(np.int32) for part in ("better", "tied")))


def scores_by_image(ranks: Ranks, metric: str, owner: np.ndarray, n_images: int) -> np.ndarray:
    """Percent for each image, averaged over its captions where ranks are those of captions."""
    return by_image(ranks.score(metric), owner, n_images)


def tidy_frame(
    tower: Tower, corpus: Corpus, cells: Mapping[str, LanguageCell], settings: SweepSettings
) -> "pd.DataFrame":
    """Make the tidy frame of a sweep; its rows come in a fixed order."""
    import pandas as pd

    table = _Table(tower, corpus, cells, settings)
    frame = pd.DataFrame(list(table.rows()), columns=list(COLUMNS))
    return frame.astype({"depth": "Int64", "block": "Int64", "n": "int64", "seed": "int64"})


@dataclass(frozen=True)
class _Draws:
    """The mean of several interventions' scores, as a row of the table calls it."""

    name: str
    source: str


class _Table:
    def __init__(
        self, tower: Tower, corpus: Corpus, cells: Mapping[str, LanguageCell], settings: SweepSettings
    ) -> None:
        self.settings, self.n, self.cells = settings, len(corpus), cells
        self.bootstrap = Bootstrap(self.n, settings.resamples, settings.seed)
        self.fixed = {
            "tower": tower.name,
            "corpus": corpus.name,
            "gallery": settings.gallery,
            "tier_map": settings.tier_map,
        }
        tiers: dict[str, list[str]] = {}
        for language in cells:
            if language in settings.tiers:
                tiers.setdefault(settings.tiers[language], []).append(language)
        self.groups = [(language, settings.tiers.get(language, ""), [language]) for language in cells]
        self.groups += [("mean", tier, members) for tier, members in tiers.items()]
        self.partly = [
            any(self._touched(language, k) < 100.0 for language in cells) for k in range(len(settings.interventions))
        ]
        self.frozen: dict[tuple[str, Direction, str], np.ndarray] = {}
        self.patched: dict[tuple[str, Direction, str], np.ndarray] = {}
        for language, cell in cells.items():
            _, owner = corpus.texts(language, settings.protocol)
            for direction in DIRECTIONS:
                own = np.arange(self.n) if direction == "i2t" else owner
                for metric in METRICS:
                    key = (language, direction, metric)
                    self.frozen[key] = scores_by_image(cell.clean(direction), metric, own, self.n)
                    self.patched[key] = scores_by_image(cell.patched(direction), metric, own, self.n)

    def rows(self) -> Iterator[tuple]:
        for language, tier, members in self.groups:
            for direction in DIRECTIONS:
                for metric in METRICS:
                    frozen = _mean([self.frozen[m, direction, metric] for m in members])
                    yield self._row(language, tier, None, None, direction, metric, frozen)
                    yield from self._patched(language, tier, members, direction, metric, frozen)

    def _patched(
        self,
        language: str,
        tier: str,
        members: list[str],
        direction: Direction,
        metric: str,
        frozen: np.ndarray,
    ) -> Iterator[tuple]:
        patched = _mean([self.patched[m, direction, metric] for m in members])
        frozen_means = self.bootstrap.means(frozen)
        for k, intervention in enumerate(self.settings.interventions):
            yield from self._mean_of_draws(k, language, tier, direction, metric, frozen, patched)
            ends = self.bootstrap.mean_interval(patched[k])
            # Resampled as differences of images, not of means, so that equal arms differ by exactly 0.
            gained = patched[k] - frozen
            lifts = self.bootstrap.means(gained)
            # Where no embedding can have changed, that is certain, however few images there are.
            moved = np.any([self.cells[member].arrays["moved"][k] for member in members], axis=0)
            lifts = np.where(moved[:, None], self.bootstrap.smoothed(lifts, gained, DIFFERENCE), lifts)
            lift_ends = self.bootstrap.interval(lifts, gained.mean(axis=-1))
            touched = float(np.mean([self._touched(member, k) for member in members]))
            rescue = self._rescue(intervention, members, direction, metric, frozen, frozen_means)
            for d, depth in enumerate(self.settings.depths):
                value = float(patched[k, d].mean())
                lift = float(gained[d].mean())
                head = (language, tier, intervention, depth, direction)
                yield self._put(*head, metric, value, ends[0][d], ends[1][d])
                yield self._put(*head, f"lift {metric}", lift, lift_ends[0][d], lift_ends[1][d])
                if self.partly[k] and metric == METRICS[0]:
                    yield self._put(*head, "captions touched", touched, touched, touched)
                if rescue is not None:
                    distance, distances = rescue
                    low, high = self.bootstrap.interval(lifts[d] / distances, lift / distance)
                    yield self._put(*head, f"rescue {metric}", lift / distance, low, high)

    def _touched(self, language: str, k: int) -> float:
        """Percent of the captions of a language that have the row that an intervention replaces."""
        arrays = self.cells[language].arrays
        return 100.0 * float(arrays["touched"][k]) / arrays["clean_t2i_better"].shape[-1]

    def _mean_of_draws(
        self, k: int, language: str, tier: str, direction: Direction, metric: str, frozen: np.ndarray,
        patched: np.ndarray,
    ) -> Iterator[tuple]:  # fmt: skip
        """Before the first of several draws, the mean of their scores, which is no score of their mean row."""
        name = self.settings.interventions[k].mean_of
        own = [place for place, one in enumerate(self.settings.interventions) if one.mean_of == name]
        if not name or k != own[0] or len(own) < 2:
            return
        scores = patched[own].mean(axis=0)
        spread = patched[own].mean(axis=-1).std(axis=0, ddof=1)
        head = _Draws(name, self.settings.interventions[k].source)
        ends = self.bootstrap.mean_interval(scores)
        lift_ends = self.bootstrap.mean_interval(scores - frozen, DIFFERENCE)
        for d, depth in enumerate(self.settings.depths):
            where = (language, tier, head, depth, direction)
            yield self._put(*where, metric, float(scores[d].mean()), ends[0][d], ends[1][d])
            lift = float((scores[d] - frozen).mean())
            yield self._put(*where, f"lift {metric}", lift, lift_ends[0][d], lift_ends[1][d])
            yield self._put(*where, f"sd over draws {metric}", float(spread[d]), np.nan, np.nan)

    def _rescue(
        self, intervention: Intervention, members: list[str], direction: Direction, metric: str,
        frozen: np.ndarray, frozen_means: np.ndarray,
    ) -> tuple[float, np.ndarray] | None:  # fmt: skip
        """Distance from the frozen score to the source's own, or None where a share of it means nothing."""
        if len(intervention.sources) != 1 or metric != "R@1" or intervention.sources[0] in members:
            return None
        source = self.frozen.get((intervention.sources[0], direction, metric))
        if source is None:
            return None
        distance = float(source.mean() - frozen.mean())
        distances = self.bootstrap.means(source) - frozen_means
        if distance < _SMALLEST_GAP or distances.min() < _SMALLEST_GAP / 2:
            return None
        return distance, distances

    def _row(
        self, language: str, tier: str, intervention: Intervention | None, depth: int | None,
        direction: Direction, metric: str, scores: np.ndarray,
    ) -> tuple:  # fmt: skip
        low, high = self.bootstrap.mean_interval(scores)
        return self._put(language, tier, intervention, depth, direction, metric, float(scores.mean()), low, high)

    def _put(
        self, language: str, tier: str, intervention: "Intervention | _Draws | None", depth: int | None,
        direction: Direction, metric: str, value: float, low: Any, high: Any,
    ) -> tuple:  # fmt: skip
        name, source = (intervention.name, intervention.source) if intervention else ("none", "")
        return (
            *self.fixed.values(), language, tier, name, source, depth, None if depth is None else depth - 1,
            direction, self.settings.protocol, metric, value, float(low), float(high), self.n, self.settings.seed,
        )  # fmt: skip


def _mean(arrays: list[np.ndarray]) -> np.ndarray:
    return np.mean(np.stack(arrays), axis=0)
