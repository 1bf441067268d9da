"""What a calibration study shows: confusion of faults, error of the onset, and what weak faults are called."""

from typing import TYPE_CHECKING

import numpy as np

from analyses.base import Analysis
from analyses.diagnosis.calibration import EXPECTED, confusion, summary
from analyses.diagnosis.rule import KINDS
from analyses.theme import intervention_styles

if TYPE_CHECKING:
    import pandas as pd

_FRAME = "#0256a9"
_OUTCOMES = ("right name", "inconclusive", "no gap", "wrong name")


def study_analyses(table: "pd.DataFrame") -> list[Analysis]:
    """Return the analyses of a study: confusion, onset error and, where any fault was planted, naming by strength."""
    struck = (table["fault"] != "none").any()
    return [confusion_matrix(table), onset_errors(table), *([naming_by_strength(table)] if struck else [])]


def confusion_matrix(table: "pd.DataFrame") -> Analysis:
    """Counts of named against planted faults, as a matrix."""
    import plotly.graph_objects as go

    counts = confusion(table)
    found = summary(table)
    shares = counts.to_numpy() / np.maximum(counts.to_numpy().sum(1, keepdims=True), 1)
    columns = [kind.replace("_", " ") for kind in KINDS]
    figure = go.Figure(
        go.Heatmap(
            z=shares, x=columns, y=list(counts.index), zmin=0, zmax=1, colorscale="Greys", showscale=False,
            text=counts.to_numpy(), texttemplate="%{text}", textfont={"size": 15},
            hovertemplate="planted %{y}, named %{x}: %{text}<extra></extra>",
        )
    )  # fmt: skip
    for row, kind in enumerate(counts.index):
        # The right answer is framed, so that the matrix reads without its diagonal being one.
        place = KINDS.index(EXPECTED[str(kind)])
        figure.add_shape(
            type="rect", x0=place - 0.5, x1=place + 0.5, y0=row - 0.5, y1=row + 0.5, line={"width": 2, "color": _FRAME}
        )
    figure.update_xaxes(title="named")
    figure.update_yaxes(title="planted", autorange="reversed")
    tidy = counts.reset_index().melt(id_vars="fault", var_name="verdict", value_name="towers")
    return Analysis(
        "confusion",
        f"Planted and named faults, {len(table)} towers",
        tidy,
        figure,
        f"Counts of towers; framed is the right name. Of {len(table)} towers {found['right']:.1f} % were named rightly "
        f"and {found['wrong_name']:.1f} % got a wrong name (neither the right one, nor no gap, nor inconclusive).",
    )


def onset_errors(table: "pd.DataFrame") -> Analysis:
    """Error of the onset in blocks, for faults inside one block."""
    import plotly.graph_objects as go

    found = table[(table["fault"] == "block") & table["onset"].notna()]
    errors = found["onset_error"].astype(int)
    counts = errors.value_counts().sort_index()
    figure = go.Figure(go.Bar(x=counts.index, y=counts, text=counts, marker={"color": _FRAME}))
    figure.update_xaxes(title="named onset minus first depth beyond the fault, in blocks", dtick=1)
    figure.update_yaxes(title="towers")
    within = 100 * float((errors.abs() <= 1).mean()) if len(errors) else float("nan")
    tidy = counts.rename_axis("error").reset_index(name="towers")
    missed = int((table["fault"] == "block").sum()) - len(found)
    return Analysis(
        "onset-error",
        f"Error of the onset, {len(found)} towers with a fault inside one block",
        tidy,
        figure,
        f"Within one block: {within:.1f} % of those that were given an onset; {missed} were given none.",
    )


def naming_by_strength(table: "pd.DataFrame", bins: int = 8) -> Analysis:
    """What towers are called as the gap that their fault makes grows."""
    import pandas as pd
    import plotly.graph_objects as go

    struck = table[table["fault"] != "none"].copy()
    struck["outcome"] = [
        _outcome(bool(right), str(verdict)) for right, verdict in zip(struck["right"], struck["verdict"], strict=True)
    ]
    rows = []
    for fault, part in struck.groupby("fault"):
        edges = np.linspace(0, part["strength"].max() + 1e-9, bins + 1)
        place = np.clip(np.digitize(part["strength"], edges) - 1, 0, bins - 1)
        for k in range(bins):
            here = part[place == k]
            for outcome in _OUTCOMES:
                if len(here):
                    share = 100 * float((here["outcome"] == outcome).mean())
                    rows.append((fault, (edges[k] + edges[k + 1]) / 2, outcome, share, len(here)))
    tidy = pd.DataFrame(rows, columns=["fault", "strength", "outcome", "percent", "towers"])
    figure = go.Figure()
    faults = list(dict.fromkeys(tidy["fault"]))
    styles = intervention_styles(_OUTCOMES)
    for outcome in _OUTCOMES:
        style = styles[outcome]
        means = tidy[tidy["outcome"] == outcome]
        for place, fault in enumerate(faults):
            line = means[means["fault"] == fault]
            axis = "" if place == 0 else str(place + 1)
            figure.add_trace(
                go.Scatter(
                    x=line["strength"], y=line["percent"], name=outcome, legendgroup=outcome, showlegend=place == 0,
                    mode="lines+markers", line={"color": style.colour, "dash": style.dash},
                    marker={"symbol": style.symbol}, xaxis=f"x{axis}", yaxis=f"y{axis}",
                )
            )  # fmt: skip
    _grid(figure, faults)
    return Analysis(
        "naming-by-strength",
        f"What a fault of growing strength is called, {len(struck)} towers",
        tidy,
        figure,
        "Percent of towers by strength of the planted fault (0: none). A weak fault should be called no gap or "
        "inconclusive, and never by a wrong name.",
    )


def _outcome(right: bool, verdict: str) -> str:
    if right:
        return "right name"
    return {"inconclusive": "inconclusive", "no_gap": "no gap"}.get(verdict, "wrong name")


def _grid(figure, faults: list[str]) -> None:
    columns = min(3, max(len(faults), 1))
    rows = -(-len(faults) // columns)
    figure.set_subplots(rows=rows, cols=columns, subplot_titles=faults, shared_yaxes=True)
    figure.update_yaxes(range=[-5, 105])
    for place in range(len(faults)):
        figure.update_xaxes(title="strength", row=place // columns + 1, col=place % columns + 1)
    figure.update_yaxes(title="percent of towers", col=1)
    figure.update_layout(height=260 * rows + 80, legend={"orientation": "h", "y": -0.25})
