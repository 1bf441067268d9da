"""What all erasers share: a rule fitted on rows and their languages, that takes the language out of rows.

An eraser is a scikit-learn transformer. ``fit`` sees labels, ``transform`` does not: an eraser has to work on
a row whose language nobody tells it. Most erasers are affine::

    erased = row - left @ right @ (row - offset)

``right`` reads r directions of a row, ``left`` says what is taken away for what they read, and r is the rank
that is erased. Where ``left`` is the transpose of an orthonormal ``right``, this is an orthogonal projection.

Fit on the rows of training images and judge on the others. An eraser that was fitted on the rows that a
classifier is tested on pushes the classifier *below* chance, which looks like perfect erasure and is none.
"""

import warnings
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from workbench.arrays import ArrayLike, as_labels, as_matrix
from workbench.errors import InputError

Matrix: TypeAlias = Float[np.ndarray, "n d"]
Basis: TypeAlias = Float[np.ndarray, "rank d"]
Codes: TypeAlias = Int[np.ndarray, " n"]


class ErasureWarning(UserWarning):
    """An eraser was fitted, and something about the rows makes it less than it looks."""


class Eraser(TransformerMixin, BaseEstimator):
    """Take a concept, here the language, out of rows.

    Attributes
    ----------
    guards : {"linear", "nonlinear", "nothing"}
        Which attackers it is meant to stop; what an audit holds it to.
    classes_ : array of shape (class,)
        Labels that it was fitted with.
    n_features_in_, n_rows_ : int
        Width and number of the rows that it was fitted on.
    """

    guards: ClassVar[Literal["linear", "nonlinear", "nothing"]] = "linear"

    classes_: np.ndarray
    n_features_in_: int
    n_rows_: int

    def fit(self, X: ArrayLike, y: "ArrayLike | None" = None) -> Self:
        """Fit on rows of training images.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows or embeddings; statistics are taken in float64.
        y : array of shape (n,)
            Language of each row.

        Raises
        ------
        InputError
            If an array is unusable, there is one class only, or nothing could be erased.
        """
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None. Give each row its language."
            )
        rows = as_matrix(X, "X")
        codes, classes = as_labels(y, len(rows), "y")
        if len(rows) < 2 * len(classes):
            raise InputError(
                f"{len(rows)} rows came for {len(classes)} classes: with fewer than two rows a class, what tells "
                "classes apart can't be told from what tells rows apart. Give more rows."
            )
        if not rows.std(axis=0).any():
            raise InputError(
                "X holds the same row n times, in every class (features are constant), so there is nothing to erase."
            )
        self.n_features_in_, self.n_rows_, self.classes_ = rows.shape[1], len(rows), classes
        self._fit(rows, codes)
        if getattr(self, "rank_", 0) == rows.shape[1]:
            warnings.warn(
                f"{type(self).__name__} erases all {rows.shape[1]} features: the means of {len(classes)} classes span "
                "them, and all rows become one. Use wider rows or fewer classes.",
                ErasureWarning,
                stacklevel=2,
            )
        return self

    def transform(self, X: ArrayLike) -> Matrix:
        """Return rows without the concept, in float64.

        Parameters
        ----------
        X : array of shape (n, d)

        Raises
        ------
        InputError
            If the width differs from that of the rows it was fitted on, or a value is not finite.
        """
        check_is_fitted(self)
        rows = as_matrix(X, "X", minimum_rows=1)
        if rows.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input. An eraser works on the rows of the tower and depth that it was fitted on."
            )
        return self._transform(rows)

    def unfitted(self) -> Self:
        """Return an eraser with the same parameters that is fitted to nothing; scikit-learn's ``clone``."""
        return type(self)(**self.get_params(deep=False))

    @property
    def label(self) -> str:
        """How tables and legends call it."""
        return type(self).__name__

    @property
    def languages_(self) -> tuple[str, ...]:
        """The classes as texts."""
        check_is_fitted(self)
        return tuple(str(label) for label in self.classes_)

    def _fit(self, rows: Matrix, codes: Codes) -> None:
        raise NotImplementedError

    def _transform(self, rows: Matrix) -> Matrix:
        raise NotImplementedError

    def _check_state(self) -> None:
        """Raise ``ValueError`` if fitted attributes, as read from a file, don't fit together."""
        raise NotImplementedError

    @classmethod
    def fitted_names(cls) -> tuple[str, ...]:
        """Names of the fitted attributes: what is saved, and all that a file may set."""
        declared = (name for part in cls.__mro__ for name in vars(part).get("__annotations__", ()))
        return tuple(sorted({name for name in declared if name.endswith("_") and not name.startswith("_")}))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class LinearEraser(Eraser):
    """An affine eraser of a known rank.

    Attributes
    ----------
    left_ : array of shape (d, rank)
    right_ : array of shape (rank, d)
    offset_ : array of shape (d,)
        Row that stays where it is: the mean of the fitted rows, or zero.
    rank_ : int
        Directions that are erased.
    """

    left_: Float[np.ndarray, "d rank"]
    right_: Basis
    offset_: Float[np.ndarray, " d"]

    @property
    def rank_(self) -> int:
        """Directions that are erased."""
        check_is_fitted(self)
        return len(self.right_)

    @property
    def projector_(self) -> Float[np.ndarray, "d d"]:
        """The linear part: ``erased - offset = projector @ (row - offset)``; idempotent, rank d - r."""
        check_is_fitted(self)
        return np.eye(self.n_features_in_) - self.left_ @ self.right_

    @property
    def subspace_(self) -> Basis:
        """Orthonormal basis of the directions that are read, of shape (rank, d)."""
        check_is_fitted(self)
        return orthonormal(self.right_)

    def _transform(self, rows: Matrix) -> Matrix:
        return rows - ((rows - self.offset_) @ self.right_.T) @ self.left_.T

    def _orthogonal(self, basis: Basis, rows: Matrix, affine: bool) -> None:
        """Become the orthogonal projection off the rows of an orthonormal basis."""
        self.left_, self.right_ = basis.T.copy(), basis.copy()
        self.offset_ = rows.mean(axis=0) if affine else np.zeros(rows.shape[1])

    def _check_state(self) -> None:
        d, r = self.n_features_in_, len(self.right_)
        shapes = {"left_": (d, r), "right_": (r, d), "offset_": (d,)}
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} has shape {getattr(self, name).shape} where {shape} is needed")


def class_means(rows: Matrix, codes: Codes) -> Float[np.ndarray, "class d"]:
    """Return the mean row of each class."""
    sums = np.zeros((int(codes.max()) + 1, rows.shape[1]))
    np.add.at(sums, codes, rows)
    return sums / np.bincount(codes)[:, None]


def orthonormal(rows: Basis) -> Basis:
    """Return an orthonormal basis of the span of independent rows, from the first to the last."""
    return np.linalg.qr(rows.T)[0].T


def check_rank(rank: object, d: int, name: str) -> int:
    """Return a rank that leaves something of a row: a whole number from 1 to d - 1."""
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or not 1 <= rank < d:
        raise InputError(f"{name}: rank={rank!r} came for rows of {d} features. Use a whole number from 1 to {d - 1}.")
    return int(rank)


def nothing_erased(name: str) -> InputError:
    """Return the error of an eraser that found nothing: silence would look like a perfect result."""
    return InputError(
        f"{name} found nothing to erase: the classes have the same mean up to rounding. Look whether the labels "
        "are those of these rows, and whether the rows differ between languages at all."
    )
