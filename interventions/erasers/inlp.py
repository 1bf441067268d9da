"""INLP: erase what a classifier reads, fit another one on what is left, and so on (S3-37).

Iterative null-space projection (Ravfogel et al., ACL 2020) removes the directions of a linear classifier's
weights, and repeats. Each classifier of k classes gives k - 1 directions (its weights sum to zero), so ranks
that are no multiple are reached by cutting the last step at its largest singular values (AMB-16).

One fit gives every smaller rank: directions are kept in the order in which they were found.
"""

from typing import Literal, Self

import numpy as np

from interventions.erasers.base import Codes, LinearEraser, Matrix, check_rank, nothing_erased
from interventions.erasers.logistic import ProjectedLogistic
from workbench.errors import InputError

# Variance below this share of the rows' own is rounding error, and so is a correlation with the classes.
_NOTHING_LEFT = 1e-12
_NOTHING_TO_READ = 1e-9
# A direction whose singular value is below this share of its step's largest is none.
_NO_DIRECTION = 1e-6


class RowsExhausted(InputError):
    """A rank was asked for above that at which nothing of the language can be read from the rows any more.

    Attributes
    ----------
    reached : int
        The highest rank that they hold.
    """

    def __init__(self, reached: int, rank: int, rows: int) -> None:
        super().__init__(
            f"INLP reached rank {reached} of {rank}: from what is left of the {rows} rows no linear classifier reads "
            "anything, so that further directions would be rounding errors. Ask for a lower rank, or give more rows."
        )
        self.reached = reached


class INLP(LinearEraser):
    """Project off the weights of one linear classifier after another, to an exact rank.

    Parameters
    ----------
    rank : int, optional
        Directions to erase, exactly. One less than there are classes by default: one step.
    classifier : {"logistic", "svm"}
        Multinomial logistic regression, solved with one covariance for all steps
        (:class:`~interventions.erasers.logistic.ProjectedLogistic`), or scikit-learn's ``LinearSVC``, fitted
        afresh at each step and many times slower (AMB-17). Features are not standardised.
    C : float
        Inverse strength of the L2 penalty, as in scikit-learn.
    tolerance : float
        Of the logistic fit: the gradient at the end as a share of that at the start.
    max_iter : int
        Of each fit.
    affine : bool
        Keep the mean row where it is; otherwise the origin.

    Attributes
    ----------
    step_ranks_ : int array of shape (step,)
        Rank after each classifier.
    n_iter_ : int
        Classifiers that were fitted.
    """

    guards = "linear"

    step_ranks_: np.ndarray
    n_iter_: int

    def __init__(
        self,
        rank: int | None = None,
        *,
        classifier: Literal["logistic", "svm"] = "logistic",
        C: float = 1.0,
        tolerance: float = 2e-3,
        max_iter: int = 100,
        affine: bool = True,
    ) -> None:
        self.rank = rank
        self.classifier = classifier
        self.C = C
        self.tolerance = tolerance
        self.max_iter = max_iter
        self.affine = affine

    @property
    def label(self) -> str:
        """``"INLP 64"``."""
        return "INLP" if self.rank is None else f"INLP {self.rank}"

    def _fit(self, rows: Matrix, codes: Codes) -> None:
        rank = check_rank(len(self.classes_) - 1 if self.rank is None else self.rank, rows.shape[1], "INLP")
        if self.classifier not in ("logistic", "svm"):
            raise InputError(f"INLP: classifier={self.classifier!r} came; use 'logistic' or 'svm'.")
        if self.C <= 0 or not 0 < self.tolerance < 1 or self.max_iter < 1:
            raise InputError(
                f"INLP: C={self.C}, tolerance={self.tolerance} and max_iter={self.max_iter} came. C is above 0, "
                "tolerance between 0 and 1, max_iter at least 1."
            )
        fits = ProjectedLogistic(rows - rows.mean(axis=0), codes, self.C, self.tolerance, self.max_iter)
        basis, steps = np.empty((0, rows.shape[1])), []
        while len(basis) < rank:
            if fits.variance_left < _NOTHING_LEFT or fits.language_left < _NOTHING_TO_READ:
                raise RowsExhausted(len(basis), rank, len(rows)) if steps else nothing_erased("INLP")
            weights = fits.weights() if self.classifier == "logistic" else self._svm(fits.features.T, codes, basis)
            _, values, directions = np.linalg.svd(weights, full_matrices=False)
            if values[0] == 0:
                raise RowsExhausted(len(basis), rank, len(rows)) if steps else nothing_erased("INLP")
            # Multinomial weights of k classes sum to zero, up to rounding; those of one SVM a class do not.
            most = len(self.classes_) - (self.classifier == "logistic")
            new = directions[values > _NO_DIRECTION * values[0]][: min(rank - len(basis), most)]
            # Twice, so that what rounding leaves along earlier directions is gone as well.
            for _ in range(2):
                new = np.linalg.qr((new - (new @ basis.T) @ basis).T)[0].T
            fits.project(new)
            basis = np.concatenate([basis, new])
            steps.append(len(basis))
        self.step_ranks_, self.n_iter_ = np.array(steps), len(steps)
        self._orthogonal(basis, rows, self.affine)

    def _svm(self, rows: Matrix, codes: Codes, basis: np.ndarray) -> np.ndarray:
        from sklearn.svm import LinearSVC

        model = LinearSVC(C=self.C, max_iter=10 * self.max_iter, random_state=0)
        return model.fit(rows - (rows @ basis.T) @ basis, codes).coef_

    def truncated(self, rank: int) -> Self:
        """Return the eraser that a fit at a smaller rank would have given."""
        if not 1 <= rank <= self.rank_:
            raise InputError(f"rank={rank} came; this INLP was fitted to rank {self.rank_}, so use 1 to {self.rank_}.")
        smaller = self.unfitted().set_params(rank=rank)
        for name in self.fitted_names():
            setattr(smaller, name, getattr(self, name))
        smaller.left_, smaller.right_ = self.left_[:, :rank].copy(), self.right_[:rank].copy()
        smaller.step_ranks_ = np.array([*self.step_ranks_[self.step_ranks_ < rank], rank])
        smaller.n_iter_ = len(smaller.step_ranks_)
        return smaller
