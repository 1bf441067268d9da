"""How much must be erased? Accuracy and retrieval against the number of directions removed (S3-37).

LEACE and mean-difference removal have one rank; INLP goes on. If language were held by a few directions alone,
INLP would reach chance within a step or two; where it takes many, they are also more and more of what retrieval
reads, and its placebo, as many random directions, falls along with it.
"""

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analyses.base import Analysis
from analyses.erasure import BEFORE, PLACEBO, ErasureAudit
from analyses.erasure_figures import subject_of, title_above
from analyses.frames import DIRECTIONS
from analyses.theme import TEMPLATE, Style, label, tier_style
from workbench.errors import InputError

_LEGEND: dict[str, Any] = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0}
_INLP = Style("#0256a9", "solid", "circle", 2.4)
_RANDOM = Style("#747474", "dot", "x", 1.8)
_POINTS = {"LEACE": "star", "MeanDifference": "diamond-open"}


def erasure_by_rank(audit: ErasureAudit, *, direction: str = "i2t") -> Analysis:
    """Show a linear attacker's accuracy, and the tiers' retrieval, against the rank that was erased.

    Parameters
    ----------
    audit : ErasureAudit
        With INLP at two ranks or more.
    direction : {"i2t", "t2i"}
    """
    inlp = sorted((audit.placebo_rank[name], name) for name in audit.fitted if name.startswith("INLP"))
    if len(inlp) < 2:
        raise InputError(
            f"A curve over ranks needs INLP at two or more; the audit has {', '.join(audit.fitted)}. Add INLP(12) "
            "and INLP(64)."
        )
    names = [BEFORE, *(name for _, name in inlp)]
    randoms = [BEFORE, *(f"{PLACEBO} {rank}" for rank, _ in inlp)]
    ranks = [0, *(rank for rank, _ in inlp)]
    attacks = audit.attacks
    attacker = str(attacks[attacks["linear"]]["attacker"].iloc[0])
    read = attacks[attacks["attacker"] == attacker]
    figure = go.Figure()
    _band(figure, ranks, [_accuracy(read, name) for name in randoms], _RANDOM, "random directions", "", True)
    _band(figure, ranks, [_accuracy(read, name) for name in names], _INLP, "INLP", "", True)
    for name, symbol in _POINTS.items():
        if name in audit.fitted:
            _point(figure, audit.placebo_rank[name], _accuracy(read, name), name, symbol, _INLP.colour, "", True)
    chance = float(attacks["chance"].iloc[0])
    figure.add_scatter(
        x=[0, ranks[-1]], y=[chance, chance], mode="lines", name=f"chance, {chance:.1f} %", hoverinfo="skip",
        line={"color": "#000000", "dash": "dash", "width": 1.4},
    )  # fmt: skip
    metric = str(audit.retrieval["metric"].iloc[0])
    scored = audit.retrieval[(audit.retrieval["direction"] == direction) & (audit.retrieval["metric"] == metric)]
    means = scored[scored["language"] == "mean"]
    for tier in dict.fromkeys(means["tier"]):
        own, style = means[means["tier"] == tier], tier_style(str(tier))
        _band(
            figure, ranks, [_score(own, name) for name in randoms],
            Style(style.colour, "dot", "x", 1.6), f"{tier} mean, random directions", "2", True,
        )  # fmt: skip
        solid = Style(style.colour, "solid", style.symbol, 2.4)
        _band(figure, ranks, [_score(own, name) for name in names], solid, f"{tier} mean, INLP", "2", True)
        for name, symbol in _POINTS.items():
            if name in audit.fitted:
                _point(figure, audit.placebo_rank[name], _score(own, name), name, symbol, style.colour, "2", False)
    n = audit.test_images
    title = f"Directions erased: language read and {metric} ({n:,} held-out images)"
    axis = {"title_text": "directions erased", "range": [-0.03 * ranks[-1], 1.04 * ranks[-1]]}
    figure.update_layout(
        template=TEMPLATE, title=title_above(title), height=560, legend=_LEGEND, hovermode="closest",
        margin={"l": 64, "r": 20, "t": 64, "b": 160},
        xaxis={**axis, "domain": [0, 0.45]}, xaxis2={**axis, "domain": [0.55, 1], "anchor": "y2"},
        yaxis={"title_text": f"language named by {attacker}, %", "range": [0, 102]},
        yaxis2={"title_text": f"{label(metric)}, {DIRECTIONS[direction]}, %", "range": [0, 102], "anchor": "x2"},
    )  # fmt: skip
    caption = (
        f"Left: held-out captions whose language a {attacker} classifier names, trained on erased embeddings. Right: "
        f"{metric} of the tiers' means. {subject_of(audit)}; {n:,} held-out images, fitted on {audit.train_images:,} "
        "others. Bands are 95 % intervals of a bootstrap over images; those of random directions are mean ± 2 standard "
        "deviations over draws."
    )
    kept = read[read["eraser"].isin([*names, *randoms, *_POINTS])].copy()
    kept = kept.rename(columns={"accuracy": "value"}).assign(metric=f"accuracy {attacker}", language="", tier="")
    table = pd.concat([kept, means[means["eraser"].isin([*names, *randoms, *_POINTS])]], ignore_index=True)
    columns = ["eraser", "rank", "draw", "language", "tier", "direction", "metric", "value", "low", "high", "sd", "n"]
    parts = []
    for rank, name in inlp:
        scores = ", ".join(
            f"{tier} {_score(means[means['tier'] == tier], name)[0]:.1f}" for tier in dict.fromkeys(means["tier"])
        )
        parts.append(f"rank {rank} leaves {attacker} {_accuracy(read, name)[0]:.1f} %{', ' if scores else ''}{scores}")
    finding = f"INLP of {'; '.join(parts)} ({direction} {metric})."
    return Analysis("erasure-ranks", title, table[columns], figure, caption, finding)


_Number = tuple[float, float, float]


def _accuracy(read: pd.DataFrame, eraser: str) -> _Number:
    own = read[read["eraser"] == eraser]
    if len(own) > 1:
        # Draws of the placebo.
        return _spread(float(own["accuracy"].mean()), float(own["accuracy"].std(ddof=1)))
    return float(own["accuracy"].iloc[0]), float(own["low"].iloc[0]), float(own["high"].iloc[0])


def _score(own: pd.DataFrame, eraser: str) -> _Number:
    row = own[(own["eraser"] == eraser) & own["draw"].isna()].iloc[0]
    value, sd = float(row["value"]), float(row["sd"])
    return (value, float(row["low"]), float(row["high"])) if pd.isna(sd) else _spread(value, sd)


def _spread(value: float, sd: float) -> _Number:
    return value, value - 2 * sd, value + 2 * sd


def _band(
    figure: go.Figure, ranks: list[int], numbers: list[_Number], style: Style, name: str, axis: str, legend: bool
) -> None:
    place = {"xaxis": f"x{axis}", "yaxis": f"y{axis}", "legendgroup": f"{name}{axis}"}
    figure.add_scatter(
        x=[*ranks, *reversed(ranks)],
        y=[*(high for _, _, high in numbers), *(low for _, low, _ in reversed(numbers))],
        fill="toself", fillcolor=style.rgba(0.16), line={"width": 0}, mode="lines", hoverinfo="skip",
        showlegend=False, **place,
    )  # fmt: skip
    figure.add_scatter(
        x=ranks, y=[value for value, _, _ in numbers], mode="lines+markers", name=label(name), showlegend=legend,
        line={"color": style.colour, "dash": style.dash, "width": style.width},
        marker={"symbol": style.symbol, "size": 7, "color": style.colour},
        hovertext=[
            f"{label(name)}, rank {rank}<br>{value:.1f} [{low:.1f}, {high:.1f}]"
            for rank, (value, low, high) in zip(ranks, numbers, strict=True)
        ],
        hovertemplate="%{hovertext}<extra></extra>", **place,
    )  # fmt: skip


def _point(
    figure: go.Figure, rank: int, number: _Number, name: str, symbol: str, colour: str, axis: str, legend: bool
) -> None:
    value, low, high = number
    figure.add_scatter(
        x=[rank], y=[value], mode="markers", name=name, showlegend=legend, legendgroup=name,
        marker={"symbol": symbol, "size": 12, "color": colour, "line": {"width": 1.6, "color": "#1a1a1a"}},
        error_y={
            "type": "data", "symmetric": False, "array": [high - value], "arrayminus": [value - low], "width": 3,
            "color": "#444444", "thickness": 1.2,
        },
        hovertext=[f"{name}, rank {rank}<br>{value:.1f} [{low:.1f}, {high:.1f}]"],
        hovertemplate="%{hovertext}<extra></extra>", xaxis=f"x{axis}", yaxis=f"y{axis}",
    )  # fmt: skip
