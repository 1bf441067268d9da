"""Lists over a mixed pool: against a plain loop, with ties, and with the two ideals of NDCG."""

from typing import Any, cast

import numpy as np
import pytest
import torch

from analyses.mixed_pool import MixedRanking, mixed_ranking, rank_mixed
from tests.analyses.factory import make_corpus
from workbench.errors import InputError


def ranking_of(relevant: list[list[bool]], languages: list[list[int]] | None = None, captions_each: int = 1):
    """A ranking whose lists have given relevances and languages; everything else is made to fit."""
    lists = np.array(relevant)
    n, depth = lists.shape
    marks = np.zeros_like(lists, dtype=int) if languages is None else np.array(languages)
    # One caption for every cell, and further ones of each image that were not retrieved.
    owner = np.where(lists, np.arange(n)[:, None], (np.arange(n)[:, None] + 1) % n).ravel()
    extra = np.repeat(np.arange(n), captions_each)
    return MixedRanking(
        tower="toy-tower",
        corpus="toy-corpus",
        languages=("en", "sw", "te")[: int(marks.max()) + 1] if marks.max() else ("en", "sw"),
        images=tuple(f"image-{k}" for k in range(n)),
        texts=tuple(f"caption {k}" for k in range(len(owner) + len(extra))),
        language=np.concatenate([marks.ravel(), np.zeros(len(extra), dtype=int)]),
        owner=np.concatenate([owner, extra]),
        top=np.arange(n * depth).reshape(n, depth),
        scores=np.tile(np.linspace(1, 0, depth, dtype=np.float32), (n, 1)),
        protocol="all",
        ties="index",
        seed=0,
    )


def test_lists_equal_a_plain_sort():
    generator = np.random.default_rng(0)
    images, texts = generator.normal(size=(7, 5)), generator.normal(size=(40, 5))
    top, scores = rank_mixed(torch.tensor(images), torch.tensor(texts), depth=9)
    assert top.shape == scores.shape == (7, 9)
    for k in range(7):
        cosine = texts @ images[k] / np.linalg.norm(texts, axis=1) / np.linalg.norm(images[k])
        assert top[k].tolist() == np.argsort(-cosine)[:9].tolist()
        assert np.allclose(scores[k], np.sort(cosine)[::-1][:9], atol=1e-6)


def test_ties_are_shared_among_languages_unless_the_pool_order_is_asked_for():
    # Every caption of every language is the same: only the rule for ties says who stands first.
    texts, images = torch.ones(200, 3), torch.ones(50, 3)
    by_index, _ = rank_mixed(images, texts, depth=10, ties="index")
    assert (by_index == np.arange(10)).all()  # the first language has it all
    drawn, _ = rank_mixed(images, texts, depth=100, seed=1)
    assert 30 < (drawn[0] < 100).sum() < 70
    again, _ = rank_mixed(images, texts, depth=100, seed=1)
    assert (drawn == again).all()
    other, _ = rank_mixed(images, texts, depth=100, seed=2)
    assert (drawn != other).any()


def test_a_corpus_becomes_a_pool_of_all_its_captions():
    corpus = make_corpus(4, ("en", "sw"), each=2)

    asked = []

    class Tower:
        name = "toy-tower"

        def embed_captions(self, corpus, language, protocol):
            asked.append((language, protocol))
            _, owner = corpus.texts(language, protocol)
            # English is nearer to each image than Swahili, by construction.
            return torch.eye(4)[owner] + (0.1 if language == "en" else 0.4)

        def caption_keys(self, captions, language):
            return [(language, caption) for caption in captions]

        def embed_images(self, corpus):
            return torch.eye(4)

    ranking = mixed_ranking(cast(Any, Tower()), corpus)
    assert asked == [("en", "all"), ("sw", "all")]
    assert ranking.depth == 16  # fewer captions than 100
    assert ranking.pool_counts.tolist() == [8, 8]
    assert [ranking.languages[k] for k in ranking.top_languages[0][:4]] == ["en", "en", "sw", "sw"]
    assert ranking.relevant[:, :4].all()
    assert not ranking.relevant[:, 4:].any()
    assert ranking.placements.score("NDCG@10").tolist() == [100] * 4
    assert {ranking.texts[k] for k in ranking.top[1][:2]} == {"en 1", "en 1 again"}
    first = mixed_ranking(cast(Any, Tower()), corpus, protocol="first")
    assert first.depth == 8
    given = mixed_ranking(
        cast(Any, Tower()), corpus, protocol="first", embeddings=dict.fromkeys(("en", "sw"), torch.eye(4))
    )
    assert given.split_ties(np.array([False, True])) == 4


def test_the_two_ideals_of_ndcg():
    ranking = ranking_of([[False, True, False, True, False], [True] * 5], captions_each=3)
    # Five captions of the first image: two in the list, three elsewhere.
    assert ranking.placements.score("NDCG-list@5")[0] == pytest.approx(65.0921, abs=5e-5)
    assert ranking.placements.score("NDCG@5")[0] == pytest.approx(36.0055, abs=5e-5)
    assert ranking.placements.score("Acc@1").tolist() == [0, 100]
    assert ranking.placements.score("Acc@5").tolist() == [100, 100]


def test_groups_must_both_have_a_language():
    ranking = ranking_of([[True, False]], [[0, 1]])
    assert ranking.in_group(["sw", "yo"]).tolist() == [False, True]
    for members in (["yo"], ["en", "sw"]):
        with pytest.raises(InputError, match="Both groups need a language"):
            ranking.in_group(members)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rank_mixed(torch.ones(2, 3), torch.ones(4, 3), ties="first"), "'random' or 'index'"),  # type: ignore[arg-type]
        (lambda: rank_mixed(torch.ones(2, 3), torch.ones(4, 3), depth=0), "at least 1"),
        (lambda: rank_mixed(torch.ones(2, 3), torch.zeros(4, 3)), "zero"),
        (lambda: rank_mixed(torch.ones(2, 3), torch.ones(4, 5)), "columns"),
        (lambda: mixed_ranking(cast(Any, None), make_corpus(3), ["en"]), "two languages"),
        (lambda: mixed_ranking(cast(Any, None), make_corpus(3), ["en", "xx"]), "no language 'xx'"),
        (
            lambda: mixed_ranking(cast(Any, None), make_corpus(3), ["en", "sw"], embeddings={"en": torch.ones(2, 3)}),
            "2 embeddings came for 3 captions in 'en'",
        ),
    ],
)
def test_errors_teach(call, words):
    with pytest.raises(InputError, match=words):
        call()
