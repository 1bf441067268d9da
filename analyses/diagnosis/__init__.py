"""The diagnosis: where the gap between languages sits, how sure that is, and why (S3-96).

One module a step: :mod:`~analyses.diagnosis.measurements` is what a rule may look at,
:mod:`~analyses.diagnosis.evidence` the four questions that are put to it, :mod:`~analyses.diagnosis.verdict`
the rule and its sentence. :mod:`~analyses.diagnosis.calibration` tries the whole on towers whose fault is
known, and :mod:`~analyses.diagnosis.power` says beforehand what a number of captions can show.
"""

from typing import TYPE_CHECKING

from workbench._lazy import lazy_exports

if TYPE_CHECKING:
    from analyses.diagnosis.evidence import Estimate, Thresholds
    from analyses.diagnosis.measurements import Measurements, measurements_of
    from analyses.diagnosis.verdict import Verdict, check_settings, diagnose, judge

__all__ = [
    "Estimate",
    "Measurements",
    "Thresholds",
    "Verdict",
    "check_settings",
    "diagnose",
    "judge",
    "measurements_of",
]
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Estimate": "analyses.diagnosis.evidence",
        "Measurements": "analyses.diagnosis.measurements",
        "Thresholds": "analyses.diagnosis.evidence",
        "Verdict": "analyses.diagnosis.verdict",
        "check_settings": "analyses.diagnosis.verdict",
        "diagnose": "analyses.diagnosis.verdict",
        "judge": "analyses.diagnosis.verdict",
        "measurements_of": "analyses.diagnosis.measurements",
    },
)
