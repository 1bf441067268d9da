"""Read and rewrite rows inside a forward pass, and always let go.

A text tower is a stack of blocks. *Depth* counts how many have run: depth 0 is what enters the first
block, depth d is what block d-1 puts out. At each depth there is one hidden tensor of shape (batch,
position, width), and a *row* of it is one token's vector. A :class:`HookManager` reads rows at any depth,
replaces them, or takes over the whole hidden tensor, while the model's own ``forward`` runs. Some towers
pool the *mean* of several tokens. There a boolean mask says which, the row is the masked mean, and replacing
it shifts every token under the mask by the same vector, so that their mean becomes the new row::

    with HookManager(tower.blocks) as hooks:
        rows = hooks.capture(range(13), pooled)        # {depth: (batch, width)}, filled by the pass
        hooks.replace(8, pooled, lambda row: donor)    # block 8 and everything after it see the donor
        embedding = tower.forward(tokens)

Two promises hold however the ``with`` block ends, by an exception or an interrupted notebook cell too.
The model has exactly the hooks that it had before: the manager removes its own and touches no others.
And a hook that was asked for and never ran raises :class:`~workbench.errors.HookError`, because a patch
that did nothing looks just like a patch that does not matter.
"""

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from workbench.errors import HookError

Hidden = Float[Tensor, "batch position width"]
Rows = Float[Tensor, "batch width"]
Index = Int[Tensor, " batch"]
Where = Index | Bool[Tensor, "batch position"]
"""Which row of each caption: its position, or a mask of the rows whose mean it is."""


@dataclass
class BlockCall:
    """What one block is called with: the hidden tensor, and everything else that goes along.

    Attributes
    ----------
    hidden : Tensor of shape (batch, position, width)
    args : tuple
        The positional arguments after the hidden tensor.
    kwargs : dict
        The keyword arguments.
    """

    hidden: Hidden
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass
class Patch:
    """How a replacement went, filled in by the forward pass.

    Attributes
    ----------
    rows : int
        Rows that were handed over to the function.
    change : Tensor of shape (batch,)
        Norm of the change of each row, relative to the norm of the clean row. All zero for a patch of a
        row with itself, and for nothing else.
    """

    rows: int = 0
    change: Tensor | None = None


@dataclass
class _Site:
    what: str
    fired: int = 0
    result: Any = field(default=None, repr=False)


# How many managers without gradients are open on the tower that begins with a block.
_WITHOUT_GRADIENTS: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()


def recorded(blocks: Sequence[nn.Module]) -> bool:
    """Whether autograd is to record a pass through these blocks: it is on, and no open manager has it off."""
    return torch.is_grad_enabled() and not (blocks and _WITHOUT_GRADIENTS.get(blocks[0], 0))


class HookManager:
    """Own a set of forward hooks on a stack of blocks for the length of a ``with`` statement.

    Parameters
    ----------
    blocks : sequence of nn.Module
        The text blocks in the order in which they run.
    gradients : bool
        Whether autograd records the passes of a tower, and what is captured from them. Off by default: a captured row
        that keeps its graph alive keeps every activation of the pass alive. Torch's own switch is left as it is, so
        that nothing else is affected, whatever becomes of the ``with`` block.
    """

    def __init__(self, blocks: Sequence[nn.Module], *, gradients: bool = False) -> None:
        self.blocks = list(blocks)
        self.gradients = gradients
        self._handles: list[torch.utils.hooks.RemovableHandle] = []
        self._sites: list[_Site] = []
        self._open = False

    def __enter__(self) -> Self:
        if self._open:
            raise HookError("This HookManager is open already. Make a second one for a nested patch.")
        self._sites = []
        self._open = True
        self._count(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._handles:
            self._handles.pop().remove()
        if self._open:
            self._open = False
            self._count(-1)
        if error is None:
            self._check_fired()

    def _count(self, step: int) -> None:
        if not self.gradients and self.blocks:
            _WITHOUT_GRADIENTS[self.blocks[0]] = _WITHOUT_GRADIENTS.get(self.blocks[0], 0) + step

    def _check_fired(self) -> None:
        silent = [site.what for site in self._sites if not site.fired]
        if silent:
            raise HookError(
                f"{len(silent)} of {len(self._sites)} hooks never ran, the first to {silent[0]}. Nothing was "
                "read or patched there. Run the model's forward pass inside the `with` block, by calling the "
                "model (not its `.forward`), and on the tower that these blocks belong to."
            )

    # -- what to do at a depth ------------------------------------------------------------------

    def capture(self, depths: Iterable[int], index: Where | None = None) -> dict[int, Tensor]:
        """Read rows at several depths.

        Parameters
        ----------
        depths : iterable of int
            0 to N inclusive.
        index : int Tensor of shape (batch,) or bool Tensor of shape (batch, position), optional
            Position of the row to read in each caption, or the mask whose mean to read. Without it, all
            rows are read.

        Returns
        -------
        dict of int to Tensor
            Empty now; after the pass, ``{depth: (batch, width)}``, or (batch, position, width) without an
            index. The tensors are copies: later in-place edits do not reach them.
        """
        found: dict[int, Tensor] = {}

        def reader(depth: int) -> Callable[[Hidden], None]:
            def read(hidden: Hidden) -> None:
                rows = hidden.clone() if index is None else pick(hidden, index)
                found[depth] = rows if self.gradients else rows.detach()

            return read

        for depth in depths:
            self.visit(depth, reader(depth), what=f"capture depth {depth}")
        return found

    def replace(self, depth: int, index: Where, rows: Callable[[Rows], Rows]) -> Patch:
        """Replace one row of each caption at a depth.

        Parameters
        ----------
        depth : int
            0 to N inclusive; block ``depth`` is the first to see the new row.
        index : int Tensor of shape (batch,) or bool Tensor of shape (batch, position)
            Position of the row in each caption, or the mask whose mean is replaced.
        rows : callable
            Gets the clean rows, (batch, width), and returns the new ones. They are cast to the dtype and
            device of the tower.

        Returns
        -------
        Patch
            Filled in by the pass.

        Raises
        ------
        HookError
            If the new rows have another shape or hold a value that is not finite.
        """
        patch = Patch()

        def edit(hidden: Hidden) -> Hidden:
            clean = pick(hidden, index)
            new = checked_rows(rows(clean.clone()), clean, depth)
            new = new if self.gradients else new.detach()
            patch.rows += len(new)
            patch.change = relative_change(clean, new)
            return with_rows(hidden, index, new)

        self.visit(depth, edit, what=f"replace a row at depth {depth}")
        return patch

    def visit(self, depth: int, action: Callable[[Hidden], Hidden | None], *, what: str | None = None) -> None:
        """Call ``action`` with the whole hidden tensor at a depth; a tensor that it returns takes its place."""
        site = self._site(depth, what or f"visit depth {depth}")
        if depth == 0:

            def before(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict] | None:
                site.fired += 1
                call = _block_call(args, kwargs)
                new = action(call.hidden)
                return None if new is None else _call_with(args, kwargs, BlockCall(new, call.args, call.kwargs))

            self._handles.append(self.blocks[0].register_forward_pre_hook(before, with_kwargs=True))
            return

        def after(module: nn.Module, args: tuple, output: Any) -> Any:
            site.fired += 1
            hidden = unwrap(output)
            new = action(hidden)
            return None if new is None else _rewrap(output, new)

        self._handles.append(self.blocks[depth - 1].register_forward_hook(after))

    def intercept(self, block: int, action: Callable[[BlockCall], BlockCall]) -> None:
        """Let ``action`` rewrite everything that a block is called with, the attention mask included.

        Parameters
        ----------
        block : int
            0 to N-1.
        action : callable
            Gets the :class:`BlockCall` and returns the one to use.
        """
        if not 0 <= block < len(self.blocks):
            raise HookError(f"There is no block {block}: this tower has blocks 0 to {len(self.blocks) - 1}.")
        site = self._site(block, f"intercept block {block}")

        def before(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
            site.fired += 1
            return _call_with(args, kwargs, action(_block_call(args, kwargs)))

        self._handles.append(self.blocks[block].register_forward_pre_hook(before, with_kwargs=True))

    def _site(self, depth: int, what: str) -> _Site:
        if not self._open:
            raise HookError("Open the manager first: `with HookManager(tower.blocks) as hooks: ...`.")
        if not 0 <= depth <= len(self.blocks):
            raise HookError(
                f"There is no depth {depth}: this tower has {len(self.blocks)} blocks, so depths run from 0 (the "
                f"embedding layer) to {len(self.blocks)} (after the last block)."
            )
        site = _Site(what)
        self._sites.append(site)
        return site


def unwrap(output: Any) -> Hidden:
    """Return the hidden tensor of a block's output, which is a tensor or a tuple that starts with one."""
    hidden = output[0] if isinstance(output, tuple) else output
    if not isinstance(hidden, Tensor) or hidden.ndim != 3:
        shape = tuple(hidden.shape) if isinstance(hidden, Tensor) else type(hidden).__name__
        raise HookError(f"A block gave {shape}, not a hidden tensor of shape (batch, position, width).")
    return hidden


def _rewrap(output: Any, hidden: Hidden) -> Any:
    return (hidden, *output[1:]) if isinstance(output, tuple) else hidden


def _block_call(args: tuple, kwargs: dict) -> BlockCall:
    if args:
        return BlockCall(unwrap(args[0]), args[1:], dict(kwargs))
    if "hidden_states" not in kwargs:
        raise HookError(f"A block was called without a hidden tensor; it got {sorted(kwargs)}.")
    rest = dict(kwargs)
    return BlockCall(unwrap(rest.pop("hidden_states")), (), rest)


def _call_with(args: tuple, kwargs: dict, call: BlockCall) -> tuple[tuple, dict]:
    if args:
        return (call.hidden, *call.args), call.kwargs
    return (), {**call.kwargs, "hidden_states": call.hidden}


def pick(hidden: Hidden, where: Where) -> Rows:
    """Return one row of each caption: the one at its position, or the mean of those under its mask."""
    if len(where) != len(hidden):
        raise HookError(
            f"{len(where)} row positions came for a batch of {len(hidden)} captions. Pass one position a caption."
        )
    where = where.to(hidden.device)
    if where.dtype == torch.bool:
        weight = where[..., None].float()
        # In float32 also for a tower in half precision: a mean of many rows loses digits.
        return ((hidden.float() * weight).sum(1) / weight.sum(1).clamp_min(1)).to(hidden.dtype)
    return hidden[torch.arange(len(hidden), device=hidden.device), where]


def present(where: Where) -> Bool[Tensor, " batch"]:
    """Return which captions have such a row: a position that is not -1, or a mask that is not empty."""
    return where.any(-1) if where.dtype == torch.bool else where >= 0


def within(where: Where) -> Where:
    """Return the same with the first row for captions that have none, so that it can be picked."""
    return where if where.dtype == torch.bool else where.clamp_min(0)


def with_rows(hidden: Hidden, where: Where, rows: Rows) -> Hidden:
    """Return a copy of ``hidden`` in which the row of caption i is ``rows[i]``.

    Under a mask, every row of it is shifted by the same difference, so that their mean is ``rows[i]``.
    """
    where = where.to(hidden.device)
    if where.dtype == torch.bool:
        shift = (rows - pick(hidden, where))[:, None]
        return torch.where(where[..., None], hidden + shift, hidden)
    hidden = hidden.clone()
    hidden[torch.arange(len(hidden), device=hidden.device), where] = rows
    return hidden


def checked_rows(new: Tensor, clean: Rows, depth: int) -> Rows:
    """Check replacement rows against the rows they replace and cast them to their dtype and device."""
    if not isinstance(new, Tensor) or new.shape != clean.shape:
        got = tuple(new.shape) if isinstance(new, Tensor) else type(new).__name__
        raise HookError(
            f"An intervention returned {got} at depth {depth}; it must return a tensor with one new row for each row "
            f"that it got, {tuple(clean.shape)}."
        )
    if new.layout != torch.strided or new.is_complex() or new.is_meta or new.is_quantized:
        kind = "complex" if new.is_complex() else "meta" if new.is_meta else str(new.layout).removeprefix("torch.")
        raise HookError(
            f"An intervention returned a {kind} tensor at depth {depth}; it must return a dense one of real numbers."
        )
    # After the cast: what is finite in float64 may be infinite in the tower's precision.
    cast = new.to(dtype=clean.dtype, device=clean.device)
    if not torch.isfinite(cast).all():
        raise HookError(f"An intervention returned NaN or infinity at depth {depth}.")
    return cast


def relative_change(clean: Rows, new: Rows) -> Float[Tensor, " batch"]:
    """Norm of the change of each row, as a share of the norm of the clean row."""
    size = torch.linalg.vector_norm(clean.float(), dim=-1).clamp_min(torch.finfo(torch.float32).tiny)
    return torch.linalg.vector_norm((new - clean).float(), dim=-1) / size
