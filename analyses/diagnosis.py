"""The verdict: where the gap between languages sits, in one sentence, with its evidence.

The rule reads three things off a sweep, each with its interval. Is there a gap between the tiers at all?
Does the row of a language that works, put in before the last blocks, close it? And do the controls fail to?
Only if all three hold does the gap sit in the forward path of the pooled row; otherwise the verdict says
what is missing and stays inconclusive (S3-96).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from interventions import MidToken, NormMatchedNoise, ParallelEOS, RandomEOS
from workbench.corpora.base import Corpus
from workbench.errors import InputError
from workbench.retrieval import Bootstrap, Direction
from workbench.sweep_frame import SweepSettings, scores_by_image
from workbench.sweeps import SweepResult

_CONTROLS = (RandomEOS, NormMatchedNoise, MidToken)


@dataclass(frozen=True)
class Thresholds:
    """Where the rule draws its lines.

    Attributes
    ----------
    smallest_gap : float
        Points of R@1 below which two tiers count as equally good.
    rescued_share : float
        Share of the distance to the source language that the patch must close.
    control_share : float
        Share of the patch's own lift that a control may reach and still count as no effect.
    """

    smallest_gap: float = 5.0
    rescued_share: float = 0.5
    control_share: float = 0.25


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} [{self.low:.1f}, {self.high:.1f}]"

    def as_dict(self) -> dict[str, float]:
        """Return value and interval, for JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Verdict:
    """What the bench concludes.

    Attributes
    ----------
    kind : {"no_gap", "trajectory", "inconclusive"}
    sentence : str
    evidence : list of (str, str)
        What was looked at, and what it said.
    numbers : dict
        The same as numbers, for scripts.
    """

    kind: str
    sentence: str
    evidence: list[tuple[str, str]]
    numbers: dict[str, Any] = field(default_factory=dict)


def diagnose(
    result: SweepResult,
    corpus: Corpus,
    *,
    depth: int | None = None,
    direction: Direction = "i2t",
    thresholds: Thresholds | None = None,
) -> Verdict:
    """Read the verdict off a sweep.

    Parameters
    ----------
    result : SweepResult
        With a parallel patch and, for a verdict other than "inconclusive", its controls.
    corpus : Corpus
        The corpus of the sweep.
    depth : int, optional
        Where the patch is judged. By default depth N-3, the output of the paper's block N-4 (S3-03), or the
        swept depth nearest to it.
    direction : {"i2t", "t2i"}
    thresholds : Thresholds, optional

    Raises
    ------
    InputError
        If fewer than two tiers, or no parallel patch, were swept.
    """
    return _Judge(result, corpus, depth, direction, thresholds or Thresholds()).verdict()


def check_settings(settings: SweepSettings) -> tuple[list[str], ParallelEOS]:
    """Return the tiers and the patch of a sweep that a verdict can be read off, before it is run.

    Raises
    ------
    InputError
        If the languages are of fewer than two tiers, or there is no parallel patch.
    """
    names = list(dict.fromkeys(settings.tiers.values()))
    if len(names) < 2:
        raise InputError(
            f"A verdict compares two tiers of languages; {', '.join(settings.languages)} have {len(names)} "
            f"({', '.join(names) or 'none'}) in the tier map {settings.tier_map!r}. Add languages of another tier, or "
            "give another map with --tier-map."
        )
    patches = [intervention for intervention in settings.interventions if isinstance(intervention, ParallelEOS)]
    if not patches:
        raise InputError("A verdict needs a parallel patch. Add parallel:en to --interventions.")
    return names, patches[0]


class _Judge:
    def __init__(
        self, result: SweepResult, corpus: Corpus, depth: int | None, direction: Direction, limits: Thresholds
    ) -> None:
        self.result, self.corpus, self.direction, self.limits = result, corpus, direction, limits
        settings = result.settings
        self.bootstrap = Bootstrap(len(corpus), settings.resamples, settings.seed)
        wanted = settings.n_blocks - 3 if depth is None else depth
        if depth is not None and depth not in settings.depths:
            raise InputError(f"Depth {depth} was not swept. Swept: {', '.join(map(str, settings.depths))}.")
        self.depth = min(settings.depths, key=lambda d: (abs(d - wanted), d))
        self.place = settings.depths.index(self.depth)
        self.names = [intervention.name for intervention in settings.interventions]
        self.best, self.worst = self._tiers()

    # -- numbers ----------------------------------------------------------------------------------

    def _members(self, tier: str) -> list[str]:
        tiers = self.result.settings.tiers
        return [language for language in self.result.cells if tiers.get(language) == tier]

    def _tiers(self) -> tuple[str, str]:
        names, _ = check_settings(self.result.settings)
        means = {name: self._frozen(name).mean() for name in names}
        return max(names, key=means.__getitem__), min(names, key=means.__getitem__)

    def _scores(self, language: str, intervention: str | None) -> np.ndarray:
        cell = self.result.cells[language]
        _, owner = self.corpus.texts(language, self.result.settings.protocol)
        own = np.arange(len(self.corpus)) if self.direction == "i2t" else owner
        ranks = cell.clean(self.direction) if intervention is None else cell.patched(self.direction)
        scores = scores_by_image(ranks, "R@1", own, len(self.corpus))
        return scores if intervention is None else scores[self.names.index(intervention), self.place]

    def _mean(self, tier: str, intervention: str | None) -> np.ndarray:
        return np.mean([self._scores(language, intervention) for language in self._members(tier)], axis=0)

    def _frozen(self, tier: str) -> np.ndarray:
        return self._mean(tier, None)

    def _estimate(self, per_image: np.ndarray) -> Estimate:
        low, high = self.bootstrap.interval(self.bootstrap.means(per_image))
        return Estimate(float(per_image.mean()), float(low), float(high))

    def _lift(self, intervention: str) -> Estimate:
        return self._estimate(self._mean(self.worst, intervention) - self._frozen(self.worst))

    def _share(self, source: str, lift: Estimate) -> float | None:
        """Share of the distance to the source's own score that the patch closes."""
        if source not in self.result.cells or source in self._members(self.worst):
            return None
        distance = float((self._scores(source, None) - self._frozen(self.worst)).mean())
        return lift.value / distance if distance >= 1.0 else None

    # -- the rule ---------------------------------------------------------------------------------

    def verdict(self) -> Verdict:
        """Apply the rule and write it down."""
        settings = self.result.settings
        _, patch = check_settings(settings)
        name, source = patch.name, patch.sources[0]
        gap = self._estimate(self._frozen(self.best) - self._frozen(self.worst))
        lift = self._lift(name)
        controls = {i.name: self._lift(i.name) for i in settings.interventions if isinstance(i, _CONTROLS)}
        share = self._share(source, lift)
        where = f"depth {self.depth} (block {self.depth - 1} of 0…{settings.n_blocks - 1})"
        kind, sentence = self._judge(gap, lift, share, controls, source, where)
        closes = "." if share is None else f", {100 * share:.0f} % of the distance to {source!r} itself."
        evidence = [
            (
                "Gap",
                f"{self.best} mean minus {self.worst} mean, no patch: {gap} points of {self.direction} R@1.",
            ),
            (f"Patch, {name}", f"at {where} it moves the {self.worst} mean by {lift} points{closes}"),
            *((f"Control, {other}", f"at the same depth: {value} points.") for other, value in controls.items()),
        ]
        numbers: dict[str, Any] = {
            "gap": gap.as_dict(),
            "lift": lift.as_dict(),
            "rescued_share": share,
            "controls": {other: value.as_dict() for other, value in controls.items()},
            "depth": self.depth,
            "block": self.depth - 1,
            "tiers": [self.best, self.worst],
            "languages": self._members(self.worst),
        }
        return Verdict(kind, sentence, evidence, numbers)

    def _judge(
        self,
        gap: Estimate,
        lift: Estimate,
        share: float | None,
        controls: Mapping[str, Estimate],
        source: str,
        where: str,
    ) -> tuple[str, str]:
        tower, limits = self.result.frame["tower"].iloc[0], self.limits
        if gap.value < limits.smallest_gap or gap.low <= 0:
            return "no_gap", (
                f"No gap: on {tower} the {self.worst} languages trail the {self.best} ones by {gap} points of "
                f"R@1, which is less than {limits.smallest_gap:g} points or not told apart from none."
            )
        trail = f"n {tower} the {self.worst} languages trail the {self.best} ones by {gap} points of R@1"
        if not controls:
            return "inconclusive", f"Inconclusive: o{trail}, and no control was swept beside the patch."
        if lift.low <= 0 or share is None or share < limits.rescued_share:
            return "inconclusive", (
                f"Inconclusive: o{trail}, but the pooled row of {source!r} put in at {where} closes too little "
                f"of it (lift {lift})."
            )
        allowed = limits.control_share * lift.value
        working = [name for name, value in controls.items() if value.value > allowed and value.low > 0]
        if working:
            return "inconclusive", (
                f"Inconclusive: o{trail}; the pooled row of {source!r} at {where} lifts them by {lift}, but so "
                f"does a control ({', '.join(working)})."
            )
        return "trajectory", (
            f"O{trail}, and the gap sits in the forward path of the pooled row, before {where}: the parallel "
            f"row of {source!r} put in there closes {100 * share:.0f} % of their distance to {source!r} (lift "
            f"{lift}), and no control does ({', '.join(controls)})."
        )
