"""Small results of the probes for tests of the figures: planted data, so that what must show is known."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from analyses.base import Analysis
from probes.sensitivity import Sensitivity
from probes.spectral_bound import Factor, SpectralBound

TIERS: Mapping[str, str] = {"en": "HRL", "de": "HRL", "fr": "HRL", "sw": "LRL", "te": "LRL"}
N, DEPTHS, D = 40, (0, 1, 2), 6


def rows(spread: float = 1.0, seed: int = 0) -> dict[str, np.ndarray]:
    """Parallel rows, (caption, depth, feature): the low tier shares less content, the deeper the less."""
    generator = np.random.default_rng(seed)
    content = generator.standard_normal((N, 1, D)) + 2
    noise = {code: 0.3 if tier == "HRL" else spread for code, tier in TIERS.items()}
    deeper = np.arange(1, len(DEPTHS) + 1)[:, None]
    return {
        code: content + size * deeper * generator.standard_normal((N, len(DEPTHS), D)) for code, size in noise.items()
    }


def sensitivity(scale: float = 1.0, directions: int = 2) -> Sensitivity:
    """Ratios that rise with the caption; English is the reference."""
    languages = tuple(TIERS)
    ratio = scale * (0.2 + np.arange(N) / N + 0.1 * np.arange(len(languages))[:, None])
    to_reference = ratio.copy()
    to_reference[0] = np.nan
    return Sensitivity(
        "toy-tower", languages, 2, 4, ("en",), to_reference, np.repeat(ratio[..., None], directions, axis=2),
        np.ones_like(ratio), 0.01, "embedding", N, D, 0,
    )  # fmt: skip


def bound() -> SpectralBound:
    """A bound of 10^20, and of 10^8 under its condition."""
    factors = (Factor("block 2", 9.0, 3.0), Factor("block 3", 9.0, 4.0), Factor("head", 2.0, 1.0))
    return SpectralBound("toy-tower", 2, 4, 20.0, 8.0, factors, 1, 5 * N)


def drawn(answer: Analysis) -> Any:
    """Return the figure of an analysis."""
    assert answer.figure is not None
    return answer.figure


def trace(answer: Analysis, name: str, axis: str = "x") -> Any:
    """Return the trace of a name in a panel."""
    return next(t for t in drawn(answer).data if t.name == name and (t.xaxis or "x") == axis)


def valid(answer: Analysis) -> None:
    """Check that a figure holds no NaN, which is no JSON."""
    json.loads(str(drawn(answer).to_json()), parse_constant=lambda text: pytest.fail(text))
