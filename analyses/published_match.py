"""Which published number is of the same thing as a number of a run.

The same tower, benchmark, language or tier or country, intervention, source, depth and metric, by the name
tables of ``analyses/published/``; and the same gallery, pool of candidates, captions, tiers, number of images and of
classes, where both say what theirs are. What differs in one of these is named and not compared. Published values come
without intervals, and sometimes without the direction or the images that they were measured on; each match says so.
"""

import math
import re
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
        published value, as far as it is printed, lies within the run's interval, None where there is none. Where the
        paper prints a range or a bound, ``published`` is NaN, ``difference`` the way to it, and ``inside`` whether the
        run's value lies in it.
    partial : list of str
        Tiers whose mean is over other languages than the paper's; these means are not matched.
    apart : dict of str to int
        What differs between run and paper, and how many published values were left out for it.
    published : list of tuple of str
        Tower, benchmark and metric of all that is published, in the order of the tables.
    """

    rows: list[dict[str, Any]]
    partial: list[str]
    apart: dict[str, int]
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
    protocols = {row["file"]: row for row in published_rows("protocols.csv")}
    rows: list[dict[str, Any]] = []
    apart: dict[str, set[tuple[str, str]]] = {}
    partial = _partial_tiers(frame)
    for row in _run_rows(frame):
        if row["language"] in ("mean", "gap") and set(row["tier"].split(" − ")) & set(partial):
            continue
        # A published patch without a depth is of none of a run's depths; that there is one is worth saying.
        for other in [*published.get(_key(row), []), *_without_depth(row, published)]:
            if other["direction"] and row["direction"] and other["direction"] != row["direction"]:
                continue
            reasons = _differences(row, other, protocols.get(other["file"], {}))
            for reason in reasons:
                apart.setdefault(reason, set()).add((other["file"], f"{other['item']} {other['text']}"))
            if not reasons:
                rows.append(_compared(row, other, notes[other["file"]]))
    counts = {reason: len(values) for reason, values in apart.items()}
    return Matches(rows, partial, counts, list(dict.fromkeys((key[0], key[1], key[-1]) for key in published)))


def _without_depth(row: dict[str, Any], published: dict[Key, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    if row["depth"] is None:
        return []
    return [other for other in published.get(_key({**row, "depth": None}), []) if other["apart"]]


def _differences(row: dict[str, Any], other: dict[str, Any], protocol: dict[str, str]) -> list[str]:
    """Say in what the two were not measured alike; what one of them does not say can't differ."""
    if other["apart"]:
        return [other["apart"]]
    found = [
        f"{words} {row[name]!r} here and {protocol[name]!r} in the paper"
        for name, words in (("gallery", "the gallery is"), ("pool", "the pool of candidates is"),
                            ("protocol", "the captions are"))
        if row[name] and protocol.get(name) and row[name] != protocol[name]
    ]  # fmt: skip
    for name in ("n", "classes"):
        if not (_missing(row[name]) or _missing(other[name])) and int(row[name]) != int(other[name]):
            found.append(f"{name} is {int(row[name]):,} here and {int(other[name]):,} in the paper")
    if row["languages"] and protocol.get("pool") == "language":
        there = _tier_members("s3")
        wanted = set().union(*(there.get(tier, set()) for tier in row["tier"].split(" − ") if row["tier"]))
        if set(row["languages"].split("+")) != (wanted or set().union(*there.values())):
            found.append(f"{row['metric']} is over {row['languages'].replace('+', ', ')} here and others in the paper")
    if protocol.get("pool") == "mixed":
        tiers_there = tiers(protocol["tier_map"])
        theirs = {"languages": set(tiers_there)}
        theirs["low languages"] = {language for language, tier in tiers_there.items() if tier == "Low"}
        for name, words in (("languages", "the pool has"), ("low languages", "the low-resource group has")):
            if row[name] and set(row[name].split("+")) != theirs[name]:
                own = len(set(row[name].split("+")))
                same = " others" if own == len(theirs[name]) else ""
                found.append(f"{words} {own} languages here and {len(theirs[name])}{same} in the paper")
        if not row["low languages"] and row["tier_map"] not in ("", protocol["tier_map"]):
            found.append(f"the tier map is {row['tier_map']!r} here and {protocol['tier_map']!r} in the paper")
        if row["P rule"] not in ("", "half") and "KL@" in row["metric"]:
            found.append("P of the divergences is not the published ½ (prior='half')")
    return found


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
        if math.isnan(row["published"]):
            continue  # a range is no point of a figure
        key = tuple(row[name] for name in ("language", "tier", "intervention", "depth", "direction", "metric"))
        where = f"{row['paper']}, table {row['table']}" if row["table"] not in ("", "text") else str(row["paper"])
        found.setdefault(key, Mark(row["published"], row["difference"], row["inside"], where))
    return found


def is_published(tower: str, corpus: str) -> bool:
    """Whether any paper has a number of this tower on this benchmark."""
    frame = load_published()
    return bool(((frame["tower"] == tower_name(tower)) & (frame["corpus"] == corpus_name(corpus))).any())


def _key(row: dict[str, Any]) -> Key:
    tier = row["tier"] if row["language"] in ("mean", "gap", "average") else ""
    source = frozenset(row["source"].split("+")) if row["source"] else frozenset()
    return (
        row["tower"], row["corpus"], row["language"], tier, row["country"], row["intervention"], source, row["depth"],
        row["metric"],
    )  # fmt: skip


def _published(paper: str | None) -> dict[Key, list[dict[str, Any]]]:
    frame = load_published(paper)
    found: dict[Key, list[dict[str, Any]]] = {}
    numbers = frame[["value", "low", "high"]].notna().any(axis=1)
    for raw in frame[frame["tower"].ne("") & frame["corpus"].ne("") & numbers].to_dict("records"):
        row: dict[str, Any] = {str(key): value for key, value in raw.items()}
        row["intervention"] = row["intervention"] or "none"
        row["depth"] = None if pd.isna(row["depth"]) else int(row["depth"])
        row["scale"] = 100.0 if row["unit"] == "fraction" and row["metric"].startswith(_IN_PERCENT) else 1.0
        found.setdefault(_key(row), []).append(row)
    return found


def _run_rows(frame: pd.DataFrame) -> Iterable[dict[str, Any]]:
    texts = (
        "language", "tier", "country", "intervention", "source", "direction", "by", "P rule", "gallery", "pool",
        "protocol", "tier_map", "languages", "low languages",
    )  # fmt: skip
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
        row |= {name: row.get(name) for name in ("n", "classes")}
        row["metric"] = str(row["metric"])
        yield row


def _partial_tiers(frame: pd.DataFrame) -> list[str]:
    """Tiers whose mean is taken over other languages than the paper's (S3-07, S3-08)."""
    if not {"tier", "language"} <= set(frame.columns):
        return []
    full = _tier_members("s3")
    languages, names = frame["language"].astype(str), frame["tier"].astype(str)
    own = frame.get("languages")
    # Rows that name their languages are judged by these.
    means = dict.fromkeys(names[(languages == "mean") & (True if own is None else own.isna() | own.eq(""))])
    return [tier for tier in means if set(languages[(names == tier) & (languages != "mean")]) != full.get(tier)]


def _tier_members(tier_map: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for language, tier in tiers(tier_map).items():
        found.setdefault(tier, set()).add(language)
    return found


def _missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def half_digit(text: str) -> float:
    """Return half a unit of the last printed place: 0.05 for ``"22.1"``, 0.5 for ``"30+"``."""
    places = [len(found[1]) for found in re.finditer(r"\d+(?:\.(\d+))?", text) if found[1]]
    return 0.5 * 10.0 ** -max(places, default=0)


def _compared(row: dict[str, Any], other: dict[str, Any], note: str) -> dict[str, Any]:
    published = other["scale"] * other["value"]
    value = float(row["value"])
    low, high = (None if _missing(row.get(end)) else float(row[end]) for end in ("low", "high"))
    # The last factor: 22.1 and 0.05 are no binary fractions.
    slack = other["scale"] * half_digit(other["text"]) * (1 + 1e-9)
    difference, inside = value - published, None
    if math.isnan(published):
        bottom, top = (other["scale"] * other[end] for end in ("low", "high"))
        bottom, top = -math.inf if math.isnan(bottom) else bottom, math.inf if math.isnan(top) else top
        difference = value - min(max(value, bottom), top)
        inside = abs(difference) <= slack
    elif low is not None and high is not None:
        inside = low - slack <= published <= high + slack
    notes = [text for text in (note, other["note"]) if text]
    if row["direction"] and not other["direction"]:
        notes.append("the paper does not name the direction of this number")
    return {
        **{name: row.get(name) for name in COLUMNS if name in row},
        "tower": row["given"]["tower"],
        "corpus": row["given"]["corpus"],
        "value": value,
        "low": low,
        "high": high,
        "n": None if _missing(row.get("n")) else int(row["n"]),
        "published": published,
        "printed": other["text"],
        "unit": "percent" if other["scale"] == 100 else other["unit"],
        "difference": difference,
        "inside": inside,
        "paper": other["paper"],
        "table": other["table"],
        "note": "; ".join(notes),
    }
