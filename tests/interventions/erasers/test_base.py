# pyright: reportAttributeAccessIssue=false
"""What every eraser must hold to, whatever its idea."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from interventions.erasers import INLP, LEACE, AdversarialEraser, MeanDifference, RandomAblation
from tests.interventions.erasers.rows import planted
from workbench.arrays import PrecisionWarning
from workbench.errors import InputError

LINEAR = [LEACE(), LEACE(shrinkage=False), MeanDifference(), INLP(7), INLP(5, classifier="svm"), RandomAblation(6)]
ALL = [*LINEAR, AdversarialEraser(steps=20)]
IDS = [repr(eraser) for eraser in ALL]

# Our own messages say what scikit-learn's say, in other words; and arrays of objects, which may hold anything,
# are refused where scikit-learn turns them into numbers.
OTHER_WORDS = {
    "check_complex_data": "refused in other words",
    "check_dtype_object": "objects are refused",
    "check_estimators_empty_data_messages": "refused in other words",
    "check_estimator_sparse_tag": "refused in other words",
    "check_estimator_sparse_array": "refused in other words",
    "check_estimator_sparse_matrix": "refused in other words",
    "check_fit2d_1sample": "refused in other words",
    "check_fit2d_predict1d": "refused in other words",
    "check_fit2d_1feature": "a rank of 1 leaves nothing of 1 feature",
}


@pytest.mark.parametrize("eraser", [LEACE(), MeanDifference(), INLP(1), RandomAblation(1)], ids=repr)
def test_it_is_a_scikit_learn_transformer(eraser):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(eraser, expected_failed_checks=OTHER_WORDS, on_fail=None)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert not failed
    assert sum(r["status"] == "passed" for r in results) > 35


@pytest.mark.parametrize("eraser", LINEAR, ids=IDS[:-1])
def test_projector_is_idempotent_has_its_rank_and_keeps_the_mean_row(eraser):
    rows, labels = planted()
    fitted = clone(eraser).fit(rows, labels)
    p = fitted.projector_
    np.testing.assert_allclose(p @ p, p, atol=1e-10)
    assert np.linalg.matrix_rank(np.eye(20) - p, tol=1e-8) == fitted.rank_
    once = fitted.transform(rows)
    np.testing.assert_allclose(fitted.transform(once), once, atol=1e-9)
    np.testing.assert_allclose(once.mean(axis=0), rows.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(fitted.subspace_ @ fitted.subspace_.T, np.eye(fitted.rank_), atol=1e-12)


@pytest.mark.parametrize("eraser", LINEAR, ids=IDS[:-1])
def test_what_is_orthogonal_to_what_it_reads_stays(eraser):
    rows, labels = planted()
    fitted = clone(eraser).fit(rows, labels)
    untouched = np.linalg.qr(np.concatenate([fitted.right_, np.random.default_rng(1).standard_normal((3, 20))]).T)[0]
    move = untouched[:, fitted.rank_ :].T.sum(axis=0)
    np.testing.assert_allclose(fitted.transform(rows + move), fitted.transform(rows) + move, atol=1e-9)
    assert not np.allclose(fitted.transform(rows), rows)


@pytest.mark.parametrize("eraser", [MeanDifference(), INLP(7), RandomAblation(6)], ids=repr)
def test_an_orthogonal_projector_is_symmetric(eraser):
    fitted = clone(eraser).fit(*planted())
    np.testing.assert_allclose(fitted.projector_, fitted.projector_.T, atol=1e-12)


@pytest.mark.parametrize("eraser", [LEACE(affine=False), MeanDifference(affine=False), INLP(3, affine=False)], ids=repr)
def test_without_affine_the_origin_stays(eraser):
    fitted = clone(eraser).fit(*planted())
    np.testing.assert_array_equal(fitted.transform(np.zeros((2, 20))), 0)


@pytest.mark.parametrize("eraser", ALL, ids=IDS)
def test_same_rows_same_bytes_and_fit_changes_nothing_that_is_not_its_own(eraser):
    rows, labels = planted()
    kept = rows.copy()
    state = torch.random.get_rng_state()
    first, second = clone(eraser).fit(rows, labels), clone(eraser).fit(rows, labels)
    assert first.transform(rows).tobytes() == second.transform(rows).tobytes()
    np.testing.assert_array_equal(rows, kept)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert first.languages_ == ("l0", "l1", "l2", "l3")
    assert not hasattr(eraser, "classes_")


@pytest.mark.parametrize("eraser", ALL, ids=IDS)
def test_bad_input_is_one_clear_message(eraser):
    rows, labels = planted(each=20)
    with_nan = rows.copy()
    with_nan[3, 2] = np.nan
    cases = [
        (with_nan, labels, r"X holds NaN or infinity.*\[3, 2\]"),
        (rows, np.repeat("en", len(rows)), "names 1 class"),
        (rows, labels[:-1], r"y has shape \(79,\) for 80 rows"),
        (np.ones_like(rows), labels, "features are constant"),
        (rows[:5], np.array(list("abcde")), "5 rows came for 5 classes"),
        (rows, None, "requires y"),
    ]
    for x, y, message in cases:
        with pytest.raises(InputError, match=message):
            clone(eraser).fit(x, y)
    fitted = clone(eraser).fit(rows, labels)
    with pytest.raises(InputError, match="X has 19 features, but"):
        fitted.transform(rows[:, :19])
    with pytest.raises(InputError, match="X holds NaN"):
        fitted.transform(with_nan)
    with pytest.raises(NotFittedError):
        clone(eraser).transform(rows)


@pytest.mark.parametrize("kind", [np.float16, torch.float16, torch.bfloat16])
def test_half_precision_is_upcast_and_said_so(kind):
    rows, labels = planted()
    half = rows.astype(kind) if isinstance(kind, type) else torch.from_numpy(rows).to(kind)
    with pytest.warns(PrecisionWarning, match="16"):
        fitted = LEACE().fit(half, labels)
    assert fitted.left_.dtype == np.float64
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        assert fitted.transform(half).dtype == np.float64


def test_a_constant_feature_does_no_harm():
    rows, labels = planted()
    rows[:, 4] = 7.0
    for eraser in (LEACE(), MeanDifference(), INLP(7)):
        erased = eraser.fit(rows, labels).transform(rows)
        np.testing.assert_allclose(erased[:, 4], 7.0, atol=1e-8)


def test_it_works_in_a_pipeline_and_fits_without_the_test_rows():
    rows, labels = planted()
    train = np.arange(len(rows)) % 2 == 0
    model = make_pipeline(LEACE(), LogisticRegression(max_iter=1000)).fit(rows[train], labels[train])
    assert model.score(rows[~train], labels[~train]) < 0.4
    assert LogisticRegression(max_iter=1000).fit(rows[train], labels[train]).score(rows[~train], labels[~train]) > 0.95
