"""A run beside published values of the same tower and benchmark, with the difference.

Only what is the same is compared: tower, benchmark, language or country, intervention, source, depth and
metric, by the name tables of ``analyses/published/``. A difference is no verdict. Published values come
without intervals, sometimes of images or a direction that the paper does not name, and each row says so.
"""

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
from workbench.errors import InputError, suggest
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
    rows, partial, skipped = found.rows, found.partial, found.skipped
    table = pd.DataFrame(rows)[COLUMNS]
    inside = table["inside"].dropna()
    towers = ", ".join(dict.fromkeys(Path(tower).name for tower in table["tower"]))
    title = f"Run and published values, {towers} (n = {len(table)} numbers)"
    caption = (
        "Filled: this run with its 95 % interval. Hollow star: the value that the paper prints for the same tower, "
        "benchmark, language or country, intervention and depth. "
        + (
            f"{int(inside.sum())} of {len(inside)} published values lie within the interval, half a unit of their last "
            "printed place allowed. "
            if len(inside)
            else ""
        )
        + "Published values have no interval of their own. "
        + " ".join(f"{note[0].upper()}{note[1:]}." for note in dict.fromkeys(table["note"]) if note)
    )
    if partial:
        caption += f" Means of {', '.join(partial)} are over other languages here than in the paper, and were left out."
    if skipped:
        caption += f" {skipped} divergences were left out: the published ones have P = ½, and this run has another."
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


COMPARED = ("prevalence-bias", "association-t2i", "association-i2i", "preference-and-clusters")


def _read(file: Path) -> pd.DataFrame:
    check_table(file)
    try:
        is_csv = file.suffix == ".csv"
        frame = pd.read_csv(file, keep_default_na=False, na_values=[""]) if is_csv else read_frame(file)
    except (ValueError, OSError) as error:
        raise InputError(f"{str(file)!r} can't be read as a table ({error}).") from None
    return _comparable(file.stem, frame)


def _comparable(name: str, table: pd.DataFrame) -> pd.DataFrame:
    # This one repeats SP of the association table, without intervals.
    return table[table["metric"] != "SP"] if name == "preference-and-clusters" else table


def _nothing(frame: pd.DataFrame, found: Matches) -> str:
    by_corpus: dict[str, list[str]] = {}
    for tower, corpus, _ in found.published:
        by_corpus.setdefault(corpus, [])
        if tower not in by_corpus[corpus]:
            by_corpus[corpus].append(tower)
    known = "; ".join(f"{corpus}: {', '.join(towers)}" for corpus, towers in by_corpus.items())
    towers, corpora = ([str(name) for name in frame[column].unique()] for column in ("tower", "corpus"))
    same = [c for c in corpora if any(tower_name(t) in by_corpus.get(corpus_name(c), []) for t in towers)]
    if same and found.skipped:
        return (
            f"The divergences of this run have a P that is not the published ½, and nothing else of it is published "
            f"for {', '.join(same)}. Run it with prior='half'."
        )
    if same:
        metrics = ", ".join(
            dict.fromkeys(
                metric
                for tower, corpus, metric in found.published
                if corpus in map(corpus_name, same) and tower in map(tower_name, towers)
            )
        )
        return (
            f"{', '.join(towers)} is published on {', '.join(same)}, but not in the cells of this run. Published "
            f"metrics: {metrics}; the run has: {', '.join(map(str, frame['metric'].unique()))}."
        )
    hint = suggest(tower_name(towers[0]), [tower for names in by_corpus.values() for tower in names])
    return (
        f"Nothing is published for {', '.join(towers)} on {', '.join(corpora)}.{hint} Published are, by benchmark: "
        f"{known}."
    )


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
        stars = [row["published"] for row in group]
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


def _name(row: dict[str, Any], several: bool) -> str:
    place = row["country"] if row["country"] not in ("", "all") else ""
    if row["language"] == "mean":
        place = f"mean of {row['tier']}"
    elif row["language"] not in ("", "all"):
        place = language_name(row["language"])
    how = "" if row["intervention"] in ("", "none") else f"{row['intervention']}, depth {row['depth']}"
    parts = [row["tower"] if several else "", place, how, row["metric"], row["direction"] or ""]
    return ", ".join(label(str(part)) for part in parts if part)
