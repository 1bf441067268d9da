"""A verdict in words and in numbers: the sentence, a line for each piece of evidence, and JSON-like values."""

from typing import Any

from analyses.diagnosis.rule import Judge

_PLACES = {
    "output_direction": "a linear language direction in the output embedding",
    "trajectory": "the forward path of the pooled row",
    "input": "the input, before the first block",
}


def sentence_of(judge: Judge, kind: str, faults: tuple[str, ...], onset: tuple[int, int, int] | None) -> str:
    """Return the verdict in one sentence."""
    m, gaps = judge.m, judge.x.gaps
    if kind == "no_gap":
        worst = max(gaps.tier.items(), key=lambda item: item[1].value)
        return (
            f"No gap: on {m.tower} no language of {gaps.worse} trails the {gaps.better} mean by "
            f"{judge.limits.smallest_gap:g} points of R@1 that are told apart from none (mean {worst[0]} gap "
            f"{worst[1]}, {m.n:,} images)."
        )
    if not gaps.found:
        return (
            f"Inconclusive: on {m.tower} no language of {gaps.worse} trails the {gaps.better} mean so far that it is "
            f"told apart from none, but {'; '.join(judge.reasons)}. Take more images."
        )
    direction = max(gaps.directions, key=lambda d: gaps.tier[d].value)
    trail = (
        f"n {m.tower} {', '.join(gaps.languages)} {'trails' if len(gaps.languages) == 1 else 'trail'} the "
        f"{gaps.better} mean; the {gaps.worse} mean by {gaps.tier[direction]} points of {direction} R@1"
    )
    if kind == "inconclusive":
        reasons = "; ".join(dict.fromkeys(judge.reasons)) or "no evidence names its place"
        return f"Inconclusive: o{trail}, and where that comes from stays open: {reasons}."
    places = " and in ".join(_PLACES[fault] for fault in faults)
    parts = []
    if "output_direction" in faults:
        for d, erasure in judge.x.erasure.items():
            if judge.erases(erasure):
                parts.append(
                    f"erasing the language there closes {100 * erasure.share:.0f} % of the {d} gap, and "
                    f"{erasure.rank} random directions do not"
                )
        for d, patch in judge.x.patching.items():
            if judge.leaves_remainder(patch):
                parts.append(f"the row of {m.source!r} after the last block leaves {patch.remainder} points ({d})")
    if "trajectory" in faults or "input" in faults:
        d, patch = next((d, p) for d, p in judge.x.patching.items() if p.share >= judge.limits.rescued_share)
        parts.append(
            f"the row of {m.source!r} put in at depth {patch.depth} closes {100 * patch.share:.0f} % of the distance "
            f"to {m.source!r} ({d}) and no control does"
        )
    if "input" in faults and judge.x.input_loss:
        loss = judge.x.input_loss
        parts.append(f"their tokens alone say {100 * (1 - loss.worse / loss.better):.0f} % less about the image")
    where = ""
    if onset:
        between = f" ({onset[1]} to {onset[2]})" if onset[1] != onset[2] else ""
        where = f", broken before depth {onset[0]}{between}, that is by block {onset[0] - 1}" if onset[0] else ""
    return f"O{trail}, and the gap sits in {places}{where}: {'; '.join(parts)}."


def evidence_lines(judge: Judge) -> list[tuple[str, str]]:
    """Return what was looked at, and what it said."""
    m, x, gaps = judge.m, judge.x, judge.x.gaps
    lines = [
        (
            f"Gap, {direction}",
            f"{gaps.better} mean minus {gaps.worse} mean, no patch: {estimate} points of R@1; trailing: "
            f"{', '.join(gaps.trailing(direction)) or 'none'}.",
        )
        for direction, estimate in gaps.tier.items()
    ]
    for direction, erasure in x.erasure.items():
        lines.append(
            (
                f"Erasure at the output, {direction}",
                f"LEACE (rank {erasure.rank}) moves them by {erasure.lift} points, {100 * erasure.share:.0f} % of the "
                f"gap; {erasure.rank} random directions move them by {erasure.placebo}.",
            )
        )
    for direction, patch in x.patching.items():
        lines.append(
            (
                f"Patch, {m.patch}, {direction}",
                f"at depth {patch.depth} of {m.n_blocks} it moves them by {patch.lift} points, "
                f"{100 * patch.share:.0f} % of the distance to {m.source!r}; half of the most is reached at depth "
                f"{patch.onset} [{patch.onset_low}, {patch.onset_high}]."
                + (f" After the last block it leaves {patch.remainder} points." if patch.remainder else ""),
            )
        )
        lines += [
            (f"Control, {name}, {direction}", f"at the same depth: {value} points.")
            for name, value in patch.controls.items()
        ]
    if x.input_loss:
        loss = x.input_loss
        lines.append(
            (
                "Input",
                f"from the tokens alone the image is found with a mean reciprocal rank of {loss.better:.1f} % in the "
                f"{gaps.better} languages and {loss.worse:.1f} % in these: relative to the loss of R@1, "
                f"{loss.ratio.value:.2f} [{loss.ratio.low:.2f}, {loss.ratio.high:.2f}] of it.",
            )
        )
    return lines


def numbers_of(judge: Judge, faults: tuple[str, ...], onset: tuple[int, int, int] | None) -> dict[str, Any]:
    """Return the evidence as JSON-like values."""
    m, x, gaps = judge.m, judge.x, judge.x.gaps
    return {
        "n": m.n,
        "tiers": [gaps.better, gaps.worse],
        "languages": list(gaps.languages),
        "faults": list(faults),
        "onset_depth": None if onset is None else {"value": onset[0], "low": onset[1], "high": onset[2]},
        "gap": {direction: estimate.as_dict() for direction, estimate in gaps.tier.items()},
        "gap_by_language": {f"{lang} {d}": estimate.as_dict() for (lang, d), estimate in gaps.by_language.items()},
        "erasure": {
            direction: {
                "lift": erasure.lift.as_dict(),
                "placebo": erasure.placebo.as_dict(),
                "beyond": erasure.beyond.as_dict(),
                "share": erasure.share,
                "rank": erasure.rank,
            }
            for direction, erasure in x.erasure.items()
        },
        "patch": {
            direction: {
                "depth": patch.depth,
                "block": patch.depth - 1,
                "lift": patch.lift.as_dict(),
                "share": patch.share,
                "shares_by_depth": dict(zip(map(str, m.depths), map(float, patch.shares), strict=True)),
                "remainder": patch.remainder.as_dict() if patch.remainder else None,
                "onset": {"value": patch.onset, "low": patch.onset_low, "high": patch.onset_high},
                "controls": {name: value.as_dict() for name, value in patch.controls.items()},
            }
            for direction, patch in x.patching.items()
        },
        "input": None
        if x.input_loss is None
        else {"better": x.input_loss.better, "worse": x.input_loss.worse, "ratio": x.input_loss.ratio.as_dict()},
        "thresholds": vars(judge.limits),
    }
