"""The bench: towers, corpora, hooks, trajectories, sweeps, retrieval and runs.

::

    from workbench import load_tower, load_corpus, capture, sweep, tiers
    from interventions import ParallelEOS, RandomEOS

    tower = load_tower("emoji-causal")
    corpus = load_corpus("emoji-36", ["en", "sw", "te"])
    result = sweep(tower, corpus, [ParallelEOS("en"), RandomEOS("en")])
    result.frame
"""

from typing import TYPE_CHECKING

from workbench._lazy import lazy_exports

if TYPE_CHECKING:
    from workbench.corpora.base import Corpus
    from workbench.corpora.loading import load_corpus
    from workbench.errors import HookError, InputError, TowerError, WorkbenchError
    from workbench.hooks import HookManager
    from workbench.intervention import Context, Intervention
    from workbench.languages import tiers
    from workbench.runs import Run
    from workbench.scoring import score
    from workbench.sweeps import SweepResult, sweep
    from workbench.towers.base import Tower
    from workbench.towers.loading import load_tower
    from workbench.trajectory import capture, open_trajectory

__version__ = "0.1.0"

_EXPORTS = {
    "Context": "workbench.intervention",
    "Corpus": "workbench.corpora.base",
    "HookError": "workbench.errors",
    "HookManager": "workbench.hooks",
    "InputError": "workbench.errors",
    "Intervention": "workbench.intervention",
    "Run": "workbench.runs",
    "SweepResult": "workbench.sweeps",
    "Tower": "workbench.towers.base",
    "TowerError": "workbench.errors",
    "WorkbenchError": "workbench.errors",
    "capture": "workbench.trajectory",
    "load_corpus": "workbench.corpora.loading",
    "load_tower": "workbench.towers.loading",
    "open_trajectory": "workbench.trajectory",
    "score": "workbench.scoring",
    "sweep": "workbench.sweeps",
    "tiers": "workbench.languages",
}
__all__ = [
    "Context",
    "Corpus",
    "HookError",
    "HookManager",
    "InputError",
    "Intervention",
    "Run",
    "SweepResult",
    "Tower",
    "TowerError",
    "WorkbenchError",
    "capture",
    "load_corpus",
    "load_tower",
    "open_trajectory",
    "score",
    "sweep",
    "tiers",
]
__getattr__, __dir__ = lazy_exports(__name__, _EXPORTS)
