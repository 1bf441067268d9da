"""Towers of open_clip: NLLB-CLIP, XLM-R and other Hugging Face text encoders, and open_clip's own.

A model is one of three classes (``CLIP``, ``CustomTextCLIP``, ``CoCa``), and its text side is one of two kinds.

*A Hugging Face encoder* (``HFTextEncoder``) masks its padding and pools its first row or the masked mean.
NLLB-CLIP is one: the encoder of a translation model, whose first row is the code of the caption's language. That
row is what is pooled, so that the code is part of every embedding. It is looked up in a table
(:mod:`workbench.language_codes`), and set on the tokeniser itself: open_clip's ``set_language`` does nothing with
the current ``transformers``, silently.

*open_clip's own transformer* reads a fixed number of positions through one square mask, causal or none, and
pools by the rule of its config: the largest token id, the first end token, the first or the last position. CoCa
appends a row of its own to the caption and pools that.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import torch
from jaxtyping import Bool, Float, Int
from PIL.Image import Image
from torch import Tensor, nn

from workbench.errors import InputError, TowerError
from workbench.hooks import Hidden, Where, pick
from workbench.language_codes import model_code
from workbench.towers.base import Tower
from workbench.towers.open_clip_source import read
from workbench.towers.provenance import Provenance, SelfCheck
from workbench.towers.tokens import Tokens, check_captions, content_mask, read_as_text

if TYPE_CHECKING:
    from workbench.towers.source import Source

log = logging.getLogger(__name__)


class OpenClipTower(Tower):
    """Any model of open_clip; :meth:`from_source` gives the adapter for its kind of text side."""

    family = "open_clip"
    # Those of NLLB-CLIP and its like; each kind, and each model of a kind, says its own.
    causal = False
    pool = "first row (language code), or by the model's own rule"
    strategy = "widen"
    shared_padding = False
    text_pass = "encode_text"
    model_classes = ("CustomTextCLIP", "CLIP", "CoCa")

    @classmethod
    def from_source(cls, source: "Source", **options: Any) -> Self:
        """Build the model, read its weights, and choose the adapter."""
        parts = read(source)
        text = getattr(parts.model, "text", parts.model)
        adapter = EncoderTower if type(text).__name__ == "HFTextEncoder" else NativeTower
        tower = adapter(source.short, parts.model, parts.tokenizer, parts.image_transform, parts.provenance)
        return cast(Self, tower)

    @property
    def text(self) -> Any:
        """The text side: a module of its own, or the model itself (``CLIP``)."""
        return getattr(self.model, "text", self.model)

    def model_inputs(self, tokens: Tokens) -> dict[str, Any]:
        """Return the keyword arguments of ``encode_text``."""
        # CoCa normalises unless told not to.
        return {"text": tokens.input_ids.to(self.device), "normalize": False}

    def image_inputs(self, images: list[Image]) -> dict[str, Tensor]:
        """Return the images as open_clip's own transform makes them."""
        return {"image": torch.stack([self.image_processor(image) for image in images])}

    def image_features(self, inputs: dict[str, Tensor]) -> Float[Tensor, "image embedding"]:
        """Run the model's own image pass."""
        return self.model.encode_image(inputs["image"], normalize=False)


class EncoderTower(OpenClipTower):
    """An open_clip model whose text side is a Hugging Face encoder.

    Attributes
    ----------
    language_coded : bool
        Whether the first token is the code of the caption's language (NLLB-CLIP).
    """

    causal = False
    shared_padding = True

    def __init__(
        self, name: str, model: nn.Module, tokenizer: Any, image_transform: Any, provenance: Provenance
    ) -> None:
        super().__init__(name, model, tokenizer.tokenizer, image_transform, provenance)
        self._whole_tokenizer = tokenizer
        # The first row is the pooled one, or positions count from the left: padding on the left moves both.
        self.tokenizer.padding_side = "right"
        self.language_coded = self.text.config.model_type == "m2m_100"
        self._warned = False
        pooler = type(self.text.pooler).__name__
        self._mean = pooler == "MeanPooler"
        if self._mean:
            self.pool = "masked mean of all rows; a patch shifts each of them by the same vector"
        elif pooler in ("ClsPooler", "ClsLastHiddenStatePooler"):
            self.pool = "first row (language code)" if self.language_coded else "first row (<s> or [CLS])"
        else:
            raise TowerError(
                f"{name!r} pools its rows by {pooler}, so that no row and no mean is its embedding. Known: MeanPooler, "
                "ClsPooler, ClsLastHiddenStatePooler."
            )
        # BERT's own pooler stands between row and projection, where the class has it and the rule uses it.
        uses_dense = pooler == "ClsPooler" and self.text.pooler.use_pooler_output
        self._dense = getattr(self.text.transformer, "pooler", None) if uses_dense else None

    @property
    def blocks(self) -> list[nn.Module]:
        """The real text blocks, in order."""
        encoder = self.text.transformer
        return list(encoder.layers if self.language_coded else encoder.encoder.layer)

    @property
    def text_config(self) -> Any:
        """The encoder's config."""
        return self.text.config

    @property
    def max_positions(self) -> int:
        """Longest caption in tokens, special tokens included: what open_clip cuts captions to."""
        return self._whole_tokenizer.context_length

    def tokenize(self, captions: Sequence[str], language: str | None = None) -> Tokens:
        """Clean and tokenise as open_clip does, and cut the padding after the longest caption.

        Raises
        ------
        InputError
            If a caption is empty, or a language-coded tower has no code for the language.
        """
        captions = check_captions(captions, language)
        code = self._set_language(language) if self.language_coded else None
        cleaned = [self._whole_tokenizer.clean_fn(caption) for caption in captions]
        read_as_text(self.tokenizer, cleaned, language, inside=True)
        whole = self.tokenizer(cleaned, truncation=False, verbose=False)["input_ids"]
        ids = self._whole_tokenizer(captions)
        if code is not None and not ids[:, 0].eq(code).all():
            raise TowerError(
                f"The tokeniser of {self.name!r} does not put the language code first, and the tower pools its first "
                "row. Use the tokeniser that the tower was trained with (legacy_behaviour=False)."
            )
        # The same rule as inside the model.
        mask = ids != self.text.config.pad_token_id
        longest = int(mask.any(0).nonzero().max()) + 1
        ids, mask = ids[:, :longest], mask[:, :longest]
        positions = torch.arange(longest)
        return Tokens(
            input_ids=ids,
            pooled=torch.where(mask, positions, 0).amax(-1) if self._mean else torch.zeros(len(ids), dtype=torch.long),
            content=content_mask(self.tokenizer, ids) & mask,
            truncated=torch.tensor([len(row) > self.max_positions for row in whole]),
            attention_mask=mask.long(),
            averaged=mask if self._mean else None,
        )

    def check(self, captions: Sequence[str] = ("a cat", "two dogs and a small red house", "x")) -> SelfCheck:
        """Prove that the adapter reads this model rightly; the captions are English, and need no warning."""
        warned, self._warned = self._warned, True
        try:
            return super().check(captions)
        finally:
            self._warned = warned

    def _set_language(self, language: str | None) -> int:
        """Tell the tokeniser the language of the captions, and return its token."""
        if language is None:
            code = "eng_Latn"
            if not self._warned:
                log.warning("%s reads captions as English where no language comes with them", self.name)
            self._warned = True
        else:
            code = model_code(language)
        token = self.tokenizer.convert_tokens_to_ids(code)
        if token is None or token == self.tokenizer.unk_token_id:
            raise InputError(
                f"The tokeniser of {self.name!r} has no language code {code!r} (for {language!r}). Leave the language "
                "out for this tower."
            )
        # Not `set_language`, nor `set_src_lang_special_tokens`, which the next call undoes.
        self.tokenizer.src_lang = code
        return int(token)

    def head(self, rows: Float[Tensor, "... width"]) -> Float[Tensor, "... embedding"]:
        """Final norm, BERT's pooler and the projection, each where the model has one."""
        return self._project(self._norm(rows))

    def finish(self, hidden: Hidden, where: Where) -> Float[Tensor, "batch embedding"]:
        """Norm every row, pool, then project: a mean of normed rows is not the norm of their mean."""
        return self._project(pick(self._norm(hidden), where))

    def _norm(self, rows: Tensor) -> Tensor:
        # Each block of M2M100 has a `final_layer_norm` of its own; the tower's is `layer_norm`.
        return self.text.transformer.layer_norm(rows) if self.language_coded else rows

    def _project(self, rows: Tensor) -> Tensor:
        if self._dense is not None:
            rows = self._dense.activation(self._dense.dense(rows))
        return self.text.proj(rows)


class NativeTower(OpenClipTower):
    """An open_clip model whose text side is open_clip's own transformer.

    Every caption is padded to the full number of positions: the mask is one square of that size, and a tower
    that pools its last position has learnt to do so there.
    """

    shared_padding = False

    def __init__(
        self, name: str, model: nn.Module, tokenizer: Any, image_transform: Any, provenance: Provenance
    ) -> None:
        super().__init__(name, model, getattr(tokenizer, "tokenizer", tokenizer), image_transform, provenance)
        self._whole_tokenizer = tokenizer
        self._appends_row = getattr(self.text, "cls_emb", None) is not None
        self.causal = self.text.attn_mask is not None
        separate = self.text is not self.model
        self._rule: str = self.text.pool_type if separate else self.text.text_pool_type
        self._end: int | None = self.text.eos_id if separate else self.text.text_eos_id
        if self._rule not in _RULES:
            raise TowerError(
                f"{name!r} pools its text rows by {self._rule!r}, so that no row is its embedding. Known: "
                f"{', '.join(_RULES)}."
            )
        if self._rule == "argmax":
            self._end = getattr(tokenizer, "eot_token_id", None) or getattr(self.tokenizer, "eos_token_id", None)
        self.pool = "appended row" if self._appends_row else _RULES[self._rule]

    @property
    def blocks(self) -> list[nn.Module]:
        """The real text blocks, in order."""
        return list(self.text.transformer.resblocks)

    @property
    def width(self) -> int:
        """Width of a row."""
        return self.text.transformer.width

    @property
    def max_positions(self) -> int:
        """Longest caption in tokens, special tokens included."""
        return self.text.context_length

    def tokenize(self, captions: Sequence[str], language: str | None = None) -> Tokens:
        """Clean and tokenise as open_clip does, padded to the full number of positions, without a mask.

        Raises
        ------
        InputError
            If a caption is empty, or has no end token where that is the pooled one.
        """
        captions = check_captions(captions, language)
        self._refuse_special(captions, language)
        ids = self._whole_tokenizer(captions, context_length=self.max_positions)
        return Tokens(
            input_ids=ids,
            pooled=self._pooled(ids, captions, language),
            content=self._content(ids),
            truncated=torch.tensor([self._positions(caption) > self.max_positions for caption in captions]),
        )

    def _refuse_special(self, captions: Sequence[str], language: str | None) -> None:
        tokenizer = self._whole_tokenizer
        cleaned = [tokenizer.clean_fn(caption) for caption in captions]
        if tokenizer is not self.tokenizer:
            read_as_text(self.tokenizer, cleaned, language, inside=True)
            return
        # CLIP's own finds them in lower-cased text.
        for row, caption in enumerate(cleaned):
            for number in tokenizer.all_special_ids:
                if (name := tokenizer.decoder[number]) in caption.lower():
                    where = f" in {language!r}" if language else ""
                    raise InputError(
                        f"Caption {row}{where}, {captions[row][:60]!r}, spells out {name!r}, a special token of this "
                        "tower: what stands after it would not be read as text. Write it in another way, or leave its "
                        "image out."
                    )

    def _pooled(self, ids: Tensor, captions: Sequence[str], language: str | None) -> Tensor:
        if self._appends_row:
            return torch.full((len(ids),), ids.shape[1])
        if self._rule in ("first", "last"):
            return torch.full((len(ids),), 0 if self._rule == "first" else ids.shape[1] - 1)
        pooled = ids.argmax(-1) if self._rule == "argmax" else ids.eq(cast(int, self._end)).int().argmax(-1)
        wrong = ids.gather(1, pooled[:, None])[:, 0].ne(self._end) if self._end is not None else torch.zeros(0)
        if wrong.any():
            where, row = f" ({language})" if language else "", int(wrong.nonzero()[0, 0])
            raise InputError(
                f"{self.name!r} pools its end token {self._end} by the rule {self._rule!r}, which gives token "
                f"{int(ids[row, pooled[row]])} of the caption {captions[row]!r}{where}. Shorten the caption, or "
                "correct pool_type and eos_id in open_clip_config.json: they must fit the tokeniser."
            )
        return pooled

    def _content(self, ids: Int[Tensor, "batch position"]) -> Bool[Tensor, "batch position"]:
        tokenizer = self._whole_tokenizer
        if tokenizer is not self.tokenizer:
            return content_mask(self.tokenizer, ids)
        # CLIP's own pads with 0, which is the token of "!" as well: what is text ends where the end token stands.
        end = ids.eq(tokenizer.eot_token_id).int().argmax(-1)
        positions = torch.arange(ids.shape[1])
        return (positions > 0) & (positions < end[:, None])

    def _positions(self, caption: str) -> int:
        """How many positions the whole caption needs."""
        tokenizer = self._whole_tokenizer
        if tokenizer is self.tokenizer:
            return len(tokenizer.encode(caption)) + 2
        cleaned = tokenizer.clean_fn(caption)
        if tokenizer.tokenizer_mode == "clips":
            return len(self.tokenizer(cleaned, add_special_tokens=False, verbose=False)["input_ids"]) + 3
        return len(self.tokenizer(cleaned, truncation=False, verbose=False)["input_ids"])

    def head(self, rows: Float[Tensor, "... width"]) -> Float[Tensor, "... embedding"]:
        """Final layer norm, then the projection where there is one."""
        rows, projection = self.text.ln_final(rows), self.text.text_projection
        if projection is None:
            return rows
        return projection(rows) if isinstance(projection, nn.Module) else rows @ projection


_RULES = {
    "argmax": "end token (the largest id)",
    "eos": "first end token",
    "first": "first position",
    "last": "last position, padding or not",
}
