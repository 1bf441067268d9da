"""The two figures of prevalence bias that lay towers beside each other."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analyses.theme import FAINT, INK, TEMPLATE, Style, intervention_styles, label

LEGEND: dict[str, Any] = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0}
CHANCE = Style("#747474", "dot", "line-ew-open", 1.8)

# Ticks of a logarithmic axis at 1, 2 and 5 only; Plotly's own choice writes a lone digit between powers.
_LOG_TICKS = [base * 10.0**power for power in range(-4, 3) for base in (1, 2, 5)]


def log_axis() -> dict[str, Any]:
    """Return a logarithmic axis with plain numbers on it."""
    return {"type": "log", "tickvals": _LOG_TICKS, "ticktext": [f"{tick:g}" for tick in _LOG_TICKS]}


def curves(table: pd.DataFrame, towers: Sequence[str], title: str) -> go.Figure:
    """Draw LBKL and DLBKL by depth on the left, the share of low-resource captions on the right.

    LBKL at k = 1 is the same for every tower and far above the rest, so it is written and not drawn.
    """
    figure = go.Figure()
    styles = intervention_styles(towers)
    _chance(figure, table, "LBKL", "", "chance")
    _chance(figure, table, "low share", "2", "chance")
    for tower in towers:
        own, style = table[table["tower"] == tower], styles[tower]
        _line(figure, own, "LBKL", f"{label(tower)}, LBKL", style, "solid", "")
        _line(figure, own, "DLBKL", f"{label(tower)}, DLBKL", style, "dot", "")
        _line(figure, own, "low share", label(tower), style, "solid", "2")
    ks = sorted(table.loc[table["metric"].str.startswith("LBKL@"), "k"].unique())
    ticks = {"type": "log", "tickvals": ks, "ticktext": [str(k) for k in ks], "title_text": "captions that count, k"}
    if ks[0] == 1:
        figure.add_annotation(
            text=f"k = 1 is not drawn: {table['ceiling'].max():.4f} for every tower", showarrow=False,
            x=0, y=1, xref="x domain", yref="paper", xanchor="left", yanchor="bottom",
            font={"size": 11, "color": FAINT},
        )  # fmt: skip
    figure.update_layout(
        template=TEMPLATE,
        title={"text": label(title)},
        height=520,
        margin={"l": 64, "r": 20, "t": 84, "b": 150},
        legend=LEGEND,
        hovermode="closest",
        xaxis={**ticks, "domain": [0, 0.46]},
        xaxis2={**ticks, "domain": [0.56, 1], "anchor": "y2"},
        yaxis={"title_text": "LBKL, DLBKL (nats)", **log_axis()},
        yaxis2={"title_text": "low-resource captions among k, %", "anchor": "x2", "range": [0, 100]},
    )
    return figure


def _rows(table: pd.DataFrame, name: str) -> list[dict[str, Any]]:
    chosen = table["metric"].str.startswith(f"{name}@") & ((table["k"] > 1) | (name == "low share"))
    return [
        {str(key): value for key, value in row.items()} for row in table[chosen].sort_values("k").to_dict("records")
    ]


def _line(figure: go.Figure, table: pd.DataFrame, name: str, legend: str, style: Style, dash: str, axis: str) -> None:
    rows = _rows(table, name)
    x = [row["k"] for row in rows]
    place = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
    figure.add_scatter(
        x=[*x, *reversed(x)],
        y=[*(row["low"] for row in rows), *(row["high"] for row in reversed(rows))],
        fill="toself", fillcolor=style.rgba(0.16), line={"width": 0}, mode="lines", hoverinfo="skip",
        legendgroup=legend, showlegend=False, **place,
    )  # fmt: skip
    figure.add_scatter(
        x=x,
        y=[row["value"] for row in rows],
        mode="lines+markers",
        name=legend,
        legendgroup=legend,
        showlegend=axis == "",
        line={"color": style.colour, "dash": dash, "width": 2.2},
        marker={"symbol": style.symbol, "size": 7, "color": style.colour},
        hovertext=[
            f"<b>{legend}</b><br>{row['metric']} {row['value']:.4g} [{row['low']:.4g}, {row['high']:.4g}]"
            + (f"<br>chance {row['null']:.4g}" if row["null"] == row["null"] else "")
            + (f"<br>{label(row['note'])}" if row["note"] else "")
            for row in rows
        ],
        hovertemplate="%{hovertext}<extra></extra>",
        **place,
    )


def _chance(figure: go.Figure, table: pd.DataFrame, name: str, axis: str, group: str) -> None:
    first = table[table["tower"] == table["tower"].iloc[0]]
    rows = _rows(first, name)
    x = [row["k"] for row in rows]
    place = {"xaxis": f"x{axis}", "yaxis": f"y{axis}", "legendgroup": group}
    figure.add_scatter(
        x=[*x, *reversed(x)],
        y=[*(row["null low"] for row in rows), *(row["null high"] for row in reversed(rows))],
        fill="toself", fillcolor=CHANCE.rgba(0.25), line={"width": 0}, mode="lines", hoverinfo="skip",
        showlegend=False, **place,
    )  # fmt: skip
    figure.add_scatter(
        x=x, y=[row["null"] for row in rows], mode="lines", name="chance: a retriever blind to languages",
        line={"color": CHANCE.colour, "dash": CHANCE.dash, "width": CHANCE.width}, showlegend=axis == "",
        hovertext=[f"chance at k = {row['k']}<br>{row['null']:.4g}" for row in rows],
        hovertemplate="%{hovertext}<extra></extra>", **place,
    )  # fmt: skip


def scatter(table: pd.DataFrame, accuracy: str, bias: str, title: str) -> go.Figure:
    """Draw accuracy against bias: runs filled, published towers hollow, by group."""
    figure = go.Figure()
    rows = [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]
    values = [row[bias] for row in rows]
    ends = [math.log10(min(values) / 2.5), math.log10(max(values) * 2.5)]

    def pixels(value: float) -> float:
        return (math.log10(max(value, 10 ** ends[0])) - ends[0]) / (ends[1] - ends[0]) * 800

    spots = [(pixels(row[bias]), row[accuracy] / 108 * 290) for row in rows]
    bars: list[Box] = [
        (pixels(row[f"{bias} low"]), pixels(row[f"{bias} high"]), height - 4, height + 4)
        for row, (_, height) in zip(rows, spots, strict=True)
        if row["group"] == "run"
    ]
    edges: list[Box] = [(-500, 0, -500, 500), (800, 1300, -500, 500)]
    sides = text_sides(spots, [row["tower"] for row in rows], [*bars, *edges])
    runs = [k for k, row in enumerate(rows) if row["group"] == "run"]
    for k, style in zip(runs, intervention_styles([rows[k]["tower"] for k in runs]).values(), strict=True):
        row = rows[k]
        figure.add_scatter(
            x=[row[bias]], y=[row[accuracy]], mode="markers+text", name=label(row["tower"]),
            text=[f"<b>{label(row['tower'])}</b>"], textposition=sides[k], showlegend=False, textfont={"size": 11},
            marker={"symbol": style.symbol.removesuffix("-open"), "size": 11, "color": style.colour},
            error_x=_bar(row, bias, style), error_y=_bar(row, accuracy, style),
            hovertemplate=f"<b>{label(row['tower'])}</b><br>{label(accuracy)} %{{y:.1f}}<br>{label(bias)} %{{x:.3g}}"
            "<extra></extra>",
        )  # fmt: skip
    looks = ((INK, "circle-open"), ("#0256a9", "square-open"), ("#b55508", "diamond-open"), ("#0e8c41", "cross-open"))
    groups = [group for group in dict.fromkeys(row["group"] for row in rows) if group != "run"]
    for group, (colour, symbol) in zip(groups, looks, strict=False):
        own = [k for k, row in enumerate(rows) if row["group"] == group]
        figure.add_scatter(
            x=[rows[k][bias] for k in own], y=[rows[k][accuracy] for k in own], mode="markers+text", name=label(group),
            text=[label(rows[k]["tower"]) for k in own], textfont={"size": 11, "color": FAINT},
            textposition=[sides[k] for k in own],
            marker={"symbol": symbol, "size": 10, "color": colour, "line": {"width": 2}},
            hovertemplate="%{text}<br>%{y:.1f}, %{x:.3g}<extra></extra>",
        )  # fmt: skip
    if runs:
        null = float(rows[runs[0]]["null"])
        figure.add_shape(
            type="line", x0=null, x1=null, y0=0, y1=1, yref="paper",
            line={"color": CHANCE.colour, "dash": CHANCE.dash, "width": CHANCE.width},
        )  # fmt: skip
        figure.add_annotation(
            x=math.log10(null), y=0, yref="paper", xanchor="left", yanchor="bottom", text=" chance", showarrow=False,
            font={"size": 11, "color": FAINT},
        )  # fmt: skip
    figure.update_layout(
        template=TEMPLATE, title={"text": label(title)}, height=480, legend=LEGEND,
        margin={"l": 64, "r": 24, "t": 84, "b": 110},
    )  # fmt: skip
    figure.update_xaxes(title_text=f"{label(bias)}, nats (log scale)", range=ends, **log_axis())
    figure.update_yaxes(title_text=f"{label(accuracy)}, %", range=[0, 108], tickvals=[0, 20, 40, 60, 80, 100])
    return figure


_SIDES = {"middle right": (1, 0), "middle left": (-1, 0), "top center": (0, 1), "bottom center": (0, -1)}


Box = tuple[float, float, float, float]


def text_sides(
    points: Sequence[tuple[float, float]], texts: Sequence[str], obstacles: Sequence[Box] = (), size: float = 11
) -> list[str]:
    """Choose a side of each point for its text, so that texts cover neither points nor each other where they can.

    Parameters
    ----------
    points : sequence of (x, y)
        In pixels, upwards.
    texts : sequence of str
    obstacles : sequence of (left, right, bottom, top)
        What else no text should cover, such as error bars.
    size : float
        Of the font, in pixels.

    Returns
    -------
    list of str
        As Plotly's ``textposition``.
    """
    taken: list[Box] = [(x - 7, x + 7, y - 7, y + 7) for x, y in points]
    taken += obstacles
    found = []
    for own, ((x, y), text) in enumerate(zip(points, texts, strict=True)):
        width, height = 0.6 * size * len(text), 1.2 * size
        boxes: dict[str, Box] = {}
        for side, (right, up) in _SIDES.items():
            middle = (x + right * (width / 2 + 9), y + up * (height / 2 + 8))
            boxes[side] = (middle[0] - width / 2, middle[0] + width / 2, middle[1] - height / 2, middle[1] + height / 2)
        others = [box for k, box in enumerate(taken) if k != own]
        side = min(boxes, key=lambda name: sum(_overlap(boxes[name], other) for other in others))
        taken.append(boxes[side])
        found.append(side)
    return found


def _overlap(a: Box, b: Box) -> float:
    return max(0.0, min(a[1], b[1]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[2], b[2]))


def _bar(row: dict[str, Any], metric: str, style: Style) -> dict[str, Any]:
    return {
        "type": "data", "symmetric": False, "thickness": 1.5, "width": 4, "color": style.colour,
        "array": [row[f"{metric} high"] - row[metric]], "arrayminus": [row[metric] - row[f"{metric} low"]],
    }  # fmt: skip
