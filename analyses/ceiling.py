"""What a patch reaches beside what calibrated front blocks reach (S3-60).

A parallel patch shows how far the rest of the tower can go with a good row, so it is a ceiling for a change of the
front blocks alone. Two sweeps are laid side by side: one of the frozen tower, and one of the same tower after its
front blocks were trained. Nothing is trained here.
"""

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analyses.base import Analysis
from analyses.checkpoint import checkpoint_depth
from analyses.frames import DIRECTIONS, Group, Number, SweepView, finite, interval
from analyses.menus import add_traces
from analyses.rescue import ordered_groups
from analyses.theme import FAINT, TEMPLATE, Style, depth_name, label
from workbench.errors import InputError

_ARMS: dict[str, Style] = {
    "frozen": Style("#9a9a9a", "solid", "circle"),
    "calibrated": Style("#0e8c41", "solid", "square"),
    "patched": Style("#0256a9", "solid", "diamond"),
}
_PATTERNS = {"frozen": "", "calibrated": "/", "patched": ""}


def patch_ceiling(
    frozen: pd.DataFrame,
    calibrated: pd.DataFrame,
    *,
    intervention: str = "parallel en",
    depth: int | None = None,
    direction: str = "i2t",
    metric: str = "R@1",
    last_depth: int | None = None,
) -> Analysis:
    """Show frozen, calibrated and patched scores of every language and tier.

    Parameters
    ----------
    frozen : pandas.DataFrame
        Sweep of the frozen tower, with the patch.
    calibrated : pandas.DataFrame
        Sweep of the tower with trained front blocks, on the same images; its unpatched scores are read.
    intervention : str
        The patch.
    depth : int, optional
        By default N-3, or the depth that is nearest to it.
    direction : {"i2t", "t2i"}
        What is shown first; buttons show the other.
    metric : str
    last_depth : int, optional
        N, where the frame does not reach it.

    Returns
    -------
    Analysis
        A row a language or tier mean and direction: the three scores with their intervals, and ``share %``, the
        part of the patch's lift that calibration reaches.

    Raises
    ------
    InputError
        If the two differ in corpus, protocol, images or languages, or the patch is not there.
    """
    before, after = SweepView(frozen), SweepView(calibrated)
    for view in (before, after):
        view.check(direction, metric)
    for name in ("corpus", "protocol", "images", "tier_map"):
        ours, theirs = getattr(before, name), getattr(after, name)
        if ours != theirs:
            raise InputError(f"The two sweeps differ in {name.replace('_', ' ')}: {ours} and {theirs}. Run both alike.")
    if set(before.groups) != set(after.groups):
        odd = sorted({group.name for group in set(before.groups) ^ set(after.groups)})
        raise InputError(f"Not both sweeps have {', '.join(odd)}. Run both over the same languages.")
    if intervention not in before.interventions:
        raise InputError(
            f"The first sweep has no intervention {intervention!r}. It has: {', '.join(before.interventions)}."
        )
    last, chosen, note = checkpoint_depth(before, depth, last_depth)
    groups = ordered_groups(before, direction, metric)
    records: list[dict[str, Any]] = []
    traces: dict[str, list[go.Bar]] = {}
    for name in before.directions:
        arms = {
            "frozen": [before.frozen(group, name, metric) for group in groups],
            "calibrated": [after.frozen(group, name, metric) for group in groups],
            "patched": [before.patched(group, intervention, chosen, name, metric) for group in groups],
        }
        traces[name] = [_bars(arm, groups, numbers) for arm, numbers in arms.items()]
        for place, group in enumerate(groups):
            records.append(_record(group, name, {arm: numbers[place] for arm, numbers in arms.items()}))
    table = pd.DataFrame(records)
    figure = go.Figure()
    titles = {name: {"yaxis.title.text": f"{label(metric)}, {DIRECTIONS[name]}, %"} for name in traces}
    add_traces(figure, traces, direction, titles)
    title = f"A patch and calibrated front blocks: {metric} ({before.images})"
    figure.update_layout(
        template=TEMPLATE, title={"text": label(title)}, height=520, barmode="group", bargap=0.25, bargroupgap=0.06,
        margin={"l": 64, "r": 16, "t": 110, "b": 150}, hovermode="closest",
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
    )  # fmt: skip
    figure.update_xaxes(tickangle=-40, ticks="", showgrid=False)
    figure.update_yaxes(range=[0, max(before.top(metric), after.top(metric))])
    caption = (
        f"{before.subject}, protocol {before.protocol!r}: unpatched, {after.tower} unpatched (calibrated), and "
        f"{intervention!r} put in at {depth_name(chosen)} of N = {last}.{note} Bars have 95 % intervals of a bootstrap "
        "over images. The patch is a ceiling for front blocks alone, not a method: it needs the caption in the source "
        "language."
    )
    return Analysis("patch-ceiling", title, table, figure, caption, _finding(table, direction, metric))


def _bars(arm: str, groups: list[Group], numbers: list[Number | None]) -> go.Bar:
    style = _ARMS[arm]
    return go.Bar(
        x=[label(group.name) for group in groups], y=finite(None if n is None else n.value for n in numbers), name=arm,
        marker={"color": style.colour, "pattern": {"shape": _PATTERNS[arm], "fillmode": "overlay"}},
        error_y={
            "type": "data", "symmetric": False, "color": FAINT, "thickness": 1.4, "width": 3,
            "array": finite(None if n is None else n.high - n.value for n in numbers),
            "arrayminus": finite(None if n is None else n.value - n.low for n in numbers),
        },
        hovertext=[f"{label(g.name)}, {arm}<br>{interval(n)}" for g, n in zip(groups, numbers, strict=True)],
        hovertemplate="%{hovertext}<extra></extra>",
    )  # fmt: skip


def _record(group: Group, direction: str, arms: dict[str, Number | None]) -> dict[str, Any]:
    record: dict[str, Any] = {
        "language": group.language,
        "name": group.name,
        "tier": group.tier,
        "direction": direction,
    }
    for arm, found in arms.items():
        ends = (None, None, None) if found is None else found[:3]
        record |= dict(zip((arm, f"{arm} low", f"{arm} high"), ends, strict=True))
    start, reached, most = arms["frozen"], arms["calibrated"], arms["patched"]
    record |= {"share %": None, "n": None if start is None else start.n}
    # The share of a lift that is not there is no number.
    if start is not None and reached is not None and most is not None and most.value > start.value:
        record["share %"] = 100 * (reached.value - start.value) / (most.value - start.value)
    return record


def _finding(table: pd.DataFrame, direction: str, metric: str) -> str:
    means = table[(table["language"] == "mean") & (table["direction"] == direction)]
    parts = [
        f"{row['name']} {row['frozen']:.1f} frozen, {row['calibrated']:.1f} calibrated, {row['patched']:.1f} patched"
        for row in means.to_dict("records")
        if not any(pd.isna(row[arm]) for arm in _ARMS)
    ]
    return f"{direction} {metric}: {'; '.join(parts)}." if parts else ""
