"""The verdict: what the rule names, in one sentence, with the evidence for it."""

from dataclasses import dataclass, field
from typing import Any

from analyses.diagnosis.evidence import Thresholds
from analyses.diagnosis.measurements import Measurements, measurements_of
from analyses.diagnosis.rule import Judge, Kind
from analyses.diagnosis.wording import evidence_lines, numbers_of, sentence_of
from interventions import ParallelEOS
from workbench.corpora.base import Corpus
from workbench.errors import InputError
from workbench.sweep_frame import SweepSettings
from workbench.sweeps import SweepResult
from workbench.towers.base import Tower


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
    """Apply the rule to measurements, and write down what it says."""
    held = Judge(measurements, thresholds or Thresholds())
    kind, faults, onset = held.rule()
    return Verdict(
        kind=kind,
        sentence=sentence_of(held, kind, faults, onset),
        evidence=evidence_lines(held),
        numbers=numbers_of(held, faults, onset),
        faults=faults,
        languages=held.x.gaps.languages,
        onset=onset,
    )
