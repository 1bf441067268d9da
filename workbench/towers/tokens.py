"""Captions as a tower reads them: token ids, and which of them are text, which row is pooled.

Padding and special tokens are part of a model, so every adapter makes its own :class:`Tokens`; what stands
here is the same for all.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from workbench.errors import InputError
from workbench.hooks import Index, Where
from workbench.texts import is_blank


@dataclass(frozen=True)
class Tokens:
    """A batch of tokenised captions.

    Attributes
    ----------
    input_ids : int Tensor of shape (batch, position)
    pooled : int Tensor of shape (batch,)
        Position of the row that the tower pools; for a mean, the last of its rows.
    content : bool Tensor of shape (batch, position)
        True where a token is part of the caption's text: no start, end, padding or prompt token.
    truncated : bool Tensor of shape (batch,)
        True where the caption was too long for the tower and lost its end.
    attention_mask : int Tensor of shape (batch, position), optional
        Only for towers that need one.
    averaged : bool Tensor of shape (batch, position), optional
        Only for towers that pool a mean: the rows that are averaged.
    """

    input_ids: Int[Tensor, "batch position"]
    pooled: Index
    content: Bool[Tensor, "batch position"]
    truncated: Bool[Tensor, " batch"]
    attention_mask: Int[Tensor, "batch position"] | None = None
    averaged: Bool[Tensor, "batch position"] | None = None

    def __len__(self) -> int:
        return len(self.input_ids)

    def take(self, rows: Sequence[int] | Int[Tensor, " n"]) -> "Tokens":
        """Return some captions, in the given order, with the same padding."""
        rows = torch.as_tensor(rows, device=self.input_ids.device)
        return self._each(lambda value: value[rows])

    def cut(self, positions: int) -> "Tokens":
        """Return the captions without the positions from ``positions`` on."""
        return self._each(lambda value: value[:, :positions] if value.ndim == 2 else value)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Tokens":
        changed = {name: change(value) for name, value in vars(self).items() if value is not None}
        return replace(self, **changed)

    def where(self, site: str) -> Where:
        """Return which row of each caption a site is: positions, or the mask of a mean.

        Parameters
        ----------
        site : str
            As :func:`check_site` takes it. A position is -1 where a caption has no such token.

        Raises
        ------
        InputError
            If there is no such site.
        """
        kind, place = check_site(site)
        if kind == "middle":
            return self.middle
        if kind == "random":
            return self._content_token(self._draw())
        if kind == "token":
            count = self.content.sum(-1)
            return self._content_token(torch.full_like(count, place) + (count if place < 0 else 0))
        return self.pooled if self.averaged is None else self.averaged

    def _draw(self) -> Index:
        """Draw a content token from what the caption says, so that no batch and no run changes it."""
        count = self.content.sum(-1)
        places = torch.cumsum(self.content, -1)
        mixed = ((self.input_ids + 1) * (places * 40_503 + 12_345) % 2_147_483_647 * self.content).sum(-1)
        return mixed % count.clamp_min(1)

    def _content_token(self, place: Index) -> Index:
        """Return the position of a content token, counted from 0 among them."""
        reached = (torch.cumsum(self.content, -1) == place[:, None] + 1) & self.content
        return torch.where(reached.any(-1), reached.int().argmax(-1), -1)

    def keys(self) -> list[bytes]:
        """Return for each caption what the tower reads of it: equal keys mean equal embeddings, whatever the texts."""
        ids = self.input_ids.cpu().numpy()
        if self.attention_mask is None:
            return [row[:length].tobytes() for row, length in zip(ids, self.length.tolist(), strict=True)]
        read = self.attention_mask.bool().cpu().numpy()
        return [row[seen].tobytes() for row, seen in zip(ids, read, strict=True)]

    @property
    def length(self) -> Index:
        """How many positions a caption needs: padding to the right of them can be cut."""
        if self.attention_mask is None:
            return self.pooled + 1
        positions = torch.arange(1, self.attention_mask.shape[1] + 1, device=self.attention_mask.device)
        return (self.attention_mask * positions).amax(-1)

    @property
    def middle(self) -> Index:
        """Position halfway between the first and the last content token, -1 where there is none (AMB-12)."""
        positions = torch.arange(self.content.shape[1], device=self.content.device)
        first = torch.where(self.content, positions, self.content.shape[1]).amin(-1)
        last = torch.where(self.content, positions, -1).amax(-1)
        return torch.where(last >= 0, (first + last) // 2, -1)


def check_site(site: str) -> tuple[str, int]:
    """Read which row of a caption is meant.

    Parameters
    ----------
    site : str
        ``"pooled"``; ``"middle"``, halfway between the first and the last content token; ``"random"``, a content
        token that is drawn once for each caption; or ``"token K"``, content token K from 0, from the end where K
        is negative.

    Returns
    -------
    kind : str
        The first word.
    place : int
        K.

    Raises
    ------
    InputError
        If it is none of these.
    """
    kind, _, rest = site.partition(" ")
    if not rest and kind in ("pooled", "middle", "random"):
        return kind, 0
    if kind == "token" and re.fullmatch("-?[0-9]{1,6}", rest):
        return kind, int(rest)
    raise InputError(
        f"There is no site {site!r}. Use 'pooled', 'middle', 'random', or 'token K' with the number of a content "
        "token, such as 'token 0' or 'token -1'."
    )


def content_mask(tokenizer: Any, ids: Int[Tensor, "batch position"]) -> Bool[Tensor, "batch position"]:
    """Return which tokens are text: neither start, end nor padding."""
    special = torch.tensor(sorted(tokenizer.all_special_ids))
    unknown = tokenizer.unk_token_id
    # An unknown word is part of the caption, though its token counts as special; CLIP alone uses one token for
    # both the unknown word and the end.
    if unknown is not None and unknown not in (tokenizer.eos_token_id, tokenizer.pad_token_id):
        special = special[special != unknown]
    return ~torch.isin(ids, special)


def special_ids(tokenizer: Any) -> set[int]:
    """Return the ids of every token that its tokeniser reads as a mark and not as a word, the unknown word's apart."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    found = {*tokenizer.all_special_ids, *(number for number, token in added.items() if token.special)}
    return found - {tokenizer.unk_token_id}


def read_as_text(
    tokenizer: Any, captions: Sequence[str], language: str | None, *, inside: bool = False
) -> dict[str, bool]:
    """Return the options under which a tokeniser reads captions as text, whatever special token they spell out.

    An end token in the middle of a caption is where a tower pools, and what follows it is lost. Most tokenisers can be
    told to split such a word into letters; where it is a piece of the vocabulary as well, the caption is refused.

    Parameters
    ----------
    tokenizer : tokeniser of ``transformers``
    captions : sequence of str
        As they are given to it.
    language : str, optional
        For messages.
    inside : bool
        Whether the captions stand in a text with special tokens of its own, which must not be split: refuse, then.

    Returns
    -------
    dict of str to bool
        Empty where no caption spells one out, so that nothing changes for it.

    Raises
    ------
    InputError
        If a caption spells out a special token that can't be read as text.
    """
    if not captions:
        return {}
    read, split = (
        tokenizer(list(captions), add_special_tokens=False, verbose=False, split_special_tokens=flag)["input_ids"]
        for flag in (False, True)
    )
    special, end = special_ids(tokenizer), tokenizer.eos_token_id
    # CLIP's unknown word is its end token as well, so that letters it does not know are no way out.
    ends = special | ({end} if end == tokenizer.unk_token_id else set())
    marked = [row for row, (ids, text) in enumerate(zip(read, split, strict=True)) if ids != text or special & {*text}]
    for row in marked:
        lost = ends & {*split[row]}
        if inside or lost:
            name = tokenizer.convert_ids_to_tokens(min(lost or ends & {*read[row]} or {tokenizer.unk_token_id}))
            where = f" in {language!r}" if language else ""
            raise InputError(
                f"Caption {row}{where}, {captions[row][:60]!r}, spells out {name!r}, a special token of this tower: "
                "what stands after it would not be read as text. Write it in another way, or leave its image out."
            )
    return {"split_special_tokens": True} if marked else {}


def check_captions(captions: Sequence[str], language: str | None) -> list[str]:
    """Refuse captions that are no text or empty, and say which."""
    where = f" in {language!r}" if language else ""
    if isinstance(captions, str):
        raise InputError("One string came where a list of captions is needed. Put it in a list.")
    for position, caption in enumerate(captions):
        if not isinstance(caption, str):
            raise InputError(f"Caption {position}{where} is {type(caption).__name__}, not text.")
        if is_blank(caption):
            raise InputError(f"Caption {position}{where} is empty. Give it a text, or leave its image out.")
    return list(captions)
