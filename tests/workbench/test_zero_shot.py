import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import InputError
from workbench.retrieval import TIES
from workbench.zero_shot import (
    CLASS_METRICS,
    check_choice_metric,
    check_choice_ties,
    check_class_metric,
    choose,
    classify,
    ensemble,
)

RULES = (*TIES, "first")


def test_an_ensemble_normalises_before_and_after_the_mean():
    """A template with long vectors weighs no more than one with short ones."""
    prompts = torch.tensor([[[100.0, 0], [0, 1]], [[0, 3], [0, 5]]])
    assert ensemble(prompts).numpy() == pytest.approx(np.array([[0.5**0.5, 0.5**0.5], [0, 1]]))
    assert ensemble(prompts[:, :1]).numpy() == pytest.approx(np.array([[1, 0], [0, 1]]))


def test_prompts_without_a_direction_are_refused():
    with pytest.raises(InputError, match="prompt embeddings hold 1 rows"):
        ensemble(torch.tensor([[[1.0, 0], [0, 0]]]))
    with pytest.raises(InputError, match="class vectors"):
        ensemble(torch.tensor([[[1.0, 0], [-1, 0]]]))


def problem(seed: int, n: int, classes: int, levels: int) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Images and classes along few axes, so that much ties; each class has an image."""
    generator = np.random.default_rng(seed)
    vectors = np.eye(levels, dtype=np.float32)[generator.integers(0, levels, classes)]
    target = np.concatenate([np.arange(classes), generator.integers(0, classes, n)])
    images = np.eye(levels, dtype=np.float32)[generator.integers(0, levels, len(target))]
    return torch.from_numpy(images), torch.from_numpy(vectors), target


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9999), st.integers(0, 8), st.integers(2, 9), st.integers(1, 4), st.integers(1, 5))
def test_classes_are_ranked_as_a_plain_loop_ranks_them(seed, n, classes, levels, k):
    images, vectors, target = problem(seed, n, classes, levels)
    found = classify(images, vectors, target)
    for image, right in enumerate(target.tolist()):
        scores = [float(images[image] @ vector) for vector in vectors]
        better = sum(score > scores[right] for score in scores)
        tied = sum(score == scores[right] for score in scores)
        before = sum(score == scores[right] for score in scores[:right])
        assert found.hits(k)[image] == pytest.approx(min(max((k - better) / tied, 0), 1))
        assert found.hits(k, "optimistic")[image] == (better < k)
        assert found.hits(k, "pessimistic")[image] == (better + tied - 1 < k)
        assert found.hits(k, "first")[image] == (better + before < k)


def test_the_published_argmax_always_fails_the_second_of_two_classes_with_one_name():
    """Images of both look right; the class listed first takes them all."""
    vectors = torch.tensor([[1.0, 0], [0, 1], [1, 0]])
    images = torch.tensor([[1.0, 0], [1, 0], [0, 1], [1, 0]])
    found = classify(images, vectors, np.array([0, 2, 1, 2]))
    assert found.score("top-1", "first").tolist() == [100, 0, 100, 0]
    assert found.score("top-1").tolist() == [50, 50, 100, 50]
    assert found.score("top-1", "optimistic").tolist() == [100] * 4
    assert found.score("top-1", "pessimistic").tolist() == [0, 0, 100, 0]
    assert found.score("top-2", "first").tolist() == [100] * 4
    for rule in RULES:
        assert found.ceiling(1, rule) == pytest.approx(found.score("top-1", rule).mean()), rule
    assert found.ceiling(5) == 100


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9999), st.integers(0, 8), st.integers(2, 9), st.integers(1, 4), st.integers(1, 5))
def test_no_tower_exceeds_the_ceiling_and_a_perfect_one_reaches_it(seed, n, classes, levels, k):
    images, vectors, target = problem(seed, n, classes, levels)
    for rule in RULES:
        some, perfect = classify(images, vectors, target), classify(vectors[target], vectors, target)
        assert some.hits(k, rule).mean() * 100 <= some.ceiling(k, rule) + 1e-9
        assert perfect.hits(k, rule).mean() * 100 == pytest.approx(perfect.ceiling(k, rule))


@pytest.mark.parametrize("classes", [2, 7, 40])
def test_a_tower_that_says_the_same_of_every_image_and_class_scores_chance(classes):
    target = np.repeat(np.arange(classes), 3)
    found = classify(torch.ones(len(target), 4), torch.ones(classes, 4) / 2, target)
    for k in (1, 5):
        assert found.score(f"top-{k}").mean() == pytest.approx(found.chance(k))
        assert found.chance(k) == pytest.approx(100 * min(k, classes) / classes)
    # By the published rule too: the first class is always right about its own images.
    assert found.score("top-1", "first").mean() == pytest.approx(100 / classes)
    assert found.score("mean per class").mean() == pytest.approx(100 / classes)


def test_the_mean_per_class_weighs_classes_alike():
    """Nine images of class 0 are right and the one of class 1 is wrong."""
    images = torch.tensor([[1.0, 0]] * 10)
    found = classify(images, torch.eye(2), np.array([0] * 9 + [1]))
    assert found.score("top-1").mean() == 90
    assert found.score("mean per class").mean() == pytest.approx(50)
    # A class without images is none of the mean.
    found = classify(images, torch.tensor([[1.0, 0], [0, 1], [-1, 0]]), np.array([0] * 9 + [1]))
    assert found.score("mean per class").mean() == pytest.approx(50)


def test_images_may_be_half_precision_and_come_in_blocks():
    images, vectors, target = problem(5, 30, 6, 4)
    whole = classify(images, vectors, target)
    for source in (images.numpy().astype(np.float16), iter([images[:7].numpy(), images[7:].numpy()])):
        assert (classify(source, vectors, target).score("top-1") == whole.score("top-1")).all()


EYE = torch.eye(3)


@pytest.mark.parametrize(
    ("go", "says"),
    [
        (lambda: classify(EYE, EYE, np.array([0, 1, 3])), "Targets 0 to 3 came for 3 classes"),
        (lambda: classify(EYE, EYE, np.array([0, 1, -1])), "Targets -1"),
        (lambda: classify(EYE, EYE, np.array([0, 1])), "2 queries"),
        (lambda: classify(EYE, EYE, np.array([0.0, 1, 2])), "whole number"),
        (lambda: classify(EYE, EYE, np.array([], dtype=int)), "whole number"),
        (lambda: classify(EYE, EYE, np.arange(3)).score("top-6"), "no metric 'top-6'"),
        (lambda: classify(EYE, EYE, np.arange(3)).score("top1"), "'top-1' to 'top-5'"),
        (lambda: classify(EYE, EYE, np.arange(3)).hits(6), "k=6"),
        (lambda: check_class_metric("accuracy"), "no metric 'accuracy'"),
        (lambda: check_choice_metric("top-1"), "Use 'accuracy'"),
        (lambda: check_choice_ties(["first", "last"]), "no rule 'last'"),
    ],
)
def test_what_cannot_be_classified_is_refused(go, says):
    with pytest.raises(InputError, match=says):
        go()


def test_the_named_metrics_are_legal():
    assert [check_class_metric(metric) for metric in CLASS_METRICS] == list(CLASS_METRICS)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=6), st.integers(0, 9999))
def test_questions_are_answered_as_a_plain_loop_answers_them(options, seed):
    """Any number of options a question, with ties."""
    generator = np.random.default_rng(seed)
    axes = torch.eye(3)
    images = axes[generator.integers(0, 3, len(options))]
    texts = axes[generator.integers(0, 3, sum(options))]
    answers = np.array([generator.integers(0, count) for count in options])
    found = choose(images, texts, np.array(options), answers)
    start = 0
    for question, count in enumerate(options):
        scores = [float(images[question] @ text) for text in texts[start : start + count]]
        start += count
        right = scores[answers[question]]
        won, tied = right == max(scores), scores.count(right)
        assert found.chosen[question] == int(np.argmax(scores))
        assert found.score()[question] == pytest.approx(100 / tied if won else 0)
        assert found.score(ties="optimistic")[question] == 100 * won
        assert found.score(ties="pessimistic")[question] == 100 * (won and tied == 1)
        assert found.score(ties="first")[question] == 100 * (found.chosen[question] == answers[question])
        assert found.chance[question] == pytest.approx(100 / count)


def test_a_tower_blind_to_the_options_answers_a_quarter_of_the_questions():
    answers = np.random.default_rng(0).integers(0, 4, 50)
    images = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    found = choose(images, torch.ones(200, 8), np.full(50, 4), answers)
    assert found.score() == pytest.approx(np.full(50, 25))
    assert (found.chosen == 0).all()


def test_equal_options_tie_wherever_they_stand():
    generator = torch.Generator().manual_seed(1)
    images, text = torch.randn(300, 64, generator=generator), torch.randn(1, 64, generator=generator)
    texts = torch.cat([text.repeat(1200, 1)])
    assert choose(images, texts, np.full(300, 4), np.full(300, 3)).score() == pytest.approx(np.full(300, 25))


@pytest.mark.parametrize(
    ("options", "answers", "says"),
    [
        ([2, 2], [0, -1], "Question 1 has 2 options and the answer -1.*hidden"),
        ([2, 2], [0, 2], "answer 2"),
        ([1, 3], [0, 2], "Question 0 has 1 options"),
        ([2, 1], [0, 0], "3 options of 2 questions, 4 texts"),
        ([4], [0], "2 images"),
        ([2, 2], [0], "1 answers"),
    ],
)
def test_questions_that_do_not_fit_are_refused(options, answers, says):
    with pytest.raises(InputError, match=says):
        choose(torch.ones(2, 3), torch.ones(4, 3), np.array(options), np.array(answers))


def test_an_option_with_nan_is_refused():
    texts = torch.ones(4, 3)
    texts[2, 1] = float("nan")
    with pytest.raises(InputError, match=r"option texts hold 1 rows .*row 2"):
        choose(torch.ones(2, 3), texts, np.array([2, 2]), np.array([0, 1]))
