import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from interventions.erasers import INLP
from interventions.erasers.inlp import RowsExhausted
from interventions.erasers.logistic import ProjectedLogistic
from tests.interventions.erasers.rows import planted
from workbench.errors import InputError


def hard(classes: int = 6, each: int = 120, d: int = 48, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose language is spread over many directions: means, and what they do to shared content."""
    generator = np.random.default_rng(seed)
    scale = np.arange(1, d + 1) ** -0.5
    content = generator.standard_normal((each, d)) * scale
    rows = []
    for _ in range(classes):
        turn = generator.standard_normal((d, d)) / np.sqrt(d)
        offset = 0.5 * generator.standard_normal(d) * scale
        bent = content + 0.6 * np.tanh(3 * content @ turn) * scale + offset
        rows.append(bent + 0.4 * generator.standard_normal((each, d)) * scale)
    return 8 * np.concatenate(rows), np.repeat(np.arange(classes), each)


@pytest.mark.parametrize("rank", [12, 64, 128])
def test_rank_is_exact_and_the_projector_a_projector(rank):
    rows, labels = planted(13, each=60, d=160, shift=0.5)
    eraser = INLP(rank, max_iter=30).fit(rows, labels)
    assert eraser.rank_ == rank
    assert np.linalg.matrix_rank(eraser.projector_) == 160 - rank
    np.testing.assert_allclose(eraser.projector_, eraser.projector_.T, atol=1e-12)
    np.testing.assert_allclose(eraser.projector_ @ eraser.projector_, eraser.projector_, atol=1e-12)
    assert eraser.n_iter_ == -(-rank // 12)
    assert eraser.step_ranks_.tolist() == [*range(12, rank, 12), rank]


def test_one_fit_holds_every_smaller_rank():
    rows, labels = hard()
    whole = INLP(23).fit(rows, labels)
    for rank in (5, 7, 23):
        alone, part = INLP(rank).fit(rows, labels), whole.truncated(rank)
        np.testing.assert_allclose(part.transform(rows), alone.transform(rows), atol=1e-12)
        assert part.get_params() == alone.get_params()
        assert (part.n_iter_, part.step_ranks_.tolist()) == (alone.n_iter_, alone.step_ranks_.tolist())
    assert whole.rank_ == 23
    for rank in (0, 24):
        with pytest.raises(InputError, match="use 1 to 23"):
            whole.truncated(rank)


def test_the_projected_fit_is_scikit_learns_on_projected_rows():
    rows, labels = hard()
    centred = rows - rows.mean(axis=0)
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((48, 9)))[0].T
    fits = ProjectedLogistic(centred, labels, 0.5, 1e-9, 3000)
    for step in (basis[:4], basis[4:], None):
        left = centred - (centred @ fits.erased.T) @ fits.erased
        theirs = LogisticRegression(C=0.5, tol=1e-9, max_iter=20000).fit(left, labels)
        ours = fits.weights()
        np.testing.assert_allclose(ours @ fits.erased.T, 0, atol=1e-10)
        np.testing.assert_allclose(ours, theirs.coef_, atol=2e-4 * np.abs(theirs.coef_).max())
        np.testing.assert_allclose(fits.covariance, left.T @ left, atol=1e-8)
        if step is not None:
            fits.project(step)


def test_accuracy_falls_with_rank_as_in_the_classical_loop():
    rows, labels = hard()
    images = np.tile(np.arange(120), 6)
    train = images < 80

    def accuracy(basis: np.ndarray) -> float:
        left = rows - (rows @ basis.T) @ basis
        model = LogisticRegression(max_iter=2000).fit(left[train], labels[train])
        return 100 * float(model.score(left[~train], labels[~train]))

    classical = np.empty((0, 48))
    while len(classical) < 20:
        left = rows[train] - (rows[train] @ classical.T) @ classical
        weights = LogisticRegression(max_iter=2000).fit(left, labels[train]).coef_
        classical = np.concatenate([classical, np.linalg.svd(weights, full_matrices=False)[2][:5]])
    ours = INLP(20).fit(rows[train], labels[train]).right_
    before = accuracy(np.zeros((1, 48)))
    found = [(accuracy(ours[:rank]), accuracy(classical[:rank])) for rank in (5, 10, 20)]
    assert before > 90
    assert before > found[0][0] > found[1][0] > found[2][0]
    # 240 held-out rows: two standard errors of a difference are about 6 points.
    for mine, theirs in found:
        assert abs(mine - theirs) < 6


def test_faint_language_is_erased_like_strong_one():
    """Scikit-learn's absolute tolerance calls zero weights converged here, and the loop would never end."""
    rows, labels = hard()
    faint = rows * 1e-6
    assert not LogisticRegression().fit(faint, labels).coef_.any()
    eraser = INLP(5).fit(faint, labels)
    # At such a size the penalty rules, and the best weights are the differences of the class means.
    means = np.stack([rows[labels == k].mean(axis=0) for k in range(6)])
    cosines = np.linalg.svd(eraser.right_ @ np.linalg.svd(means - means.mean(axis=0))[2][:5].T)[1]
    np.testing.assert_allclose(cosines, 1, atol=1e-6)


def test_the_svm_option_erases_what_a_linear_svm_reads():
    rows, labels = planted(3, d=12)
    eraser = INLP(3, classifier="svm").fit(rows, labels)
    weights = (
        LinearSVC(max_iter=1000, random_state=0)
        .fit(rows - rows.mean(axis=0), np.unique(labels, return_inverse=True)[1])
        .coef_
    )
    np.testing.assert_allclose(eraser.projector_ @ weights.T, 0, atol=1e-8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "whole number from 1 to 47"),
        ({"rank": 48}, "whole number from 1 to 47"),
        ({"rank": 2.5}, "rank=2.5"),
        ({"classifier": "tree"}, "'logistic' or 'svm'"),
        ({"C": 0}, "C is above 0"),
        ({"max_iter": 0}, "max_iter at least 1"),
        ({"tolerance": 1.0}, "tolerance between 0 and 1"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(InputError, match=message):
        INLP(**options).fit(*hard())


def test_rows_that_are_used_up_are_named():
    rows, labels = planted(4, each=30, d=6)
    flat = rows @ np.random.default_rng(0).standard_normal((6, 20))
    with pytest.raises(InputError, match="reached rank 6 of 10"):
        INLP(10).fit(flat, labels)


def test_it_stops_where_no_linear_classifier_reads_anything_instead_of_erasing_rounding_errors():
    """With fewer rows than features a classifier finds something for long, and each step of two classes takes one."""
    rows = np.random.default_rng(3).standard_normal((40, 128))
    rows[20:] += 1
    labels = np.repeat(["en", "sw"], 20)
    with pytest.raises(RowsExhausted, match="no linear classifier reads anything") as stop:
        INLP(64).fit(rows, labels)
    reached = stop.value.reached
    assert 1 < reached < 40
    eraser = INLP(reached).fit(rows, labels)
    assert eraser.step_ranks_.tolist() == list(range(1, reached + 1))
    # The means of the two classes are one: no linear classifier beats a constant.
    means = [eraser.transform(rows)[labels == name].mean(axis=0) for name in ("en", "sw")]
    np.testing.assert_allclose(means[0], means[1], atol=1e-6)
