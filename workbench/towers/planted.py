"""Towers with a fault whose place is known, to calibrate a diagnosis on.

A verdict on a real tower can't be checked: nobody knows where inside it Swahili fails. So a fault is planted
in a sound tower, for some *labels* of a corpus of pseudo-languages (:mod:`workbench.corpora.pseudo`): English
captions under other names, equally good up to sampling, so that the fault is the only difference::

    planted-none                     no fault
    planted-output                   a constant is added to the embedding
    planted-block-5                  what the pooled row carries is corrupted inside block 5
    planted-tokens-3                 the content rows are corrupted inside block 3; the pooled row drifts after it
    planted-tokenizer                captions lose tokens before the first block
    planted-mixed-5                  the block's and the output's fault together

After a colon come parameters: ``planted-block-5:strength=0.6,labels=lo1+lo2,base=emoji-bidirectional``.

*Corrupted* means turned: a row moves from its mean by an angle, in a random but fixed direction. Its size and
the mean of all rows stay, so that neither a norm nor a difference of means gives the fault away, and no linear
eraser can undo it. The fault acts on whatever passes through: a row that is patched in before block 5 is
corrupted by block 5 like any other.
"""

import copy
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from workbench.errors import InputError
from workbench.hooks import BlockCall, Hidden, HookManager, Index, Rows, pick, unwrap
from workbench.towers.base import Tower
from workbench.towers.tokens import Tokens

Kind = Literal["none", "output", "block", "tokens", "tokenizer", "mixed"]

KINDS: tuple[Kind, ...] = ("none", "output", "block", "tokens", "tokenizer", "mixed")
LABELS = ("lo1", "lo2", "lo3")
PREFIX = "planted-"
_NEEDS_BLOCK = ("block", "tokens", "mixed")


@dataclass(frozen=True)
class Fault:
    """What is planted.

    Attributes
    ----------
    kind : {"none", "output", "block", "tokens", "tokenizer", "mixed"}
    block : int, optional
        Block inside which rows are corrupted, from 0.
    strength : float
        0 is no fault. Of a corruption: the angle in quarter turns, so that 1 leaves nothing of what a row carried.
        Of an output: the length of the constant, in lengths of an embedding. Of a tokeniser: the chance that a
        content token is lost.
    labels : tuple of str
        Labels whose captions are struck.
    seed : int
        Decides directions and lost tokens.
    """

    kind: Kind
    block: int | None = None
    strength: float = 1.0
    labels: tuple[str, ...] = LABELS
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"There is no fault {self.kind!r}. Faults: {', '.join(KINDS)}.")
        if (self.block is None) == (self.kind in _NEEDS_BLOCK):
            need = "needs a block, such as planted-block-5" if self.block is None else "has no block"
            raise InputError(f"The fault {self.kind!r} {need}.")
        if not 0 <= self.strength <= (4.0 if self.kind == "output" else 1.0):
            raise InputError(f"A strength of {self.strength:g} came; it is 0 to 1, and up to 4 for an output.")

    @property
    def onset(self) -> int | None:
        """First depth at which a clean row is beyond the fault."""
        return None if self.block is None else self.block + 1

    def __str__(self) -> str:
        name = "-".join(["planted", self.kind, *([str(self.block)] if self.block is not None else [])])
        return f"{name}:strength={self.strength:g},labels={'+'.join(self.labels)},seed={self.seed}"


@dataclass(frozen=True)
class PlantedTokens(Tokens):
    """Tokens that know which captions are struck."""

    struck: Bool[Tensor, " batch"] | None = None


class FaultyBlock(nn.Module):
    """A block and the fault inside it.

    Beside the captions' own rows there may be appended ones, which stand for pooled rows, and the batch may
    have been widened by copies: the fault treats them as it treats what they stand for.
    """

    turn: Tensor
    mean: Tensor

    def __init__(self, block: nn.Module, turn: Tensor, mean: Tensor, on: Literal["pooled", "content"]) -> None:
        super().__init__()
        self.block = block
        self.on = on
        self.register_buffer("turn", turn, persistent=False)
        self.register_buffer("mean", mean, persistent=False)
        self.tokens: PlantedTokens | None = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the block, then corrupt the rows of the captions that are struck."""
        out = self.block(*args, **kwargs)
        tokens = self.tokens
        if tokens is None or tokens.struck is None or not tokens.struck.any():
            return out
        hidden = unwrap(out)
        changed = torch.where(self._rows(hidden, tokens)[..., None], self._turned(hidden), hidden)
        return (changed, *out[1:]) if isinstance(out, tuple) else changed

    def _rows(self, hidden: Hidden, tokens: PlantedTokens) -> Bool[Tensor, "batch position"]:
        positions = tokens.input_ids.shape[1]
        n, appended = len(tokens), hidden.shape[1] - positions
        if self.on == "content":
            rows = torch.cat([tokens.content, torch.zeros(n, appended, dtype=torch.bool)], dim=1)
        else:
            own = torch.arange(positions) == tokens.pooled[:, None]
            if tokens.averaged is not None:
                own = tokens.averaged
            rows = torch.cat([own, torch.ones(n, appended, dtype=torch.bool)], dim=1)
        struck = rows & (tokens.struck if tokens.struck is not None else torch.zeros(n, dtype=torch.bool))[:, None]
        return struck.repeat(len(hidden) // n, 1).to(hidden.device)

    def _turned(self, hidden: Hidden) -> Hidden:
        away = (hidden - self.mean).float() @ self.turn.float()
        return (self.mean.float() + away).to(hidden.dtype)


class _Planted(Tower):
    """What a planted tower does otherwise than the tower that it was made from."""

    fault: Fault
    constant: Float[Tensor, " embedding"]
    _struck: Bool[Tensor, " batch"] | None

    def tokenize(self, captions: Sequence[str], language: str | None = None) -> PlantedTokens:
        """Tokenise, and strike the captions of the labels; a tokeniser's fault drops some of their tokens."""
        struck = language in self.fault.labels and self.fault.kind != "none" and self.fault.strength > 0
        if struck and self.fault.kind == "tokenizer":
            captions = [self._shortened(caption) for caption in captions]
        tokens = super().tokenize(captions, language)
        return PlantedTokens(**vars(tokens), struck=torch.full((len(tokens),), struck))

    def _shortened(self, caption: str) -> str:
        """Lose words by a chance that depends on the caption alone; one is always left."""
        words = caption.split()
        draws = [_uniform(self.fault.seed, caption, k) for k in range(len(words))]
        kept = [word for word, draw in zip(words, draws, strict=True) if draw >= self.fault.strength]
        return " ".join(kept or [words[draws.index(max(draws))]])

    def model_inputs(self, tokens: Tokens) -> dict[str, Any]:
        """Return the inputs, and let the faulty block know which captions they are."""
        planted = tokens if isinstance(tokens, PlantedTokens) else None
        for block in self.blocks:
            if isinstance(block, FaultyBlock):
                block.tokens = planted
        self._struck = None if planted is None else planted.struck
        return super().model_inputs(tokens)

    def embedding(self, output: Any, tokens: Tokens) -> Float[Tensor, "batch embedding"]:
        """Add the constant to the model's own embedding."""
        return self._with_constant(super().embedding(output, tokens), getattr(tokens, "struck", None))

    def head(self, rows: Float[Tensor, "... width"]) -> Float[Tensor, "... embedding"]:
        """Add the constant to what the head makes of rows; the last batch says whose rows they are."""
        return self._with_constant(super().head(rows), self._struck)

    def _with_constant(self, embeddings: Tensor, struck: Tensor | None) -> Tensor:
        if struck is None or self.fault.kind not in ("output", "mixed") or not struck.any():
            return embeddings
        repeats = embeddings.shape[-2] // len(struck)
        where = struck.repeat(repeats).to(embeddings.device)[:, None]
        size = torch.linalg.vector_norm(embeddings.float(), dim=-1, keepdim=True)
        return embeddings + (where * size * self.constant.to(embeddings.device)).to(embeddings.dtype)

    def last_block(self, call: BlockCall, index: Index) -> Rows:
        """Run the last block whole where the fault is in it."""
        if isinstance(self.blocks[-1], FaultyBlock):
            return Tower.last_block(self, call, index)
        return super().last_block(call, index)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the weights and of the fault."""
        return hashlib.sha256(f"{super().fingerprint} {self.fault}".encode()).hexdigest()


def plant(tower: Tower, fault: Fault) -> Tower:
    """Make a tower with a fault from a sound one, which stays as it is.

    Parameters
    ----------
    tower : Tower
        Of any family. Its weights are copied.
    fault : Fault

    Raises
    ------
    InputError
        If the tower has no such block.
    """
    if fault.block is not None and not 0 <= fault.block < tower.n_blocks:
        raise InputError(f"{tower.name!r} has blocks 0 to {tower.n_blocks - 1}, and no block {fault.block}.")
    planted: Any = copy.copy(tower)
    planted.__class__ = type(f"Planted{type(tower).__name__}", (_Planted, type(tower)), {})
    planted.model = copy.deepcopy(tower.model)
    planted.__dict__.pop("_envoy", None)
    planted._fingerprint = None
    planted.name = str(fault).partition(",seed")[0] if fault.kind != "none" else f"planted-none on {tower.name}"
    planted.fault, planted._struck = fault, None
    planted.provenance = replace(tower.provenance, notes={**tower.provenance.notes, "planted": str(fault)})
    generator = torch.Generator().manual_seed(fault.seed)
    width = tower.forward(tower.tokenize(["a"])).shape[-1]
    direction = torch.randn(width, generator=generator)
    planted.constant = fault.strength * direction / torch.linalg.vector_norm(direction)
    if fault.kind in ("block", "tokens", "mixed") and fault.block is not None and fault.strength > 0:
        on: Literal["pooled", "content"] = "content" if fault.kind == "tokens" else "pooled"
        mean = _mean_row(tower, fault.block + 1, on)
        turn = _turn(tower.width, fault.strength, generator)
        holder, place = _holder(planted.model, planted.blocks[fault.block])
        faulty = FaultyBlock(planted.blocks[fault.block], turn, mean, on).to(tower.device)
        holder[place] = faulty.eval()
    return planted


def _turn(width: int, strength: float, generator: torch.Generator) -> Float[Tensor, "width width"]:
    """Return a rotation by a share of a quarter turn in every one of width/2 random planes."""
    basis = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))[0]
    angle = strength * math.pi / 2
    turn = torch.eye(width, dtype=torch.float64)
    for k in range(0, width - 1, 2):
        turn[k : k + 2, k : k + 2] = torch.tensor(
            [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64
        )
    return (basis @ turn @ basis.T).float()


@torch.no_grad()
def _mean_row(tower: Tower, depth: int, on: str) -> Float[Tensor, " width"]:
    """Mean of the rows that a fault will turn about, over English names that come with the bench."""
    from workbench.corpora import load_corpus

    tokens = tower.tokenize(load_corpus("emoji-36", ["en"], limit=256).texts("en", "first")[0], "en")
    with HookManager(tower.blocks) as hooks:
        found = hooks.capture([depth])
        tower.forward(tokens)
    hidden = found[depth]
    rows = hidden[tokens.content.to(hidden.device)] if on == "content" else pick(hidden, tokens.where("pooled"))
    return rows.double().mean(0).to(hidden.dtype)


def _holder(model: nn.Module, block: nn.Module) -> tuple[Any, int]:
    for module in model.modules():
        if isinstance(module, nn.ModuleList | nn.Sequential):
            for place, child in enumerate(module):
                if child is block:
                    return module, place
    raise InputError("The blocks of this tower stand in no list, so that none can be exchanged.")


def _uniform(seed: int, text: str, place: int) -> float:
    digest = hashlib.sha256(f"{seed}\0{text}\0{place}".encode()).digest()
    return int.from_bytes(digest[:8], "little") / 2**64


def parse_planted(name: str) -> tuple[str, Fault]:
    """Read a name such as ``planted-block-5:strength=0.6,base=emoji-bidirectional``.

    Returns
    -------
    base : str
        Name of the sound tower, ``"emoji-causal"`` where none is given.
    fault : Fault
    """
    head, _, tail = name.partition(":")
    _, _, rest = head.partition(PREFIX)
    kind, _, block = rest.partition("-")
    options: dict[str, str] = {}
    for part in filter(None, tail.split(",")):
        key, equals, value = part.partition("=")
        if not equals or key not in ("strength", "labels", "base", "seed"):
            raise InputError(
                f"{part!r} is no parameter of a planted tower. Write strength=0.6, labels=lo1+lo2, seed=1 or "
                "base=emoji-bidirectional, with commas between."
            )
        options[key] = value
    try:
        fault = Fault(
            kind,  # pyright: ignore[reportArgumentType]  # checked by Fault
            int(block) if block else None,
            float(options.get("strength", 1.0)),
            tuple(options["labels"].split("+")) if "labels" in options else LABELS,
            int(options.get("seed", 0)),
        )
    except ValueError as error:
        raise InputError(f"{name!r} can't be read: {error}. Write such as planted-block-5:strength=0.6.") from None
    return options.get("base", "emoji-causal"), fault


def describe_fault(fault: Fault) -> Mapping[str, Any]:
    """Return the fault as JSON-like values."""
    return {**asdict(fault), "labels": list(fault.labels)}
