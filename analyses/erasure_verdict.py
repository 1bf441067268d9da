"""The verdict on the language direction: symptom, part of the gap, or in use (S3-40).

The rule reads an audit. First the eraser must have done what it claims: a linear one has to bring every linear
attacker to chance, and one that claims more has to beat a fresh attacker that is not linear. Otherwise nothing
follows from it and the verdict is inconclusive. Then retrieval decides. A tier may move as far as the same number
of random directions moves it, or by a small published size either way. If no tier moves further, the language
was a symptom. If one gains more, the language was in its way; if one loses more, retrieval was using what was
erased.
"""

from dataclasses import dataclass
from typing import Any

from analyses.erasure import BEFORE, PLACEBO, ErasureAudit
from workbench.errors import InputError, suggest
from workbench.retrieval import Direction


@dataclass(frozen=True)
class ErasureThresholds:
    """Where the rule draws its lines.

    Attributes
    ----------
    chance_margin : float
        Points from chance within which a linear attacker has failed.
    fresh_sds : float
        Standard deviations above chance within which a fresh attacker that is not linear has failed (AMB-20).
    band_sds : float
        Half-width of the placebo's band, in standard deviations over draws around their mean.
    lowest_tier, any_tier : float
        Points by which the lowest tier, and any other, may move either way, whatever the band; the published
        sizes are 1.5 and 2.2. At 0 no change and the band are all that is allowed.
    """

    chance_margin: float = 3.0
    fresh_sds: float = 3.0
    band_sds: float = 2.0
    lowest_tier: float = 1.5
    any_tier: float = 2.2


@dataclass(frozen=True)
class ErasureVerdict:
    """What follows from one eraser.

    Attributes
    ----------
    kind : {"symptom", "contributes", "in use", "inconclusive"}
    sentence : str
    eraser : str
    tiers : dict of str to dict
        By tier: its score ``before``, ``change`` with ``low`` and ``high``, ``placebo`` and ``placebo sd``, and
        ``allowed low`` to ``allowed high``, how far it may move.
    attacks : dict of str to dict
        By attacker: ``before``, ``after``, ``chance``, ``sd`` and whether it ``failed``.
    """

    kind: str
    sentence: str
    eraser: str
    tiers: dict[str, dict[str, float]]
    attacks: dict[str, dict[str, Any]]


def judge_erasure(
    audit: ErasureAudit,
    eraser: str = "LEACE",
    *,
    direction: Direction = "i2t",
    thresholds: ErasureThresholds | None = None,
) -> ErasureVerdict:
    """Read the verdict on one eraser off an audit.

    Parameters
    ----------
    audit : ErasureAudit
    eraser : str
        Its label in the audit.
    direction : {"i2t", "t2i"}
    thresholds : ErasureThresholds, optional

    Raises
    ------
    InputError
        If the audit has no such eraser, or none of its languages has a tier.
    """
    if eraser not in audit.fitted:
        raise InputError(
            f"The audit has no eraser {eraser!r}.{suggest(eraser, audit.fitted)} It has: {', '.join(audit.fitted)}."
        )
    limits = thresholds or ErasureThresholds()
    attacks = _attacks(audit, eraser, limits)
    tiers = _tiers(audit, eraser, direction, limits)
    lowest = min(tiers, key=lambda tier: tiers[tier]["before"])
    kind, end = _judge(audit, eraser, attacks, tiers, lowest)
    first = next(iter(attacks.values()))
    tower = audit.retrieval["tower"].iloc[0] or "these embeddings"
    rank = f" (rank {audit.placebo_rank[eraser]})" if hasattr(audit.fitted[eraser], "right_") else ""
    metric = _metric(audit)
    read = f"from {first['before']:.1f} to {first['after']:.1f} % on held-out images (chance {first['chance']:.1f} %)"
    sentence = (
        f"{kind.capitalize()}: on {tower}, {eraser}{rank} takes a linear classifier of the language "
        f"({next(iter(attacks))}) {read}, and "
        f"the {lowest} mean of {direction} {metric} moves by {_signed(tiers[lowest])} points{end}"
    )
    return ErasureVerdict(kind, sentence, eraser, tiers, attacks)


def _attacks(audit: ErasureAudit, eraser: str, limits: ErasureThresholds) -> dict[str, dict[str, Any]]:
    found = {}
    before = audit.attacks[audit.attacks["eraser"] == BEFORE].set_index("attacker")["accuracy"]
    own = audit.attacks[audit.attacks["eraser"] == eraser]
    for row in own.sort_values("linear", ascending=False, kind="stable").to_dict("records"):
        above = row["accuracy"] - row["chance"]
        failed = abs(above) <= limits.chance_margin if row["linear"] else above <= limits.fresh_sds * row["sd"]
        found[row["attacker"]] = {
            "before": float(before[row["attacker"]]),
            "after": row["accuracy"],
            "chance": row["chance"],
            "sd": row["sd"],
            "linear": row["linear"],
            "failed": bool(failed),
        }
    return found


def _tiers(audit: ErasureAudit, eraser: str, direction: str, limits: ErasureThresholds) -> dict[str, dict[str, float]]:
    metric = _metric(audit)
    means = audit.retrieval[(audit.retrieval["language"] == "mean") & (audit.retrieval["direction"] == direction)]
    if means.empty:
        raise InputError(
            f"None of {', '.join(audit.languages)} has a tier in the map {audit.retrieval['tier_map'].iloc[0]!r}, and "
            "the verdict is about tiers. Give another tier map."
        )
    placebo = f"{PLACEBO} {audit.placebo_rank[eraser]}"
    found: dict[str, dict[str, float]] = {}
    for tier, rows in means.groupby("tier", sort=False):
        frozen = rows[(rows["eraser"] == BEFORE)].iloc[0]
        moved = rows[rows["metric"] == f"change {metric}"]
        own = moved[moved["eraser"] == eraser].iloc[0]
        random = moved[(moved["eraser"] == placebo) & moved["draw"].isna()].iloc[0]
        found[str(tier)] = {
            "before": float(frozen["value"]), "change": float(own["value"]), "low": float(own["low"]),
            "high": float(own["high"]), "placebo": float(random["value"]), "placebo sd": float(random["sd"]),
        }  # fmt: skip
    lowest = min(found, key=lambda tier: found[tier]["before"])
    for tier, numbers in found.items():
        size = limits.lowest_tier if tier == lowest else limits.any_tier
        width = limits.band_sds * numbers["placebo sd"]
        numbers["allowed low"] = min(-size, numbers["placebo"] - width)
        numbers["allowed high"] = max(size, numbers["placebo"] + width)
    return found


def _judge(
    audit: ErasureAudit, eraser: str, attacks: dict[str, dict], tiers: dict[str, dict[str, float]], lowest: str
) -> tuple[str, str]:
    nonlinear = audit.fitted[eraser].guards == "nonlinear"
    standing = [name for name, found in attacks.items() if not found["failed"] and (found["linear"] or nonlinear)]
    if standing:
        left = ", ".join(f"{name} {attacks[name]['after']:.1f} %" for name in standing)
        return "inconclusive", f", but the language is still read ({left}), so nothing follows."
    if nonlinear and all(found["linear"] for found in attacks.values()):
        return "inconclusive", ", but no attacker that is not linear was tried on it."
    n = audit.placebo_rank[eraser]
    worst = min(tiers, key=lambda tier: tiers[tier]["change"] - tiers[tier]["allowed low"])
    best = max(tiers, key=lambda tier: tiers[tier]["change"] - tiers[tier]["allowed high"])
    # An interval that does not exclude none names nothing, however far the value lies.
    if tiers[worst]["change"] < tiers[worst]["allowed low"] and tiers[worst]["high"] < 0:
        return "in use", (
            f"; {_of(worst, lowest)} loses more than {n} random directions cost it ({_placebo(tiers[worst])}"
            f"{_own(tiers, worst, lowest)}), so retrieval uses what was erased."
        )
    if tiers[best]["change"] > tiers[best]["allowed high"] and tiers[best]["low"] > 0:
        return "contributes", (
            f"; {_of(best, lowest)} gains, which {n} random directions don't explain ({_placebo(tiers[best])}"
            f"{_own(tiers, best, lowest)}), so the language was in its way."
        )
    for tier in (worst, best):
        if not tiers[tier]["allowed low"] <= tiers[tier]["change"] <= tiers[tier]["allowed high"]:
            return "inconclusive", (
                f"; {_of(tier, lowest)} moves further than {n} random directions ({_placebo(tiers[tier])}"
                f"{_own(tiers, tier, lowest)}), but its interval does not exclude none. Take more images."
            )
    return "symptom", f", no further than {n} random directions or the thresholds allow ({_placebo(tiers[lowest])})."


def _of(tier: str, lowest: str) -> str:
    return "it" if tier == lowest else f"the {tier} mean"


def _own(tiers: dict[str, dict[str, float]], tier: str, lowest: str) -> str:
    return "" if tier == lowest else f"; itself {_signed(tiers[tier])}"


def _placebo(found: dict[str, float]) -> str:
    return f"{found['placebo']:+.1f} ± {found['placebo sd']:.1f}"


def _metric(audit: ErasureAudit) -> str:
    return str(audit.retrieval["metric"].iloc[0])


def _signed(found: dict[str, float]) -> str:
    return f"{found['change']:+.1f} [{found['low']:+.1f}, {found['high']:+.1f}]"
