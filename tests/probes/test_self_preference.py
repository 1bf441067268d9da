"""Win counts that were published, and what must hold for every set of trials."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from probes.self_preference import (
    WinRates,
    count_ties,
    self_preference,
    triplet_similarity,
    weighted_rates,
    win_intervals,
    win_rates,
    z_pooled,
)
from workbench.errors import InputError
from workbench.metrics import wins as won


def test_the_most_similar_candidate_wins():
    scores = np.array([[0.9, 0.1, 0.2], [0.1, 0.8, 0.2], [0.1, 0.2, 0.3], [0.5, 0.4, 0.1]])
    wins = won(scores, "first")
    assert wins.argmax(1).tolist() == [0, 1, 2, 0]
    rates = win_rates(wins)
    assert (rates.sem, rates.cul, rates.non, rates.n) == (2, 1, 1, 4)
    assert rates.percent == (50, 25, 25)
    assert rates.sp == 0.5


def test_two_rules_for_ties():
    scores = np.array([[0.5, 0.5, 0.1], [0.1, 0.5, 0.5], [0.2, 0.2, 0.2], [0.3, 0.2, 0.1]])
    assert won(scores, "first").argmax(1).tolist() == [0, 1, 0, 0]
    shared = won(scores, "shared")
    assert shared.tolist() == [[0.5, 0.5, 0], [0, 0.5, 0.5], [1 / 3] * 3, [1, 0, 0]]
    assert count_ties(scores) == 3


@settings(max_examples=50, deadline=None)
@given(npst.arrays(np.float64, st.tuples(st.integers(1, 20), st.just(3)), elements=st.integers(-2, 2).map(float)))
def test_what_holds_for_every_choice(scores):
    for ties in ("first", "shared"):
        wins = won(scores, ties)
        assert np.allclose(wins.sum(1), 1)
        # A winner is never worse than another candidate.
        assert (np.where(wins > 0, scores, np.inf).min(1) == scores.max(1)).all()
        rates = win_rates(wins)
        assert sum(rates.percent) == pytest.approx(100)
        assert math.isfinite(rates.log_ratio)


def test_a_constant_scorer_shares_all_or_gives_all_to_the_first():
    scores = np.full((12, 3), 0.3)
    assert win_rates(won(scores, "first")).percent == (100, 0, 0)
    assert win_rates(won(scores, "shared")).percent == pytest.approx((100 / 3,) * 3)


def test_no_division_by_zero():
    assert self_preference(3, 0) == math.inf
    assert math.isnan(self_preference(0, 0))
    assert self_preference(0, 5) == 0
    assert WinRates(0, 4, 0).sp == math.inf
    assert WinRates(0, 4, 0).log_ratio == pytest.approx(math.log(9))
    assert math.isnan(WinRates(0, 0, 4).sp)
    assert WinRates(0, 0, 4).log_ratio == 0


def test_similarity_is_the_cosine_with_the_three_named_images():
    generator = np.random.default_rng(3)
    queries, images = generator.normal(size=(9000, 5)), generator.normal(size=(7, 5))
    rows = generator.integers(0, 7, (9000, 3))
    found = triplet_similarity(queries, images, rows)
    assert found.dtype == np.float32
    for trial in (0, 1, 8191, 8192, 8999):  # both sides of the edge of a block
        for place in range(3):
            query, image = queries[trial], images[rows[trial, place]]
            cosine = query @ image / np.linalg.norm(query) / np.linalg.norm(image)
            assert found[trial, place] == pytest.approx(cosine, abs=1e-6)
    again = triplet_similarity(torch.tensor(queries), torch.tensor(images), rows)  # type: ignore[arg-type]
    assert (again == found).all()


def test_an_image_as_its_own_semantic_candidate_always_wins():
    images = np.random.default_rng(0).normal(size=(20, 8))
    rows = np.stack([np.arange(20), (np.arange(20) + 1) % 20, (np.arange(20) + 2) % 20], axis=1)
    assert win_rates(won(triplet_similarity(images, images, rows), "first")).percent == (100, 0, 0)


def test_a_group_weighs_as_many_trials_as_it_has():
    parts = [WinRates(3, 1, 0), WinRates(10, 40, 50)]
    found = weighted_rates(np.array([part.percent for part in parts]), np.array([part.n for part in parts]))
    assert found == pytest.approx(WinRates(13, 41, 50).percent)


def test_intervals_are_those_of_the_multinomial():
    wins = np.eye(3)[np.repeat([0, 1, 2], [600, 300, 100])]
    low, high = win_intervals(wins, resamples=4000)["M_sem"]
    reach = 196 * math.sqrt(0.6 * 0.4 / 1000)
    assert low == pytest.approx(60 - reach, abs=0.35)
    assert high == pytest.approx(60 + reach, abs=0.35)
    ends = win_intervals(wins)
    assert ends["SP"][0] < 0.5 < ends["SP"][1]
    assert win_intervals(wins) == ends
    assert win_intervals(wins, seed=1) != ends


def test_trials_of_one_query_are_drawn_together():
    # Ten trials a query that always end alike carry the news of one.
    wins = np.repeat(np.eye(3)[np.repeat([0, 1], 50)], 10, axis=0)
    alone, together = (win_intervals(wins, clusters)["M_sem"] for clusters in (None, np.repeat(np.arange(100), 10)))
    assert together[1] - together[0] == pytest.approx(math.sqrt(10) * (alone[1] - alone[0]), rel=0.1)
    single = win_intervals(wins, np.zeros(1000, dtype=int))
    assert all(math.isnan(end) for ends in single.values() for end in ends)


def test_an_interval_may_reach_infinity_but_is_never_a_silent_nan():
    wins = np.eye(3)[[0, 1, 1, 1, 1, 1]]
    low, high = win_intervals(wins)["SP"]
    assert 0 < low < 5
    assert high == math.inf
    assert all(math.isnan(end) for end in win_intervals(np.eye(3)[[2, 2, 2]])["SP"])


def test_standardised_scores():
    scores = np.random.default_rng(5).normal(3, 2, (50, 3)) + np.array([1.0, 0.0, -0.5])
    found = z_pooled(scores)
    assert found.sum() == pytest.approx(0, abs=1e-12)
    assert found[0] > found[1] > found[2]
    # Scale and offset of a tower's cosines leave no trace.
    assert np.allclose(z_pooled(0.01 * scores + 7), found)
    assert found == pytest.approx((scores.mean(0) - scores.mean()) / scores.std())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: win_rates(np.ones((2, 3))), "sum to 1"),
        (lambda: WinRates(-1, 1, 1), "0 or more"),
        (lambda: WinRates(0, 0, 0), "one trial"),
        (lambda: z_pooled(np.full((4, 3), 0.25)), "equal"),
        (lambda: weighted_rates(np.ones((2, 3)), np.array([1.0, 0.0])), "above 0"),
        (lambda: triplet_similarity(np.ones((2, 4)), np.ones((3, 5)), np.zeros((2, 3), int)), "same number"),
        (lambda: triplet_similarity(np.ones((2, 4)), np.ones((3, 4)), np.full((2, 3), 3)), "there are 3 images"),
        (lambda: triplet_similarity(np.ones((2, 4)), np.ones((3, 4)), np.zeros((1, 3), int)), "2 queries"),
        (lambda: triplet_similarity(np.zeros((2, 4)), np.ones((3, 4)), np.zeros((2, 3), int)), "zero"),
        (lambda: win_intervals(np.eye(3), ["a", "b"]), "3 rows"),
    ],
)
def test_errors_teach(call, words):
    with pytest.raises(InputError, match=words):
        call()
