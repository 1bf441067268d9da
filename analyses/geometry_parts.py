"""What all figures of geometry are made of: panels that stack on a narrow screen, curves with bands, levels.

The figures compare languages or tiers over depth, mostly in two panels of the same kind. Side by side on a wide
page, one above the other on a narrow one: the layout carries both, and the page chooses.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analyses.frames import finite
from analyses.theme import FAINT, INK, TEMPLATE, Style, depth_name, depth_ticks, label, tier_style
from workbench.errors import InputError

Result = TypeVar("Result")

CHANCE = Style("#5f5f5f", "dot", "line-ew-open", 1.8)
DEPTH_SHORT = "depth, <i>block</i>"
_MIXED = Style("#8e2873", "12px,3px,3px,3px", "square", 2.0)
_DEPTHS_SHOWN = 9
_LEGEND_ROW = 24  # pixels


class Panels:
    """Panels of one figure.

    Parameters
    ----------
    heads : sequence of str
        What stands above each panel.
    shares : sequence of float, optional
        Widths when side by side; equal by default.
    height : int
        Of a panel, in pixels.
    entries : int
        Entries of the legend, which stands below.
    left : int
        Left margin, for names of languages.
    """

    def __init__(
        self,
        heads: Sequence[str],
        *,
        shares: Sequence[float] | None = None,
        height: int = 340,
        entries: int = 4,
        left: int = 64,
    ) -> None:
        self.heads, self.height, self.left = list(heads), height, left
        self.shares = list(shares or [1.0] * len(heads))
        self.legend = (-(-entries // 5) * _LEGEND_ROW, -(-entries // 2) * _LEGEND_ROW)

    def axis(self, place: int) -> str:
        """Return the number of a panel's axes, such as ``"2"``."""
        return str(place + 1) if place else ""

    def lay_out(
        self, figure: go.Figure, title: str, x: Sequence[Mapping[str, Any]], y: Sequence[Mapping[str, Any]]
    ) -> None:
        """Place the panels; ``x`` and ``y`` are the axes of each."""
        axes: dict[str, Any] = {}
        heads = []
        for place, (head, (left, right, bottom, top)) in enumerate(zip(self.heads, self._places(False), strict=True)):
            axis = self.axis(place)
            axes[f"xaxis{axis}"] = {**x[place], "anchor": f"y{axis}", "domain": [left, right]}
            axes[f"yaxis{axis}"] = {**y[place], "anchor": f"x{axis}", "domain": [bottom, top]}
            heads.append(
                {
                    "x": left, "y": top, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom",
                    "text": f"<b>{label(head)}</b>", "font": {"size": 13, "color": INK}, "showarrow": False,
                }
            )  # fmt: skip
        figure.update_layout(
            template=TEMPLATE,
            title={"text": label(title)},
            height=self._height(False),
            margin={"l": self.left, "r": 16, "t": 84, "b": self._bottom(False)},
            hovermode="closest",
            legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
            annotations=heads,
            meta={"wide": self._changes(False), "narrow": self._changes(True)},
            **axes,
        )

    def _bottom(self, narrow: bool) -> int:
        return 84 + self.legend[narrow]

    def _height(self, narrow: bool) -> int:
        rows = len(self.heads) if narrow else 1
        return rows * self.height + (rows - 1) * 100 + 84 + self._bottom(narrow)

    def _places(self, narrow: bool) -> list[tuple[float, float, float, float]]:
        count = len(self.heads)
        if narrow:
            whole = count * self.height + (count - 1) * 100
            tops = [1 - k * (self.height + 100) / whole for k in range(count)]
            return [(0.0, 1.0, max(top - self.height / whole, 0.0), top) for top in tops]
        gap = 0.11 if count > 1 else 0.0
        free, left, found = 1 - gap * (count - 1), 0.0, []
        for share in self.shares:
            right = left + free * share / sum(self.shares)
            found.append((left, min(right, 1.0), 0.0, 1.0))
            left = right + gap
        return found

    def _changes(self, narrow: bool) -> dict[str, Any]:
        found: dict[str, Any] = {"height": self._height(narrow), "margin.b": self._bottom(narrow)}
        for place, (left, right, bottom, top) in enumerate(self._places(narrow)):
            axis = self.axis(place)
            found |= {f"xaxis{axis}.domain": [left, right], f"yaxis{axis}.domain": [bottom, top]}
            found |= {f"annotations[{place}].x": left, f"annotations[{place}].y": top}
        return found


def curve(
    x: Sequence[float],
    value: np.ndarray,
    low: np.ndarray | None,
    high: np.ndarray | None,
    style: Style,
    name: str,
    *,
    axis: str = "",
    group: str | None = None,
    legend: bool = True,
    alpha: float = 0.15,
    texts: Sequence[str] | None = None,
) -> list[go.Scatter]:
    """Return a line with markers, and below it the band of its interval where it has one."""
    place = {"xaxis": f"x{axis}", "yaxis": f"y{axis}", "legendgroup": group or name}
    traces = []
    if low is not None and high is not None and np.isfinite(low).any():
        bottom, top = finite(low), finite(high)
        single = len(x) == 1
        traces.append(
            go.Scatter(
                x=[*x, *reversed(x)], y=[*bottom, *reversed(top)], fill="toself", fillcolor=style.rgba(alpha),
                mode="lines", line={"width": 1.5 if single else 0, "color": style.colour}, showlegend=False,
                hoverinfo="skip", **place,
            )
        )  # fmt: skip
    marked = style.symbol != "line-ew-open"
    traces.append(
        go.Scatter(
            x=list(x), y=finite(value), mode="lines+markers" if marked or len(x) == 1 else "lines", name=label(name),
            showlegend=legend, line={"color": style.colour, "dash": style.dash, "width": style.width},
            marker={"symbol": style.symbol, "size": 7, "color": style.colour},
            hovertext=list(texts or [label(name)] * len(x)), hovertemplate="%{hovertext}<extra></extra>", **place,
        )
    )  # fmt: skip
    return traces


def level_line(y: float, text: str | None = None, axis: str = "") -> dict[str, Any]:
    """Return a thin line across a panel, such as the one at 0."""
    shape: dict[str, Any] = {
        "type": "line", "xref": f"x{axis} domain", "yref": f"y{axis}", "x0": 0, "x1": 1, "y0": y, "y1": y,
        "layer": "below", "line": {"color": FAINT, "width": 1.2},
    }  # fmt: skip
    if text:
        shape["label"] = {"text": label(text), "textposition": "end", "font": {"size": 11, "color": FAINT}}
    return shape


def depth_axis(depths: Sequence[int], title: str = DEPTH_SHORT) -> dict[str, Any]:
    """Return a depth axis for a panel of half a page's width."""
    return {
        "range": [depths[0] - 0.5, depths[-1] + 0.5],
        "title": {"text": title},
        **depth_ticks(depths, _DEPTHS_SHOWN),
    }


def number(value: float, low: float | None = None, high: float | None = None, digits: int = 3) -> str:
    """Return ``"0.458 [0.441, 0.475]"``, or a dash where there is no value."""
    if not np.isfinite(value):
        return "–"
    ends = "" if low is None or high is None or not np.isfinite(low) else f" [{low:.{digits}f}, {high:.{digits}f}]"
    return f"{value:.{digits}f}{ends}"


def hover(name: str, depths: Sequence[int], *rows: np.ndarray) -> list[str]:
    """Return what a pointer shows at each depth: the name, the depth, and a value with its interval."""
    return [f"<b>{label(name)}</b><br>{depth_name(depth)}<br>{_at(rows, k)}" for k, depth in enumerate(depths)]


def _at(rows: tuple[np.ndarray, ...], k: int) -> str:
    value, *ends = (float(row[k]) for row in rows)
    return number(value, ends[0], ends[1]) if len(ends) == 2 else number(value)


def pair_style(first: str, second: str) -> Style:
    """Return the style of a pair of tiers: a tier's own style for a pair within it."""
    return tier_style(first) if first == second else _MIXED


def after(style: Style) -> Style:
    """Return how the second of two states of a tower is drawn: thinner, with hollow marks."""
    symbol = style.symbol if style.symbol.endswith("-open") else f"{style.symbol}-open"
    return Style(style.colour, "2px,2px", symbol, max(style.width - 0.6, 1.0))


def states_of(results: Result | Mapping[str, Result]) -> dict[str, Result]:
    """Return one or two results by the name of their state; a lone one has no name.

    Raises
    ------
    InputError
        If there is none, or more than two, which one figure can't tell apart.
    """
    found: dict[str, Any] = dict(results) if isinstance(results, Mapping) else {"": results}
    if not 1 <= len(found) <= 2:
        raise InputError(
            f"{len(found)} states came. A figure shows one tower, or one before and after a change, such as "
            '{"frozen": ..., "calibrated": ...}.'
        )
    return found


def state_style(style: Style, place: int) -> Style:
    """Return a style for the first or the second state."""
    return after(style) if place else style


def check_same(results: Mapping[str, Any], *names: str) -> None:
    """Refuse to draw results together that differ in what the axes or captions speak of.

    Raises
    ------
    InputError
        Naming what differs.
    """
    every = list(results.values())
    for name in names:
        values = [getattr(result, name) for result in every]
        if any(value != values[0] for value in values[1:]):
            raise InputError(f"The results differ in {name}: {', '.join(map(str, values))}. Measure all alike.")


def with_state(name: str, state: str) -> str:
    """Return ``"HRL–LRL, calibrated"``, or the name alone."""
    return f"{name}, {state}" if state else name


def span(values: Sequence[np.ndarray], *, least: float | None = None, most: float | None = None) -> list[float]:
    """Return the range of an axis that holds all finite values, with some air."""
    flat = np.concatenate([np.ravel(np.asarray(own, dtype=np.float64)) for own in values])
    flat = flat[np.isfinite(flat)]
    low, high = (float(flat.min()), float(flat.max())) if len(flat) else (0.0, 1.0)
    low, high = low if least is None else min(low, least), high if most is None else max(high, most)
    air = 0.05 * (high - low) or 0.5
    return [low - air, high + air]


def titled(text: str, subject: str) -> str:
    """Return a title, with the tower and corpus before it where they are given."""
    return f"{subject}: {text}" if subject else text


def table_of(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a tidy table; a lone tower has no column of states."""
    table = pd.DataFrame(list(records))
    return table.drop(columns="state") if "state" in table and not table["state"].any() else table


def extremes(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say which language has the smallest value and which the largest: ``"0.12 (zh) to 0.31 (sw)"``."""
    known = [row for row in rows if np.isfinite(row["value"])]
    if not known:
        return ""
    least, most = (pick(known, key=lambda row: row["value"]) for pick in (min, max))
    return f"{number(least['value'])} ({least['language']}) to {number(most['value'])} ({most['language']})"
