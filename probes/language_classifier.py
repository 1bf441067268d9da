"""Whether the language of a caption can be read off its embedding, linearly (S3-30).

The short form, for parallel embeddings by language: one classifier on one split by image, its accuracy and
its confusion matrix. :func:`probes.classifiers.compare_classifiers` takes plain arrays and puts other
classifiers, baselines and shuffled labels beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from probes.classifiers import check_classifiers, check_training_side, confusion, fit_predict, stack_languages
from workbench.arrays import ArrayLike
from workbench.errors import InputError
from workbench.splits import split_by_image


@dataclass(frozen=True)
class LanguageProbe:
    """How well a classifier names the language of held-out captions.

    Attributes
    ----------
    accuracy : float
        Percent right on held-out images.
    chance : float
        Percent right of a guess among the languages.
    confusion : int array of shape (language, language)
        Rows are true languages, columns the named ones.
    languages : tuple of str
    n_train, n_test : int
        Captions on each side of the split.
    """

    accuracy: float
    chance: float
    confusion: np.ndarray
    languages: tuple[str, ...]
    n_train: int
    n_test: int


def probe_language(
    embeddings: Mapping[str, ArrayLike],
    images: ArrayLike,
    *,
    classifier: str = "logistic",
    test_share: float = 0.5,
    seed: int = 0,
) -> LanguageProbe:
    """Fit a classifier on half of the images and score it on the other half.

    Parameters
    ----------
    embeddings : mapping of str to array of shape (n, d)
        By language, rows in the order of ``images``.
    images : array of shape (n,)
        Which image each row belongs to.
    classifier : str
        One of :data:`probes.classifiers.CLASSIFIERS`; multinomial logistic regression by default (AMB-17).
    test_share : float
        Share of images that are held out.
    seed : int

    Returns
    -------
    LanguageProbe

    Raises
    ------
    InputError
        If fewer than two languages came, shapes differ, a value is not finite, or a side is left empty.
    """
    check_classifiers([classifier])
    languages = tuple(embeddings)
    if len(languages) < 2:
        raise InputError(f"A language probe needs two languages or more; {len(languages)} came.")
    rows, labels, groups = stack_languages(embeddings, images)
    codes = np.array([languages.index(label) for label in labels])
    train, test = split_by_image(groups, test_share=test_share, seed=seed)
    check_training_side(rows[train], codes[train], np.array(languages))
    named = fit_predict(classifier, rows[train], codes[train], [rows[test]], seed=seed)[0]
    return LanguageProbe(
        accuracy=100.0 * float((named == codes[test]).mean()),
        chance=100.0 / len(languages),
        confusion=confusion(codes[test], named, len(languages)),
        languages=languages,
        n_train=int(train.sum()),
        n_test=int(test.sum()),
    )
