import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from workbench.errors import InputError
from workbench.retrieval import (
    DIFFERENCE,
    METRICS,
    TIES,
    Bootstrap,
    Ranks,
    Ties,
    alike,
    by_image,
    rank,
    rank_and_top,
    settle,
    similarities,
    top_images,
    top_k,
    unit,
)


def exact(rows: list[list[int]]) -> torch.Tensor:
    """Small whole numbers: their products are exact in float32, so that equal means equal."""
    return torch.tensor(rows, dtype=torch.float32)


@st.composite
def problems(draw, max_images: int = 6, max_own: int = 3) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Captions, images and owners, in any order, with many ties; each image has at least one caption."""
    n_images = draw(st.integers(1, max_images))
    counts = draw(st.lists(st.integers(1, max_own), min_size=n_images, max_size=n_images))
    owner = draw(st.permutations([image for image, count in enumerate(counts) for _ in range(count)]))
    row = st.lists(st.integers(-1, 1), min_size=2, max_size=2)
    texts = draw(st.lists(row, min_size=len(owner), max_size=len(owner)))
    gallery = draw(st.lists(row, min_size=n_images, max_size=n_images))
    return exact(texts), exact(gallery), torch.tensor(owner)


@settings(max_examples=150, deadline=None)
@given(problems())
def test_ranks_equal_those_of_a_plain_loop(problem):
    texts, gallery, owner = problem
    found = rank(texts, gallery, owner)
    score = [[float(text @ image) for image in gallery] for text in texts]
    for caption, own in enumerate(owner.tolist()):
        others = [score[caption][image] for image in range(len(gallery)) if image != own]
        assert found["t2i"].better[caption] == sum(other > score[caption][own] for other in others)
        assert found["t2i"].tied[caption] == sum(other == score[caption][own] for other in others)
    for image in range(len(gallery)):
        best = max(score[caption][image] for caption in range(len(texts)) if owner[caption] == image)
        rivals = [score[caption][image] for caption in range(len(texts)) if owner[caption] != image]
        assert found["i2t"].better[image] == sum(rival > best for rival in rivals)
        assert found["i2t"].tied[image] == sum(rival == best for rival in rivals)
        own = sum(score[caption][image] == best for caption in range(len(texts)) if owner[caption] == image)
        assert (1 if found["i2t"].own is None else found["i2t"].own[image]) == own


@pytest.mark.parametrize("better", [0, 1, 3])
@pytest.mark.parametrize("tied", [0, 1, 2, 4])
def test_expected_scores_are_the_mean_over_every_order_of_the_tied(better, tied):
    places = [better + 1 + order.index(0) for order in itertools.permutations(range(tied + 1))]
    ranks = Ranks(np.array([better]), np.array([tied]))
    for k in (1, 2, 3, 5, 10):
        expected = Fraction(sum(place <= k for place in places), len(places))
        assert ranks.score(f"R@{k}")[0] == pytest.approx(100 * float(expected), abs=1e-12)
    expected = sum(Fraction(1, place) for place in places) / len(places)
    assert ranks.score("MRR")[0] == pytest.approx(100 * float(expected), abs=1e-12)
    assert ranks.score("MRR", "optimistic")[0] == pytest.approx(100 / min(places))
    assert ranks.score("MRR", "pessimistic")[0] == pytest.approx(100 / max(places))


@pytest.mark.parametrize("better", [0, 1, 3])
@pytest.mark.parametrize("others", [0, 1, 3])
@pytest.mark.parametrize("own", [1, 2, 3])
def test_expected_scores_of_several_targets_that_tie_are_means_over_every_order(better, others, own):
    """The first of them counts: hits, reciprocal ranks, and reciprocal ranks cut at k."""
    orders = list(itertools.permutations(range(own + others)))
    places = [better + 1 + min(order.index(target) for target in range(own)) for order in orders]
    ranks = Ranks(np.array([better, 0]), np.array([others, 0]), np.array([own, 1]))
    for k in (1, 2, 3, 4, 5, 10):
        hits = Fraction(sum(place <= k for place in places), len(places))
        assert ranks.score(f"R@{k}").tolist() == pytest.approx([100 * float(hits), 100], abs=1e-12)
        cut = sum(Fraction(1, place) for place in places if place <= k) / len(places)
        assert ranks.score(f"MRR@{k}").tolist() == pytest.approx([100 * float(cut), 100], abs=1e-12)
    whole = sum(Fraction(1, place) for place in places) / len(places)
    assert ranks.score("MRR")[0] == pytest.approx(100 * float(whole), abs=1e-12)
    ends: dict[Ties, int] = {"optimistic": better + 1, "pessimistic": better + others + 1}
    for ties, end in ends.items():
        assert ranks.score("MRR", ties)[0] == pytest.approx(100 / end)
        assert ranks.score(f"MRR@{end}", ties)[0] == pytest.approx(100 / end)
        assert ranks.score(f"MRR@{end}", ties)[0] == ranks.score("MRR", ties)[0]
        assert end == 1 or ranks.score(f"MRR@{end - 1}", ties)[0] == 0


@settings(max_examples=60, deadline=None)
@given(problems(max_images=8))
def test_optimistic_is_never_below_expected_nor_expected_below_pessimistic(problem):
    for ranks in rank(*problem).values():
        for metric in METRICS:
            high, middle, low = (ranks.score(metric, ties) for ties in TIES)
            assert (high >= middle - 1e-9).all()
            assert (middle >= low - 1e-9).all()
            assert ((low >= 0) & (high <= 100)).all()
            untied = ranks.tied == 0
            assert np.allclose(high[untied], low[untied])


@pytest.mark.parametrize("m", [2, 7, 100])
def test_a_tower_that_gives_every_image_the_same_embedding_scores_chance(m):
    generator = torch.Generator().manual_seed(m)
    texts = unit(torch.randn(m, 16, generator=generator), "texts")
    gallery = unit(torch.randn(1, 16, generator=generator), "images").repeat(m, 1)
    found = rank(texts, gallery, torch.arange(m))
    assert found["t2i"].score("R@1") == pytest.approx(np.full(m, 100 / m))
    assert found["t2i"].score("R@1", "optimistic").tolist() == [100] * m
    assert found["t2i"].score("R@1", "pessimistic").tolist() == [0] * m
    assert found["i2t"].score("R@1").mean() == pytest.approx(100 / m)


def test_a_tower_that_gives_everything_the_same_embedding_scores_chance_both_ways():
    same = unit(torch.ones(5, 4), "rows")
    for ranks in rank(same, same, torch.arange(5)).values():
        assert ranks.score("R@1") == pytest.approx(np.full(5, 20.0))
        assert ranks.score("R@5") == pytest.approx(np.full(5, 100.0))
        assert ranks.score("MRR") == pytest.approx(np.full(5, 100 * sum(1 / k for k in range(1, 6)) / 5))


def test_a_perfect_tower_ranks_all_first():
    eye = torch.eye(6)
    for ranks in rank(eye, eye, torch.arange(6)).values():
        for metric in METRICS:
            assert ranks.score(metric, "pessimistic").tolist() == [100] * 6


def test_captions_in_another_order_than_the_images_keep_their_owners():
    generator = torch.Generator().manual_seed(0)
    texts, gallery = torch.randn(9, 5, generator=generator), torch.randn(9, 5, generator=generator)
    order = torch.randperm(9, generator=generator)
    plain, shuffled = (
        rank(texts, gallery, torch.arange(9)),
        rank(texts[order], gallery, torch.arange(9)[order]),
    )
    assert shuffled["i2t"].better.tolist() == plain["i2t"].better.tolist()
    assert shuffled["t2i"].better.tolist() == plain["t2i"].better[order].tolist()


def test_the_best_own_caption_counts_and_the_other_own_ones_do_not_compete():
    # Image 0 has captions at similarity 3, 3 and 2; the rivals reach 3 and 1.
    texts, gallery = exact([[3, 0], [3, 1], [2, 0], [3, 5], [1, 9]]), exact([[1, 0], [0, 1]])
    found = rank(texts, gallery, torch.tensor([0, 0, 0, 1, 1]))["i2t"]
    assert (found.better.tolist(), found.tied.tolist()) == ([0, 0], [1, 0])
    assert found.own is not None
    assert found.own.tolist() == [2, 1]
    # Two of the three that share the first place are image 0's own.
    assert found.score("R@1").tolist() == pytest.approx([200 / 3, 100])


@pytest.mark.parametrize(("images", "each"), [(4, 1), (4, 3), (7, 2)])
def test_a_constant_scorer_gets_exactly_chance_however_many_captions_an_image_has(images, each):
    owner = torch.arange(images).repeat(each)
    same = unit(torch.ones(1, 8), "rows")
    found = rank(same.repeat(len(owner), 1), same.repeat(images, 1), owner)
    assert found["i2t"].score("R@1") == pytest.approx(np.full(images, 100 / images))
    assert found["t2i"].score("R@1") == pytest.approx(np.full(len(owner), 100 / images))


def test_a_better_rival_pushes_an_image_down_however_many_captions_it_has():
    texts, gallery = exact([[1, 0], [1, 0], [2, 0], [0, 7]]), exact([[1, 0], [0, 1]])
    found = rank(texts, gallery, torch.tensor([0, 0, 1, 1]))["i2t"]
    assert (found.better.tolist(), found.tied.tolist()) == ([1, 0], [0, 0])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 0.0])
def test_rows_without_a_direction_are_refused_and_the_first_is_named(bad):
    rows = torch.ones(6, 3)
    rows[4] = rows[2] = bad
    with pytest.raises(InputError, match=r"The images of emoji-36 hold 2 rows .*first is row 2"):
        unit(rows, "images of emoji-36")


def test_one_nan_in_a_row_is_enough():
    rows = torch.ones(6, 3)
    rows[5, 1] = float("nan")
    with pytest.raises(InputError, match=r"1 rows .*row 5"):
        unit(rows, "texts")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_unit_rows_are_float32_of_length_one_whatever_came(dtype):
    # In half precision the squares of 300 overflow; the norm is taken after the widening.
    rows = torch.tensor([[300.0, -400.0], [0.03, 0.04]], dtype=dtype)
    found = unit(rows, "rows")
    assert found.dtype == torch.float32
    assert torch.allclose(found, torch.tensor([[0.6, -0.8], [0.6, 0.8]]), atol=4e-3)
    assert torch.allclose(found.norm(dim=-1), torch.ones(2))


def test_unit_leaves_its_input_alone_and_takes_any_leading_shape():
    rows = torch.arange(1.0, 25.0).reshape(2, 3, 4)
    before = rows.clone()
    assert unit(rows, "rows").shape == (2, 3, 4)
    assert torch.equal(rows, before)


def test_an_unknown_rule_for_ties_is_refused_and_the_nearest_is_named():
    with pytest.raises(InputError, match=r"'optimist'.*Did you mean 'optimistic'"):
        Ranks(np.zeros(3, int), np.zeros(3, int)).score("R@1", "optimist")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("wrong", ["R@0", "R@-1", "R@", "R@1.5", "R@²", "r@1", "mrr", "MRR@0", "NDCG", ""])
def test_an_unknown_metric_is_refused_and_the_legal_ones_are_named(wrong):
    with pytest.raises(InputError, match=r"'MRR' or 'R@k'.*'R@5'"):
        Ranks(np.zeros(3, int), np.zeros(3, int)).score(wrong)


def test_top_images_lists_the_nearest_first_and_no_more_than_there_are():
    texts, gallery = exact([[1, 0], [0, 1]]), exact([[1, 0], [3, 1], [2, 5]])
    assert top_images(texts, gallery, 2).tolist() == [[1, 2], [2, 1]]
    assert top_images(texts, gallery, 99).tolist() == [[1, 2, 0], [2, 1, 0]]


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 12).flatmap(lambda n: st.lists(st.lists(st.integers(-2, 2), min_size=n, max_size=n), min_size=1)),
    st.integers(0, 14),
)
def test_the_top_is_that_of_a_stable_sort(rows, k):
    """Of the tied, the lowest id comes first, also at the last place, where not all of them fit."""
    values, found = top_k(exact(rows), k)
    for row, ids, tops in zip(rows, found.tolist(), values.tolist(), strict=True):
        assert ids == sorted(range(len(row)), key=lambda candidate: -row[candidate])[:k]
        assert tops == [row[candidate] for candidate in ids]


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(0, 7))
def test_one_matrix_gives_the_ranks_and_the_top(problem, k):
    texts, gallery, owner = problem
    ranks, top = rank_and_top(texts, gallery, owner, k)
    for direction, found in rank(*problem).items():
        assert (found.better == ranks[direction].better).all()
        assert (found.tied == ranks[direction].tied).all()
    assert top.dtype == np.int32
    assert top.tolist() == top_images(problem[0], problem[1], k).tolist()


@pytest.mark.parametrize("width", [1, 2, 3, 16])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_alike_names_the_first_row_with_the_same_bits(width, dtype):
    generator = np.random.default_rng(width)
    rows = generator.normal(size=(40, width)).astype(dtype)
    rows[::2] = rows[0]
    rows[[5, 11]] = rows[3]
    rows[7] = rows[3]
    rows[7, -1] = np.nextafter(rows[7, -1], dtype(9))  # one last bit
    expected = [next(k for k in range(40) if rows[k].tobytes() == row.tobytes()) for row in rows]
    assert alike(rows).tolist() == expected
    assert expected[7] == 7


def test_captions_with_the_same_tokens_are_settled_unless_they_were_patched_apart():
    generator = torch.Generator().manual_seed(9)
    tokens = np.array([[0, 5, 2], [0, 7, 2], [0, 5, 2], [0, 5, 2], [0, 7, 2]])
    first = alike(tokens)
    assert first.tolist() == [0, 1, 0, 0, 1]
    clean = torch.randn(2, 5, 8, generator=generator)[:, first]
    noisy = clean * (1 + 1e-6 * torch.randn(clean.shape, generator=generator))
    noisy[1, 4] += 0.01
    found = settle(noisy, first)
    assert torch.equal(found[0], noisy[0, first])
    assert torch.equal(found[1, :4], noisy[1, first[:4]])
    assert torch.equal(found[1, 4], noisy[1, 4])
    assert settle(clean, range(5)) is clean


def test_rows_with_the_same_bits_get_the_same_similarities_whatever_the_product_gave(monkeypatch):
    """A product that adds a last bit here and there, as one that handles its edges apart does."""
    generator = torch.Generator().manual_seed(8)
    texts = unit(torch.randn(4, 8, generator=generator), "texts")[[0, 1, 2, 3, 1, 1]]
    gallery = unit(torch.randn(3, 8, generator=generator), "images")[[0, 1, 2, 0]]
    plain = torch.Tensor.__matmul__

    def uneven(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        found = plain(left, right)
        return found * (1 + 1e-6 * torch.arange(found.numel()).reshape(found.shape))

    monkeypatch.setattr(torch.Tensor, "__matmul__", uneven)
    found = similarities(texts, gallery)
    assert torch.equal(found[1], found[4])
    assert torch.equal(found[1], found[5])
    assert torch.equal(found[:, 0], found[:, 3])
    assert not torch.equal(found[0], found[1])
    assert rank(texts, gallery, torch.tensor([3, 1, 2, 0, 1, 1]))["t2i"].tied[[0, 3]].tolist() == [1, 1]


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(0, 2))
def test_by_image_averages_the_captions_of_each_image(problem, leading):
    owner = problem[2].numpy()
    n_images = int(owner.max()) + 1
    scores = np.random.default_rng(0).normal(size=(2,) * leading + (len(owner),))
    expected = np.stack([scores[..., owner == image].mean(-1) for image in range(n_images)], axis=-1)
    found = by_image(scores, owner, n_images)
    assert found.shape == (*scores.shape[:-1], n_images)
    assert np.allclose(found, expected)


def test_by_image_weighs_images_alike_however_many_captions_they_have():
    scores, owner = np.array([100.0, 0.0, 0.0, 0.0]), np.array([1, 0, 0, 0])
    assert by_image(scores, owner, 2).tolist() == [0, 100]


def test_the_interval_of_two_equal_arms_is_exactly_zero():
    scores = np.random.default_rng(1).uniform(0, 100, 300)
    bootstrap = Bootstrap(300)
    low, high = bootstrap.interval(bootstrap.means(scores) - bootstrap.means(scores.copy()))
    assert (low, high) == (0, 0)
    low, high = bootstrap.interval(bootstrap.means(scores - scores.copy()))
    assert (low, high) == (0, 0)


def test_both_arms_see_the_same_resamples():
    """A constant lift has an interval of no width, however much images differ from one another."""
    scores = np.random.default_rng(2).uniform(0, 100, 50)
    bootstrap = Bootstrap(50, resamples=200)
    low, high = bootstrap.interval(bootstrap.means(scores + 7) - bootstrap.means(scores))
    assert low == pytest.approx(7)
    assert high == pytest.approx(7)
    low, high = bootstrap.interval(bootstrap.means(scores))
    assert high - low > 5


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    scores = np.random.default_rng(3).uniform(0, 100, 40)
    ends = [Bootstrap(40, seed=seed).interval(Bootstrap(40, seed=seed).means(scores)) for seed in (5, 5, 6)]
    assert ends[0] == ends[1]
    assert ends[0] != ends[2]


def test_a_resample_draws_as_many_images_as_there_are():
    bootstrap = Bootstrap(10, resamples=500, seed=1)
    drawn = bootstrap.weights * 10
    assert np.allclose(drawn, drawn.round())
    assert np.allclose(drawn.sum(axis=1), 10)
    # Each image is drawn once on average, and left out of about (1 - 1/10)^10 of the resamples.
    assert np.allclose(drawn.mean(axis=0), 1, atol=0.2)
    assert (drawn == 0).mean() == pytest.approx(0.9**10, abs=0.03)


def test_means_are_those_of_the_drawn_images():
    scores = np.random.default_rng(4).normal(size=(3, 12))
    bootstrap = Bootstrap(12, resamples=20)
    found = bootstrap.means(scores)
    for resample, weights in enumerate(bootstrap.weights):
        drawn = np.repeat(np.arange(12), (weights * 12).round().astype(int))
        assert np.allclose(found[:, resample], scores[:, drawn].mean(axis=1))


def test_an_interval_covers_the_true_mean_about_as_often_as_it_says():
    generator = np.random.default_rng(5)
    trials = generator.exponential(size=(400, 60))
    bootstrap = Bootstrap(60, resamples=400)
    low, high = bootstrap.interval(bootstrap.means(trials))
    covered = ((low <= 1) & (high >= 1)).mean()
    # A percentile bootstrap of 60 skewed values covers a little less than its 95 %.
    assert 0.88 <= covered <= 0.98
    narrow = Bootstrap(60, resamples=400, level=0.5)
    low, high = narrow.interval(narrow.means(trials))
    assert 0.42 <= ((low <= 1) & (high >= 1)).mean() <= 0.58


def test_the_width_of_an_interval_is_that_of_the_standard_error():
    scores = np.random.default_rng(6).normal(size=2000)
    bootstrap = Bootstrap(2000, resamples=1000)
    low, high = bootstrap.interval(bootstrap.means(scores))
    assert high - low == pytest.approx(2 * 1.96 * scores.std() / 2000**0.5, rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"n": 1}, "at least 2 images; 1 came"),
        ({"n": 0}, "at least 2 images; 0 came"),
        ({"n": 5, "resamples": 0}, "resamples=0"),
        ({"n": 5, "level": 1.0}, "level=1.0"),
        ({"n": 5, "level": 95}, "level=95"),
        ({"n": 5, "level": 0.0}, "level=0.0"),
    ],
)
def test_an_impossible_interval_is_refused(arguments, says):
    with pytest.raises(InputError, match=says):
        Bootstrap(**arguments)


@pytest.mark.parametrize("n", [50, 200])
@pytest.mark.parametrize("rate", [0.5, 0.9, 0.95, 0.98, 0.99, 0.999])
def test_an_interval_covers_the_true_rate_also_near_the_ends(n, rate):
    """A plain percentile bootstrap covers 98 % at n = 50 in 65 of 100 samples, and 99.9 % in 5."""
    draws = np.random.default_rng(n).random((2000, n)) < rate
    bootstrap = Bootstrap(n)
    for share, truth in ((draws, 100 * rate), (~draws, 100 - 100 * rate)):
        low, high = bootstrap.mean_interval(100.0 * share)
        assert ((low <= truth) & (truth <= high)).mean() > 0.9
        assert (low < high).all()


@pytest.mark.parametrize(("up", "down"), [(0.02, 0.0), (0.02, 0.02), (0.05, 0.01), (0.3, 0.1), (0.97, 0.0)])
def test_an_interval_of_a_lift_covers_it_when_few_images_changed(up, down):
    draw = np.random.default_rng(3).random((2000, 60))
    lifts = 100.0 * ((draw < up).astype(float) - ((draw >= up) & (draw < up + down)))
    low, high = Bootstrap(60).mean_interval(lifts, DIFFERENCE)
    truth = 100 * (up - down)
    assert ((low <= truth) & (truth <= high)).mean() > 0.9
    assert (low < high).all()


def test_a_score_that_all_images_share_has_an_interval_up_to_it():
    low, high = Bootstrap(50).mean_interval(np.full(50, 100.0))
    assert high == 100
    # Jeffreys' interval of 50 of 50.
    assert low == pytest.approx(100 * beta(50.5, 0.5).ppf(0.025), abs=0.4)


def test_images_that_differ_enough_keep_the_plain_percentile_interval():
    bootstrap = Bootstrap(60)
    for scores in (np.random.default_rng(0).uniform(0, 100, 60), 100.0 * (np.arange(60) < 20)):
        assert bootstrap.mean_interval(scores) == bootstrap.interval(bootstrap.means(scores))
