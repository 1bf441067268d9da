"""The same cell as a plain nnsight trace, one depth at a time.

This is how one would patch by hand, and what the sweep engine is held to: nothing shared between depths,
no appended rows, no widened batch, the padding that the tower's tokeniser gives. It is slow, and it is
right for the simplest of reasons.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.intervention import Context, Intervention
from workbench.towers.base import Tokens, Tower


def patch_one_depth(
    tower: Tower, tokens: Tokens, intervention: Intervention, context: Context, depth: int
) -> Float[Tensor, "batch embedding"]:
    """Patch one batch at one depth with nnsight and return the model's own text features, unnormalised."""
    index = (tokens.pooled if intervention.site == "pooled" else tokens.middle).to(tower.device)
    has, position = index >= 0, index.clamp_min(0)
    batch = torch.arange(len(tokens), device=tower.device)
    blocks = tower.envoy_blocks
    with tower.evaluating(), tower.trace_tokens(tokens) as trace:
        if depth == 0:
            clean = blocks[0].input[batch, position].clone()
            new = intervention.new_rows(clean, depth, context)
            blocks[0].input[batch, position] = torch.where(has[:, None], new, clean)
        else:
            clean = blocks[depth - 1].output[batch, position].clone()
            new = intervention.new_rows(clean, depth, context)
            blocks[depth - 1].output[batch, position] = torch.where(has[:, None], new, clean)
        output = trace.result.save()
    return tower.features(output).float().cpu()


def patch_depths(
    tower: Tower, tokens: Tokens, intervention: Intervention, context: Context, depths: Sequence[int]
) -> Float[Tensor, "depth batch embedding"]:
    """Patch one batch at several depths, one trace a depth."""
    return torch.stack([patch_one_depth(tower, tokens, intervention, context, depth) for depth in depths])
