"""What a text tower owes the bench.

A tower is a Hugging Face model with its tokeniser and image processor. An adapter says five things about
it and re-implements nothing: which modules are its blocks, whether they are causal, how captions become
tokens, which row is pooled, and how a row becomes an embedding. The model's own forward pass does the
rest; hooks sit on its blocks.

Facts that hold for every adapter here:

- A row of depth N (after the last block, before the final norm) run through :meth:`Tower.head` is the
  model's own text feature. :meth:`Tower.check` proves it when a tower is loaded.
- :meth:`Tower.tokenize` decides about padding, since padding is part of a model: the same text padded
  another way is another input to SigLIP.
- Embeddings leave in float32, normalised only where that is said.
"""

import contextlib
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from PIL.Image import Image
from torch import Tensor, nn

from workbench.errors import InputError, TowerError
from workbench.hooks import BlockCall, HookManager, Index, Rows


@dataclass(frozen=True)
class Tokens:
    """A batch of tokenised captions.

    Attributes
    ----------
    input_ids : int Tensor of shape (batch, position)
    pooled : int Tensor of shape (batch,)
        Position of the row that the tower pools.
    content : bool Tensor of shape (batch, position)
        True where a token is part of the caption's text: no start, end, padding or prompt token.
    truncated : bool Tensor of shape (batch,)
        True where the caption was too long for the tower and lost its end.
    attention_mask : int Tensor of shape (batch, position), optional
        Only for towers that need one.
    """

    input_ids: Int[Tensor, "batch position"]
    pooled: Index
    content: Bool[Tensor, "batch position"]
    truncated: Bool[Tensor, " batch"]
    attention_mask: Int[Tensor, "batch position"] | None = None

    def __len__(self) -> int:
        return len(self.input_ids)

    def take(self, rows: Sequence[int] | Int[Tensor, " n"]) -> "Tokens":
        """Return some captions, in the given order, with the same padding."""
        rows = torch.as_tensor(rows, device=self.input_ids.device)
        return Tokens(
            self.input_ids[rows],
            self.pooled[rows],
            self.content[rows],
            self.truncated[rows],
            None if self.attention_mask is None else self.attention_mask[rows],
        )

    def cut(self, positions: int) -> "Tokens":
        """Return the captions without the positions from ``positions`` on."""
        mask = self.attention_mask
        return replace(
            self,
            input_ids=self.input_ids[:, :positions],
            content=self.content[:, :positions],
            attention_mask=None if mask is None else mask[:, :positions],
        )

    @property
    def middle(self) -> Index:
        """Position halfway between the first and the last content token, -1 where there is none (AMB-12)."""
        positions = torch.arange(self.content.shape[1], device=self.content.device)
        first = torch.where(self.content, positions, self.content.shape[1]).amin(-1)
        last = torch.where(self.content, positions, -1).amax(-1)
        return torch.where(last >= 0, (first + last) // 2, -1)


@dataclass(frozen=True)
class Provenance:
    """Where a tower came from: enough to fetch the same weights again.

    Attributes
    ----------
    source : str
        Built-in name, folder or hub id, as the user gave it.
    revision : str, optional
        Commit of the hub repository.
    model_class : str
    dtype : str
    """

    source: str
    revision: str | None
    model_class: str
    dtype: str


class Tower(ABC):
    """One text encoder with its image encoder.

    Attributes
    ----------
    name : str
    model : nn.Module
        The dual model, in evaluation mode.
    family : str
        Name of the adapter, such as ``"clip"``.
    causal : bool
        Whether a token sees only those before it. A pooled row of a causal tower can be patched without
        changing any other row, which the sweep engine uses.
    pool : str
        In words, which row the tower pools.
    shared_padding : bool
        Whether padding after the longest caption can be cut without changing an embedding.
    """

    family: ClassVar[str]
    causal: ClassVar[bool]
    pool: ClassVar[str]
    strategy: ClassVar[Literal["append", "widen"]]
    shared_padding: ClassVar[bool]
    model_classes: ClassVar[tuple[str, ...]]

    def __init__(
        self, name: str, model: nn.Module, tokenizer: Any, image_processor: Any, provenance: Provenance
    ) -> None:
        found = type(model).__name__
        if found not in self.model_classes:
            raise TowerError(
                f"{name!r} is a {found}, and the {self.family} adapter takes {' or '.join(self.model_classes)}: "
                "another class may load the same weights and pool the wrong row."
            )
        self.name = name
        # Typed loosely: which attributes a model has is what the adapter knows and its class does not declare.
        self.model: Any = model.eval()
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        self.provenance = provenance
        self._fingerprint: str | None = None

    # -- what each family says -----------------------------------------------------------------

    @property
    @abstractmethod
    def blocks(self) -> list[nn.Module]:
        """The real text blocks, in order."""

    @property
    @abstractmethod
    def max_positions(self) -> int:
        """Longest caption in tokens, special tokens included."""

    @abstractmethod
    def tokenize(self, captions: Sequence[str], language: str | None = None) -> Tokens:
        """Turn captions into tokens, padded as the tower was trained.

        Raises
        ------
        InputError
            If a caption is empty, or its pooled token was lost in truncation.
        """

    @abstractmethod
    def head(self, rows: Float[Tensor, "... width"]) -> Float[Tensor, "... embedding"]:
        """Final norm and projection: from a depth-N row to the (unnormalised) embedding."""

    # -- what all families share ---------------------------------------------------------------

    @property
    def n_blocks(self) -> int:
        """Number of text blocks, N."""
        return len(self.blocks)

    @property
    def width(self) -> int:
        """Width of a row."""
        return self.model.config.text_config.hidden_size

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.model.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        return next(self.model.parameters()).dtype

    def model_inputs(self, tokens: Tokens) -> dict[str, Tensor]:
        """Return the keyword arguments of the model's text pass, on its device."""
        inputs = {"input_ids": tokens.input_ids}
        if tokens.attention_mask is not None:
            inputs["attention_mask"] = tokens.attention_mask
        return {name: value.to(self.device) for name, value in inputs.items()}

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch embedding"]:
        """Run the model's own text pass and return its own text features, unnormalised."""
        return self.features(self.model.get_text_features(**self.model_inputs(tokens)))

    @staticmethod
    def features(output: Any) -> Tensor:
        """Take the projected embedding out of what ``get_text_features`` or ``get_image_features`` returns."""
        return output if isinstance(output, Tensor) else output.pooler_output

    @torch.no_grad()
    def encode_text(
        self, captions: Sequence[str], language: str | None = None, batch_size: int = 256
    ) -> Float[Tensor, "caption embedding"]:
        """Embed captions; float32, unnormalised, on the CPU."""
        tokens = self.tokenize(captions, language)
        parts = [self.forward(tokens.take(rows)).float().cpu() for rows in torch.arange(len(tokens)).split(batch_size)]
        return torch.cat(parts)

    @torch.no_grad()
    def encode_images(self, images: Sequence[Image], batch_size: int = 256) -> Float[Tensor, "image embedding"]:
        """Embed images; float32, unnormalised, on the CPU."""
        parts = []
        for start in range(0, len(images), batch_size):
            batch = list(images[start : start + batch_size])
            pixels = self.image_processor(batch, return_tensors="pt")["pixel_values"]
            output = self.model.get_image_features(pixel_values=pixels.to(self.device, self.dtype))
            parts.append(self.features(output).float().cpu())
        return torch.cat(parts)

    def last_block(self, call: BlockCall, index: Index) -> Rows:
        """Run the last block for the pooled rows alone.

        Nothing after the last block mixes rows, so the others are needed as keys and values only. Families
        that can save work here override this; the default runs the whole block.
        """
        # `.forward`, because the hooks of the pass that calls this sit on the same block.
        out = self.blocks[-1].forward(call.hidden, *call.args, **call.kwargs)
        hidden = out[0] if isinstance(out, tuple) else out
        return hidden[torch.arange(len(hidden), device=hidden.device), index.to(hidden.device)]

    def trace(self, captions: Sequence[str], language: str | None = None) -> Any:
        """Open an nnsight trace of the model's own text pass over these captions.

        The context that comes back is nnsight's own; inside it, ``tower.envoy`` mirrors the model::

            tokens = tower.tokenize(captions)
            with tower.trace(captions) as trace:
                block = tower.envoy_blocks[7]
                block.output[torch.arange(2), tokens.pooled] = donor
                features = trace.result.save()
        """
        return self.trace_tokens(self.tokenize(captions, language))

    def trace_tokens(self, tokens: Tokens) -> Any:
        """Open an nnsight trace over captions that are tokenised already."""
        return self.envoy.trace(**self.model_inputs(tokens), fn="get_text_features")

    @property
    def envoy(self) -> Any:
        """The model wrapped by nnsight, made once."""
        if not hasattr(self, "_envoy"):
            from nnsight import NNsight

            self._envoy = NNsight(self.model)
        return self._envoy

    @property
    def envoy_blocks(self) -> list[Any]:
        """The nnsight mirrors of :attr:`blocks`."""
        path = next(name for name, module in self.model.named_modules() if module is self.blocks[0])
        envoy = self.envoy
        for part in path.split(".")[:-1]:
            envoy = getattr(envoy, part)
        return [envoy[k] for k in range(self.n_blocks)]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the weights, their names and their dtypes."""
        if self._fingerprint is None:
            digest = hashlib.sha256()
            for name, tensor in sorted(self.model.state_dict().items()):
                digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
                digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Hold the model in evaluation mode without gradients, and restore its mode afterwards."""
        training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.model.train(training)

    @torch.no_grad()
    def check(self, captions: Sequence[str] = ("a cat", "two dogs and a small red house", "x")) -> None:
        """Prove on three captions that the adapter reads this model rightly.

        Raises
        ------
        TowerError
            If a depth-N row through the head is not the model's own text feature, if a row patched with
            itself changes anything, or if a padded batch and a single caption disagree.
        """
        tokens = self.tokenize(list(captions))
        plain = self.forward(tokens)
        if not torch.isfinite(plain).all():
            raise TowerError(f"{self.name!r} gives embeddings with NaN or infinity. Its weights can't be used.")
        with HookManager(self.blocks) as hooks:
            rows = hooks.capture([self.n_blocks], tokens.pooled)
            self.forward(tokens)
        tolerance = 1e-5 if self.dtype == torch.float32 else 2e-2
        error = relative_error(self.head(rows[self.n_blocks]), plain)
        if error > tolerance:
            raise TowerError(
                f"{self.name!r} failed its self-check: the row that the {self.family} adapter takes for the pooled "
                f"one gives another embedding than the model's own (relative error {error:.1e}, at most "
                f"{tolerance:.0e} allowed). The checkpoint is not what its config says."
            )
        depth = self.n_blocks // 2
        with HookManager(self.blocks) as hooks:
            hooks.replace(depth, tokens.pooled, lambda row: row)
            same = self.forward(tokens)
        if not torch.equal(same, plain):
            raise TowerError(
                f"{self.name!r} failed its self-check: a row at depth {depth} replaced by itself changed the output."
            )
        alone = torch.cat([self.forward(self.tokenize([caption])) for caption in captions])
        error = relative_error(alone, plain)
        if error > tolerance:
            raise TowerError(
                f"{self.name!r} failed its self-check: a caption alone and in a padded batch differ by {error:.1e} "
                f"(at most {tolerance:.0e} allowed)."
            )


def relative_error(given: Tensor, wanted: Tensor) -> float:
    """Largest row-wise distance, relative to the norm of the wanted row."""
    given, wanted = given.double(), wanted.double()
    size = torch.linalg.vector_norm(wanted, dim=-1).clamp_min(1e-30)
    return float((torch.linalg.vector_norm(given - wanted, dim=-1) / size).max())


def check_captions(captions: Sequence[str], language: str | None) -> list[str]:
    """Refuse captions that are no text or empty, and say which."""
    where = f" in {language!r}" if language else ""
    if isinstance(captions, str):
        raise InputError("One string came where a list of captions is needed. Put it in a list.")
    for position, caption in enumerate(captions):
        if not isinstance(caption, str):
            raise InputError(f"Caption {position}{where} is {type(caption).__name__}, not text.")
        if not caption.strip():
            raise InputError(f"Caption {position}{where} is empty. Give it a text, or leave its image out.")
    return list(captions)
