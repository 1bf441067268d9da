"""Sweeps made by formula, so that a test knows every number."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
from PIL import Image

from interventions import NormMatchedNoise, ParallelEOS, RandomEOS
from workbench.corpora.base import Corpus
from workbench.intervention import Intervention
from workbench.sweep_frame import COLUMNS, LanguageCell, SweepSettings, tidy_frame
from workbench.sweeps import SweepResult

LANGUAGES = {"en": "HRL", "de": "HRL", "sw": "LRL", "te": "LRL"}
INTERVENTIONS = {
    "parallel en": "en",
    "mean of 2": "en+de",
    "random en": "en",
    "noise": "",
    "mid-token en": "en",
}
METRICS = ("R@1", "MRR")
LAST = 12


def frozen_score(language: str, direction: str = "i2t", metric: str = "R@1") -> float:
    """Score without a patch: 80, 65, 50, ... in the order of LANGUAGES."""
    place = (*LANGUAGES, *(code for code in ("ar", "hi", "xx") if code not in LANGUAGES)).index(language)
    return 80.0 - 15 * place - 3 * (direction == "t2i") + 2 * METRICS.index(metric)


def patched_score(language: str, name: str, depth: int, direction: str = "i2t", metric: str = "R@1") -> float:
    """Score under a patch: parallel rows move it to the source's, controls to 0, the middle token nowhere."""
    frozen, share = frozen_score(language, direction, metric), depth / LAST
    if name.startswith("mid-token"):
        return frozen
    if name.startswith(("random", "noise")):
        return frozen * (1 - share)
    return frozen + (frozen_score("en", direction, metric) - frozen) * share


def make_frame(
    languages: Mapping[str, str] = LANGUAGES,
    depths: Sequence[int] = range(LAST + 1),
    interventions: Mapping[str, str] = INTERVENTIONS,
    directions: Sequence[str] = ("i2t", "t2i"),
    n: int = 200,
) -> pd.DataFrame:
    """A tidy frame: each interval reaches 2 below and 3 above its value."""
    rows = []
    groups = [(language, tier, [language]) for language, tier in languages.items()]
    for tier in dict.fromkeys(languages.values()):
        if tier:
            groups.append(("mean", tier, [code for code, own in languages.items() if own == tier]))

    def put(head: tuple, name: str, depth: int | None, direction: str, metric: str, value: float) -> None:
        block = None if depth is None else depth - 1
        fixed = ("toy-tower", "toy-corpus", "images", "toy-map", *head, name, interventions.get(name, ""), depth, block)
        rows.append((*fixed, direction, "first", metric, value, value - 2.0, value + 3.0, n, 0))

    for language, tier, members in groups:
        for direction in directions:
            for metric in METRICS:
                frozen = float(np.mean([frozen_score(m, direction, metric) for m in members]))
                put((language, tier), "none", None, direction, metric, frozen)
                for name in interventions:
                    for depth in depths:
                        scores = [patched_score(m, name, depth, direction, metric) for m in members]
                        value = float(np.mean(scores))
                        put((language, tier), name, depth, direction, metric, value)
                        put((language, tier), name, depth, direction, f"lift {metric}", value - frozen)
                        distance = frozen_score("en", direction, metric) - frozen
                        if metric == "R@1" and name == "parallel en" and distance > 0:
                            share = (value - frozen) / distance
                            put((language, tier), name, depth, direction, "rescue R@1", share)
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"depth": "Int64", "block": "Int64"})


def make_corpus(
    n: int = 12, languages: Sequence[str] = ("en", "sw", "ar"), captions: Mapping[int, str] | None = None, each: int = 1
) -> Corpus:
    """A corpus of grey squares; ``captions`` replaces the first caption of some images in every language."""
    texts = {
        code: tuple(
            tuple((captions or {}).get(row, f"{code} {row}") if k == 0 else f"{code} {row} again" for k in range(each))
            for row in range(n)
        )
        for code in languages
    }
    return Corpus(
        name="toy-corpus",
        image_ids=tuple(f"image-{row}" for row in range(n)),
        captions=texts,
        open_image=lambda name: Image.new("RGB", (100, 50), (int(name.split("-")[1]) * 20 % 256,) * 3),
        licence="none",
        description="grey squares",
        image_hash=lambda name: name,
    )


def make_result(
    corpus: Corpus, depths: Sequence[int] = (0, 9, 12), interventions: Sequence[Intervention] | None = None
) -> SweepResult:
    """A sweep in which caption c of intervention k at depth place d has c + k + d better images, and no ties."""
    chosen = list(interventions or [ParallelEOS("en"), RandomEOS("en"), NormMatchedNoise()])
    n, cells = len(corpus), {}
    per_image = len(next(iter(corpus.captions.values()))[0])
    for language in corpus.languages:
        arrays: dict[str, np.ndarray] = {}
        shape = (len(chosen), len(depths))
        for direction, count in (("i2t", n), ("t2i", n * per_image)):
            own = np.arange(count) // (per_image if direction == "t2i" else 1)
            grid = np.arange(shape[0])[:, None, None] + np.arange(shape[1])[None, :, None] + own
            arrays |= {
                f"clean_{direction}_better": (own % n).astype(np.int32),
                f"clean_{direction}_tied": np.zeros(count, dtype=np.int32),
                f"patched_{direction}_better": (grid % n).astype(np.int32),
                f"patched_{direction}_tied": np.zeros((*shape, count), dtype=np.int32),
            }
        owner = np.arange(n * per_image) // per_image
        arrays["clean_top"] = ((owner[:, None] + np.arange(5)) % n).astype(np.int32)
        place = np.arange(shape[1])[None, :, None, None]
        arrays["patched_top"] = np.broadcast_to(
            (owner[:, None] + 1 + place + np.arange(5)) % n, (*shape, n * per_image, 5)
        ).astype(np.int32)
        arrays["touched"] = np.full(shape[0], n * per_image)
        arrays["moved"] = np.ones(shape, dtype=bool)
        cells[language] = LanguageCell(arrays)
    settings = SweepSettings(
        interventions=chosen,
        languages=corpus.languages,
        depths=list(depths),
        n_blocks=LAST,
        tier_map="toy-map",
        gallery="images",
        tiers=dict.fromkeys(corpus.languages, "HRL"),
        protocol="first" if per_image == 1 else "all",
        seed=0,
        resamples=20,
        batch_size=None,
    )
    tower = cast(Any, SimpleNamespace(name="toy-tower"))
    return SweepResult(tidy_frame(tower, corpus, cells, settings), cells, settings, {})
