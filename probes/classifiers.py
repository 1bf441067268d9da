"""Six classifiers on one split, with everything that an accuracy must be compared with (S3-30, S3-31).

One number such as "99 % by logistic regression" says little by itself. Beside it belong:

- other classifiers on the *same* split by image: four linear ones and two that are not;
- chance, and the score of always naming the most frequent class;
- what the number of tokens alone gives away, since languages differ in how many tokens they need;
- the same classifier on shuffled labels. What it gains over them is its *selectivity*
  (Hewitt & Liang, EMNLP 2019), and how well it fits shuffled training labels says how much it can memorise.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from workbench.arrays import ArrayLike, as_array, as_labels, as_matrix, check_rows, constant_columns
from workbench.errors import InputError, suggest
from workbench.retrieval import Bootstrap
from workbench.splits import generator as seeded
from workbench.splits import split_by_image

if TYPE_CHECKING:
    import pandas as pd

LINEAR = ("logistic", "svm", "ridge", "lda")
CLASSIFIERS = (*LINEAR, "knn", "mlp")
"""Multinomial logistic regression, linear SVM, ridge, LDA, five nearest neighbours, and an MLP of 256 units."""


@dataclass(frozen=True)
class ClassifierScore:
    """How well one classifier names the class of held-out rows.

    Attributes
    ----------
    classifier : str
    accuracy, low, high : float
        Percent right on held-out images, and its 95 % interval (bootstrap over images).
    confusion : int array of shape (class, class)
        Rows are true classes, columns the named ones.
    control : float
        Percent right on held-out images where labels were shuffled before the fit, NaN if that was not asked.
    memorised : float
        Percent of the shuffled training labels that the same fit gets right, NaN if that was not asked.
    """

    classifier: str
    accuracy: float
    low: float
    high: float
    confusion: np.ndarray = field(repr=False)
    control: float
    memorised: float

    @property
    def selectivity(self) -> float:
        """Points of accuracy above the same classifier on shuffled labels."""
        return self.accuracy - self.control


@dataclass(frozen=True)
class ClassifierComparison:
    """Several classifiers on one split.

    Attributes
    ----------
    scores : tuple of ClassifierScore
    classes : tuple of str
    chance : float
        Percent right of a guess among the classes.
    majority : float
        Percent right of naming the most frequent class of the training side.
    token_count : float
        Percent right of a table from token counts to classes, NaN if no counts were given.
    n_train, n_test : int
        Rows on each side.
    train_images, test_images : int
        Images on each side.
    """

    scores: tuple[ClassifierScore, ...]
    classes: tuple[str, ...]
    chance: float
    majority: float
    token_count: float
    n_train: int
    n_test: int
    train_images: int
    test_images: int

    def __getitem__(self, classifier: str) -> ClassifierScore:
        """Return the score of a classifier by its name."""
        for score in self.scores:
            if score.classifier == classifier:
                return score
        names = [score.classifier for score in self.scores]
        raise InputError(
            f"No score of {classifier!r} is here.{suggest(classifier, names)} There is {', '.join(names)}."
        )

    def frame(self) -> "pd.DataFrame":
        """Return a row a classifier: accuracy with its interval, and what it is compared with, in percent."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "classifier": score.classifier,
                    "linear": score.classifier in LINEAR,
                    "accuracy": score.accuracy,
                    "accuracy low": score.low,
                    "accuracy high": score.high,
                    "selectivity": score.selectivity,
                    "shuffled labels": score.control,
                    "shuffled labels, training rows": score.memorised,
                    "chance": self.chance,
                    "majority": self.majority,
                    "token count": self.token_count,
                    "classes": len(self.classes),
                    "n": self.n_test,
                    "images": self.test_images,
                }
                for score in self.scores
            ]
        )


def compare_classifiers(
    rows: ArrayLike,
    labels: ArrayLike,
    images: ArrayLike,
    *,
    classifiers: Sequence[str] = CLASSIFIERS,
    tokens: "ArrayLike | None" = None,
    test_share: float = 0.5,
    seed: int = 0,
    shuffled: bool = True,
    resamples: int = 1000,
) -> ClassifierComparison:
    """Fit classifiers on half of the images and score them on the other half.

    Parameters
    ----------
    rows : array of shape (n, d)
        Embeddings or pooled rows, as they are: only the MLP standardises them.
    labels : array of shape (n,)
        Language of each row.
    images : array of shape (n,)
        Which image each row belongs to; captions of one image stay on one side.
    classifiers : sequence of str
        Some of :data:`CLASSIFIERS`.
    tokens : array of shape (n,), optional
        Tokens of each caption, for the baseline that sees nothing else.
    test_share : float
        Share of images that are held out.
    seed : int
        Of the split, the shuffled labels and the classifiers that draw.
    shuffled : bool
        Fit each classifier a second time, on shuffled labels.
    resamples : int
        Of the bootstrap.

    Raises
    ------
    InputError
        If arrays don't match, there are fewer than two classes, rows are constant or not finite, or a class
        is missing on the training side.
    """
    check_classifiers(classifiers)
    matrix = as_matrix(rows, "rows")
    codes, classes = as_labels(labels, len(matrix), "labels")
    groups = np.asarray(images)
    counts = None if tokens is None else as_array(tokens, "tokens")
    check_rows(len(matrix), {"images": groups, **({} if counts is None else {"tokens": counts})})
    train, test = split_by_image(groups, test_share=test_share, seed=seed)
    check_training_side(matrix[train], codes[train], classes)
    correct_by_image = _ImageAccuracy(groups[test], resamples, seed)
    generator = seeded(seed, 31)
    random_labels = np.empty_like(codes)
    for side in (train, test):
        random_labels[side] = generator.permutation(codes[side])
    scores = []
    for name in classifiers:
        named = fit_predict(name, matrix[train], codes[train], [matrix[test]], seed=seed)[0]
        accuracy, low, high = correct_by_image(named == codes[test])
        control = memorised = np.nan
        if shuffled:
            held_out, seen = fit_predict(
                name, matrix[train], random_labels[train], [matrix[test], matrix[train]], seed=seed
            )
            control = 100.0 * float((held_out == random_labels[test]).mean())
            memorised = 100.0 * float((seen == random_labels[train]).mean())
        table = confusion(codes[test], named, len(classes))
        scores.append(ClassifierScore(name, accuracy, low, high, table, control, memorised))
    most = np.bincount(codes[train], minlength=len(classes)).argmax()
    return ClassifierComparison(
        scores=tuple(scores),
        classes=tuple(str(label) for label in classes),
        chance=100.0 / len(classes),
        majority=100.0 * float((codes[test] == most).mean()),
        token_count=np.nan if counts is None else token_count_accuracy(counts, codes, train, test),
        n_train=int(train.sum()),
        n_test=int(test.sum()),
        train_images=len(np.unique(groups[train])),
        test_images=len(np.unique(groups[test])),
    )


def stack_languages(
    embeddings: Mapping[str, ArrayLike], images: ArrayLike
) -> tuple[Float[np.ndarray, "n d"], np.ndarray, np.ndarray]:
    """Stack parallel rows of several languages into the three arrays that classifiers and erasers take.

    Parameters
    ----------
    embeddings : mapping of str to array of shape (image, d)
        By language, rows in the order of ``images``.
    images : array of shape (image,)

    Returns
    -------
    rows, labels, images : arrays of n = languages times images rows
    """
    images = np.asarray(images)
    parts = {language: as_matrix(rows, f"The embeddings in {language!r}") for language, rows in embeddings.items()}
    if not parts:
        raise InputError("No language came. Give embeddings by language.")
    width = next(iter(parts.values())).shape[1]
    for language, rows in parts.items():
        if rows.shape != (len(images), width):
            raise InputError(
                f"The embeddings in {language!r} have shape {rows.shape} for {len(images)} images of width {width}. "
                "Give one row an image, in the same order in every language."
            )
    labels = np.repeat(np.array(list(parts)), len(images))
    return np.concatenate(list(parts.values())), labels, np.tile(images, len(parts))


def check_classifiers(names: Sequence[str]) -> None:
    """Refuse a classifier that is not there, or none at all."""
    if not names or isinstance(names, str):
        raise InputError(f"Name classifiers as a list of some of {', '.join(CLASSIFIERS)}.")
    for name in names:
        if name not in CLASSIFIERS:
            raise InputError(
                f"There is no classifier {name!r}.{suggest(name, CLASSIFIERS)} There is {', '.join(CLASSIFIERS)}."
            )


def check_training_side(rows: Float[np.ndarray, "n d"], codes: Int[np.ndarray, " n"], classes: np.ndarray) -> None:
    """Refuse training rows that no classifier can learn from."""
    counts = np.bincount(codes, minlength=len(classes))
    if (counts < 2).any():
        raise InputError(
            f"The training images hold {int(counts.min())} rows of {str(classes[counts.argmin()])!r}; each class needs "
            "2 or more. Give more images, or a smaller test_share."
        )
    if len(constant_columns(rows)) == rows.shape[1]:
        raise InputError("All rows are the same (every feature is constant), so nothing can be read off them.")


def fit_predict(
    name: str,
    rows: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, " n"],
    others: Sequence[Float[np.ndarray, "m d"]],
    *,
    seed: int = 0,
) -> list[Int[np.ndarray, " m"]]:
    """Fit a classifier on rows and name the classes of others."""
    model = make_classifier(name, len(rows), seed)
    with warnings.catch_warnings():
        # Rows that something was projected out of are collinear, and LDA by SVD is exact on them.
        warnings.filterwarnings("ignore", "Variables are collinear", UserWarning)
        model.fit(rows, codes)
    return [model.predict(other) for other in others]


def make_classifier(name: str, n: int, seed: int = 0) -> Any:
    """Return a scikit-learn classifier by its short name, for ``n`` training rows."""
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)
    if name == "svm":
        from sklearn.svm import LinearSVC

        return LinearSVC(max_iter=5000, random_state=seed)
    if name == "ridge":
        from sklearn.linear_model import RidgeClassifier

        return RidgeClassifier()
    if name == "lda":
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

        return LinearDiscriminantAnalysis()
    if name == "knn":
        from sklearn.neighbors import KNeighborsClassifier

        return KNeighborsClassifier(n_neighbors=min(5, n))
    check_classifiers([name])
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # The tenth that early stopping looks at is drawn from the training side by row; it decides when to stop
    # and is never scored.
    mlp = MLPClassifier((256,), early_stopping=n >= 200, random_state=seed)
    return make_pipeline(StandardScaler(), mlp)


def confusion(true: Int[np.ndarray, " n"], named: Int[np.ndarray, " n"], classes: int) -> np.ndarray:
    """Count (true, named) pairs; int array of shape (class, class)."""
    return np.bincount(true * classes + named, minlength=classes**2).reshape(classes, classes)


def token_count_accuracy(
    tokens: Float[np.ndarray, " n"],
    codes: Int[np.ndarray, " n"],
    train: Bool[np.ndarray, " n"],
    test: Bool[np.ndarray, " n"],
) -> float:
    """Percent of held-out rows named right by the most frequent class of their token count.

    A count that no training row has is looked up as the nearest one that was seen.
    """
    seen, place = np.unique(tokens[train], return_inverse=True)
    table = np.zeros((len(seen), int(codes.max()) + 1), dtype=np.int64)
    np.add.at(table, (place, codes[train]), 1)
    nearest = np.abs(tokens[test][:, None] - seen).argmin(axis=1)
    return 100.0 * float((table[nearest].argmax(axis=1) == codes[test]).mean())


class _ImageAccuracy:
    """Accuracy in percent, with an interval that takes images, not rows, as independent."""

    def __init__(self, images: np.ndarray, resamples: int, seed: int) -> None:
        _, self.place, counts = np.unique(images, return_inverse=True, return_counts=True)
        self.counts = counts.astype(np.float64)
        self.bootstrap = Bootstrap(len(counts), resamples, seed)
        self.rows = self.bootstrap.means(self.counts)

    def __call__(self, correct: Bool[np.ndarray, " n"]) -> tuple[float, float, float]:
        by_image = np.bincount(self.place, weights=correct, minlength=len(self.counts))
        value = 100.0 * float(correct.mean())
        resampled = 100.0 * self.bootstrap.means(by_image) / self.rows
        scores = value + (100.0 * by_image - value * self.counts) / self.counts.mean()
        low, high = self.bootstrap.interval(self.bootstrap.smoothed(resampled, scores), value)
        return value, float(low), float(high)
