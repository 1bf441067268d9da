"""Both biases of towers that have a vector a token, and of files of embeddings."""

from typing import Any

import numpy as np
import pytest
import torch

from analyses.association import embed_triplets, run_trials
from analyses.bias import bias_association, bias_prevalence
from analyses.emoji_triplets import emoji_triplets
from analyses.mixed_pool import mixed_ranking, rank_mixed_tokens
from tests.checkpoints import llm
from workbench import load_corpus
from workbench.errors import InputError
from workbench.late_interaction import MultiVectors, maxsim
from workbench.towers import load_tower

LANGUAGES = ["en", "de", "sw"]
TIERS = {"en": "High", "de": "High", "sw": "Low"}


@pytest.fixture(scope="module")
def colqwen(tmp_path_factory) -> Any:
    return load_tower(llm.colqwen_checkpoint(tmp_path_factory.mktemp("colqwen"), version="2.5"))


def by_hand(query: MultiVectors, document: MultiVectors, one: int, other: int) -> float:
    (a, own), (b, theirs) = (items.take(slice(k, k + 1)) for items, k in ((query, one), (document, other)))
    return float((a[own] @ b[theirs].T).max(dim=1).values.sum())


def test_prevalence_ranks_captions_by_the_image_tokens(colqwen):
    corpus = load_corpus("emoji-36", LANGUAGES, limit=5)
    found = mixed_ranking(colqwen, corpus, protocol="first", depth=15)
    assert found.top.shape == (5, 15)
    captions = {code: colqwen.embed_captions(corpus, code) for code in LANGUAGES}
    images = colqwen.embed_images(corpus)
    for place in range(15):
        caption = int(found.top[2, place])
        code = LANGUAGES[found.language[caption]]
        assert found.scores[2, place] == pytest.approx(by_hand(images, captions[code], 2, caption % 5), rel=1e-5)
    assert (np.diff(found.scores, axis=1) <= 0).all()
    assert [answer.name for answer in bias_prevalence(colqwen, corpus, tier_map=TIERS, protocol="first", resamples=20)]


def test_tied_captions_stand_in_a_random_order_or_that_of_the_pool():
    generator = np.random.default_rng(0)
    one = generator.standard_normal((1, 4, 8)).astype(np.float32)
    texts = MultiVectors(np.repeat(one, 30, axis=0), np.ones((30, 4), dtype=bool))
    images = MultiVectors(generator.standard_normal((3, 6, 8)).astype(np.float32), np.ones((3, 6), dtype=bool))
    index, _ = rank_mixed_tokens(images, texts, depth=30, ties="index")
    assert (index == np.arange(30)).all()
    drawn, scores = rank_mixed_tokens(images, texts, depth=30, seed=1)
    assert sorted(drawn[0]) == list(range(30)) != drawn[0].tolist()
    np.testing.assert_array_equal(scores, maxsim(images, texts)[:, drawn[0]])


def test_association_chooses_among_three_by_maxsim_of_the_querys_tokens(colqwen):
    corpus = emoji_triplets(["de", "sw"], limit=2, seed=0)
    found = embed_triplets(colqwen, corpus)
    trials = run_trials(colqwen.name, corpus, found)
    rows = corpus.rows()
    for trial in (0, len(corpus) - 1):
        for candidate in range(3):
            wanted = by_hand(found.texts, found.images, trial, rows[trial, 1 + candidate])
            assert trials.similarity[trial, candidate] == pytest.approx(wanted, rel=1e-5)
    languages = [corpus.languages_of[country] for country in corpus.countries]
    alone = colqwen.encode_text([corpus.texts()[3]], languages[3])
    np.testing.assert_allclose(found.texts.take(slice(3, 4))[0][0, : alone.mask.shape[1]], alone.tokens[0], atol=1e-4)
    answers = bias_association(colqwen, corpus, resamples=20, embeddings=found)
    assert {"association-t2i", "association-i2i", "map-texts"} <= {answer.name for answer in answers}


def test_a_file_of_embeddings_runs_association_and_both_say_what_it_lacks(tmp_path, get_tower):
    tower = get_tower("emoji-causal")
    corpus = emoji_triplets(["de", "sw"], limit=3, seed=0)
    wanted = embed_triplets(tower, corpus)
    ids = list(corpus.image_ids)
    width = wanted.images.shape[1]
    languages = [corpus.languages_of[country] for country in corpus.countries]
    arrays: dict[str, Any] = {code: np.zeros((len(ids), width), np.float32) for code in dict.fromkeys(languages)}
    for row, (language, triplet) in enumerate(zip(languages, corpus.triplets, strict=True)):
        arrays[language][ids.index(triplet.query.image_id)] = wanted.texts[row].numpy()
    np.savez(tmp_path / "made.npz", ids=ids, images=wanted.images.numpy(), **arrays)
    stored = load_tower(tmp_path / "made.npz")
    found = embed_triplets(stored, corpus)
    assert torch.equal(found.texts, wanted.texts)
    assert torch.equal(found.images, wanted.images)
    one, other = (bias_association(own, corpus, resamples=20)[0].table for own in (tower, stored))
    np.testing.assert_array_equal(one["value"].to_numpy(), other["value"].to_numpy())
    np.savez(tmp_path / "less.npz", ids=ids, images=wanted.images.numpy(), de=arrays["de"])
    with pytest.raises(InputError, match=r"has no embeddings of 'sw'\. It has: de, images"):
        embed_triplets(load_tower(tmp_path / "less.npz"), corpus)
