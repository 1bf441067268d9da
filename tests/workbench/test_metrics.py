"""Metrics over lists with several right candidates, held to a reference that tries every order of the tied."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import InputError
from workbench.metrics import Placements, Targets, forced_choice, parse_metric, wins
from workbench.retrieval import TIES

NAMES = ("R@1", "R@2", "Acc@3", "recall@1", "recall@2", "recall@4", "MRR", "MRR@2", "NDCG@1", "NDCG@3", "NDCG@10")


def of_list(metric: str, right: list[bool], list_depth: int = 100) -> float:
    """One metric of one list that holds the whole pool, by its definition."""
    name, k = parse_metric(metric)
    cut = right[: k or len(right)]
    if name in ("R", "Acc"):
        return 100.0 * any(cut)
    if name == "recall":
        return 100.0 * sum(cut) / sum(right)
    if name == "MRR":
        return 100.0 / (cut.index(True) + 1) if any(cut) else 0.0

    def gain(flags: list[bool]) -> float:
        return sum(1 / math.log2(place + 2) for place, flag in enumerate(flags) if flag)

    held = right if name == "NDCG" else right[:list_depth]
    ideal = gain(sorted(held, reverse=True)[:k])
    return 100.0 * gain(cut) / ideal if ideal else 0.0


def over_orders(metric: str, scores: list[int], targets: set[int], list_depth: int = 100) -> dict[str, float]:
    """The metric under each rule for ties; the expected one by trying every order of the candidates."""
    n = len(scores)

    def score(order: tuple[int, ...]) -> float:
        ranked = sorted(order, key=lambda candidate: -scores[candidate])  # stable: ties stay in this order
        return of_list(metric, [candidate in targets for candidate in ranked], list_depth)

    first = tuple(sorted(range(n), key=lambda candidate: candidate not in targets))
    every = [score(order) for order in itertools.permutations(range(n))]
    return {"optimistic": score(first), "pessimistic": score(first[::-1]), "expected": sum(every) / len(every)}


def as_any(value: Any) -> Any:
    """A value that the type checker would refuse, as a user's script may hold."""
    return value


@st.composite
def queries(draw) -> tuple[list[int], set[int]]:
    n = draw(st.integers(1, 5))
    scores = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    return scores, draw(st.sets(st.integers(0, n - 1), min_size=1))


def placed(*cases: tuple[list[int], set[int]]) -> Placements:
    targets = [(query, candidate) for query, (_, right) in enumerate(cases) for candidate in right]
    query, candidate = np.array(targets).T
    return Placements.of_scores(np.array([scores for scores, _ in cases]), Targets(query, candidate, len(cases)))


@settings(max_examples=60, deadline=None)
@given(queries())
def test_every_metric_and_rule_equals_trying_every_order_of_the_tied(case):
    found = placed(case)
    for metric in NAMES:
        expected = over_orders(metric, *case)
        for ties in TIES:
            assert found.score(metric, ties)[0] == pytest.approx(expected[ties], abs=1e-9), (metric, ties)


@pytest.mark.parametrize(
    "case",
    [([2, 1, 1, 1], {0, 1}), ([2, 1, 1, 1, 0], {0, 1, 2}), ([2, 2, 1, 1, 1], {1, 3, 4}), ([1, 1, 1, 1, 0], {0, 4})],
)
@pytest.mark.parametrize("list_depth", [2, 3])
def test_targets_before_the_tie_at_the_end_of_the_list_count_in_its_ideal(case, list_depth):
    expected = over_orders("NDCG-list@2", *case, list_depth=list_depth)["expected"]
    assert 100 * placed(case).ndcg(2, "expected", "list", list_depth)[0] == pytest.approx(expected, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(queries(), st.integers(1, 3), st.integers(0, 3))
def test_the_ideal_of_a_list_averages_over_what_the_list_happens_to_hold(case, k, more):
    """A tie that straddles the end of the list decides by chance how many targets it holds."""
    found = placed(case)
    expected = over_orders(f"NDCG-list@{k}", *case, list_depth=k + more)
    for ties in TIES:
        assert 100 * found.ndcg(k, ties, "list", k + more)[0] == pytest.approx(expected[ties], abs=1e-9), ties


@settings(max_examples=60, deadline=None)
@given(queries())
def test_optimistic_is_never_below_expected_nor_expected_below_pessimistic(case):
    for metric in NAMES:
        high, middle, low = (placed(case).score(metric, ties)[0] for ties in TIES)
        assert high >= middle - 1e-9 >= low - 2e-9


@pytest.mark.parametrize(("candidates", "right"), [(10, 1), (10, 3), (200, 1), (200, 20)])
def test_a_scorer_that_says_the_same_of_everything_gets_k_of_n(candidates, right):
    found = placed(([0] * candidates, set(range(3, 3 + right))))
    for k in (1, 5, 10, 100, 500):
        share = 100 * min(k, candidates) / candidates
        assert found.score(f"recall@{k}")[0] == pytest.approx(share, abs=1e-12)
        if right == 1:
            assert found.score(f"R@{k}")[0] == pytest.approx(share, abs=1e-12)
        assert found.score(f"recall@{k}", "optimistic")[0] == pytest.approx(100 * min(k, right) / right)
        assert found.score(f"recall@{k}", "pessimistic")[0] == pytest.approx(
            100 * max(0, min(k, candidates) - (candidates - right)) / right
        )
    # One of 3 right among the first of 10 in any order.
    assert found.score("R@1")[0] == pytest.approx(100 * right / candidates)


def test_hit_rate_is_not_recall_where_an_image_has_several_captions():
    """The same ranking of one right caption of four: a hit is whole, recall a quarter."""
    found = placed(([9, 8, 1, 1, 1, 5], {0, 2, 3, 4}))
    assert found.score("R@1")[0] == 100
    assert found.score("recall@1")[0] == 25
    assert found.score("Acc@1")[0] == 100


def test_the_published_ndcg_divides_by_the_order_of_its_own_list():
    lists = np.array([[False, True, False, True, False]])
    published = Placements.of_lists(lists, np.array([2])).ndcg(5, ideal="list")
    assert published == pytest.approx([0.650921], abs=5e-7)
    assert Placements.of_lists(lists, np.array([5])).ndcg(5, ideal="full") == pytest.approx([0.360055], abs=5e-7)
    # The list's ideal does not know of the other three.
    assert Placements.of_lists(lists, np.array([5])).ndcg(5, ideal="list") == pytest.approx(published)


def test_a_list_whose_only_right_candidate_comes_first_is_perfect_by_its_own_ideal():
    right = np.zeros((1, 100), dtype=bool)
    right[0, 0] = True
    found = Placements.of_lists(right, np.array([72]))
    assert found.score("NDCG-list@10") == pytest.approx([100])
    full = 100 / sum(1 / math.log2(place + 1) for place in range(1, 11))
    assert found.score("NDCG@10") == pytest.approx([full])


def test_a_list_that_holds_nothing_right_scores_nothing():
    found = Placements.of_lists(np.zeros((2, 20), dtype=bool), np.array([1, 72]))
    for metric in ("R@1", "R@20", "recall@20", "MRR@20", "NDCG@10", "NDCG-list@10"):
        assert found.score(metric).tolist() == [0, 0], metric


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=1, max_size=4), st.integers(0, 5))
def test_lists_score_as_the_rankings_that_they_are_the_heads_of(rows, more):
    whole = np.array(rows)
    whole[:, 3] |= ~whole.any(1)
    query, candidate = np.nonzero(whole)
    targets = Targets(query, candidate, len(whole))
    known = Placements.of_scores(np.tile(-np.arange(7.0), (len(whole), 1)), targets)
    heads = Placements.of_lists(whole[:, :5], whole.sum(1))
    for metric in ("R@1", "R@5", "recall@5", "MRR@5", "NDCG@4", "NDCG@5"):
        assert heads.score(metric) == pytest.approx(known.score(metric), abs=1e-12)
    assert heads.ndcg(3, ideal="list") == pytest.approx(known.ndcg(3, ideal="list", list_depth=5), abs=1e-12)


def test_a_subset_of_the_targets_leaves_the_others_as_competitors():
    found = placed(([9, 8, 7, 8, 1], {0, 1, 2, 3}))
    candidate = np.array([0, 1, 2, 3])
    ranks = found.subset(candidate == 2).first
    assert (ranks.better.tolist(), ranks.tied.tolist()) == ([3], [0])
    both = found.subset(np.isin(candidate, [1, 3]))
    assert both.score("R@2")[0] == 100
    assert both.score("recall@2")[0] == 50
    one = found.subset(candidate == 1)  # ties with a target that is one no more
    assert one.score("R@2")[0] == 50


def test_targets_come_from_owners_in_either_direction():
    owner = np.array([1, 0, 1, 2, 1])
    images = Targets.of_images(owner, 3)
    assert images.query.tolist() == [0, 1, 1, 1, 2]
    assert images.candidate.tolist() == [1, 0, 2, 4, 3]
    captions = Targets.of_captions(owner)
    assert captions.candidate.tolist() == owner.tolist()
    assert captions.n_queries == 5


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Targets.of_images(np.array([0, 2, 2]), 3), "1 of 3 queries have no target .*query 1"),
        (lambda: Targets(np.array([0, 0]), np.array([4, 4]), 1), "named twice"),
        (lambda: Targets(np.array([0, 3]), np.array([0, 1]), 2), "queries 0 to 3; there are 2"),
        (lambda: Targets(np.array([0, 1]), np.array([0]), 2), "same length"),
        (lambda: placed(([1, 2], {0})).score("R@0"), "no metric 'R@0'"),
        (lambda: placed(([1, 2], {0})).score("mAP"), "NDCG-list@k"),
        (lambda: placed(([1, 2], {0})).score("recall"), "no metric 'recall'"),
        (lambda: placed(([1, 2], {0})).score("R@1", as_any("lucky")), "no rule 'lucky'"),
        (lambda: placed(([1, 2], {0})).ndcg(5, ideal=as_any("best")), "no ideal 'best'"),
        (lambda: placed(([1, 2], {0})).ndcg(5, ideal="list", list_depth=4), "lists of 5 or more"),
        (lambda: Placements.of_scores([[0.1, np.nan]], Targets.of_captions(np.array([0]))), "query 0 hold NaN"),
        (lambda: Placements.of_scores([0.1], Targets.of_captions(np.array([0]))), "give a matrix"),
        (lambda: Placements.of_scores([[0.1, 0.2]], Targets.of_captions(np.array([2]))), "up to candidate 2"),
        (lambda: Placements.of_lists(np.array([[1, 0]]), np.array([1])), "give booleans"),
        (lambda: Placements.of_lists(np.array([[True, True]]), np.array([1])), "2 right candidates"),
        (lambda: Placements.of_lists(np.array([[False]]), np.array([0])), "at least 1"),
        (lambda: Placements.of_lists(np.array([[True]]), np.array([1])).score("R@5"), "cutoff of 5"),
        (lambda: Placements.of_lists(np.array([[True]]), np.array([1])).score("MRR"), "whole MRR"),
        (lambda: Placements.of_lists(np.array([[True]]), np.array([1])).subset(np.array([True])), "whole rankings"),
        (lambda: placed(([1, 2], {0})).subset(np.array([False])), "without a target"),
    ],
)
def test_what_cannot_be_scored_is_refused(make, says):
    with pytest.raises(InputError, match=says):
        make()


def test_a_forced_choice_between_options_that_tie_is_shared():
    scores = [[0.3, 0.1, 0.2], [0.3, 0.3, 0.1], [0.2, 0.2, 0.2], [0.1, 0.4, 0.4]]
    ranks = forced_choice(scores)
    assert ranks.score("R@1") == pytest.approx([100, 50, 100 / 3, 0])
    assert ranks.score("R@1", "optimistic").tolist() == [100, 100, 100, 0]
    assert ranks.score("R@1", "pessimistic").tolist() == [100, 0, 0, 0]
    assert ranks.score("R@2") == pytest.approx([100, 100, 200 / 3, 0])
    assert forced_choice(scores, [0, 1, 2, 2]).score("R@1") == pytest.approx([100, 50, 100 / 3, 50])
    expected = [[1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3], [0, 0.5, 0.5]]
    assert wins(scores) == pytest.approx(np.array(expected))
    assert wins(scores, "first").tolist() == [[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0]]


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 6).flatmap(lambda k: st.lists(st.lists(st.integers(0, 2), min_size=k, max_size=k), min_size=1)))
def test_the_wins_of_an_option_are_its_expected_accuracy(scores):
    shares = wins(scores)
    assert shares.sum(1) == pytest.approx(np.ones(len(scores)))
    for option in range(len(scores[0])):
        assert 100 * shares[:, option] == pytest.approx(forced_choice(scores, option).score("R@1"))
    assert wins(scores, "first").argmax(1).tolist() == np.argmax(scores, axis=1).tolist()


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ([0, -1], "Trial 1 says that option -1.*hidden answer"),
        ([0, 4], "options are 0 to 3"),
        ([0], "one whole number a trial"),
        ([0.0, 1.0], "one whole number a trial"),
    ],
)
def test_a_label_that_names_no_option_is_refused(target, says):
    with pytest.raises(InputError, match=says):
        forced_choice([[1, 2, 3, 4], [1, 2, 3, 4]], target)


def test_a_choice_with_nan_is_refused():
    for function in (forced_choice, wins):
        with pytest.raises(InputError, match="NaN"):
            function([[0.1, float("nan")]])
    with pytest.raises(InputError, match="'shared' or 'first'"):
        wins([[1, 2]], as_any("half"))
