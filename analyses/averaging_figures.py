"""Figures of averaging: each language beside the average, and the matrix of towers and corpora."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analyses.averaging import AveragingGains
from analyses.base import Analysis
from analyses.erasure_figures import title_above
from analyses.frames import DIRECTIONS
from analyses.menus import add_traces
from analyses.theme import INK, TEMPLATE, label, language_name, language_style
from workbench.errors import InputError

_LEGEND: dict[str, Any] = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0}
_ROW = 28  # pixels


def averaging_figure(gains: AveragingGains, *, metric: str = "R@1", direction: str = "i2t") -> Analysis:
    """Show every language of a pool, the average without it, and the average of all.

    Parameters
    ----------
    gains : AveragingGains
    metric : str
    direction : {"i2t", "t2i"}
        What is shown first; buttons show the other.
    """
    frame = gains.frame
    _check_metric(frame, metric)
    rows = _rows(gains, frame, metric, direction)
    figure = go.Figure()
    traces = {name: _traces(gains, frame, rows, metric, name) for name in DIRECTIONS}
    titles = {name: {"xaxis.title.text": f"{label(metric)}, {way}, %"} for name, way in DIRECTIONS.items()}
    add_traces(figure, traces, direction, titles)
    n, last = int(frame["n"].iloc[0]), rows[-1][0]
    title = f"Averaging over languages: {metric} ({n:,} images)"
    figure.update_layout(
        template=TEMPLATE, title=title_above(title), height=200 + _ROW * (last + 1), hovermode="closest",
        margin={"l": 158, "r": 16, "t": 110, "b": 112}, legend=_LEGEND,
        meta={"wide": {"margin.l": 158}, "narrow": {"margin.l": 118}},
    )  # fmt: skip
    figure.update_xaxes(range=[0, 102])
    figure.update_yaxes(
        range=[last + 0.7, -0.7], tickvals=[row for row, _, _ in rows], showgrid=False, ticks="",
        ticktext=[_row_name(gains, pool, text) for _, pool, text in rows], tickfont={"color": INK},
    )  # fmt: skip
    parts = [_gain_text(frame, pool, metric, direction, gains.best[pool, direction]) for pool in gains.pools]
    caption = (
        f"{metric} where an image's text is a caption in one language, or the average over a pool of languages: "
        f"normalised, averaged, normalised again{_subject(frame)}. Hollow diamonds are the average without the row's "
        f"own language. Bars are 95 % intervals of a bootstrap over {n:,} images, paired for differences. "
        f"{' '.join(parts)} The best language is chosen on the same images."
    )
    return Analysis("averaging", title, frame, figure, caption, " ".join(parts))


def averaging_matrix(
    cells: Sequence[AveragingGains], *, metric: str = "R@1", direction: str = "i2t", against: str = "mean"
) -> Analysis:
    """Show the gain of averaging for every tower and corpus, a panel a pool (S3-32, S3-33).

    Parameters
    ----------
    cells : sequence of AveragingGains
        One a tower and corpus; a combination that is not there stays empty.
    metric : str
    direction : {"i2t", "t2i"}
    against : {"mean", "best"}
        What the gain is over: the mean of the pool's languages, as published, or the best of them.
    """
    if against not in ("mean", "best"):
        raise InputError(f"against={against!r} came; it is 'mean' or 'best'.")
    if not cells:
        raise InputError("No cell came. `average_tower` makes one of a tower and a corpus.")
    frame = pd.concat([cell.frame for cell in cells], ignore_index=True)
    _check_metric(frame, metric)
    gain = f"gain over {against} {metric}"
    chosen = frame[(frame["direction"] == direction) & (frame["text"] == "average")]
    twice = chosen[chosen["metric"] == gain].duplicated(["tower", "corpus", "pool"])
    if twice.any():
        raise InputError("A tower and a corpus came twice in the matrix. Give each cell once.")
    towers, corpora = (list(dict.fromkeys(chosen[name])) for name in ("tower", "corpus"))
    pools = list(dict.fromkeys(chosen["pool"]))
    numbers = {
        (str(row["tower"]), str(row["corpus"]), str(row["pool"]), str(row["metric"])): (
            float(row["value"]), float(row["low"]), float(row["high"]), int(row["n"])
        )
        for row in chosen.to_dict("records")
    }  # fmt: skip
    figure = go.Figure()
    reach = max(1.0, *(abs(found[0]) for key, found in numbers.items() if key[3] == gain))
    gap = 0.03
    width = (1 - gap * (len(pools) - 1)) / len(pools)
    axes: dict[str, Any] = {}
    for place, pool in enumerate(pools):
        suffix = str(place + 1) if place else ""
        values, texts, hovers = [], [], []
        for tower in towers:
            found = [numbers.get((tower, corpus, pool, gain)) for corpus in corpora]
            after = [numbers.get((tower, corpus, pool, metric)) for corpus in corpora]
            values.append([None if one is None else one[0] for one in found])
            texts.append([_cell(one, two) for one, two in zip(found, after, strict=True)])
            hovers.append([_hover(tower, corpus, pool, one) for corpus, one in zip(corpora, found, strict=True)])
        figure.add_heatmap(
            x=[label(name) for name in corpora], y=[label(name) for name in towers], z=values, text=texts,
            texttemplate="%{text}", hovertext=hovers, hovertemplate="%{hovertext}<extra></extra>",
            colorscale="RdBu_r", zmid=0, zmin=-reach, zmax=reach, xgap=2, ygap=2, textfont={"size": 13},
            xaxis=f"x{suffix}", yaxis=f"y{suffix}", showscale=place == len(pools) - 1,
            colorbar={"title": {"text": "points", "side": "right", "font": {"size": 12}}, "thickness": 12},
        )  # fmt: skip
        left = place * (width + gap)
        axes[f"xaxis{suffix}"] = {
            "domain": [left, left + width], "anchor": f"y{suffix}", "showgrid": False, "ticks": "",
            "title": {"text": f"pool {label(pool)}"},
        }  # fmt: skip
        axes[f"yaxis{suffix}"] = {
            "anchor": f"x{suffix}", "autorange": "reversed", "showgrid": False, "ticks": "",
            "showticklabels": place == 0,
        }  # fmt: skip
    over = "the mean of its languages" if against == "mean" else "the best of its languages"
    counts = sorted({int(n) for n in chosen["n"]})
    images = f"{counts[0]:,} images" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,} images"
    title = f"Gain of the average over {over}: {metric}, {DIRECTIONS[direction]} ({images})"
    figure.update_layout(
        template=TEMPLATE, title=title_above(title), height=170 + 52 * len(towers),
        margin={"l": 150, "r": 60, "t": 64, "b": 84}, **axes,
    )  # fmt: skip
    caption = (
        f"Points of {metric} by which the average over a pool beats {over}, and in brackets the average's own score. "
        "Intervals are in the table: paired 95 % bootstrap over images."
    )
    return Analysis("averaging-matrix", title, chosen.reset_index(drop=True), figure, caption)


def _rows(gains: AveragingGains, frame: pd.DataFrame, metric: str, direction: str) -> list[tuple[int, str, str]]:
    """Return (place, pool, text): the average and the mean of each pool first, then languages, best first."""
    rows, place = [], 0
    for pool, languages in gains.pools.items():
        scores = {language: _number(frame, pool, language, direction, metric)["value"] for language in languages}
        order = sorted(languages, key=lambda language, scores=scores: -scores[language])
        for text in ("average", "mean of languages", *order):
            rows.append((place, pool, text))
            place += 1
        place += 1
    return rows


def _traces(
    gains: AveragingGains, frame: pd.DataFrame, rows: list[tuple[int, str, str]], metric: str, direction: str
) -> list[Any]:
    pooled = [(row, pool, text) for row, pool, text in rows if text in ("average", "mean of languages")]
    single = [(row, pool, text) for row, pool, text in rows if text in gains.pools[pool]]
    without = [(row + 0.27, pool, f"average without {text}") for row, pool, text in single]
    styles = [language_style(text) for _, _, text in single]
    return [
        _dots(frame, pooled, metric, direction, "pool", "#000000", ["star", "line-ns-open"] * len(gains.pools), 14),
        _dots(
            frame, single, metric, direction, "language alone", [style.colour for style in styles],
            [style.symbol for style in styles], 10,
        ),
        _dots(frame, without, metric, direction, "average of the others", "#444444", "diamond-open", 9),
    ]  # fmt: skip


def _dots(
    frame: pd.DataFrame, rows: list[tuple[float, str, str]] | list[tuple[int, str, str]], metric: str, direction: str,
    name: str, colour: Any, symbol: Any, size: int,
) -> go.Scatter:  # fmt: skip
    numbers = [_number(frame, pool, text, direction, metric) for _, pool, text in rows]
    return go.Scatter(
        x=[number["value"] for number in numbers],
        y=[row for row, _, _ in rows],
        mode="markers",
        name=name,
        marker={"color": colour, "symbol": symbol, "size": size, "line": {"width": 2 if size == 14 else 1.4}},
        error_x={
            "type": "data", "symmetric": False, "color": "#555555", "thickness": 1.3, "width": 4,
            "array": [number["high"] - number["value"] for number in numbers],
            "arrayminus": [number["value"] - number["low"] for number in numbers],
        },
        hovertext=[
            f"{label(text)} ({label(pool)})<br>{number['value']:.1f} [{number['low']:.1f}, {number['high']:.1f}]"
            f"<br>n = {number['n']:,}"
            for (_, pool, text), number in zip(rows, numbers, strict=True)
        ],
        hovertemplate="%{hovertext}<extra></extra>",
    )  # fmt: skip


def _number(frame: pd.DataFrame, pool: str, text: str, direction: str, metric: str) -> dict[str, Any]:
    own = frame[
        (frame["pool"] == pool)
        & (frame["text"] == text)
        & (frame["direction"] == direction)
        & (frame["metric"] == metric)
    ]
    return {str(key): value for key, value in own.to_dict("records")[0].items()}


def _check_metric(frame: pd.DataFrame, metric: str) -> None:
    known = [name for name in dict.fromkeys(frame["metric"]) if not str(name).startswith("gain")]
    if metric not in known:
        raise InputError(f"The averages have no metric {metric!r}. They have: {', '.join(known)}.")


def _row_name(gains: AveragingGains, pool: str, text: str) -> str:
    if text == "average":
        return f"<b>{label(pool)}: average of {len(gains.pools[pool])}</b>"
    return f"{label(pool)}: mean" if text == "mean of languages" else label(language_name(text))


def _gain_text(frame: pd.DataFrame, pool: str, metric: str, direction: str, best: str) -> str:
    over_mean, over_best = (
        _number(frame, pool, "average", direction, f"gain over {what} {metric}") for what in ("mean", "best")
    )
    return (
        f"{pool} ({direction}): {_signed(over_mean)} points over the mean of its languages, {_signed(over_best)} over "
        f"the best, {best}."
    )


def _signed(number: dict[str, Any]) -> str:
    return f"{number['value']:+.1f} [{number['low']:+.1f}, {number['high']:+.1f}]"


def _cell(gain: tuple[float, float, float, int] | None, after: tuple[float, float, float, int] | None) -> str:
    return "" if gain is None or after is None else f"{gain[0]:+.1f} ({after[0]:.1f})"


def _hover(tower: str, corpus: str, pool: str, gain: tuple[float, float, float, int] | None) -> str:
    where = f"{label(tower)}, {label(corpus)}, {label(pool)}"
    if gain is None:
        return f"{where}<br>not measured"
    return f"{where}<br>{gain[0]:+.1f} [{gain[1]:+.1f}, {gain[2]:+.1f}]<br>n = {gain[3]:,}"


def _subject(frame: pd.DataFrame) -> str:
    names = [str(frame[name].iloc[0]) for name in ("tower", "corpus") if frame[name].iloc[0]]
    return f"; {' on '.join(names)}" if names else ""
