"""De-duplication of concepts, on embeddings whose cosines are set by angles."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.concepts import deduplicate
from workbench.errors import InputError


def at_degrees(*angles: float) -> np.ndarray:
    radians = np.radians(angles)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def test_the_first_of_a_pair_stays():
    found = deduplicate(at_degrees(0, 90, 20, 92))  # cosines of 0.940 and 0.999
    assert found.kept == (0, 1)
    assert {place: owner for place, (owner, _) in found.removed.items()} == {2: 0, 3: 1}
    assert found.removed[2][1] == pytest.approx(np.cos(np.radians(20)))
    assert found.threshold == 0.92
    # 23.07 degrees have a cosine of 0.92.
    assert deduplicate(at_degrees(0, 24)).kept == (0, 1)
    assert deduplicate(at_degrees(0, 23)).kept == (0,)


def test_a_chain_keeps_its_ends_or_its_head():
    chain = at_degrees(0, 20, 40, 60)
    assert deduplicate(chain).kept == (0, 2)
    connected = deduplicate(chain, linkage="connected")
    assert connected.kept == (0,)
    assert connected.removed[3] == (0, pytest.approx(0.5))
    # The order decides.
    assert deduplicate(chain[[1, 0, 2, 3]]).kept == (0, 3)


def test_the_nearest_of_those_that_stay_is_named():
    found = deduplicate(at_degrees(0, 30, 20))
    assert found.kept == (0, 1)
    assert found.removed[2][0] == 1
    assert deduplicate(at_degrees(30, 0, 20)).removed[2][0] == 0


def test_length_is_no_matter_and_equal_rows_are_one_at_a_threshold_of_one():
    rows = np.random.default_rng(0).normal(size=(40, 7))
    twice = np.concatenate([rows, 3.7 * rows])
    assert deduplicate(twice, threshold=1.0).kept == tuple(range(40))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 30), st.floats(0.2, 0.99), st.sampled_from(["first", "connected"]))
def test_what_holds_for_every_list(seed, n, threshold, linkage):
    rows = np.random.default_rng(seed).normal(size=(n, 3))
    found = deduplicate(rows, threshold=threshold, linkage=linkage)
    assert sorted([*found.kept, *found.removed]) == list(range(n))
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for a, b in itertools.combinations(found.kept, 2):
        assert units[a] @ units[b] < threshold
    for place, (owner, cosine) in found.removed.items():
        assert owner in found.kept
        assert owner < place
        if linkage == "first":
            assert cosine >= threshold - 1e-9


def test_blocks_make_no_difference(monkeypatch):
    rows = np.random.default_rng(1).normal(size=(50, 3))
    whole = deduplicate(rows, threshold=0.8)
    monkeypatch.setattr("probes.concepts._BLOCK", 7)
    assert deduplicate(rows, threshold=0.8) == whole


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: deduplicate(np.zeros((2, 3)), ["mask", "hat"]), r"row 0 \(mask\) is zero"),
        (lambda: deduplicate(np.full((2, 3), np.nan)), "NaN"),
        (lambda: deduplicate(np.ones((2, 3)), ["mask"]), "1 names"),
        (lambda: deduplicate(np.ones((2, 3)), threshold=92.0), "at most 1"),
        (lambda: deduplicate(np.ones((2, 3)), linkage="all"), "'first' or 'connected'"),  # type: ignore[arg-type]
    ],
)
def test_errors_teach(call, words):
    with pytest.raises(InputError, match=words):
        call()
