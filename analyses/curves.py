"""The parts that all rescue figures are made of: the curves of one language, and marks on the depth axis."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analyses.frames import Group, Number, SweepView, finite, interval
from analyses.theme import FAINT, FROZEN, PUBLISHED, SOURCE, Style, depth_name, depth_ticks, intervention_styles, label
from workbench.errors import InputError

_TIDY = (
    "language", "tier", "intervention", "source", "depth", "block", "direction", "metric", "value", "low",
    "high", "n",
)  # fmt: skip

# A patch at the last depth is the source's own row; its score may differ from the source's by rounding alone.
_SAME = 0.5


@dataclass(frozen=True)
class Landmarks:
    """Depths that a reader should know about.

    Attributes
    ----------
    last : int
        N, the depth after the last block.
    checkpoint : int, optional
        N-3, the output of block N-4, after which three blocks still run (S3-03), where the frame has it.
    tautology : bool
        Whether depth N was patched with a parallel row, which then *is* the source's output.
    """

    last: int
    checkpoint: int | None
    tautology: bool


def landmarks(view: SweepView, last_depth: int | None, direction: str, metric: str) -> Landmarks:
    """Find the landmarks; N is the deepest depth of the frame unless it is given."""
    last = last_of(view, last_depth)
    checkpoint = last - 3 if last - 3 in view.depths else None
    return Landmarks(last, checkpoint, last in view.depths and _is_tautology(view, last, direction, metric))


def last_of(view: SweepView, last_depth: int | None) -> int:
    """Return N, and refuse one that the frame contradicts."""
    deepest = view.deepest
    if last_depth is not None and last_depth < deepest:
        raise InputError(
            f"last_depth={last_depth} came, but the frame has the depth {deepest}. Give the number of blocks."
        )
    return deepest if last_depth is None else last_depth


def _is_tautology(view: SweepView, last: int, direction: str, metric: str) -> bool:
    """Whether some parallel patch at the last depth scores what its source scores."""
    for name, source in view.sources.items():
        if not source or "+" in source or not name.startswith("parallel"):
            continue
        reference = next((g for g in view.source_groups() if g.language == source), None)
        number = view.frozen(reference, direction, metric) if reference else None
        reached = [view.patched(g, name, last, direction, metric) for g in view.groups if not g.is_mean]
        found = [value for value in reached if value is not None]
        if found and (number is None or all(abs(value.value - number.value) <= _SAME for value in found)):
            return True
    return False


def panel(
    view: SweepView,
    group: Group,
    direction: str,
    metric: str,
    *,
    axis: str = "",
    legend: bool = True,
    brief: bool = False,
) -> list[go.Scatter]:
    """Return the traces of one language: bands first, then lines, always the same number in the same order.

    Parameters
    ----------
    view : SweepView
    group : Group
    direction, metric : str
    axis : str
        Number of the axes, such as ``"2"``.
    legend : bool
        Whether these traces stand in the legend.
    brief : bool
        Leave the interval out of what a pointer shows; with dozens of panels such texts outweigh the numbers.
    """
    bands, lines = [], []
    styles = intervention_styles(view.interventions)
    ends = [view.depths[0] - 0.3, view.depths[-1] + 0.3]
    for place, (name, style) in enumerate(styles.items()):
        # With one depth all marks would stand on each other.
        aside = 0.06 * (place - (len(styles) - 1) / 2) if len(view.depths) == 1 else 0
        x = [depth + aside for depth in view.depths]
        numbers = [view.patched(group, name, depth, direction, metric) for depth in view.depths]
        bands.append(_band(x, numbers, style, 0.17, name, axis))
        lines.append(
            go.Scatter(
                x=x,
                y=_values(numbers),
                mode="lines+markers",
                name=label(name),
                legendgroup=name,
                showlegend=legend,
                line={"color": style.colour, "dash": style.dash, "width": style.width},
                marker={"symbol": style.symbol, "size": 7, "color": style.colour},
                **_hover(
                    brief,
                    [
                        f"<b>{label(name)}</b><br>{label(group.name)}, {depth_name(d)}<br>{label(metric)} {interval(n)}"
                        for d, n in zip(view.depths, numbers, strict=True)
                    ],
                ),
                xaxis=f"x{axis}",
                yaxis=f"y{axis}",
            )
        )
    frozen = [view.frozen(group, direction, metric)] * 2
    bands.append(_band(ends, frozen, FROZEN, 0.10, "frozen", axis))
    lines.append(_level(ends, frozen, FROZEN, "frozen tower, no patch", "frozen", group, metric, axis, legend, brief))
    for source in view.source_groups():
        number = None if source == group else view.frozen(source, direction, metric)
        name = f"{source.language} itself, no patch"
        key = f"source {source.language}"
        lines.append(_level(ends, [number] * 2, SOURCE, name, key, source, metric, axis, legend, brief))
    return [*bands, *lines, *_published(view, group, direction, metric, axis, legend)]


def _published(view: SweepView, group: Group, direction: str, metric: str, axis: str, legend: bool) -> list[go.Scatter]:
    """Return the published values as one trace, at the same places in every panel; none where nothing is published."""
    places = dict.fromkeys(key[2:4] for key in view.published if key[5] == metric)
    if not places:
        return []
    marks = [view.mark(group, name, depth, direction, metric) for name, depth in places]
    values = [None if mark is None else mark.value for mark in marks]
    texts = [
        ""
        if mark is None
        else f"<b>published</b> ({label(mark.where)})<br>{label(group.name)}, {label(name)}"
        f"{'' if depth is None else f', {depth_name(depth)}'}<br>"
        f"{label(metric)} {mark.value:.1f}<br>this run {mark.verdict}"
        for (name, depth), mark in zip(places, marks, strict=True)
    ]
    # The frozen tower has no depth; its mark stands at the end of its level.
    x = [view.depths[0] - 0.3 if depth is None else depth for _, depth in places]
    axes: dict[str, Any] = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
    return [published_stars(x, finite(values), texts, legendgroup="published", showlegend=legend, **axes)]


def published_stars(x: Sequence[float], y: Sequence[float | None], texts: Sequence[str], **options: Any) -> go.Scatter:
    """Return published values as hollow stars.

    Parameters
    ----------
    x, y : sequence of float
    texts : sequence of str
        What a pointer shows of each; escaped.
    **options
        Of the trace.
    """
    return go.Scatter(
        x=list(x), y=list(y), mode="markers", name="published",
        marker={"symbol": PUBLISHED.symbol, "size": 12, "color": PUBLISHED.colour, "line": {"width": 1.6}},
        hovertext=list(texts), hovertemplate="%{hovertext}<extra></extra>", **options,
    )  # fmt: skip


def published_text(view: SweepView, metrics: Collection[str], depths: Collection[int | None] | None = None) -> str:
    """Say for a caption what the hollow stars are, or nothing; of some depths, where None is the frozen tower."""
    marks = [m for key, m in view.published.items() if key[5] in metrics and (depths is None or key[3] in depths)]
    if not marks:
        return ""
    told = [mark.inside for mark in marks if mark.inside is not None]
    papers = ", ".join(dict.fromkeys(mark.where for mark in marks))
    return (
        f" Hollow stars are published values ({papers}), which have no interval of their own; {sum(told)} of "
        f"{len(told)} lie within the interval of this run, and the table has each difference. Where the paper does not "
        "name the direction, a value stands in both."
    )


def restyle(traces: Sequence[go.Scatter]) -> dict[str, list[Any]]:
    """Return what changes in a panel's traces from one language to the next, for a menu."""
    content = [trace.to_plotly_json() for trace in traces]
    return {key: [trace.get(key) for trace in content] for key in ("y", "hovertext")}


def _hover(brief: bool, texts: list[str]) -> dict[str, Any]:
    if brief:
        return {"hovertemplate": "%{fullData.name}<br>depth %{x}: %{y:.1f}<extra></extra>"}
    return {"hovertext": texts, "hovertemplate": "%{hovertext}<extra></extra>"}


def _values(numbers: Sequence[Number | None]) -> list[float | None]:
    return finite(None if number is None else number.value for number in numbers)


def _band(
    x: Sequence[float], numbers: Sequence[Number | None], style: Style, alpha: float, group: str, axis: str
) -> go.Scatter:
    low = finite(None if number is None else number.low for number in numbers)
    high = finite(None if number is None else number.high for number in numbers)
    return go.Scatter(
        x=[*x, *reversed(x)],
        y=[*low, *reversed(high)],
        fill="toself",
        fillcolor=style.rgba(alpha),
        mode="lines",
        # A band of one depth has no area; its outline still shows the interval.
        line={"width": 1.5 if len(x) == 1 else 0, "color": style.colour},
        legendgroup=group,
        showlegend=False,
        hoverinfo="skip",
        xaxis=f"x{axis}",
        yaxis=f"y{axis}",
    )


def _level(
    x: Sequence[float], numbers: Sequence[Number | None], style: Style, name: str, legend_group: str,
    group: Group, metric: str, axis: str, legend: bool, brief: bool,
) -> go.Scatter:  # fmt: skip
    return go.Scatter(
        x=list(x),
        y=_values(numbers),
        mode="lines",
        name=label(name),
        legendgroup=legend_group,
        showlegend=legend,
        line={"color": style.colour, "dash": style.dash, "width": style.width},
        **_hover(brief, [f"<b>{label(group.name)}</b>, no patch<br>{label(metric)} {interval(n)}" for n in numbers]),
        xaxis=f"x{axis}",
        yaxis=f"y{axis}",
    )


def landmark_shapes(marks: Landmarks, axis: str = "") -> list[dict[str, Any]]:
    """Return the checkpoint as a line and the last depth as a shaded strip."""
    place: dict[str, Any] = {"xref": f"x{axis}", "yref": f"y{axis} domain", "y0": 0, "y1": 1, "layer": "below"}
    shapes = []
    if marks.checkpoint is not None:
        line = {"color": FAINT, "width": 1.2, "dash": "2px,3px"}
        shapes.append({"type": "line", "x0": marks.checkpoint, "x1": marks.checkpoint, "line": line, **place})
    if marks.tautology:
        ends = {"x0": marks.last - 0.4, "x1": marks.last + 0.4}
        fill = {"fillcolor": "#000000", "opacity": 0.07, "line": {"width": 0}}
        shapes.append({"type": "rect", **ends, **fill, **place})
    return shapes


def landmark_notes(marks: Landmarks) -> list[dict[str, Any]]:
    """Return what stands above these shapes; in a narrow figure, only what comes before the colon does."""
    look: dict[str, Any] = {"xref": "x", "yref": "y domain", "y": 1, "yanchor": "bottom", "showarrow": False}
    look["font"] = {"size": 11, "color": FAINT}
    notes = []
    if marks.checkpoint is not None:
        # To the left of its line: the other note stands on the right, and the page's buttons above.
        notes.append({"x": marks.checkpoint, "text": "N−4 checkpoint", "xanchor": "right", **look})
    if marks.tautology:
        text = "tautology: the row<br>is the source's own"
        notes.append({"x": marks.last + 0.4, "text": text, "xanchor": "right", "align": "right", **look})
    return notes


def landmark_text(marks: Landmarks) -> str:
    """Say the same for a caption."""
    text = ""
    if marks.checkpoint is not None:
        text += (
            f" The dotted vertical line is the checkpoint three blocks before the end: block N−4, "
            f"{depth_name(marks.checkpoint)}."
        )
    if marks.tautology:
        text += (
            f" The shaded strip is the last depth, N = {marks.last}, where a parallel patch is a tautology: "
            "the row is the source's own, so the score is too."
        )
    return text


def depth_axis(view: SweepView, at_most: int) -> dict[str, Any]:
    """Return range and ticks of a depth axis."""
    return {"range": [view.depths[0] - 0.5, view.depths[-1] + 0.5], **depth_ticks(view.depths, at_most)}


def tidy(view: SweepView, groups: Sequence[Group], metrics: Sequence[str]) -> pd.DataFrame:
    """Return the rows of a frame that a figure shows, in the order of the figure."""
    frame = view.frame
    order = {group: place for place, group in enumerate(groups)}
    columns = (frame["language"], frame["tier"].fillna(""), frame["metric"])
    keys = [
        order.get(Group(str(language), str(tier)), -1) if metric in metrics else -1
        for language, tier, metric in zip(*columns, strict=True)
    ]
    shown = sorted((place for place, key in enumerate(keys) if key >= 0), key=keys.__getitem__)
    return with_published(frame.iloc[shown][list(_TIDY)].reset_index(drop=True), view)


def with_published(table: pd.DataFrame, view: SweepView) -> pd.DataFrame:
    """Add the columns published, difference and inside to a tidy table, where anything in it is published."""
    if not view.published:
        return table
    marks = [
        view.mark(Group(str(language), str(tier or "")), str(name), None if pd.isna(depth) else int(depth), *rest)
        for language, tier, name, depth, *rest in table[
            ["language", "tier", "intervention", "depth", "direction", "metric"]
        ].itertuples(index=False)
    ]
    if not any(marks):
        return table
    return table.assign(
        published=np.array([np.nan if mark is None else mark.value for mark in marks]),
        difference=np.array([np.nan if mark is None else mark.difference for mark in marks]),
        inside=["" if mark is None or mark.inside is None else "yes" if mark.inside else "no" for mark in marks],
    )
