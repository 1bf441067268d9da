"""Beforehand: how many captions a gap takes to be seen, and how long and how large the run will be.

A gap is seen when the interval of a language's paired difference to the better tier excludes zero. How wide
that interval is depends on how much the difference varies from image to image, and that is measured on a
pilot of a few hundred images: the frozen tower, no patch. With standard deviation s, so many languages and
directions tested, and power 1-b, the images needed are

    n = ((z(1 - a/2m) + z(1-b)) s / gap)²

the usual normal approximation for a paired mean, Bonferroni included as in the verdict.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import stats

from workbench.corpora.base import Corpus
from workbench.errors import InputError
from workbench.gallery import embed_gallery
from workbench.retrieval import Direction, rank, unit
from workbench.sweep_frame import DIRECTIONS
from workbench.towers.base import Tower

if TYPE_CHECKING:
    import pandas as pd

PILOT = 200
GAPS = (2.0, 5.0, 10.0, 20.0)


@dataclass(frozen=True)
class Pilot:
    """How much the gap of a language varies from image to image.

    Attributes
    ----------
    spread : mapping of (language, direction) to float
        Standard deviation over images of the better tier's mean minus the language, in points of R@1.
    n : int
        Images of the pilot.
    """

    spread: Mapping[tuple[str, Direction], float]
    n: int

    @property
    def tests(self) -> int:
        """Languages times directions, which the verdict corrects for."""
        return len(self.spread)

    @property
    def largest(self) -> float:
        """The most variable of them: what is enough for it is enough for all."""
        return max(self.spread.values())


def pilot_of(
    tower: Tower, corpus: Corpus, tiers: Mapping[str, str], gallery: str = "images", images: int = PILOT
) -> Pilot:
    """Score the frozen tower on the first images.

    Parameters
    ----------
    tower : Tower
    corpus : Corpus
    tiers : mapping of str to str
        Of the languages that will be judged.
    gallery : str
        As :func:`workbench.gallery.gallery_name` says it.
    images : int

    Raises
    ------
    InputError
        If there are fewer than two tiers, or fewer than 20 images.
    """
    names = list(dict.fromkeys(tiers.values()))
    if len(names) < 2:
        raise InputError(f"A gap is between two tiers; {', '.join(tiers)} are of {len(names)}.")
    small = corpus.select(None, min(images, len(corpus)))
    if len(small) < 20:
        raise InputError(f"{len(small)} images are too few for a pilot; 20 is the least.")
    embedded, owner = embed_gallery(tower, small, gallery), torch.arange(len(small))
    hits: dict[tuple[str, Direction], np.ndarray] = {}
    for language in tiers:
        texts = unit(tower.embed_captions(small, language), f"{language} embeddings")
        for direction, ranks in rank(texts, embedded, owner).items():
            hits[language, direction] = 100 * ranks.hits(1)
    level = {t: np.mean([hits[key].mean() for key in hits if tiers[key[0]] == t]) for t in names}
    better, worse = max(names, key=level.__getitem__), min(names, key=level.__getitem__)
    spread = {}
    for direction in DIRECTIONS:
        mean = np.mean([hits[lang, direction] for lang in tiers if tiers[lang] == better], axis=0)
        for language in (lang for lang in tiers if tiers[lang] == worse):
            spread[language, direction] = float(np.std(mean - hits[language, direction], ddof=1))
    return Pilot(spread, len(small))


def images_needed(pilot: Pilot, gap: float, *, level: float = 0.95, power: float = 0.8) -> int:
    """Return how many images it takes to see a gap of so many points of R@1.

    Parameters
    ----------
    pilot : Pilot
    gap : float
    level : float
        Of the interval, before Bonferroni.
    power : float
        Chance to see a gap of that size.
    """
    if gap <= 0 or not 0 < level < 1 or not 0 < power < 1:
        raise InputError(f"gap={gap}, level={level} and power={power} came; a gap is positive, the others 0 to 1.")
    return int(np.ceil((_reach(pilot, level, power) * pilot.largest / gap) ** 2))


def smallest_gap(pilot: Pilot, images: int, *, level: float = 0.95, power: float = 0.8) -> float:
    """Return the gap in points of R@1 that so many images can show."""
    return float(_reach(pilot, level, power) * pilot.largest / np.sqrt(images))


def _reach(pilot: Pilot, level: float, power: float) -> float:
    return float(stats.norm.ppf(1 - (1 - level) / (2 * pilot.tests)) + stats.norm.ppf(power))


def power_table(pilot: Pilot, gaps: Sequence[float] = GAPS) -> "pd.DataFrame":
    """Images needed for several gaps, at 80 and 95 % power."""
    import pandas as pd

    rows = [
        {"gap": gap, **{f"images, {100 * p:.0f} % power": images_needed(pilot, gap, power=p) for p in (0.8, 0.95)}}
        for gap in gaps
    ]
    return pd.DataFrame(rows)
