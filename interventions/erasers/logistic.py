"""Multinomial logistic regression in what a projection has left of the rows, in a few passes.

Iterative null-space projection asks for a new classifier after every projection. Fitted afresh, each costs
a hundred passes or more, since embeddings vary a thousandfold more in some directions than in others and a
general solver has to find that out every time. Here it is known: one covariance is taken of the rows, and after
a projection it is *updated*, not measured again. Its Cholesky factor makes directions more alike, and then some
fifty passes are enough. The rows themselves are never projected: weights are kept inside what is left, where
``(P x) . w`` and ``x . w`` are the same.

The problem that is solved is scikit-learn's ``LogisticRegression``: summed cross-entropy plus
``|weights|^2 / 2 C``, intercepts free.
"""

import numpy as np
from jaxtyping import Float
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from interventions.erasers.base import Basis, Codes, Matrix

# The Hessian is the covariance times p (1 - p), plus the penalty. That factor is about 1 / k at zero weights and
# far smaller where most rows are named with confidence, which is where a fit spends its time. With this share of
# it, a fit that stops early stops about where scikit-learn's does; with more, low-variance directions come first.
_CONFIDENT = 3e-4


class ProjectedLogistic:
    """Logistic regressions on one set of rows, each on what the projections before it have left.

    Parameters
    ----------
    rows : array of shape (n, d)
        Centred.
    codes : int array of shape (n,)
        Classes from 0.
    strength : float
        C of scikit-learn: large means little shrinkage.
    tolerance : float
        The fit stops when the gradient has fallen to this share of what it was at zero weights. Relative, so
        that faint language is fitted like strong one; an absolute one would call zero weights converged.
    max_passes : int
        Iterations at most.

    Attributes
    ----------
    passes : int
        Evaluations of all rows so far.
    """

    def __init__(self, rows: Matrix, codes: Codes, strength: float, tolerance: float, max_passes: int) -> None:
        # Features first: both products of a pass are twice as fast than with rows first.
        self.features = np.ascontiguousarray(rows.T)
        self.strength, self.tolerance, self.max_passes = strength, tolerance, max_passes
        self.one_hot = np.eye(int(codes.max()) + 1)[:, codes]
        self.covariance = self.features @ self.features.T
        self.total = float(np.trace(self.covariance))
        self.erased = np.empty((0, rows.shape[1]))
        self.passes = 0
        centred = self.one_hot - self.one_hot.mean(axis=1, keepdims=True)
        self.crossed = centred @ self.features.T
        self.most = float(np.linalg.norm(self.features) * np.linalg.norm(centred))

    @property
    def variance_left(self) -> float:
        """Share of the variance of the rows that no projection has removed."""
        return max(float(np.trace(self.covariance)), 0.0) / self.total

    @property
    def language_left(self) -> float:
        """Covariance of rows and classes after the projections, as a share of the most it could be: a correlation."""
        return float(np.linalg.norm(self._left(self.crossed))) / self.most

    def project(self, basis: Basis) -> None:
        """Remove the span of an orthonormal basis, at right angles to all before it, from the rows."""
        self.erased = np.concatenate([self.erased, basis])
        crossed = basis @ self.covariance
        both = basis.T @ crossed
        self.covariance = self.covariance - both - both.T + basis.T @ (crossed @ basis.T) @ basis

    def weights(self) -> Float[np.ndarray, "class d"]:
        """Fit the classifier and return its weights, which lie in what is left."""
        k, d = len(self.one_hot), len(self.features)
        curvature = self.covariance * (_CONFIDENT / k) + np.eye(d) / self.strength
        factor = cholesky(curvature, lower=True)

        def unwhiten(flat: np.ndarray) -> np.ndarray:
            return self._left(solve_triangular(factor, flat[: k * d].reshape(k, d).T, lower=True, trans=1).T)

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            self.passes += 1
            weights = unwhiten(flat)
            logits = weights @ self.features + flat[k * d :, None]
            logits -= logits.max(axis=0)
            right = float((logits * self.one_hot).sum())
            odds = np.exp(logits)
            total = odds.sum(axis=0)
            miss = odds / total - self.one_hot
            gradient = self._left(miss @ self.features.T + weights / self.strength)
            whitened = solve_triangular(factor, gradient.T, lower=True).T
            penalty = float((weights**2).sum()) / (2 * self.strength)
            return float(np.log(total).sum()) - right + penalty, np.concatenate([whitened.ravel(), miss.sum(axis=1)])

        start = np.concatenate([np.zeros(k * d), np.log(self.one_hot.mean(axis=1))])
        steepest = float(np.abs(loss(start)[1]).max())
        if steepest == 0:
            return np.zeros((k, d))
        found = minimize(
            loss,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.max_passes, "gtol": self.tolerance * steepest, "ftol": 0.0},
        )
        return unwhiten(found.x)

    def _left(self, weights: np.ndarray) -> np.ndarray:
        return weights - (weights @ self.erased.T) @ self.erased
