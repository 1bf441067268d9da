"""ColQwen2 and ColQwen2.5: a vector for every token instead of one for the caption.

A caption is ``Query: `` and its text, then ten ``<|endoftext|>`` that the model uses to think on, then a line
break. Those ten are real tokens, though padding has the same id: what is padding is said by the mask, and their
vectors count.

There is no pooled row. What the bench follows and patches is the row of the *last token*, the line break that has
seen all others, and the embedding that belongs to it is its vector. The tower is causal, so that a patch of that
row changes that vector and no other; :meth:`ColQwenTower.check` proves it when a tower is loaded, and
:mod:`workbench.towers.multi_vectors` says what it means for the score.

The class is that of ``transformers``, and so are the formats, unless ``formats="colpali"`` asks for those of the
colpali-engine, with which the published checkpoints were trained and scored: no line break after a query, so that
the last token is the last of the ten, and images with their positions in height and width. The class of
``transformers`` hands images none.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from jaxtyping import Float
from PIL.Image import Image
from torch import Tensor, nn
from torch.nn import functional

from workbench.errors import InputError, TowerError
from workbench.hooks import HookManager, pick
from workbench.late_interaction import MultiVectors
from workbench.retrieval import first_places
from workbench.towers.base import relative_error
from workbench.towers.language_model import IMAGE_BATCH, LanguageModelTower
from workbench.towers.multi_vectors import joined, last_vectors, without_last
from workbench.towers.prompts import Prompt
from workbench.towers.provenance import Provenance, SelfCheck
from workbench.towers.qwen import grid_tokens
from workbench.towers.tokens import Tokens

if TYPE_CHECKING:
    from workbench.towers.source import Source

AUGMENTATION = 10
"""Tokens after a query on which the model thinks."""

Formats = Literal["transformers", "colpali"]


class ColQwenTower(LanguageModelTower):
    """ColQwen2 or ColQwen2.5, by the Qwen that its config names.

    Attributes
    ----------
    formats : {"transformers", "colpali"}
        Whose prompts and image positions are used.
    """

    family = "colqwen2"
    pool = "none, one vector a token; the trajectory is that of the last text token"
    model_classes = ("ColQwen2ForRetrieval",)
    multi_vector = True
    options = ("formats",)
    image_token = "<|image_pad|>"
    image_prompt = Prompt(
        "<|im_start|>user\n<|vision_start|>", "<|vision_end|>Describe the image.<|im_end|><|endoftext|>"
    )

    def __init__(
        self,
        name: str,
        model: nn.Module,
        tokenizer: Any,
        image_processor: Any,
        provenance: Provenance,
        *,
        formats: Formats = "transformers",
    ) -> None:
        super().__init__(name, model, tokenizer, image_processor, provenance)
        if tokenizer.pad_token is None:
            raise TowerError(f"The tokeniser of {name!r} has no padding token, with which ColQwen lengthens a query.")
        self.formats = formats
        end = "\n" if formats == "transformers" else ""
        self.prompt = Prompt("Query: ", tokenizer.pad_token * AUGMENTATION + end)

    @classmethod
    def from_source(cls, source: "Source", *, formats: Formats = "transformers") -> Self:
        """Load with the class of ``transformers``.

        Parameters
        ----------
        source : Source
        formats : {"transformers", "colpali"}

        Raises
        ------
        InputError
            If ``formats`` is neither.
        """
        if formats not in ("transformers", "colpali"):
            raise InputError(f"formats={formats!r} came. Use 'transformers' or 'colpali'.")
        model = source.model(cls.model_classes[0])
        return cls(
            source.short, model, source.tokenizer(), source.image_processor(),
            source.provenance(model, formats=formats), formats=formats,
        )  # fmt: skip

    @property
    def text_config(self) -> Any:
        """The config of the language model."""
        return self.model.config.get_text_config()

    @property
    def blocks(self) -> list[nn.Module]:
        """The real text blocks, in order."""
        return list(self.model.vlm.language_model.layers)

    @property
    def norm(self) -> nn.Module:
        """The norm after the last block."""
        return self.model.vlm.language_model.norm

    @property
    def max_positions(self) -> int:
        """Longest caption in tokens, with what stands around it."""
        return self.text_config.max_position_embeddings

    # -- text ----------------------------------------------------------------------------------------

    def embedding(self, output: Any, tokens: Tokens) -> Float[Tensor, "batch embedding"]:
        """Take the vector of the last token."""
        return pick(output.embeddings, tokens.pooled)

    def head(self, rows: Float[Tensor, "... width"]) -> Float[Tensor, "... embedding"]:
        """Final norm and projection, to a vector of length one: lengths would weigh in the sum of a score."""
        return functional.normalize(self.model.embedding_proj_layer(self.norm(rows)), dim=-1)

    def vectors(self, tokens: Tokens) -> MultiVectors:
        """Run the model's own text pass and return the vector of every token of every caption."""
        inputs = self.model_inputs(tokens)
        output = getattr(self.model, self.text_pass)(**inputs)
        return MultiVectors(output.embeddings.float().cpu(), inputs["attention_mask"].bool().cpu())

    @torch.no_grad()
    def encode_text(self, captions: Sequence[str], language: str | None = None, batch_size: int = 256) -> Any:
        """Embed captions: a :class:`MultiVectors` of a vector a token, float32, on the CPU."""
        tokens = self.tokenize(captions, language)
        parts = [self.vectors(tokens.take(rows)) for rows in torch.arange(len(tokens)).split(batch_size)]
        return joined(parts).pick(first_places(tokens.keys()))

    # -- images --------------------------------------------------------------------------------------

    def image_inputs(self, images: list[Image]) -> dict[str, Tensor]:
        """Return patches of the images, padded to the largest, and the prompt in which each stands."""
        found = self.image_processor([image.convert("RGB") for image in images], return_tensors="pt")
        grids = found["image_grid_thw"]
        ids, mask = self.prompts_with_images(grid_tokens(grids, self.image_processor.merge_size))
        patches = found["pixel_values"].split(grids.prod(-1).tolist())
        inputs = {
            "input_ids": ids,
            "attention_mask": mask,
            "pixel_values": nn.utils.rnn.pad_sequence(list(patches), batch_first=True),
            "image_grid_thw": grids,
        }
        if self.formats == "colpali":
            kinds = (ids == self.image_token_id).int()
            inputs["position_ids"], _ = self.model.vlm.get_rope_index(
                ids, mm_token_type_ids=kinds, image_grid_thw=grids, attention_mask=mask
            )
        return inputs

    @torch.no_grad()
    def encode_images(self, images: Sequence[Image], batch_size: int = IMAGE_BATCH) -> Any:
        """Embed images: a :class:`MultiVectors` of a vector a token, those of the prompt too."""
        keys: list[bytes] = []
        parts = [self.image_features(inputs) for inputs in self.image_batches(images, batch_size, keys)]
        return joined(parts).pick(first_places(keys))

    def image_features(self, inputs: dict[str, Any]) -> Any:
        """Run the model over prompts that hold images, and return the vector of every token."""
        output = self.model(**inputs, use_cache=False)
        return MultiVectors(output.embeddings.float().cpu(), inputs["attention_mask"].bool().cpu())

    # -- proof ---------------------------------------------------------------------------------------

    @torch.no_grad()
    def check(self, captions: Sequence[str] = ("a cat", "two dogs and a small red house", "x")) -> SelfCheck:
        """Prove what :meth:`Tower.check` proves, and that a patch of the last row changes its vector alone.

        Raises
        ------
        TowerError
            If it does not.
        """
        found = super().check(captions)
        tokens = self.tokenize(list(captions))
        clean = self.vectors(tokens)
        depth = self.n_blocks // 2
        with HookManager(self.blocks) as hooks:
            hooks.replace(depth, tokens.pooled, lambda rows: -rows)
            patched = self.vectors(tokens)
        others = torch.equal(without_last(clean).take(slice(None))[0], without_last(patched).take(slice(None))[0])
        if not others or relative_error(last_vectors(patched), last_vectors(clean)) < found.padding:
            raise TowerError(
                f"{self.name!r} failed its self-check: a patch of the last token's row at depth {depth} "
                f"{'changed no vector' if others else 'changed the vectors of other tokens'}, so that the score of a "
                "patched caption can't be told. The model is not causal, or the last row is another one."
            )
        return found
