import sys

import numpy as np
import pytest

from workbench.approximate_search import search_approximately
from workbench.errors import InputError
from workbench.pools import search


def rows(n: int, seed: int, d: int = 24) -> np.ndarray:
    """Around 40 centres, as captions gather around images."""
    centres = np.random.default_rng(0).normal(size=(40, d))
    generator = np.random.default_rng(seed)
    return (centres[generator.integers(0, 40, n)] + 0.6 * generator.normal(size=(n, d))).astype(np.float32)


QUERIES, POOL = rows(60, 1), rows(3000, 2)
EXACT = search(QUERIES, POOL, 10)


def overlap(candidates: np.ndarray) -> float:
    return 100 * float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(candidates, EXACT.candidates, strict=True)]))


def test_searching_every_cell_is_exact():
    found = search_approximately(QUERIES, POOL, 10, cells=30, effort=30)
    assert (found.recall, found.worst) == (100, 100)
    assert (found.candidates == EXACT.candidates).all()
    assert found.similarity == pytest.approx(EXACT.similarity, abs=1e-5)
    assert found.index == "IVF30, 30 probed"


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_the_recall_is_the_share_of_the_exact_list_that_was_found(kind):
    """Every query is checked here, so the overlap with the exact lists can be counted."""
    found = search_approximately(QUERIES, POOL, 10, kind=kind, cells=60 if kind == "ivf" else None, effort=1)
    assert found.recall == pytest.approx(overlap(found.candidates), abs=1e-9)
    assert found.worst <= found.recall
    assert found.checked is not None
    assert found.checked.tolist() == list(range(60))
    if kind == "ivf":
        assert found.recall < 95  # one cell of sixty is not enough


def test_more_effort_finds_more():
    found = [search_approximately(QUERIES, POOL, 10, cells=60, effort=effort).recall for effort in (1, 4, 60)]
    assert found[0] < found[1] <= found[2] == 100


def test_the_same_seed_checks_the_same_queries_and_finds_the_same():
    one, two, other = (search_approximately(QUERIES, POOL, 10, cells=60, effort=2, check=20, seed=s) for s in (3, 3, 4))
    assert one.candidates.tobytes() == two.candidates.tobytes()
    assert one.recall == two.recall
    assert one.checked is not None
    assert other.checked is not None
    assert len(one.checked) == 20
    assert one.checked.tolist() != other.checked.tolist()


def test_of_tied_candidates_the_lowest_id_comes_first_and_any_of_them_counts_as_found():
    pool = np.repeat(rows(20, 5), 30, axis=0)
    found = search_approximately(QUERIES, pool, 10, cells=1, effort=1)
    assert found.recall == 100
    for row in found.candidates:
        assert (np.diff(row) > 0).all()  # all of one cluster of thirty twins


def test_sources_may_come_in_blocks():
    found = search_approximately(
        iter([QUERIES[:10], QUERIES[10:]]), (POOL[k : k + 700] for k in range(0, 3000, 700)), 10
    )
    assert found.recall > 50
    assert found.candidates.shape == (60, 10)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"kind": "lsh"}, "no index 'lsh'"),
        ({"k": 0}, "k=0"),
        ({"effort": 0}, "effort=0"),
        ({"check": 0}, "check=0"),
        ({"cells": 3001}, "3001 cells came for a pool of 3000"),
        ({"cells": 0}, "0 cells"),
    ],
)
def test_illegal_settings_are_refused(arguments, says):
    with pytest.raises(InputError, match=says):
        search_approximately(QUERIES, POOL, **arguments)


def test_widths_have_to_agree():
    with pytest.raises(InputError, match="24 columns and the pool 8"):
        search_approximately(QUERIES, rows(50, 1, d=24)[:, :8])


def test_without_faiss_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(InputError, match="pip install faiss-cpu"):
        search_approximately(QUERIES, POOL)
