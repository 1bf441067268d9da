import pytest

from workbench.corpora.pseudo import load_pseudo
from workbench.texts import is_blank
from workbench.towers.tokens import check_captions

INVISIBLE = [
    "", " ", "\t\n", "\u200b", "\ufeff", "\u200f", "\u200e", "\u2060", "\ufe0f", "\u00ad", "\u00a0", "\u3000", "\u2028",
    "\u200d\u200c", "\U000e0100", "\U000e0041", "\u180b", "\u034f", "\u3164", "\u115f", "\u2800", "\u061c", "\u202e",
    "\x00", "\x1b", " \u200b \ufeff ",
]  # fmt: skip
VISIBLE = [
    "a",
    "ß",
    "猫",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "❤\ufe0f",
    "می\u200cخواهم",
    "क्\u200dष",
    ".",
    "\u0600",
    "\u0301a",
    "🫩",
]


@pytest.mark.parametrize("text", INVISIBLE)
def test_what_no_reader_would_see_is_blank(text):
    assert is_blank(text)
    with pytest.raises(ValueError, match="Caption 1 in 'sw' is empty"):
        check_captions(["a cat", text], "sw")


@pytest.mark.parametrize("text", VISIBLE)
def test_what_a_reader_would_see_is_a_text_with_all_that_is_in_it(text):
    assert not is_blank(text)
    assert check_captions([text, f"\u200f{text}\ufeff"], None) == [text, f"\u200f{text}\ufeff"]


def test_no_caption_that_comes_with_the_bench_is_blank():
    from workbench.corpora import load_corpus

    for corpus in (load_corpus("emoji-36"), load_pseudo()):
        assert not any(is_blank(text) for lists in corpus.captions.values() for texts in lists for text in texts)
