"""A run beside published values of the same tower and benchmark, with the difference.

Only what is the same is compared: tower, benchmark, language or country, intervention, source, depth and
metric, by the name tables of ``analyses/published/``, measured alike; what was measured otherwise is named and left
out. A difference is no verdict. Published values come
without intervals, sometimes of images or a direction that the paper does not name, and each row says so.
"""

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analyses.base import Analysis
from analyses.curves import published_stars
from analyses.prevalence_figure import LEGEND
from analyses.published_match import COLUMNS, Matches, is_published, match_published
from analyses.published_values import corpus_name, tower_name
from analyses.theme import FAINT, TEMPLATE, label, language_name
from workbench.errors import InputError
from workbench.packed import read_frame
from workbench.runs import check_table


def compare_published(frame: pd.DataFrame, paper: str | None = None) -> Analysis:
    """Lay a run's tidy frame beside the published values of the same tower and benchmark.

    Parameters
    ----------
    frame : pandas.DataFrame
        Of a sweep, or the table of ``prevalence_bias``, ``association_bias`` or ``preference_and_clusters``:
        columns tower, corpus, metric and value; language, tier, country, intervention, source, depth,
        direction, low, high and n where they apply.
    paper : {"s0", "s1", "s3"}, optional
        All papers by default.

    Returns
    -------
    Analysis
        ``difference`` is the run's value less the published one, ``inside`` whether the published value, as far
        as it is printed, lies within the run's interval; empty where there is no interval.

    Raises
    ------
    InputError
        If the frame lacks a column, or nothing published is of this tower and benchmark; then the message says
        what is published.
    """
    lacking = [name for name in ("tower", "corpus", "metric", "value") if name not in frame.columns]
    if lacking or not len(frame):
        raise InputError(
            f"The frame {'is empty' if not lacking else 'lacks ' + ', '.join(lacking)}. Give the results of a sweep or "
            "the table of an analysis, with tower, corpus, metric and value."
        )
    found = match_published(frame, paper)
    if not found.rows:
        raise InputError(_nothing(frame, found))
    return _analysis(found)


def _analysis(found: Matches) -> Analysis:
    rows, partial = found.rows, found.partial
    table = pd.DataFrame(rows)[COLUMNS]
    inside = table["inside"].dropna()
    towers = ", ".join(dict.fromkeys(Path(tower).name for tower in table["tower"]))
    title = f"Run and published values, {towers} (n = {len(table)} numbers)"
    caption = (
        "Filled: this run with its 95 % interval. Hollow star: the value that the paper prints for the same tower, "
        "benchmark, language or country, intervention and depth, measured alike. "
        + (
            f"{int(inside.sum())} of {len(inside)} published values lie within the interval, half a unit of their last "
            "printed place allowed. "
            if len(inside)
            else ""
        )
        + ("A star of a range stands at the place in it that is nearest. " if table["published"].isna().any() else "")
        + "Published values have no interval of their own. "
        + " ".join(f"{note[0].upper()}{note[1:]}." for note in dict.fromkeys(table["note"]) if note)
    )
    if partial:
        caption += f" Means of {', '.join(partial)} are over other languages here than in the paper, and were left out."
    if found.apart:
        caption += f" Not compared: {_reasons(found)}."
    return Analysis("comparison", title, table, _figure(rows, title), caption.strip())


def beside_published(*tables: "pd.DataFrame | Analysis") -> list[Analysis]:
    """Compare a run for its page: one analysis, or none where nothing of it is published.

    Parameters
    ----------
    *tables : pandas.DataFrame or Analysis
        A sweep's frame; analyses of which nothing can be published are passed over.
    """
    frames = [
        _comparable(one.name, one.table) if isinstance(one, Analysis) else one
        for one in tables
        if not isinstance(one, Analysis) or one.name in COMPARED
    ]
    if not frames:
        return []
    frame = pd.concat(frames, ignore_index=True)
    pairs = frame[["tower", "corpus"]].drop_duplicates().itertuples(index=False)
    if not any(is_published(str(tower), str(corpus)) for tower, corpus in pairs):
        return []
    found = match_published(frame)
    return [_analysis(found)] if found.rows else []


def compare_run(path: str | Path, paper: str | None = None) -> Analysis:
    """Compare a run folder, or a table on disk: ``workbench compare --published``.

    Parameters
    ----------
    path : str or Path
        A run folder (of a sweep, or of one of the ``bias`` commands), a Parquet file, or the CSV that an analysis
        saved.
    paper : {"s0", "s1", "s3"}, optional

    Raises
    ------
    InputError
        If there is no table, or it can't be read.
    """
    return compare_published(read_run(path), paper)


def read_run(path: str | Path) -> pd.DataFrame:
    """Read the numbers of a run folder, or a table on disk.

    Parameters
    ----------
    path : str or Path
        As :func:`compare_run` takes it.

    Raises
    ------
    InputError
        If there is no table, or it can't be read.
    """
    place = Path(path)
    files = [place]
    if place.is_dir():
        figures = [place / "figures" / f"{name}.csv" for name in COMPARED]
        files = [file for file in (place / "results.parquet", *figures) if file.is_file()]
    if not files or not files[0].is_file():
        raise InputError(
            f"There is no table in {str(place)!r}. Give the folder of a finished sweep or bias run, a Parquet file or "
            "a CSV file."
        )
    return pd.concat([_read(file) for file in files], ignore_index=True)


COMPARED = ("prevalence-bias", "association-t2i", "association-i2i", "preference-and-clusters", "key-numbers")


def _read(file: Path) -> pd.DataFrame:
    check_table(file)
    try:
        csv = file.suffix == ".csv"
        frame = pd.read_csv(file, keep_default_na=False, na_values=[""]) if csv else read_frame(file)
    except (ValueError, OSError) as error:
        raise InputError(f"{str(file)!r} can't be read as a table ({error}).") from None
    return _comparable(file.stem, frame)


def _comparable(name: str, table: pd.DataFrame) -> pd.DataFrame:
    # This one repeats SP of the association table, without intervals.
    return table[table["metric"] != "SP"] if name == "preference-and-clusters" else table


def _reasons(found: Matches) -> str:
    return "; ".join(
        f"{count} value{'s' if count > 1 else ''}, since {reason}" for reason, count in found.apart.items()
    )


def _nothing(frame: pd.DataFrame, found: Matches) -> str:
    towers, corpora = ([str(name) for name in frame[column].unique()] for column in ("tower", "corpus"))
    who = f"{', '.join(towers)} on {', '.join(corpora)}"
    if found.apart:
        return f"Nothing published of {who} was measured as this run was: {_reasons(found)}."
    there = [(tower, corpus) for tower, corpus, _ in found.published]
    same = [(t, c) for t, c in dict.fromkeys(there) if t in map(tower_name, towers) and c in map(corpus_name, corpora)]
    if same:
        metrics = ", ".join(dict.fromkeys(m for tower, corpus, m in found.published if (tower, corpus) in same))
        return (
            f"{who} is published, but not in the cells of this run. Published metrics: {metrics}; the run has: "
            f"{', '.join(map(str, frame['metric'].unique()))}."
        )
    on = list(dict.fromkeys(corpus for tower, corpus in there if tower in map(tower_name, towers)))
    by = list(dict.fromkeys(tower for tower, corpus in there if corpus in map(corpus_name, corpora)))
    if on:
        hint = f" That tower is published on {', '.join(on)}."
    else:
        names = list(dict.fromkeys(tower for tower, _ in there))
        plain = {name.casefold(): name for name in by or names}
        near = [plain[name] for name in get_close_matches(towers[0].casefold(), plain, 3, 0.5)]
        hint = f" The nearest published towers are {', '.join(near)}." if near else ""
    return f"Nothing is published for {who}.{hint} `load_published()` has all that is."


def _figure(rows: list[dict[str, Any]], title: str) -> go.Figure:
    from plotly.subplots import make_subplots

    units = list(dict.fromkeys(row["unit"] for row in rows))
    groups = [[row for row in rows if row["unit"] == unit] for unit in units]
    several = len({row["tower"] for row in rows}) > 1
    figure = make_subplots(
        rows=len(units), cols=1, row_heights=[len(group) + 1.5 for group in groups],
        vertical_spacing=min(0.12, 0.3 / len(units)),
    )  # fmt: skip
    for place, (unit, group) in enumerate(zip(units, groups, strict=True), 1):
        y = list(range(len(group)))
        hover = [
            f"<b>{_name(row, several)}</b><br>run {row['value']:.4g}"
            + ("" if row["low"] is None else f" [{row['low']:.4g}, {row['high']:.4g}]")
            + f"<br>published {label(row['printed'])} ({row['paper']}, table {label(str(row['table']))})"
            f"<br>difference {row['difference']:+.4g}"
            for row in group
        ]
        shared: dict[str, Any] = {"y": y, "mode": "markers", "showlegend": place == 1, "hovertext": hover}
        shared |= {"hovertemplate": "%{hovertext}<extra></extra>"}
        figure.add_scatter(
            x=[row["value"] for row in group], name="this run", legendgroup="run",
            marker={"symbol": "circle", "size": 9, "color": "#0256a9"},
            error_x={
                "type": "data", "symmetric": False, "thickness": 1.5, "width": 4, "color": "#0256a9",
                "array": [0 if row["high"] is None else row["high"] - row["value"] for row in group],
                "arrayminus": [0 if row["low"] is None else row["value"] - row["low"] for row in group],
            },
            row=place, col=1, **shared,
        )  # fmt: skip
        stars = [_star(row) for row in group]
        figure.add_trace(
            published_stars(stars, y, hover, legendgroup="published", showlegend=place == 1), row=place, col=1
        )
        figure.update_xaxes(title_text=label(unit), row=place, col=1)
        figure.update_yaxes(
            tickvals=y, ticktext=[_name(row, several) for row in group], range=[len(group) - 0.4, -0.6], ticks="",
            row=place, col=1,
        )  # fmt: skip
    figure.update_layout(
        template=TEMPLATE, title={"text": label(title), "xref": "container", "x": 0.02}, legend=LEGEND,
        hovermode="closest",
        height=150 + 70 * len(units) + 26 * len(rows), margin={"l": 250, "r": 24, "t": 70, "b": 90},
    )  # fmt: skip
    figure.update_yaxes(tickfont={"color": FAINT, "size": 11})
    return figure


def _star(row: dict[str, Any]) -> float:
    """Where a published value stands; of a range or a bound, the place in it that is nearest to the run's value."""
    return row["value"] - row["difference"] if pd.isna(row["published"]) else row["published"]


def _name(row: dict[str, Any], several: bool) -> str:
    place = row["country"] if row["country"] not in ("", "all") else ""
    if row["language"] == "mean":
        place = f"mean of {row['tier']}"
    elif row["language"] not in ("", "all"):
        place = language_name(row["language"])
    how = "" if row["intervention"] in ("", "none") else f"{row['intervention']}, depth {row['depth']}"
    parts = [row["tower"] if several else "", place, how, row["metric"], row["direction"] or ""]
    return ", ".join(label(str(part)) for part in parts if part)
