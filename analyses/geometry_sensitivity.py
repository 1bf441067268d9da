"""How much the back half stretches a change of the pooled row, and whether that foretells a lift (S3-91 to S3-95).

Sampled ratios by language, mean and maximum, beside the bound that holds for every input. The two are dozens of
orders of magnitude apart, so the bound has a panel of its own with a logarithmic axis; and it carries its caveat
wherever it is shown.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from analyses.base import Analysis
from analyses.frames import finite
from analyses.geometry_divergence import correlation_table, in_words, labelled_scatter
from analyses.geometry_parts import (
    Panels,
    check_same,
    extremes,
    number,
    span,
    state_style,
    states_of,
    table_of,
    titled,
    with_state,
)
from analyses.theme import INK, Style, depth_name, label, language_name
from probes._checks import check_tiers
from probes.correlation import Correlation
from probes.sensitivity import Sensitivity, SensitivitySummary, sensitivity_change
from probes.spectral_bound import CAVEAT, SpectralBound
from workbench.errors import InputError

_KINDS = {
    "reference": ("towards reference", Style("#0256a9", "solid", "circle")),
    "random": ("random directions", Style("#b55508", "dash", "diamond")),
}
ENVELOPE = (
    "It concerns the pooled row alone: captions of two languages differ in their other rows too, and two rows may "
    "share one embedding."
)


def sensitivity_by_language(
    results: Sensitivity | Mapping[str, Sensitivity],
    tiers: Mapping[str, str],
    bound: SpectralBound | None = None,
    *,
    subject: str = "",
    resamples: int = 1000,
) -> Analysis:
    """Show sampled ratios by language, mean and maximum, and the spectral bound (S3-91, S3-93).

    Parameters
    ----------
    results : Sensitivity, or mapping of str to Sensitivity
        One tower, or one before and after a change.
    tiers : mapping of str to str
        Languages stand by tier.
    bound : SpectralBound, optional
        Of the same tower and depth.
    subject : str
    resamples : int

    Returns
    -------
    Analysis
        A row a state, kind of ratio and language; and a row for each bound, as a power of ten.
    """
    states = states_of(results)
    check_same(states, "languages", "depth", "n_blocks", "reference", "step", "output", "n", "d")
    first = next(iter(states.values()))
    if bound is not None and (bound.depth, bound.n_blocks) != (first.depth, first.n_blocks):
        raise InputError(f"The bound is from depth {bound.depth} and the ratios from depth {first.depth}.")
    own = check_tiers(first.languages, tiers)
    order = [k for tier in dict.fromkeys(own) for k, mine in enumerate(own) if mine == tier]
    heads = ["sampled ratios", *(["all captions, and the bound"] if bound is not None else [])]
    panels = Panels(
        heads, shares=[2.0, 1.0][: len(heads)], height=60 + 28 * len(order), entries=4 * len(states), left=124
    )
    figure, records, drawn = go.Figure(), [], []
    marks: list[tuple[str, float, Style]] = []
    for later, (state, result) in enumerate(states.items()):
        for place, (kind, (words, style)) in enumerate(_KINDS.items()):
            summary = result.summary(kind, resamples=resamples)  # pyright: ignore[reportArgumentType]
            if not summary.captions.any():
                continue
            style = state_style(style, later)
            aside = 0.13 * (2 * place - 1) + 0.09 * (later if len(states) == 2 else 0)
            figure.add_traces(_dots(result, summary, order, with_state(words, state), style, aside))
            drawn += [summary.mean.low, summary.mean.high, summary.maximum]
            records += _records(result, summary, order, tiers, state, kind)
            marks += _overall(result, summary, with_state(words, state), style)
    reach = span(drawn, least=0.0)
    title = titled(
        f"Sensitivity from {depth_name(first.depth)} on (n = {first.n:,} captions a language, d = {first.d:,})", subject
    )
    names = [label(language_name(first.languages[k])) for k in order]
    x: list[dict[str, Any]] = [{"range": [0, reach[1]], "title": {"text": "change of embedding / change of row"}}]
    y: list[dict[str, Any]] = [
        {"range": [len(order) - 0.5, -0.5], "tickvals": list(range(len(order))), "ticktext": names}
    ]
    if bound is not None:
        _add_bound(figure, bound, marks, panels.axis(1))
        most = bound.worst if np.isfinite(bound.worst) else 1.0
        step = max(1, round(most / 4 / 5) * 5)
        powers = range(0, int(most) + 1, step)
        x.append({"type": "log", "range": [-1.5, most * 1.12 + 1], "title": {"text": "ratio (logarithmic)"},
                  "tickvals": [10.0**power for power in powers], "tickangle": 0,
                  "ticktext": [f"10<sup>{power}</sup>" if power else "1" for power in powers]})  # fmt: skip
        count = len(marks) + 2
        y.append({"range": [count - 0.3, -0.7], "showticklabels": False, "ticks": "", "showgrid": False})
        records += _bound_records(bound)
    panels.lay_out(figure, title, x, y)
    parts = [
        f"{words} {extremes([row for row in records if row['ratio'] == kind and row['state'] == next(iter(states))])}"
        for kind, (words, _) in _KINDS.items()
        if any(row["ratio"] == kind for row in records)
    ]
    finding = f"Mean ratio: {'; '.join(parts)}."
    return Analysis("sensitivity", title, table_of(records), figure, _caption(states, bound), finding)


def _dots(
    result: Sensitivity, summary: SensitivitySummary, order: list[int], name: str, style: Style, aside: float
) -> list[go.Scatter]:
    mean, rows = summary.mean, [place + aside for place in range(len(order))]
    texts = [
        f"<b>{label(language_name(result.languages[k]))}</b>, {label(name)}<br>mean "
        f"{number(mean.value[k], mean.low[k], mean.high[k])}<br>maximum {number(summary.maximum[k])}"
        f"<br>{summary.captions[k]} captions"
        for k in order
    ]
    shared: dict[str, Any] = {
        "y": rows, "mode": "markers", "hovertext": texts, "hovertemplate": "%{hovertext}<extra></extra>",
    }  # fmt: skip
    size = {"color": style.colour, "size": 9}
    return [
        go.Scatter(
            x=finite(mean.value[order]), name=f"mean, {label(name)}", marker={**size, "symbol": style.symbol},
            error_x={"type": "data", "symmetric": False, "array": finite((mean.high - mean.value)[order]),
                     "arrayminus": finite((mean.value - mean.low)[order]), "color": style.colour, "thickness": 1.4,
                     "width": 3},
            **shared,
        ),
        go.Scatter(
            x=finite(summary.maximum[order]), name=f"maximum, {label(name)}",
            marker={**size, "symbol": _tick(style), "line": {"width": 2.5}, "size": 11},
            **shared,
        ),
    ]  # fmt: skip


def _tick(style: Style) -> str:
    """Return the mark of a maximum: another one for the second state, whose means are hollow."""
    return "x-thin-open" if style.symbol.endswith("-open") else "line-ns-open"


def _overall(
    result: Sensitivity, summary: SensitivitySummary, name: str, style: Style
) -> list[tuple[str, float, Style]]:
    each = result.to_reference if name.startswith(_KINDS["reference"][0]) else result.random
    return [
        (f"mean, {name}", float(np.nanmean(each)), style),
        (f"max., {name}", float(np.nanmax(summary.maximum)), Style(style.colour, "solid", _tick(style))),
    ]


def _add_bound(figure: go.Figure, bound: SpectralBound, marks: list[tuple[str, float, Style]], axis: str) -> None:
    rows = [(name, value, style) for name, value, style in marks]
    # A bar of 10^75 is no float's problem, but its text is: powers are written out.
    extra = [
        ("bound if variance as seen", bound.conditional, Style("#5f5f5f", "dash", "line-ns-open")),
        ("bound, any input", bound.worst, Style(INK, "solid", "line-ns-open")),
    ]
    for place, (name, value, style) in enumerate(rows):
        figure.add_trace(_bar(name, value, f"{value:.2g}", place, style, axis))
    for place, (name, power, style) in enumerate(extra, len(rows)):
        if np.isfinite(power):
            figure.add_trace(_bar(name, 10.0**power, f"10<sup>{power:.0f}</sup>", place, style, axis))


def _bar(name: str, value: float, text: str, place: int, style: Style, axis: str) -> go.Scatter:
    return go.Scatter(
        x=[10**-1.5, value], y=[place, place], mode="lines+markers+text", showlegend=False,
        line={"color": style.colour, "dash": style.dash, "width": 2},
        marker={"symbol": ["line-ns-open", style.symbol], "size": [0, 10], "color": style.colour, "line": {"width": 2}},
        text=[f" {label(name)}: {text}", ""], textposition="top right", textfont={"size": 11}, cliponaxis=False,
        hovertemplate=f"{label(name)}: {text}<extra></extra>", xaxis=f"x{axis}", yaxis=f"y{axis}",
    )  # fmt: skip


def _records(
    result: Sensitivity, summary: SensitivitySummary, order: list[int], tiers: Mapping[str, str], state: str, kind: str
) -> list[dict[str, Any]]:
    return [
        {
            "state": state, "ratio": kind, "language": result.languages[k], "tier": tiers[result.languages[k]],
            "depth": result.depth, "block": result.depth - 1, "value": summary.mean.value[k],
            "low": summary.mean.low[k], "high": summary.mean.high[k], "maximum": summary.maximum[k],
            "residual": float(result.residual[k].mean()), "n": int(summary.captions[k]), "d": result.d,
        }
        for k in order
    ]  # fmt: skip


def _bound_records(bound: SpectralBound) -> list[dict[str, Any]]:
    values = {"bound, any input (log10)": bound.worst, "bound, smallest variance seen (log10)": bound.conditional}
    return [
        {"state": "", "ratio": name, "language": "all", "depth": bound.depth, "block": bound.depth - 1, "value": value}
        for name, value in values.items()
        if np.isfinite(value)
    ]


def _caption(states: Mapping[str, Sensitivity], bound: SpectralBound | None) -> str:
    first = next(iter(states.values()))
    reference = " and ".join(first.reference) if len(first.reference) < 3 else f"the mean of {len(first.reference)}"
    what = "unnormalised embedding" if first.output == "embedding" else "unit embedding"
    text = (
        f"Change of the {what} over the change of the pooled row at {depth_name(first.depth)}, with the other rows as "
        f"the caption made them; blocks {first.depth} to {first.n_blocks - 1} and the head run. Towards the row of the "
        f"same caption in {reference}, and in {first.random.shape[-1]} random directions by {first.step:.0%} of the "
        f"row's norm (seed {first.seed}). n = {first.n:,} captions a language, d = {first.d:,}; bars are 95 % "
        f"intervals of a bootstrap over captions, ticks are maxima. {ENVELOPE}"
    )
    if bound is not None:
        text += f" {CAVEAT}"
        if np.isfinite(bound.conditional):
            text += (
                f" The dashed bound assumes that no layer norm sees a smaller variance than the smallest over "
                f"{bound.captions:,} captions."
            )
    if len(states) == 2:
        before, after = states.values()
        names = list(states)
        for kind, (words, _) in _KINDS.items():
            if kind == "random" and first.random.shape[-1] == 0:
                continue
            change = sensitivity_change(before, after, kind)  # pyright: ignore[reportArgumentType]
            text += (
                f" From {names[0]} to {names[1]}, {words}: mean {change.mean_percent:+.0f} %, maximum divided by "
                f"{change.max_factor:.1f}."
            )
    return text


def lift_scatter(correlation: Correlation, tiers: Mapping[str, str], *, lift: str, subject: str = "") -> Analysis:
    """Show a lift against sensitivity times residual over languages (S3-94).

    Parameters
    ----------
    correlation : Correlation
        Of :func:`probes.sensitivity.residual_weighted_correlation`.
    tiers : mapping of str to str
        Names without a tier are marked alike.
    lift : str
        What was lifted, such as ``"lift of R@1 by calibration"``.
    subject : str

    Returns
    -------
    Analysis
        A row a language, with both coefficients without it.
    """
    title = titled(f"Sensitivity × residual and {lift} (n = {correlation.n} languages)", subject)
    figure = labelled_scatter(correlation.x, correlation.y, correlation.names, tiers)
    figure.update_xaxes(title_text="mean sensitivity × mean residual")
    figure.update_yaxes(title_text=lift)
    figure.update_layout(title={"text": label(title)})
    caption = (
        f"{lift[:1].upper()}{lift[1:]} against the product of mean sensitivity and mean residual of each language. "
        f"{in_words(correlation)} A diagnostic over a few languages; it names no cause."
    )
    table = correlation_table(correlation, ("sensitivity × residual", lift))
    return Analysis("sensitivity-lift", title, table, figure, caption, in_words(correlation))
