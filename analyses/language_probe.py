"""How well classifiers name the language, with all that an accuracy is compared with, and which ones are confused.

The first figure has a row a classifier: its accuracy, and the same classifier on shuffled labels, whose distance
is the selectivity. Lines are chance, the most frequent class, and what the token count alone gives away. The
second is a confusion matrix (S3-30, S3-31).
"""

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analyses.base import Analysis
from analyses.erasure_figures import title_above
from analyses.theme import INK, TEMPLATE, label
from probes.classifiers import LINEAR, ClassifierComparison

_LEGEND: dict[str, Any] = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0}
_NAMES = {
    "logistic": "logistic regression",
    "svm": "linear SVM",
    "ridge": "ridge",
    "lda": "LDA",
    "knn": "5 nearest neighbours",
    "mlp": "MLP, 256 units",
}


def classifier_accuracies(found: ClassifierComparison, *, subject: str = "") -> Analysis:
    """Show every classifier's accuracy on held-out images beside its baselines.

    Parameters
    ----------
    found : ClassifierComparison
    subject : str
        Tower and corpus, for the caption.
    """
    scores = list(found.scores)
    names = [f"{_NAMES[score.classifier]}{'' if score.classifier in LINEAR else ' *'}" for score in scores]
    places = list(range(len(scores)))
    figure = go.Figure()
    figure.add_scatter(
        x=[score.accuracy for score in scores], y=places, mode="markers", name="accuracy, 95 % interval",
        marker={"symbol": "circle", "size": 11, "color": "#0256a9", "line": {"width": 1, "color": INK}},
        error_x={
            "type": "data", "symmetric": False, "array": [score.high - score.accuracy for score in scores],
            "arrayminus": [score.accuracy - score.low for score in scores], "color": "#444444", "thickness": 1.5,
            "width": 4,
        },
        hovertext=[
            f"{name}<br>{score.accuracy:.1f} [{score.low:.1f}, {score.high:.1f}]<br>n = {found.n_test:,}"
            for name, score in zip(names, scores, strict=True)
        ],
        hovertemplate="%{hovertext}<extra></extra>",
    )  # fmt: skip
    if not np.isnan(scores[0].control):
        figure.add_scatter(
            x=[score.control for score in scores], y=places, mode="markers", name="fitted on shuffled labels",
            marker={"symbol": "x-thin-open", "size": 10, "color": "#b55508", "line": {"width": 2}},
            hovertext=[
                f"{name}, shuffled labels<br>held out {score.control:.1f} %, on its own training rows "
                f"{score.memorised:.1f} %"
                for name, score in zip(names, scores, strict=True)
            ],
            hovertemplate="%{hovertext}<extra></extra>",
        )  # fmt: skip
    levels = [("chance", found.chance, "dash"), ("majority", found.majority, "dashdot")]
    if abs(found.chance - found.majority) < 0.05:
        levels = [("chance and majority", found.chance, "dash")]
    if not np.isnan(found.token_count):
        levels.append(("token count alone", found.token_count, "dot"))
    for name, level, dash in levels:
        figure.add_scatter(
            x=[level, level], y=[-0.6, len(scores) - 0.4], mode="lines", name=f"{name}, {level:.1f} %",
            line={"color": "#000000", "dash": dash, "width": 1.5}, hoverinfo="skip",
        )  # fmt: skip
    title = f"Language named by classifiers ({found.test_images:,} held-out images, {len(found.classes)} languages)"
    figure.update_layout(
        template=TEMPLATE, title=title_above(title), height=190 + 36 * len(scores), legend=_LEGEND,
        margin={"l": 170, "r": 20, "t": 64, "b": 118}, hovermode="closest",
        meta={"wide": {"margin.l": 170}, "narrow": {"margin.l": 140}},
    )  # fmt: skip
    figure.update_xaxes(range=[0, 102], title_text="captions whose language is named right, %")
    figure.update_yaxes(
        range=[len(scores) - 0.4, -0.6], tickvals=places, ticktext=names, showgrid=False, ticks="",
        tickfont={"color": INK},
    )  # fmt: skip
    caption = (
        f"Percent of held-out captions whose language each classifier names{_of(subject)}. All are fitted on the same "
        f"{found.train_images:,} images and scored on {found.test_images:,} others ({found.n_test:,} captions), so that"
        " no image is on both sides; bars are 95 % intervals of a bootstrap over images. An asterisk marks classifiers "
        "that are not linear."
    )
    best, least = (pick(scores, key=lambda score: score.accuracy) for pick in (max, min))
    baselines = ", ".join(f"{name} {level:.1f}" for name, level, _ in levels)
    finding = (
        f"Named right: {best.accuracy:.1f} % [{best.low:.1f}, {best.high:.1f}] by {_NAMES[best.classifier]}, "
        f"{least.accuracy:.1f} % [{least.low:.1f}, {least.high:.1f}] by {_NAMES[least.classifier]}; {baselines}."
    )
    return Analysis("language-classifiers", title, found.frame(), figure, caption, finding)


def confusion_figure(found: ClassifierComparison, classifier: str = "logistic", *, subject: str = "") -> Analysis:
    """Show which languages a classifier takes for which, in percent of the captions of each.

    Parameters
    ----------
    found : ClassifierComparison
    classifier : str
    subject : str
        Tower and corpus, for the caption.
    """
    score = found[classifier]
    totals = score.confusion.sum(axis=1, keepdims=True)
    shares = 100.0 * score.confusion / np.maximum(totals, 1)
    names = [label(name) for name in found.classes]
    small = len(names) > 16
    figure = go.Figure(
        go.Heatmap(
            x=names, y=names, z=shares, colorscale="Cividis", zmin=0, zmax=100, xgap=1, ygap=1,
            text=[["" if share < 0.5 else f"{np.floor(share + 0.5):.0f}" for share in row] for row in shares],
            texttemplate="" if small else "%{text}", textfont={"size": 11},
            hovertemplate="%{y} named %{x}: %{z:.1f} %<extra></extra>",
            colorbar={"title": {"text": "%", "side": "right", "font": {"size": 12}}, "thickness": 12},
        )
    )  # fmt: skip
    title = f"Languages confused by {_NAMES[classifier]} ({found.test_images:,} held-out images)"
    size = 26 if small else 34
    figure.update_layout(
        template=TEMPLATE, title=title_above(title), height=150 + size * len(names),
        margin={"l": 80, "r": 20, "t": 56, "b": 70},
    )  # fmt: skip
    figure.update_xaxes(title_text="language that is named", showgrid=False, ticks="")
    figure.update_yaxes(title_text="language of the caption", showgrid=False, ticks="", autorange="reversed")
    table = pd.DataFrame(
        [
            {"language": own, "named": other, "captions": int(score.confusion[i, j]), "percent": float(shares[i, j])}
            for i, own in enumerate(found.classes)
            for j, other in enumerate(found.classes)
        ]
    )
    caption = (
        f"Percent of each language's held-out captions that {_NAMES[classifier]} gives to each language{_of(subject)}; "
        f"{found.n_test:,} captions of {found.test_images:,} images, accuracy {score.accuracy:.1f} % "
        f"[{score.low:.1f}, {score.high:.1f}]. Shares below 0.5 % are left blank."
    )
    wrong = table[table["language"] != table["named"]]
    most = max(wrong.to_dict("records"), key=lambda row: row["percent"])
    finding = f"Most often taken for another: {most['language']}, named {most['named']} in {most['percent']:.1f} %."
    if not most["captions"]:
        finding = f"All {found.n_test:,} captions are named right."
    return Analysis(f"language-confusion-{classifier}", title, table, figure, caption, finding)


def _of(subject: str) -> str:
    return f", {subject}" if subject else ""
