"""Two figures of an erasure audit: what attackers still read, and what retrieval made of it."""

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analyses.base import Analysis
from analyses.erasure import BEFORE, PLACEBO, ErasureAudit
from analyses.frames import DIRECTIONS
from analyses.menus import add_traces
from analyses.theme import FAINT, INK, TEMPLATE, Style, label, language_name, language_style, tier_style
from workbench.errors import InputError, suggest

_LEGEND: dict[str, Any] = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0}
_ROW = 26  # pixels
_BAND = Style("#747474", "solid")
# Attackers differ in marker and in colour; linear ones are filled.
_ATTACKERS = {
    "logistic": Style("#0256a9", "solid", "circle"),
    "svm": Style("#0e8c41", "solid", "square"),
    "ridge": Style("#8459c3", "solid", "triangle-up"),
    "lda": Style("#8a7300", "solid", "star"),
    "knn": Style("#b55508", "dot", "x-open"),
    "mlp": Style("#c0434c", "dot", "diamond-open"),
}


def erasure_attacks(audit: ErasureAudit) -> Analysis:
    """Show how often each attacker names the language of held-out captions, before and after each eraser."""
    table = audit.attacks
    order = list(dict.fromkeys(table["eraser"]))
    figure = go.Figure()
    chance, classes = float(table["chance"].iloc[0]), int(table["classes"].iloc[0])
    attackers = list(dict.fromkeys(table["attacker"]))
    for place, attacker in enumerate(attackers):
        own = table[table["attacker"] == attacker]
        style = _ATTACKERS[attacker]
        offset = 0.22 * (place - (len(attackers) - 1) / 2)
        rows = own.to_dict("records")
        figure.add_scatter(
            x=[row["accuracy"] for row in rows],
            y=[order.index(row["eraser"]) + offset for row in rows],
            mode="markers",
            name=f"{attacker}, {'linear' if rows[0]['linear'] else 'not linear'}",
            marker={"symbol": style.symbol, "color": style.colour, "size": 10, "line": {"width": 1.6}},
            error_x={
                "type": "data", "symmetric": False, "color": style.colour, "thickness": 1.4, "width": 4,
                "array": [row["high"] - row["accuracy"] for row in rows],
                "arrayminus": [row["accuracy"] - row["low"] for row in rows],
            },
            hovertext=[
                f"{label(_eraser_name(row))}<br>{attacker}: {row['accuracy']:.1f} % "
                f"[{row['low']:.1f}, {row['high']:.1f}]<br>n = {row['n']:,} captions of {row['images']:,} images"
                for row in rows
            ],
            hovertemplate="%{hovertext}<extra></extra>",
        )  # fmt: skip
    figure.add_scatter(
        x=[chance, chance], y=[-0.6, len(order) - 0.4], mode="lines", hoverinfo="skip",
        name=f"chance and majority, {chance:.1f} %", line={"color": "#000000", "dash": "dash", "width": 1.6},
    )  # fmt: skip
    n = int(table["images"].iloc[0])
    title = f"Language read off erased embeddings ({n:,} held-out images, {classes} languages)"
    figure.update_layout(
        template=TEMPLATE, title=title_above(title), height=200 + 44 * len(order), legend=_LEGEND,
        margin={"l": 170, "r": 20, "t": 64, "b": 118}, hovermode="closest",
        meta={"wide": {"margin.l": 170}, "narrow": {"margin.l": 128}},
    )  # fmt: skip
    figure.update_xaxes(range=[0, 102], title_text="captions whose language is named right, %")
    ranks = dict(zip(table["eraser"], table["rank"], strict=True))
    names = [_eraser_name({"eraser": name, "rank": ranks[name]}) for name in order]
    figure.update_yaxes(
        range=[len(order) - 0.4, -0.6], tickvals=list(range(len(order))), ticktext=[label(name) for name in names],
        showgrid=False, ticks="", tickfont={"color": INK},
    )  # fmt: skip
    caption = (
        f"Percent of held-out captions whose language a classifier names, {subject_of(audit)}. Each classifier is "
        f"trained on erased embeddings of {audit.train_images:,} images and scored on {n:,} others, of all {classes} "
        "languages. Bars are 95 % intervals of a bootstrap over images. Every language has one caption an image, so "
        f"majority and chance are the same. {PLACEBO} r removes r random directions; each of its draws is a mark, "
        "and only linear attackers meet it."
    )
    parts = []
    for attacker in attackers:
        own = table[(table["attacker"] == attacker) & table["draw"].isna()]
        parts.append(f"{attacker} " + ", ".join(f"{row.accuracy:.1f} {_after(row.eraser)}" for row in own.itertuples()))
    finding = f"Percent named right by a fresh classifier: {'; '.join(parts)}; chance {chance:.1f}."
    return Analysis("erasure-attacks", title, table, figure, caption, finding)


def _after(eraser: object) -> str:
    return "before" if eraser == BEFORE else f"after {eraser}"


def erasure_changes(audit: ErasureAudit, eraser: str = "LEACE", *, direction: str = "i2t") -> Analysis:
    """Show what an eraser does to the retrieval of every language, beside its placebo.

    Parameters
    ----------
    audit : ErasureAudit
    eraser : str
        Its label in the audit.
    direction : {"i2t", "t2i"}
        What is shown first; buttons show the other.
    """
    if eraser not in audit.fitted:
        raise InputError(
            f"The audit has no eraser {eraser!r}.{suggest(eraser, audit.fitted)} It has: {', '.join(audit.fitted)}."
        )
    rank = audit.placebo_rank[eraser]
    placebo = f"{PLACEBO} {rank}"
    table = audit.retrieval[audit.retrieval["eraser"].isin([BEFORE, eraser, placebo])]
    metric = str(table["metric"].iloc[0])
    moved = table[table["metric"] == f"change {metric}"]
    rows = _ordered(table, direction, metric)
    figure = go.Figure()
    traces = {name: _change_traces(moved, rows, eraser, placebo, rank, name) for name in DIRECTIONS}
    titles = {
        name: {"xaxis.title.text": f"change of {label(metric)}, {way}, points"} for name, way in DIRECTIONS.items()
    }
    add_traces(figure, traces, direction, titles)
    n = audit.test_images
    title = f"{eraser}: change of {metric} by language ({n:,} held-out images)"
    last = rows[-1][0]
    shown = moved[moved["draw"].isna()]
    reach = 1.1 * max(1.0, float(shown[["value", "low", "high"]].abs().max().max()))
    figure.update_layout(
        template=TEMPLATE, title=title_above(title), height=190 + _ROW * (last + 1), legend=_LEGEND,
        margin={"l": 150, "r": 16, "t": 110, "b": 104}, hovermode="closest",
        meta={"wide": {"margin.l": 150}, "narrow": {"margin.l": 112}},
    )  # fmt: skip
    figure.update_xaxes(range=[-reach, reach], zeroline=True, zerolinecolor=FAINT, zerolinewidth=1.4)
    names = [f"<b>{label(f'{tier} mean')}</b>" if lang == "mean" else language_name(lang) for _, lang, tier in rows]
    figure.update_yaxes(
        range=[last + 0.7, -0.7], tickvals=[row for row, _, _ in rows], ticktext=names, showgrid=False, ticks="",
        tickfont={"color": INK},
    )  # fmt: skip
    caption = (
        f"Points of {metric} that {eraser} adds to each language, {subject_of(audit)}. It was fitted on "
        f"{audit.train_images:,} images; captions of {n:,} others are ranked against the images of these. Bars are "
        "paired 95 % intervals of a bootstrap over images. Grey bars are the placebo: mean ± 2 standard deviations "
        f"over {_draws(table, placebo)} draws of {rank} random directions."
    )
    finding = _mean_changes(moved, eraser, placebo, rank, metric, direction)
    return Analysis(f"erasure-{_file_name(eraser)}", title, table, figure, caption, finding)


def _mean_changes(moved: pd.DataFrame, eraser: str, placebo: str, rank: int, metric: str, direction: str) -> str:
    means = moved[(moved["language"] == "mean") & (moved["direction"] == direction) & moved["draw"].isna()]
    parts = []
    for tier in dict.fromkeys(means["tier"]):
        own = means[means["tier"] == tier].set_index("eraser")
        ours, random = own.loc[eraser], own.loc[placebo]
        parts.append(
            f"the {tier} mean moves by {ours['value']:+.1f} [{ours['low']:+.1f}, {ours['high']:+.1f}], with {rank} "
            f"random directions by {random['value']:+.1f} ± {random['sd']:.1f}"
        )
    return f"{direction} {metric}: {'; '.join(parts)}." if parts else ""


def _ordered(table: pd.DataFrame, direction: str, metric: str) -> list[tuple[int, str, str]]:
    """Return (place, language, tier) of every row of the figure: tiers together, means first, best first."""
    frozen = table[
        (table["eraser"] == BEFORE) & (table["direction"] == direction) & (table["metric"] == metric)
    ].sort_values("value", ascending=False, kind="stable")
    means = frozen[frozen["language"] == "mean"]
    tiers = [*means["tier"], *([""] if (frozen["tier"] == "").any() else [])]
    rows, place = [], 0
    for tier in tiers:
        own = frozen[frozen["tier"] == tier]
        for language in [*own[own["language"] == "mean"]["language"], *own[own["language"] != "mean"]["language"]]:
            rows.append((place, language, tier))
            place += 1
        place += 1
    return rows


def _change_traces(
    moved: pd.DataFrame, rows: list[tuple[int, str, str]], eraser: str, placebo: str, rank: int, direction: str
) -> list[Any]:
    here = moved[moved["direction"] == direction]
    bars, dots = (_records(here, name, rows) for name in (placebo, eraser))
    styles = [tier_style(tier) if language == "mean" else language_style(language) for _, language, tier in rows]
    names = [f"{tier} mean" if language == "mean" else language_name(language) for _, language, tier in rows]
    # A band is a thick bar: an error bar as wide as the row is high can't be, so each is a filled box.
    x: list[float | None] = []
    y: list[float | None] = []
    for (place, _, _), bar in zip(rows, bars, strict=True):
        low, high = bar["value"] - 2 * bar["sd"], bar["value"] + 2 * bar["sd"]
        x += [low, high, high, low, low, None]
        y += [place - 0.36, place - 0.36, place + 0.36, place + 0.36, place - 0.36, None]
    return [
        go.Scatter(
            x=x, y=y, fill="toself", mode="lines", line={"width": 1, "color": _BAND.rgba(0.8)}, hoverinfo="skip",
            fillcolor=_BAND.rgba(0.28), name=f"{rank} random directions, mean ± 2 sd",
        ),
        go.Scatter(
            x=[float(dot["value"]) for dot in dots],
            y=[place for place, _, _ in rows],
            mode="markers",
            name=f"{label(eraser)}, 95 % interval",
            marker={
                "color": [style.colour for style in styles], "symbol": [style.symbol for style in styles],
                "size": [12 if language == "mean" else 9 for _, language, _ in rows],
                "line": {"width": 1, "color": INK},
            },
            error_x={
                "type": "data", "symmetric": False, "color": "#444444", "thickness": 1.5, "width": 4,
                "array": [float(dot["high"] - dot["value"]) for dot in dots],
                "arrayminus": [float(dot["value"] - dot["low"]) for dot in dots],
            },
            hovertext=[
                f"{label(name)}<br>{label(eraser)}: {dot['value']:+.1f} [{dot['low']:+.1f}, {dot['high']:+.1f}]<br>"
                f"random: {bar['value']:+.1f} ± {bar['sd']:.1f}<br>n = {dot['n']:,}"
                for name, dot, bar in zip(names, dots, bars, strict=True)
            ],
            hovertemplate="%{hovertext}<extra></extra>",
        ),
    ]  # fmt: skip


def _records(table: pd.DataFrame, eraser: str, rows: list[tuple[int, str, str]]) -> list[dict[str, Any]]:
    own = table[(table["eraser"] == eraser) & table["draw"].isna()].to_dict("records")
    found = {(str(row["language"]), str(row["tier"])): {str(key): v for key, v in row.items()} for row in own}
    return [found[language, tier] for _, language, tier in rows]


def _draws(table: pd.DataFrame, placebo: str) -> int:
    return int(table[table["eraser"] == placebo]["draw"].nunique())


def _eraser_name(row: dict[str, Any]) -> str:
    name, rank = str(row["eraser"]), row["rank"]
    if name == BEFORE:
        return "before erasure"
    if name.startswith(PLACEBO):
        return f"{rank} random directions"
    return name if pd.isna(rank) or name.endswith(f" {rank}") else f"{name} (rank {rank})"


def title_above(title: str) -> dict[str, Any]:
    """Return a title at the top edge, clear of the buttons below it."""
    return {"text": label(title), "yref": "container", "y": 1, "yanchor": "top", "pad": {"t": 12}}


def subject_of(audit: ErasureAudit) -> str:
    """Return ``"tower on corpus"``, for captions."""
    first = audit.retrieval.iloc[0]
    return " on ".join(str(name) for name in (first["tower"], first["corpus"]) if name) or "output embeddings"


def _file_name(text: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in text)
