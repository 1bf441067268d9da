"""LEACE: the smallest affine change after which no linear classifier beats chance (S3-35).

A linear classifier can't tell classes apart exactly if all classes have the same mean. LEACE moves the class
means together and changes rows as little as possible, measured in the rows' own covariance
(Belrose et al., arXiv 2306.03819). One-hot labels of k classes give rank k - 1.

The ``concept-erasure`` package does the fit. This wrapper gives it what it needs to be right, since each of
these goes wrong in silence: float64 rows (in float32 one strong coordinate pushes all the others below the
cutoff), one-hot labels (integers would be read as one number: rank 1), a tolerance relative to the largest
singular value (an absolute one drops most directions of a hundred classes), and copies of what it returns.
"""

import warnings

import numpy as np

from interventions.erasers.base import (
    Codes,
    ErasureWarning,
    LinearEraser,
    Matrix,
    class_means,
    nothing_erased,
)
from workbench.errors import InputError

# A class mean that is left, as a share of the largest one before, above which erasure did not work.
_LEFT_OVER = 1e-8


class LEACE(LinearEraser):
    """Erase what a linear classifier can read (S3-35, F-101 to F-112).

    Parameters
    ----------
    tolerance : float
        Singular values of the whitened cross-covariance below this share of the largest one count as zero.
    shrinkage : bool
        Shrink the covariance towards the identity (arXiv 1308.2608), which makes it invertible.
    affine : bool
        Keep the mean row where it is; otherwise the origin.

    Attributes
    ----------
    singular_values_ : array of shape (rank,)
        Of the whitened cross-covariance, for the directions that are erased.
    residual_ : float
        Largest distance of a class mean from the common mean after erasure, on the fitted rows and in units of
        each feature's own spread, as a share of the same before.
    condition_ : float
        Largest over smallest standard deviation of a coordinate that varies. Above some 1e5 even float64
        loses the small ones.

    Warns
    -----
    ErasureWarning
        If there are fewer rows than features, so that held-out rows keep much of the language; or if class
        means stayed apart.
    """

    guards = "linear"

    singular_values_: np.ndarray
    residual_: float
    condition_: float

    def __init__(self, *, tolerance: float = 1e-6, shrinkage: bool = True, affine: bool = True) -> None:
        self.tolerance = tolerance
        self.shrinkage = shrinkage
        self.affine = affine

    def _fit(self, rows: Matrix, codes: Codes) -> None:
        import torch
        from concept_erasure import LeaceFitter

        if not 0 < self.tolerance < 1:
            raise InputError(f"tolerance={self.tolerance} came; it is a share of the largest singular value, 0 to 1.")
        spread = rows.std(axis=0)
        self.condition_ = float(spread.max() / spread[spread > 0].min())
        # Means are compared in units of each feature's own spread: a strong one must not hide the others.
        units = np.where(spread > 0, spread, 1.0)
        before = _apart(rows, codes, units)
        if before <= 1e-12 * (np.abs(rows).max(axis=0) / units).max():
            raise nothing_erased("LEACE")
        # Rows enter at unit scale: the package's own guards against division by zero are absolute.
        scale = float(spread.max())
        one_hot = np.eye(len(self.classes_))[codes]
        fitter = LeaceFitter.fit(
            torch.from_numpy(rows / scale),
            torch.from_numpy(one_hot),
            shrinkage=self.shrinkage,
            # The constraint never binds for the covariance that was fitted, and its branch is not sound.
            constrain_cov_trace=False,
            svd_tol=float(np.finfo(np.float64).tiny),
        )
        eraser = fitter.eraser
        # right is U' W of the decomposition W S = U s V', so right S = s V', whose rows have length s.
        values = torch.linalg.vector_norm(eraser.proj_right @ fitter.sigma_xz, dim=-1)
        kept = values > self.tolerance * values.max()
        self.singular_values_ = values[kept].numpy().copy()
        self.left_ = eraser.proj_left[:, kept].numpy().copy()
        self.right_ = eraser.proj_right[kept].numpy().copy()
        # `bias` is the fitter's running mean itself, which a later update would move.
        self.offset_ = rows.mean(axis=0) if self.affine else np.zeros(rows.shape[1])
        self.residual_ = _apart(self._transform(rows), codes, units) / before
        self._warn(len(rows), rows.shape[1])

    def _warn(self, n: int, d: int) -> None:
        if n <= d:
            warnings.warn(
                f"LEACE was fitted on {n} rows of {d} features. With no more rows than features the class means are "
                "equal on these rows and stay apart on others: most of the language is still there on held-out "
                "images. Fit on more images, and audit on held-out ones.",
                ErasureWarning,
                stacklevel=4,
            )
        if self.residual_ > _LEFT_OVER:
            warnings.warn(
                f"LEACE left {100 * self.residual_:.2g} % of the distance between class means. The largest coordinate "
                f"varies {self.condition_:.1e} times as much as the smallest, which is too much for the covariance to "
                "be inverted. Rescale the coordinates, lower `tolerance`, or set shrinkage=True.",
                ErasureWarning,
                stacklevel=4,
            )


def _apart(rows: Matrix, codes: Codes, units: np.ndarray) -> float:
    """Return the largest distance of a class mean from the mean of all rows, over features in their units."""
    return float((np.abs(class_means(rows, codes) - rows.mean(axis=0)) / units).max())
