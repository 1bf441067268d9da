"""Our numbers beside those of the libraries that define the same thing, and where they don't.

Ties are made equal before anything is compared: either there are none, or the library's own rule is met by
the names of the documents (pytrec_eval: of the tied, the last name first) or by our rule that is its rule
(scikit-learn's NDCG averages over ties, as our expected one does).
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import pytrec_eval
import torch
from sklearn.metrics import (
    balanced_accuracy_score,
    label_ranking_average_precision_score,
    ndcg_score,
    top_k_accuracy_score,
)

from workbench.metrics import Placements, Targets
from workbench.pools import search
from workbench.retrieval import unit
from workbench.zero_shot import classify, ensemble

CANDIDATES = 60
CUTOFFS = (1, 5, 10)
SAME_METRIC = {
    # ours: pytrec_eval, ranx
    "R@{}": ("success_{}", "hit_rate@{}"),
    "recall@{}": ("recall_{}", "recall@{}"),
    "NDCG@{}": ("ndcg_cut_{}", "ndcg@{}"),
}


def problem(seed: int, levels: int | None = None) -> tuple[np.ndarray, Targets]:
    """Scores of 40 queries with 1 to 6 right candidates each; with few levels they tie everywhere."""
    generator = np.random.default_rng(seed)
    n = 40
    if levels:
        scores = generator.integers(0, levels, (n, CANDIDATES)).astype(np.float32)
    else:
        scores = np.argsort(generator.normal(size=(n, CANDIDATES)), axis=1).astype(np.float32)
    pairs = [(q, c) for q in range(n) for c in generator.permutation(CANDIDATES)[: generator.integers(1, 7)]]
    query, candidate = np.array(pairs).T
    return scores, Targets(query, candidate, n)


def name(candidate: int) -> str:
    """A document's name: the lower the candidate, the later in the alphabet."""
    return f"d{CANDIDATES - candidate:03d}"


def as_dicts(scores: np.ndarray, targets: Targets) -> tuple[dict, dict]:
    qrels: dict[str, dict[str, int]] = {f"q{query:03d}": {} for query in range(len(scores))}
    for query, candidate in zip(targets.query, targets.candidate, strict=True):
        qrels[f"q{query:03d}"][name(candidate)] = 1
    run = {f"q{q:03d}": {name(c): float(score) for c, score in enumerate(row)} for q, row in enumerate(scores)}
    return qrels, run


def in_order(scores: np.ndarray, targets: Targets) -> tuple[np.ndarray, Placements]:
    """Scores without ties, in which the lowest candidate of the tied comes first; and our placements of them."""
    order = np.argsort(-scores, axis=1, kind="stable")
    untied = np.empty_like(scores)
    np.put_along_axis(untied, order, np.arange(CANDIDATES, 0, -1, dtype=np.float32)[None].repeat(len(scores), 0), 1)
    return untied, Placements.of_scores(untied, targets)


RANX = """
import json, sys
from ranx import Qrels, Run, evaluate
for qrels, run in json.load(sys.stdin):
    found = evaluate(Qrels(qrels), Run(run), sys.argv[1:], return_mean=False)
    print(json.dumps({name: list(map(float, values)) for name, values in found.items()}))
"""


def by_ranx(names: list[str], *problems: tuple[dict, dict]) -> list[dict[str, list[float]]]:
    """Score each query with ranx, in a process of its own without Numba's compiler, which takes a minute."""
    done = subprocess.run(
        [sys.executable, "-c", RANX, *names],
        input=json.dumps(problems),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("levels", [None, 2, 5])
def test_pytrec_eval_agrees_when_ties_go_by_name(levels):
    scores, targets = problem(1, levels)
    ours = in_order(scores, targets)[1]
    qrels, run = as_dicts(scores, targets)  # with the ties; the names settle them
    wanted = {"success.1,5,10", "recall.1,5,10", "ndcg_cut.1,5,10", "recip_rank"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, wanted).evaluate(run)
    for metric, (trec, _) in SAME_METRIC.items():
        for k in CUTOFFS:
            expected = [theirs[query][trec.format(k)] for query in sorted(theirs)]
            assert ours.score(metric.format(k)) / 100 == pytest.approx(expected, abs=1e-7), (metric, k)
    expected = [theirs[query]["recip_rank"] for query in sorted(theirs)]
    assert ours.score("MRR") / 100 == pytest.approx(expected, abs=1e-7)


def test_ranx_agrees_where_nothing_ties():
    scores, targets = problem(2)
    ours = Placements.of_scores(scores, targets)
    names = [theirs.format(k) for _, theirs in SAME_METRIC.values() for k in CUTOFFS]
    found = by_ranx([*names, "mrr", "mrr@10"], as_dicts(scores, targets))[0]
    for metric, (_, theirs) in SAME_METRIC.items():
        for k in CUTOFFS:
            assert ours.score(metric.format(k)) / 100 == pytest.approx(found[theirs.format(k)], abs=1e-12)
    assert ours.score("MRR") / 100 == pytest.approx(found["mrr"], abs=1e-12)
    assert ours.score("MRR@10") / 100 == pytest.approx(found["mrr@10"], abs=1e-12)


@pytest.mark.parametrize("levels", [None, 2, 5])
@pytest.mark.parametrize("k", CUTOFFS)
def test_scikit_learns_ndcg_averages_over_ties_as_the_expected_one_does(levels, k):
    scores, targets = problem(3, levels)
    relevance = np.zeros_like(scores)
    relevance[targets.query, targets.candidate] = 1
    ours = Placements.of_scores(scores, targets).ndcg(k)
    theirs = [ndcg_score(right[None], row[None], k=k) for right, row in zip(relevance, scores, strict=True)]
    assert ours == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("levels", [None, 3])
def test_scikit_learns_ranking_precision_of_one_label_is_the_pessimistic_reciprocal_rank(levels):
    scores, _ = problem(4, levels)
    targets = Targets.of_captions(np.arange(len(scores)))
    relevance = np.zeros(scores.shape, dtype=int)
    relevance[targets.query, targets.candidate] = 1
    ours = Placements.of_scores(scores, targets).score("MRR", "pessimistic").mean() / 100
    assert ours == pytest.approx(label_ranking_average_precision_score(relevance, scores), abs=1e-12)


def test_scikit_learn_sorts_images_into_classes_as_we_do():
    generator = torch.Generator().manual_seed(5)
    images = torch.randn(300, 16, generator=generator)
    vectors = ensemble(torch.randn(12, 3, 16, generator=generator))
    target = np.concatenate([np.arange(12), np.random.default_rng(5).integers(0, 12, 288) ** 2 // 12])
    found = classify(images, vectors, target)
    scores = (unit(images, "images") @ vectors.T).numpy()
    for k in (1, 3, 5):
        assert found.score(f"top-{k}").mean() / 100 == pytest.approx(top_k_accuracy_score(target, scores, k=k))
        assert found.score(f"top-{k}", "first").mean() == found.score(f"top-{k}").mean()
    per_class = balanced_accuracy_score(target, scores.argmax(1))
    assert found.score("mean per class").mean() / 100 == pytest.approx(per_class)
    assert per_class != pytest.approx(found.score("top-1").mean() / 100, abs=1e-3)


# -- where they differ: what the README says about them ----------------------------------------------


def test_a_constant_scorer_gets_whatever_names_and_sorts_decide_elsewhere():
    """Chance is 1 in 60 here; pytrec_eval gives all or nothing by the document's name, ranx by its sort."""
    n = 30
    constant = np.zeros((n, CANDIDATES), dtype=np.float32)
    problems = [Targets(np.arange(n), np.full(n, right), n) for right in (0, CANDIDATES - 1)]
    for targets, trec in zip(problems, (1.0, 0.0), strict=True):
        qrels, run = as_dicts(constant, targets)
        theirs = pytrec_eval.RelevanceEvaluator(qrels, {"success.1"}).evaluate(run)
        assert {row["success_1"] for row in theirs.values()} == {trec}
        assert Placements.of_scores(constant, targets).score("R@1") == pytest.approx(np.full(n, 100 / CANDIDATES))
    for found in by_ranx(["hit_rate@1", "mrr"], *(as_dicts(constant, targets) for targets in problems)):
        assert set(found["hit_rate@1"]) <= {0.0, 1.0}


def test_recall_means_another_thing_in_text_retrieval():
    """What papers on images call R@1 is a hit rate; `recall` of both libraries is divided by the right ones."""
    scores = np.arange(CANDIDATES, 0, -1, dtype=np.float32)[None]
    targets = Targets(np.zeros(4, dtype=int), np.arange(4), 1)
    qrels, run = as_dicts(scores, targets)
    trec = pytrec_eval.RelevanceEvaluator(qrels, {"recall.1", "success.1"}).evaluate(run)["q000"]
    assert (trec["recall_1"], trec["success_1"]) == (0.25, 1.0)
    assert by_ranx(["recall@1", "hit_rate@1"], (qrels, run))[0] == {"recall@1": [0.25], "hit_rate@1": [1.0]}
    ours = Placements.of_scores(scores, targets)
    assert (ours.score("recall@1")[0], ours.score("R@1")[0]) == (25, 100)


def test_scikit_learn_settles_a_tie_of_classes_by_the_last_listed_and_argmax_by_the_first():
    scores = np.array([[0.5, 0.5, 0.1]] * 2)
    assert top_k_accuracy_score([0, 0], scores, k=1, labels=[0, 1, 2]) == 0
    assert top_k_accuracy_score([1, 1], scores, k=1, labels=[0, 1, 2]) == 1
    assert scores.argmax(1).tolist() == [0, 0]


def test_a_search_lists_what_a_library_is_given_to_score():
    """The lists of a block search score as the whole matrix does, wherever the list reaches."""
    generator = np.random.default_rng(6)
    queries, pool = generator.normal(size=(25, 32)), generator.normal(size=(CANDIDATES, 32))
    owner = np.concatenate([np.arange(25), generator.integers(0, 25, CANDIDATES - 25)])
    targets = Targets.of_images(owner, 25)
    found = search(queries, pool, 20, targets=targets, every=True)
    lists = Placements.of_lists(owner[found.candidates] == np.arange(25)[:, None], np.bincount(owner))
    assert found.placements is not None
    for metric in ("R@1", "R@10", "recall@20", "NDCG@10", "MRR@20"):
        assert lists.score(metric) == pytest.approx(found.placements.score(metric), abs=1e-12), metric
