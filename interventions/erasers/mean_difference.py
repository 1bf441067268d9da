"""Mean-difference removal: project off the span of the differences between class means.

The plainest eraser. It takes class means together as LEACE does, and like LEACE leaves a linear classifier
nothing on the rows that it was fitted on. It differs in price: it removes the directions in which means
differ, however much else varies along them, while LEACE removes as little variance as it can.
"""

import numpy as np

from interventions.erasers.base import Codes, LinearEraser, Matrix, class_means, nothing_erased


class MeanDifference(LinearEraser):
    """Project orthogonally off the differences between class means.

    Parameters
    ----------
    tolerance : float
        Singular values of the centred class means below this share of the largest one count as zero (AMB-18).
    affine : bool
        Keep the mean row where it is; otherwise the origin.
    """

    guards = "linear"

    def __init__(self, *, tolerance: float = 1e-6, affine: bool = True) -> None:
        self.tolerance = tolerance
        self.affine = affine

    def _fit(self, rows: Matrix, codes: Codes) -> None:
        means = class_means(rows, codes)
        _, values, directions = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)
        if values[0] <= 1e-12 * np.abs(rows).max():
            raise nothing_erased("MeanDifference")
        self._orthogonal(directions[values > self.tolerance * values[0]], rows, self.affine)
