import numpy as np
import pytest

from probes.subspaces import averaging_subspace, basis, language_subspace, principal_angles
from workbench.errors import InputError


def test_known_angles():
    plane = np.array([[1.0, 0, 0, 0], [0, 1.0, 0, 0]])
    tilted = np.array([[np.cos(0.3), 0, np.sin(0.3), 0], [0, np.cos(1.1), 0, np.sin(1.1)]])
    found = principal_angles(plane, tilted)
    assert found.degrees == pytest.approx(np.degrees([0.3, 1.1]))
    assert found.overlap == pytest.approx((np.cos(0.3) ** 2 + np.cos(1.1) ** 2) / 2)
    assert (found.ranks, found.d, found.chance) == ((2, 2), 4, 0.5)


def test_rows_need_not_be_orthogonal_and_a_part_lies_in_the_whole():
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((5, 30))
    mixed = generator.standard_normal((9, 5)) @ rows
    same = principal_angles(rows, mixed)
    assert same.ranks == (5, 5)
    assert same.degrees == pytest.approx(0, abs=1e-5)
    part = principal_angles(rows[:2] * [[1.0], [1e-3]], mixed)
    assert part.ranks == (2, 5)
    assert part.overlap == pytest.approx(1)


def test_orthogonal_subspaces_share_nothing():
    assert principal_angles(np.eye(6)[:2], np.eye(6)[2:]).degrees == pytest.approx(90)


def test_random_subspaces_overlap_by_chance():
    generator = np.random.default_rng(0)
    found = [
        principal_angles(generator.standard_normal((12, 96)), generator.standard_normal((20, 96))) for _ in range(40)
    ]
    assert found[0].chance == 20 / 96
    assert np.mean([own.overlap for own in found]) == pytest.approx(20 / 96, rel=0.05)


def test_a_planted_language_offset_is_found_apart_from_what_averaging_removes():
    """Language means differ in two planted directions; single captions scatter in eight others."""
    generator = np.random.default_rng(0)
    n, d = 400, 40
    content = generator.standard_normal((n, d))
    noise = generator.standard_normal((3, n, 8)) @ np.eye(d)[10:18] * 3
    noise -= noise.mean(axis=1, keepdims=True)
    offsets = np.array([[1.0, 0], [0, 1.0], [-1.0, -1.0]]) @ np.eye(d)[:2]
    embeddings = {f"l{k}": content + offsets[k] + noise[k] for k in range(3)}
    language = language_subspace(embeddings)
    assert language.shape == (2, d)
    assert principal_angles(language, np.eye(d)[:2]).degrees == pytest.approx(0, abs=1e-4)
    averaging = averaging_subspace(embeddings, 8)
    assert principal_angles(averaging, np.eye(d)[10:18]).overlap == pytest.approx(1, abs=1e-3)
    assert principal_angles(averaging, language).overlap < 0.01
    np.testing.assert_allclose(averaging @ averaging.T, np.eye(8), atol=1e-12)
    np.testing.assert_array_equal(averaging, averaging_subspace(embeddings, 10)[:8])


def test_bad_input_is_named():
    with pytest.raises(InputError, match="first is zero everywhere"):
        principal_angles(np.zeros((2, 4)), np.eye(4))
    with pytest.raises(InputError, match="lie in 4 and 5 dimensions"):
        principal_angles(np.eye(4)[:2], np.eye(5)[:2])
    with pytest.raises(InputError, match="second holds NaN"):
        principal_angles(np.eye(4), np.full((2, 4), np.nan))
    with pytest.raises(InputError, match="rank=9 came; the differences from the mean have 3 dimensions"):
        averaging_subspace({"en": np.eye(4, 3) + 1, "sw": np.ones((4, 3))}, 9)
    with pytest.raises(InputError, match="1 language came"):
        language_subspace({"en": np.eye(4)})
    assert basis(np.ones((3, 4))).shape == (1, 4)
