import numpy as np
import pytest

from interventions.erasers import RandomAblation, random_ablations
from tests.interventions.erasers.rows import planted
from workbench.errors import InputError


def test_rank_is_that_of_leace_by_default_and_exact_when_given():
    rows, labels = planted()
    assert RandomAblation().fit(rows, labels).rank_ == 3
    for rank in (1, 6, 19):
        fitted = RandomAblation(rank).fit(rows, labels)
        assert np.linalg.matrix_rank(fitted.projector_) == 20 - rank


def test_directions_are_uniform_and_know_nothing_of_the_rows():
    """The share of any fixed direction that is removed is rank / d on average, with a Beta distribution's spread."""
    rows, labels = planted()
    fixed = np.eye(20)[0]
    shares = [np.square(RandomAblation(5, seed=seed).fit(rows, labels).right_ @ fixed).sum() for seed in range(400)]
    mean, variance = 5 / 20, 2 * 5 * 15 / (20**2 * 22)
    assert abs(np.mean(shares) - mean) < 4 * np.sqrt(variance / 400)
    assert np.var(shares) == pytest.approx(variance, rel=0.35)
    other, _ = planted(seed=9)
    np.testing.assert_array_equal(
        RandomAblation(5).fit(rows, labels).right_, RandomAblation(5).fit(other, labels).right_
    )


def test_a_smaller_rank_is_a_part_of_a_larger_one_and_seeds_differ():
    rows, labels = planted()
    small, large = (RandomAblation(rank, seed=2).fit(rows, labels) for rank in (4, 9))
    np.testing.assert_allclose(np.linalg.norm(small.right_ @ large.right_.T, axis=1), 1, atol=1e-12)
    assert not np.allclose(small.right_, RandomAblation(4, seed=3).fit(rows, labels).right_)


def test_several_draws():
    draws = random_ablations(7)
    assert [draw.seed for draw in draws] == [0, 1, 2, 3, 4]
    assert {draw.rank for draw in draws} == {7}
    assert len({draw.label for draw in draws}) == 5
    with pytest.raises(InputError, match="2 or more"):
        random_ablations(7, 1)
    with pytest.raises(InputError, match="whole number from 1 to 19"):
        RandomAblation(20).fit(*planted())
