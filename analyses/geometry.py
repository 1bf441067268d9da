"""Whether languages arrange the same images alike, and where in the tower they stop to (S3-80 to S3-82).

CKA by depth, averaged over the pairs of languages of each two tiers, with the biased form that papers print beside
the debiased one and what chance gives below both; and the matrix of all pairs at a depth.
"""

from collections.abc import Mapping
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
from analyses.menus import add_menu, choice
from analyses.theme import depth_name, label, language_name
from probes._checks import check_tiers
from probes.cka import CKAResult, Estimator, TierCKA, tier_difference, tier_means
from workbench.errors import InputError

_ESTIMATORS: tuple[Estimator, ...] = ("biased", "debiased")
_ALL = "all pairs"


def cka_curves(
    results: CKAResult | Mapping[str, CKAResult], tiers: Mapping[str, str], *, subject: str = ""
) -> Analysis:
    """Show CKA by depth: the mean over pairs of each two tiers, biased and debiased, with the null (S3-80, S3-81).

    Parameters
    ----------
    results : CKAResult, or mapping of str to CKAResult
        One tower, or one before and after a change: ``{"frozen": ..., "calibrated": ...}``.
    tiers : mapping of str to str
    subject : str
        Which tower on which corpus, for the title.

    Returns
    -------
    Analysis
        A row a state, estimator, tier pair and depth, with the jackknife interval, the null and p.
    """
    states = states_of(results)
    check_same(states, "languages", "depths", "n", "d")
    first = next(iter(states.values()))
    figure, records, drawn = go.Figure(), [], []
    panels = Panels(["biased, as papers print it", "debiased"], entries=4 * len(states))
    for place, estimator in enumerate(_ESTIMATORS):
        axis = panels.axis(place)
        for later, (state, result) in enumerate(states.items()):
            chance = _null(result, estimator)
            name = with_state("shuffled captions", state)
            style = state_style(CHANCE, later)
            figure.add_traces(
                curve(
                    first.depths, chance.null, chance.null_low, chance.null_high, style, name, axis=axis,
                    legend=not place, texts=hover(name, first.depths, chance.null, chance.null_low, chance.null_high),
                )
            )  # fmt: skip
            drawn += [chance.null_low, chance.null_high]
            for mean in tier_means(result, tiers, estimator):
                name = with_state("–".join(mean.pair), state)
                figure.add_traces(
                    curve(
                        first.depths, mean.value, mean.low, mean.high, state_style(pair_style(*mean.pair), later), name,
                        axis=axis, legend=not place, texts=hover(name, first.depths, mean.value, mean.low, mean.high),
                    )
                )  # fmt: skip
                drawn += [mean.value, mean.low, mean.high]
                records += _records(mean, first, state)
    height = span(drawn, least=0.0)
    title = titled(f"CKA between languages by depth (n = {first.n:,} images, d = {first.d:,})", subject)
    panels.lay_out(
        figure,
        title,
        [depth_axis(first.depths)] * 2,
        [{"range": height, "title": {"text": "linear CKA"}}, {"range": height}],
    )
    figure.update_layout(shapes=[level_line(0.0, axis=panels.axis(place)) for place in range(2)])
    last = [row for row in records if row["depth"] == first.depths[-1] and row["estimator"] == "debiased"]
    parts = (with_state(f"{row['pair']} {number(row['value'], row['low'], row['high'])}", row["state"]) for row in last)
    finding = f"debiased CKA at {depth_name(first.depths[-1])} is {', '.join(parts)}."
    return Analysis("cka-by-depth", title, table_of(records), figure, _cka_caption(states, tiers), finding)


def _null(result: CKAResult, estimator: Estimator) -> TierCKA:
    """Return the null of the mean over all pairs of different languages."""
    return tier_means(result, dict.fromkeys(result.languages, _ALL), estimator)[0]


def _records(mean: TierCKA, result: CKAResult, state: str) -> list[dict[str, Any]]:
    return [
        {
            "state": state, "estimator": mean.estimator, "pair": "–".join(mean.pair), "pairs": mean.n_pairs,
            "depth": depth, "block": depth - 1, "value": mean.value[k], "low": mean.low[k], "high": mean.high[k],
            "null": mean.null[k], "null low": mean.null_low[k], "null high": mean.null_high[k], "p": mean.p[k],
            "n": result.n, "d": result.d,
        }
        for k, depth in enumerate(result.depths)
    ]  # fmt: skip


def _cka_caption(states: Mapping[str, CKAResult], tiers: Mapping[str, str]) -> str:
    result = next(iter(states.values()))
    means = tier_means(result, tiers)
    counts = ", ".join(f"{mean.n_pairs} {'–'.join(mean.pair)}" for mean in means)
    text = (
        f"Mean linear CKA over unordered pairs of languages ({counts}) of their pooled rows at each depth, "
        f"n = {result.n:,} images, d = {result.d:,} features. Left the biased form, which is far above 0 for "
        "unrelated rows unless n is many times d; right the debiased one (U-centred), 0 on average for unrelated rows. "
    )
    if len(result.null_biased):
        text += (
            f"Dotted: the mean over all pairs with the captions of each language shuffled, {len(result.null_biased)} "
            "draws, with their 95 % range. "
        )
    if len(result.without_biased):
        text += (
            f"Bands: 95 % intervals of a jackknife over {len(result.without_biased)} groups of images; a bootstrap "
            "would repeat captions and push CKA up. "
        )
    text += _missing(result)
    if len(states) == 2:
        names = list(states)
        text += f"Solid marks are {names[0]}, hollow ones {names[1]}. "
    return text + f"Seed {result.seed}."


def _missing(result: CKAResult) -> str:
    gone = [
        depth for depth, matrix in zip(result.depths, result.biased, strict=True) if np.isnan(np.diag(matrix)).any()
    ]
    if not gone:
        return ""
    named = ", ".join(map(str, gone))
    return f"No value at depth {named}: there a language's rows are all the same, so they have no arrangement. "


def cka_gap(
    results: CKAResult | Mapping[str, CKAResult],
    tiers: Mapping[str, str],
    *,
    high: str = "HRL",
    low: str = "LRL",
    subject: str = "",
) -> Analysis:
    """Show by how much CKA within the high tier exceeds CKA between the tiers, by depth (S3-81).

    Parameters
    ----------
    results : CKAResult, or mapping of str to CKAResult
    tiers : mapping of str to str
    high, low : str
        The difference is that of the pairs high–high and high–low.
    subject : str

    Returns
    -------
    Analysis
        A row a state, estimator and depth.
    """
    states = states_of(results)
    check_same(states, "languages", "depths", "n", "d")
    first = next(iter(states.values()))
    figure, records, drawn = go.Figure(), [], []
    panels = Panels(["biased", "debiased"], entries=len(states))
    what = f"{high}–{high} minus {high}–{low}"
    for place, estimator in enumerate(_ESTIMATORS):
        for later, (state, result) in enumerate(states.items()):
            found = tier_difference(result, tiers, (high, high), (high, low), estimator)
            name = with_state(what, state)
            style = state_style(pair_style(high, low), later)
            texts = hover(name, first.depths, *found)
            figure.add_traces(
                curve(first.depths, *found, style, name, axis=panels.axis(place), legend=not place, texts=texts)
            )
            drawn += found
            records += [
                {
                    "state": state, "estimator": estimator, "difference": what, "depth": depth, "block": depth - 1,
                    "value": found[0][k], "low": found[1][k], "high": found[2][k], "n": first.n, "d": first.d,
                }
                for k, depth in enumerate(first.depths)
            ]  # fmt: skip
    reach = span(drawn, least=0.0)
    title = titled(f"CKA gap between tiers by depth (n = {first.n:,} images, d = {first.d:,})", subject)
    panels.lay_out(
        figure,
        title,
        [depth_axis(first.depths)] * 2,
        [{"range": reach, "title": {"text": "difference of CKA"}}, {"range": reach}],
    )
    figure.update_layout(shapes=[level_line(0.0, axis=panels.axis(place)) for place in range(2)])
    last = "; ".join(
        with_state(number(row["value"], row["low"], row["high"]), row["state"])
        for row in records
        if row["estimator"] == "debiased" and row["depth"] == first.depths[-1]
    )
    caption = (
        f"Mean CKA over the pairs within {high} minus that over the pairs of {high} and {low}, n = {first.n:,} images, "
        f"d = {first.d:,}; above 0 the {low} languages arrange the images less like the {high} ones than those do "
        f"among themselves. At the last depth, debiased: {last}. "
        f"Bands: 95 % intervals of the difference, jackknife over {len(first.without_biased)} groups of images. "
    ) + _missing(first)
    finding = f"Debiased, at {depth_name(first.depths[-1])}: {last}."
    return Analysis("cka-gap", title, table_of(records), figure, caption.strip(), finding)


def cka_matrix(result: CKAResult, tiers: Mapping[str, str], depth: int | None = None, *, subject: str = "") -> Analysis:
    """Show the CKA of every pair of languages at a depth, biased and debiased, with a menu of depths.

    Parameters
    ----------
    result : CKAResult
    tiers : mapping of str to str
        Languages stand by tier.
    depth : int, optional
        What is shown first; the last by default.
    subject : str

    Returns
    -------
    Analysis
        A row a depth and unordered pair of languages.
    """
    own = check_tiers(result.languages, tiers)
    shown = result.depths[-1] if depth is None else depth
    if shown not in result.depths:
        raise InputError(f"There is no depth {shown}. There are: {', '.join(map(str, result.depths))}.")
    order = [k for tier in dict.fromkeys(own) for k, mine in enumerate(own) if mine == tier]
    codes = [result.languages[k] for k in order]
    panels = Panels(["biased", "debiased"], height=max(300, 30 * len(codes)), entries=0, left=124)
    least = min(0.0, float(np.nanmin(result.debiased))) if np.isfinite(result.debiased).any() else 0.0
    most = _ceiling(result)
    figure = go.Figure()
    matrices = {d: [_matrix(values[k], order) for values in (result.biased, result.debiased)] for k, d in
                enumerate(result.depths)}  # fmt: skip
    for place, matrix in enumerate(matrices[shown]):
        axis = panels.axis(place)
        figure.add_trace(
            go.Heatmap(
                x=codes, y=codes, z=matrix, zmin=least, zmax=most, colorscale="Cividis", xgap=1, ygap=1,
                text=_cells(matrix), texttemplate="%{text}" if len(codes) <= 14 else None, textfont={"size": 11},
                hovertemplate="%{y}–%{x}: %{z:.3f}<extra></extra>", showscale=place == 1,
                colorbar={"title": {"text": "CKA"}, "thickness": 14, "len": 0.9},
                xaxis=f"x{axis}", yaxis=f"y{axis}",
            )
        )  # fmt: skip
    title = titled(f"CKA of every pair of languages (n = {result.n:,} images, d = {result.d:,})", subject)
    names = [label(language_name(code)) for code in codes]
    x: dict[str, Any] = {"type": "category", "showgrid": False, "tickangle": 0}
    y = {"type": "category", "autorange": "reversed", "showgrid": False, "tickvals": codes}
    panels.lay_out(figure, title, [x, x], [{**y, "ticktext": names}, {**y, "ticktext": codes}])
    edges = _tier_edges([own[k] for k in order])
    figure.update_layout(shapes=[line for place in range(2) for line in _tier_lines(edges, panels.axis(place))])
    buttons = [
        choice(
            depth_name(d), {"z": [m.tolist() for m in matrices[d]], "text": [_cells(m) for m in matrices[d]]}, [0, 1]
        )
        for d in result.depths
    ]
    if len(buttons) > 1:
        add_menu(figure, "depth", "dropdown", buttons, result.depths.index(shown), x=1.0, anchor="right")
        figure.update_layout(margin_t=110)
    caption = (
        f"Linear CKA of the pooled rows of every two languages at {depth_name(shown)}, n = {result.n:,} images, "
        f"d = {result.d:,}; languages by tier, white lines between tiers. A language with itself is 1 and left empty; "
        f"colours end at {most:.1f}. " + _missing(result)
    )
    records = [
        {
            "depth": d, "block": d - 1, "language": result.languages[a], "other": result.languages[b],
            "pair": f"{own[a]}–{own[b]}", "biased": result.biased[k, a, b], "debiased": result.debiased[k, a, b],
            "n": result.n, "d": result.d,
        }
        for k, d in enumerate(result.depths)
        for at, a in enumerate(order)
        for b in order[at + 1 :]
    ]  # fmt: skip
    pairs = [
        {"language": f"{row['language']}–{row['other']}", "value": row["debiased"]}
        for row in records
        if row["depth"] == shown
    ]
    finding = f"Debiased, at {depth_name(shown)}: {extremes(pairs)}."
    return Analysis("cka-matrix", title, table_of(records), figure, caption.strip(), finding)


def _ceiling(result: CKAResult) -> float:
    """Return the next tenth above all pairs of different languages, so that colours tell them apart."""
    off = ~np.eye(len(result.languages), dtype=bool)
    found = np.stack([result.biased, result.debiased])[..., off]
    highest = float(np.nanmax(found)) if np.isfinite(found).any() else 1.0
    return min(1.0, np.ceil(10 * highest) / 10)


def _matrix(values: np.ndarray, order: list[int]) -> np.ndarray:
    matrix = values[np.ix_(order, order)].astype(object)
    matrix[np.isnan(values[np.ix_(order, order)])] = None
    np.fill_diagonal(matrix, None)
    return matrix


def _cells(matrix: np.ndarray) -> list[list[str]]:
    """Return two decimals without the 0 before the point, which leaves room for eleven languages."""
    return [["" if value is None else f"{value:.2f}".replace("0.", ".") for value in row] for row in matrix]


def _tier_edges(own: list[str]) -> list[int]:
    return [k for k in range(1, len(own)) if own[k] != own[k - 1]]


def _tier_lines(edges: list[int], axis: str) -> list[dict[str, Any]]:
    line = {"type": "line", "line": {"color": "#ffffff", "width": 5}}
    found = []
    for edge in edges:
        across = {"xref": f"x{axis} domain", "yref": f"y{axis}", "x0": 0, "x1": 1, "y0": edge - 0.5, "y1": edge - 0.5}
        down = {"xref": f"x{axis}", "yref": f"y{axis} domain", "y0": 0, "y1": 1, "x0": edge - 0.5, "x1": edge - 0.5}
        found += [{**line, **across}, {**line, **down}]
    return found
