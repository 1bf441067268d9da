"""What each intervention does at one depth, three blocks before the end.

The last depth proves nothing, since a parallel patch there hands over the source's own output. So effects are
read at the checkpoint N-3, the output of block N-4, where three blocks still have to work with the new row
(S3-03).
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analyses.base import Analysis
from analyses.curves import last_of, published_stars, published_text
from analyses.frames import DIRECTIONS, Group, Number, SweepView, finite, interval
from analyses.menus import add_traces
from analyses.rescue import ordered_groups
from analyses.theme import INK, TEMPLATE, depth_name, intervention_styles, label
from workbench.errors import InputError


def checkpoint_table(
    frame: pd.DataFrame,
    depth: int | None = None,
    *,
    direction: str = "i2t",
    metric: str = "R@1",
    last_depth: int | None = None,
) -> Analysis:
    """Compare every intervention with the frozen tower at one depth.

    Parameters
    ----------
    frame : pandas.DataFrame
        Of a sweep.
    depth : int, optional
        By default N-3, or the depth of the frame that is nearest to it; the title then says so.
    direction : {"i2t", "t2i"}
        What the table has, and the figure shows first.
    metric : str
    last_depth : int, optional
        N, the number of blocks, where the frame doesn't reach it.

    Returns
    -------
    Analysis
        Its table has a row a language and a tier mean. For each intervention it has the score, the lift in
        points, each with its interval, and the rescued share of the distance to the source in percent.
    """
    view = SweepView(frame)
    view.check(direction, metric)
    last, chosen, note = checkpoint_depth(view, depth, last_depth)
    groups = ordered_groups(view, direction, metric)
    figure = go.Figure()
    rows = _rows(groups)
    traces = {name: _traces(view, rows, chosen, name, metric) for name in view.directions}
    titles = {name: {"xaxis.title.text": f"lift in {label(metric)}, {DIRECTIONS[name]}, points"} for name in traces}
    add_traces(figure, traces, direction, titles)
    place = f"the checkpoint N−4, {depth_name(chosen)}" if chosen == last - 3 else depth_name(chosen)
    title = f"Lift over the frozen tower at {place}: {metric} ({view.images})"
    _lay_out(figure, view, rows, title)
    caption = (
        f"{view.subject}, patched at {depth_name(chosen)} of N = {last}.{note} A mark is the change of "
        f"{metric} against the frozen tower in points, its bar the 95 % interval of a paired bootstrap over "
        f"images ({view.images}, caption protocol {view.protocol!r}): both arms see the same resamples. Left "
        f"of the line at zero, the patch does harm.{published_text(view, [f'lift {metric}'], [chosen])}"
    )
    return Analysis("checkpoint", title, _table(view, groups, chosen, direction, metric), figure, caption)


def checkpoint_depth(view: SweepView, depth: int | None, last_depth: int | None) -> tuple[int, int, str]:
    """Return N, the depth to read, and what a reader has to be told about it.

    Parameters
    ----------
    view : SweepView
    depth : int, optional
        N-3 by default, or the depth of the frame that is nearest to it.
    last_depth : int, optional
        N, where the frame does not reach it.

    Raises
    ------
    InputError
        If the frame lacks the depth.
    """
    last = last_of(view, last_depth)
    if depth is not None:
        if depth not in view.depths:
            raise InputError(f"The frame has no depth {depth}. It has: {', '.join(map(str, view.depths))}.")
        chosen, note = depth, ""
    else:
        wanted = max(last - 3, 0)
        chosen = min(view.depths, key=lambda d: (abs(d - wanted), d))
        note = "" if chosen == wanted else f" Depth {wanted} (N−3) is not in the frame; this is the nearest to it."
    if chosen == last:
        note += " It is the last depth, where a parallel patch is the source's own output and proves nothing."
    return last, chosen, note


def _rows(groups: list[Group]) -> list[tuple[float, Group]]:
    """Give each group a place; a gap sets the means apart from the languages, and tiers from each other."""
    rows, place = [], 0.0
    for before, group in zip([None, *groups], groups, strict=False):
        if before is not None and (before.is_mean != group.is_mean or before.tier != group.tier):
            place += 0.1 if group.is_mean else 0.4
        rows.append((place, group))
        place += 1.0
    return rows


def _traces(
    view: SweepView, rows: list[tuple[float, Group]], depth: int, direction: str, metric: str
) -> list[go.Scatter]:
    styles = intervention_styles(view.interventions)
    step = 0.76 / max(len(styles), 2)
    traces = []
    for k, (name, style) in enumerate(styles.items()):
        lifts = [view.patched(group, name, depth, direction, f"lift {metric}") for _, group in rows]
        scores = [view.patched(group, name, depth, direction, metric) for _, group in rows]
        traces.append(
            go.Scatter(
                x=finite(None if n is None else n.value for n in lifts),
                y=[place + (k - (len(styles) - 1) / 2) * step for place, _ in rows],
                mode="markers",
                name=label(name),
                marker={"color": style.colour, "symbol": style.symbol, "size": 8},
                error_x={
                    "type": "data", "symmetric": False, "color": style.colour, "thickness": 1.4, "width": 0,
                    "array": finite(None if n is None else n.high - n.value for n in lifts),
                    "arrayminus": finite(None if n is None else n.value - n.low for n in lifts),
                },
                hovertext=[
                    f"<b>{label(name)}</b>, {depth_name(depth)}<br>{label(group.name)}<br>"
                    f"lift {interval(lift)} points<br>{label(metric)} {interval(score)}"
                    for (_, group), lift, score in zip(rows, lifts, scores, strict=True)
                ],
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )  # fmt: skip
    marks = [
        (place + (k - (len(styles) - 1) / 2) * step, group, name, mark)
        for k, name in enumerate(styles)
        for place, group in rows
        if (mark := view.mark(group, name, depth, direction, f"lift {metric}")) is not None
    ]
    if marks:
        texts = [
            f"<b>published</b> ({label(mark.where)})<br>{label(group.name)}, {label(name)}<br>"
            f"lift {mark.value:.1f} points<br>this run {mark.verdict}"
            for _, group, name, mark in marks
        ]
        traces.append(published_stars([mark.value for *_, mark in marks], [place for place, *_ in marks], texts))
    return traces


def _lay_out(figure: go.Figure, view: SweepView, rows: list[tuple[float, Group]], title: str) -> None:
    last = rows[-1][0]
    row = 14 + 7 * len(view.interventions)
    figure.update_layout(
        template=TEMPLATE,
        title={"text": label(title)},
        height=round(206 + row * (last + 1)),
        margin={"l": 150, "r": 16, "t": 110, "b": 96},
        hovermode="closest",
        meta={"wide": {"margin.l": 150, "margin.b": 96}, "narrow": {"margin.l": 112, "margin.b": 150}},
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
    )
    figure.update_xaxes(zeroline=True, zerolinecolor=INK, zerolinewidth=1.5)
    figure.update_yaxes(
        range=[last + 0.6, -0.6],
        tickvals=[place for place, _ in rows],
        ticktext=[f"<b>{label(g.name)}</b>" if g.is_mean else label(g.name) for _, g in rows],
        showgrid=False,
        ticks="",
    )
    for place, _ in rows:
        figure.add_shape(
            type="rect", xref="paper", x0=0, x1=1, y0=place - 0.47, y1=place + 0.47,
            fillcolor="#f4f4f4", line={"width": 0}, layer="below",
        )  # fmt: skip


def _table(view: SweepView, groups: list[Group], depth: int, direction: str, metric: str) -> pd.DataFrame:
    records = []
    for group in groups:
        frozen = view.frozen(group, direction, metric)
        record: dict[str, Any] = {
            "language": group.language,
            "name": group.name,
            "tier": group.tier,
            "n": frozen.n if frozen else None,
            "depth": depth,
            "block": depth - 1,
            **_cells("frozen", frozen),
        }
        for source in view.source_groups():
            record |= _cells(f"{source.language} itself", view.frozen(source, direction, metric))
        for name in view.interventions:
            parts = {
                kind: view.patched(group, name, depth, direction, f"{kind}{metric}")
                for kind in ("", "lift ", "rescue ")
            }
            share = parts["rescue "]
            percent = share and Number(100 * share.value, 100 * share.low, 100 * share.high, share.n)
            column = _free(name, record)
            record |= _cells(column, parts[""])
            mark = view.mark(group, name, depth, direction, metric)
            if mark is not None:
                record |= {f"{column} published": mark.value, f"{column} difference": mark.difference}
            record |= _cells(f"{column} lift", parts["lift "])
            record |= _cells(f"{column} rescued %", percent)
        records.append(record)
    table = pd.DataFrame(records)
    # A share of the distance to the source exists only where there is one source, and it is ahead.
    empty = [name for name in table.columns if " rescued %" in name and table[name].isna().all()]
    return table.drop(columns=empty)


def _free(name: str, record: Mapping[str, Any]) -> str:
    """Return a name for an intervention's columns; it may be called anything, also what another column is."""
    while any(f"{name}{ending}" in record for ending in ("", " lift", " rescued %", " published")):
        name = f"patch {name}"
    return name


def _cells(name: str, number: Number | None) -> dict[str, float | None]:
    ends = (None, None, None) if number is None else number[:3]
    return dict(zip((name, f"{name} low", f"{name} high"), ends, strict=True))
