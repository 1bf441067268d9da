"""The same cell as a plain nnsight trace, one depth at a time.

This is how one would patch by hand, and what the sweep engine is held to: nothing shared between depths,
no appended rows, no widened batch, the padding that the tower's tokeniser gives. It is slow, and it is
right for the simplest of reasons.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.hooks import pick, present, with_rows, within
from workbench.intervention import Context, Intervention
from workbench.towers.base import Tower
from workbench.towers.tokens import Tokens


def patch_one_depth(
    tower: Tower, tokens: Tokens, intervention: Intervention, context: Context, depth: int
) -> Float[Tensor, "batch embedding"]:
    """Patch one batch at one depth with nnsight and return the model's own text features, unnormalised."""
    where = tokens.where(intervention.site).to(tower.device)
    has, where = present(where), within(where)
    blocks = tower.envoy_blocks

    def patched(hidden: Tensor) -> Tensor:
        clean = pick(hidden, where)
        new = intervention.new_rows(clean, depth, context)
        return with_rows(hidden, where, torch.where(has[:, None], new, clean))

    with tower.evaluating(), tower.trace_tokens(tokens) as trace:
        if depth == 0:
            blocks[0].input = patched(blocks[0].input)
        else:
            blocks[depth - 1].output = patched(blocks[depth - 1].output)
        output = trace.result.save()
    return tower.embedding(output, tokens).float().cpu()


def patch_depths(
    tower: Tower, tokens: Tokens, intervention: Intervention, context: Context, depths: Sequence[int]
) -> Float[Tensor, "depth batch embedding"]:
    """Patch one batch at several depths, one trace a depth."""
    return torch.stack([patch_one_depth(tower, tokens, intervention, context, depth) for depth in depths])
