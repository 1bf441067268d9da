import numpy as np
import pytest
from scipy import stats

from probes.correlation import correlate
from workbench.errors import InputError


def sides(n=10, slope=0.8, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal(n)
    y = slope * x + generator.standard_normal(n)
    names = [f"l{k}" for k in range(n)]
    return dict(zip(names, x, strict=True)), dict(zip(names, y, strict=True))


def test_coefficients_and_p_are_those_of_scipy():
    x, y = sides(slope=1.0)
    found = correlate(x, y, permutations=20_000)
    a, b = list(x.values()), list(y.values())
    assert found.pearson == pytest.approx(stats.pearsonr(a, b)[0])
    assert found.spearman == pytest.approx(stats.spearmanr(a, b)[0])
    assert found.pearson_p == pytest.approx(stats.pearsonr(a, b)[1], abs=0.02)
    assert found.spearman_p == pytest.approx(stats.spearmanr(a, b)[1], abs=0.02)
    assert (found.n, found.draws, found.exact) == (10, 20_000, False)


def test_few_names_are_tried_in_every_order():
    x = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    found = correlate(x, {"a": 1.0, "b": 4.0, "c": 9.0, "d": 16.0})
    # The order and its mirror image, out of 24.
    assert (found.spearman, found.spearman_p, found.draws, found.exact) == (pytest.approx(1.0), 2 / 24, 24, True)


def test_ties_are_ranked_by_their_mean():
    x = {"a": 1.0, "b": 1.0, "c": 2.0, "d": 3.0, "e": 5.0}
    y = {"e": 1.0, "d": 4.0, "c": 4.0, "b": 6.0, "a": 7.0}
    ordered = [y[name] for name in x]
    assert correlate(x, y).spearman == pytest.approx(stats.spearmanr(list(x.values()), ordered)[0])


def test_leaving_one_out_shows_who_makes_the_correlation():
    x, y = sides(slope=0.0, seed=3)
    x["l4"], y["l4"] = 30.0, 30.0
    found = correlate(x, y)
    assert found.pearson > 0.9
    rest = [name for name in x if name != "l4"]
    expected = stats.pearsonr([x[name] for name in rest], [y[name] for name in rest])[0]
    assert found.without["l4"][0] == pytest.approx(expected)
    assert found.pearson_range[0] == pytest.approx(expected)
    assert found.pearson_range[1] > 0.9
    low, high = found.spearman_range
    assert low <= found.spearman <= high


def test_chance_gives_small_p_as_often_as_p_says():
    small = [correlate(*sides(8, 0.0, seed), permutations=200, seed=seed).pearson_p < 0.2 for seed in range(200)]
    assert np.mean(small) == pytest.approx(0.2, abs=0.09)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "c": 2}, "only one side has b, c"),
        ({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2, "c": 3}, "over 3 names"),
        (dict.fromkeys("abcd", 1.0), dict(zip("abcd", range(4), strict=True)), "first side is 1.0 for every name"),
        (dict(zip("abcd", range(4), strict=True)), {"a": 1, "b": float("nan"), "c": 1, "d": 2}, "second .* for 'b'"),
    ],
)
def test_bad_input_is_named(x, y, message):
    with pytest.raises(InputError, match=message):
        correlate(x, y)
