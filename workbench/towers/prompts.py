"""Captions inside a prompt, as language models read them.

An embedder made of a language model reads a caption between fixed words: an instruction before it, and after
it what makes the model answer. Only the caption is content. The rest is told apart by where it stands in the
text (the tokeniser's offsets), never by its ids: a caption may hold any word of the prompt. Special tokens it may not
spell out: those of the prompt must be read as such, and a tokeniser can't be told to do so for a part of a text.

A caption that is too long loses its own end. The words after it stay, and with them the row that is pooled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from workbench.errors import InputError, TowerError
from workbench.towers.tokens import check_captions, read_as_text

Side = Literal["left", "right"]


@dataclass(frozen=True)
class Prompt:
    """What stands around a caption.

    Attributes
    ----------
    before, after : str
    special : bool
        Whether the tokeniser adds its own start and end tokens to the whole.
    """

    before: str
    after: str
    special: bool = True


@dataclass(frozen=True)
class Prompted:
    """A batch of captions in their prompt.

    Attributes
    ----------
    input_ids : int Tensor of shape (batch, position)
    attention_mask : int Tensor of shape (batch, position)
        0 where a row is padding.
    content : bool Tensor of shape (batch, position)
        Where a token holds any part of the caption.
    ending : bool Tensor of shape (batch, position)
        Where a token stands after the caption.
    truncated : bool Tensor of shape (batch,)
        Where the caption was too long and lost its end.
    """

    input_ids: Int[Tensor, "batch position"]
    attention_mask: Int[Tensor, "batch position"]
    content: Bool[Tensor, "batch position"]
    ending: Bool[Tensor, "batch position"]
    truncated: Bool[Tensor, " batch"]


def tokenize_in_prompt(
    tokenizer: Any,
    captions: Sequence[str],
    language: str | None,
    prompt: Prompt,
    longest: int,
    side: Side = "right",
) -> Prompted:
    """Tokenise captions inside a prompt, each shortened until the whole fits.

    Parameters
    ----------
    tokenizer : tokeniser of ``transformers`` that gives offsets
    captions : sequence of str
    language : str, optional
        For messages.
    prompt : Prompt
    longest : int
        Tokens that the model takes, the prompt included.
    side : {"right", "left"}
        Where padding goes.

    Raises
    ------
    InputError
        If a caption is empty, or the prompt alone leaves no room for it.
    TowerError
        If the tokeniser gives no offsets.
    """
    captions = check_captions(captions, language)
    if not tokenizer.is_fast:
        raise TowerError(
            f"The tokeniser {type(tokenizer).__name__} does not say which characters a token stands for, so that a "
            "caption can't be told from its prompt. The folder needs tokenizer.json."
        )
    read_as_text(tokenizer, captions, language, inside=True)
    rows = _encode(tokenizer, captions, prompt)
    truncated = [len(ids) > longest for ids, _ in rows]
    for place, over in enumerate(truncated):
        if over:
            rows[place], captions[place] = _shortened(tokenizer, captions[place], prompt, longest, rows[place])
    width = max(len(ids) for ids, _ in rows)
    shape = (len(rows), width)
    filler = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    found = Prompted(
        torch.full(shape, 0 if filler is None else filler),
        torch.zeros(shape, dtype=torch.long),
        torch.zeros(shape, dtype=torch.bool),
        torch.zeros(shape, dtype=torch.bool),
        torch.tensor(truncated),
    )
    for row, (ids, offsets) in enumerate(rows):
        place = slice(width - len(ids), width) if side == "left" else slice(0, len(ids))
        found.input_ids[row, place] = torch.tensor(ids)
        found.attention_mask[row, place] = 1
        content = _content(offsets, prompt, captions[row])
        if not content.any():
            where = f" in {language!r}" if language else ""
            raise InputError(f"Caption {row}{where}, {captions[row][:40]!r}, has no token. Leave its image out.")
        found.content[row, place] = content
        found.ending[row, place] = torch.arange(len(ids)) > content.nonzero().max()
    return found


def tokenize_whole(tokenizer: Any, texts: Sequence[str], prompt: Prompt, side: Side = "right") -> tuple[Tensor, Tensor]:
    """Tokenise whole texts, such as prompts that hold an image; return ids and the padding mask."""
    encoded = tokenizer(
        list(texts), add_special_tokens=prompt.special, padding=True, padding_side=side, return_tensors="pt",
        verbose=False,
    )  # fmt: skip
    return encoded["input_ids"], encoded["attention_mask"]


Row = tuple[list[int], list[tuple[int, int]]]


def _encode(tokenizer: Any, captions: Sequence[str], prompt: Prompt) -> list[Row]:
    encoded = tokenizer(
        [prompt.before + caption + prompt.after for caption in captions],
        add_special_tokens=prompt.special, return_offsets_mapping=True, truncation=False, verbose=False,
    )  # fmt: skip
    return list(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True))


def _content(offsets: Sequence[tuple[int, int]], prompt: Prompt, caption: str) -> Bool[Tensor, " token"]:
    """Return which tokens hold any character of the caption; a token may reach into the prompt as well."""
    start, end = len(prompt.before), len(prompt.before) + len(caption)
    return torch.tensor([first < end and last > start for first, last in offsets])


def _shortened(tokenizer: Any, caption: str, prompt: Prompt, longest: int, row: Row) -> tuple[Row, str]:
    """Cut a caption at the end of a token, so that the whole has at most ``longest`` tokens."""
    ids, offsets = row
    content = _content(offsets, prompt, caption).nonzero()[:, 0].tolist()
    keep, over, cut = len(content), len(ids) - longest, caption
    while over > 0:
        # Cut text may fall into more tokens than it had before, where a character was split.
        keep -= over
        if keep < 1:
            raise InputError(
                f"The prompt takes {len(ids) - len(content)} of the {longest} tokens that the model reads, and leaves "
                f"no room for the caption {caption[:40]!r}. Shorten the prompt, or raise the limit."
            )
        cut = caption[: offsets[content[keep - 1]][1] - len(prompt.before)]
        row = _encode(tokenizer, [cut], prompt)[0]
        over = len(row[0]) - longest
    return row, cut
