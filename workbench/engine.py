"""Every depth of every intervention from one forward pass.

Patching one depth at a time costs a forward pass a depth. Most of that work is the same, and both
strategies here share it, while the model's own ``forward`` runs under hooks:

*Append* (causal towers, pooled row). No other row ever looks at the pooled row, so a patched copy of it is
simply one more row: at each depth the new rows are appended to the sequence, with a mask that lets each
see the true rows before the pooled one, and itself. A block sees S + d rows for one intervention at depth
d, instead of a whole new sequence for each depth.

*Widen* (bidirectional towers; any row that is not the pooled one). A patched row changes its neighbours, so
each depth needs its own copy of the caption from there on. The batch grows with depth: block d runs d+1
copies, all started from the clean rows at their depth, which is half of the work. In the last block only
the pooled rows are still needed.

In both, a patch at depth N needs no block at all, only the head. A tower that pools the mean of its tokens
has no single row to follow: it is widened, and its last block runs whole. :mod:`workbench.oracle` does the same
with plain nnsight traces, one depth at a time; tests hold the two together on every family.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from workbench.errors import HookError, TowerError
from workbench.hooks import (
    BlockCall,
    Hidden,
    HookManager,
    Rows,
    pick,
    present,
    relative_change,
    unwrap,
    with_rows,
    within,
)
from workbench.intervention import Context, Intervention
from workbench.towers.base import Tower
from workbench.towers.tokens import Tokens

# Floats of one intermediate tensor of a widened batch; what keeps two CPU cores busy and memory flat.
_BUDGET = 2**23


@dataclass(frozen=True)
class PassResult:
    """Embeddings of one batch.

    Attributes
    ----------
    clean : Tensor of shape (batch, embedding)
        Without any patch.
    patched : Tensor of shape (intervention, depth, batch, embedding)
    change : Tensor of shape (intervention, depth, batch)
        Norm of the change of the patched row, relative to the clean row.
    unchanged : bool Tensor of shape (intervention, depth, batch)
        Where the patch can't have changed anything: the new row equals the old one to the bit, or it is not
        pooled and no block is left to read it. The patched embedding is then the clean one, exactly.
    touched : bool Tensor of shape (intervention, batch)
        Whether the caption has the row that is patched.
    """

    clean: Float[Tensor, "batch embedding"]
    patched: Float[Tensor, "intervention depth batch embedding"]
    change: Float[Tensor, "intervention depth batch"]
    unchanged: Bool[Tensor, "intervention depth batch"]
    touched: Bool[Tensor, "intervention batch"]


def strategy(tower: Tower, intervention: Intervention) -> str:
    """Return ``"append"`` where it is exact for this tower and row, else ``"widen"``."""
    return tower.strategy if intervention.site == "pooled" else "widen"


def sweep_batch_size(tower: Tower, cells: int, kind: str, longest: int) -> int:
    """Return how many captions a pass should hold, from the size of its widest intermediate tensor."""
    rows = longest + cells if kind == "append" else longest * (cells + 1)
    return int(max(1, min(256, _BUDGET // (rows * 4 * tower.width))))


def sweep_pass(
    tower: Tower,
    tokens: Tokens,
    interventions: Sequence[Intervention],
    contexts: Sequence[Context],
    depths: Sequence[int],
) -> PassResult:
    """Patch one batch at every depth with every intervention.

    Parameters
    ----------
    tower : Tower
    tokens : Tokens
    interventions : sequence of Intervention
        All of one :func:`strategy`.
    contexts : sequence of Context
        One an intervention, for the captions of this batch.
    depths : sequence of int
        Sorted, each between 0 and N.

    Raises
    ------
    HookError
        If an intervention returns rows of a wrong shape or with NaN.
    """
    kinds = {strategy(tower, intervention) for intervention in interventions}
    if len(kinds) != 1:
        raise HookError("One pass runs one strategy. Sweep interventions of different strategies apart.")
    runner = _Append if kinds == {"append"} else _Widen
    with tower.evaluating():
        return runner(tower, tokens, interventions, contexts, depths).run()


class _Pass(ABC):
    """What the two strategies share: making new rows, and collecting what comes out."""

    def __init__(
        self,
        tower: Tower,
        tokens: Tokens,
        interventions: Sequence[Intervention],
        contexts: Sequence[Context],
        depths: Sequence[int],
    ) -> None:
        self.tower, self.tokens = tower, tokens
        self.interventions, self.contexts = list(interventions), list(contexts)
        self.depths = list(depths)
        self.batch = len(tokens)
        self.pooled = tokens.where("pooled").to(tower.device)
        self.where = [tokens.where(intervention.site).to(tower.device) for intervention in self.interventions]
        self.change = torch.zeros(len(self.interventions), len(self.depths), self.batch)
        self.unchanged = torch.zeros_like(self.change, dtype=torch.bool)
        # What is left of each cell after the last block: its pooled rows, or its embeddings where they are a mean.
        self.final: dict[tuple[int, int], Tensor] = {}

    @property
    def mean_pooled(self) -> bool:
        return self.tokens.averaged is not None

    def run(self) -> PassResult:
        last = self.tower.n_blocks
        with HookManager(self.tower.blocks) as hooks:
            for block in range(last):
                hooks.intercept(block, self._entering(block))
            hooks.visit(last, self.leave)
            clean = self.tower.forward(self.tokens).float().cpu()
        rows = [[self.final[k, depth] for depth in self.depths] for k in range(len(self.interventions))]
        patched = torch.stack([torch.stack(line) for line in rows])
        patched = (patched if self.mean_pooled else self.tower.head(patched)).float().cpu()
        # A row that was replaced by itself leaves the caption as it was, to the bit; the shared pass gets
        # there by another order of sums.
        patched = torch.where(self.unchanged[..., None], clean, patched)
        touched = torch.stack([self._touched(k) for k in range(len(self.interventions))])
        return PassResult(clean, patched, self.change, self.unchanged, touched)

    def _touched(self, k: int) -> Bool[Tensor, " batch"]:
        """Which captions have the row that is replaced, and so have their sources."""
        context = self.contexts[k]
        found = present(self.where[k]).cpu()
        for source in self.interventions[k].sources:
            found &= context.available.at(source, context.captions).cpu()
        return found

    def _entering(self, block: int) -> Any:
        return lambda call: self.enter(block, call)

    @abstractmethod
    def enter(self, block: int, call: BlockCall) -> BlockCall:
        """Return what a block is to be called with."""

    @abstractmethod
    def leave(self, hidden: Hidden) -> Hidden | None:
        """Take the finished rows out of the last block's output, and return what the model goes on with."""

    def new_rows(self, k: int, depth: int, hidden: Hidden) -> Rows:
        """Ask intervention k for the new rows of clean captions; a caption without such a row keeps its own."""
        where, context = self.where[k], self.contexts[k]
        has = present(where)
        clean = pick(hidden, within(where))
        if not torch.isfinite(clean).all():
            # Said here, or the intervention would be blamed for what it was given.
            raise TowerError(
                f"{self.tower.name!r} gives NaN or infinity at depth {depth} before any patch. Look for damaged "
                "weights, or load it in float32."
            )
        new = self.interventions[k].new_rows(clean, depth, context)
        new = torch.where(has[:, None], new, clean)
        place = self.depths.index(depth)
        self.change[k, place] = relative_change(clean, new).cpu()
        self.unchanged[k, place] = (new == clean).all(-1).cpu()
        return new

    def at_end(self, hidden: Hidden) -> None:
        """Fill in depth N, where the last block has run and what is pooled is all there is left to change."""
        last = self.tower.n_blocks
        if last not in self.depths:
            return
        for k, where in enumerate(self.where):
            new = with_rows(hidden, within(where), self.new_rows(k, last, hidden))
            self.final[k, last] = self.outcome(new)
            if not self.mean_pooled:
                # A row that is not pooled has no way into the embedding any more.
                same = (self.final[k, last] == pick(hidden, self.pooled)).all(-1)
                self.unchanged[k, self.depths.index(last)] |= same.cpu()

    def outcome(self, hidden: Hidden) -> Tensor:
        """Return what :meth:`run` needs of the last block's output: pooled rows, or the embeddings of a mean."""
        if not self.mean_pooled:
            return pick(hidden, self.pooled.repeat(len(hidden) // self.batch))
        averaged = self.pooled.repeat(len(hidden) // self.batch, 1)
        return self.tower.finish(hidden, averaged)


class _Append(_Pass):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.positions = self.tokens.input_ids.shape[1]
        self.appended: list[tuple[int, int]] = []
        total = len(self.interventions) * sum(depth < self.tower.n_blocks for depth in self.depths)
        self.mask = self._mask(total)

    def _mask(self, appended: int) -> Bool[Tensor, "batch 1 query key"]:
        """Which rows see which: the caption causally, an appended row the true prefix and itself."""
        s, device = self.positions, self.pooled.device
        mask = torch.zeros(self.batch, 1, s + appended, s + appended, dtype=torch.bool, device=device)
        real = torch.ones(self.batch, s, dtype=torch.bool, device=device)
        if self.tokens.attention_mask is not None:
            real = self.tokens.attention_mask.to(device).bool()
        # Every row sees itself, padding too: a row that sees nothing has no softmax.
        itself = torch.eye(s, dtype=torch.bool, device=device)
        causal = torch.ones(s, s, dtype=torch.bool, device=device).tril()
        mask[:, 0, :s, :s] = causal & real[:, None] | itself
        prefix = (torch.arange(s, device=device) < self.pooled[:, None]) & real
        mask[:, :, s:, :s] = prefix[:, None, None]
        mask[:, :, s:, s:] = torch.eye(appended, dtype=torch.bool, device=device)
        return mask

    def enter(self, block: int, call: BlockCall) -> BlockCall:
        hidden = call.hidden
        if block in self.depths:
            clean = hidden[:, : self.positions]
            new = [self.new_rows(k, block, clean) for k in range(len(self.interventions))]
            hidden = torch.cat([hidden, torch.stack(new, dim=1)], dim=1)
            self.appended += [(k, block) for k in range(len(self.interventions))]
        if not self.appended:
            return call
        size = self.positions + len(self.appended)
        call = with_mask(call, hidden, self._as_needed(self.mask[:, :, :size, :size], hidden))
        return BlockCall(call.hidden, call.args, with_positions(call.kwargs, self.pooled, len(self.appended)))

    def _as_needed(self, mask: Tensor, hidden: Hidden) -> Tensor:
        """Eager attention adds its mask to the scores; every other implementation takes a boolean one."""
        attention = self.tower.text_config._attn_implementation
        if attention == "eager":
            return torch.zeros(mask.shape, dtype=hidden.dtype, device=hidden.device).masked_fill(
                ~mask, torch.finfo(hidden.dtype).min
            )
        return mask

    def leave(self, hidden: Hidden) -> Hidden:
        for place, cell in enumerate(self.appended):
            self.final[cell] = hidden[:, self.positions + place]
        clean = hidden[:, : self.positions]
        self.at_end(clean)
        return clean


class _Widen(_Pass):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.copies: list[tuple[int, int]] = []

    def enter(self, block: int, call: BlockCall) -> BlockCall:
        hidden = call.hidden
        if block in self.depths:
            clean, new = hidden[: self.batch], []
            for k, where in enumerate(self.where):
                new.append(with_rows(clean, within(where), self.new_rows(k, block, clean)))
                self.copies.append((k, block))
            hidden = torch.cat([hidden, *new])
        if not self.copies:
            return call
        if block == self.tower.n_blocks - 1:
            self._finish(BlockCall(hidden[self.batch :], call.args, call.kwargs))
            return BlockCall(hidden[: self.batch], call.args, call.kwargs)
        return self._tiled(BlockCall(hidden, call.args, call.kwargs), len(self.copies) + 1)

    def _finish(self, call: BlockCall) -> None:
        """Run the last block for the pooled rows of all copies, or whole where their mean is pooled."""
        copies = len(self.copies)
        call = self._tiled(call, copies)
        if self.mean_pooled:
            # `.forward`, because the hooks of the pass that calls this sit on the same block.
            left = self.outcome(unwrap(self.tower.blocks[-1].forward(call.hidden, *call.args, **call.kwargs)))
        else:
            left = self.tower.last_block(call, self.pooled.repeat(copies))
        for cell, part in zip(self.copies, left.view(copies, self.batch, -1), strict=True):
            self.final[cell] = part

    def _tiled(self, call: BlockCall, copies: int) -> BlockCall:
        """Repeat everything batch-sized that goes along with the hidden tensor: masks, rotary tables."""

        def tile(value: Any, axis: int = 0) -> Any:
            if isinstance(value, Tensor) and value.ndim > axis and value.shape[axis] == self.batch > 1:
                return value.repeat(*[copies if k == axis else 1 for k in range(value.ndim)])
            if isinstance(value, tuple):
                return tuple(tile(part, axis) for part in value)
            return value

        def keyword(name: str, value: Any) -> Any:
            if name == "attn_mask":
                # What torch.nn.MultiheadAttention takes: a square for all, or a square a caption and head.
                return value.repeat(copies, 1, 1) if isinstance(value, Tensor) and value.ndim == 3 else value
            # Rotary tables of multimodal models stand three deep (time, height, width), batch second.
            first = value[0] if isinstance(value, tuple) and value else value
            plain = {"position_embeddings": 3, "position_ids": 2}.get(name)
            deep = plain is not None and isinstance(first, Tensor) and first.ndim > plain
            return tile(value, 1 if deep else 0)

        return BlockCall(
            call.hidden,
            tuple(tile(arg) for arg in call.args),
            {name: keyword(name, value) for name, value in call.kwargs.items()},
        )

    def leave(self, hidden: Hidden) -> None:
        self.at_end(hidden)


def with_mask(call: BlockCall, hidden: Hidden, mask: Tensor) -> BlockCall:
    """Return a call with another hidden tensor and attention mask, passed the way the block got its own."""
    if call.args:
        return BlockCall(hidden, (mask, *call.args[1:]), call.kwargs)
    return BlockCall(hidden, (), {**call.kwargs, "attention_mask": mask})


def with_positions(kwargs: dict[str, Any], pooled: Tensor, appended: int) -> dict[str, Any]:
    """Give appended rows the position of the pooled row that they stand for, where positions go along.

    Towers with rotary positions pass tables of shape (…, batch, position, width) and ids of shape
    (…, batch, position) to every block. CLIP adds its positions once, before the first block, and passes none.
    """

    def longer(table: Tensor) -> Tensor:
        table = table.expand(*table.shape[:-3], len(pooled), *table.shape[-2:])
        own = table[..., torch.arange(len(pooled), device=table.device), pooled.to(table.device), :]
        return torch.cat([table, own[..., None, :].expand(*own.shape[:-1], appended, own.shape[-1])], dim=-2)

    extended = dict(kwargs)
    if isinstance(tables := kwargs.get("position_embeddings"), tuple):
        extended["position_embeddings"] = tuple(longer(table) for table in tables)
    if isinstance(ids := kwargs.get("position_ids"), Tensor):
        extended["position_ids"] = longer(ids[..., None])[..., 0]
    return extended
