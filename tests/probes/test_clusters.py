"""Clusters against scikit-learn, and the country that a correlation hangs on."""

import math

import numpy as np
import pytest
from sklearn.metrics import silhouette_samples

from probes.clusters import by_country, cluster_labels, distinct_texts, most_influential
from probes.correlation import correlate
from workbench.errors import InputError


def test_the_country_that_makes_a_correlation_is_named():
    generator = np.random.default_rng(3)
    x, y = generator.normal(0, 0.05, (2, 16))
    x[11], y[11] = 1.0, 1.0
    names = [f"c{k}" for k in range(16)]
    found = correlate(dict(zip(names, x, strict=True)), dict(zip(names, y, strict=True)))
    assert found.pearson > 0.9
    assert most_influential(found) == "c11"
    assert abs(found.without["c11"][0]) < 0.5
    # What is left without it may not correlate with anything; then it isn't the one.
    step = {name: float(name == "c15") for name in names}
    flat = correlate(step, dict(zip(names, y, strict=True)))
    assert math.isnan(flat.without["c15"][0])
    assert most_influential(flat) != "c15"


def test_the_first_of_equal_texts_stays():
    assert distinct_texts(["mask", "hat", "mask", "Hat", "hat"]).tolist() == [0, 1, 3]


def test_clusters_equal_scikit_learn_on_embeddings_as_they_come():
    generator = np.random.default_rng(4)
    labels = np.repeat(["en", "sw", "yo"], [30, 20, 10])
    # Lengths differ, so that normalising first would show.
    points = generator.normal(size=(60, 6)) * generator.uniform(0.5, 3, (60, 1)) + 2 * (labels == "yo")[:, None]
    found = cluster_labels(points, labels)
    samples = np.asarray(silhouette_samples(points, labels, metric="euclidean"))
    assert found.silhouette == pytest.approx(samples.mean(), abs=1e-9)
    for language in ("en", "sw", "yo"):
        own = points[labels == language]
        assert found.silhouettes[language] == pytest.approx(samples[labels == language].mean(), abs=1e-9)
        distance = np.linalg.norm(own - own.mean(0), axis=1).mean()
        assert found.compactness[language] == pytest.approx(distance)
    assert found.counts == {"en": 30, "sw": 20, "yo": 10}
    assert found.n == 60
    assert max(found.silhouettes, key=found.silhouettes.__getitem__) == "yo"


def test_countries_share_the_value_of_their_language():
    values = {"en": 0.1, "sw": 0.4}
    assert by_country(values, {"USA": "en", "UK": "en", "Kenya": "sw"}) == {"USA": 0.1, "UK": 0.1, "Kenya": 0.4}
    with pytest.raises(InputError, match="'yo' of 'Nigeria' has no value"):
        by_country(values, {"Nigeria": "yo"})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cluster_labels(np.eye(3), ["a", "a", "a"]), "2 or more"),
        (lambda: cluster_labels(np.eye(3), ["a", "b"]), "3 rows"),
    ],
)
def test_errors_teach(call, words):
    with pytest.raises(InputError, match=words):
        call()
