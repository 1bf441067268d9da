import numpy as np
import pytest

from analyses.geometry import cka_curves, cka_gap, cka_matrix
from analyses.geometry_silhouette import silhouette_curves
from probes.cka import Estimator, cka_by_depth, tier_difference, tier_means
from probes.silhouette import silhouette_by_depth
from tests.analyses.geometry_factory import DEPTHS, TIERS, D, N, drawn, rows, trace, valid
from workbench.errors import InputError


@pytest.fixture(scope="module")
def result():
    return cka_by_depth(rows(), permutations=20, groups=8)


def test_curves_and_bands_are_the_tier_means_biased_and_debiased_side_by_side(result):
    answer = cka_curves(result, TIERS, subject="toy tower on toy corpus")
    panels: list[tuple[Estimator, str]] = [("biased", "x"), ("debiased", "x2")]
    for estimator, axis in panels:
        for mean in tier_means(result, TIERS, estimator):
            line = trace(answer, "–".join(mean.pair), axis)
            assert list(line.x) == list(DEPTHS)
            assert list(line.y) == pytest.approx(mean.value)
            band = next(
                t for t in drawn(answer).data if t.fill and t.legendgroup == line.legendgroup and t.xaxis == axis
            )
            assert list(band.y) == pytest.approx([*mean.low, *mean.high[::-1]])
        null = trace(answer, "shuffled captions", axis)
        expected = tier_means(result, dict.fromkeys(TIERS, "all"), estimator)[0].null
        assert list(null.y) == pytest.approx(expected)
    table = answer.table
    assert len(table) == 2 * 3 * len(DEPTHS)
    row = table[(table["estimator"] == "debiased") & (table["pair"] == "HRL–LRL") & (table["depth"] == 2)].iloc[0]
    mean = tier_means(result, TIERS)[1]
    assert (row["value"], row["null"], row["p"]) == (mean.value[2], mean.null[2], mean.p[2])
    assert (row["pairs"], row["block"], row["n"], row["d"]) == (6, 1, N, D)
    assert "state" not in table


def test_caption_and_title_say_how_much_and_what_chance_is(result):
    answer = cka_curves(result, TIERS, subject="toy tower on toy corpus")
    assert answer.title.startswith("toy tower on toy corpus: CKA")
    for words in ("n = 40 images", "d = 6"):
        assert words in answer.title
        assert words in answer.caption
    for words in ("3 HRL–HRL, 6 HRL–LRL, 1 LRL–LRL", "20 draws", "jackknife over 8 groups", "shuffled"):
        assert words in answer.caption


def test_two_states_are_told_apart_without_colour(result):
    after = cka_by_depth(rows(0.3), permutations=20, groups=8)
    answer = cka_curves({"frozen": result, "calibrated": after}, TIERS)
    first, second = (trace(answer, f"HRL–LRL, {state}", "x2") for state in ("frozen", "calibrated"))
    assert first.line.color == second.line.color
    assert (first.marker.symbol, first.line.dash) != (second.marker.symbol, second.line.dash)
    assert second.marker.symbol.endswith("-open")
    assert list(second.y) == pytest.approx(tier_means(after, TIERS)[1].value)
    assert set(answer.table["state"]) == {"frozen", "calibrated"}
    gap = cka_gap({"frozen": result, "calibrated": after}, TIERS)
    assert gap.caption.count(", frozen") == gap.caption.count(", calibrated") == 1
    with pytest.raises(InputError, match="3 states came"):
        cka_curves({"a": result, "b": result, "c": result}, TIERS)
    other = cka_by_depth(rows(), depths=[0, 1, 3], permutations=0)
    with pytest.raises(InputError, match=r"differ in depths: \(0, 1, 2\), \(0, 1, 3\)"):
        cka_curves({"frozen": result, "calibrated": other}, TIERS)


def test_the_gap_is_the_difference_with_its_interval(result):
    answer = cka_gap(result, TIERS)
    found = tier_difference(result, TIERS, ("HRL", "HRL"), ("HRL", "LRL"))
    line = trace(answer, "HRL–HRL minus HRL–LRL", "x2")
    assert list(line.y) == pytest.approx(found[0])
    last = answer.table[answer.table["estimator"] == "debiased"].iloc[-1]
    assert (last["value"], last["low"], last["high"]) == tuple(own[-1] for own in found)
    assert f"{found[0][-1]:.3f} [{found[1][-1]:.3f}, {found[2][-1]:.3f}]" in answer.caption


def test_the_matrix_has_every_pair_once_in_the_table_and_a_menu_of_depths(result):
    shuffled = {code: TIERS[code] for code in ("sw", "en", "te", "de", "fr")}
    mixed = cka_by_depth(rows(), list(shuffled), permutations=0, groups=0)
    answer = cka_matrix(mixed, TIERS, 1)
    heat = drawn(answer).data[1]
    assert list(heat.x) == ["sw", "te", "en", "de", "fr"]  # by tier
    place = {code: k for k, code in enumerate(mixed.languages)}
    assert heat.z[0][2] == mixed.debiased[1, place["sw"], place["en"]]
    assert heat.z[3][3] is None
    assert heat.text[0][2] == f"{heat.z[0][2]:.2f}".replace("0.", ".")
    assert len(answer.table) == len(DEPTHS) * 10
    menu = drawn(answer).layout.updatemenus[0]
    assert [button.label for button in menu.buttons] == [
        "depth 0 (embedding)", "depth 1 (block 0)", "depth 2 (block 1)",
    ]  # fmt: skip
    assert menu.active == 1
    biased, debiased = menu.buttons[2].args[0]["z"]
    assert biased[0][2] == mixed.biased[2, place["sw"], place["en"]]
    assert debiased[0][2] == mixed.debiased[2, place["sw"], place["en"]]
    assert drawn(answer).data[0].zmax == drawn(answer).data[1].zmax
    with pytest.raises(InputError, match="no depth 7"):
        cka_matrix(mixed, TIERS, 7)


@pytest.mark.filterwarnings("ignore::probes._checks.UndefinedWarning")
def test_a_depth_without_a_value_is_empty_and_named():
    same = rows()
    for own in same.values():
        own[:, 0] = 1.0
    found = cka_by_depth(same, permutations=5)
    for answer in (cka_curves(found, TIERS), cka_gap(found, TIERS), cka_matrix(found, TIERS)):
        assert "No value at depth 0" in answer.caption
        valid(answer)
    assert trace(cka_curves(found, TIERS), "HRL–HRL").y[0] is None
    quiet = silhouette_curves(silhouette_by_depth(same, groups=0))
    assert "No value at depth 0" in quiet.caption


def test_silhouettes_stand_beside_their_mean_and_zero():
    found = {name: silhouette_by_depth(rows(), metric=name, groups=8) for name in ("cosine", "euclidean")}
    answer = silhouette_curves(found, subject="toy")
    for name, axis in (("cosine", "x"), ("euclidean", "x2")):
        assert list(trace(answer, "Swahili (sw)", axis).y) == pytest.approx(found[name].value[:, 3])
        assert list(trace(answer, "all languages", axis).y) == pytest.approx(found[name].overall)
    assert len(answer.table) == 2 * 6 * len(DEPTHS)
    assert "n = 40 images in 5 languages, d = 6" in answer.caption
    assert "200 points" in answer.title
    assert [shape.y0 for shape in drawn(answer).layout.shapes] == [0, 0]


def test_names_from_a_user_are_escaped():
    named = {f"<b>{code}": own for code, own in rows().items()}
    tiers = {code: ("<i>" if tier == "HRL" else "LRL") for code, tier in zip(named, TIERS.values(), strict=True)}
    found = cka_by_depth(named, permutations=2, groups=0)
    for answer in (cka_curves(found, tiers, subject="<s>"), silhouette_curves(silhouette_by_depth(named, groups=0))):
        for shown in drawn(answer).data:
            assert "<i>" not in (shown.name or "")
            assert "<b><b>" not in "".join(shown.hovertext or ())
        assert "<s>" not in drawn(answer).layout.title.text


def test_panels_stack_on_a_narrow_page(result):
    layout = drawn(cka_curves(result, TIERS)).layout
    wide, narrow = layout.meta["wide"], layout.meta["narrow"]
    assert wide["xaxis.domain"][1] < wide["xaxis2.domain"][0]
    assert narrow["xaxis.domain"] == narrow["xaxis2.domain"] == [0.0, 1.0]
    assert narrow["yaxis.domain"][0] > narrow["yaxis2.domain"][1]
    assert narrow["height"] > wide["height"]
    assert np.isclose(narrow["annotations[1].y"], narrow["yaxis2.domain"][1])
