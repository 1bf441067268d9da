"""Time arms in turn and compare them: on a shared machine a ratio means something, a time does not."""

import statistics
import time
from collections.abc import Callable


def alternate(rounds: int, *arms: Callable[[], object]) -> list[list[float]]:
    """Time the arms in turn, after one unmeasured turn; seconds by arm."""
    times: list[list[float]] = [[] for _ in arms]
    for turn in range(rounds + 1):
        for arm, kept in zip(arms, times, strict=True):
            start = time.perf_counter()
            arm()
            if turn:
                kept.append(time.perf_counter() - start)
    return times


def row(name: str, target: str, slow: list[float], fast: list[float], *, inverse: bool = False) -> dict:
    """Summarise two arms as the ratio of their medians, with the range over turns."""
    a, b = statistics.median(slow), statistics.median(fast)
    pairs = [f / s if inverse else s / f for s, f in zip(slow, fast, strict=True)]
    return {
        "what": name,
        "target": target,
        "ratio": b / a if inverse else a / b,
        "range": f"{min(pairs):.2f}–{max(pairs):.2f}",
        "peer_s": a,
        "ours_s": b,
    }
