"""The rule: which place the evidence names.

=====================  =================================================================================
``no_gap``             no language of the worse tier trails by the smallest gap, told apart from none, and the
                       sample would have shown a gap between the tiers that matters
``output_direction``   erasing the language at the output closes enough of the gap and its placebo does not; or
                       the source's row after the last block leaves some of it, which only the head can add
``trajectory``         the source's row closes most of it, no control does, erasure does not, and the
                       tokens say as much as the better tier's
``input``              the same, but the tokens themselves say less
``mixed``              an output direction beside one of the last two
``inconclusive``       a gap, and not the evidence to name its place; or a sample that may hide one
=====================  =================================================================================

A name needs its rival excluded. Where the tokens' information can't be told apart from both sides of its line,
the gap is not called a trajectory, and where erasure cures by itself, a patch (which takes the language out
too) is no evidence of its own.
"""

from typing import Literal

from analyses.diagnosis.evidence import Erasure, Examiner, InputLoss, Patching, Thresholds
from analyses.diagnosis.measurements import Measurements
from workbench.retrieval import Direction

Kind = Literal["no_gap", "output_direction", "trajectory", "input", "mixed", "inconclusive"]

KINDS: tuple[Kind, ...] = ("no_gap", "output_direction", "trajectory", "input", "mixed", "inconclusive")


class Judge:
    """Holds measurements to thresholds.

    Parameters
    ----------
    measurements : Measurements
    limits : Thresholds

    Attributes
    ----------
    reasons : list of str
        Why evidence names no place, as far as the rule has been applied.
    """

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

    def hidden_gap(self) -> str | None:
        """Say how large a gap the sample may hide, where that is more than :attr:`Thresholds.hidden_gap`."""
        most = max(estimate.high for estimate in self.x.gaps.tier.values())
        if most <= self.limits.hidden_gap:
            return None
        return f"{self.m.n:,} images do not exclude a gap of {most:.1f} points"

    # -- the rule -------------------------------------------------------------------------------------

    def rule(self) -> tuple[Kind, tuple[str, ...], tuple[int, int, int] | None]:
        """Apply the rule.

        Returns
        -------
        kind : str
            One of :data:`KINDS`.
        faults : tuple of str
            Places that are named.
        onset : (int, int, int), optional
            Depth of the onset and the ends of its interval, where the forward path is named.
        """
        if not self.x.gaps.found:
            hidden = self.hidden_gap()
            if hidden is None:
                return "no_gap", (), None
            self.reasons.append(hidden)
            return "inconclusive", (), None
        rescuing: list[Direction] = [d for d, found in self.x.patching.items() if self.rescues(d, found)]
        faults: list[Kind] = []
        added = [d for d, found in self.x.patching.items() if self.leaves_remainder(found)]
        if added or any(self.erases(found) for found in self.x.erasure.values()):
            faults.append("output_direction")
        if rescuing:
            said = self.input_said(self.x.input_loss)
            if said is None:
                self.reasons.append(self.no_word_of_input())
            else:
                faults.append("input" if said else "trajectory")
        onset = None
        if "trajectory" in faults:
            # i2t first: nothing that is added at the output can hide the onset there.
            found = self.x.patching[rescuing[0]]
            onset = (found.onset, found.onset_low, found.onset_high)
        kind: Kind = "inconclusive" if not faults else faults[0] if len(faults) == 1 else "mixed"
        return kind, tuple(faults), onset
