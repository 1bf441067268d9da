import numpy as np
import pytest
import xarray
from scipy.spatial import distance as scipy_distance
from scipy.stats import pearsonr

from probes._checks import UndefinedWarning
from probes.divergence import (
    divergence_by_depth,
    prevalence_correlation,
    residuals_at,
    tier_gap,
)
from workbench.errors import InputError
from workbench.languages import COMMON_CRAWL_SHARE

TIERS = {"en": "HRL", "de": "HRL", "fr": "HRL", "sw": "LRL", "te": "LRL"}
N, D = 80, 6


def trajectory(depths=3, seed=0, n=N, d=D):
    """HRL stay near the shared content; LRL leave it, further at each depth."""
    generator = np.random.default_rng(seed)
    content = generator.standard_normal((n, 1, d)) + 3
    away = np.array([0.2, 0.2, 0.2, 1.0, 1.5])[:, None, None, None] * (1 + np.arange(depths))[:, None]
    values = content + away * generator.standard_normal((len(TIERS), n, depths, d))
    coords = {"language": list(TIERS), "depth": [1, 2, 6][:depths]}
    return xarray.DataArray(values, dims=("language", "caption", "depth", "feature"), coords=coords)


def test_each_distance_is_its_definition():
    rows = trajectory()
    x, reference = rows.values[3, :, 1], rows.values[0, :, 1]
    expected = {
        "cosine": [scipy_distance.cosine(a, b) for a, b in zip(x, reference, strict=True)],
        "l2": np.linalg.norm(x - reference, axis=1),
        "relative": np.linalg.norm(x - reference, axis=1) / np.linalg.norm(reference, axis=1),
    }
    for name, values in expected.items():
        found = divergence_by_depth(rows, "en", distance=name)  # pyright: ignore[reportArgumentType]
        assert found.languages == ("de", "fr", "sw", "te")
        np.testing.assert_allclose(found.by_caption[2, 1], values, atol=1e-12)
        assert found.means(resamples=10).value[2, 1] == pytest.approx(np.mean(values))
        assert np.isnan(found.shrinkage).all()


def test_whitened_is_one_for_unrelated_captions_and_blind_to_axes():
    generator = np.random.default_rng(0)
    # Correlated features, and an outlier that would drown the others in a shrinkage of the covariance itself.
    axes = (np.eye(D) + 0.5) * [1, 1, 2, 3, 5, 1e4]
    english, other = generator.standard_normal((2, 20_000, D))
    found = divergence_by_depth({"en": english @ axes, "sw": other @ axes}, distance="whitened")
    # sqrt of a mean of chi-squares, so a little below 1 for few features: the mean of chi_d / sqrt(d).
    assert found.means(resamples=2).value[0, 0] == pytest.approx(0.9594, abs=0.01)
    assert found.unrelated[0, 0] == pytest.approx(0.9594, abs=0.01)
    assert 0 <= found.shrinkage[0] < 0.05
    plain = divergence_by_depth({"en": english, "sw": other}, distance="whitened")
    assert plain.by_caption.mean() == pytest.approx(found.by_caption.mean(), rel=0.01)


def test_whitened_works_with_fewer_captions_than_features():
    found = divergence_by_depth(trajectory(n=20, d=50), distance="whitened")
    assert np.isfinite(found.by_caption).all()
    assert (found.shrinkage > 0.05).all()


def test_a_set_is_its_mean_row_without_the_target():
    rows = trajectory()
    found = divergence_by_depth(rows, ["en", "de", "fr"], distance="l2")
    assert found.languages == tuple(TIERS)
    without = rows.values[[0, 2]].mean(axis=0)
    np.testing.assert_allclose(found.by_caption[1], np.linalg.norm(rows.values[1] - without, axis=-1).T)
    whole = rows.values[:3].mean(axis=0)
    np.testing.assert_allclose(found.by_caption[3], np.linalg.norm(rows.values[3] - whole, axis=-1).T)
    kept = divergence_by_depth(rows, ["en", "de", "fr"], distance="l2", leave_out_target=False)
    np.testing.assert_allclose(kept.by_caption[1], np.linalg.norm(rows.values[1] - whole, axis=-1).T)


def test_equal_rows_are_at_distance_zero_exactly():
    rows = trajectory()
    rows.values[3] = rows.values[0]
    for name in ("cosine", "l2", "relative", "whitened"):
        found = divergence_by_depth(rows, distance=name)  # pyright: ignore[reportArgumentType]
        assert (found.by_caption[2] == 0).all()
        assert (found.unrelated[2] > 0.01).all()


def test_unrelated_captions_are_further_than_parallel_ones():
    found = divergence_by_depth(trajectory())
    assert (found.unrelated[:2] > 3 * found.by_caption[:2].mean(-1)).all()


def test_the_gap_is_the_difference_of_tier_means_and_grows_here():
    found = divergence_by_depth(trajectory(), distance="l2")
    gap = tier_gap(found, TIERS)
    mean = found.by_caption.mean(axis=-1)
    np.testing.assert_allclose(gap.value, mean[2:].mean(0) - mean[:2].mean(0))
    assert (gap.low < gap.value).all()
    assert (gap.value < gap.high).all()
    assert (gap.low[1:] > gap.high[:-1]).all()
    same = tier_gap(found, {"de": "HRL", "fr": "LRL", "sw": "HRL", "te": "LRL"}, "LRL", "LRL")
    assert (same.value == 0).all()
    assert (same.low == 0).all()
    assert (same.high == 0).all()


def test_areas_are_mean_heights_over_depth():
    found = divergence_by_depth(trajectory(), distance="l2")
    a, b, c = found.by_caption[0].mean(-1)
    assert found.areas()["de"] == pytest.approx(((a + b) / 2 * 1 + (b + c) / 2 * 4) / 5)
    with pytest.raises(InputError, match="two depths"):
        divergence_by_depth(trajectory(1)).areas()


def test_residuals_are_the_euclidean_distances_of_one_depth():
    rows = trajectory()
    found = residuals_at(rows, 2)
    expected = np.linalg.norm(rows.values[4, :, 1] - rows.values[0, :, 1], axis=1).mean()
    value, low, high = found["te"]
    assert value == pytest.approx(expected)
    assert low < value < high
    assert "en" not in found
    pooled = residuals_at(rows, 2, ["en", "de", "fr"], relative=True)
    assert pooled["en"][0] < pooled["sw"][0] < 1 < 10 * pooled["te"][0]


def test_prevalence_is_log10_of_the_share_without_english():
    residual = {code: 1.0 / (k + 1) for k, code in enumerate(("en", "de", "zh", "ko", "hi", "sw"))}
    found = prevalence_correlation(residual)
    assert found.names == ("de", "zh", "ko", "hi", "sw")
    logs = [np.log10(COMMON_CRAWL_SHARE[code]) for code in found.names]
    assert found.pearson == pytest.approx(pearsonr(logs, [residual[code] for code in found.names])[0])
    with pytest.raises(InputError, match="no prevalence of xx"):
        prevalence_correlation({**residual, "xx": 1.0})
    assert prevalence_correlation(residual, leave_out=()).n == 6


def test_a_constant_reference_has_no_covariance():
    rows = trajectory()
    rows.values[0, :, 0] = 1.0
    with pytest.warns(UndefinedWarning, match="whitened distance at depth 1"):
        found = divergence_by_depth(rows, distance="whitened")
    assert np.isnan(found.by_caption[:, 0]).all()
    assert np.isnan(found.means(resamples=5).low[:, 0]).all()
    assert np.isfinite(found.means(resamples=5).low[:, 1:]).all()
    assert found.areas()["sw"] == pytest.approx(found.by_caption[2, 1:].mean())


def test_bad_input_is_named():
    rows = trajectory()
    with pytest.raises(InputError, match="'en' can't be measured against itself"):
        divergence_by_depth(rows, "en", ["en", "sw"])
    with pytest.raises(InputError, match="no language 'eng'"):
        divergence_by_depth(rows, "eng")
    with pytest.raises(InputError, match="distance='l1'"):
        divergence_by_depth(rows, distance="l1")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="No reference"):
        divergence_by_depth(rows, [])
    with pytest.raises(InputError, match="No measured language has the tier 'MRL'"):
        tier_gap(divergence_by_depth(rows), TIERS, "MRL")
    opposite = {"en": np.eye(3), "de": -np.eye(3), "sw": np.ones((3, 3))}
    with pytest.raises(InputError, match="references of 'sw' at depth 0 cancel out"):
        divergence_by_depth(opposite, ["en", "de"], ["sw"])
    rows.values[3, 5, 1] = 0
    with pytest.raises(InputError, match="1 of 80 rows of 'sw' at depth 2 are zero, the first is caption 5"):
        divergence_by_depth(rows)
    assert divergence_by_depth(rows, depths=[1, 6]).depths == (1, 6)
