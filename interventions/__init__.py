"""Rules that replace rows or embeddings; one file an idea."""

from typing import TYPE_CHECKING

from workbench._lazy import lazy_exports

if TYPE_CHECKING:
    from interventions.averaging import leave_one_out, pool_average
    from interventions.controls import ContentToken, MidToken, NormMatchedNoise, RandomEOS, random_draws
    from interventions.eos_patch import MeanEOS, ParallelEOS
    from interventions.erase_rows import Erase, fit_at_depths

__all__ = [
    "ContentToken",
    "Erase",
    "MeanEOS",
    "MidToken",
    "NormMatchedNoise",
    "ParallelEOS",
    "RandomEOS",
    "fit_at_depths",
    "leave_one_out",
    "pool_average",
    "random_draws",
]
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ContentToken": "interventions.controls",
        "Erase": "interventions.erase_rows",
        "MeanEOS": "interventions.eos_patch",
        "MidToken": "interventions.controls",
        "NormMatchedNoise": "interventions.controls",
        "ParallelEOS": "interventions.eos_patch",
        "RandomEOS": "interventions.controls",
        "fit_at_depths": "interventions.erase_rows",
        "leave_one_out": "interventions.averaging",
        "pool_average": "interventions.averaging",
        "random_draws": "interventions.controls",
    },
)
