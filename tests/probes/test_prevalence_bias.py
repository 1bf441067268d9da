"""Known answers: values worked out by hand, published constants, and what must hold for every list."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from probes.prevalence_bias import (
    DEPTHS,
    ceiling,
    dlbkl,
    group_shares,
    language_kl,
    language_kl_floor,
    lbkl,
    low_share,
    sampling_null,
    uniform_value,
)
from workbench.errors import InputError

# Labels in the order of ranks, 1 for low-resource; LBKL; DLBKL. Alternating and single labels of five and ten.
VECTORS = [
    ([1, 0, 0, 0, 0], 0.223144, 0.054616),
    ([0, 0, 0, 0, 1], 0.223144, 0.392674),
    ([1, 1, 0, 0, 0], 0.020411, 0.005681),
    ([0, 0, 0, 0, 0], 9.668486, 9.668486),
    ([1, 1, 1, 1, 1], 9.668486, 9.668486),
    ([1] + 9 * [0], 0.510826, 0.187998),
    (9 * [0] + [1], 0.510826, 0.717128),
    (5 * [1, 0], 0.0, 0.006064),
]


@pytest.mark.parametrize(("labels", "flat", "discounted"), VECTORS)
def test_known_lists(labels, flat, discounted):
    lists = np.array([labels], dtype=bool)
    assert lbkl(lists, len(labels))[0] == pytest.approx(flat, abs=5e-7)
    assert dlbkl(lists, len(labels))[0] == pytest.approx(discounted, abs=5e-7)


def test_formula_by_hand():
    # Two of five are low: Q = 0.4 and 0.6; ranks 1 and 4 weigh 1 and 1 / log2(5).
    lists = np.array([[1, 0, 0, 1, 0]])
    weights = [1 / math.log2(rank + 1) for rank in range(1, 6)]
    q = (weights[0] + weights[3]) / sum(weights)
    assert lbkl(lists, 5)[0] == pytest.approx(0.5 * math.log(0.5 / 0.4) + 0.5 * math.log(0.5 / 0.6), rel=1e-12)
    assert dlbkl(lists, 5)[0] == pytest.approx(0.5 * math.log(0.5 / q) + 0.5 * math.log(0.5 / (1 - q)), rel=1e-12)
    p = 0.3
    assert lbkl(lists, 5, prior=p)[0] == pytest.approx(p * math.log(p / 0.4) + 0.7 * math.log(0.7 / 0.6), rel=1e-12)
    # Only the first k count.
    assert lbkl(lists, 2)[0] == 0.0


def test_at_one_every_tower_has_the_same_value_and_it_is_the_ceiling():
    lists = np.random.default_rng(0).random((500, 3)) < 0.2
    assert ceiling() == pytest.approx(9.668486, abs=5e-7)
    assert ceiling() == pytest.approx(0.5 * math.log(0.5 / 1e-9) + 0.5 * math.log(0.5), rel=1e-12)
    assert set(lbkl(lists, 1)) == set(dlbkl(lists, 1)) == {ceiling()}
    # With another prior the two groups differ, and the ceiling is the dearer one.
    assert set(np.round(lbkl(lists, 1, prior=0.2), 9)) == {
        round(0.2 * math.log(0.2) + 0.8 * math.log(0.8 / 1e-9), 9),
        round(0.8 * math.log(0.8) + 0.2 * math.log(0.2 / 1e-9), 9),
    }
    assert ceiling(0.2) == pytest.approx(0.2 * math.log(0.2) + 0.8 * math.log(0.8 / 1e-9))


def test_uniform_over_the_36_languages():
    assert uniform_value(21 / 36) == pytest.approx(0.014085, abs=5e-7)
    assert uniform_value(21 / 36, prior=21 / 36) == pytest.approx(0.0, abs=1e-15)
    assert uniform_value(1.0) == ceiling()


@settings(max_examples=100, deadline=None)
@given(npst.arrays(bool, st.tuples(st.integers(1, 6), st.integers(1, 30))), st.floats(0.05, 0.95))
def test_what_holds_for_every_list(lists, prior):
    k = lists.shape[1]
    for measure, discounted in ((lbkl, False), (dlbkl, True)):
        values = measure(lists, k, prior=prior)
        shares = group_shares(lists, k, discounted=discounted)
        assert np.allclose(shares.sum(1), 1)
        assert (values > -1e-12).all()
        # Not exactly 0 or 1 by rounding: a share is 0 where the group is absent, and nowhere else.
        assert ((shares[:, 0] == 0) == ~lists.any(1)).all()
        assert ((shares[:, 1] == 0) == lists.all(1)).all()
        assert (values <= ceiling(prior) + 1e-12).all()
        # The two groups change places, and so do their priors.
        assert np.allclose(measure(~lists, k, prior=1 - prior), values, atol=1e-9)
    assert np.allclose(low_share(lists, k), lists.mean(1))


def test_order_counts_only_when_it_is_discounted():
    top, bottom = np.array([[0] * 7 + [1] * 3]), np.array([[1] * 3 + [0] * 7])
    assert lbkl(top, 10)[0] == lbkl(bottom, 10)[0]
    # The majority on top looks worse when the top weighs more.
    assert dlbkl(top, 10)[0] > lbkl(top, 10)[0] > dlbkl(bottom, 10)[0]


def test_null_line_equals_the_published_sizes():
    # Values of a retriever that can't see languages, for P = ½: at equal shares, and at the share of the pool.
    cases = {
        (0.5, False): {5: 0.687, 10: 0.077, 15: 0.038, 25: 0.021, 50: 0.010, 99: 0.005},
        (0.5623, False): {5: 0.783, 10: 0.100, 15: 0.048, 25: 0.030, 50: 0.0185, 99: 0.0131},
        (0.5, True): {5: 0.698, 10: 0.093, 15: 0.048, 25: 0.027, 50: 0.013, 99: 0.0066},
        (0.5623, True): {5: 0.800, 10: 0.113, 15: 0.059, 25: 0.036, 50: 0.0215, 99: 0.0145},
    }
    for (share, discounted), values in cases.items():
        for k, value in values.items():
            found = sampling_null(k, share, 3600, discounted=discounted)
            # LBKL's line is exact, to the digits given; DLBKL's was simulated, with a scatter of its own.
            tolerance = 0.025 * value + 0.0003 if discounted else 0.0005
            assert found.mean == pytest.approx(value, abs=tolerance), (share, discounted, k)
            assert found.low < found.mean < found.high


@pytest.mark.parametrize("discounted", [False, True])
def test_null_is_the_mean_over_every_order(discounted):
    share, k = 0.3, 6
    orders = list(itertools.product([False, True], repeat=k))
    chance = [share ** sum(order) * (1 - share) ** (k - sum(order)) for order in orders]
    values = (dlbkl if discounted else lbkl)(np.array(orders), k)
    found = sampling_null(k, share, 100, discounted=discounted)
    assert found.mean == pytest.approx(float(values @ chance), rel=1e-12)
    spread = math.sqrt(float(values**2 @ chance) - float(values @ chance) ** 2)
    assert found.high - found.mean == pytest.approx(1.96 * spread / 10, rel=1e-4)


def test_simulated_null_agrees_with_lists_that_are_drawn():
    k, share = 25, 0.2
    found = sampling_null(k, share, 400, discounted=True, seed=1)
    drawn = dlbkl(np.random.default_rng(7).random((400 * 200, k)) < share, k).reshape(200, 400).mean(1)
    assert found.mean == pytest.approx(drawn.mean(), abs=4 * drawn.std() / math.sqrt(200))
    inside = ((drawn > found.low) & (drawn < found.high)).mean()
    assert 0.9 < inside < 0.99
    assert sampling_null(k, share, 400, discounted=True, seed=1) == found


def test_all_languages_at_once_is_another_measure():
    assert [round(language_kl_floor(k, 36), 2) for k in (1, 5, 10)] == [16.56, 14.49, 12.02]
    assert language_kl_floor(36, 36) == pytest.approx(0.0, abs=1e-12)
    lists = np.array([[0, 1, 2, 3], [0, 0, 1, 2], [3, 3, 3, 3]])
    even, uneven, alone = language_kl(lists, 4, 4)
    assert even == pytest.approx(0.0, abs=1e-12)
    assert even < uneven < alone
    two = np.array([[0, 1, 1, 1, 1]])
    assert language_kl(two, 5, 2)[0] == pytest.approx(lbkl(two == 0, 5)[0], rel=1e-12)
    assert language_kl(two, 5, 2, prior=np.array([0.2, 0.8]))[0] == pytest.approx(0.0, abs=1e-12)
    # A language that is never expected costs nothing when it is absent.
    assert language_kl(two, 5, 3, prior=np.array([0.2, 0.8, 0.0]))[0] == pytest.approx(0.0, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 8), st.integers(1, 12), st.integers(0, 10_000))
def test_no_list_is_below_the_floor(n, k, seed):
    lists = np.random.default_rng(seed).integers(0, n, (20, k))
    assert (language_kl(lists, k, n) >= language_kl_floor(k, n) - 1e-12).all()


def test_depths_are_the_published_ones():
    assert DEPTHS == (1, 5, 10, 15, 25, 50, 99)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lbkl(np.zeros((2, 5)), 6), "k=6 came for lists of 5"),
        (lambda: lbkl(np.zeros((2, 5)), 0), "use 1 to 5"),
        (lambda: lbkl(np.zeros(5), 2), "shape"),
        (lambda: lbkl(np.full((2, 5), 2), 2), "other than 0 and 1"),
        (lambda: lbkl(np.full((2, 5), np.nan), 2), "other than 0 and 1"),
        (lambda: lbkl(np.zeros((2, 5)), 2, prior=1.0), "strictly between"),
        (lambda: lbkl(np.zeros((2, 5)), 2, prior=float("nan")), "strictly between"),
        (lambda: sampling_null(5, 0.0, 10), "both groups"),
        (lambda: sampling_null(0, 0.5, 10), "at least 1"),
        (lambda: uniform_value(1.1), "between 0 and 1"),
        (lambda: language_kl(np.array([[0, 4]]), 2, 4), "from 0 to 3"),
        (lambda: language_kl(np.array([[0, -1]]), 2, 4), "number -1"),
        (lambda: language_kl(np.array([[0.0, 1.0]]), 2, 4), "whole numbers"),
        (lambda: language_kl(np.array([[0, 1]]), 2, 2, prior=np.array([0.5, 0.4])), "sum to 1"),
    ],
)
def test_errors_teach(call, words):
    with pytest.raises(InputError, match=words):
        call()
