"""Maps: fixed by the seed, honest about themselves, and clear about a package that is missing."""

import sys
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.manifold import trustworthiness

from analyses.maps import default_method, embedding_map, project, trust
from workbench.errors import InputError

METHODS = ("pca", "tsne", "umap")


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    points, labels = make_blobs(120, 10, centers=3, random_state=0)[:2]
    return np.asarray(points), np.asarray(labels)


@pytest.mark.parametrize("method", METHODS)
def test_clusters_stay_together_and_the_seed_fixes_the_map(blobs, method) -> None:
    if method == "umap":
        pytest.importorskip("umap")
    points, labels = blobs
    plane = project(points, method)
    assert plane.shape == (120, 2)
    assert (plane == project(points, method)).all()
    distance = np.linalg.norm(plane[:, None] - plane[None], axis=-1) + np.diag([np.inf] * 120)
    assert (labels[distance.argmin(1)] == labels).mean() > 0.95
    assert trust(points, plane) > 0.85


def test_trustworthiness_is_that_of_scikit_learn_and_chance_is_a_half(blobs) -> None:
    points, _ = blobs
    plane = project(points, "pca")
    assert trust(points, plane) == trustworthiness(points, plane, n_neighbors=15)
    strewn = np.random.default_rng(0).normal(size=(120, 2))
    assert 0.4 < trust(points, strewn) < 0.6
    assert trust(plane, plane) == 1.0


def test_trustworthiness_of_many_points_is_taken_on_a_sample(monkeypatch, blobs) -> None:
    points, _ = blobs
    plane = project(points, "pca")
    monkeypatch.setattr("analyses.maps._TRUST_SAMPLE", 60)
    found = trust(points, plane)
    assert found == trust(points, plane)
    assert found == pytest.approx(trustworthiness(points, plane, n_neighbors=15), abs=0.1)


def test_pca_keeps_the_variance_and_has_a_fixed_sign() -> None:
    generator = np.random.default_rng(1)
    points = generator.normal(size=(50, 6)) * [9, 4, 1, 1, 1, 1]
    plane = project(points, "pca")
    values = np.sort(np.linalg.eigvalsh(np.cov(points.T)))[::-1]
    assert plane.var(0, ddof=1) == pytest.approx(values[:2])
    mirrored = project(points[:, ::-1], "pca")  # the same space, in another basis
    assert plane == pytest.approx(mirrored)


def test_every_point_has_its_text_escaped_and_the_trust_is_in_the_title(blobs) -> None:
    points, labels = blobs
    names = np.array(["en", "sw", "<b>x</b>"])[labels]
    answer = embedding_map(points, names.tolist(), ["<script>"] * 120, method="pca", subject="names", name="map-texts")
    figure: Any = answer.figure
    assert f"trustworthiness {answer.table['trustworthiness'].iloc[0]:.2f}" in answer.title
    assert "n = 120" in answer.title
    assert "trustworthiness" in answer.caption.lower()
    texts = [text for trace in figure.data for text in trace.hovertext]
    assert len(texts) == 120
    assert not any("<script>" in text or "<b>x</b>" in text for text in texts)
    assert {trace.name for trace in figure.data} == {"English (en)", "Swahili (sw)", "&lt;b&gt;x&lt;/b&gt;"}
    assert len({(trace.marker.color, trace.marker.symbol) for trace in figure.data}) == 3
    assert answer.table["text"].iloc[0] == "<script>"
    groups = embedding_map(points, names.tolist(), names.tolist(), kind="group", method="pca")
    marks: Any = groups.figure
    assert len({(trace.marker.color, trace.marker.symbol) for trace in marks.data}) == 3


def test_a_missing_umap_is_one_clear_error_and_the_default_is_another_method(monkeypatch, blobs) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(InputError, match=r"umap-learn.*eos-workbench\[maps\].*method=\"pca\""):
        project(blobs[0], "umap")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert default_method() == "pca"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: project(np.ones((3, 2))), "4 or more"),
        (lambda: project(np.ones((20, 2)), "pca"), "All points are the same"),
        (lambda: project(np.eye(20), "mds"), "'umap', 'pca', 'tsne'"),  # type: ignore[arg-type]
        (lambda: project(np.eye(10), "pca"), "use 2 to 9"),
        (lambda: project(np.full((20, 2), np.nan), "pca"), "NaN"),
        (lambda: embedding_map(np.eye(20), ["a"] * 19, ["a"] * 20), "20 rows"),
        (lambda: embedding_map(np.eye(20), ["a"] * 20, ["a"] * 19), "19 texts"),
        (lambda: trust(np.eye(20), np.ones((19, 2))), "two columns"),
    ],
)
def test_errors_teach(call, words) -> None:
    with pytest.raises(InputError, match=words):
        call()
