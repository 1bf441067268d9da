"""Rules that replace rows or embeddings; one file an idea."""

from typing import TYPE_CHECKING

from workbench._lazy import lazy_exports

if TYPE_CHECKING:
    from interventions.controls import MidToken, NormMatchedNoise, RandomEOS
    from interventions.eos_patch import MeanEOS, ParallelEOS

__all__ = ["MeanEOS", "MidToken", "NormMatchedNoise", "ParallelEOS", "RandomEOS"]
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "MeanEOS": "interventions.eos_patch",
        "MidToken": "interventions.controls",
        "NormMatchedNoise": "interventions.controls",
        "ParallelEOS": "interventions.eos_patch",
        "RandomEOS": "interventions.controls",
    },
)
