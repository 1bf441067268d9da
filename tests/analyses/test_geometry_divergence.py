import numpy as np
import pytest

from analyses.geometry_divergence import divergence_curves, prevalence_scatter, residuals_by_language
from probes.divergence import divergence_by_depth, prevalence_correlation, residuals_at, tier_gap
from tests.analyses.geometry_factory import TIERS, D, N, drawn, rows, trace
from workbench.errors import InputError


@pytest.mark.parametrize("distance", ["cosine", "l2", "relative", "whitened"])
def test_lines_are_the_divergence_and_the_right_panel_its_gap(distance):
    found = divergence_by_depth(rows(), distance=distance)
    answer = divergence_curves(found, TIERS, resamples=50, subject="toy")
    means = found.means(resamples=50)
    line = trace(answer, "Swahili (sw)")
    assert list(line.y) == pytest.approx(means.value[2])
    assert list(trace(answer, "unrelated captions").y) == pytest.approx(found.unrelated.mean(axis=0))
    gap = tier_gap(found, TIERS, resamples=50)
    assert list(trace(answer, "gap", "x2").y) == pytest.approx(gap.value)
    table = answer.table.set_index(["language", "depth"])
    assert table.loc[("gap LRL − HRL", 2), "low"] == gap.low[2]
    assert table.loc[("te", 1), "unrelated"] == found.unrelated[3, 1]
    assert table.loc[("te", 1), "tier"] == "LRL"
    assert answer.name == f"divergence-{distance}"
    for words in ("n = 40 images, d = 6", "bootstrap over images", "derangement", "without the reference"):
        assert words in answer.caption
    assert ("Shrinkage" in answer.caption) == (distance == "whitened")
    assert f"{np.mean(list(found.areas().values())):.3f}" in answer.caption


def test_two_states_are_shown_by_tier():
    before, after = (divergence_by_depth(rows(size), distance="l2") for size in (1.0, 0.3))
    answer = divergence_curves({"frozen": before, "calibrated": after}, TIERS, resamples=20)
    line = trace(answer, "LRL, calibrated")
    assert list(line.y) == pytest.approx(after.by_caption[2:].mean(axis=(0, 2)))
    assert line.marker.symbol.endswith("-open")
    assert set(answer.table["state"]) == {"frozen", "calibrated"}
    assert "frozen: " in answer.caption
    with pytest.raises(InputError, match="differ in distance: l2, cosine"):
        divergence_curves({"a": before, "b": divergence_by_depth(rows())}, TIERS)


@pytest.mark.filterwarnings("ignore::probes._checks.UndefinedWarning")
def test_a_depth_without_a_value_is_named_and_left_out_of_the_area():
    same = rows()
    same["en"][:, 0] = 1.0
    answer = divergence_curves(divergence_by_depth(same, distance="whitened"), TIERS, resamples=20)
    assert "No value at depth 0" in answer.caption
    assert "nan" not in answer.caption
    assert trace(answer, "Swahili (sw)").y[0] is None


def test_a_mean_as_reference_is_named_with_its_members():
    found = divergence_by_depth(rows(), ["en", "de", "fr"])
    answer = divergence_curves(found, TIERS, resamples=20)
    assert "the mean of 3 languages (en, de, fr, without the language itself)" in answer.caption
    assert trace(answer, "English (en)")


def test_residuals_stand_in_the_same_row_for_each_reference():
    at = {code: own[:, 2] for code, own in rows().items()}
    residuals = {"en": residuals_at(at, 0, "en"), "mean of HRL": residuals_at(at, 0, ["en", "de", "fr"])}
    answer = residuals_by_language(residuals, TIERS, depth=2, n=N, d=D, subject="toy")
    left, right = drawn(answer).data
    # English comes first, and has no residual from itself.
    assert list(left.y) == [1, 2, 3, 4]
    assert list(right.y) == [0, 1, 2, 3, 4]
    assert left.x[2] == residuals["en"]["sw"][0]
    assert right.error_x.array[0] == pytest.approx(
        residuals["mean of HRL"]["en"][2] - residuals["mean of HRL"]["en"][0]
    )
    assert next(iter(drawn(answer).layout.yaxis.ticktext)) == "English (en)"
    assert len(answer.table) == 9
    assert "depth 2 (block 1)" in answer.title
    assert "n = 40 images" in answer.caption
    with pytest.raises(InputError, match="No residual"):
        residuals_by_language({}, TIERS, depth=2, n=N, d=D)


def test_the_scatter_says_n_both_coefficients_and_its_caveat():
    residual = {"en": 0.0, "de": 1.0, "fr": 2.0, "sw": 6.0, "te": 5.0}
    found = prevalence_correlation(residual)
    answer = prevalence_scatter(found, TIERS, what="residual at depth 2", subject="toy")
    assert "n = 4 languages" in answer.title
    assert f"Pearson {found.pearson:.2f}" in answer.caption
    assert f"Spearman {found.spearman:.2f}" in answer.caption
    assert "all 24 orders" in answer.caption
    assert "names no cause" in answer.caption
    points = trace(answer, "LRL")
    assert list(points.text) == ["sw", "te"]
    assert list(points.y) == [6.0, 5.0]
    assert points.x[0] == pytest.approx(0.0102)
    assert drawn(answer).layout.xaxis.type == "log"
    table = answer.table.set_index("left out")
    assert table.loc["none", "Pearson"] == found.pearson
    assert table.loc["sw", "Spearman"] == found.without["sw"][1]
    assert table.loc["sw", "n"] == 3


def test_names_of_close_points_stand_apart():
    from analyses.geometry_divergence import _places

    sides = _places(np.array([0.0, 1.0, 1.01, 5.0]), np.array([0.0, 1.0, 1.1, 9.0]))
    assert sides == ["top center", "bottom center", "top center", "top center"]
    assert _places(np.array([1.0, 1.01, 2.0]), np.array([1.0, 1.0, 5.0]))[:2] == ["middle left", "middle right"]
