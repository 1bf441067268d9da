from typing import Any

import pytest

from analyses import Analysis, checkpoint_table
from tests.analyses.factory import INTERVENTIONS, LANGUAGES, frozen_score, make_frame, patched_score
from workbench.errors import InputError


def drawn(answer: Analysis) -> Any:
    assert answer.figure is not None
    return answer.figure


def marks(answer: Analysis, name: str, visible: bool = True) -> Any:
    return next(t for t in drawn(answer).data if t.name == name and t.visible is visible)


def test_default_is_three_blocks_before_the_end() -> None:
    answer = checkpoint_table(make_frame())
    assert set(answer.table["depth"]) == {9}
    assert set(answer.table["block"]) == {8}
    assert "checkpoint N−4, depth 9 (block 8)" in answer.title
    assert "nearest" not in answer.caption


@pytest.mark.parametrize(
    ("depths", "last", "chosen"),
    [([0, 6, 12], None, 6), ([0, 8, 10, 12], None, 8), ([2, 7], 12, 7), ([0, 11, 12], None, 11)],
)
def test_a_missing_checkpoint_is_replaced_by_the_nearest_depth_and_said(
    depths: list[int], last: int | None, chosen: int
) -> None:
    answer = checkpoint_table(make_frame(depths=depths), last_depth=last)
    assert set(answer.table["depth"]) == {chosen}
    assert f"depth {chosen} (block {chosen - 1})" in answer.title
    assert "N−4" not in answer.title
    assert "Depth 9 (N−3) is not in the frame; this is the nearest to it." in answer.caption


def test_the_last_depth_is_called_what_it_is() -> None:
    assert "proves nothing" in checkpoint_table(make_frame(depths=[12])).caption
    assert "proves nothing" in checkpoint_table(make_frame(), 12).caption


def test_an_asked_for_depth_must_be_there() -> None:
    assert set(checkpoint_table(make_frame(), 4).table["depth"]) == {4}
    with pytest.raises(InputError, match=r"no depth 5. It has: 4, 6"):
        checkpoint_table(make_frame(depths=[4, 6]), 5)


def test_table_is_that_of_the_frame() -> None:
    table = checkpoint_table(make_frame(), direction="t2i").table.set_index("language")
    for language in LANGUAGES:
        row, frozen = table.loc[language].to_dict(), frozen_score(language, "t2i")
        assert (row["frozen"], row["frozen low"], row["frozen high"]) == (frozen, frozen - 2, frozen + 3)
        assert row["en itself"] == frozen_score("en", "t2i")
        for name in INTERVENTIONS:
            score = patched_score(language, name, 9, "t2i")
            assert (row[name], row[f"{name} low"], row[f"{name} high"]) == (score, score - 2, score + 3)
            assert row[f"{name} lift"] == pytest.approx(score - frozen)
    assert table.loc["sw", "parallel en rescued %"] == pytest.approx(75.0)
    assert "noise rescued %" not in table.columns


def test_lifts_have_intervals_and_a_line_at_zero() -> None:
    answer = checkpoint_table(make_frame())
    dots = marks(answer, "noise")
    order = [text.strip("</b>") for text in drawn(answer).layout.yaxis.ticktext]
    place = order.index("Telugu (te)")
    assert dots.x[place] == pytest.approx(patched_score("te", "noise", 9) - frozen_score("te"))
    assert dots.error_x.array[place] == pytest.approx(3.0)
    assert dots.error_x.arrayminus[place] == pytest.approx(2.0)
    assert drawn(answer).layout.xaxis.zeroline is True
    other = marks(answer, "noise", visible=False)
    assert other.x[place] == pytest.approx(patched_score("te", "noise", 9, "t2i") - frozen_score("te", "t2i"))


def test_marks_of_one_language_do_not_cover_each_other() -> None:
    answer = checkpoint_table(make_frame())
    heights = [marks(answer, name).y[0] for name in INTERVENTIONS]
    assert len(set(heights)) == len(heights)
    assert max(heights) - min(heights) < 1


def test_an_intervention_may_have_the_name_of_a_column() -> None:
    table = checkpoint_table(make_frame(interventions={"frozen": "", "n": ""})).table.set_index("language")
    assert table.loc["sw", "frozen"] == frozen_score("sw")
    assert table.loc["sw", "patch frozen"] == patched_score("sw", "frozen", 9)
    assert table.loc["sw", "n"] == 200


def test_a_missing_source_leaves_its_columns_out() -> None:
    table = checkpoint_table(make_frame({"sw": "LRL", "te": "LRL"})).table
    assert "en itself" not in table.columns
    assert len(checkpoint_table(make_frame({"sw": ""}, depths=[3])).table) == 1
