"""How far rows are sorted by language, at each depth (S3-83)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from analyses.base import Analysis
from analyses.geometry_parts import (
    Panels,
    check_same,
    curve,
    depth_axis,
    hover,
    level_line,
    number,
    span,
    table_of,
    titled,
)
from analyses.theme import INK, Style, depth_name, language_name, language_style
from probes.silhouette import SilhouetteByDepth
from workbench.errors import InputError


def silhouette_curves(results: SilhouetteByDepth | Mapping[str, SilhouetteByDepth], *, subject: str = "") -> Analysis:
    """Show the silhouette of rows by language at each depth, one panel a metric.

    Parameters
    ----------
    results : SilhouetteByDepth, or mapping of str to SilhouetteByDepth
        One, or several under any names, such as one a metric.
    subject : str

    Returns
    -------
    Analysis
        A row a metric, depth and language, with the mean over languages as ``all``.
    """
    several = dict(results) if isinstance(results, Mapping) else {results.metric: results}
    if not several:
        raise InputError("No silhouette came.")
    check_same(several, "languages", "depths", "n", "d")
    first = next(iter(several.values()))
    panels = Panels(
        [f"{name} distance" if name in ("cosine", "euclidean") else name for name in several],
        entries=len(first.languages) + 1,
    )
    figure, records, drawn = go.Figure(), [], []
    for place, (name, result) in enumerate(several.items()):
        axis = panels.axis(place)
        for k, code in enumerate(first.languages):
            columns = (result.value[:, k], result.low[:, k], result.high[:, k])
            texts = hover(language_name(code), first.depths, *columns)
            figure.add_traces(
                curve(
                    first.depths, columns[0], None, None, language_style(code), language_name(code), axis=axis,
                    legend=not place, texts=texts,
                )
            )  # fmt: skip
            drawn.append(columns[0])
            records += _silhouette_records(name, result, code, columns)
        columns = (result.overall, result.overall_low, result.overall_high)
        bold = Style(INK, "solid", "line-ew-open", 4.0)
        texts = hover("all languages", first.depths, *columns)
        figure.add_traces(
            curve(first.depths, *columns, bold, "all languages", axis=axis,
                  legend=not place, alpha=0.22, texts=texts)
        )  # fmt: skip
        drawn += columns
        records += _silhouette_records(name, result, "all", columns)
    reach = span(drawn, least=0.0)
    points = first.n * len(first.languages)
    title = titled(
        f"Silhouette of rows by language (n = {first.n:,} images, {points:,} points, d = {first.d:,})", subject
    )
    y: list[dict[str, Any]] = [{"range": reach} for _ in several]
    y[0]["title"] = {"text": "silhouette"}
    panels.lay_out(figure, title, [depth_axis(first.depths)] * len(several), y)
    figure.update_layout(shapes=[level_line(0.0, axis=panels.axis(place)) for place in range(len(several))])
    gone = [str(d) for d, value in zip(first.depths, first.overall, strict=True) if np.isnan(value)]
    caption = (
        f"Mean silhouette of the pooled rows with languages as labels, n = {first.n:,} images in "
        f"{len(first.languages)} languages, d = {first.d:,}. Above 0 rows sit with their language rather than with the "
        "nearest other one; at or below 0 they do not. Thick: the mean over all languages"
    )
    caption += ", with its 95 % jackknife interval over images." if np.isfinite(first.overall_low).any() else "."
    if gone:
        caption += f" No value at depth {', '.join(gone)}: all rows there are the same."
    parts = []
    for name, result in several.items():
        value, low, high = (float(own[-1]) for own in (result.overall, result.overall_low, result.overall_high))
        parts.append(f"{name} {number(value, low, high)}")
    finding = f"Mean over all languages at {depth_name(first.depths[-1])}: {', '.join(parts)}."
    return Analysis("silhouette-by-depth", title, table_of(records), figure, caption, finding)


def _silhouette_records(name: str, result: SilhouetteByDepth, code: str, columns: tuple) -> list[dict[str, Any]]:
    return [
        {
            "metric": name, "language": code, "depth": depth, "block": depth - 1, "value": columns[0][k],
            "low": columns[1][k], "high": columns[2][k], "n": result.n, "d": result.d,
        }
        for k, depth in enumerate(result.depths)
    ]  # fmt: skip
