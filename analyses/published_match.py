"""Which published number is of the same thing as a number of a run.

The same tower, benchmark, language or tier or country, intervention, source, depth and metric, by the name
tables of ``analyses/published/``. Published values come without intervals, and sometimes without the direction
or the images that they were measured on; each match says so.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from analyses.published_values import corpus_name, country_name, load_published, published_rows, tower_name
from workbench.languages import tiers

COLUMNS = [
    "tower", "corpus", "language", "tier", "country", "intervention", "depth", "direction", "metric", "value", "low",
    "high", "n", "published", "printed", "unit", "difference", "inside", "paper", "table", "note",
]  # fmt: skip

# Metrics that the bench has in percent where papers print shares of one.
_IN_PERCENT = ("Acc@", "NDCG", "R@", "MRR")

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Matches:
    """What meets.

    Attributes
    ----------
    rows : list of dict
        With :data:`COLUMNS`: ``difference`` is the run's value less the published one; ``inside`` is whether the
        published value, as far as it is printed, lies within the run's interval, None where there is none.
    partial : list of str
        Tiers whose mean is over other languages than the paper's; these means are not matched.
    skipped : int
        Divergences that were measured against another P than the published one.
    published : list of tuple of str
        Tower, benchmark and metric of all that is published, in the order of the tables.
    """

    rows: list[dict[str, Any]]
    partial: list[str]
    skipped: int
    published: list[tuple[str, str, str]]


def match_published(frame: pd.DataFrame, paper: str | None = None) -> Matches:
    """Find the published values of a tidy frame's numbers.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns tower, corpus, metric and value, and what else of :data:`COLUMNS` applies.
    paper : {"s0", "s1", "s3"}, optional
        All papers by default.
    """
    published = _published(paper)
    notes = {row["file"]: row["notes"] for row in published_rows("index.csv")}
    rows: list[dict[str, Any]] = []
    skipped = 0
    partial = _partial_tiers(frame)
    for row in _run_rows(frame):
        if row["language"] == "mean" and row["tier"] in partial:
            continue
        for other in published.get(_key(row), []):
            if other["direction"] and row["direction"] and other["direction"] != row["direction"]:
                continue
            if row["P rule"] not in ("", "half") and "KL@" in row["metric"]:
                skipped += 1
                continue
            rows.append(_compared(row, other, notes[other["file"]]))
    return Matches(rows, partial, skipped, list(dict.fromkeys((key[0], key[1], key[-1]) for key in published)))


class Mark(NamedTuple):
    """A published value beside a number of a sweep."""

    value: float
    difference: float
    inside: bool | None
    where: str

    @property
    def verdict(self) -> str:
        """``"+1.2, inside"``: difference of the run, and whether the published value lies in its interval."""
        ends = {True: ", inside the interval", False: ", outside the interval", None: ""}[self.inside]
        return f"{self.difference:+.1f}{ends}"


MarkKey = tuple[str, str, str, int | None, str, str]
"""Language, tier, intervention, depth, direction and metric."""


def sweep_marks(frame: pd.DataFrame) -> dict[MarkKey, Mark]:
    """Return what is published of a sweep's numbers; the first where papers print two.

    Parameters
    ----------
    frame : pandas.DataFrame
        Of a sweep.
    """
    if not is_published(str(frame["tower"].iloc[0]), str(frame["corpus"].iloc[0])):
        return {}
    found: dict[MarkKey, Mark] = {}
    for row in match_published(frame).rows:
        key = tuple(row[name] for name in ("language", "tier", "intervention", "depth", "direction", "metric"))
        where = f"{row['paper']}, table {row['table']}" if row["table"] not in ("", "text") else str(row["paper"])
        found.setdefault(key, Mark(row["published"], row["difference"], row["inside"], where))
    return found


def is_published(tower: str, corpus: str) -> bool:
    """Whether any paper has a number of this tower on this benchmark."""
    frame = load_published()
    return bool(((frame["tower"] == tower_name(tower)) & (frame["corpus"] == corpus_name(corpus))).any())


def _key(row: dict[str, Any]) -> Key:
    tier = row["tier"] if row["language"] == "mean" else ""
    source = frozenset(row["source"].split("+")) if row["source"] else frozenset()
    return (
        row["tower"], row["corpus"], row["language"], tier, row["country"], row["intervention"], source, row["depth"],
        row["metric"],
    )  # fmt: skip


def _published(paper: str | None) -> dict[Key, list[dict[str, Any]]]:
    frame = load_published(paper)
    found: dict[Key, list[dict[str, Any]]] = {}
    for raw in frame[frame["tower"].ne("") & frame["corpus"].ne("") & frame["value"].notna()].to_dict("records"):
        row: dict[str, Any] = {str(key): value for key, value in raw.items()}
        row["intervention"] = row["intervention"] or "none"
        row["depth"] = None if pd.isna(row["depth"]) else int(row["depth"])
        row["scale"] = 100.0 if row["unit"] == "fraction" and row["metric"].startswith(_IN_PERCENT) else 1.0
        found.setdefault(_key(row), []).append(row)
    return found


def _run_rows(frame: pd.DataFrame) -> Iterable[dict[str, Any]]:
    texts = ("language", "tier", "country", "intervention", "source", "direction", "by", "P rule")
    for raw in frame.to_dict("records"):
        row: dict[str, Any] = {str(key): value for key, value in raw.items()}
        row |= {name: "" if _missing(row.get(name)) else str(row[name]) for name in texts}
        if row["by"] not in ("", "all", "country") or _missing(row["value"]):
            continue
        row["given"] = {name: str(row[name]) for name in ("tower", "corpus")}
        row |= {"tower": tower_name(str(row["tower"])), "corpus": corpus_name(str(row["corpus"]))}
        if row["country"]:
            # Where countries are told apart, their language is no key of its own.
            row |= {"country": country_name(row["country"]), "language": ""}
        row["intervention"] = row["intervention"] or "none"
        # Controls read rows of a language too, but papers name a source only where content comes from it.
        row["source"] = row["source"] if row["intervention"].split(" ")[0] in ("parallel", "mean") else ""
        row["depth"] = None if _missing(row.get("depth")) else int(row["depth"])
        row["metric"] = str(row["metric"])
        yield row


def _partial_tiers(frame: pd.DataFrame) -> list[str]:
    """Tiers whose mean is taken over other languages than the paper's (S3-07, S3-08)."""
    if not {"tier", "language"} <= set(frame.columns):
        return []
    full: dict[str, set[str]] = {}
    for language, tier in tiers("s3").items():
        full.setdefault(tier, set()).add(language)
    languages, names = frame["language"].astype(str), frame["tier"].astype(str)
    means = dict.fromkeys(names[languages == "mean"])
    return [tier for tier in means if set(languages[(names == tier) & (languages != "mean")]) != full.get(tier)]


def _missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def _compared(row: dict[str, Any], other: dict[str, Any], note: str) -> dict[str, Any]:
    published = other["scale"] * other["value"]
    low, high = (None if _missing(row.get(end)) else float(row[end]) for end in ("low", "high"))
    slack = other["scale"] * 0.5 * 10.0 ** -len(other["text"].partition(".")[2]) * (1 + 1e-9)
    inside = None if low is None or high is None else low - slack <= published <= high + slack
    notes = [note] if note else []
    if row["direction"] and not other["direction"]:
        notes.append("the paper does not name the direction of this number")
    return {
        **{name: row.get(name) for name in COLUMNS if name in row},
        "tower": row["given"]["tower"],
        "corpus": row["given"]["corpus"],
        "value": float(row["value"]),
        "low": low,
        "high": high,
        "n": None if _missing(row.get("n")) else int(row["n"]),
        "published": published,
        "printed": other["text"],
        "unit": "percent" if other["scale"] == 100 else other["unit"],
        "difference": float(row["value"]) - published,
        "inside": inside,
        "paper": other["paper"],
        "table": other["table"],
        "note": "; ".join(notes),
    }
