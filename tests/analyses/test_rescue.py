from typing import Any

import pytest

from analyses import Analysis, rescue_curves, rescue_figure, rescue_grid
from tests.analyses.factory import INTERVENTIONS, LAST, frozen_score, make_frame, patched_score
from workbench.errors import InputError


def drawn(answer: Analysis) -> Any:
    assert answer.figure is not None
    return answer.figure


def line(figure: Any, name: str, axis: str = "x") -> Any:
    return next(t for t in figure.data if t.name == name and t.visible is True and t.xaxis == axis)


def band(figure: Any, group: str) -> Any:
    return next(t for t in figure.data if t.fill == "toself" and t.legendgroup == group and t.visible is True)


@pytest.mark.parametrize("name", INTERVENTIONS)
def test_every_intervention_is_drawn_with_its_interval(name: str) -> None:
    figure = drawn(rescue_curves(make_frame(), "sw"))
    scores = [patched_score("sw", name, depth) for depth in range(13)]
    curve = line(figure, name)
    assert list(curve.y) == scores
    assert list(curve.x) == list(range(13))
    assert list(band(figure, name).y) == [s - 2 for s in scores] + [s + 3 for s in reversed(scores)]
    assert "depth 9 (block 8)" in curve.hovertext[9]


def test_levels_of_the_frozen_tower_and_of_the_source() -> None:
    figure = drawn(rescue_curves(make_frame(), "sw", direction="t2i", metric="MRR"))
    frozen, source = line(figure, "frozen tower, no patch"), line(figure, "en itself, no patch")
    assert set(frozen.y) == {frozen_score("sw", "t2i", "MRR")}
    assert set(source.y) == {frozen_score("en", "t2i", "MRR")}
    assert (frozen.line.dash, source.line.dash) == ("dash", "dot")
    assert set(band(figure, "frozen").y) == {frozen.y[0] - 2, frozen.y[0] + 3}
    assert figure.layout.yaxis.title.text == "MRR, text to image (t2i), %"


def test_checkpoint_and_tautology_are_marked() -> None:
    answer = rescue_curves(make_frame(), "sw")
    checkpoint, strip = drawn(answer).layout.shapes
    assert (checkpoint.type, checkpoint.x0) == ("line", LAST - 3)
    assert strip.x0 < LAST < strip.x1
    assert [note.text for note in drawn(answer).layout.annotations] == [
        "N−4 checkpoint",
        "tautology: the row<br>is the source's own",
    ]
    assert "block N−4, depth 9 (block 8)" in answer.caption
    assert "tautology" in answer.caption


def test_a_last_depth_that_is_not_the_sources_score_is_no_tautology() -> None:
    # The sweep stopped before the last block.
    answer = rescue_curves(make_frame(depths=range(9)), "sw")
    assert "tautology" not in answer.caption
    told = rescue_curves(make_frame(depths=range(9)), "sw", last_depth=LAST)
    assert "checkpoint" not in told.caption
    with pytest.raises(InputError, match="last_depth=4"):
        rescue_curves(make_frame(), "sw", last_depth=4)


def test_mean_of_a_tier() -> None:
    answer = rescue_curves(make_frame(), "mean", tier="LRL")
    expected = [sum(patched_score(code, "noise", d) for code in ("sw", "te")) / 2 for d in range(13)]
    assert list(line(drawn(answer), "noise").y) == expected
    assert "mean of LRL" in answer.title
    assert answer.name == "rescue-mean-LRL"


def test_every_language_can_be_chosen_in_both_directions() -> None:
    figure = drawn(rescue_figure(make_frame()))
    menu = next(m for m in figure.layout.updatemenus if m.name == "language")
    assert [button.label for button in menu.buttons] == [
        "mean of HRL", "mean of LRL", "English (en)", "German (de)", "Swahili (sw)", "Telugu (te)",
    ]  # fmt: skip
    assert menu.buttons[menu.active].label == "mean of LRL"
    button = next(b for b in menu.buttons if b.label == "Telugu (te)")
    changes, places = button.args
    for direction, visible in (("i2t", True), ("t2i", False)):
        place = next(i for i, t in enumerate(figure.data) if t.name == "parallel en" and t.visible is visible)
        expected = [patched_score("te", "parallel en", depth, direction) for depth in range(13)]
        assert list(changes["y"][places.index(place)]) == expected
        assert "Telugu" in changes["hovertext"][places.index(place)][0]


def test_choosing_the_source_hides_its_own_level() -> None:
    figure = drawn(rescue_figure(make_frame()))
    menu = next(m for m in figure.layout.updatemenus if m.name == "language")
    changes, places = next(b for b in menu.buttons if b.label == "English (en)").args
    place = next(i for i, t in enumerate(figure.data) if t.name == "en itself, no patch")
    assert list(changes["y"][places.index(place)]) == [None, None]


def test_the_grid_has_a_panel_for_every_language_and_mean() -> None:
    figure = drawn(rescue_grid(make_frame()))
    titles = [note.text for note in figure.layout.annotations]
    assert titles == [
        "<b>mean of HRL</b>", "<b>mean of LRL</b>", "<b>English (en)</b>", "<b>German (de)</b>",
        "<b>Swahili (sw)</b>", "<b>Telugu (te)</b>",
    ]  # fmt: skip
    assert list(line(figure, "noise", "x5").y) == [patched_score("sw", "noise", d) for d in range(13)]
    in_legend = [t.name for t in figure.data if t.showlegend and t.visible is True]
    assert sorted(in_legend) == sorted([*INTERVENTIONS, "frozen tower, no patch", "en itself, no patch"])


@pytest.mark.parametrize("layout", ["wide", "narrow"])
def test_panels_do_not_overlap(layout: str) -> None:
    places = drawn(rescue_grid(make_frame())).layout.meta[layout]
    boxes = [(*places[f"xaxis{axis}.domain"], *places[f"yaxis{axis}.domain"]) for axis in ("", 2, 3, 4, 5, 6)]
    for i, (left, right, bottom, top) in enumerate(boxes):
        assert 0 <= left < right <= 1
        assert 0 <= bottom < top <= 1
        for other in boxes[:i]:
            assert right <= other[0] or left >= other[1] or top <= other[2] or bottom >= other[3]


def test_table_holds_scores_lifts_and_rescued_shares() -> None:
    table = rescue_curves(make_frame(), "te").table
    assert set(table["language"]) == {"te"}
    assert set(table["metric"]) == {"R@1", "lift R@1", "rescue R@1"}
    assert {"depth", "block"} <= set(table.columns)
    row = table[(table["intervention"] == "parallel en") & (table["depth"] == 6) & (table["direction"] == "i2t")]
    assert row.set_index("metric").loc["rescue R@1", "value"] == pytest.approx(0.5)


@pytest.mark.parametrize("make", [rescue_figure, rescue_grid])
def test_odd_frames_work(make) -> None:
    for frame in (
        make_frame({"sw": ""}, depths=[4]),
        make_frame({"sw": "LRL"}, depths=[0]),
        make_frame({"xx": "", "sw": "mine"}, depths=[0, 12]),
        make_frame(interventions={"my own": ""}),
        make_frame(directions=["i2t"]),
    ):
        assert len(drawn(make(frame)).data) > 0


def test_one_depth_shows_points_beside_each_other() -> None:
    figure = drawn(rescue_curves(make_frame({"sw": ""}, depths=[4]), "sw"))
    assert len({line(figure, name).x[0] for name in INTERVENTIONS}) == len(INTERVENTIONS)
    assert band(figure, "noise").line.width > 0


def test_a_frame_without_interventions_says_what_to_do() -> None:
    frame = make_frame(depths=[9])
    with pytest.raises(InputError, match="Run a sweep with an intervention"):
        rescue_figure(frame[frame["intervention"] == "none"])


def test_names_from_users_are_escaped() -> None:
    evil = "<a href='x'>%{y}</a>"
    figure = drawn(rescue_curves(make_frame(interventions={evil: ""}), "sw"))
    texts = [str(t.name) for t in figure.data] + [str(t.hovertext) for t in figure.data]
    assert not any("<a" in text or "%{y}" in text for text in texts)
    assert "&lt;a href='x'&gt;&#37;{y}&lt;/a&gt;" in texts
