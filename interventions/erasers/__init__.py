"""Erasers: scikit-learn transformers that take the language out of rows; one file an idea."""

from typing import TYPE_CHECKING

from workbench._lazy import lazy_exports

if TYPE_CHECKING:
    from interventions.erasers.adversarial import AdversarialEraser
    from interventions.erasers.base import Eraser, ErasureWarning, LinearEraser
    from interventions.erasers.inlp import INLP
    from interventions.erasers.leace import LEACE
    from interventions.erasers.mean_difference import MeanDifference
    from interventions.erasers.random_ablation import RandomAblation, random_ablations
    from interventions.erasers.store import load_eraser, save_eraser

_EXPORTS = {
    "INLP": "interventions.erasers.inlp",
    "LEACE": "interventions.erasers.leace",
    "AdversarialEraser": "interventions.erasers.adversarial",
    "Eraser": "interventions.erasers.base",
    "ErasureWarning": "interventions.erasers.base",
    "LinearEraser": "interventions.erasers.base",
    "MeanDifference": "interventions.erasers.mean_difference",
    "RandomAblation": "interventions.erasers.random_ablation",
    "load_eraser": "interventions.erasers.store",
    "random_ablations": "interventions.erasers.random_ablation",
    "save_eraser": "interventions.erasers.store",
}
__all__ = [
    "INLP",
    "LEACE",
    "AdversarialEraser",
    "Eraser",
    "ErasureWarning",
    "LinearEraser",
    "MeanDifference",
    "RandomAblation",
    "load_eraser",
    "random_ablations",
    "save_eraser",
]
__getattr__, __dir__ = lazy_exports(__name__, _EXPORTS)
