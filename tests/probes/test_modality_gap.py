import numpy as np
import pytest

from probes.modality_gap import centroid_cosine, measure_modality_gap
from workbench.errors import InputError
from workbench.retrieval import Bootstrap

N, D = 120, 16


def clouds(gap=2.0, seed=0):
    generator = np.random.default_rng(seed)
    content = generator.standard_normal((N, D))
    images = content + gap * np.eye(D)[0]
    texts = {
        "en": content + 0.5 * generator.standard_normal((N, D)),
        "sw": content + 2.0 * generator.standard_normal((N, D)) - gap * np.eye(D)[0],
    }
    return images, texts


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_raw_and_relative_are_their_formulas():
    images, texts = clouds()
    found = measure_modality_gap(images, texts, resamples=50)
    v, z = unit(images), unit(texts["sw"])
    raw = np.linalg.norm(v.mean(0) - z.mean(0))
    spreads = [np.linalg.norm(own - own.mean(0), axis=1).mean() for own in (v, z)]
    assert found.languages == ("en", "sw")
    assert found.raw.value[1] == pytest.approx(raw)
    assert found.image_spread == pytest.approx(spreads[0])
    assert found.text_spread[1] == pytest.approx(spreads[1])
    assert found.relative.value[1] == pytest.approx(raw / np.mean(spreads))
    assert found.raw.value[1] > found.raw.value[0] > 0
    assert (found.n, found.d) == (N, D)


def test_intervals_are_those_of_resampled_images():
    images, texts = clouds()
    found = measure_modality_gap(images, texts, resamples=200, seed=4)
    v, z = unit(images), unit(texts["en"])
    draws = []
    for weights in Bootstrap(N, 200, 4).weights:
        rows = np.repeat(np.arange(N), np.round(weights * N).astype(int))
        draws.append(np.linalg.norm(v[rows].mean(0) - z[rows].mean(0)))
    assert found.raw.low[0] == pytest.approx(np.quantile(draws, 0.025))
    assert found.raw.high[0] == pytest.approx(np.quantile(draws, 0.975))
    assert (found.relative.low < found.relative.value).all()


def test_images_beside_themselves_have_no_gap_and_scale_does_not_matter():
    images, texts = clouds()
    same = measure_modality_gap(images, {"en": 7 * images}, resamples=20)
    assert same.raw.value[0] == pytest.approx(0, abs=1e-12)
    assert same.raw.high[0] == pytest.approx(0, abs=1e-12)
    scaled = measure_modality_gap(3 * images, {code: 5 * own for code, own in texts.items()}, resamples=2)
    np.testing.assert_allclose(scaled.raw.value, measure_modality_gap(images, texts, resamples=2).raw.value)


def test_centroid_times_length_is_the_mean_exactly():
    """The identity of H-18, for each image."""
    images, texts = clouds()
    found = centroid_cosine(images, texts)
    np.testing.assert_allclose(found.centroid * found.length, found.mean, rtol=0, atol=1e-15)
    v, z = unit(images), np.stack([unit(own) for own in texts.values()])
    np.testing.assert_allclose(found.mean, np.mean([(v * own).sum(1) for own in z], axis=0))
    np.testing.assert_allclose(found.centroid, (v * unit(z.mean(0))).sum(1))
    assert (found.length < 1).all()
    averages = found.estimates(resamples=100)
    assert averages["difference"].value == pytest.approx(averages["centroid"].value - averages["mean"].value)
    assert averages["centroid"].low < averages["centroid"].value < averages["centroid"].high


def test_one_language_is_its_own_centroid():
    images, texts = clouds()
    found = centroid_cosine(images, {"en": texts["en"]})
    np.testing.assert_allclose(found.length, 1)
    np.testing.assert_allclose(found.centroid, found.mean)


def test_bad_input_is_named():
    images, texts = clouds()
    with pytest.raises(InputError, match=r"texts\['en'\] has 120 rows where 119 are needed"):
        measure_modality_gap(images[1:], texts)
    with pytest.raises(InputError, match="Texts have 16 dimensions and images 8"):
        measure_modality_gap(images[:, :8], texts)
    with pytest.raises(InputError, match="'sw' have shape"):
        measure_modality_gap(images, {**texts, "sw": texts["sw"][:5]})
    with pytest.raises(InputError, match="Rows of 2 depths"):
        centroid_cosine(images, {"en": np.ones((N, 2, D))})
    with pytest.raises(InputError, match="cancel out"):
        centroid_cosine(images, {"en": texts["en"], "sw": -texts["en"]})
    with pytest.raises(InputError, match="no spread"):
        measure_modality_gap(np.ones((5, 3)), {"en": np.ones((5, 3))})
    texts["sw"][3] = 0
    with pytest.raises(InputError, match="1 of 120 rows of 'sw' at depth 0 are zero, the first is caption 3"):
        measure_modality_gap(images, texts)
    images[0, 0] = np.nan
    with pytest.raises(InputError, match="images holds NaN"):
        measure_modality_gap(images, texts)


def test_points_that_coincide_have_no_spread_and_that_is_said():
    """1 - 2x·m + |m|² would leave 1e-8 of rounding, and a gap of 1e8 spreads."""
    for d in (2, 3, 50):
        generator = np.random.default_rng(d)
        image, caption = (np.repeat(generator.standard_normal((1, d)), 9, axis=0) for _ in range(2))
        with pytest.raises(InputError, match="All images are one point"):
            measure_modality_gap(image, {"en": caption}, resamples=5)
