from dataclasses import replace

import numpy as np
import pytest

from analyses.geometry_sensitivity import lift_scatter, sensitivity_by_language
from probes.sensitivity import residual_weighted_correlation
from probes.spectral_bound import CAVEAT
from tests.analyses.geometry_factory import TIERS, bound, drawn, sensitivity, trace, valid
from workbench.errors import InputError


def test_means_maxima_and_intervals_are_those_of_the_summary():
    found = sensitivity()
    answer = sensitivity_by_language(found, TIERS, resamples=100, subject="toy")
    summary = found.summary(resamples=100)
    mean, most = (trace(answer, f"{what}, towards reference") for what in ("mean", "maximum"))
    assert mean.x[0] is None  # English is the reference
    assert list(mean.x[1:]) == pytest.approx(summary.mean.value[1:])
    assert mean.error_x.array[3] == pytest.approx(summary.mean.high[3] - summary.mean.value[3])
    assert list(most.x[1:]) == pytest.approx(summary.maximum[1:])
    random = trace(answer, "mean, random directions")
    assert None not in random.x
    assert random.marker.symbol != mean.marker.symbol
    table = answer.table.set_index(["ratio", "language"])
    assert table.loc[("reference", "sw"), "maximum"] == summary.maximum[3]
    assert table.loc[("reference", "en"), "n"] == 0
    for words in (
        "depth 2 (block 1)",
        "blocks 2 to 3",
        "2 random directions by 1%",
        "n = 40 captions",
        "pooled row alone",
    ):
        assert words in answer.caption
    assert CAVEAT not in answer.caption


def test_the_bound_has_a_logarithmic_axis_its_power_and_its_caveat():
    answer = sensitivity_by_language(sensitivity(), TIERS, bound())
    axis = drawn(answer).layout.xaxis2
    assert axis.type == "log"
    assert axis.range[1] > 20
    shown = {t.x[1] for t in drawn(answer).data if t.xaxis == "x2"}
    assert {1e20, 1e8} <= shown
    assert np.nanmean(sensitivity().to_reference) in shown
    assert any("any input: 10<sup>20</sup>" in t.text[0] for t in drawn(answer).data if t.text)
    assert CAVEAT in answer.caption
    assert "200 captions" in answer.caption
    table = answer.table.set_index("ratio")
    assert table.loc["bound, any input (log10)", "value"] == 20
    valid(answer)
    with pytest.raises(InputError, match="bound is from depth 2 and the ratios from depth 1"):
        sensitivity_by_language(replace(sensitivity(), depth=1), TIERS, bound())


def test_a_change_is_told_in_percent_and_as_a_factor():
    states = {"frozen": sensitivity(), "calibrated": sensitivity(0.5)}
    answer = sensitivity_by_language(states, TIERS, resamples=20)
    assert "From frozen to calibrated, towards reference: mean -50 %, maximum divided by 2.0." in answer.caption
    first, second = (trace(answer, f"mean, towards reference, {state}") for state in states)
    assert second.x[1] == pytest.approx(first.x[1] / 2)
    assert second.marker.symbol == f"{first.marker.symbol}-open"
    with pytest.raises(InputError, match="differ in step"):
        sensitivity_by_language({"a": sensitivity(), "b": replace(sensitivity(), step=0.1)}, TIERS)


def test_without_random_directions_there_are_none():
    answer = sensitivity_by_language(sensitivity(directions=0), TIERS)
    assert not [t for t in drawn(answer).data if "random" in (t.name or "")]
    assert set(answer.table["ratio"]) == {"reference"}


def test_the_lift_scatter_says_both_coefficients():
    codes = ("de", "fr", "sw", "te")
    ratio: dict[str, float] = dict(zip(codes, (0.3, 0.4, 0.8, 0.6), strict=True))
    residual: dict[str, float] = dict(zip(codes, (1.0, 1.5, 3.0, 2.0), strict=True))
    lift: dict[str, float] = dict(zip(codes, (0.0, 1.0, 23.0, 20.0), strict=True))
    found = residual_weighted_correlation(ratio, residual, lift)
    answer = lift_scatter(found, TIERS, lift="lift of R@1 by calibration")
    points = trace(answer, "LRL")
    assert list(points.x) == pytest.approx([2.4, 1.2])
    assert list(points.y) == [23.0, 20.0]
    assert answer.caption.startswith("Lift of R@1 by calibration against")
    assert f"Pearson {found.pearson:.2f}" in answer.caption
    assert "n = 4 languages" in answer.title
