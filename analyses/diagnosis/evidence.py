"""Four questions, each answered with a number and its interval.

*Gap.* Which languages trail the better tier, in which direction? Every language and direction is a test, so
the intervals are widened by Bonferroni.

*Erasure.* How much of it goes away when the language is erased from the output, beyond what the removal of as
many random directions does? LEACE is fitted on one half of the images and judged on the other, both ways round.

*Patch.* How much of the distance to the source language does its row close, and from which depth on? The depth
is chosen on one half of the images and judged on the other, with its controls; the onset's interval is a
bootstrap of the choice.

*Input.* Do the tokens say less about the image than in the better tier, and how does that compare with how much
less often the image is found?
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from analyses.diagnosis.measurements import Measurements
from interventions.erasers import LEACE
from interventions.erasers.random_ablation import random_ablations
from probes.input_information import token_information
from workbench.retrieval import DIFFERENCE, Bootstrap, Direction, rank, unit
from workbench.sweep_frame import DIRECTIONS

_MOST_RESAMPLES = 4000


@dataclass(frozen=True)
class Thresholds:
    """Where the rule draws its lines. The calibration study was run with these.

    Attributes
    ----------
    smallest_gap : float
        Points of R@1 below which a language counts as no worse.
    hidden_gap : float
        Points of R@1: where the interval of the gap between the tiers reaches beyond, a gap that is not seen is not
        called absent.
    erased_share : float
        Share of the gap that erasure must close to be named as a cause of it, and its placebo must not (S3-40).
    cured_share : float
        Share from which on erasure counts as the whole cure: a patch, which takes the language out too, is then
        no evidence of its own.
    rescued_share : float
        Share of the distance to the source that the patch must close.
    control_share : float
        Share of the patch's own lift that a control may reach and still count as no effect.
    input_share : float
        Loss of the tokens' information, as a share of the loss of R@1 (both relative), from which on the input
        is the cause.
    fewest_images : int
        Under which the tokens are not judged, and so neither input nor trajectory is named: the study has no
        smaller samples, and on few captions the tokens of rare languages look poorer than they are.
    level : float
        Of the intervals, before Bonferroni.
    """

    smallest_gap: float = 5.0
    hidden_gap: float = 10.0
    erased_share: float = 0.25
    cured_share: float = 0.75
    rescued_share: float = 0.5
    control_share: float = 0.25
    input_share: float = 0.4
    fewest_images: int = 200
    level: float = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number with its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} [{self.low:.1f}, {self.high:.1f}]"

    def as_dict(self) -> dict[str, float]:
        """Return value and interval, for JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Gaps:
    """Which languages trail.

    Attributes
    ----------
    better, worse : str
        Tiers.
    tier : mapping of direction to Estimate
        Mean of the better tier minus mean of the worse.
    by_language : mapping of (language, direction) to Estimate
        Mean of the better tier minus the language, corrected for their number.
    found : tuple of (language, direction)
        Those that trail beyond the threshold.
    """

    better: str
    worse: str
    tier: Mapping[Direction, Estimate]
    by_language: Mapping[tuple[str, Direction], Estimate]
    found: tuple[tuple[str, Direction], ...]

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages that trail in some direction."""
        return tuple(dict.fromkeys(language for language, _ in self.found))

    @property
    def directions(self) -> tuple[Direction, ...]:
        """Directions in which some language trails."""
        return tuple(direction for direction in DIRECTIONS if any(own == direction for _, own in self.found))

    def trailing(self, direction: Direction) -> list[str]:
        """Languages that trail in a direction."""
        return [language for language, own in self.found if own == direction]


@dataclass(frozen=True)
class Erasure:
    """What LEACE at the output does to the languages that trail in a direction.

    Attributes
    ----------
    lift, placebo, beyond : Estimate
        Points gained by LEACE, by random ablation of equal rank (mean of five), and the first minus the second.
    share : float
        ``lift`` as a share of the gap on the same images.
    rank : int
    """

    lift: Estimate
    placebo: Estimate
    beyond: Estimate
    share: float
    rank: int


@dataclass(frozen=True)
class Patching:
    """What the source's row does to the languages that trail in a direction.

    Attributes
    ----------
    depth : int
        Where it does most, chosen on one half of the images.
    lift : Estimate
        Points gained there on the other half; corrected for the number of depths.
    share : float
        The same as a share of the distance to the source.
    controls : mapping of str to Estimate
        Points gained by each control there, on the other half.
    onset, onset_low, onset_high : int
        First depth at which half of the most is reached, and its interval.
    shares : array of shape (depth,)
        Share of the distance closed at every swept depth, on all images.
    remainder : Estimate, optional
        Distance to the source that is left when its own row is put in after the last block, where that was swept.
        Nothing but the head reads it there, so that what is left is added after the blocks.
    """

    depth: int
    lift: Estimate
    share: float
    controls: Mapping[str, Estimate]
    onset: int
    onset_low: int
    onset_high: int
    shares: np.ndarray
    remainder: Estimate | None = None


@dataclass(frozen=True)
class InputLoss:
    """What the tokens of the trailing languages say, next to those of the better tier.

    Attributes
    ----------
    better, worse : float
        Mean reciprocal rank in percent from tokens alone.
    ratio : Estimate
        Relative loss of that, divided by the relative loss of R@1.
    """

    better: float
    worse: float
    ratio: Estimate


class Examiner:
    """Puts the questions to measurements."""

    def __init__(self, measurements: Measurements, limits: Thresholds) -> None:
        self.m, self.limits = measurements, limits
        self.bootstrap = Bootstrap(self.m.n, self.m.resamples, self.m.seed, limits.level)
        order = np.random.default_rng([self.m.seed, 2]).permutation(self.m.n)
        self.halves = (np.sort(order[::2]), np.sort(order[1::2]))

    def estimate(self, per_image: np.ndarray, tests: int = 1) -> Estimate:
        """Mean difference over images with a bootstrap interval, widened for so many tests."""
        bootstrap = self.bootstrap
        if tests > 1 or len(per_image) != self.m.n:
            level = 1 - (1 - self.limits.level) / tests
            resamples = max(self.m.resamples, min(_MOST_RESAMPLES, int(40 / (1 - level))))
            bootstrap = Bootstrap(len(per_image), resamples, self.m.seed, level)
        low, high = bootstrap.mean_interval(per_image, DIFFERENCE)
        return Estimate(float(per_image.mean()), float(low), float(high))

    def mean(self, languages: Sequence[str], direction: Direction) -> np.ndarray:
        """Scores an image, averaged over languages that weigh the same."""
        return np.mean([self.m.frozen[language, direction] for language in languages], axis=0)

    # -- gap --------------------------------------------------------------------------------------

    @cached_property
    def gaps(self) -> Gaps:
        """Which languages of the worse tier trail the better one."""
        tiers = list(dict.fromkeys(self.m.tiers.values()))
        level = {tier: sum(self.mean(self.m.members(tier), d).mean() for d in DIRECTIONS) for tier in tiers}
        better, worse = max(tiers, key=level.__getitem__), min(tiers, key=level.__getitem__)
        reference = {d: self.mean(self.m.members(better), d) for d in DIRECTIONS}
        tier: dict[Direction, Estimate] = {
            d: self.estimate(reference[d] - self.mean(self.m.members(worse), d)) for d in DIRECTIONS
        }
        pairs: list[tuple[str, Direction]] = [(lang, d) for lang in self.m.members(worse) for d in DIRECTIONS]
        each: dict[tuple[str, Direction], Estimate] = {
            (language, d): self.estimate(reference[d] - self.m.frozen[language, d], len(pairs)) for language, d in pairs
        }
        found = tuple(pair for pair in pairs if each[pair].low > 0 and each[pair].value >= self.limits.smallest_gap)
        return Gaps(better, worse, tier, each, found)

    def gap(self, direction: Direction) -> np.ndarray:
        """The gap of the languages that trail in a direction, an image."""
        better = self.mean(self.m.members(self.gaps.better), direction)
        return better - self.mean(self.gaps.trailing(direction), direction)

    # -- erasure ----------------------------------------------------------------------------------

    @cached_property
    def erasure(self) -> dict[Direction, Erasure]:
        """What erasure closes, in each direction with a gap."""
        if not self.m.outputs or not self.gaps.found:
            return {}
        arms: dict[str, dict[tuple[str, Direction], np.ndarray]] = {}
        ranks = []
        for fitted, held_out in (self.halves, self.halves[::-1]):
            scored = self._erased(fitted, held_out, ranks)
            for arm, scores in scored.items():
                for key, values in scores.items():
                    arms.setdefault(arm, {}).setdefault(key, np.zeros(self.m.n))[held_out] = values
        return {d: self._erasure(arms, d, min(ranks)) for d in self.gaps.directions}

    def _erasure(self, arms: dict, direction: Direction, rank_: int) -> Erasure:
        def mean(arm: str, languages: Sequence[str]) -> np.ndarray:
            return np.mean([arms[arm][language, direction] for language in languages], axis=0)

        languages = self.gaps.trailing(direction)
        before = mean("before", languages)
        lift = mean("leace", languages) - before
        placebos = [arm for arm in arms if arm.startswith("random")]
        placebo = np.mean([mean(arm, languages) for arm in placebos], axis=0) - before
        gap = float((mean("before", self.m.members(self.gaps.better)) - before).mean())
        tests = len(self.gaps.directions)
        gained = self.estimate(lift, tests)
        share = gained.value / gap if gap >= 1 else 0.0
        return Erasure(gained, self.estimate(placebo), self.estimate(lift - placebo, tests), share, rank_)

    def _erased(self, fitted: np.ndarray, held_out: np.ndarray, ranks: list[int]) -> dict[str, dict]:
        languages = list(self.m.outputs)
        rows = np.concatenate([self.m.outputs[language].embeddings[fitted] for language in languages])
        labels = np.repeat(languages, len(fitted))
        leace = LEACE().fit(rows, labels)
        ranks.append(leace.rank_)
        erasers = {"leace": leace}
        erasers |= {f"random {k}": e.fit(rows, labels) for k, e in enumerate(random_ablations(leace.rank_))}
        gallery = torch.from_numpy(self.m.gallery[held_out])
        owner = torch.arange(len(held_out))
        better = self.m.members(self.gaps.better)
        found: dict[str, dict] = {"before": {}, **{name: {} for name in erasers}}
        for language in dict.fromkeys([*better, *self.gaps.languages]):
            embeddings = self.m.outputs[language].embeddings[held_out]
            for name in found:
                if name != "before" and language not in self.gaps.languages:
                    continue
                changed = embeddings if name == "before" else erasers[name].transform(embeddings)
                texts = unit(torch.as_tensor(changed, dtype=torch.float32), f"{language} embeddings")
                for direction, ranks_ in rank(texts, gallery, owner).items():
                    found[name][language, direction] = 100 * ranks_.hits(1)
        return found

    # -- patch ------------------------------------------------------------------------------------

    @cached_property
    def patching(self) -> dict[Direction, Patching]:
        """What the source's row closes, in each direction with a gap."""
        return {d: self._patching(d) for d in self.gaps.directions if self._curve(d, self.m.patch) is not None}

    def _curve(self, direction: Direction, name: str) -> np.ndarray | None:
        """Lift of an intervention at every depth, an image, over the languages that trail."""
        languages = self.gaps.trailing(direction)
        if any((language, direction, name) not in self.m.patched for language in languages):
            return None
        frozen = self.mean(languages, direction)
        return np.mean([self.m.patched[language, direction, name] for language in languages], axis=0) - frozen

    def _patching(self, direction: Direction) -> Patching:
        curve = self._curve(direction, self.m.patch)
        curve = np.zeros((len(self.m.depths), self.m.n)) if curve is None else curve
        distance = self.m.frozen[self.m.source, direction] - self.mean(self.gaps.trailing(direction), direction)
        chosen, judged = self.halves
        best = self._best(curve[:, chosen].mean(1), float(distance[chosen].mean()))
        away = float(distance[judged].mean())
        lift = self.estimate(curve[best, judged], len(self.m.depths))
        controls = {}
        for name in self.m.controls:
            other = self._curve(direction, name)
            if other is not None:
                controls[name] = self.estimate(other[best, judged])
        onset = int(_onset(curve[:, chosen].mean(1)[:, None])[0])
        low, high = np.quantile(_onset(self.bootstrap.means(curve)), [0.025, 0.975], method="nearest")
        whole = float(distance.mean())
        return Patching(
            depth=self.m.depths[best],
            lift=lift,
            share=lift.value / away if away >= 1 else 0.0,
            controls=controls,
            onset=self.m.depths[onset],
            onset_low=self.m.depths[min(int(low), onset)],
            onset_high=self.m.depths[max(int(high), onset)],
            shares=curve.mean(1) / whole if whole >= 1 else np.zeros(len(curve)),
            remainder=self.estimate(distance - curve[-1]) if self.m.depths[-1] == self.m.n_blocks else None,
        )

    def _best(self, lifts: np.ndarray, distance: float) -> int:
        """Place of the depth that closes most; the last one, where it closes all by construction, only if need be."""
        before = lifts[:-1] if self.m.depths[-1] == self.m.n_blocks and len(lifts) > 1 else lifts
        best = int(before.argmax())
        enough = before[best] >= self.limits.rescued_share * distance
        return best if enough else int(lifts.argmax())

    # -- input ------------------------------------------------------------------------------------

    @cached_property
    def input_loss(self) -> InputLoss | None:
        """What is lost before the first block."""
        if not self.m.outputs or not self.gaps.found:
            return None
        better = self.m.members(self.gaps.better)

        def said(languages: Sequence[str]) -> np.ndarray:
            found = []
            for language in languages:
                out = self.m.outputs[language]
                found.append(token_information(out.input_ids, out.content, self.m.gallery, seed=self.m.seed))
            return np.mean([information.reciprocal_rank for information in found], axis=0)

        high, low = said(better), said(self.gaps.languages)
        directions = self.gaps.directions
        frozen_high = np.mean([self.mean(better, d) for d in directions], axis=0)
        frozen_low = np.mean([self.mean(self.gaps.languages, d) for d in directions], axis=0)
        means = [self.bootstrap.means(values) for values in (high, low, frozen_high, frozen_low)]
        value = _ratio(high.mean(), low.mean(), frozen_high.mean(), frozen_low.mean())
        ends = self.bootstrap.interval(_ratio(*means))
        return InputLoss(float(high.mean()), float(low.mean()), Estimate(float(value), float(ends[0]), float(ends[1])))


def _onset(curves: np.ndarray) -> np.ndarray:
    """First place along the first axis at which half of the most is reached."""
    return (curves >= curves.max(axis=0, keepdims=True) / 2).argmax(axis=0)


def _ratio(high: np.ndarray, low: np.ndarray, found_high: np.ndarray, found_low: np.ndarray) -> np.ndarray:
    """Relative loss of information over relative loss of R@1; a loss under a percent counts as one."""
    return ((high - low) / np.maximum(high, 1e-9)) / np.maximum(
        (found_high - found_low) / np.maximum(found_high, 1e-9), 0.01
    )
