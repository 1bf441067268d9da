"""Whether the language of a caption can be read off its embedding, linearly (S3-30).

Captions of one image say the same in every language. If they stood on both sides of the split, a
classifier could tell languages apart by remembering images; so the split is by image (AMB-15).
"""

from dataclasses import dataclass

import numpy as np

from workbench.errors import InputError


@dataclass(frozen=True)
class LanguageProbe:
    """How well a linear classifier names the language of held-out captions.

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
    embeddings: dict[str, np.ndarray], images: np.ndarray, *, test_share: float = 0.5, seed: int = 0
) -> LanguageProbe:
    """Fit a multinomial logistic regression on half of the images and score it on the other half.

    Parameters
    ----------
    embeddings : dict of str to array of shape (n, d)
        By language, rows in the order of ``images``.
    images : array of shape (n,)
        Which image each row belongs to.
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
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import confusion_matrix
    from sklearn.model_selection import GroupShuffleSplit

    languages = tuple(embeddings)
    if len(languages) < 2:
        raise InputError(f"A language probe needs two languages or more; {len(languages)} came.")
    for language, rows in embeddings.items():
        if rows.ndim != 2 or len(rows) != len(images):
            raise InputError(
                f"The embeddings in {language!r} have shape {rows.shape} for {len(images)} images. Give one row an "
                "image, in the same order in every language."
            )
        if not np.isfinite(rows).all():
            raise InputError(f"The embeddings in {language!r} hold NaN or infinity.")
    if len(np.unique(images)) < 2:
        raise InputError("A language probe needs two images or more, since the split is by image.")
    x = np.concatenate([rows.astype(np.float64) for rows in embeddings.values()])
    y = np.repeat(np.arange(len(languages)), len(images))
    groups = np.tile(images, len(languages))
    train, test = next(GroupShuffleSplit(1, test_size=test_share, random_state=seed).split(x, y, groups))
    model = LogisticRegression(max_iter=1000).fit(x[train], y[train])
    named = model.predict(x[test])
    return LanguageProbe(
        accuracy=100.0 * float((named == y[test]).mean()),
        chance=100.0 / len(languages),
        confusion=confusion_matrix(y[test], named, labels=np.arange(len(languages))),
        languages=languages,
        n_train=len(train),
        n_test=len(test),
    )
