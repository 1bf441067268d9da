"""Which language helps which: the average of two languages' captions against the one language alone.

A cell is a *source* and a *target*: points of R@1 by which the mean of the two unit embeddings, normalised again, beats
the target's own caption. Pools of languages hide who in them does the work; pairs show it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analyses.base import Analysis
from analyses.erasure_figures import title_above
from analyses.image_scores import DIRECTIONS, image_scores, unit_languages
from analyses.theme import TEMPLATE, label
from interventions.averaging import pool_average
from workbench.arrays import ArrayLike
from workbench.errors import InputError
from workbench.retrieval import Bootstrap


def averaging_pairs(
    embeddings: Mapping[str, ArrayLike], gallery: ArrayLike, *, metric: str = "R@1", direction: str = "i2t",
    resamples: int = 1000, seed: int = 0, tower: str = "", corpus: str = "",
) -> Analysis:  # fmt: skip
    """Average each two languages and show what each of them gains by the other.

    Parameters
    ----------
    embeddings : mapping of str to array of shape (image, d)
        Output embeddings by language, one caption an image.
    gallery : array of shape (image, d)
    metric : str
        ``"R@k"`` or ``"MRR"``.
    direction : {"i2t", "t2i"}
        Of the figure; the table has both.
    resamples, seed : int
        Of the paired bootstrap over images.
    tower, corpus : str

    Raises
    ------
    InputError
        If fewer than two languages came, or arrays don't match.
    """
    if len(embeddings) < 2:
        raise InputError(f"{len(embeddings)} language came; a pair needs two.")
    rows, images = unit_languages(embeddings, gallery)
    bootstrap = Bootstrap(len(images), resamples, seed)
    own = {language: image_scores(rows[language], images, language, metric) for language in rows}
    languages = list(rows)
    records = []
    for place, first in enumerate(languages):
        for second in languages[place + 1 :]:
            both = image_scores(pool_average(rows, (first, second)), images, f"{first} and {second}", metric)
            for source, target in ((first, second), (second, first)):
                for way in DIRECTIONS:
                    change = both[way] - own[target][way]
                    low, high = bootstrap.interval(bootstrap.means(change))
                    records.append(
                        {
                            "tower": tower, "corpus": corpus, "source": source, "target": target, "direction": way,
                            "metric": f"gain over own {metric}", "value": float(change.mean()), "low": float(low),
                            "high": float(high), "average": float(both[way].mean()),
                            "own": float(own[target][way].mean()), "n": len(images), "seed": seed,
                        }
                    )  # fmt: skip
    table = pd.DataFrame(records)
    shown = table[table["direction"] == direction]
    title = f"Gain of the average with a second language: {metric}, {direction} (n = {len(images):,} images)"
    best = max(shown.to_dict("records"), key=lambda row: row["value"])
    finding = (
        f"The most is gained by {best['target']} from {best['source']}: {best['value']:+.1f} points "
        f"[{best['low']:+.1f}, {best['high']:+.1f}], from {best['own']:.1f} to {best['average']:.1f} %."
    )
    caption = (
        f"{finding} Points of {metric} that a target language (column) gains when its caption's unit embedding is "
        "averaged with that of the same image in a source language (row). Intervals are in the table: paired 95 % "
        f"bootstrap over {len(images):,} images."
    )
    return Analysis("averaging-matrix", title, table, _figure(shown, languages, title), caption, finding)


def _figure(shown: pd.DataFrame, languages: Sequence[str], title: str) -> go.Figure:
    cells: dict[Any, Any] = {(row["source"], row["target"]): row for row in shown.to_dict("records")}
    reach = max(1.0, float(shown["value"].abs().max()))

    def hover(one: dict[str, Any]) -> str:
        pair = f"<b>{label(one['target'])}</b> with {label(one['source'])}"
        return f"{pair}<br>{one['value']:+.1f} [{one['low']:+.1f}, {one['high']:+.1f}]"

    def grid(make: Callable[[dict[str, Any]], Any], empty: Any = "") -> list[list[Any]]:
        pairs = [[cells.get((source, target)) for target in languages] for source in languages]
        return [[empty if one is None else make(one) for one in row] for row in pairs]

    names = [label(language) for language in languages]
    figure = go.Figure(
        go.Heatmap(
            x=names, y=names, z=grid(lambda one: one["value"], None), text=grid(lambda one: f"{one['value']:+.0f}"),
            texttemplate="%{text}", hovertext=grid(hover), hovertemplate="%{hovertext}<extra></extra>",
            colorscale="RdBu_r", zmid=0, zmin=-reach, zmax=reach, xgap=1, ygap=1,
            colorbar={"title": {"text": "points", "side": "right"}, "thickness": 12},
        )
    )  # fmt: skip
    figure.update_layout(
        template=TEMPLATE, title=title_above(title), height=190 + 28 * max(len(names), 4),
        margin={"l": 80, "r": 60, "t": 64, "b": 70},
        xaxis={"title": {"text": "target"}, "showgrid": False, "ticks": ""},
        yaxis={"title": {"text": "source"}, "autorange": "reversed", "showgrid": False, "ticks": ""},
    )  # fmt: skip
    return figure
