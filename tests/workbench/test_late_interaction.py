import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench import late_interaction
from workbench.errors import InputError
from workbench.late_interaction import MultiVectors, maxsim, mean_pooled, rerank
from workbench.pools import search


def items(n: int, length: int, d: int, seed: int, whole: bool = False) -> MultiVectors:
    """Small whole numbers, whose sums are exact in float32, and rubbish where no token is."""
    generator = np.random.default_rng(seed)
    tokens = generator.integers(-3, 4, (n, length, d)).astype(np.float32)
    mask = np.ones((n, length), dtype=bool) if whole else generator.random((n, length)) < 0.7
    mask[np.arange(n), generator.integers(0, length, n)] = True
    tokens[~mask] = np.nan
    return MultiVectors(tokens, mask)


def slow(query: MultiVectors, document: MultiVectors, q: int, d: int) -> float:
    """The definition."""
    own = np.asarray(query.tokens[q])[np.asarray(query.mask[q])]
    other = np.asarray(document.tokens[d])[np.asarray(document.mask[d])]
    return sum(max(float(a @ b) for b in other) for a in own)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 999), st.integers(1, 5), st.integers(1, 6), st.integers(1, 4), st.integers(1, 2000))
def test_maxsim_is_its_definition_in_blocks_of_any_size(seed, n_queries, n_documents, length, memory):
    queries, documents = items(n_queries, 3, 4, seed), items(n_documents, length, 4, seed + 1)
    tokens, late_interaction._TOKENS = late_interaction._TOKENS, 4
    try:
        found = maxsim(queries, documents, memory=memory)
    finally:
        late_interaction._TOKENS = tokens
    for q in range(n_queries):
        for d in range(n_documents):
            assert found[q, d] == slow(queries, documents, q, d)


def test_one_vector_an_item_is_a_dot_product():
    queries, documents = items(7, 1, 16, 1, whole=True), items(9, 1, 16, 2, whole=True)
    expected = np.asarray(queries.tokens)[:, 0] @ np.asarray(documents.tokens)[:, 0].T
    assert (maxsim(queries, documents) == expected).all()


def test_padding_and_its_rubbish_change_nothing():
    documents = items(6, 5, 8, 3)
    longer = np.full((6, 9, 8), np.inf, dtype=np.float32)
    longer[:, 2:7] = documents.tokens
    mask = np.zeros((6, 9), dtype=bool)
    mask[:, 2:7] = documents.mask
    queries = items(4, 5, 8, 4)
    assert (maxsim(queries, MultiVectors(longer, mask)) == maxsim(queries, documents)).all()
    assert torch.equal(mean_pooled(MultiVectors(longer, mask)), mean_pooled(documents))


def test_a_query_token_counts_by_its_best_match_alone():
    query = MultiVectors(np.array([[[1, 0], [0, 1]]], np.float32), np.ones((1, 2), bool))
    documents = MultiVectors(
        np.array([[[1, 0], [0, 1]], [[1, 0], [1, 0]], [[0.6, 0.8], [0.6, 0.8]]], np.float32), np.ones((3, 2), bool)
    )
    assert maxsim(query, documents).tolist() == [[2, 1, pytest.approx(1.4)]]


def test_it_is_not_symmetric():
    short, long = items(3, 1, 4, 5, whole=True), items(3, 6, 4, 6, whole=True)
    assert not np.allclose(maxsim(short, long), maxsim(long, short).T)


def test_negative_similarities_are_not_beaten_by_padding():
    """A masked token must not win with its zero."""
    query = MultiVectors(np.array([[[1.0, 0]]], np.float32), np.ones((1, 1), bool))
    document = MultiVectors(np.array([[[-1.0, 0], [0, 0]]], np.float32), np.array([[True, False]]))
    assert maxsim(query, document).tolist() == [[-1]]


def test_half_precision_and_tensors_are_read_as_they_are_meant():
    tokens, mask = np.random.default_rng(7).normal(size=(5, 4, 8)).astype(np.float16), np.ones((5, 4), bool)
    half = maxsim(MultiVectors(tokens, mask), MultiVectors(torch.from_numpy(tokens), torch.from_numpy(mask)))
    wide = maxsim(*[MultiVectors(tokens.astype(np.float32), mask)] * 2)
    assert half.dtype == np.float32
    assert (half == wide).all()


def test_documents_with_the_same_tokens_tie_whatever_stands_in_their_padding():
    generator = np.random.default_rng(8)
    tokens, mask = generator.normal(size=(40, 6, 16)).astype(np.float32), np.ones((40, 6), bool)
    mask[:, 4:] = False
    tokens[[11, 39], :4] = tokens[2, :4]
    documents = MultiVectors(tokens, mask)
    assert documents.twins[[2, 11, 39]].tolist() == [2, 2, 2]
    assert (documents.twins == np.arange(40)).sum() == 38
    found = maxsim(items(5, 3, 16, 9), documents, memory=1)
    assert (found[:, 2] == found[:, 11]).all()
    assert (found[:, 2] == found[:, 39]).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 999))
def test_reranking_all_candidates_is_the_order_of_all_scores(seed):
    queries, documents = items(4, 3, 3, seed), items(8, 3, 3, seed + 1)
    lists = np.stack([np.random.default_rng([seed, q]).permutation(8) for q in range(4)])
    candidates, scores = rerank(queries, documents, lists)
    expected = maxsim(queries, documents)
    assert (candidates == np.argsort(-expected, axis=1, kind="stable")).all()
    assert (scores == np.take_along_axis(expected, candidates, 1)).all()


def test_the_published_pipeline_finds_a_planted_document():
    """Mean of the tokens, 10 candidates of 200, then MaxSim: an exact copy of the query's tokens comes first."""
    generator = np.random.default_rng(10)
    tokens = generator.normal(size=(200, 5, 32)).astype(np.float32)
    tokens /= np.linalg.norm(tokens, axis=-1, keepdims=True)
    documents = MultiVectors(tokens, np.ones((200, 5), bool))
    queries = MultiVectors(tokens[[17, 150]][:, ::-1].copy(), np.ones((2, 5), bool))
    found = search(mean_pooled(queries), mean_pooled(documents), 10)
    candidates, scores = rerank(queries, documents, found.candidates)
    assert candidates[:, 0].tolist() == [17, 150]
    assert scores[:, 0] == pytest.approx([5, 5])


def test_the_mean_is_over_real_tokens():
    found = mean_pooled(
        MultiVectors(np.array([[[2.0, 0], [4, 2], [9, 9]]], np.float32), np.array([[True, True, False]]))
    )
    assert found.tolist() == [[3, 1]]


GOOD = items(2, 3, 4, 1)


@pytest.mark.parametrize(
    ("go", "says"),
    [
        (lambda: MultiVectors(np.zeros((2, 3, 4)), np.ones((2, 4), bool)), r"shape \(2, 3, 4\).*shape \(2, 4\)"),
        (lambda: MultiVectors(np.zeros((2, 3, 4)), np.ones((2, 3))), "float64"),
        (lambda: MultiVectors(np.zeros((2, 3)), np.ones((2, 3), bool)), "give .item, token, d"),
        (lambda: MultiVectors(np.zeros((2, 3, 4)), np.array([[True] * 3, [False] * 3])), "Item 1 has no real token"),
        (lambda: MultiVectors(np.zeros((0, 3, 4)), np.ones((0, 3), bool)), "no item"),
        (lambda: maxsim(GOOD, items(2, 3, 5, 1)), "4 numbers and document tokens 5"),
        (lambda: maxsim(GOOD, MultiVectors(np.full((9, 2, 4), np.nan), np.ones((9, 2), bool))), "Item 0 .*NaN"),
        (lambda: rerank(GOOD, GOOD, np.array([[0, 1]])), "2 queries"),
        (lambda: rerank(GOOD, GOOD, np.array([[0, 2], [0, 1]])), "Candidates 0 to 2 came for 2"),
        (lambda: rerank(GOOD, GOOD, np.array([[0, -1], [0, 1]])), "Candidates -1"),
        (lambda: rerank(GOOD, GOOD, np.array([[0.0], [1.0]])), "whole numbers"),
    ],
)
def test_what_cannot_be_scored_is_refused(go, says):
    with pytest.raises(InputError, match=says):
        go()
