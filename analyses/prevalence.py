"""Prevalence bias: whether images prefer captions in well-resourced languages (S0-10 to S0-18).

One number can't say it. The table therefore holds, for every depth k, LBKL and DLBKL with their intervals,
the line of pure chance and the ceiling, and beside them the signed share of low-resource captions: LBKL of
0.1 may be a tower that hides low-resource languages, one that prefers them, or nothing but few captions.
``Acc@5`` and ``NDCG@10`` stand below, since an even list of wrong captions is no virtue (S0-17).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from analyses.base import Analysis
from analyses.mixed_pool import MixedRanking
from analyses.published_values import corpus_name, load_published
from probes.prevalence_bias import (
    DEPTHS,
    SamplingNull,
    ceiling,
    dlbkl,
    language_kl,
    language_kl_floor,
    lbkl,
    low_share,
    sampling_null,
)
from workbench.errors import InputError
from workbench.languages import tier_map as resolve_tier_map
from workbench.retrieval import PERCENT, Bootstrap

LOW_TIERS = ("Low", "LRL")
"""Names of tiers that are the low-resource group unless others are named."""

QUALITY = ("Acc@1", "Acc@5", "NDCG@10", "NDCG-list@10")

Prior = Literal["half", "pool"]
TierMap = str | Path | Mapping[str, str]

UNINFORMATIVE = "uninformative: one caption is of one group, whatever the tower"


def low_group(
    ranking: MixedRanking, tier_map: TierMap = "s0", low_tiers: Iterable[str] | None = None
) -> tuple[str, np.ndarray]:
    """Return the name of the tier map, and whether each language of the pool is in the low-resource group.

    Raises
    ------
    InputError
        If a language of the pool has no tier, or one of the two groups is empty.
    """
    name, tiers = resolve_tier_map(tier_map)
    lacking = [language for language in ranking.languages if language not in tiers]
    if lacking:
        raise InputError(
            f"The tier map {name!r} has no tier for {', '.join(lacking)}. Leave these languages out of the pool, or "
            "give a map that has them."
        )
    chosen = set(LOW_TIERS if low_tiers is None else low_tiers)
    return name, ranking.in_group(language for language, tier in tiers.items() if tier in chosen)


def prevalence_bias(
    rankings: Sequence[MixedRanking],
    *,
    tier_map: TierMap = "s0",
    low_tiers: Iterable[str] | None = None,
    depths: Iterable[int] = DEPTHS,
    prior: Prior | float = "half",
    seed: int = 0,
    resamples: int = 1000,
) -> Analysis:
    """Lay LBKL, DLBKL and the share of low-resource captions of some towers over the depth of the list.

    Parameters
    ----------
    rankings : sequence of MixedRanking
        One a tower, all of the same images and pool.
    tier_map, low_tiers
        Which languages are low-resource.
    depths : iterable of int
        Depths k; those beyond the lists are left out, and the caption says so.
    prior : {"half", "pool"} or float
    seed, resamples : int
        Of the bootstrap over images, and of the line of chance.

    Returns
    -------
    Analysis
        A row a number: tower, corpus, tier_map, language (``"all"``), direction, protocol, k, metric, value,
        low, high, n, seed, P and the rule that gave it, then ``null`` with its two ends (what a retriever
        scores that can't see languages), ``ceiling`` and ``note``.
    """
    from analyses.prevalence_figure import curves

    if not rankings:
        raise InputError("No ranking came. mixed_ranking makes one of a tower and a corpus.")
    _check_alike(rankings)
    name, low = low_group(rankings[0], tier_map, low_tiers)
    asked = sorted(set(depths))
    kept = [k for k in asked if k <= rankings[0].depth]
    if not kept or kept[0] < 1:
        raise InputError(
            f"Depths {asked} came for lists of {rankings[0].depth} captions; use numbers from 1 to that length."
        )
    low = np.asarray(low)
    pool = float(low[rankings[0].language].mean())
    rule, p = _prior(prior, pool)
    nulls = _nulls(kept, pool, rankings[0].n, p, seed)
    bootstrap = Bootstrap(rankings[0].n, resamples, seed)
    rows = [row for ranking in rankings for row in _rows(ranking, low, kept, p, nulls, bootstrap)]
    first = rankings[0]
    fixed = {
        "corpus": first.corpus, "gallery": "images", "tier_map": name, "languages": "+".join(first.languages),
        "low languages": "+".join(code for code, is_low in zip(first.languages, low, strict=True) if is_low),
        "language": "all", "pool": "mixed", "direction": "i2t",
    }  # fmt: skip
    table = pd.DataFrame([{**fixed, **row, "P": p, "P rule": rule} for row in rows])[_COLUMNS]
    n = f"n = {first.n:,} images, {len(first.language):,} captions in {len(first.languages)} languages"
    title = f"Prevalence bias by depth of the list ({n})"
    split = ", ".join(f"{ranking.tower} {ranking.split_ties(low):,}" for ranking in rankings)
    caption = _finding(table, kept) + (
        f"Left: LBKL and DLBKL (natural log, P = {p:.4g} for the low-resource group, {_RULES.get(rule, rule)}; a share "
        "of 0 counts as 1e-9). Both are unsigned. Grey: where 95 of 100 retrievers fall that can't see languages, for "
        f"a pool with {100 * pool:.1f} % low-resource captions; a value there can't be told from chance. At k = 1 a "
        f"list is of one group, whatever the tower, so that value says nothing; {ceiling(p):.4f} is the ceiling. "
        "Right: the share of low-resource captions, which has the sign that LBKL lacks: below the grey line they are "
        "put back. Bands are 95 % intervals of a bootstrap over images. Low-resource is "
        f"{_names(first, low)} (tier map {name!r}). Captions of equal similarity stand in {_TIES[first.ties]}; the "
        f"number of images in whose lists this decides which group stands first somewhere: {split}."
    )
    if len(kept) < len(asked):
        caption += f" Depths beyond the lists were left out: {', '.join(str(k) for k in asked if k not in kept)}."
    return Analysis("prevalence-bias", title, table, curves(table, [r.tower for r in rankings], title), caption)


def _finding(table: pd.DataFrame, depths: Sequence[int]) -> str:
    """Say what came out, in a sentence a tower, at ten captions or the nearest depth to it."""
    k = min(depths, key=lambda depth: abs(depth - 10))
    sentences = []
    for tower, own in table.groupby("tower", sort=False):
        rows = {row["metric"]: row for row in own.to_dict("records")}
        share, bias = rows[f"low share@{k}"], rows[f"LBKL@{k}"]
        sentences.append(
            f"{tower}: of the first {k} captions {share['value']:.1f} % [{share['low']:.1f}, {share['high']:.1f}] are in "  # noqa: E501
            f"low-resource languages, of the pool {share['null']:.1f} %; LBKL@{k} is {bias['value']:.3f} "
            f"[{bias['low']:.3f}, {bias['high']:.3f}], where chance alone gives {bias['null']:.3f} "
            f"[{bias['null low']:.3f}, {bias['null high']:.3f}]. "
        )
    return "".join(sentences)


_RULES = {"half": "as published", "pool": "its share of the pool"}
_TIES = {"random": "a random order with a seed", "index": "the order of the pool"}
_COLUMNS = [
    "tower", "corpus", "gallery", "tier_map", "languages", "low languages", "language", "pool", "direction", "protocol",
    "k", "metric", "value", "low", "high", "n", "seed", "P", "P rule", "null", "null low", "null high", "ceiling",
    "note",
]  # fmt: skip

_Nulls = dict[tuple[str, int], SamplingNull]


def _check_alike(rankings: Sequence[MixedRanking]) -> None:
    first = rankings[0]
    names = [ranking.tower for ranking in rankings]
    if len(set(names)) < len(names):
        raise InputError(f"The towers {', '.join(names)} came; each may come once.")
    for other in rankings[1:]:
        for what in ("corpus", "languages", "images", "texts", "protocol", "depth", "ties"):
            if getattr(other, what) != getattr(first, what):
                raise InputError(
                    f"The rankings of {first.tower!r} and {other.tower!r} differ in their {what}; only lists over the "
                    "same images and pool can be compared."
                )


def _prior(prior: Prior | float, pool: float) -> tuple[str, float]:
    if prior == "half":
        return "half", 0.5
    if prior == "pool":
        return "pool", pool
    if isinstance(prior, str):
        raise InputError(f"prior={prior!r} came; it is 'half', 'pool' or a number between 0 and 1.")
    ceiling(prior)  # refuses what is no share
    return "given", float(prior)


def _nulls(depths: Sequence[int], pool: float, n: int, p: float, seed: int) -> _Nulls:
    found: _Nulls = {}
    for k in depths:
        for name, discounted in (("LBKL", False), ("DLBKL", True)):
            found[name, k] = sampling_null(k, pool, n, discounted=discounted, prior=p, seed=seed)
        reach = 1.959964 * float(np.sqrt(pool * (1 - pool) / (k * n)))
        found["low share", k] = SamplingNull(100 * pool, 100 * (pool - reach), 100 * (pool + reach), n)
    return found


def _rows(
    ranking: MixedRanking, low: np.ndarray, depths: Sequence[int], p: float, nulls: _Nulls, bootstrap: Bootstrap
) -> Iterable[dict[str, Any]]:
    labels, languages = low[ranking.top_languages], ranking.top_languages
    fixed = {"tower": ranking.tower, "protocol": ranking.protocol, "n": ranking.n, "seed": bootstrap.seed}

    def row(
        metric: str, k: int, scores: np.ndarray, ends: tuple[float, float] | None = None, **more: Any
    ) -> dict[str, Any]:
        if ends is None:
            below, above = bootstrap.interval(bootstrap.means(scores))
        else:
            below, above = bootstrap.mean_interval(scores, ends)
        number = {"value": float(scores.mean()), "low": float(below), "high": float(above)}
        blank = {"null": None, "null low": None, "null high": None, "ceiling": None, "note": ""}
        return {**fixed, "k": k, "metric": f"{metric}@{k}", **number, **blank, **more}

    measures: dict[str, Callable[..., np.ndarray]] = {"LBKL": lbkl, "DLBKL": dlbkl}
    for k in depths:
        for name, measure in measures.items():
            more = {"ceiling": ceiling(p), "note": UNINFORMATIVE if k == 1 else ""}
            yield row(name, k, measure(labels, k, prior=p), **_null(nulls[name, k]), **more)
        # Above 0 where the bias is concentrated at the top of the list (S0-18).
        gap = dlbkl(labels, k, prior=p) - lbkl(labels, k, prior=p)
        yield row("DLBKL minus LBKL", k, gap, note=UNINFORMATIVE if k == 1 else "above 0: more bias at the top")
        share = 100 * low_share(labels, k)
        yield row("low share", k, share, PERCENT, **_null(nulls["low share", k]))
        signed = {key: value - 100 * p for key, value in _null(nulls["low share", k]).items()}
        note = "below 0: low-resource captions are put back"
        yield row("low share minus P", k, share - 100 * p, (-100 * p, 100 - 100 * p), **signed, note=note)
        floor = language_kl_floor(k, len(ranking.languages))
        note = f"over all {len(ranking.languages)} languages, uniform P; its floor at this k is {floor:.4f}"
        if k == 1:
            note = UNINFORMATIVE.replace("group", "language")
        yield row("language KL", k, language_kl(languages, k, len(ranking.languages)), note=note)
    for metric in QUALITY:
        name, k = metric.split("@")
        if int(k) <= ranking.depth:
            note = "ideal order of the list itself, as published" if name == "NDCG-list" else ""
            yield row(name, int(k), ranking.placements.score(metric), PERCENT, note=note)


def _null(null: SamplingNull) -> dict[str, float]:
    return {"null": null.mean, "null low": null.low, "null high": null.high}


def _names(ranking: MixedRanking, low: np.ndarray) -> str:
    return ", ".join(language for language, is_low in zip(ranking.languages, low, strict=True) if is_low)


def accuracy_scatter(
    table: pd.DataFrame | None = None,
    *,
    accuracy: str = "Acc@5",
    bias: str = "DLBKL@10",
    published: bool | None = None,
) -> Analysis:
    """Set accuracy against prevalence bias: good towers stand at the top left (S0-17).

    Parameters
    ----------
    table : pandas.DataFrame, optional
        Of :func:`prevalence_bias`, one tower or more, or several such tables one after the other.
    accuracy, bias : str
        Metrics of the table.
    published : bool, optional
        Draw the published towers too. By default only where the table is of their benchmark, XM3600, or no
        table came: another pool has another line of chance.

    Raises
    ------
    InputError
        If nothing would be drawn, or the table lacks one of the metrics.
    """
    from analyses.prevalence_figure import scatter

    own = pd.DataFrame() if table is None else _pairs(table, accuracy, bias)
    corpora = set(own["corpus"]) if len(own) else set()
    shown = (not corpora or {corpus_name(c) for c in corpora} == {"xm3600"}) if published is None else published
    theirs = _published_pairs(accuracy, bias) if shown else pd.DataFrame()
    both = pd.concat([part for part in (own, theirs) if len(part)], ignore_index=True) if len(own) or shown else own
    if not len(both):
        raise InputError("There is nothing to draw: give the table of prevalence_bias, or published=True.")
    counts = [f"{n:,} images" for n in dict.fromkeys(both.loc[both["n"] > 0, "n"])]
    counts += ["3,600 images of published values"] if len(theirs) else []
    title = f"{accuracy} against {bias} (n = {', '.join(counts)})"
    caption = "".join(
        f"{row['tower']}: {accuracy} {row[accuracy]:.1f} %, {bias} {row[bias]:.3f}. "
        for row in (own.to_dict("records") if len(own) else [])
    )
    caption += (
        f"{accuracy} in percent: whether one of the first captions describes the image, in any language. {bias}: "
        "further left is more even between low-resource languages and the rest, which is worth little without accuracy."
    )
    if len(own):
        caption += (
            f" Filled marks are runs on {', '.join(sorted(corpora))}, with 95 % intervals of a bootstrap over images; "
            "the dotted line is what chance alone scores there, and a tower left of it is as even as can be told."
        )
    if len(theirs):
        caption += " Hollow marks are published values on XM3600 (s0 tables 1 and 5), which have no interval."
        if corpora and {corpus_name(c) for c in corpora} != {"xm3600"}:
            caption += " They are of another pool of captions, so that only their order among themselves can be read."
    return Analysis("accuracy-and-bias", title, both, scatter(both, accuracy, bias, title), caption)


def _pairs(table: pd.DataFrame, accuracy: str, bias: str) -> pd.DataFrame:
    records = []
    for (tower, corpus), own in table.groupby(["tower", "corpus"], sort=False):
        rows = {row["metric"]: row for row in own.to_dict("records")}
        for metric in (accuracy, bias):
            if metric not in rows:
                raise InputError(f"The table has no {metric!r} of {tower!r}. It has: {', '.join(map(str, rows))}.")
        first, second = rows[accuracy], rows[bias]
        records.append(
            {
                "tower": tower, "corpus": corpus, "group": "run",
                accuracy: first["value"], f"{accuracy} low": first["low"], f"{accuracy} high": first["high"],
                bias: second["value"], f"{bias} low": second["low"], f"{bias} high": second["high"],
                "null": second["null"], "n": first["n"],
            }
        )  # fmt: skip
    return pd.DataFrame(records)


def _published_pairs(accuracy: str, bias: str) -> pd.DataFrame:
    frame = load_published("s0")
    frame = frame[(frame["corpus"] == "xm3600") & frame["metric"].isin([accuracy, bias])]
    cells: dict[str, dict[str, Any]] = {}
    for row in frame.to_dict("records"):
        scale = 100.0 if row["unit"] == "fraction" else 1.0
        cell = cells.setdefault(row["tower"], {"tower": row["tower"], "corpus": "xm3600", "n": 0})
        cell[row["metric"]] = scale * row["value"]
        if row["group"]:
            cell["group"] = row["group"]
    whole = [cell for cell in cells.values() if accuracy in cell and bias in cell]
    if not whole:
        known = ", ".join(dict.fromkeys(load_published("s0", 1)["metric"]))
        raise InputError(
            f"No published tower has both {accuracy!r} and {bias!r}. Published: {known}, and LBKL by depth."
        )
    return pd.DataFrame(whole)
