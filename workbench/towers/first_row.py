"""AltCLIP and Chinese-CLIP: BERT-like text towers that pool their first row.

Both are bidirectional and post-norm: what a block puts out is normalised already, so the norms of its rows
can't be compared with those of a CLIP. Both need the padding mask; without it a padded caption gets another
embedding. And both must be loaded whole: their text-only classes come up with random weights and only a
load report says so.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workbench.towers.base import Tower
from workbench.towers.tokens import Tokens, check_captions, content_mask, read_as_text


class _FirstRowTower(Tower):
    """What the two families share."""

    causal = False
    pool = "first row"
    strategy = "widen"
    shared_padding = True

    def tokenize(self, captions: Sequence[str], language: str | None = None) -> Tokens:
        """Tokenise, padded on the right to the longest caption, with the padding mask."""
        captions = check_captions(captions, language)
        text = read_as_text(self.tokenizer, captions, language)
        whole = self.tokenizer(captions, truncation=False, verbose=False, **text)["input_ids"]
        encoded = self.tokenizer(
            captions,
            padding=True,
            padding_side="right",
            truncation=True,
            max_length=self.max_positions,
            return_tensors="pt",
            **text,
        )
        ids = encoded["input_ids"]
        return Tokens(
            input_ids=ids,
            pooled=torch.zeros(len(ids), dtype=torch.long),
            content=content_mask(self.tokenizer, ids),
            truncated=torch.tensor([len(row) > self.max_positions for row in whole]),
            attention_mask=encoded["attention_mask"],
        )


class AltClipTower(_FirstRowTower):
    """AltCLIP, AltCLIP-m9 and AltCLIP-m18: XLM-R-large beside a CLIP image tower."""

    family = "altclip"
    pool = "first row (<s>)"
    model_classes = ("AltCLIPModel",)

    @property
    def blocks(self) -> list[nn.Module]:
        """The real text blocks, in order."""
        return list(self.model.text_model.roberta.encoder.layers)

    @property
    def max_positions(self) -> int:
        """Longest caption in tokens: position ids start after the padding id, which takes two slots."""
        return self.model.config.text_config.max_position_embeddings - 2

    def head(self, rows: Float[Tensor, "... width"]) -> Float[Tensor, "... embedding"]:
        """Layer norm, the transformation to the projection's width, then the projection."""
        text = self.model.text_model
        return self.model.text_projection(text.transformation(text.pre_LN(rows)))


class ChineseClipTower(_FirstRowTower):
    """Chinese-CLIP: a Chinese BERT beside a CLIP image tower."""

    family = "chinese_clip"
    pool = "first row ([CLS])"
    model_classes = ("ChineseCLIPModel",)

    @property
    def blocks(self) -> list[nn.Module]:
        """The real text blocks, in order."""
        return list(self.model.text_model.encoder.layer)

    @property
    def max_positions(self) -> int:
        """Longest caption in tokens, special tokens included."""
        return self.model.config.text_config.max_position_embeddings

    def head(self, rows: Float[Tensor, "... width"]) -> Float[Tensor, "... embedding"]:
        """The projection alone: the last block's output is normalised already."""
        return self.model.text_projection(rows)
