import dataclasses
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from workbench.builtin import CORPUS_FILE, DRAWS_FILE, TOWER_FOLDERS
from workbench.builtin.recipe import (
    PHASES,
    Captions,
    Recipe,
    bidirectional_model,
    bidirectional_tokenizer,
    causal_model,
    causal_tokenizer,
    compose,
    draw_captions,
    read_captions,
)
from workbench.languages import COMMON_CRAWL_SHARE, XM3600_LANGUAGES

TEXTS = [
    "Der Große ELEFANT",
    "ein roter Bus, ein HAUS",
    "हाथी और घर",
    "ఏనుగు",
    "🐘 emoji ÑANDÚ",
    "two  blanks\tand\na break",
    "ﬁne Ｆｕｌｌ width ①",
    "",
]
WORDS = ["▁ele", "fant", "▁हाथी", "▁ఏనుగు", "▁bus"]
LETTERS = sorted({letter for text in TEXTS for letter in text.lower() if not letter.isspace()} | {"1"})
# Special tokens first, then whole words, which win over letters.
VOCABULARY = [(piece, 0.0) for piece in ("<s>", "<pad>", "</s>", "<unk>")]
VOCABULARY += [(word, -3.0) for word in WORDS] + [(letter, -6.0) for letter in ("▁", *LETTERS)]

TOKENIZERS = {
    "emoji-causal": (causal_tokenizer, causal_model),
    "emoji-bidirectional": (bidirectional_tokenizer, bidirectional_model),
}
SMALL = Recipe(text_steps=400, text_batch=100, width=16, mlp=16, blocks=1, image_blocks=1, image_width=16, image_mlp=16)


@pytest.fixture(scope="module")
def captions() -> Captions:
    return read_captions(CORPUS_FILE)


# -- tokenisers --------------------------------------------------------------------------------------


@pytest.fixture(params=TOKENIZERS)
def saved(request, tmp_path):
    """A tokeniser, and the same one loaded from a folder as a user's own code does it, beside its config."""
    make_tokenizer, make_model = TOKENIZERS[request.param]
    made = make_tokenizer(VOCABULARY, SMALL)
    make_model(SMALL, len(VOCABULARY)).save_pretrained(tmp_path)
    made.save_pretrained(tmp_path)
    return made, AutoTokenizer.from_pretrained(tmp_path)


def test_a_tokenizer_survives_saving_and_loading(saved):
    made, loaded = saved
    for text in TEXTS:
        assert loaded(text)["input_ids"] == made(text)["input_ids"]
        assert loaded.decode(loaded(text)["input_ids"]) == made.decode(made(text)["input_ids"])
    batch = {"padding": "max_length", "max_length": 12, "truncation": True}
    assert loaded(TEXTS, **batch)["input_ids"] == made(TEXTS, **batch)["input_ids"]
    for name in (
        "model_max_length",
        "padding_side",
        "model_input_names",
        "pad_token_id",
        "eos_token_id",
        "unk_token_id",
    ):
        assert getattr(loaded, name) == getattr(made, name), name


def test_a_tokenizer_lower_cases_and_folds_widths_and_blanks(saved):
    for tokenizer in saved:

        def ids(text: str, tokenizer=tokenizer) -> list[int]:
            return tokenizer(text)["input_ids"]

        assert ids("DER GROßE ELEFANT, Ñ") == ids("der große elefant, ñ")
        assert ids("ﬁne Ｆｕｌｌ ①") == ids("fine full 1")
        assert ids("two\t \nblanks") == ids("two blanks")


def test_a_tokenizer_knows_its_words_in_every_script(saved):
    place = {piece: row for row, (piece, _) in enumerate(VOCABULARY)}
    for tokenizer in saved:
        for text, pieces in (("ELEfant", ["▁ele", "fant"]), ("हाथी", ["▁हाथी"]), ("ఏనుగు", ["▁ఏనుగు"])):
            ids = [token for token in tokenizer(text)["input_ids"] if token not in (0, 2)]
            assert ids == [place[piece] for piece in pieces]
        assert 3 in tokenizer("ж")["input_ids"]


def test_the_causal_tokenizer_frames_a_caption_and_pads_on_the_right():
    batch = causal_tokenizer(VOCABULARY, SMALL)(["bus", "हाथी bus bus"], padding=True)
    assert [row[0] for row in batch["input_ids"]] == [0, 0]
    assert batch["input_ids"][0][2:] == [2, 1, 1]
    assert batch["input_ids"][1][-1] == 2
    assert batch["attention_mask"][0] == [1, 1, 1, 0, 0]


def test_the_bidirectional_tokenizer_pads_with_the_end_and_gives_no_mask():
    batch = bidirectional_tokenizer(VOCABULARY, SMALL)(["bus"], padding="max_length", max_length=16)
    assert batch["input_ids"][0][0] not in (0, 1, 2)
    assert batch["input_ids"][0][1:] == [2] * 15
    assert "attention_mask" not in batch


def test_a_long_caption_is_cut_and_still_ends_with_the_end():
    for make_tokenizer, _ in TOKENIZERS.values():
        tokenizer = make_tokenizer(VOCABULARY, SMALL)
        ids = tokenizer("bus " * 40, truncation=True)["input_ids"]
        assert (len(ids), ids[-1]) == (16, 2)


@pytest.mark.parametrize("name", sorted(TOWER_FOLDERS))
def test_the_shipped_tokenizers_lower_case_and_know_nearly_every_character(name, captions):
    tokenizer = AutoTokenizer.from_pretrained(TOWER_FOLDERS[name])
    for text in TEXTS:
        assert tokenizer(text)["input_ids"] == tokenizer(text.lower())["input_ids"]
    assert tokenizer.eos_token_id == 2
    for language in XM3600_LANGUAGES:
        names = [text for text in captions.names[language] if text][::10]
        ids = [token for row in tokenizer(names)["input_ids"] for token in row]
        assert ids.count(tokenizer.unk_token_id) <= 0.01 * len(ids), language


# -- draws -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.0, 0.35, 1.0])
def test_languages_are_drawn_in_proportion_to_a_power_of_their_share(captions, power):
    recipe = dataclasses.replace(SMALL, power=power)
    language, _, _ = draw_captions(captions, recipe, "captions")
    n = recipe.text_steps * recipe.text_batch
    assert language.shape == (n,)
    weight = np.array([COMMON_CRAWL_SHARE[code] ** power for code in XM3600_LANGUAGES])
    expected = n * weight / weight.sum()
    error = (np.bincount(language, minlength=36) - expected) / np.sqrt(expected * (1 - expected / n))
    # 36 standard scores: none is beyond 4.5, and together they are as large as chance makes them.
    assert np.abs(error).max() < 4.5
    assert 0.5 < np.mean(error**2) < 1.7


def test_within_a_language_every_named_emoji_is_as_likely_as_another(captions):
    language, emoji, _ = draw_captions(captions, dataclasses.replace(SMALL, text_steps=2000), "captions")
    here = emoji[language == XM3600_LANGUAGES.index("en")]
    count = np.bincount(here, minlength=1911)
    # Independent draws: counts are Poisson, so their variance equals their mean.
    assert count.var() / count.mean() == pytest.approx(1, abs=0.15)
    assert count.max() < count.mean() + 6 * count.mean() ** 0.5


def test_an_unnamed_emoji_is_never_drawn(captions):
    language, emoji, _ = draw_captions(captions, dataclasses.replace(SMALL, power=0.0), "captions")
    for index, code in enumerate(XM3600_LANGUAGES):
        drawn = set(emoji[language == index].tolist())
        named = {row for row, name in enumerate(captions.names[code]) if name}
        assert drawn <= named
        assert len(drawn) > 500


def test_the_same_seed_gives_the_same_draws_and_another_seed_others(captions):
    first, again = (
        draw_captions(captions, SMALL, "captions"),
        draw_captions(captions, dataclasses.replace(SMALL), "captions"),
    )
    other = draw_captions(captions, dataclasses.replace(SMALL, seed=1), "captions")
    for here, there, elsewhere in zip(first, again, other, strict=True):
        assert np.array_equal(here, there)
        assert not np.array_equal(here, elsewhere)


def test_sizes_that_concern_only_the_tower_leave_the_draws_alone(captions):
    wider = dataclasses.replace(SMALL, width=192, blocks=24, learning_rate=1.0, vocabulary=9)
    for here, there in zip(
        draw_captions(captions, SMALL, "captions"), draw_captions(captions, wider, "captions"), strict=True
    ):
        assert np.array_equal(here, there)


# -- captions ----------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    st.text("abcdé ", min_size=1),
    st.lists(st.text("abcdé ", min_size=1), max_size=6, unique=True),
    st.integers(0, 2**63 - 1),
    st.sampled_from([0.0, 0.4, 1.0]),
)
def test_a_caption_is_the_name_or_the_name_among_one_to_three_keywords(name, keywords, seed, keyword_share):
    recipe = Recipe(keyword_share=keyword_share)
    caption = compose(name, keywords, seed, recipe)
    assert caption == compose(name, keywords, seed, recipe)
    if caption == name:
        assert keyword_share < 1 or not set(keywords) - {name}
        return
    assert keyword_share > 0
    parts = caption.split(", ")
    assert parts.count(name) == 1
    others = [part for part in parts if part != name]
    assert 1 <= len(others) <= 3
    assert len(set(others)) == len(others)
    assert set(others) <= set(keywords)


def test_keywords_join_as_often_as_the_recipe_says_and_the_name_stands_anywhere():
    recipe = Recipe(keyword_share=0.4)
    made = [compose("name", ["a", "b", "c", "d", "name"], seed, recipe) for seed in range(1500)]
    joined = [caption.split(", ") for caption in made if caption != "name"]
    assert len(joined) / 1500 == pytest.approx(0.4, abs=0.05)
    assert {len(parts) for parts in joined} == {2, 3, 4}
    assert {parts.count("name") for parts in joined} == {1}, "the name is among its own keywords, and counts once"
    assert {parts.index("name") for parts in joined} == {0, 1, 2, 3}
    assert {word for parts in joined for word in parts} == {"a", "b", "c", "d", "name"}


# -- what is shipped ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(TOWER_FOLDERS))
def test_the_shipped_draws_are_those_of_each_towers_recipe(captions, name):
    path = TOWER_FOLDERS[name] / "recipe.json"
    recipe = Recipe(**json.loads(path.read_text("utf-8")))
    expected = np.zeros((len(XM3600_LANGUAGES), len(captions.ids)), dtype=int)
    for phase in PHASES:
        language, emoji, _ = draw_captions(captions, recipe, phase)
        np.add.at(expected, (language, emoji), 1)
    shipped = pq.read_table(DRAWS_FILE)
    assert shipped["emoji_id"].to_pylist() == captions.ids
    for index, code in enumerate(XM3600_LANGUAGES):
        assert shipped[code].to_pylist() == expected[index].tolist(), code


def test_each_phase_draws_captions_of_its_own(captions):
    steps = dict.fromkeys(("language_steps", "balance_steps", "polish_steps"), SMALL.text_steps)
    recipe = dataclasses.replace(SMALL, **steps)
    drawn = {draw_captions(captions, recipe, phase)[1].tobytes() for phase in PHASES}
    assert len(drawn) == len(PHASES)


def test_captions_are_read_row_by_row(captions):
    row = captions.ids.index("1f418")
    assert {code: captions.names[code][row] for code in ("en", "sw", "hi", "te", "quz")} == {
        "en": "elephant", "sw": "ndovu", "hi": "हाथी", "te": "ఏనుగు", "quz": "elefante",
    }  # fmt: skip
    assert captions.keywords["en"][row] == ["animal", "elephant"]
    unnamed = [row for row, name in enumerate(captions.names["mi"]) if name is None]
    assert len(unnamed) == 1911 - 1565
