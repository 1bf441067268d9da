"""The frozen tower: which languages fail before anything is patched.

Each language is a dot with its interval; a tier's mean is a line with a band behind its languages. The gap
between two tiers is the distance between two lines. Where some captions were never seen in training, their
scores are hollow diamonds: a tower that only knows captions by heart would have them far to the left.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
import plotly.graph_objects as go

from analyses.base import Analysis
from analyses.curves import published_stars, published_text
from analyses.frames import DIRECTIONS, FROZEN, Group, Number, SweepView, finite, interval
from analyses.menus import add_traces
from analyses.theme import INK, TEMPLATE, Style, label, language_style, tier_style
from workbench.errors import InputError

_UNSEEN_COLUMNS = ("language", "direction", "metric", "value", "low", "high", "n")
_ROW = 26  # pixels


class _Block(NamedTuple):
    """A tier's place on the vertical axis; rows count downwards."""

    tier: str
    mean: Group | None
    languages: list[Group]
    first: int

    @property
    def rows(self) -> list[tuple[int, Group]]:
        groups = [*([self.mean] if self.mean else []), *self.languages]
        return [(self.first + place, group) for place, group in enumerate(groups)]

    @property
    def span(self) -> tuple[float, float]:
        return self.rows[0][0] - 0.45, self.rows[-1][0] + 0.45


def baseline(
    frame: pd.DataFrame, *, direction: str = "i2t", metric: str = "R@1", unseen: pd.DataFrame | None = None
) -> Analysis:
    """Show the frozen tower's score of every language, by tier.

    Parameters
    ----------
    frame : pandas.DataFrame
        Of a sweep.
    direction : {"i2t", "t2i"}
        What is shown first, and what languages are sorted by; buttons show the other.
    metric : str
        What the figure shows; the table has every metric.
    unseen : pandas.DataFrame, optional
        The frozen tower's scores on captions that it never saw in training: columns language, direction,
        metric, value, low, high and n.

    Returns
    -------
    Analysis
        Its table has a row a language and a tier mean, all metrics, both directions.
    """
    view = SweepView(frame)
    view.check(direction, metric)
    extra = _unseen(unseen, view)
    blocks = _blocks(view, direction, metric)
    figure = go.Figure()
    traces = {name: _traces(view, blocks, extra, name, metric) for name in view.directions}
    titles = {name: {"xaxis.title.text": f"{label(metric)}, {DIRECTIONS[name]}, %"} for name in view.directions}
    add_traces(figure, traces, direction, titles)
    title = f"Frozen tower: {metric} by language ({view.images})"
    _lay_out(figure, blocks, view.top(metric), title)
    return Analysis("baseline", title, _table(view, blocks, extra), figure, _caption(view, bool(extra), metric))


def _blocks(view: SweepView, direction: str, metric: str) -> list[_Block]:
    blocks, first = [], 0
    for tier, mean, languages in view.by_tier(direction, metric):
        blocks.append(_Block(tier, mean, languages, first))
        first += len(languages) + (mean is not None) + 1
    return blocks


def _traces(
    view: SweepView,
    blocks: list[_Block],
    extra: dict[tuple, Number],
    direction: str,
    metric: str,
) -> list[Any]:
    traces: list[Any] = []
    for block in blocks:
        number = view.frozen(block.mean, direction, metric) if block.mean else None
        if number is not None:
            traces += _mean_line(block, number)
    rows = [(row, group) for block in blocks for row, group in block.rows]
    for name, symbol in (("tier mean", "line-ns-open"), ("language", None)):
        own = [(row, group) for row, group in rows if group.is_mean == (symbol is not None)]
        if own:
            traces.append(_dots(own, [view.frozen(g, direction, metric) for _, g in own], name, symbol))
    if extra:
        own = [(row, group) for row, group in rows if (group.language, direction, metric) in extra]
        if own:
            numbers = [extra[group.language, direction, metric] for _, group in own]
            dots = _dots(own, numbers, "unseen captions", "diamond-open")
            dots.y = [row + 0.28 for row, _ in own]
            traces.append(dots)
    marks = [(row, group, view.mark(group, FROZEN, None, direction, metric)) for row, group in rows]
    found = [(row, group, mark) for row, group, mark in marks if mark is not None]
    if found:
        texts = [
            f"<b>published</b> ({label(mark.where)})<br>{label(group.name)} {mark.value:.1f}<br>this run {mark.verdict}"
            for _, group, mark in found
        ]
        traces.append(published_stars([mark.value for *_, mark in found], [row for row, *_ in found], texts))
    return traces


def _mean_line(block: _Block, number: Number) -> list[Any]:
    style, (top, bottom) = tier_style(block.tier), block.span
    shared = {"mode": "lines", "hoverinfo": "skip", "showlegend": False}
    low, high = finite([number.low, number.high])
    return [
        go.Scatter(
            x=[low, high, high, low], y=[top, top, bottom, bottom],
            fill="toself", fillcolor=style.rgba(0.16), line={"width": 0}, **shared,
        ),
        go.Scatter(
            x=[number.value] * 2, y=[top, bottom],
            line={"color": style.colour, "dash": style.dash, "width": 1.6}, **shared,
        ),
    ]  # fmt: skip


def _dots(rows: list[tuple[int, Group]], numbers: Sequence[Number | None], name: str, symbol: str | None) -> go.Scatter:
    styles: list[Style] = [
        tier_style(group.tier) if group.is_mean else language_style(group.language) for _, group in rows
    ]
    values = [None if number is None else number.value for number in numbers]
    above = [None if n is None else n.high - n.value for n in numbers]
    below = [None if n is None else n.value - n.low for n in numbers]
    hollow = symbol == "diamond-open"
    return go.Scatter(
        x=finite(values),
        y=[row for row, _ in rows],
        mode="markers",
        name=name,
        error_x={
            "type": "data", "symmetric": False, "array": finite(above), "arrayminus": finite(below),
            "color": "#8a8a8a" if hollow else "#444444", "thickness": 1.0 if hollow else 1.5, "width": 4,
        },
        marker={
            "color": [style.colour for style in styles],
            "symbol": symbol or [style.symbol for style in styles],
            "size": {"line-ns-open": 16, "diamond-open": 8}.get(symbol or "", 10),
            "line": {"width": 4 if symbol == "line-ns-open" else 1.2},
        },
        hovertext=[
            f"{label(group.name)}, {name}<br>{interval(number)}<br>n = {number.n if number else 0:,}"
            for (_, group), number in zip(rows, numbers, strict=True)
        ],
        hovertemplate="%{hovertext}<extra></extra>",
    )  # fmt: skip


def _lay_out(figure: go.Figure, blocks: list[_Block], top: float, title: str) -> None:
    rows = [(row, group) for block in blocks for row, group in block.rows]
    last = rows[-1][0]
    names = [f"<b>{label(g.name)}</b>" if g.is_mean else label(g.name) for _, g in rows]
    figure.update_layout(
        template=TEMPLATE,
        title={"text": label(title)},
        height=190 + _ROW * (last + 1),
        margin={"l": 150, "r": 16, "t": 110, "b": 96},
        hovermode="closest",
        meta={"wide": {"margin.l": 150}, "narrow": {"margin.l": 112}},
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
    )
    figure.update_xaxes(range=[-1.5, top])
    figure.update_yaxes(
        range=[last + 0.7, -0.7],
        tickvals=[row for row, _ in rows],
        ticktext=names,
        showgrid=False,
        ticks="",
        tickfont={"color": INK},
    )


def _table(view: SweepView, blocks: list[_Block], extra: dict[tuple, Number]) -> pd.DataFrame:
    records = []
    for block in blocks:
        for _, group in block.rows:
            record: dict[str, Any] = {"language": group.language, "name": group.name, "tier": group.tier}
            for source, numbers in (("", view.frozen), ("unseen ", None)):
                for direction in view.directions:
                    for metric in view.metrics:
                        if numbers is not None:
                            number = numbers(group, direction, metric)
                        elif any(key[1:] == (direction, metric) for key in extra):
                            number = extra.get((group.language, direction, metric))
                        else:
                            continue
                        name = f"{source}{direction} {metric}"
                        ends = (None,) * 3 if number is None else number[:3]
                        record |= dict(zip((name, f"{name} low", f"{name} high"), ends, strict=True))
                        if number is not None:
                            record.setdefault(f"{source}n", number.n)
                        mark = view.mark(group, FROZEN, None, direction, metric) if numbers is not None else None
                        if mark is not None:
                            record |= {f"{name} published": mark.value, f"{name} difference": mark.difference}
            records.append(record)
    return pd.DataFrame(records)


def _unseen(frame: pd.DataFrame | None, view: SweepView) -> dict[tuple, Number]:
    if frame is None:
        return {}
    lacking = [name for name in _UNSEEN_COLUMNS if name not in frame.columns]
    if lacking:
        raise InputError(
            f"The frame of unseen captions lacks {', '.join(lacking)}. It needs {', '.join(_UNSEEN_COLUMNS)}."
        )
    languages = {group.language for group in view.groups}
    numbers: dict[tuple, Number] = {}
    for row in frame[list(_UNSEEN_COLUMNS)].to_dict("records"):
        if row["language"] not in languages:
            raise InputError(
                f"The frame of unseen captions has the language {row['language']!r}, which the sweep lacks. "
                "Leave it out."
            )
        key = (row["language"], row["direction"], row["metric"])
        numbers[key] = Number(float(row["value"]), float(row["low"]), float(row["high"]), int(row["n"]))
    return numbers


def _caption(view: SweepView, unseen: bool, metric: str) -> str:
    text = (
        f"{view.subject}, no patch. A mark is a language, its bar the 95 % interval of a bootstrap over "
        f"images ({view.images}, caption protocol {view.protocol!r})."
    )
    if view.tiers:
        text += " Lines and bands are the means of the tiers, each language weighing the same; the tiers are "
        text += f"those of the map {view.tier_map!r}."
    else:
        text += " No language has a tier."
    if unseen:
        text += " Hollow diamonds are scored on those captions alone that the tower never saw in training."
    return text + published_text(view, [metric], [None])
