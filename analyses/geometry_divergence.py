"""How far languages drift from a reference on their way through the tower (S3-84 to S3-87).

Curves of trajectory divergence by depth and the gap between tiers; the residual at one depth, against one
reference or several; and whether languages that fill less of the web have larger ones, which is a correlation
over ten languages and is shown as one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from analyses.base import Analysis
from analyses.geometry_parts import (
    CHANCE,
    Panels,
    check_same,
    curve,
    depth_axis,
    extremes,
    hover,
    level_line,
    number,
    pair_style,
    span,
    state_style,
    states_of,
    table_of,
    titled,
    with_state,
)
from analyses.theme import depth_name, label, language_name, language_style, tier_style
from probes._checks import check_tiers
from probes._resampling import Estimates, mean_over_captions
from probes.correlation import Correlation
from probes.divergence import Divergence, tier_gap
from workbench.errors import InputError

_UNITS = {
    "cosine": ("1 − cosine", "1 minus the cosine of the two rows"),
    "l2": ("Euclidean distance", "the Euclidean distance of the two rows"),
    "relative": ("relative distance", "their Euclidean distance over the norm of the reference's row"),
    "whitened": (
        "whitened distance",
        "their Mahalanobis distance under the shrunk covariance of the reference, over the square root of 2d: 1 is as "
        "far apart as two unrelated captions of the reference",
    ),
}

PREVALENCE_CAVEAT = (
    "Prevalence goes together with the quality of captions and with how well the tokeniser covers a language, so this "
    "names no cause."
)


def divergence_curves(
    results: Divergence | Mapping[str, Divergence],
    tiers: Mapping[str, str],
    *,
    high: str = "HRL",
    low: str = "LRL",
    subject: str = "",
    resamples: int = 1000,
) -> Analysis:
    """Show divergence by depth and the gap between two tiers (S3-84, S3-85).

    Parameters
    ----------
    results : Divergence, or mapping of str to Divergence
        One tower, shown by language; or one before and after a change, shown by tier.
    tiers : mapping of str to str
    high, low : str
        The gap is the mean of ``low`` minus that of ``high``.
    subject : str
    resamples : int
        Of the bootstrap.

    Returns
    -------
    Analysis
        A row a state, language (and tier mean, and gap) and depth.
    """
    states = states_of(results)
    check_same(states, "languages", "depths", "reference", "distance", "n", "d")
    first = next(iter(states.values()))
    unit, meaning = _UNITS[first.distance]
    own = np.array(check_tiers(first.languages, tiers))
    figure, records, drawn, gaps = go.Figure(), [], [], []
    entries = len(first.languages) + 2 if len(states) == 1 else 2 * (len(set(own)) + 1)
    panels = Panels([f"from {_of(first.reference)}", f"gap: {low} minus {high}"], shares=[1.15, 1.0], entries=entries)
    for later, (state, result) in enumerate(states.items()):
        chance = result.unrelated.mean(axis=0)
        name = with_state("unrelated captions", state)
        figure.add_traces(
            curve(first.depths, chance, None, None, state_style(CHANCE, later), name,
                  texts=hover(name, first.depths, chance))
        )  # fmt: skip
        drawn.append(chance)
        for code, tier, style, found in _lines(result, own, by_tier=len(states) == 2, resamples=resamples):
            name = with_state(tier if code is None else language_name(code), state)
            texts = hover(name, first.depths, *found)
            value, bottom, top = found
            drawn_style = state_style(style, later)
            figure.add_traces(curve(first.depths, value, bottom, top, drawn_style, name, alpha=0.1, texts=texts))
            drawn += found
            records += _records(result, state, code or f"mean of {tier}", tier, found)
        gap = tier_gap(result, tiers, low, high, resamples=resamples)
        name = with_state("gap", state)
        figure.add_traces(
            curve(first.depths, *gap, state_style(pair_style(high, low), later), name, axis="2",
                  texts=hover(name, first.depths, *gap))
        )  # fmt: skip
        gaps += gap
        records += _records(result, state, f"gap {low} − {high}", "", gap)
    title = titled(
        f"Divergence from {_of(first.reference)} by depth, {unit} (n = {first.n:,} images, d = {first.d:,})", subject
    )
    panels.lay_out(
        figure,
        title,
        [depth_axis(first.depths)] * 2,
        [
            {"range": span(drawn, least=0.0), "title": {"text": unit}},
            {"range": span(gaps, least=0.0)},
        ],
    )
    figure.update_layout(shapes=[level_line(0.0, axis="2")])
    caption = _caption(states, meaning, high, low)
    last = [row for row in records if row["depth"] == first.depths[-1]]
    parts = [extremes([row for row in last if row["language"] in first.languages])]
    parts += [
        with_state(f"{row['language']} {number(row['value'], row['low'], row['high'])}", row["state"])
        for row in last
        if row["language"].startswith("gap ")
    ]
    finding = f"{unit}, at {depth_name(first.depths[-1])}: {'; '.join(part for part in parts if part)}."
    return Analysis(f"divergence-{first.distance}", title, table_of(records), figure, caption, finding)


def _lines(result: Divergence, own: np.ndarray, *, by_tier: bool, resamples: int) -> list[tuple[Any, ...]]:
    if not by_tier:
        found = result.means(resamples=resamples)
        return [
            (code, str(own[k]), language_style(code), Estimates(found.value[k], found.low[k], found.high[k]))
            for k, code in enumerate(result.languages)
        ]
    lines = []
    for tier in dict.fromkeys(own.tolist()):
        mean = result.by_caption[own == tier].mean(axis=0)
        lines.append((None, tier, tier_style(tier), mean_over_captions(mean, resamples=resamples, seed=result.seed)))
    return lines


def _records(result: Divergence, state: str, name: str, tier: str, found: Estimates) -> list[dict[str, Any]]:
    unrelated = (
        result.unrelated[result.languages.index(name)] if name in result.languages else [None] * len(result.depths)
    )
    return [
        {
            "state": state, "language": name, "tier": tier, "reference": "+".join(result.reference),
            "distance": result.distance, "depth": depth, "block": depth - 1, "value": found.value[k],
            "low": found.low[k], "high": found.high[k], "unrelated": unrelated[k], "n": result.n, "d": result.d,
        }
        for k, depth in enumerate(result.depths)
    ]  # fmt: skip


def _of(reference: Sequence[str]) -> str:
    return language_name(reference[0]) if len(reference) == 1 else f"the mean of {len(reference)} languages"


def _caption(states: Mapping[str, Divergence], meaning: str, high: str, low: str) -> str:
    first = next(iter(states.values()))
    several = len(first.reference) > 1
    members = f" ({', '.join(first.reference)}, without the language itself)" if several else ""
    text = (
        f"Mean over captions of the distance between a language's pooled row and that of the same caption in "
        f"{_of(first.reference)}{members}, at each depth: {meaning}. n = {first.n:,} images, d = {first.d:,}. Bands "
        f"are 95 % intervals of a bootstrap over images, of the difference on the right. The gap is the mean of {low} "
        f"minus that of {high}{'' if several else ', without the reference'}. Dotted: the distance to the reference of "
        f"another image's caption (a derangement, seed {first.seed}), which is no match at all."
    )
    if first.distance == "whitened" and np.isfinite(first.shrinkage).any():
        least, most = np.nanmin(first.shrinkage), np.nanmax(first.shrinkage)
        text += f" Shrinkage of the covariance: {least:.2f} to {most:.2f}."
    if len(first.depths) > 1:
        for state, result in states.items():
            mean = float(np.mean(list(result.areas().values())))
            text += f" Area under the curves over the range of depths{', ' + state if state else ''}: {mean:.3f}."
    if np.isnan(first.by_caption).any():
        gone = [str(d) for k, d in enumerate(first.depths) if np.isnan(first.by_caption[:, k]).any()]
        text += f" No value at depth {', '.join(gone)}, where all rows of the reference are the same."
    return text


def residuals_by_language(
    residuals: Mapping[str, Mapping[str, tuple[float, float, float]]],
    tiers: Mapping[str, str],
    *,
    depth: int,
    n: int,
    d: int,
    relative: bool = False,
    subject: str = "",
) -> Analysis:
    """Show the residual at a depth of every language, against one or several references (S3-86).

    Parameters
    ----------
    residuals : mapping of str to mapping
        By the name of the reference, such as ``"English"`` and ``"mean of HRL"``: by language, a value and its
        interval, as :func:`probes.divergence.residuals_at` gives them.
    tiers : mapping of str to str
    depth : int
        M.
    n, d : int
        Images, and features of a row.
    relative : bool
        Whether residuals were divided by the norm of the reference's row.
    subject : str

    Returns
    -------
    Analysis
        A row a reference and language.
    """
    if not residuals or not all(residuals.values()):
        raise InputError("No residual came. Give {reference: {language: (value, low, high)}}.")
    # The longest list first: a language that is itself a reference lacks in its own.
    longest = sorted(residuals.values(), key=len, reverse=True)
    languages = list(dict.fromkeys(code for own in longest for code in own))
    own = check_tiers(languages, tiers)
    order = [code for tier in dict.fromkeys(own) for code, mine in zip(languages, own, strict=True) if mine == tier]
    panels = Panels(
        [f"from {language_name(name)}" for name in residuals], height=60 + 26 * len(order), entries=0, left=124
    )
    figure, records, reach = go.Figure(), [], []
    for place, (name, values) in enumerate(residuals.items()):
        axis = panels.axis(place)
        shown = [code for code in order if code in values]
        styles = [language_style(code) for code in shown]
        triples = np.array([values[code] for code in shown])
        reach.append(triples)
        figure.add_trace(
            go.Scatter(
                x=triples[:, 0], y=[order.index(code) for code in shown], mode="markers", showlegend=False,
                error_x={"type": "data", "symmetric": False, "array": triples[:, 2] - triples[:, 0],
                         "arrayminus": triples[:, 0] - triples[:, 1], "color": "#444444", "thickness": 1.5, "width": 4},
                marker={"color": [s.colour for s in styles], "symbol": [s.symbol for s in styles], "size": 10},
                hovertext=[f"{label(language_name(code))}<br>{number(*values[code])}" for code in shown],
                hovertemplate="%{hovertext}<extra></extra>", xaxis=f"x{axis}", yaxis=f"y{axis}",
            )
        )  # fmt: skip
        records += [
            {
                "reference": name, "language": code, "tier": tiers[code], "depth": depth, "block": depth - 1,
                "value": values[code][0], "low": values[code][1], "high": values[code][2], "n": n, "d": d,
            }
            for code in shown
        ]  # fmt: skip
    what = "relative residual" if relative else "residual"
    title = titled(f"{what.capitalize()} at {depth_name(depth)} by language (n = {n:,} images, d = {d:,})", subject)
    names = [label(language_name(code)) for code in order]
    y: dict[str, Any] = {"range": [len(order) - 0.5, -0.5], "tickvals": list(range(len(order)))}
    x = {"range": [0, span(reach, least=0.0)[1]], "title": {"text": what}}
    panels.lay_out(
        figure,
        title,
        [x] * len(residuals),
        [{**y, "ticktext": order if place else names} for place in range(len(residuals))],
    )
    caption = (
        f"Mean Euclidean distance of the pooled row at {depth_name(depth)} from that of the same caption in the "
        f"reference{', over the norm of the reference' if relative else ''}; a language that is part of a mean is "
        f"measured against the others. n = {n:,} images, d = {d:,}; bars are 95 % intervals of a bootstrap over "
        "images. Languages by tier."
    )
    name = next(iter(residuals))
    finding = f"From {language_name(name)}: {extremes([row for row in records if row['reference'] == name])}."
    return Analysis("residuals", title, table_of(records), figure, caption, finding)


def prevalence_scatter(
    correlation: Correlation, tiers: Mapping[str, str], *, what: str = "residual", subject: str = ""
) -> Analysis:
    """Show the residual of languages against how much of the web they fill (S3-87).

    Parameters
    ----------
    correlation : Correlation
        Of :func:`probes.divergence.prevalence_correlation`.
    tiers : mapping of str to str
    what : str
        What is on the vertical axis, such as ``"residual at depth 4"``.
    subject : str

    Returns
    -------
    Analysis
        A row a language, with both coefficients without it.
    """
    title = titled(f"Prevalence and {what} (n = {correlation.n} languages)", subject)
    figure = labelled_scatter(10**correlation.x, correlation.y, correlation.names, tiers, logarithmic=True)
    figure.update_xaxes(title_text="share of Common Crawl, % (logarithmic)", dtick=1)
    figure.update_yaxes(title_text=what)
    figure.update_layout(title={"text": label(title)})
    caption = f"{what.capitalize()} against log10 of the share. {in_words(correlation)} {PREVALENCE_CAVEAT}"
    table = correlation_table(correlation, ("log10 share", what))
    return Analysis("prevalence-scatter", title, table, figure, caption, in_words(correlation))


def labelled_scatter(
    x: np.ndarray, y: np.ndarray, names: Sequence[str], tiers: Mapping[str, str], *, logarithmic: bool = False
) -> go.Figure:
    """Return points with their names beside them, marked by tier; ``logarithmic`` is of the x axis."""
    figure = go.Figure()
    beside = _places(np.log10(x) if logarithmic else x, y)
    for tier in dict.fromkeys(tiers.get(name, "") for name in names):
        own = [k for k, name in enumerate(names) if tiers.get(name, "") == tier]
        style = tier_style(tier)
        figure.add_trace(
            go.Scatter(
                x=x[own], y=y[own], mode="markers+text", name=label(tier or "no tier"),
                text=[label(names[k]) for k in own], textposition=[beside[k] for k in own], textfont={"size": 12},
                cliponaxis=False, marker={"color": style.colour, "symbol": style.symbol, "size": 10},
                hovertext=[f"<b>{label(language_name(names[k]))}</b><br>{x[k]:.4g}, {y[k]:.3f}" for k in own],
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )  # fmt: skip
    panels = Panels([""], height=380, entries=2)
    across = {"range": span([np.log10(x) if logarithmic else x]), "type": "log" if logarithmic else "linear"}
    # Twice the air, for the names above and below.
    panels.lay_out(figure, "", [across], [{"range": span([np.array(span([y]))])}])
    return figure


def _places(x: np.ndarray, y: np.ndarray) -> list[str]:
    """Return where the name of each point stands: away from the points that are close to it."""
    scaled = np.stack([(own - own.min()) / (np.ptp(own) or 1) for own in (x, y)], axis=1)
    found = []
    for point in scaled:
        away = point - scaled
        near = away[(abs(away).max(axis=1) < 0.1) & (abs(away).max(axis=1) > 0)]
        across, up = near.sum(axis=0) if len(near) else (0.0, 1.0)
        if up:
            found.append("top center" if up > 0 else "bottom center")
        else:
            found.append("middle right" if across > 0 else "middle left")
    return found


def in_words(found: Correlation) -> str:
    """Return both coefficients of a correlation with their p and their range with one name left out."""
    how = f"all {found.draws} orders" if found.exact else f"{found.draws:,} permutations"
    return (
        f"Pearson {found.pearson:.2f} (p = {found.pearson_p:.2g}; {found.pearson_range[0]:.2f} to "
        f"{found.pearson_range[1]:.2f} with one left out), Spearman {found.spearman:.2f} (p = {found.spearman_p:.2g}; "
        f"{found.spearman_range[0]:.2f} to {found.spearman_range[1]:.2f}); two-sided p of {how}, n = {found.n}."
    )


def correlation_table(found: Correlation, axes: tuple[str, str]) -> Any:
    """Return a row a name, with its two values and both coefficients without it; the first row has all names."""
    head = {"left out": "none", axes[0]: None, axes[1]: None, "Pearson": found.pearson, "Spearman": found.spearman}
    rows = [{**head, "Pearson p": found.pearson_p, "Spearman p": found.spearman_p, "n": found.n}]
    for k, name in enumerate(found.names):
        pearson, spearman = found.without[name]
        rows.append(
            {
                "left out": name, axes[0]: float(found.x[k]), axes[1]: float(found.y[k]), "Pearson": pearson,
                "Spearman": spearman, "Pearson p": None, "Spearman p": None, "n": found.n - 1,
            }
        )  # fmt: skip
    return table_of(rows)
