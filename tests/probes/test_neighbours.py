import numpy as np
import pytest

from probes import neighbours
from probes.neighbours import chance_jaccard, jaccard_of_lists, topk_jaccard
from workbench.errors import InputError

N, G, D = 60, 200, 12


def sets(noise=0.5, seed=0):
    generator = np.random.default_rng(seed)
    gallery = generator.standard_normal((G, D))
    queries = gallery[:N] + noise * generator.standard_normal((N, D))
    return queries + noise * generator.standard_normal((N, D)), queries, gallery


def test_it_is_the_jaccard_index_of_python_sets():
    queries, reference, gallery = sets()
    found = topk_jaccard(queries, reference, gallery)
    assert found.cutoffs == (1, 5, 10, 50)
    lists = []
    for side in (queries, reference):
        cosines = (side / np.linalg.norm(side, axis=1, keepdims=True)) @ (
            gallery / np.linalg.norm(gallery, axis=1, keepdims=True)
        ).T
        lists.append(np.argsort(-cosines, axis=1))
    for place, k in enumerate(found.cutoffs):
        for query in range(N):
            a, b = (set(own[query, :k]) for own in lists)
            assert found.by_query[place, query] == len(a & b) / len(a | b)
    means = found.means(resamples=50)
    assert means.value == pytest.approx(found.by_query.mean(axis=1))
    assert (means.low <= means.value).all()
    assert (found.n, found.gallery) == (N, G)


def test_equal_queries_share_all_and_size_does_not_matter():
    _, reference, gallery = sets()
    found = topk_jaccard(4 * reference, reference, gallery)
    assert (found.by_query == 1).all()
    assert (found.unrelated < 0.5).all()


def test_unrelated_sets_share_what_chance_says():
    generator = np.random.default_rng(0)
    lists = np.stack([generator.permutation(G)[:50] for _ in range(4000)])
    found = jaccard_of_lists(lists[:2000], lists[2000:], G)
    assert found.by_query.mean(axis=1) == pytest.approx(found.chance, abs=0.008)
    assert found.unrelated == pytest.approx(found.chance, abs=0.008)
    assert chance_jaccard(1, 10) == pytest.approx(0.1)
    # Two sets of two out of three always share one or two: 1/3 with chance 2/3, else 1.
    assert chance_jaccard(2, 3) == pytest.approx(1 / 3 * 2 / 3 + 1 / 3)


def test_ties_go_to_the_earlier_candidate_in_every_block(monkeypatch):
    gallery = np.repeat(np.eye(3), 4, axis=0)
    queries = np.array([[1.0, 0.1, 0.0]] * 5)
    whole = neighbours.nearest(queries, gallery, 6)
    assert whole.tolist() == [[0, 1, 2, 3, 4, 5]] * 5
    monkeypatch.setattr(neighbours, "_BLOCK", 1)
    np.testing.assert_array_equal(neighbours.nearest(queries, gallery, 6), whole)


def test_more_noise_means_fewer_shared_images():
    near, far = (topk_jaccard(*sets(noise)).by_query.mean(axis=1) for noise in (0.1, 2.0))
    assert (near > far).all()


def test_bad_input_is_named():
    queries, reference, gallery = sets()
    with pytest.raises(InputError, match="K = 50 came for 36 candidates; K is a whole number from 1 to 35"):
        topk_jaccard(queries, reference, gallery[:36])
    with pytest.raises(InputError, match="K = 0"):
        topk_jaccard(queries, reference, gallery, (0,))
    with pytest.raises(InputError, match="No K"):
        topk_jaccard(queries, reference, gallery, ())
    with pytest.raises(InputError, match="reference has 59 rows where 60"):
        topk_jaccard(queries, reference[1:], gallery)
    with pytest.raises(InputError, match="queries has 11 columns where 12"):
        topk_jaccard(queries[:, 1:], reference, gallery)
    with pytest.raises(InputError, match="the gallery are zero"):
        topk_jaccard(queries, reference, np.vstack([gallery, np.zeros(D)]))
    with pytest.raises(InputError, match="too short for K = 10"):
        jaccard_of_lists(np.ones((4, 5), int), np.ones((4, 5), int), 20, (10,))
    with pytest.raises(InputError, match="two of the same shape"):
        jaccard_of_lists(np.ones((4, 5), int), np.ones((3, 5), int), 20, (2,))
