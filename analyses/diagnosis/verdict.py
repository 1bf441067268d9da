"""The rule, and the sentence that it ends in.

=====================  =================================================================================
``no_gap``             no language of the worse tier trails by the smallest gap, told apart from none
``output_direction``   erasing the language at the output closes enough of the gap and its placebo does not; or
                       the source's row after the last block leaves some of it, which only the head can add
``trajectory``         the source's row closes most of it, no control does, erasure does not, and the
                       tokens say as much as the better tier's
``input``              the same, but the tokens themselves say less
``mixed``              an output direction beside one of the last two
``inconclusive``       a gap, and not the evidence to name its place
=====================  =================================================================================

A name needs its rival excluded. Where the tokens' information can't be told apart from both sides of its line,
the gap is not called a trajectory, and where erasure cures by itself, a patch (which takes the language out
too) is no evidence of its own.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from analyses.diagnosis.evidence import Erasure, Examiner, InputLoss, Patching, Thresholds
from analyses.diagnosis.measurements import Measurements, measurements_of
from analyses.diagnosis.wording import evidence_lines, numbers_of, sentence_of
from interventions import ParallelEOS
from workbench.corpora.base import Corpus
from workbench.errors import InputError
from workbench.retrieval import Direction
from workbench.sweep_frame import SweepSettings
from workbench.sweeps import SweepResult
from workbench.towers.base import Tower

Kind = Literal["no_gap", "output_direction", "trajectory", "input", "mixed", "inconclusive"]

KINDS: tuple[Kind, ...] = ("no_gap", "output_direction", "trajectory", "input", "mixed", "inconclusive")


@dataclass(frozen=True)
class Verdict:
    """What the bench concludes.

    Attributes
    ----------
    kind : {"no_gap", "output_direction", "trajectory", "input", "mixed", "inconclusive"}
    sentence : str
    evidence : list of (str, str)
        What was looked at, and what it said.
    numbers : dict
        The same as numbers, for scripts.
    faults : tuple of str
        The places that were named: one, or two where the kind is ``"mixed"``.
    languages : tuple of str
        Languages that trail.
    onset : tuple of int, optional
        First depth at which the source's row helps, and the ends of its interval.
    """

    kind: Kind
    sentence: str
    evidence: list[tuple[str, str]]
    numbers: dict[str, Any] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    onset: tuple[int, int, int] | None = None


def check_settings(settings: SweepSettings) -> tuple[list[str], ParallelEOS]:
    """Return the tiers and the patch of a sweep that a verdict can be read off, before it is run.

    Raises
    ------
    InputError
        If the languages are of fewer than two tiers, or there is no parallel patch, or its source is not among
        the languages.
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
    if patches[0].sources[0] not in settings.languages:
        raise InputError(
            f"A verdict compares with the source's own score, and {patches[0].sources[0]!r} is not among the languages "
            f"({', '.join(settings.languages)}). Add it to --languages."
        )
    return names, patches[0]


def diagnose(
    result: SweepResult, corpus: Corpus, tower: Tower | None = None, *, thresholds: Thresholds | None = None
) -> Verdict:
    """Read the verdict off a sweep.

    Parameters
    ----------
    result : SweepResult
        With a parallel patch and its controls.
    corpus : Corpus
        The corpus of the sweep.
    tower : Tower, optional
        Its tower, for the erasure and the tokens; without it neither is judged and the place stays open.
    thresholds : Thresholds, optional

    Raises
    ------
    InputError
        If fewer than two tiers, or no parallel patch, were swept.
    """
    check_settings(result.settings)
    return judge(measurements_of(result, corpus, tower), thresholds)


def judge(measurements: Measurements, thresholds: Thresholds | None = None) -> Verdict:
    """Apply the rule to measurements."""
    return _Judge(measurements, thresholds or Thresholds()).verdict()


class _Judge:
    def __init__(self, measurements: Measurements, limits: Thresholds) -> None:
        self.m, self.limits = measurements, limits
        self.x = Examiner(measurements, limits)
        self.reasons: list[str] = []

    # -- one piece of evidence at a time ------------------------------------------------------------

    def erases(self, found: Erasure) -> bool:
        """Whether erasure closes a part of the gap that its placebo does not."""
        return found.lift.low > 0 and found.beyond.low > 0 and found.share >= self.limits.erased_share

    def leaves_remainder(self, found: Patching) -> bool:
        """Whether the source's own row after the last block does not give the source's score."""
        rest = found.remainder
        return rest is not None and rest.low > 0 and rest.value >= self.limits.smallest_gap

    def working_controls(self, found: Patching) -> list[str]:
        """Controls that do what only the patch should."""
        allowed = self.limits.control_share * found.lift.value
        return [name for name, value in found.controls.items() if value.value > allowed and value.low > 0]

    def rescues(self, direction: Direction, found: Patching) -> bool:
        """Whether the source's row closes the gap, and nothing else does."""
        if found.lift.low <= 0 or found.share < self.limits.rescued_share:
            self.reasons.append(
                f"the row of {self.m.source!r} closes too little of it ({direction}: {100 * found.share:.0f} %)"
            )
            return False
        if not found.controls:
            self.reasons.append("no control was swept beside the patch")
            return False
        working = self.working_controls(found)
        if working:
            self.reasons.append(f"a control does what the patch does ({', '.join(working)})")
            return False
        erasure = self.x.erasure.get(direction)
        # Erasure cures by itself: a patch, which replaces the language too, says nothing more.
        return not (erasure and self.erases(erasure) and erasure.share >= self.limits.cured_share)

    def input_said(self, loss: InputLoss | None) -> bool | None:
        """Whether the input is the cause: yes, no, or not told apart."""
        if loss is None or self.m.n < self.limits.fewest_images:
            return None
        if loss.ratio.value >= self.limits.input_share and loss.ratio.low > 0:
            return True
        return False if loss.ratio.high < self.limits.input_share else None

    def no_word_of_input(self) -> str:
        """Why it stays open whether the tokens say less."""
        if self.x.input_loss is None:
            return "the tokens were not looked at"
        if self.m.n < self.limits.fewest_images:
            return (
                f"{self.m.n} images are too few to tell input and path apart ({self.limits.fewest_images} are needed)"
            )
        return "it is not told apart whether the tokens say less"

    # -- the rule -------------------------------------------------------------------------------------

    def verdict(self) -> Verdict:
        """Apply the rule and write it down."""
        gaps = self.x.gaps
        if not gaps.found:
            return self._finish("no_gap", ())
        rescuing: list[Direction] = [d for d, found in self.x.patching.items() if self.rescues(d, found)]
        faults = []
        added = [d for d, found in self.x.patching.items() if self.leaves_remainder(found)]
        if added or any(self.erases(found) for found in self.x.erasure.values()):
            faults.append("output_direction")
        if rescuing:
            said = self.input_said(self.x.input_loss)
            if said is None:
                self.reasons.append(self.no_word_of_input())
            else:
                faults.append("input" if said else "trajectory")
        kind: Kind = "inconclusive"
        if len(faults) == 1:
            kind = faults[0]  # pyright: ignore[reportAssignmentType]
        elif faults:
            kind = "mixed"
        return self._finish(kind, tuple(faults), rescuing)

    def _finish(self, kind: Kind, faults: tuple[str, ...], rescuing: list[Direction] | None = None) -> Verdict:
        gaps = self.x.gaps
        onset = None
        if rescuing and "trajectory" in faults:
            # i2t first: nothing that is added at the output can hide the onset there.
            found = self.x.patching[rescuing[0]]
            onset = (found.onset, found.onset_low, found.onset_high)
        return Verdict(
            kind=kind,
            sentence=sentence_of(self, kind, faults, onset),
            evidence=evidence_lines(self),
            numbers=numbers_of(self, faults, onset),
            faults=faults,
            languages=gaps.languages,
            onset=onset,
        )
