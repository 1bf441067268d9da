"""What averaging the captions of several languages gains over each of them (S3-32, S3-33).

A *cell* is one tower on one corpus with one pool of languages. Its baseline can be read in two ways, and both
are reported with paired intervals: the *mean* of the pool's languages, which is what the published gains are
over, and the *best* of them. The best is chosen on the same images that it is scored on, which favours it, so
that a gain over it is, if anything, understated. Leave-one-out compares each language with the average of the
others, which never saw its caption.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from analyses.image_scores import DIRECTIONS, image_scores, unit_languages
from interventions.averaging import leave_one_out, pool_average
from workbench.arrays import ArrayLike
from workbench.errors import InputError
from workbench.languages import HRL_6, LRL_5
from workbench.retrieval import DIFFERENCE, PERCENT, Bootstrap

if TYPE_CHECKING:
    import pandas as pd

    from workbench.corpora.base import Corpus
    from workbench.towers.base import Tower

POOLS: dict[str, tuple[str, ...]] = {"HRL": HRL_6, "LRL": LRL_5}
"""The two pools of S3-32 and S3-33."""


@dataclass(frozen=True)
class AveragingGains:
    """Retrieval by averages over pools of languages.

    Attributes
    ----------
    frame : pandas.DataFrame
        One row a number: ``tower, corpus, pool, languages, text, direction, metric, value, low, high, n, seed``.
        ``text`` is what stands for an image: a language's own caption, ``"average"``, ``"mean of languages"``,
        or ``"average without X"``. ``metric`` is such as ``R@1`` in percent, or a paired difference in points:
        ``gain over mean R@1``, ``gain over best R@1`` (``text`` is ``"average"``), or ``gain over own R@1``
        (``text`` is ``"average without X"``, against X).
    best : dict of (pool, direction) to str
        The best single language.
    pools : dict of str to tuple of str
    """

    frame: "pd.DataFrame" = field(repr=False)
    best: dict[tuple[str, str], str]
    pools: dict[str, tuple[str, ...]]


def average_tower(
    tower: "Tower",
    corpus: "Corpus",
    pools: Mapping[str, Iterable[str]] = POOLS,
    *,
    pivot: str | None = None,
    progress: bool = True,
    **options: Any,
) -> AveragingGains:
    """Embed a corpus, first caption of each language, and average it over pools: one row of S3-33's matrix.

    Parameters
    ----------
    tower : Tower
    corpus : Corpus
    pools : mapping of str to iterable of str
        By name; HRL-6 and LRL-5 by default.
    pivot : str, optional
        For a text-only tower: the language whose captions are the gallery.
    progress : bool
    **options
        Of :func:`average_languages`.
    """
    from workbench.scoring import embed

    chosen = {name: tuple(languages) for name, languages in pools.items()}
    wanted = corpus.check_languages(dict.fromkeys(language for pool in chosen.values() for language in pool))
    found = embed(tower, corpus, wanted, "first", pivot, progress)
    embeddings = {language: rows.numpy() for language, rows in found.captions.items()}
    return average_languages(embeddings, found.gallery.numpy(), chosen, tower=tower.name, corpus=corpus.name, **options)


def average_languages(
    embeddings: Mapping[str, ArrayLike],
    gallery: ArrayLike,
    pools: Mapping[str, Iterable[str]] = POOLS,
    *,
    weights: Mapping[str, float] | None = None,
    metrics: Sequence[str] = ("R@1", "R@5", "MRR"),
    resamples: int = 1000,
    seed: int = 0,
    tower: str = "",
    corpus: str = "",
) -> AveragingGains:
    """Score single languages, their average, and the average without each of them.

    Parameters
    ----------
    embeddings : mapping of str to array of shape (image, d)
        Output embeddings by language, one caption an image; normalised here.
    gallery : array of shape (image, d)
    pools : mapping of str to iterable of str
        By name, two languages or more each.
    weights : mapping of str to float, optional
        Of languages in every pool; equal by default.
    metrics : sequence of str
        The best language is chosen by the first.
    resamples, seed : int
        Of the bootstrap over images.
    tower, corpus : str
        Names for the table.

    Raises
    ------
    InputError
        If a pool names a language that is not there or has fewer than two, or arrays don't match.
    """
    import pandas as pd

    chosen = {name: tuple(languages) for name, languages in pools.items()}
    if not chosen or not metrics:
        raise InputError("Name at least one pool of languages and one metric.")
    for name, pool in chosen.items():
        if len(set(pool)) < 2:
            raise InputError(f"The pool {name!r} has {len(set(pool))} language; an average needs two or more.")
    rows, images = unit_languages(embeddings, gallery)
    table = _Table(Bootstrap(len(images), resamples, seed), {"tower": tower, "corpus": corpus})
    best = {}
    for name, pool in chosen.items():
        texts = {language: rows[language] for language in pool if language in rows}
        texts["average"] = pool_average(rows, pool, weights=weights)
        apart = leave_one_out(rows, pool, weights=weights)
        texts |= {_without(language): average for language, average in apart.items()}
        for metric in metrics:
            scores = {text: image_scores(values, images, text, metric) for text, values in texts.items()}
            for direction in DIRECTIONS:
                own = {text: found[direction] for text, found in scores.items()}
                top = max(pool, key=lambda language, own=own: own[language].mean())
                best.setdefault((name, direction), top)
                table.pool(name, pool, direction, metric, own, best[name, direction])
    return AveragingGains(pd.DataFrame(table.rows), best, chosen)


class _Table:
    def __init__(self, bootstrap: Bootstrap, names: dict[str, str]) -> None:
        self.bootstrap, self.names = bootstrap, names
        self.rows: list[dict[str, Any]] = []

    def pool(
        self, name: str, pool: tuple[str, ...], direction: str, metric: str, own: dict[str, np.ndarray], best: str
    ) -> None:
        mean = np.mean([own[language] for language in pool], axis=0)
        numbers = [(language, metric, own[language]) for language in pool]
        numbers += [
            ("mean of languages", metric, mean),
            ("average", metric, own["average"]),
            ("average", f"gain over mean {metric}", own["average"] - mean),
            ("average", f"gain over best {metric}", own["average"] - own[best]),
        ]
        for language in pool:
            without = own[_without(language)]
            numbers.append((_without(language), metric, without))
            numbers.append((_without(language), f"gain over own {metric}", without - own[language]))
        for text, what, by_image in numbers:
            # Resampled as differences of images, so that equal arms differ by exactly 0.
            low, high = self.bootstrap.mean_interval(by_image, DIFFERENCE if what.startswith("gain") else PERCENT)
            self.rows.append(
                {
                    **self.names, "pool": name, "languages": "+".join(pool), "text": text, "direction": direction,
                    "metric": what, "value": float(by_image.mean()), "low": float(low), "high": float(high),
                    "n": len(by_image), "seed": self.bootstrap.seed,
                }
            )  # fmt: skip


def _without(language: str) -> str:
    return f"average without {language}"
