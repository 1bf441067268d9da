"""The few numbers of a study of geometry or erasure that papers print, as one tidy table.

A study's figures show every depth, pair and eraser. What a text quotes are single numbers, such as CKA between the
tiers at the last depth. They stand here under the names by which :mod:`analyses.published_match` knows them, with what
decides whether two of them are of the same thing: languages, images, depth.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.base import Analysis
from probes.cka import tier_means
from probes.divergence import tier_gap

if TYPE_CHECKING:
    from analyses.erasure_run import ErasureStudy
    from analyses.geometry_run import Geometry

NAME = "key-numbers"
COLUMNS = [
    "tower", "corpus", "gallery", "protocol", "languages", "language", "tier", "intervention", "depth", "direction",
    "metric", "value", "low", "high", "n", "classes", "seed",
]  # fmt: skip


def geometry_numbers(found: "Geometry", *, resamples: int = 1000) -> Analysis:
    """Return the numbers that papers print of geometry: CKA, divergence, sensitivity, cosine with centroids.

    CKA between tiers is biased here, as in papers that say no more than "linear CKA"; the curves have both.

    Parameters
    ----------
    found : Geometry
    resamples : int
        Of the bootstrap.
    """
    last, seed = found.cka.depths[-1], found.cka.seed
    every = "+".join(found.tiers)
    members = {tier: [code for code, own in found.tiers.items() if own == tier] for tier in (found.high, found.low)}
    rows: list[dict[str, Any]] = []
    for mean in tier_means(found.cka, found.tiers, "biased"):
        # The better tier first, as papers write it, in whatever order the languages came.
        name = "–".join(sorted(mean.pair, key=lambda tier: tier != found.high))
        ends = float(mean.value[-1]), float(mean.low[-1]), float(mean.high[-1])
        rows.append({"languages": every, "depth": last, "metric": f"CKA {name}", "ends": ends})
    for distance, divergence in found.divergence.items():
        gap = tier_gap(divergence, found.tiers, found.low, found.high, resamples=resamples)
        ends = tuple(float(part[-1]) for part in gap)
        suffix = "" if distance == "cosine" else f", {distance}"
        metric = f"divergence gap {found.low} − {found.high}{suffix}"
        rows.append({"languages": every, "depth": last, "metric": metric, "ends": ends})
    summary = found.sensitivity.summary(resamples=resamples)
    for place, code in enumerate(found.sensitivity.languages):
        ends = tuple(float(part[place]) for part in summary.mean)
        rows.append({"language": code, "depth": found.depth, "metric": "sensitivity", "ends": ends})
        top = float(summary.maximum[place])
        rows.append(
            {"language": code, "depth": found.depth, "metric": "largest sensitivity", "ends": (top, None, None)}
        )
    overall = float(np.nanmean(summary.mean[0])), None, None
    rows.append({"languages": every, "language": "all", "depth": found.depth, "metric": "sensitivity", "ends": overall})
    for tier, centroid in found.centroids.items():
        for name, own in centroid.estimates(resamples=resamples, seed=seed).items():
            metric = "centroid minus mean cosine" if name == "difference" else f"{name} cosine"
            where = {"languages": "+".join(members[tier]), "language": "mean", "tier": tier}
            rows.append({**where, "metric": metric, "ends": tuple(float(part) for part in own)})
    fixed = {"tower": found.tower, "corpus": found.corpus, "n": found.cka.n, "seed": seed}
    return _analysis(rows, fixed, f"geometry of {found.subject}")


def erasure_numbers(study: "ErasureStudy") -> Analysis:
    """Return the numbers that papers print of erasure and averaging.

    Parameters
    ----------
    study : ErasureStudy
    """
    audit, scores = study.audit, study.classifiers
    rows: list[dict[str, Any]] = []
    for score in scores.scores:
        if score.classifier == "logistic":
            ends = score.accuracy, score.low, score.high
            rows.append({"language": "all", "metric": "language accuracy", "ends": ends, "n": scores.test_images,
                         "classes": len(scores.classes)})  # fmt: skip
    attacks = audit.attacks
    linear = attacks[(attacks["attacker"] == "logistic") & attacks["draw"].isna() & attacks["eraser"].ne("none")]
    rows += [
        {"language": "all", "intervention": row["eraser"], "metric": "language accuracy", "n": int(row["images"]),
         "classes": int(row["classes"]), "ends": (row["accuracy"], row["low"], row["high"])}
        for row in linear.to_dict("records")
    ]  # fmt: skip
    frame = audit.retrieval
    means = frame[(frame["language"] == "mean") & frame["draw"].isna() & frame["metric"].str.startswith("change ")]
    members = _members(frame)
    for row in means.to_dict("records"):
        ends = sorted((abs(row["low"]), abs(row["high"])))
        ends[0] = 0.0 if row["low"] <= 0 <= row["high"] else ends[0]
        head = {"languages": "+".join(members[row["tier"]]), "language": "mean", "tier": row["tier"]}
        head |= {"intervention": row["eraser"], "direction": row["direction"], "n": int(row["n"])}
        rows.append({**head, "metric": row["metric"], "ends": (row["value"], row["low"], row["high"])})
        rows.append({**head, "metric": f"size of {row['metric']}", "ends": (abs(row["value"]), *ends)})
    if study.gains is not None:
        gains = study.gains.frame
        shown = gains[gains["text"] == "average"]
        for row in shown.to_dict("records"):
            head = {"languages": row["languages"], "language": "average", "tier": row["pool"]}
            head |= {"direction": row["direction"], "n": int(row["n"])}
            rows.append({**head, "metric": row["metric"], "ends": (row["value"], row["low"], row["high"])})
    seed = int(frame["seed"].iloc[0])
    return _analysis(rows, {"tower": study.tower, "corpus": study.corpus, "seed": seed}, f"erasure on {study.corpus}")


def _members(frame: pd.DataFrame) -> Mapping[str, Sequence[str]]:
    own = frame[~frame["language"].isin(["mean", "gap"])]
    return {str(tier): list(dict.fromkeys(part["language"])) for tier, part in own.groupby("tier")}


def _analysis(rows: list[dict[str, Any]], fixed: dict[str, Any], what: str) -> Analysis:
    records = []
    for row in rows:
        value, low, high = row.pop("ends")
        records.append({"gallery": "images", "protocol": "first", "intervention": "none", **fixed, **row,
                        "value": value, "low": low, "high": high})  # fmt: skip
    table = pd.DataFrame(records, columns=COLUMNS).astype({"depth": "Int64", "n": "Int64", "classes": "Int64"})
    caption = (
        f"The numbers of the {what} that a text would quote, one a row; intervals are those of the figures. "
        "`workbench compare --published` lays them beside what papers print."
    )
    first = records[0]
    finding = f"{len(table)} numbers, the first of them {first['metric']} {first['value']:.3g}."
    return Analysis(NAME, f"Key numbers, {what} ({len(table)} numbers)", table, None, caption, finding)
