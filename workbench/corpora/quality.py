"""Scores of how well captions were translated, and the languages that pass a threshold (S3-22).

The paper scores machine-translated captions on FLORES-200 with COMET-22 and keeps the languages that pass. The scores
are computed elsewhere; here they are read and applied. A file is JSON, ``{"sw": 0.84}``, or a table with the columns
``language`` and ``score``; a language with several rows (a row a sentence) gets their mean.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.corpora.reading import parse_json, read_bytes
from workbench.corpora.records import read_table
from workbench.errors import InputError
from workbench.language_codes import own_codes


@dataclass(frozen=True)
class QualityFilter:
    """Which languages pass.

    Attributes
    ----------
    threshold : float
    kept, dropped : mapping of str to float
        Language to its score.
    unscored : tuple of str
        Languages without a score. They do not pass.
    """

    threshold: float
    kept: Mapping[str, float]
    dropped: Mapping[str, float]
    unscored: tuple[str, ...]


def read_scores(path: str | Path) -> dict[str, float]:
    """Read a score a language.

    Parameters
    ----------
    path : str or Path
        JSON, CSV, TSV, JSON Lines or Parquet. Languages by any code that the bench knows; others stay as they
        are.

    Returns
    -------
    dict of str to float

    Raises
    ------
    InputError
        If a score is no finite number.
    """
    path = Path(path)
    values: dict[str, list[float]] = {}
    for language, score, where in _rows(path):
        if not isinstance(language, str) or not language.strip():
            raise InputError(f"{where} names no language but {language!r}.")
        values.setdefault(language, []).append(_number(score, where))
    if not values:
        raise InputError(f"{str(path)!r} holds no score.")
    own = own_codes(values, repr(str(path)))
    return {own[language]: math.fsum(scores) / len(scores) for language, scores in values.items()}


def filter_languages(scores: Mapping[str, float], threshold: float, languages: Iterable[str]) -> QualityFilter:
    """Tell languages that reach a threshold from those that do not.

    Parameters
    ----------
    scores : mapping of str to float
    threshold : float
        The paper does not publish its own.
    languages : iterable of str
        To decide on.

    Raises
    ------
    InputError
        If the threshold is no finite number.
    """
    limit = _number(threshold, "The threshold")
    wanted = tuple(dict.fromkeys(languages))
    scored = {language: scores[language] for language in wanted if language in scores}
    return QualityFilter(
        threshold=limit,
        kept={language: score for language, score in scored.items() if score >= limit},
        dropped={language: score for language, score in scored.items() if score < limit},
        unscored=tuple(language for language in wanted if language not in scored),
    )


def _rows(path: Path) -> Iterable[tuple[Any, Any, str]]:
    if path.suffix.lower() == ".json":
        found = parse_json(read_bytes(path), path, finite=False)
        if not isinstance(found, dict):
            raise InputError(f'{str(path)!r} is no JSON object such as {{"sw": 0.84}}.')
        return [(language, score, f"{language!r} in {str(path)!r}") for language, score in found.items()]
    table = read_table(path)
    table.need(["language", "score"])
    pairs = zip(table.values("language"), table.values("score"), strict=True)
    return [(language, score, table.where(row)) for row, (language, score) in enumerate(pairs)]


def _number(value: object, where: str) -> float:
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{where} has the score {value!r}; a score is a finite number, such as 0.84.")
    return number
