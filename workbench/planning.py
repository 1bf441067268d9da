"""What a sweep will need, worked out before it is run.

Memory is what the process holds already, with the tower and the libraries, and what comes on top from sizes
that are known: the rows of the source languages at every depth, the patched embeddings of one language, and the
widest tensors of one pass. Time is measured, on a few captions of
the corpus itself, and scaled: a pass costs what it costs on this machine and no table knows that.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil
import torch

from workbench.engine import strategy, sweep_batch_size, sweep_pass
from workbench.intervention import Context, Intervention
from workbench.towers.base import Tower
from workbench.towers.tokens import Tokens
from workbench.trajectory import capture_language

_FLOAT = 4
_GIB = 2**30
# What the allocator keeps of what passes have freed differs from run to run of the same command. On Linux, ten sweeps
# of the built-in towers over 300 to 1,908 images peaked at the sum of the parts and up to ten passes above.
_KEPT = 10


@dataclass(frozen=True)
class Memory:
    """Bytes that a sweep holds at once.

    Attributes
    ----------
    held : int
        By this process now: tower, corpus and libraries.
    source_rows : int
        Trajectories of the source languages.
    patched : int
        Patched embeddings of one language, every intervention and depth.
    one_pass : int
        Intermediate tensors of one pass, as far as the widest layer goes.
    ranking : int
        Similarities of one cell, and what is made of them.
    """

    held: int
    source_rows: int
    patched: int
    one_pass: int
    ranking: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.held + self.source_rows + self.patched + self.one_pass + self.ranking

    @property
    def gib(self) -> float:
        """All of it in GiB."""
        return self.total / _GIB

    @property
    def range_gib(self) -> str:
        """``"0.8 to 1.6 GiB"``: all of it, and that with what an allocator may keep of passes that are over."""
        return f"{self.gib:.1f} to {(self.total + _KEPT * self.one_pass) / _GIB:.1f} GiB"


def sweep_memory(
    tower: Tower,
    captions: int,
    interventions: int = 5,
    sources: int = 6,
    depths: int | None = None,
    images: int | None = None,
) -> Memory:
    """Return what a sweep of so many captions a language holds at once.

    Parameters
    ----------
    tower : Tower
    captions : int
        Of one language.
    interventions, sources : int
        How many interventions, reading rows of how many languages.
    depths : int, optional
        All of 0 to N by default.
    images : int, optional
        Of the gallery; one a caption by default.
    """
    cells = interventions * (tower.n_blocks + 1 if depths is None else depths)
    embedding = tower.forward(tower.tokenize(["a"])).shape[-1] if tower.n_blocks else tower.width
    longest = min(tower.max_positions, 77)
    batch = sweep_batch_size(tower, cells, tower.strategy, longest)
    rows = longest + cells if tower.strategy == "append" else longest * (cells + 1)
    return Memory(
        held=psutil.Process().memory_info().rss,
        source_rows=sources * captions * (tower.n_blocks + 1) * tower.width * _FLOAT,
        patched=captions * cells * embedding * _FLOAT,
        # Input, residual, an MLP four times as wide and its activation.
        one_pass=batch * rows * 10 * tower.width * _FLOAT,
        # Similarities, their order, and two comparisons.
        ranking=4 * captions * (captions if images is None else images) * _FLOAT,
    )


def sweep_seconds(
    tower: Tower, tokens: Tokens, interventions: Sequence[Intervention], depths: Sequence[int], languages: int
) -> float:
    """Time one batch of each strategy and scale it to all captions and languages.

    Parameters
    ----------
    tower : Tower
    tokens : Tokens
        All captions of one language; the first ones are timed.
    interventions : sequence of Intervention
    depths : sequence of int
    languages : int
    """
    total = 0.0
    everything = list(range(tower.n_blocks + 1))
    for kind in dict.fromkeys(strategy(tower, intervention) for intervention in interventions):
        group = [intervention for intervention in interventions if strategy(tower, intervention) == kind]
        size = sweep_batch_size(tower, len(group) * len(depths), kind, int(tokens.length.max()))
        part = tokens.take(torch.arange(min(size, len(tokens), 64)))
        n = len(part)
        contexts = []
        for intervention in group:
            rows = capture_language(tower, part, everything, intervention.site)
            sources = dict.fromkeys(intervention.sources, rows.rows)
            available = dict.fromkeys(intervention.sources, rows.available)
            contexts.append(Context("", torch.arange(n), n, intervention.site, sources, available, 0))
        if n < 2:
            continue
        started = time.perf_counter()
        sweep_pass(tower, part, group, contexts, depths)
        total += (time.perf_counter() - started) * len(tokens) / n
    return total * languages
