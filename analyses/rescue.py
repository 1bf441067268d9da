"""Whether the row of a language that works cures one that fails, and from which depth on.

A rescue curve has the depth of the patch on its horizontal axis and the score after it on the vertical one.
A cure shows as the parallel curve leaving the frozen tower's level and reaching the source's, while every
control stays at or below the frozen level. All controls are always drawn, each with its interval.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analyses.base import Analysis
from analyses.curves import (
    Landmarks,
    depth_axis,
    landmark_notes,
    landmark_shapes,
    landmark_text,
    landmarks,
    panel,
    published_text,
    restyle,
    tidy,
)
from analyses.frames import DIRECTIONS, MEAN, Group, SweepView
from analyses.menus import add_menu, add_traces, choice
from analyses.theme import DEPTH_TITLE, INK, TEMPLATE, depth_ticks, label

_LEGEND = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0}
_WIDE_TICKS, _NARROW_TICKS = 15, 7


def rescue_curves(
    frame: pd.DataFrame,
    language: str,
    *,
    tier: str | None = None,
    direction: str = "i2t",
    metric: str = "R@1",
    last_depth: int | None = None,
) -> Analysis:
    """Show the rescue curves of one language, or of a tier's mean.

    Parameters
    ----------
    frame : pandas.DataFrame
        Of a sweep.
    language : str
        A language, or ``"mean"``.
    tier : str, optional
        Which mean; not needed where there is one.
    direction : {"i2t", "t2i"}
        What is shown first; buttons show the other.
    metric : str
    last_depth : int, optional
        N, the number of blocks, where the frame doesn't reach it.
    """
    view = SweepView(frame)
    view.check(direction, metric)
    group = view.group(language, tier)
    marks = landmarks(view, last_depth, direction, metric)
    figure = go.Figure()
    traces = {name: panel(view, group, name, metric) for name in view.directions}
    add_traces(figure, traces, direction, _axis_titles(view, metric))
    title = f"Rescue curves, {group.name}: {metric} after a patch at each depth ({view.images})"
    _lay_out(figure, view, marks, metric, title)
    name = "-".join(["rescue", group.language, *([group.tier] if group.is_mean else [])])
    table = tidy(view, [group], [metric, f"lift {metric}", f"rescue {metric}"])
    return Analysis(_file_name(name), title, table, figure, _caption(view, marks, metric))


def rescue_figure(
    frame: pd.DataFrame, *, direction: str = "i2t", metric: str = "R@1", last_depth: int | None = None
) -> Analysis:
    """Show rescue curves with a menu of all languages and tier means.

    Parameters
    ----------
    frame : pandas.DataFrame
        Of a sweep.
    direction : {"i2t", "t2i"}
        What is shown first; buttons show the other.
    metric : str
    last_depth : int, optional
        N, the number of blocks, where the frame doesn't reach it.

    Returns
    -------
    Analysis
        The lowest tier's mean is shown first, or the lowest language where there are no tiers.
    """
    view = SweepView(frame)
    view.check(direction, metric)
    groups = ordered_groups(view, direction, metric)
    first = _lowest(view, groups, direction, metric)
    marks = landmarks(view, last_depth, direction, metric)
    figure = go.Figure()
    panels = {name: {group: panel(view, group, name, metric) for group in groups} for name in view.directions}
    shown = {name: panels[name][first] for name in view.directions}
    places = add_traces(figure, shown, direction, _axis_titles(view, metric))
    everywhere = [place for name in view.directions for place in places[name]]
    buttons = []
    for group in groups:
        changes = restyle([trace for name in view.directions for trace in panels[name][group]])
        buttons.append(choice(group.name, changes, everywhere))
    add_menu(figure, "language", "dropdown", buttons, groups.index(first), x=1.0, anchor="right")
    title = f"Rescue curves by language: {metric} after a patch at each depth ({view.images})"
    _lay_out(figure, view, marks, metric, title)
    table = tidy(view, groups, [metric, f"lift {metric}", f"rescue {metric}"])
    return Analysis("rescue", title, table, figure, _caption(view, marks, metric))


def rescue_grid(
    frame: pd.DataFrame,
    *,
    direction: str = "i2t",
    metric: str = "R@1",
    columns: int = 4,
    last_depth: int | None = None,
) -> Analysis:
    """Show the rescue curves of all languages and tier means side by side, on the same axes.

    Parameters
    ----------
    frame : pandas.DataFrame
        Of a sweep.
    direction : {"i2t", "t2i"}
        What is shown first; buttons show the other.
    metric : str
    columns : int
        Panels a row; a page on a narrow screen shows two.
    last_depth : int, optional
        N, the number of blocks, where the frame doesn't reach it.
    """
    view = SweepView(frame)
    view.check(direction, metric)
    groups = ordered_groups(view, direction, metric)
    marks = landmarks(view, last_depth, direction, metric)
    figure = go.Figure()
    traces: dict[str, list[go.Scatter]] = {name: [] for name in view.directions}
    speaker = _legend_group(view, groups)
    for place, group in enumerate(groups):
        for name in view.directions:
            axis = str(place + 1) if place else ""
            traces[name] += panel(view, group, name, metric, axis=axis, legend=group == speaker, brief=True)
    add_traces(figure, traces, direction, {name: {} for name in view.directions})
    title = f"Rescue curves of all languages: {metric}, % ({view.images})"
    wide, narrow = _Grid(len(groups), columns, narrow=False), _Grid(len(groups), 2, narrow=True)
    axes: dict[str, Any] = {}
    heads, shapes = [], []
    x_axis, y_axis = depth_axis(view, _NARROW_TICKS), {"range": [0, view.top(metric)]}
    small = {"tickfont": {"size": 11}}
    for place, (group, (left, right, bottom, top)) in enumerate(zip(groups, wide.places(), strict=True)):
        axis = str(place + 1) if place else ""
        axes[f"xaxis{axis}"] = {**x_axis, **small, "anchor": f"y{axis}", "domain": [left, right]}
        axes[f"yaxis{axis}"] = {**y_axis, **small, "anchor": f"x{axis}", "domain": [bottom, top]}
        heads.append(_head(group, left, top))
        shapes += landmark_shapes(marks, axis)
    figure.update_layout(
        template=TEMPLATE,
        title={"text": label(title)},
        height=wide.height,
        margin=wide.margin,
        legend=_LEGEND,
        hovermode="closest",
        meta={"wide": wide.changes(), "narrow": narrow.changes()},
        annotations=heads,
        shapes=shapes,
        **axes,
    )
    table = tidy(view, groups, [metric, f"lift {metric}", f"rescue {metric}"])
    caption = f"All panels share their axes: {metric} in percent against {DEPTH_TITLE}. {_caption(view, marks, metric)}"
    return Analysis("rescue-grid", title, table, figure, caption)


def _head(group: Group, left: float, top: float) -> dict[str, Any]:
    return {
        "x": left, "y": top, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom",
        "text": f"<b>{label(group.name)}</b>", "font": {"size": 12, "color": INK}, "showarrow": False,
    }  # fmt: skip


class _Grid:
    """Where the panels of a grid stand. Plotly does not wrap panels, so a page applies one of two layouts."""

    def __init__(self, panels: int, columns: int, *, narrow: bool) -> None:
        self.panels, self.columns = panels, max(1, min(columns, panels))
        self.rows = -(-panels // self.columns)
        self.margin = {"l": 32, "r": 8, "t": 130 if not narrow else 68, "b": 100 if not narrow else 200}
        self.row = 190 if not narrow else 170
        self.height = self.rows * self.row + self.margin["t"] + self.margin["b"]

    def places(self) -> list[tuple[float, float, float, float]]:
        """Left, right, bottom and top of each panel, as shares of the plot."""
        gap_x, gap_y = 0.045 if self.columns > 2 else 0.1, 62 / (self.rows * self.row)
        width = (1 - gap_x * (self.columns - 1)) / self.columns
        height = (1 - gap_y * (self.rows - 1)) / self.rows
        found = []
        for place in range(self.panels):
            row, column = divmod(place, self.columns)
            left, top = column * (width + gap_x), 1 - row * (height + gap_y)
            found.append((left, min(left + width, 1.0), max(top - height, 0.0), top))
        return found

    def changes(self) -> dict[str, Any]:
        """Return the layout as Plotly's ``relayout`` takes it."""
        found: dict[str, Any] = {"height": self.height, "margin.b": self.margin["b"]}
        for place, (left, right, bottom, top) in enumerate(self.places()):
            axis = str(place + 1) if place else ""
            found |= {f"xaxis{axis}.domain": [left, right], f"yaxis{axis}.domain": [bottom, top]}
            found |= {f"annotations[{place}].x": left, f"annotations[{place}].y": top}
        return found


def ordered_groups(view: SweepView, direction: str, metric: str) -> list[Group]:
    """Return tier means first, then languages, each tier's together, best first."""
    tiers = view.by_tier(direction, metric)
    return [mean for _, mean, _ in tiers if mean] + [group for _, _, groups in tiers for group in groups]


def _lowest(view: SweepView, groups: Sequence[Group], direction: str, metric: str) -> Group:
    means = [group for group in groups if group.language == MEAN]
    scores = [(number.value, group) for group in means or groups if (number := view.frozen(group, direction, metric))]
    return min(scores)[1] if scores else groups[0]


def _legend_group(view: SweepView, groups: Sequence[Group]) -> Group:
    """Return the panel whose lines stand in the legend: one that is no source, so that it has every line."""
    sources = view.source_groups()
    return next((group for group in groups if group not in sources), groups[0])


def _axis_titles(view: SweepView, metric: str) -> dict[str, dict[str, Any]]:
    return {name: {"yaxis.title.text": f"{label(metric)}, {DIRECTIONS[name]}, %"} for name in view.directions}


def _lay_out(figure: go.Figure, view: SweepView, marks: Landmarks, metric: str, title: str) -> None:
    figure.update_layout(
        template=TEMPLATE,
        title={"text": label(title)},
        height=560,
        margin={"l": 64, "r": 16, "t": 130, "b": 130},
        hovermode="closest",
        legend=_LEGEND,
    )
    figure.update_xaxes(title_text=DEPTH_TITLE, **depth_axis(view, _WIDE_TICKS))
    figure.update_yaxes(range=[0, view.top(metric)])
    figure.update_layout(shapes=landmark_shapes(marks), annotations=landmark_notes(marks))
    wide = {"height": 560, "margin.b": 130, "xaxis.title.text": DEPTH_TITLE, **_ticks(view, _WIDE_TICKS)}
    narrow = {
        "height": 580,
        "margin.b": 190,
        "xaxis.title.text": "depth, <i>block</i>",
        **_ticks(view, _NARROW_TICKS),
    }
    for place, note in enumerate(figure.layout.annotations):
        wide[f"annotations[{place}].text"] = note.text
        narrow[f"annotations[{place}].text"] = note.text.split(":")[0]
    figure.update_layout(meta={"wide": wide, "narrow": narrow})


def _ticks(view: SweepView, at_most: int) -> dict[str, list]:
    return {f"xaxis.{key}": value for key, value in depth_ticks(view.depths, at_most).items()}


def _caption(view: SweepView, marks: Landmarks, metric: str) -> str:
    sources = [group.language for group in view.source_groups()]
    dotted = f" The dotted level is {' and '.join(sources)} itself, unpatched." if sources else ""
    return (
        f"{view.subject}: score after a row has been put in at one depth, for each intervention. Bands are "
        f"95 % intervals of a bootstrap over images ({view.images}, caption protocol {view.protocol!r}). The "
        f"dashed level is the frozen tower without a patch.{dotted}{landmark_text(marks)}"
        f"{published_text(view, [metric])}"
    )


def _file_name(text: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in text)
