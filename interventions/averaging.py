"""Pool averaging: one text for an image, made of its captions in several languages (S3-32, S3-33).

Each language's embedding of an image's caption is normalised, they are averaged, and the mean is normalised
again (AMB-21). Errors that languages do not share cancel; what they share stays. If averaging languages that
each fail gives a text that works, then the content was there in each of them.

The captions of a language that is scored should not be part of the pool that it is compared with; that is
what :func:`leave_one_out` is for.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Float

from workbench.arrays import ArrayLike, as_matrix
from workbench.errors import InputError

# A mean shorter than this has no direction: its members cancel.
_NO_DIRECTION = 1e-9


def pool_average(
    embeddings: Mapping[str, ArrayLike],
    languages: Iterable[str] | None = None,
    *,
    weights: Mapping[str, float] | None = None,
) -> Float[np.ndarray, "image d"]:
    """Average the embeddings of the same images over languages.

    Parameters
    ----------
    embeddings : mapping of str to array of shape (image, d)
        By language, same images in the same order; normalised here.
    languages : iterable of str, optional
        Languages to average over; all by default. One alone gives its own unit embeddings.
    weights : mapping of str to float, optional
        By language, none negative; equal by default. A language that is not named weighs nothing.

    Returns
    -------
    float64 array of shape (image, d)
        Unit rows.

    Raises
    ------
    InputError
        If a language is unknown or named twice, shapes differ, a row is zero or not finite, or embeddings cancel.
    """
    chosen = _chosen(embeddings, languages)
    shares = _shares(chosen, weights)
    rows = {language: _unit(embeddings[language], language) for language in chosen}
    first = rows[chosen[0]]
    for language in chosen:
        if rows[language].shape != first.shape:
            raise InputError(
                f"The embeddings in {language!r} have shape {rows[language].shape}, those in {chosen[0]!r} "
                f"{first.shape}. Give one caption an image in every language, in one order."
            )
    mean = np.sum([shares[language] * rows[language] for language in chosen], axis=0)
    norm = np.linalg.norm(mean, axis=1, keepdims=True)
    if (norm < _NO_DIRECTION).any():
        row = int(np.flatnonzero(norm < _NO_DIRECTION)[0])
        raise InputError(f"The embeddings of image {row} cancel over {', '.join(chosen)}: their mean has no direction.")
    return mean / norm


def leave_one_out(
    embeddings: Mapping[str, ArrayLike],
    languages: Iterable[str] | None = None,
    *,
    weights: Mapping[str, float] | None = None,
) -> dict[str, Float[np.ndarray, "image d"]]:
    """Average over a pool without each of its languages in turn (AMB-21).

    Returns
    -------
    dict of str to float64 array of shape (image, d)
        By the language that was left out.

    Raises
    ------
    InputError
        As :func:`pool_average`, and if the pool has fewer than two languages.
    """
    chosen = _chosen(embeddings, languages)
    if len(chosen) < 2:
        raise InputError(f"Leaving one out needs two languages or more; the pool is {', '.join(chosen)}.")
    return {
        out: pool_average(embeddings, [language for language in chosen if language != out], weights=weights)
        for out in chosen
    }


def _chosen(embeddings: Mapping[str, ArrayLike], languages: Iterable[str] | None) -> list[str]:
    if isinstance(languages, str):
        raise InputError(f"languages={languages!r} came; name them as a list, such as [{languages!r}].")
    chosen = list(embeddings) if languages is None else list(languages)
    if not chosen:
        raise InputError("No language to average over came.")
    for language in chosen:
        if language not in embeddings:
            raise InputError(f"There are no embeddings in {language!r}. There are: {', '.join(embeddings)}.")
        if chosen.count(language) > 1:
            raise InputError(f"{language!r} is in the pool twice. Give it a weight instead.")
    return chosen


def _shares(chosen: list[str], weights: Mapping[str, float] | None) -> dict[str, float]:
    if weights is None:
        return dict.fromkeys(chosen, 1.0 / len(chosen))
    found = {language: float(weights.get(language, 0.0)) for language in chosen}
    total = sum(found.values())
    if any(not np.isfinite(share) or share < 0 for share in found.values()) or total <= 0:
        raise InputError(f"The weights {found} came; give numbers from 0 on, one of them above 0.")
    return {language: share / total for language, share in found.items()}


def _unit(rows: ArrayLike, language: str) -> Float[np.ndarray, "image d"]:
    matrix = as_matrix(rows, f"The embeddings in {language!r}", minimum_rows=1)
    norm = np.linalg.norm(matrix, axis=1, keepdims=True)
    if (norm == 0).any():
        row = int(np.flatnonzero(norm == 0)[0])
        raise InputError(f"The embedding of image {row} in {language!r} is zero and has no direction.")
    return matrix / norm
