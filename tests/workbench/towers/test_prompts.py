import re

import pytest
import torch

from tests.checkpoints.described import byte_tokenizer
from tests.checkpoints.llm import qwen_tokenizer
from workbench.errors import InputError, TowerError
from workbench.towers.prompts import Prompt, tokenize_in_prompt, tokenize_whole

PROMPT = Prompt("<|im_start|>user\n", "<|im_end|>\n<|endoftext|>")
CAPTIONS = ["a cat", "x", "two dogs\nin a hut", "שאב", "猫 ☃"]


def parts(tokenizer, found, row):
    """Text before, of and after the caption, as the masks tell them apart."""
    ids, mask = found.input_ids[row], found.attention_mask[row].bool()
    content, ending = found.content[row], found.ending[row]
    return tuple(tokenizer.decode(ids[where]) for where in (mask & ~content & ~ending, content, ending))


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_caption_is_told_from_its_prompt(side):
    tokenizer = qwen_tokenizer()
    found = tokenize_in_prompt(tokenizer, CAPTIONS, "xx", PROMPT, 200, side)
    for row, caption in enumerate(CAPTIONS):
        assert parts(tokenizer, found, row) == (PROMPT.before, caption, PROMPT.after)
    assert not found.truncated.any()


@pytest.mark.parametrize("side", ["left", "right"])
def test_ids_equal_those_of_the_whole_text(side):
    tokenizer = qwen_tokenizer()
    found = tokenize_in_prompt(tokenizer, CAPTIONS, None, PROMPT, 200, side)
    whole = [PROMPT.before + caption + PROMPT.after for caption in CAPTIONS]
    ids, mask = tokenize_whole(tokenizer, whole, PROMPT, side)
    assert torch.equal(found.input_ids, ids)
    assert torch.equal(found.attention_mask, mask)


def test_the_tokenisers_own_start_and_end_tokens_are_no_content():
    tokenizer = byte_tokenizer(end="</s>")
    found = tokenize_in_prompt(tokenizer, ["a cat", "x"], None, Prompt("", ""), 20)
    assert tokenizer.decode(found.input_ids[0]) == "<s>a cat</s>"
    assert found.content[0].tolist() == [False, *[True] * 5, False]
    assert found.ending[0].tolist() == [*[False] * 6, True]
    bare = tokenize_in_prompt(tokenizer, ["a cat", "x"], None, Prompt("", "", special=False), 20)
    assert tokenizer.decode(bare.input_ids[0]) == "a cat"


def test_words_of_the_prompt_in_a_caption_are_content():
    tokenizer = qwen_tokenizer()
    caption = "user\nassistant\n"
    found = tokenize_in_prompt(tokenizer, [caption, "a much longer caption than that one is"], None, PROMPT, 200)
    assert parts(tokenizer, found, 0)[1] == caption


@pytest.mark.parametrize("mark", ["<|endoftext|>", "<|im_end|>", "<|im_start|>"])
def test_a_special_token_of_the_prompt_in_a_caption_is_refused_by_name(mark):
    # Its id would end the turn, or stand for padding, in the middle of the text.
    with pytest.raises(InputError, match=re.escape(f"Caption 1 in 'sw', 'face{mark} cat', spells out '{mark}'")):
        tokenize_in_prompt(qwen_tokenizer(), ["a cat", f"face{mark} cat"], "sw", PROMPT, 200)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_caption_that_is_too_long_loses_its_own_end(side):
    tokenizer = qwen_tokenizer()
    room = 30 - len(tokenizer(PROMPT.before + PROMPT.after)["input_ids"])
    caption = "abcdefghijklmnopqrstuvwxyz0123456789"
    found = tokenize_in_prompt(tokenizer, ["x", caption], None, PROMPT, 30, side)
    assert found.truncated.tolist() == [False, True]
    assert parts(tokenizer, found, 1) == (PROMPT.before, caption[:room], PROMPT.after)
    assert found.attention_mask.sum(-1).tolist() == [30 - room + 1, 30]


def test_a_letter_of_several_tokens_is_not_cut_in_two():
    tokenizer = qwen_tokenizer()
    fixed = len(tokenizer(PROMPT.before + PROMPT.after)["input_ids"])
    # Three bytes a sign: of seven there is room for, two signs fill six.
    found = tokenize_in_prompt(tokenizer, ["猫狗猫狗猫"], None, PROMPT, fixed + 7)
    assert parts(tokenizer, found, 0) == (PROMPT.before, "猫狗", PROMPT.after)
    assert found.truncated.tolist() == [True]


def test_a_prompt_that_leaves_no_room_is_named():
    tokenizer = qwen_tokenizer()
    fixed = len(tokenizer(PROMPT.before + PROMPT.after)["input_ids"])
    with pytest.raises(InputError, match=f"The prompt takes {fixed} of the {fixed} tokens .* no room for the caption"):
        tokenize_in_prompt(tokenizer, ["a cat"], None, PROMPT, fixed)
    with pytest.raises(InputError, match="no room for the caption '猫'"):
        tokenize_in_prompt(tokenizer, ["猫"], None, PROMPT, fixed + 2)


def test_a_caption_without_a_token_is_named():
    tokenizer = byte_tokenizer()
    from tokenizers import normalizers

    tokenizer.backend_tokenizer.normalizer = normalizers.Replace("☃", "")
    with pytest.raises(InputError, match=r"Caption 1 in 'sw', '☃', has no token"):
        tokenize_in_prompt(tokenizer, ["a cat", "☃"], "sw", Prompt("", ""), 20)


def test_a_tokeniser_without_offsets_is_refused():
    class Slow:
        is_fast = False

    with pytest.raises(TowerError, match=r"Slow does not say which characters .* tokenizer\.json"):
        tokenize_in_prompt(Slow(), ["a"], None, PROMPT, 20)


def test_a_tokeniser_without_a_padding_token_pads_all_the_same():
    tokenizer = byte_tokenizer(end="</s>")
    tokenizer.pad_token = None
    found = tokenize_in_prompt(tokenizer, ["a cat", "x"], None, Prompt("", ""), 20)
    assert found.attention_mask.tolist() == [[1] * 7, [1, 1, 1, 0, 0, 0, 0]]
