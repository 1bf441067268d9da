"""CLIP, MetaCLIP-2 and SigLIP as ``transformers`` builds them: ``text_model`` beside ``vision_model``.

The three share their block (pre-norm attention and MLP, a plain tensor in and out) and differ in the mask,
in the row that is pooled and in the head. The differences are the traps:

- CLIP with ``eos_token_id == 2`` in its config pools the row of the *largest token id*; only where the end
  token has the largest id is that the end of the caption.
- MetaCLIP-2 pools the first end token; its weights load into a CLIP class without an error and then pool
  the wrong row.
- SigLIP pools the last position, whatever token is there, and has learnt to do so at one fixed length
  without an attention mask.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from PIL.Image import Image
from torch import Tensor, nn
from torch.nn import functional

from workbench.errors import InputError, TowerError
from workbench.hooks import BlockCall, Index, Rows
from workbench.towers.base import Tower
from workbench.towers.provenance import Provenance
from workbench.towers.tokens import Tokens, check_captions, content_mask, read_as_text


class _DualTower(Tower):
    """What the three families share."""

    @property
    def blocks(self) -> list[nn.Module]:
        """The real text blocks, in order."""
        return list(self.model.text_model.encoder.layers)

    @property
    def max_positions(self) -> int:
        """Longest caption in tokens, special tokens included."""
        return self.model.config.text_config.max_position_embeddings

    def _encode(self, captions: Sequence[str], language: str | None, **padding: Any) -> tuple[Tensor, Tensor]:
        """Tokenise with truncation; return ids and which captions were truncated."""
        captions = check_captions(captions, language)
        options = {**padding, **read_as_text(self.tokenizer, captions, language)}
        whole = self.tokenizer(captions, truncation=False, verbose=False, **options | {"padding": False})["input_ids"]
        truncated = torch.tensor([len(ids) > self.max_positions for ids in whole])
        ids = self.tokenizer(captions, truncation=True, max_length=self.max_positions, return_tensors="pt", **options)[
            "input_ids"
        ]
        return ids, truncated

    def last_block(self, call: BlockCall, index: Index) -> Rows:
        """Run the last block for the pooled rows alone: every row gives a key and a value, one a query."""
        block: Any = self.blocks[-1]
        hidden = call.hidden
        attention, batch = block.self_attn, torch.arange(len(hidden), device=hidden.device)
        index = index.to(hidden.device)
        normed, residual = block.layer_norm1(hidden), hidden[batch, index]

        def heads(rows: Tensor) -> Tensor:
            return rows.view(len(rows), -1, attention.num_heads, attention.head_dim).transpose(1, 2)

        mixed = functional.scaled_dot_product_attention(
            heads(attention.q_proj(normed[batch, index])),
            heads(attention.k_proj(normed)),
            heads(attention.v_proj(normed)),
            attn_mask=self._last_block_mask(call, index),
            scale=attention.scale,
        )
        residual = residual + attention.out_proj(mixed.reshape(len(hidden), -1))
        return residual + block.mlp(block.layer_norm2(residual))

    def _last_block_mask(self, call: BlockCall, index: Index) -> Tensor | None:
        return None


class ClipTower(_DualTower):
    """OpenAI's CLIP and its descendants that keep its class (``CLIPModel``)."""

    family = "clip"
    causal = True
    pool = "first end token"
    strategy = "append"
    shared_padding = True
    model_classes = ("CLIPModel",)
    largest_id_rule: ClassVar[bool] = True

    def tokenize(self, captions: Sequence[str], language: str | None = None) -> Tokens:
        """Tokenise, padded on the right to the longest caption (a causal tower never sees the padding)."""
        # The side is part of the tower: position ids count from the left, padded or not.
        ids, truncated = self._encode(captions, language, padding=True, padding_side="right")
        return Tokens(ids, self._pooled(ids, captions, language), content_mask(self.tokenizer, ids), truncated)

    def _pooled(self, ids: Tensor, captions: Sequence[str], language: str | None) -> Tensor:
        end: int = self.model.text_model.eos_token_id
        if self.largest_id_rule and end == 2:
            # The legacy rule of the class. It is right only while the end token has the largest id.
            pooled = ids.argmax(-1)
            end = self.tokenizer.eos_token_id
        else:
            pooled = ids.eq(end).int().argmax(-1)
        at = ids.gather(1, pooled[:, None])[:, 0]
        if not at.eq(end).all():
            row = int(at.ne(end).nonzero()[0, 0])
            self._refuse(ids[row], end, captions[row], language)
        return pooled

    def _refuse(self, ids: Tensor, end: int, caption: str, language: str | None) -> None:
        where = f" ({language})" if language else ""
        if ids.eq(end).any():
            raise TowerError(
                f"{self.name!r} would pool token {int(ids.max())} of {caption!r}{where} and not its end token {end}: "
                "its config has the legacy eos_token_id 2, under which CLIP pools the largest token id. These are "
                "probably MetaCLIP-2 weights in a CLIP class; load them with model_type 'metaclip_2'."
            )
        raise InputError(
            f"The caption {caption!r}{where} has no end token {end} after tokenisation to {self.max_positions} "
            f"positions, so {self.name!r} would pool its first row. Shorten it, or use the tokeniser that belongs "
            "to the tower, which keeps the end token when it truncates."
        )

    def head(self, rows: Float[Tensor, "... width"]) -> Float[Tensor, "... embedding"]:
        """Final layer norm, then the projection."""
        return self.model.text_projection(self.model.text_model.final_layer_norm(rows))

    def _last_block_mask(self, call: BlockCall, index: Index) -> Tensor:
        positions = torch.arange(call.hidden.shape[1], device=call.hidden.device)
        return (positions <= index[:, None])[:, None, None]


class MetaClip2Tower(ClipTower):
    """MetaCLIP-2, all sizes; XLM-V or mT5 tokeniser."""

    family = "metaclip_2"
    model_classes = ("MetaClip2Model",)
    largest_id_rule = False


class SiglipTower(_DualTower):
    """SigLIP, multilingual SigLIP and the fixed-resolution SigLIP-2 (all ``SiglipModel``)."""

    family = "siglip"
    causal = False
    pool = "last position, padding or not"
    strategy = "widen"
    shared_padding = False
    model_classes = ("SiglipModel",)

    def __init__(
        self, name: str, model: nn.Module, tokenizer: Any, image_processor: Any, provenance: Provenance
    ) -> None:
        super().__init__(name, model, tokenizer, image_processor, provenance)
        # SigLIP-2 learnt from lower-cased text, and the tokeniser in its fixed-resolution folders forgets to.
        cased, lowered = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("A CAT", "a cat"))
        self.lowercases = cased == lowered

    def tokenize(self, captions: Sequence[str], language: str | None = None) -> Tokens:
        """Tokenise in lower case, padded on the right to the tower's fixed length, without a mask."""
        captions = check_captions(captions, language)
        lowered = captions if self.lowercases else [caption.lower() for caption in captions]
        ids, truncated = self._encode(lowered, language, padding="max_length", padding_side="right")
        pooled = torch.full((len(ids),), ids.shape[1] - 1)
        return Tokens(ids, pooled, content_mask(self.tokenizer, ids), truncated)

    def head(self, rows: Float[Tensor, "... width"]) -> Float[Tensor, "... embedding"]:
        """Final layer norm, then the linear head."""
        return self.model.text_model.head(self.model.text_model.final_layer_norm(rows))


class Siglip2Tower(SiglipTower):
    """SigLIP-2 with images of any aspect (NaFlex); the text side is SigLIP's."""

    family = "siglip2"
    model_classes = ("Siglip2Model",)

    def image_inputs(self, images: list[Image]) -> dict[str, Tensor]:
        """Return patches, and for each image which of them are real and how they lie."""
        return dict(self.image_processor(images, return_tensors="pt"))
