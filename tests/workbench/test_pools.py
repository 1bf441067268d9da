"""Search by blocks, held to a stable sort of the whole matrix."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench.pools as pools
from workbench.errors import InputError
from workbench.metrics import Placements, Targets
from workbench.pools import Found, Rows, search


def clustered(n: int, d: int, seed: int, twins: int = 0) -> np.ndarray:
    """Rows around a few centres; some of them twice, at random places."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(5, d))[generator.integers(0, 5, n)] + 0.5 * generator.normal(size=(n, d))
    rows[generator.integers(0, n, twins)] = rows[0]
    return rows.astype(np.float32)


def signs(n: int, d: int, seed: int, twins: int = 0) -> np.ndarray:
    """Unit rows of plus and minus 1/sqrt(d) for d = 4, 16, 64 ...: their products are exact in float32.

    No order of summation rounds anything, so that a reference made in another way must be equal to the bit.
    """
    return (np.sign(clustered(n, d, seed, twins)) / d**0.5).astype(np.float32)


def owners(n: int, images: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.permutation(np.concatenate([np.arange(images), generator.integers(0, images, n - images)]))


def check(found: Found, scores: np.ndarray, k: int, targets: Targets) -> None:
    """Compare with the whole matrix."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    assert (found.candidates == order).all()
    assert (found.similarity == np.take_along_axis(scores, order, 1)).all()
    assert found.placements is not None
    expected = Placements.of_scores(scores, targets)
    assert (found.placements.query == expected.query).all()
    assert (found.placements.better == expected.better).all()
    assert (found.placements.tied == expected.tied).all()


@pytest.mark.parametrize("memory", [1, 40_000, 1 << 30])
@pytest.mark.parametrize("k", [1, 7, 400])
def test_blocks_of_any_size_give_what_the_whole_matrix_gives(memory, k, monkeypatch):
    monkeypatch.setattr(pools, "_ROWS", 97)
    queries, pool = signs(23, 256, 1), signs(400, 256, 2, twins=30)
    targets = Targets.of_images(owners(400, 23, 3), 23)
    found = search(queries, pool, k, targets=targets, every=True, memory=memory)
    check(found, queries @ pool.T, k, targets)


def test_the_search_among_groups_finds_the_same_as_a_whole_sort(monkeypatch):
    """With many more groups than places, only the best groups are looked into."""
    queries, pool = signs(40, 64, 4), signs(6000, 64, 5, twins=300)
    targets = Targets.of_captions(np.arange(40))
    found = search(queries, pool, 10, targets=targets, every=True)
    check(found, queries @ pool.T, 10, targets)
    monkeypatch.setattr(pools, "_GROUP", 6016)
    plain = search(queries, pool, 10)
    assert (plain.candidates == found.candidates).all()
    assert plain.similarity.tobytes() == found.similarity.tobytes()


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_ties_are_settled_by_id_also_among_groups_and_at_the_last_place(data):
    """Few directions, so that nearly everything ties; groups of 2 so that a small pool has many."""
    n, k = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 5))
    axes = np.eye(3, dtype=np.float32)
    pool = axes[data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))]
    queries = np.array([[3, 2, 1], [1, 1, 1]], dtype=np.float32)
    group, rows = pools._GROUP, pools._ROWS
    pools._GROUP, pools._ROWS = 2, data.draw(st.integers(1, 20))
    try:
        found = search(queries, pool, k)
    finally:
        pools._GROUP, pools._ROWS = group, rows
    for query, candidates in zip(queries, found.candidates.tolist(), strict=True):
        scores = [float(query @ row) for row in pool]
        assert candidates == sorted(range(n), key=lambda row: -scores[row])[:k]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(1, 8))
def test_the_first_target_is_that_of_all_placements(seed, n, images):
    """Both ways to count agree, with ties everywhere."""
    generator = np.random.default_rng(seed)
    pool = np.eye(4, dtype=np.float32)[generator.integers(0, 4, n + images)]
    queries = np.eye(4, dtype=np.float32)[generator.integers(0, 4, images)]
    targets = Targets.of_images(owners(n + images, images, seed), images)
    quick = search(queries, pool, 0, targets=targets).first
    every = search(queries, pool, 0, targets=targets, every=True)
    slow = Placements.of_scores(queries @ pool.T, targets)
    assert quick is not None
    assert every.first is not None
    assert slow.first.own is not None
    for ranks in (quick, every.first):
        assert ranks.own is not None
        assert ranks.better.tolist() == slow.first.better.tolist()
        assert ranks.tied.tolist() == slow.first.tied.tolist()
        assert ranks.own.tolist() == slow.first.own.tolist()


@pytest.mark.parametrize("d", [1, 3, 64])
def test_a_pool_of_one_vector_is_chance_and_its_ids_come_in_order(d):
    pool = np.tile(np.random.default_rng(d).normal(size=(1, d)), (700, 1)).astype(np.float16)
    queries = np.random.default_rng(d + 1).normal(size=(7, d)).astype(np.float16)
    targets = Targets.of_images(np.arange(700) % 7, 7)
    found = search(queries, pool, 50, targets=targets, every=True)
    assert (found.candidates == np.arange(50)).all()
    assert found.placements is not None
    for k in (1, 10, 700):
        assert found.placements.score(f"recall@{k}") == pytest.approx(np.full(7, 100 * k / 700))
    assert found.placements.score("R@1") == pytest.approx(np.full(7, 100 / 7))


def test_rows_with_the_same_bits_tie_whatever_the_product_gave(monkeypatch):
    plain = torch.mm

    def uneven(left: torch.Tensor, right: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        plain(left, right, out=out)
        return out.mul_(1 + 1e-6 * torch.arange(out.shape[1]))

    pool = clustered(300, 12, 6)
    pool[[7, 100, 299]] = pool[50]
    monkeypatch.setattr(torch, "mm", uneven)
    found = search(pool[50:51], pool, 6, targets=Targets.of_captions(np.array([299])), every=True)
    assert found.candidates[0, :4].tolist() == [7, 50, 100, 299]
    assert found.first is not None
    assert (found.first.better[0], found.first.tied[0]) == (0, 3)


class Again:
    """Blocks of uneven length that can be walked through as often as one likes."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.walks = rows, 0

    def __iter__(self):
        self.walks += 1
        for start, stop in ((0, 1), (1, 1), (1, 60), (60, 150)):
            yield self.rows[start:stop]


def test_every_source_gives_the_same_numbers(tmp_path):
    queries, pool = clustered(9, 24, 7), clustered(150, 24, 8, twins=9)
    np.save(tmp_path / "pool.npy", pool)
    again = Again(pool)
    sources = {
        "array": pool,
        "memory map": np.load(tmp_path / "pool.npy", mmap_mode="r"),
        "tensor": torch.from_numpy(pool),
        "double": pool.astype(np.float64),
        "list": [pool[:100], torch.from_numpy(pool[100:])],
        "generator": (pool[start : start + 40] for start in range(0, 150, 40)),
        "again": again,
    }
    expected = search(queries, pool, 20, memory=4000)
    for name, source in sources.items():
        found = search(iter([queries[:2], queries[2:]]), source, 20, memory=4000)
        assert found.similarity.tobytes() == expected.similarity.tobytes(), name
        assert (found.candidates == expected.candidates).all(), name
    assert again.walks > 3  # read anew, not kept


def test_half_precision_is_widened_before_anything_is_computed():
    """In float16 the squares of 300 overflow, and 2,048 + 1 is 2,048."""
    pool = np.array([[300, 400], [2048, 1], [2048, 2]], dtype=np.float16)
    found = search(pool[:1] / 2, pool, 3)
    assert found.candidates.tolist() == [[0, 2, 1]]
    wide = search(pool[:1].astype(np.float32), pool.astype(np.float32), 3)
    assert found.similarity == pytest.approx(wide.similarity, abs=1e-6)
    half = search(torch.from_numpy(pool[:1].astype(np.float32)).bfloat16(), torch.from_numpy(pool), 3)
    assert half.candidates.tolist() == [[0, 2, 1]]


def test_more_candidates_than_there_are_are_all_of_them():
    found = search(clustered(2, 4, 1), clustered(5, 4, 2), 100)
    assert sorted(found.candidates[0].tolist()) == [0, 1, 2, 3, 4]


def test_rows_know_their_twins():
    pool = clustered(50, 6, 9)
    pool[[20, 49]] = pool[3]
    again, first = Rows(pool, "pool").twins
    assert dict(zip(again.tolist(), first.tolist(), strict=True)) == {20: 3, 49: 3}
    # The same first two numbers are not enough.
    pool[:, :2] = 1
    again, first = Rows(pool, "pool").twins
    assert dict(zip(again.tolist(), first.tolist(), strict=True)) == {20: 3, 49: 3}


def broken(value: float) -> np.ndarray:
    rows = clustered(300, 4, 1)
    rows[250, 2] = value
    return rows


class Shrinking(Again):
    def __iter__(self):
        self.walks += 1
        yield self.rows if self.walks == 1 else self.rows[:-1]


GOOD = clustered(4, 4, 0)


@pytest.mark.parametrize(
    ("go", "says"),
    [
        (lambda: search(GOOD, broken(np.nan)), r"The pool hold 1 rows .*first is row 250"),
        (lambda: search(broken(np.inf), GOOD), r"The queries hold 1 rows .*row 250"),
        (lambda: search(GOOD, np.zeros((3, 4), np.float32)), "hold 3 rows"),
        (lambda: search(GOOD, clustered(4, 5, 0)), "4 columns and the pool 5"),
        (lambda: search(GOOD, [GOOD, clustered(4, 5, 0)]), r"shape \(4, 5\).*here 4"),
        (lambda: search(GOOD, GOOD[0]), r"shape \(4,\)"),
        (lambda: search(GOOD, []), "no embedding"),
        (lambda: search(GOOD, np.ones((3, 4), int)), "int64 values; give arrays of floats"),
        (lambda: search(GOOD, ["abc"]), "str values"),  # pyright: ignore[reportArgumentType]
        (lambda: search(GOOD, GOOD, -1), "k=-1"),
        (lambda: search(GOOD, GOOD, 0), "give targets"),
        (lambda: search(GOOD, GOOD, every=True), "needs targets"),
        (lambda: search(GOOD, GOOD, targets=Targets.of_captions(np.arange(3))), "Targets of 3 queries"),
        (lambda: search(GOOD, GOOD[:2], targets=Targets.of_captions(np.arange(4))), "up to candidate 3"),
        (lambda: search(GOOD, Shrinking(clustered(9, 4, 1))), "gave 9 rows at first and 8 later"),
    ],
)
def test_what_cannot_be_searched_is_refused(go, says, monkeypatch):
    monkeypatch.setattr(pools, "_ROWS", 100)
    with pytest.raises(InputError, match=says):
        go()
