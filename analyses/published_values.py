"""The numbers that papers printed, as one tidy frame, so that a run can be laid beside them.

The files of ``analyses/published/`` are kept as they were printed, one a table, misprints included;
``index.csv`` there names the paper, table, unit and licence of each, and ``inconsistencies.csv`` the places
where a paper disagrees with itself. :func:`load_published` turns them into long format without changing a
number: a cell that is no plain number ("30+", "37-50", "~80 -> 8.5") keeps its text beside what can be read
off it.
"""

import csv
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import InputError, suggest

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path(__file__).parent / "published"

COLUMNS = (
    "paper", "table", "file", "tower", "printed", "group", "corpus", "language", "tier", "country", "item",
    "intervention", "source", "depth", "direction", "metric", "value", "low", "high", "text", "unit", "n", "classes",
    "note", "apart",
)  # fmt: skip
"""``tower`` is the one name of the bench, ``printed`` the paper's at that place; ``item`` is whatever else a row is
about (a concept, an input type, a task). ``text`` is the cell as printed, ``value`` the number, NaN where there is
none; ``low`` and ``high`` the ends where a range is printed. ``classes`` is how many languages a classifier told
apart, ``note`` what the paper leaves open, and ``apart`` why no number of a run can be laid beside this one. A
number that is said of several towers or languages has a row for each."""

Row = dict[str, str]


def published_rows(file: str) -> list[Row]:
    """Return the rows of one file as it is, every cell a text.

    Raises
    ------
    InputError
        If there is no such file.
    """
    names = sorted(path.name for path in FOLDER.glob("*.csv"))
    if file not in names:
        raise InputError(f"No published file is called {file!r}.{suggest(file, names)} Files: {', '.join(names)}.")
    with (FOLDER / file).open(encoding="utf-8", newline="") as stream:
        return [dict(row) for row in csv.DictReader(stream)]


def load_published(paper: str | None = None, table: str | int | None = None) -> "pd.DataFrame":
    """Return published numbers in long format.

    Parameters
    ----------
    paper : {"s0", "s1", "s3"}, optional
        All by default; ``papers.csv`` has titles and arXiv numbers.
    table : str or int, optional
        Number of the table in the paper, such as ``2``, or ``"result files"`` or ``"text"``.

    Returns
    -------
    pandas.DataFrame
        Columns :data:`COLUMNS`; texts are empty where they do not apply.

    Raises
    ------
    InputError
        If no paper or table is called so.
    """
    index = published_rows("index.csv")
    papers = {row["paper"]: row["title"] for row in published_rows("papers.csv")}
    if paper is not None and paper not in papers:
        known = "; ".join(f"{name}: {title}" for name, title in papers.items())
        raise InputError(f"No paper is called {paper!r}.{suggest(paper, papers)} Papers: {known}.")
    images = {row["file"]: row["n"] for row in published_rows("protocols.csv")}
    rows = [
        {
            "n": images.get(entry["file"], ""), **row,
            "paper": entry["paper"], "file": entry["file"], "table": row.get("table", entry["table"]),
        }
        for entry in index
        if paper in (None, entry["paper"])
        for row in _TIDY[entry["file"]](published_rows(entry["file"]))
    ]  # fmt: skip
    if table is not None:
        tables = dict.fromkeys(row["table"] for row in rows)
        rows = [row for row in rows if row["table"] == str(table)]
        if not rows:
            raise InputError(f"There is no table {table!r} of {paper or 'any paper'}. Tables: {', '.join(tables)}.")
    return _frame(rows)


def _frame(rows: Iterable[Row]) -> "pd.DataFrame":
    import pandas as pd

    records: list[dict[str, Any]] = []
    for row in rows:
        printed = row.get("printed", "")
        value, low, high = number(row["text"])
        records.append(
            {
                **dict.fromkeys(COLUMNS, ""),
                **row,
                "tower": row.get("tower") or (tower_name(printed) if printed not in ("Average", "both") else ""),
                "value": value,
                "low": low,
                "high": high,
                **{name: int(row[name]) if row.get(name) else None for name in ("n", "depth", "classes")},
            }
        )
    return pd.DataFrame(records, columns=list(COLUMNS)).astype({"n": "Int64", "depth": "Int64", "classes": "Int64"})


def tower_name(name: str) -> str:
    """Return the bench's one name of a tower, or the name itself where it is not in ``tower_names.csv``.

    A hub id, its part after the slash, a folder of that name and every printed form lead to the same tower;
    upper and lower case are the same.
    """
    table = _towers()
    return table.get(_plain(name), table.get(_plain(Path(name).name), name))


def corpus_name(name: str) -> str:
    """Return the bench's one name of a benchmark, or the name itself.

    A subset, such as ``xm3600:xm3600-1k@0123abcd``, goes by its own name where papers used one, and stays what it
    is where they did not: its numbers are not those of the whole.
    """
    known = _corpora()
    return known.get(_plain(name)) or known.get(_plain(name.split(":", 1)[-1].split("@")[0]), name)


def country_name(name: str) -> str:
    """Return the country's name in 3XCM, from that name, the papers' code or the ISO code."""
    return _countries().get(_plain(name), name)


def country_languages() -> dict[str, str]:
    """Return the language of each country of 3XCM, in the order of the papers: falling web resources (S0-20)."""
    return {row["country"]: row["language"] for row in published_rows("countries.csv")}


def _plain(name: str) -> str:
    return name.strip().lower()


@lru_cache(maxsize=1)
def _towers() -> Mapping[str, str]:
    rows = published_rows("tower_names.csv")
    found = {_plain(row["name"]): row["tower"] for row in rows}
    for row in rows:
        if row["where"] == "hub":
            found.setdefault(_plain(row["name"].rsplit("/", 1)[-1]), row["tower"])
    return found


@lru_cache(maxsize=1)
def _corpora() -> Mapping[str, str]:
    return {_plain(row["name"]): row["corpus"] for row in published_rows("corpus_names.csv")}


@lru_cache(maxsize=1)
def _countries() -> Mapping[str, str]:
    rows = published_rows("countries.csv")
    return {_plain(row[column]): row["country"] for column in ("iso", "printed", "code", "country") for row in rows}


# -- long format -----------------------------------------------------------------------------------

Ids = Mapping[str, str]
"""Column of the frame to column of the file."""
Tidy = Callable[[list[Row]], list[Row]]

_LANGUAGES = {"EN": "en", "ID": "id", "TH": "th", "VN": "vi", "MS": "ms"}


def _melt(
    raw: list[Row],
    ids: Ids,
    cells: Iterable[str],
    rename: Callable[[str], str] = str,
    to: str = "metric",
    **fixed: str,
) -> list[Row]:
    """One row for each cell, in the order in which a reader of the table goes."""
    names = list(cells)
    return [
        {**fixed, **{column: row[source] for column, source in ids.items()}, to: rename(name), "text": row[name]}
        for row in raw
        for name in names
    ]


def _prevalence(raw: list[Row]) -> list[Row]:
    ids = {"printed": "model", **({"group": "group"} if "group" in raw[0] else {})}

    def rename(name: str) -> str:
        if name.startswith("ndcg"):
            return name.replace("ndcg", "NDCG-list")
        return name.upper() if "kl" in name else name.capitalize()

    fixed = {"corpus": "xm3600", "language": "all", "direction": "i2t"}
    found = _melt(raw, ids, [name for name in raw[0] if "@" in name], rename, **fixed)
    return [{**row, "unit": "nats" if "KL" in row["metric"] else "fraction"} for row in found]


def _by_country(raw: list[Row]) -> list[Row]:
    codes = [name for name in raw[0] if name not in ("model", "metric")]
    ids = {"printed": "model", "metric": "metric"}
    units = {"SP": "ratio", "TS": "silhouette", "IS": "silhouette"}
    found = _melt(raw, ids, codes, country_name, "country", corpus="3xcm", direction="t2i")
    counts = {country_name(row["country"]): row["samples"] for row in published_rows("s0_table9_country_samples.csv")}
    counts["Japan"] = "943"  # of the trials that were scored; table 9 counts one more
    return [
        {
            **row,
            "unit": units.get(row["metric"], "percent"),
            "n": "" if row["metric"] in ("TS", "IS") else counts[row["country"]],
        }
        for row in found
    ]


def _wins(raw: list[Row]) -> list[Row]:
    ids, fixed = {"printed": "model", "direction": "variant"}, {"corpus": "3xcm", "country": "all", "n": "11723"}
    return _melt(raw, ids, ("sem", "cul", "non"), "wins {}".format, unit="count", **fixed)


def _preference(raw: list[Row]) -> list[Row]:
    ids = {"printed": "model", "group": "group"}
    fixed = {"corpus": "3xcm", "country": "all", "direction": "t2i", "n": "11723"}
    found = _melt(raw, ids, list(raw[0])[2:], lambda name: name.removesuffix("_%"), **fixed)
    return [{**row, "unit": "ratio" if row["metric"] == "SP" else "percent"} for row in found]


def _counted(ids: Ids, metric: str, unit: str, corpus: str = "") -> Tidy:
    def tidy(raw: list[Row]) -> list[Row]:
        found = _melt(raw, ids, [metric], unit=unit, corpus=corpus)
        return [{**row, "country": country_name(row["country"])} if "country" in row else row for row in found]

    return tidy


def _scores(ids: Ids, item: str) -> Tidy:
    """Tables of R@k and MRR on MERIT; ``item`` is a pattern over the file's columns."""

    def tidy(raw: list[Row]) -> list[Row]:
        full = [{**row, "item": item.format(**row)} for row in raw]
        metrics = [name for name in raw[0] if name.startswith("R@") or name == "MRR"]
        return _melt(full, {**ids, "item": "item"}, metrics, unit="percent", corpus="merit")

    return tidy


def _wide(ids: Ids, to: str, metric: str, corpus: str = "merit") -> Tidy:
    def tidy(raw: list[Row]) -> list[Row]:
        others = [name for name in raw[0] if name not in ids.values()]
        found = _melt(raw, ids, others, lambda name: _LANGUAGES.get(name, name), to, unit="percent", corpus=corpus)
        return [{"metric": metric, **row} for row in found]

    return tidy


def _main_results(raw: list[Row]) -> list[Row]:
    full = [{**row, "model": f"{row['method']}-{row['size']}"} for row in raw]
    return _scores({"printed": "model", "group": "type"}, "{input}")(full)


def _correlations(raw: list[Row]) -> list[Row]:
    return _melt(raw, {"printed": "model"}, ("TSC", "ISC"), corpus="3xcm", country="all", unit="Pearson r", n="16")


def _features(raw: list[Row]) -> list[Row]:
    found = _melt(raw, {"item": "benchmark"}, list(raw[0])[2:])
    return [{**row, "unit": "count" if row["metric"] == "queries" else "yes = 1"} for row in found]


def _held_out(raw: list[Row]) -> list[Row]:
    found = _scores({"n": "n", "group": "setting"}, "{family}: {ood}")(raw)
    return [{**row, "table": row["group"].split("(T")[1].rstrip(")")} for row in found]


def _statements(raw: list[Row]) -> list[Row]:
    """Numbers of a running text; an arrow is two rows, before and after."""
    cells: dict[tuple[str, str, str], list[Row]] = {}
    for row in published_rows("s3_keys.csv"):
        cells.setdefault((row.pop("key"), row.pop("encoder"), row.pop("moment")), []).extend(_spread(row))
    # Of all numbers of this text; what differs stands in the table of keys.
    whole = next(row["n"] for row in published_rows("protocols.csv") if row["file"] == "s3_published.csv")
    units = {"R@1": "percent", "pp": "points", "%": "percent"}
    found: list[Row] = []
    for row in raw:
        fixed = {"printed": row["encoder"], "group": row["where"], "metric": row["unit"]}
        fixed["unit"] = units.get(row["unit"], row["unit"])
        ends = [end.strip() for end in row["value"].split("->")]
        for moment, text in zip(("before", "after") if len(ends) == 2 else ("",), ends, strict=True):
            fixed |= {"item": f"{row['key']} {moment}".strip(), "text": text}
            for cell in cells.get((row["key"], row["encoder"], moment), [{}]):
                n = cell.get("n", "") or (whole if cell else "")
                found.append({**fixed, **cell, "n": "" if n == "not given" else n})
    return found


def _spread(row: Row) -> list[Row]:
    """One row for each of the names that stand together in a cell, ``"bn;sw"``."""
    names = ("tower", "language", "tier", "intervention")
    return [{**row, **dict(zip(names, one, strict=True))} for one in product(*(row[name].split(";") for name in names))]


_TIDY: dict[str, Tidy] = {
    "s0_table1_i2t_crossmodal3600.csv": _prevalence,
    "s0_table2_3xcm_sp.csv": _preference,
    "s0_table3_language_resources.csv": _counted(
        {"language": "id", "item": "language", "tier": "tier"}, "commoncrawl_percent", "percent"
    ),
    "s0_table4_country_language.csv": _counted(
        {"country": "code", "item": "language"}, "commoncrawl_percent", "percent"
    ),
    "s0_table5_bias_depths.csv": _prevalence,
    "s0_table6_models.csv": _counted({"printed": "alias", "item": "full_name_as_printed"}, "params", "parameters"),
    "s0_table7_pearson.csv": _correlations,
    "s0_table8_sp_silhouette_country.csv": _by_country,
    "s0_table9_country_samples.csv": _counted({"country": "country"}, "samples", "count", "3xcm"),
    "s0_table10_concepts.csv": _counted({"item": "concept"}, "images", "count", "3xcm"),
    "s0_table11_wins_country.csv": _by_country,
    "s0_repo_wins.csv": _wins,
    "s0_repo_depths.csv": _prevalence,
    "s1_table1_datasets.csv": _features,
    "s1_table2_merit_main.csv": _main_results,
    "s1_table3_coral_ablation.csv": _scores({"printed": "method", "group": "factor"}, "{input}, LoRA {lora}"),
    "s1_table4_categories.csv": _counted({"group": "primary", "item": "secondary"}, "count", "count", "merit"),
    "s1_table5_cases.csv": _counted({"group": "figure"}, "attr1_attr2_product_language", "text", "merit"),
    "s1_table6_language_r1.csv": _wide({"printed": "model"}, "language", "R@1"),
    "s1_table7_8_9_ood.csv": _held_out,
    "s1_table10_eight_tasks.csv": _wide({"printed": "model"}, "item", "P@1", ""),
    "s1_table11_human.csv": _wide({"metric": "setting"}, "printed", ""),
    "s1_table12_conditions.csv": _scores({"printed": "model"}, "{conditions} conditions"),
    "s3_published.csv": _statements,
}

_NUMBER = r"[+-]?\d+(?:\.\d+)?"


def number(text: str) -> tuple[float, float, float]:
    """Read a printed number: value, low and high, NaN where it says nothing of them.

    ``"73.4"`` and ``"~80"`` have a value; ``"37-50"`` and ``"-0.1..+2.5"`` two ends; ``"30+"``, ``">=10"`` and
    ``">55"`` a low end, ``"<=1.5"`` a high one, ``"+-1-2"`` the ends -2 and 2. ``"427.6M"`` is 427,600,000
    and ``"36,554"`` is 36,554. Anything else has none.
    """
    nan = float("nan")
    plain = text.strip().removesuffix("x").lstrip("~")
    if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+", plain):
        plain = plain.replace(",", "")
    if re.fullmatch(_NUMBER, plain):
        return float(plain), nan, nan
    if found := re.fullmatch(rf"({_NUMBER})M", plain):
        return float(found[1]) * 1e6, nan, nan
    if found := re.fullmatch(rf">=?\s*({_NUMBER})|({_NUMBER})\+", plain):
        return nan, float(found[1] or found[2]), nan
    if found := re.fullmatch(rf"<=?\s*({_NUMBER})", plain):
        return nan, nan, float(found[1])
    if found := re.fullmatch(r"\+-(?:\d+(?:\.\d+)?-)?(\d+(?:\.\d+)?)", plain):
        return nan, -float(found[1]), float(found[1])
    if found := re.fullmatch(rf"({_NUMBER})(?:-|\.\.)({_NUMBER})", plain):
        return nan, float(found[1]), float(found[2])
    return nan, nan, nan
