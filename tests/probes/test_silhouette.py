import tracemalloc

import numpy as np
import pytest
import torch
import xarray
from sklearn.metrics import silhouette_samples, silhouette_score

from probes import silhouette as module
from probes._checks import UndefinedWarning
from probes.silhouette import distinct_captions, silhouette_by_depth, silhouette_scores
from workbench.arrays import PrecisionWarning
from workbench.errors import InputError

METRICS = ["cosine", "euclidean"]


def clouds(counts=(40, 25, 35), d=16, apart=1.0, seed=0):
    generator = np.random.default_rng(seed)
    centres = apart * generator.standard_normal((len(counts), d))
    labels = np.repeat([f"lang{k}" for k in range(len(counts))], counts)
    points = np.repeat(centres, counts, axis=0) + generator.standard_normal((len(labels), d)) + 0.5
    order = generator.permutation(len(labels))
    return points[order], labels[order]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("apart", [0.0, 0.5, 5.0])
def test_it_equals_scikit_learn(metric, apart):
    points, labels = clouds(apart=apart)
    found = silhouette_scores(points, labels, metric)
    np.testing.assert_allclose(found.values, np.asarray(silhouette_samples(points, labels, metric=metric)), atol=1e-9)
    assert found.score == pytest.approx(silhouette_score(points, labels, metric=metric), abs=1e-9)
    for label, mean in found.by_label.items():
        assert mean == pytest.approx(found.values[labels == label].mean())
    assert (found.n, found.d, found.metric) == (100, 16, metric)


@pytest.mark.parametrize("metric", METRICS)
def test_single_points_far_clouds_and_doubles_are_as_in_scikit_learn(metric):
    points, labels = clouds((30, 1, 30), d=4)
    points += 1000  # far from the origin, where squares are large and distances small
    points[5] = points[6]
    found = silhouette_scores(points, labels, metric)
    # scikit-learn does not centre, and loses digits here.
    np.testing.assert_allclose(found.values, np.asarray(silhouette_samples(points, labels, metric=metric)), atol=1e-6)
    assert found.values[labels == "lang1"] == 0
    same = silhouette_scores(np.ones((4, 3)), [0, 0, 1, 1], metric)
    assert same.values == pytest.approx(0, abs=1e-7)


def test_a_known_answer():
    points = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    assert silhouette_scores(points, ["x", "x", "y", "y"]).values.tolist() == [1, 1, 1, 1]
    euclid = silhouette_scores(points, ["x", "x", "y", "y"], "euclidean")
    b = (np.sqrt(2) + np.sqrt(10)) / 2
    assert euclid.values[0] == pytest.approx((b - 1) / b)


def test_cosine_and_euclidean_differ_on_unit_vectors():
    points, labels = clouds(apart=0.1)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    assert silhouette_scores(points, labels).score != pytest.approx(
        silhouette_scores(points, labels, "euclidean").score, abs=1e-3
    )


def test_blocks_change_nothing_and_bound_the_memory(monkeypatch):
    points, labels = clouds((300, 400, 500), d=8)
    whole = silhouette_scores(points, labels, "euclidean").values
    for block in (700, 5000):
        monkeypatch.setattr(module, "_BLOCK", block)
        np.testing.assert_allclose(silhouette_scores(points, labels, "euclidean").values, whole, atol=1e-12)
    monkeypatch.setattr(module, "_BLOCK", 2**15)
    points, labels = clouds((1500, 1500), d=4)
    tracemalloc.start()
    silhouette_scores(points, labels, "euclidean")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3000 * 3000 * 8 / 20  # a distance matrix would be 72 MB


@pytest.mark.parametrize("metric", METRICS)
def test_zero_rows_are_an_error(metric):
    points, labels = clouds()
    points[[7, 9]] = 0
    with pytest.raises(InputError, match="2 of 100 rows are zero, the first is row 7"):
        silhouette_scores(points, labels, metric)


@pytest.mark.parametrize(
    ("points", "labels", "message"),
    [
        (np.eye(4), [0, 0, 0, 0], "1 class"),
        (np.eye(4), [0, 1, 2, 3], "Each of the 4 points has a label of its own"),
        (np.eye(4), [0, 0, 1], "for 4 rows"),
        (np.full((4, 2), np.nan), [0, 0, 1, 1], "NaN"),
        (np.ones(4), [0, 0, 1, 1], r"shape \(4,\)"),
        (np.full((4, 2), 1e200), [0, 0, 1, 1], "overflows"),
    ],
)
def test_bad_input_is_named(points, labels, message):
    with pytest.raises(InputError, match=message):
        silhouette_scores(points, labels)
    with pytest.raises(InputError, match="'cosine' or 'euclidean'"):
        silhouette_scores(np.eye(4), [0, 0, 1, 1], "manhattan")  # pyright: ignore[reportArgumentType]


def test_half_precision_is_said():
    points, labels = clouds()
    with pytest.warns(PrecisionWarning, match="float16"):
        found = silhouette_scores(torch.tensor(points, dtype=torch.float16), list(labels))
    assert found.score == pytest.approx(silhouette_scores(points, labels).score, abs=1e-3)


def trajectory(depths=3, n=50, d=12):
    """Languages move apart as depth grows."""
    generator = np.random.default_rng(0)
    content = generator.standard_normal((n, 1, d))
    offset = generator.standard_normal((3, 1, 1, d)) * np.arange(depths)[:, None]
    values = content + offset + 0.3 * generator.standard_normal((3, n, depths, d))
    coords = {"language": ["en", "sw", "te"], "depth": range(depths)}
    return xarray.DataArray(values, dims=("language", "caption", "depth", "feature"), coords=coords)


@pytest.mark.parametrize("metric", METRICS)
def test_each_depth_is_the_plain_function_and_separation_grows(metric):
    rows = trajectory()
    found = silhouette_by_depth(rows, metric=metric, groups=10)
    for k in range(3):
        labels = np.repeat(found.languages, 50)
        plain = silhouette_scores(rows.values[:, :, k].reshape(150, -1), labels, metric)
        assert found.overall[k] == pytest.approx(plain.score)
        assert found.value[k] == pytest.approx([plain.by_label[code] for code in found.languages])
    assert found.overall[0] < 0 < found.overall[1] < found.overall[2]
    assert (found.low < found.value).all()
    assert (found.overall < found.overall_high).all()
    assert (found.overall_low[1:] > found.overall[:-1]).all()
    again = silhouette_by_depth(rows, metric=metric, groups=10)
    assert again.low.tobytes() == found.low.tobytes()


def test_where_all_rows_are_the_same_there_is_no_silhouette():
    rows = trajectory()
    rows.values[:, :, 0] = rows.values[0, 0, 0]
    with pytest.warns(UndefinedWarning, match="silhouette at depth 0"):
        found = silhouette_by_depth(rows, groups=0)
    assert np.isnan(found.value[0]).all()
    assert np.isfinite(found.value[1:]).all()
    assert np.isnan(found.low).all()


def test_distinct_captions_keep_the_first_of_each_text():
    kept = distinct_captions(
        {"en": ["cat", "dog", "cat"], "de": ["Hund", "cat", "Hund"], "fr": ["dog", "chat", "Hund"]}
    )
    assert {code: mask.tolist() for code, mask in kept.items()} == {
        "en": [True, True, False], "de": [True, False, False], "fr": [False, True, False],
    }  # fmt: skip


def rescaled(points: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return points * generator.uniform(0.1, 9.0, (len(points), 1))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("seed", range(25))
def test_rows_that_coincide_nearly_or_wholly_stay_within_bounds_and_agree_with_scikit_learn(metric, seed):
    """Doubles, scaled copies, antipodes, last bits apart: where a difference of large numbers would be all rounding."""
    generator = np.random.default_rng(seed)
    d, labels = int(generator.integers(2, 40)), int(generator.integers(2, 5))
    few = generator.standard_normal((int(generator.integers(1, 6)), d)) * 10.0 ** generator.integers(-3, 4)
    few = np.concatenate([few, -few, few * (1 + 1e-9 * generator.standard_normal(few.shape))])
    points = few[generator.integers(0, len(few), 60)]
    if metric == "cosine":
        points = rescaled(points, generator)
    codes = np.concatenate([np.arange(labels), generator.integers(0, labels, 60 - labels)])
    found = silhouette_scores(points, codes, metric)
    assert np.isfinite(found.values).all()
    assert np.abs(found.values).max() <= 1
    from scipy.spatial.distance import cdist

    # Distances of unit vectors, or of points, from their differences: nothing cancels.
    units = points / np.linalg.norm(points, axis=1, keepdims=True) if metric == "cosine" else points
    apart = cdist(units, units)
    apart[apart < 1e-14 * np.abs(units).max()] = 0
    exact = np.asarray(silhouette_samples(apart**2 / 2 if metric == "cosine" else apart, codes, metric="precomputed"))
    np.testing.assert_allclose(found.values, exact, atol=1e-4)
    for label, own in [(label, points[codes == label]) for label in range(labels)]:
        assert -1 <= found.by_label[str(label)] <= 1, own


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("d", [2, 3, 96, 1024])
def test_labels_on_one_point_score_zero(metric, d):
    generator = np.random.default_rng(d)
    one = np.repeat(generator.standard_normal((1, d)), 40, axis=0)
    other = np.repeat(generator.standard_normal((1, d)), 20, axis=0)
    if metric == "cosine":
        one = rescaled(one, generator)
    for points, codes in (
        (one, np.arange(40) % 2),
        (np.concatenate([one, other]), [*(np.arange(40) % 2), *np.full(20, 2)]),
    ):
        values = silhouette_scores(points, np.asarray(codes), metric).values
        assert (values[:40] == 0).all()
    assert (values[40:] == 1).all()
