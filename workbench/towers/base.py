"""What a text tower owes the bench.

A tower is a Hugging Face model with its tokeniser and image processor. An adapter says five things about
it and re-implements nothing: which modules are its blocks, whether they are causal, how captions become
tokens, which row is pooled, and how a row becomes an embedding. The model's own forward pass does the
rest; hooks sit on its blocks.

Facts that hold for every adapter here:

- A row of depth N (after the last block, before the final norm) run through :meth:`Tower.head` is the
  model's own text feature. :meth:`Tower.check` proves it when a tower is loaded.
- Where a tower pools the mean of its tokens, the masked mean *is* the row, and a patch shifts every token
  under the mask by the same vector. Where a norm stands between the last block and the mean, the head of the
  mean is not the mean of the heads, and :meth:`Tower.finish` does what the model does.
- :meth:`Tower.tokenize` decides about padding, since padding is part of a model: the same text padded
  another way is another input to SigLIP.
- Embeddings leave in float32, normalised only where that is said.
"""

import contextlib
import hashlib
import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import torch
from jaxtyping import Float
from PIL.Image import Image
from torch import Tensor, nn

from workbench.corpora.base import Corpus, Protocol
from workbench.corpora.images import to_rgb
from workbench.errors import InputError, TowerError
from workbench.hooks import BlockCall, Hidden, HookManager, Index, Rows, Where, pick, recorded, unwrap
from workbench.retrieval import first_places
from workbench.towers.identity import settings_hash
from workbench.towers.provenance import Provenance, SelfCheck
from workbench.towers.source import said_of
from workbench.towers.tokens import Tokens

if TYPE_CHECKING:
    from workbench.towers.source import Source


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
    strategy : {"append", "widen"}
        How the sweep engine gets every depth from one pass: append patched rows (causal towers that pool one
        row), or widen the batch.
    text_pass : str
        The method that runs the model's text pass.
    multi_vector : bool
        Whether an item has a vector for each token instead of one.
    options : tuple of str
        What :meth:`from_source` takes beside the source.
    """

    family: ClassVar[str]
    causal: bool
    pool: str
    strategy: Literal["append", "widen"]
    shared_padding: bool
    model_classes: tuple[str, ...]
    text_pass: ClassVar[str] = "get_text_features"
    multi_vector: ClassVar[bool] = False
    options: ClassVar[tuple[str, ...]] = ()

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
        self._settings: str | None = None
        self.self_check: SelfCheck | None = None

    @classmethod
    def from_source(cls, source: "Source") -> Self:
        """Load the model with the family's own class, its tokeniser and its image processor."""
        model = source.model(cls.model_classes[0])
        return cls(source.short, model, source.tokenizer(), source.image_processor(), source.provenance(model))

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
    def text_config(self) -> Any:
        """The config of the text side."""
        return getattr(self.model.config, "text_config", self.model.config)

    @property
    def width(self) -> int:
        """Width of a row."""
        return self.text_config.hidden_size

    @property
    def has_images(self) -> bool:
        """Whether there is an image tower; a text-only encoder ranks captions of a pivot language instead."""
        return self.image_processor is not None

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
        with torch.set_grad_enabled(recorded(self.blocks)):
            return self.embedding(getattr(self.model, self.text_pass)(**self.model_inputs(tokens)), tokens)

    def embedding(self, output: Any, tokens: Tokens) -> Float[Tensor, "batch embedding"]:
        """Take the text features out of what the model's text pass returned for these tokens."""
        return self.features(output)

    @staticmethod
    def features(output: Any) -> Tensor:
        """Take the projected embedding out of what ``get_text_features`` or ``get_image_features`` returns."""
        return output if isinstance(output, Tensor) else output.pooler_output

    def finish(self, hidden: Hidden, where: Where) -> Float[Tensor, "batch embedding"]:
        """From the last block's output to the embedding: pool, then the head."""
        return self.head(pick(hidden, where))

    @torch.no_grad()
    def encode_text(
        self, captions: Sequence[str], language: str | None = None, batch_size: int = 256
    ) -> Float[Tensor, "caption embedding"]:
        """Embed captions; float32, unnormalised, on the CPU."""
        tokens = self.tokenize(captions, language)
        parts = [self.forward(tokens.take(rows)).float().cpu() for rows in torch.arange(len(tokens)).split(batch_size)]
        # Two batches may differ in the last bits, and captions that the tower can't tell apart would not tie.
        return torch.cat(parts)[first_places(tokens.keys())]

    def caption_keys(self, captions: Sequence[str], language: str | None = None) -> list[Hashable]:
        """Return for each caption what the tower reads of it; captions with equal keys get one embedding."""
        return list(self.tokenize(captions, language).keys())

    @torch.no_grad()
    def encode_images(self, images: Sequence[Image], batch_size: int = 256) -> Float[Tensor, "image embedding"]:
        """Embed images; float32, unnormalised, on the CPU.

        Raises
        ------
        InputError
            If the tower has no image side.
        """
        keys: list[bytes] = []
        parts = []
        for inputs in self.image_batches(images, batch_size, keys):
            with said_of(self.name, "embed an image"):
                parts.append(self.image_features(inputs).float().cpu())
        return torch.cat(parts)[first_places(keys)]

    def image_batches(
        self, images: Sequence[Image], batch_size: int, keys: list[bytes] | None = None
    ) -> Iterator[dict[str, Tensor]]:
        """Prepare images a batch at a time, as the model's image pass takes them, on its device.

        A list that is given as ``keys`` is filled with a hash of each picture: equal pictures are to tie.
        """
        if not self.has_images:
            raise InputError(
                f"{self.name!r} is a text-only encoder and can't embed images. Rank captions against those of a pivot "
                "language instead."
            )
        if not images:
            raise InputError("There is no image to embed.")
        for start in range(0, len(images), batch_size):
            # Deep grey would be clipped to white by the processor's own conversion.
            batch = [to_rgb(image) if image.mode[0] in "IF" else image for image in images[start : start + batch_size]]
            if keys is not None:
                keys += [hashlib.sha256(repr((one.mode, one.size)).encode() + one.tobytes()).digest() for one in batch]
            with said_of(self.name, "prepare an image"):
                inputs = self.image_inputs(batch)
            yield {name: self._moved(value) for name, value in inputs.items()}

    def image_features(self, inputs: dict[str, Tensor]) -> Float[Tensor, "image embedding"]:
        """Run the model's own image pass over the inputs and return its features, unnormalised."""
        return self.features(self.model.get_image_features(**inputs))

    def embed_captions(
        self, corpus: Corpus, language: str, protocol: Protocol = "first"
    ) -> Float[Tensor, "caption embedding"]:
        """Embed the captions of a corpus in one language; float32, unnormalised, on the CPU."""
        texts, _ = corpus.texts(language, protocol)
        return self.encode_text(texts, language)

    def embed_images(self, corpus: Corpus) -> Float[Tensor, "image embedding"]:
        """Embed the images of a corpus; float32, unnormalised, on the CPU."""
        return self.encode_images(corpus.lazy_images())

    def image_inputs(self, images: list[Image]) -> dict[str, Tensor]:
        """Return the keyword arguments of the model's image pass."""
        return {"pixel_values": self.image_processor(images, return_tensors="pt")["pixel_values"]}

    def _moved(self, value: Tensor) -> Tensor:
        return value.to(self.device, self.dtype) if value.is_floating_point() else value.to(self.device)

    def last_block(self, call: BlockCall, index: Index) -> Rows:
        """Run the last block for the pooled rows alone.

        Nothing after the last block mixes rows, so the others are needed as keys and values only. Families
        that can save work here override this; the default runs the whole block.
        """
        # `.forward`, because the hooks of the pass that calls this sit on the same block.
        return pick(unwrap(self.blocks[-1].forward(call.hidden, *call.args, **call.kwargs)), index)

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
        return self.envoy.trace(**self.model_inputs(tokens), fn=self.text_pass)

    @property
    def envoy(self) -> Any:
        """The model wrapped by nnsight, made once."""
        if not hasattr(self, "_envoy"):
            from nnsight import NNsight

            with warnings.catch_warnings():
                # BERT-like blocks have a submodule called "output"; the bench asks for the traced value alone.
                warnings.filterwarnings("ignore", message=".*has a submodule named 'output'")
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
            for name, tensor in sorted(self._weights(), key=lambda item: item[0]):
                digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
                digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    @property
    def settings(self) -> str:
        """SHA-256 of what the configuration, the tokeniser and the image processor say of themselves."""
        if self._settings is None:
            self._settings = settings_hash(self.model, self.tokenizer, self.image_processor)
        return self._settings

    @property
    def identity(self) -> str:
        """SHA-256 of everything about the tower that a number depends on (:func:`describe_tower`)."""
        return hashlib.sha256(json.dumps(describe_tower(self), sort_keys=True).encode()).hexdigest()

    def _weights(self) -> Iterator[tuple[str, Tensor]]:
        """Everything that was learnt, by name."""
        yield from self.model.state_dict().items()

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Hold the model in evaluation mode without gradients; afterwards each of its modules is in its own mode."""
        training = [module for module in self.model.modules() if module.training]
        self.model.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            for module in training:
                module.training = True

    @torch.no_grad()
    def check(self, captions: Sequence[str] = ("a cat", "two dogs and a small red house", "x")) -> SelfCheck:
        """Prove on three captions that the adapter reads this model rightly, and keep what was measured.

        Raises
        ------
        TowerError
            If a depth-N row through the head is not the model's own text feature, if a row patched with
            itself changes anything, or if a padded batch and a single caption disagree.
        """
        tokens = self.tokenize(list(captions))
        plain, where = self.forward(tokens), tokens.where("pooled")
        if not torch.isfinite(plain).all():
            raise TowerError(f"{self.name!r} gives embeddings with NaN or infinity. Its weights can't be used.")
        tolerance = _TOLERANCE[self.dtype]
        with HookManager(self.blocks) as hooks:
            hidden = hooks.capture([self.n_blocks])
            self.forward(tokens)
        error = relative_error(self.finish(hidden[self.n_blocks], where), plain)
        if error > tolerance:
            raise TowerError(
                f"{self.name!r} failed its self-check: the row that the {self.family} adapter takes for the pooled "
                f"one gives another embedding than the model's own (relative error {error:.1e}, at most "
                f"{tolerance:.0e} allowed). The checkpoint is not what its config says."
            )
        depth = self.n_blocks // 2
        with HookManager(self.blocks) as hooks:
            hooks.replace(depth, where, lambda row: row)
            same = self.forward(tokens)
        if not torch.equal(same, plain):
            raise TowerError(
                f"{self.name!r} failed its self-check: a row at depth {depth} replaced by itself changed the output."
            )
        alone = torch.cat([self.forward(self.tokenize([caption])) for caption in captions])
        noise = relative_error(alone, plain)
        if noise > tolerance:
            raise TowerError(
                f"{self.name!r} failed its self-check: a caption alone and in a padded batch differ by {noise:.1e} "
                f"(at most {tolerance:.0e} allowed)."
            )
        self.self_check = SelfCheck(error, noise)
        return self.self_check


# Padding changes the order of sums. Measured on pooled rows after 12 to 24 blocks: 5e-7 in float32, 2e-3 in float16
# and 2e-2 in bfloat16.
_TOLERANCE = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}


def describe_tower(tower: Tower) -> dict[str, Any]:
    """Everything about a tower that a number depends on, as JSON-like values for a manifest."""
    return {
        "name": tower.name,
        "family": tower.family,
        "model_class": tower.provenance.model_class,
        "revision": tower.provenance.revision,
        "dtype": tower.provenance.dtype,
        "device": str(tower.device),
        "weights_sha256": tower.fingerprint,
        "settings_sha256": tower.settings,
        "files": dict(tower.provenance.files),
        "blocks": tower.n_blocks,
        "pooled_row": tower.pool,
        "causal": tower.causal,
        "remote_code": tower.provenance.remote_code,
        "notes": dict(tower.provenance.notes),
    }


def relative_error(given: Tensor, wanted: Tensor) -> float:
    """Largest row-wise distance, relative to the norm of the wanted row."""
    given, wanted = given.double(), wanted.double()
    size = torch.linalg.vector_norm(wanted, dim=-1).clamp_min(1e-30)
    return float((torch.linalg.vector_norm(given - wanted, dim=-1) / size).max())
