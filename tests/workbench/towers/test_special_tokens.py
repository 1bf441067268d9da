"""A special token that is spelt out in a caption is text, or the caption is refused by its name (A6)."""

import re

import pytest
import torch

from tests.checkpoints.text_only import TEXT_ONLY
from tests.conftest import BUILT_IN, CAPTIONS, TINY
from workbench.errors import InputError
from workbench.towers import load_tower
from workbench.towers.tokens import special_ids


def marks(tower) -> list[str]:
    """Every special token of a tower's tokeniser, as one would spell it."""
    tokenizer = tower.tokenizer
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        names = {tokenizer.convert_ids_to_tokens(k) for k in special_ids(tokenizer)}
    else:  # open_clip's own
        names = {tokenizer.decoder[k] for k in tokenizer.all_special_ids}
    if getattr(tokenizer, "unk_token_id", None) == getattr(tokenizer, "eos_token_id", -1):
        return sorted(names)  # any word with a letter that it does not know is an end token to the tiny CLIP
    return sorted({*names, "</s>", "<s>", "[SEP]", "<|endoftext|>", "<|im_end|>", "<pad>", "<end_of_text>", "eng_Latn"})


def sees_its_last_word(tower, mark) -> bool:
    """Whether the last word after a mark changes the embedding; False where the caption is refused by name."""
    pair = [f"a {mark} cat", f"a {mark} dog"]
    try:
        found = tower.encode_text(pair)
    except InputError as error:
        return not re.match("Caption 0.* spells out ", str(error)) and pytest.fail(f"{mark}: {error}")
    first, second = torch.as_tensor(getattr(found, "tokens", found))
    assert not torch.allclose(first, second, atol=1e-6), f"{mark}: {pair} have one embedding"
    return True


def test_what_follows_a_special_token_in_a_caption_is_read(tower):
    assert any(sees_its_last_word(tower, mark) for mark in [*marks(tower), "plain"])


@pytest.mark.parametrize("kind", TEXT_ONLY)
def test_the_same_of_text_only_encoders(kind, tmp_path):
    tower = load_tower(TEXT_ONLY[kind](tmp_path / kind))
    assert any(sees_its_last_word(tower, mark) for mark in [*marks(tower), "plain"])


@pytest.mark.parametrize("name", [*BUILT_IN, *TINY])
def test_nothing_changes_for_a_caption_without_one_beside_one_with_it(name, get_tower):
    tower = get_tower(name)
    plain = tower.tokenize(CAPTIONS["en"])
    for mark in marks(tower):
        try:
            both = tower.tokenize([*CAPTIONS["en"], f"a {mark}"])
        except InputError:
            continue
        width = min(plain.input_ids.shape[1], both.input_ids.shape[1])
        assert torch.equal(both.input_ids[:-1, :width], plain.input_ids[:, :width])
        assert torch.equal(both.pooled[:-1], plain.pooled)
