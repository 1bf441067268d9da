import numpy as np
import pytest
import torch
from concept_erasure import LeaceEraser
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from interventions.erasers import LEACE, ErasureWarning, MeanDifference
from tests.interventions.erasers.rows import planted, spread
from workbench.errors import InputError


@pytest.mark.parametrize("classes", [2, 4, 13])
def test_rank_is_one_less_than_classes_and_class_means_are_equal(classes):
    rows, labels = planted(classes, d=30)
    eraser = LEACE().fit(rows, labels)
    assert eraser.rank_ == classes - 1 == len(eraser.singular_values_)
    assert spread(rows, labels) > 1
    assert spread(eraser.transform(rows), labels) < 1e-10
    assert eraser.residual_ < 1e-12


def test_no_linear_classifier_learns_anything_on_the_fitted_rows():
    """Linear guardedness: the best weights are zero, whatever the loss."""
    rows, labels = planted()
    erased = LEACE().fit(rows, labels).transform(rows)
    for model in (LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000), LinearSVC(tol=1e-10, max_iter=50000)):
        assert np.abs(model.fit(erased - erased.mean(axis=0), labels).coef_).max() < 1e-6


def test_labels_may_be_integers_that_are_no_numbers():
    """Given as they are, the package would read five classes as one scalar and erase one direction."""
    rows, labels = planted(5)
    codes = np.unique(labels, return_inverse=True)[1]
    alone = LeaceEraser.fit(torch.from_numpy(rows), torch.from_numpy(codes).double())
    assert spread(alone(torch.from_numpy(rows)).numpy(), codes) > 1
    eraser = LEACE().fit(rows, codes)
    assert eraser.rank_ == 4
    assert spread(eraser.transform(rows), codes) < 1e-10


@pytest.mark.parametrize("size", [90, 300, 3000])
def test_one_strong_coordinate_does_not_hide_the_others(size):
    """In float32 the package erases nothing at all from a factor of 300 on, and does not say so."""
    generator = np.random.default_rng(0)
    n, d = 2000, 200
    labels = np.arange(n) % 2
    rows = generator.standard_normal((n, d))
    rows[:, 0] += 2.0 * labels
    rows[:, 1] *= size
    rows = rows.astype(np.float32)
    if size == 3000:
        alone = LeaceEraser.fit(torch.from_numpy(rows), torch.eye(2)[labels])
        assert spread(alone(torch.from_numpy(rows)).numpy()[:, :1].astype(float), labels) > 1.5
    eraser = LEACE().fit(rows, labels)
    erased = eraser.transform(rows)
    assert abs(erased[labels == 0, 0].mean() - erased[labels == 1, 0].mean()) < 1e-10
    assert eraser.condition_ == pytest.approx(size, rel=0.2)


def test_a_hundred_classes_are_all_erased():
    """An absolute tolerance of 0.01 keeps about a fifth of the directions."""
    generator = np.random.default_rng(0)
    classes, each, d = 100, 300, 128
    labels = np.repeat(np.arange(classes), each)
    means = 0.45 * generator.standard_normal((classes, d)) / np.sqrt(d)
    rows = generator.standard_normal((classes * each, d)) + means[labels]
    alone = LeaceEraser.fit(torch.from_numpy(rows), torch.eye(classes, dtype=torch.float64)[labels])
    assert int((alone.proj_right.norm(dim=1) > 0).sum()) < 40
    assert spread(alone(torch.from_numpy(rows)).numpy(), labels) > 0.5 * spread(rows, labels)
    eraser = LEACE().fit(rows, labels)
    assert eraser.rank_ == 99
    assert spread(eraser.transform(rows), labels) < 1e-10


def test_fewer_rows_than_features_is_warned_about_and_is_indeed_useless_outside():
    generator = np.random.default_rng(0)
    d, labels = 512, np.arange(2000) % 2
    rows = generator.standard_normal((2000, d))
    rows[:, 0] += 3.0 * labels
    with pytest.warns(ErasureWarning, match="100 rows of 512 features.*held-out"):
        eraser = LEACE().fit(rows[:100], labels[:100])
    assert spread(eraser.transform(rows[:100]), labels[:100]) < 1e-10
    assert spread(eraser.transform(rows[100:]), labels[100:]) > 1.5


def test_rows_that_float64_can_not_hold_are_warned_about():
    rows, labels = planted(d=10)
    scales = np.ones(10)
    scales[3] = 1e9
    with pytest.warns(ErasureWarning, match="varies .* times as much"):
        LEACE(shrinkage=False).fit(rows * scales, labels)


def test_classes_that_span_every_feature_leave_nothing_and_that_is_said():
    rows, labels = planted(6, d=5)
    for eraser in (LEACE(), MeanDifference()):
        with pytest.warns(ErasureWarning, match="all 5 features"):
            erased = eraser.fit(rows, labels).transform(rows)
        np.testing.assert_allclose(erased, np.broadcast_to(rows.mean(axis=0), rows.shape), atol=1e-9)


def test_nothing_erased_is_an_error():
    rows, _ = planted(2)
    twice, labels = np.concatenate([rows, rows]), np.repeat(["en", "sw"], len(rows))
    for eraser in (LEACE(), MeanDifference()):
        with pytest.raises(InputError, match="nothing to erase"):
            eraser.fit(twice, labels)


def test_it_changes_rows_less_than_any_other_projection_that_equates_means():
    rows, labels = planted()
    leace, plain = LEACE(shrinkage=False).fit(rows, labels), MeanDifference().fit(rows, labels)
    whiten = np.linalg.inv(np.linalg.cholesky(np.cov(rows.T)))
    cost = [np.square((eraser.transform(rows) - rows) @ whiten.T).sum() for eraser in (leace, plain)]
    assert spread(plain.transform(rows), labels) < 1e-10
    assert cost[0] < cost[1]


def test_mean_difference_is_what_the_package_calls_orth():
    rows, labels = planted(5)
    one_hot = torch.eye(5, dtype=torch.float64)[np.unique(labels, return_inverse=True)[1]]
    orth = LeaceEraser.fit(torch.from_numpy(rows), one_hot, method="orth", svd_tol=1e-6)
    np.testing.assert_allclose(MeanDifference().fit(rows, labels).projector_, orth.P.numpy(), atol=1e-10)


def test_unit_embeddings_with_faint_language_are_erased():
    """An absolute tolerance found nothing in unit rows of many dimensions (AMB-18)."""
    rows, labels = planted(6, each=400, d=300, shift=0.3)
    rows = (rows - 5) / np.linalg.norm(rows - 5, axis=1, keepdims=True)
    for eraser in (LEACE(), MeanDifference()):
        assert eraser.fit(rows, labels).rank_ == 5
        assert spread(eraser.transform(rows), labels) < 1e-12


def test_the_eraser_is_a_copy():
    rows, labels = planted()
    eraser = LEACE().fit(rows, labels)
    before = eraser.transform(rows)
    rows += 100.0
    np.testing.assert_array_equal(eraser.transform(rows - 100.0).round(6), before.round(6))
    for name in ("left_", "right_", "offset_"):
        assert getattr(eraser, name).base is None


@pytest.mark.parametrize("tolerance", [0, 1, -1])
def test_a_tolerance_that_is_no_share_is_refused(tolerance):
    with pytest.raises(InputError, match="share of the largest singular value"):
        LEACE(tolerance=tolerance).fit(*planted())
