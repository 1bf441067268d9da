import hashlib

import numpy as np
import pyarrow.parquet as pq
import pytest

from workbench.builtin import CORPUS_FILE, DRAWS_FILE
from workbench.corpora.base import Corpus
from workbench.corpora.emoji36 import load_emoji36
from workbench.errors import InputError
from workbench.languages import XM3600_LANGUAGES

ELEPHANT = "1f418"
NAMES = {"en": "elephant", "sw": "ndovu", "hi": "हाथी", "te": "ఏనుగు", "quz": "elefante"}


@pytest.fixture(scope="module")
def everything() -> Corpus:
    return load_emoji36()


@pytest.fixture(scope="module")
def english() -> Corpus:
    return load_emoji36(["en"])


def test_1911_emoji_are_named_in_english_and_1301_in_all_36_languages(everything, english):
    assert len(english) == 1911
    assert english.left_out == {}
    assert len(everything) == 1301
    assert everything.languages == XM3600_LANGUAGES
    assert len(everything.languages) == 36


def test_what_is_left_out_is_counted_with_its_reason(everything):
    [(reason, count)] = everything.left_out.items()
    assert count == 1911 - 1301
    for lack in ("mi lacks 346", "quz lacks 287", "da lacks 265"):
        assert lack in reason
    assert "en lacks" not in reason


@pytest.mark.parametrize("language", XM3600_LANGUAGES)
def test_each_language_names_as_many_emoji_as_the_card_says(language):
    names = pq.read_table(CORPUS_FILE, columns=[f"name_{language}"])[0]
    named = len(names) - names.null_count
    exact = {"mi": 1565, "quz": 1624, "da": 1646}
    assert named == exact[language] if language in exact else named >= 1908


def test_an_elephant_has_its_name_in_every_script(everything):
    row = everything.image_ids.index(ELEPHANT)
    assert {language: everything.captions[language][row] for language in NAMES} == {
        language: (name,) for language, name in NAMES.items()
    }


def test_inherited_marks_are_no_captions_and_captions_are_trimmed(everything):
    table = pq.read_table(CORPUS_FILE)
    for language in XM3600_LANGUAGES:
        names = [name for name in table[f"name_{language}"].to_pylist() if name is not None]
        keywords = [word for words in table[f"keywords_{language}"].to_pylist() for word in words]
        assert not [text for text in (*names, *keywords) if "↑" in text]
        assert all(name == name.strip() != "" for name in names)
    assert not [text for lists in everything.captions.values() for texts in lists for text in texts if "↑" in text]


def test_each_image_has_one_caption_a_language(everything):
    for language in everything.languages:
        texts, owner = everything.texts(language, "all")
        assert len(texts) == len(everything)
        assert owner.tolist() == list(range(len(everything)))


def test_both_drawings_of_every_emoji_open_at_64_pixels(english):
    noto = load_emoji36(["en"], drawing="noto")
    assert noto.image_ids == english.image_ids
    for corpus in (english, noto):
        images = corpus.images()
        assert {image.size for image in images} == {(64, 64)}
        assert {image.mode for image in images} == {"RGB"}
        # A transparent ground that stayed black would leave the corners dark.
        corners = np.array([image.getpixel((0, 0)) for image in images])
        assert (corners.min(axis=1) > 200).mean() > 0.9


def test_the_two_drawings_differ_and_so_do_their_hashes(english):
    noto = load_emoji36(["en"], drawing="noto")
    row = english.image_ids.index(ELEPHANT)
    assert english.image_hash(ELEPHANT) != noto.image_hash(ELEPHANT)
    assert english.open_image(ELEPHANT).tobytes() != noto.open_image(ELEPHANT).tobytes()
    assert english.hash != noto.hash
    cell = pq.read_table(CORPUS_FILE, columns=["twemoji"])["twemoji"][row].as_py()
    assert english.image_hash(ELEPHANT) == hashlib.sha256(cell["bytes"]).hexdigest()


def test_the_hash_is_stable_and_follows_languages_and_limit(english):
    assert load_emoji36(["en"]).hash == english.hash
    # Pinned: the captions and Twemoji drawings of the card. A rebuilt corpus must have the same.
    assert english.hash == "b7db032bd5136f7a10606b6d51b6eb8959d0d476be9c902e684b5b6cd3af9c04"
    assert load_emoji36(["en", "sw"]).hash != english.hash
    assert english.select(limit=100).hash != english.hash


def test_the_order_of_emoji_does_not_depend_on_the_languages(everything, english):
    place = {image_id: row for row, image_id in enumerate(english.image_ids)}
    rows = [place[image_id] for image_id in everything.image_ids]
    assert rows == sorted(rows)
    assert load_emoji36(["sw", "en", "sw"]).languages == ("sw", "en")


def test_drawn_counts_belong_to_the_emoji_and_language_they_stand_at(everything):
    draws = pq.read_table(DRAWS_FILE)
    ids = pq.read_table(CORPUS_FILE, columns=["id"])["id"].to_pylist()
    assert everything.drawn is not None
    for language in ("en", "id", "quz"):
        counts = dict(zip(ids, draws[language].to_pylist(), strict=True))
        assert everything.drawn[language] == tuple(counts[image_id] for image_id in everything.image_ids)


def test_drawn_follows_prevalence(everything):
    assert everything.drawn is not None
    total = {language: sum(everything.drawn[language]) for language in ("en", "sw", "quz")}
    assert total["en"] > total["sw"] > total["quz"] > 0
    assert min(min(counts) for counts in everything.drawn.values()) == 0, "no caption is left unseen"


def test_drawn_is_cut_with_the_rest():
    corpus = load_emoji36(["en", "mi"]).select(["mi"], limit=50)
    assert corpus.drawn is not None
    assert list(corpus.drawn) == ["mi"]
    assert len(corpus.drawn["mi"]) == len(corpus.captions["mi"]) == len(corpus) == 50


def test_keywords_make_a_second_caption_where_every_language_has_some():
    corpus = load_emoji36(["en", "sw"], with_keywords=True)
    row = corpus.image_ids.index(ELEPHANT)
    assert corpus.captions["en"][row] == ("elephant", "animal, elephant")
    assert corpus.captions["sw"][row] == ("ndovu", "ndovu, tembo")
    corpus.check_parallel(corpus.languages, "all")
    plain = load_emoji36(["en", "sw"])
    assert corpus.texts("sw", "first")[0] == plain.texts("sw", "first")[0]


@pytest.mark.parametrize(
    ("unknown", "says"),
    [("swahili", "Did you mean 'sw'"), ("quechua", "Did you mean 'quz'"), ("nn", "has no language 'nn'")],
)
def test_an_unknown_language_is_refused(unknown, says):
    with pytest.raises(InputError, match=says):
        load_emoji36(["en", unknown])


def test_an_unknown_drawing_is_refused():
    with pytest.raises(InputError, match="Drawings: twemoji, noto"):
        load_emoji36(["en"], drawing="apple")


def test_no_language_is_refused():
    with pytest.raises(InputError, match="No language was chosen"):
        load_emoji36([])
