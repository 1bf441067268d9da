"""An upper bound of how much the back half can stretch a change of the pooled row, from its weights (S3-93).

Sampled ratios (:mod:`probes.sensitivity`) say what happened to some captions; a bound says what can happen to
any. It is a product over the blocks from depth M on of (1 + attention) (1 + MLP), with the layer norms, and of
the head. Dot-product attention and layer norm have no useful Lipschitz constant over all of space, so the bound
uses the domain that a layer norm enforces (AMB-27): what it puts out has norm at most R = sqrt(d) max|γ| + ||β||.
There, for one head with y = LN(h), values V = ||W_v|| R, keys K = ||W_k|| R and queries Q = ||W_q|| R + ||b_q||
(a bias on keys or values changes no difference of scores or of weighted values),

    ||W_v|| + V/sqrt(d_head) (K ||W_q|| + Q ||W_k||)

bounds how the pooled row's attention answers to that row alone, which is all that matters in a causal tower that
pools one row. Elsewhere all S rows move, and the terms that come through other rows take a factor sqrt(S).

A layer norm stretches by max|γ|/sqrt(variance + ε). With variance 0, its worst, this is the *genuine* bound:
architecture and weights only, true of every input, and loose by dozens of orders of magnitude. With the smallest
variance among given captions it is tighter, *conditional* on no row between two states having less. Neither is
an estimate of anything; both belong on a logarithmic axis beside the ratios.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workbench.errors import InputError
from workbench.hooks import pick
from workbench.towers.base import Tower
from workbench.towers.tokens import Tokens
from workbench.trajectory import check_depths

CAVEAT = (
    "The spectral product is a bound from architecture and weights, for the pooled row alone. It is not usable as an "
    "estimate: no caption needs to come near it."
)


@dataclass(frozen=True)
class Factor:
    """One factor of the product, as powers of ten.

    Attributes
    ----------
    name : str
        ``"block 3"`` or ``"head"``.
    worst : float
        With every layer norm at its worst.
    conditional : float
        With the smallest variances seen; NaN if no captions were given.
    """

    name: str
    worst: float
    conditional: float


@dataclass(frozen=True)
class SpectralBound:
    """The product, as powers of ten.

    Attributes
    ----------
    tower : str
    depth, n_blocks : int
        M and N.
    worst : float
        log10 of the genuine bound.
    conditional : float
        log10 of the bound that assumes the smallest variances seen; NaN without captions.
    factors : tuple of Factor
    positions : int
        S, rows that move along; 1 where the pooled row alone does.
    captions : int
        Captions that variances were read from.
    """

    tower: str
    depth: int
    n_blocks: int
    worst: float
    conditional: float
    factors: tuple[Factor, ...] = field(repr=False)
    positions: int
    captions: int


def back_half_bound(tower: Tower, depth: int, captions: Iterable[Tokens] = ()) -> SpectralBound:
    """Bound the change of the embedding by the change of the pooled row at depth M.

    Parameters
    ----------
    tower : Tower
    depth : int
        M, 0 to N; negative ones count from N.
    captions : iterable of Tokens
        Captions whose variances make the conditional bound, one :class:`Tokens` a language.

    Returns
    -------
    SpectralBound
        For the embedding as the tower gives it, not normalised.

    Raises
    ------
    InputError
        If the tower's blocks or head are of a kind whose bound is not known here.
    """
    first = check_depths([depth], tower.n_blocks)[0]
    given = list(captions)
    blocks = [_read_block(block, tower.name) for block in tower.blocks[first:]]
    if first == 0 and blocks[0].post:
        raise InputError(f"{tower.name!r} normalises after each block; its bound starts at depth 1, after the first.")
    chain = _head_modules(tower)
    alone = tower.strategy == "append"
    longest = max((tokens.input_ids.shape[1] for tokens in given), default=tower.max_positions)
    positions = 1 if alone else longest
    norms = [norm for block in blocks for norm in block.norms] + [m for m in chain if isinstance(m, nn.LayerNorm)]
    least = _least_variances(tower, norms, given, alone) if given else {}
    # What the first block may get where rows come normalised: a random step leaves the sphere a little, and a mean
    # is moved by moving all of its rows, each by at most twice the radius.
    averaged = tower.tokenize(["a"]).averaged is not None
    radius = _radius(_read_block(tower.blocks[max(first - 1, 0)], tower.name).norms[1]) * (3.05 if averaged else 1.05)
    factors = []
    for k, block in enumerate(blocks):
        attention = _attention(block, radius if block.post else _radius(block.norms[0]), positions)
        pair = [_block_log10(block, attention, _mlp(block), variances) for variances in (None, least)]
        factors.append(Factor(f"block {first + k}", *pair))
        radius = _radius(block.norms[1])
    head = [sum(_module_log10(module, variances) for module in chain) for variances in (None, least)]
    factors.append(Factor("head", *head))
    if not given:
        factors = [Factor(factor.name, factor.worst, math.nan) for factor in factors]
    return SpectralBound(
        tower.name, first, tower.n_blocks, math.fsum(f.worst for f in factors),
        math.fsum(f.conditional for f in factors), tuple(factors), positions, sum(map(len, given)),
    )  # fmt: skip


@dataclass(frozen=True)
class _Block:
    """The parts of one transformer block."""

    post: bool
    norms: tuple[nn.LayerNorm, nn.LayerNorm]
    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    out: nn.Linear
    up: nn.Linear
    down: nn.Linear
    activation: Callable[[Tensor], Tensor]
    heads: int


# Where the parts stand: CLIP, MetaCLIP-2 and SigLIP; M2M100; BERT, XLM-R, AltCLIP and Chinese-CLIP.
_LAYOUTS: tuple[dict[str, Any], ...] = (
    {
        "post": False, "norms": ("layer_norm1", "layer_norm2"), "attention": "self_attn",
        "qkvo": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"),
        "mlp": ("mlp.fc1", "mlp.fc2", "mlp.activation_fn"),
    },
    {
        "post": False, "norms": ("self_attn_layer_norm", "final_layer_norm"), "attention": "self_attn",
        "qkvo": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"),
        "mlp": ("fc1", "fc2", "activation_fn"),
    },
    {
        "post": True, "norms": ("attention.output.LayerNorm", "output.LayerNorm"), "attention": "attention.self",
        "qkvo": ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"),
        "mlp": ("intermediate.dense", "output.dense", "intermediate.intermediate_act_fn"),
    },
)  # fmt: skip


def _read_block(block: nn.Module, name: str) -> _Block:
    for layout in _LAYOUTS:
        paths = (*layout["norms"], *layout["qkvo"], *layout["mlp"][:2])
        parts = [_part(block, path) for path in paths]
        attention, activation = _part(block, layout["attention"]), _part(block, layout["mlp"][2])
        if any(part is None for part in (*parts, attention, activation)):
            continue
        heads = getattr(attention, "num_heads", None) or getattr(attention, "num_attention_heads", None)
        known = {id(weight) for part in parts for weight in part.parameters()}
        # A weight that no part accounts for (a gate, a norm on queries) would make the bound wrong.
        if heads and all(id(weight) in known for weight in block.parameters()):
            first, second, query, key, value, out, up, down = parts
            return _Block(layout["post"], (first, second), query, key, value, out, up, down, activation, int(heads))
    raise InputError(
        f"{name!r} has blocks of the kind {type(block).__name__}, whose bound is not known here. Sampled ratios work "
        "for every tower."
    )


def _part(block: nn.Module, path: str) -> Any:
    part: Any = block
    for name in path.split("."):
        part = getattr(part, name, None)
    return part


def _head_modules(tower: Tower) -> list[nn.Module]:
    """Return the layer norms and linear maps that the head is made of, in order; prove that it is no more."""
    called: list[nn.Module] = []
    modules = [module for module in tower.model.modules() if isinstance(module, (nn.LayerNorm, nn.Linear))]
    row = torch.randn(3, tower.width, generator=torch.Generator().manual_seed(0)).to(tower.device, tower.dtype)
    with torch.no_grad(), contextlib.ExitStack() as stack:
        for module in modules:
            stack.callback(module.register_forward_hook(lambda module, *_: called.append(module)).remove)
        wanted = tower.head(row)
    with torch.no_grad():
        found = row
        for module in called:
            found = module(found)
    if found.shape != wanted.shape or not torch.allclose(
        found, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max())
    ):
        raise InputError(
            f"The head of {tower.name!r} is more than layer norms and linear maps; its bound is not known."
        )
    return called


def _least_variances(
    tower: Tower, norms: Sequence[nn.Module], captions: Sequence[Tokens], alone: bool
) -> dict[int, float]:
    """Return the smallest variance of a row that each layer norm got, by the module's id."""
    least = {id(norm): math.inf for norm in norms}
    current: list[Tokens] = []

    def watch(module: nn.Module, args: tuple) -> None:
        rows = args[0]
        if alone and rows.ndim == 3:  # the other rows never change in such a tower
            rows = pick(rows, current[0].where("pooled"))
        least[id(module)] = min(least[id(module)], float(rows.double().var(-1, unbiased=False).min()))

    with tower.evaluating(), contextlib.ExitStack() as stack:
        for norm in norms:
            stack.callback(norm.register_forward_pre_hook(watch).remove)
        for tokens in captions:
            for part in torch.arange(len(tokens)).split(256):
                current[:] = [tokens.take(part)]
                tower.forward(current[0])
    if any(math.isinf(value) for value in least.values()):
        raise InputError(f"A layer norm of {tower.name!r} never ran over the captions, so it has no variance.")
    return least


def _radius(norm: nn.LayerNorm) -> float:
    """Return the largest norm that a layer norm's output can have."""
    weight, bias = norm.weight.detach().double(), norm.bias
    shift = 0.0 if bias is None else float(bias.detach().double().norm())
    return math.sqrt(weight.numel()) * float(weight.abs().max()) + shift


def _block_log10(block: _Block, attention: float, mlp: float, least: dict[int, float] | None) -> float:
    first, second = (_module_log10(norm, least) for norm in block.norms)
    if block.post:
        return first + math.log10(1 + attention) + second + math.log10(1 + mlp)
    return math.log10(1 + 10**first * attention) + math.log10(1 + 10**second * mlp)


def _attention(block: _Block, radius: float, positions: int) -> float:
    weights = [part.weight.detach().double() for part in (block.query, block.key, block.value)]
    width = weights[0].shape[0] // block.heads
    query, key, value = ([_spectral(part) for part in weight.split(width)] for weight in weights)
    shift = torch.zeros(weights[0].shape[0]) if block.query.bias is None else block.query.bias.detach().double()
    spread, total = math.sqrt(positions), 0.0
    for k, bias in enumerate(shift.split(width)):
        keys, queries, values = key[k] * radius, query[k] * radius + float(bias.norm()), value[k] * radius
        own = spread * value[k] + values / math.sqrt(width) * (keys * query[k] + spread * queries * key[k])
        total += own**2
    return _spectral(block.out.weight.detach().double()) * math.sqrt(total)


def _mlp(block: _Block) -> float:
    up, down = (_spectral(part.weight.detach().double()) for part in (block.up, block.down))
    return up * _steepest(block.activation) * down


def _steepest(activation: Callable[[Tensor], Tensor]) -> float:
    """Return the largest slope of an activation, on a grid fine enough for four digits, rounded up."""
    x = torch.linspace(-20, 20, 400_001, dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(activation(x).sum(), x)
    return float(slope.abs().max()) * 1.0001


def _module_log10(module: nn.Module, least: dict[int, float] | None) -> float:
    if isinstance(module, nn.LayerNorm):
        variance = 0.0 if not least else least[id(module)]
        return math.log10(float(module.weight.detach().double().abs().max()) / math.sqrt(variance + module.eps))
    return math.log10(_spectral(module.weight.detach().double()))  # pyright: ignore[reportCallIssue, reportArgumentType]


def _spectral(weight: Float[Tensor, "out in"]) -> float:
    """Return the largest singular value, by way of the smaller of the two square products."""
    square = weight @ weight.T if weight.shape[0] <= weight.shape[1] else weight.T @ weight
    return math.sqrt(max(float(torch.linalg.eigvalsh(square)[-1]), 0.0))
