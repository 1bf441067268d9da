"""Published values over the figures and tables of a sweep of the paper's tower and benchmark."""

from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from analyses.base import Analysis
from analyses.baselines import baseline
from analyses.checkpoint import checkpoint_table
from analyses.comparison import beside_published
from analyses.published_match import is_published, sweep_marks
from analyses.rescue import rescue_curves, rescue_figure, rescue_grid
from tests.analyses.factory import make_frame
from tests.analyses.test_comparison import HUB, sweep

LAST: dict[str, Any] = {"last_depth": 24}


def traces(figure: go.Figure | None) -> tuple[Any, ...]:
    assert figure is not None
    return tuple(figure.data)


def stars(figure: go.Figure | None) -> list[Any]:
    return [trace for trace in traces(figure) if trace.name == "published"]


def test_a_curve_has_the_published_value_at_its_depth_and_the_frozen_one_at_its_end() -> None:
    frame = sweep()
    answer = rescue_curves(frame, "sw", **LAST)
    for star in stars(answer.figure):
        shown = {float(x): y for x, y in zip(star.x, star.y, strict=True) if y is not None}
        assert shown[21] == 69.1
        assert shown[-0.3] == 22.1
        assert star.marker.symbol == "star-open"
    assert len(stars(answer.figure)) == 2  # a direction each
    row = answer.table[(answer.table["depth"] == 21) & (answer.table["metric"] == "R@1")].iloc[0]
    assert (row["intervention"], row["published"]) == ("parallel en", 69.1)
    assert row["difference"] == pytest.approx(row["value"] - 69.1)
    assert row["inside"] == ("yes" if row["low"] <= 69.15 and row["high"] >= 69.05 else "no")
    assert answer.table[answer.table["depth"] == 20]["published"].isna().all()
    assert "Hollow stars are published values (s3)" in answer.caption


def test_a_menu_moves_the_published_values_with_the_language() -> None:
    figure = rescue_figure(sweep(), **LAST).figure
    assert figure is not None
    place = next(k for k, trace in enumerate(traces(figure)) if trace.name == "published")
    found = {}
    for button in next(menu for menu in figure.layout.updatemenus if len(menu.buttons) > 2).buttons:
        changes, places = button.args
        found[button.label] = changes["y"][list(places).index(place)]
    assert 69.1 in found["Swahili (sw)"]
    assert 73.5 in found["Filipino (fil)"]
    assert set(found["Telugu (te)"]) == {None}


def test_the_other_figures_and_the_page_have_them_too() -> None:
    frame = sweep()
    star = stars(baseline(frame).figure)[0]
    assert sorted(star.x) == [22.1, 39.9, 44.1, 69.4, 78.1]
    table = baseline(frame).table.set_index("language")
    assert table.loc["sw", "i2t R@1 published"] == 22.1
    # The gain of 29.3 has no depth in the paper, so that no bar of a depth has it.
    assert stars(checkpoint_table(frame, **LAST).figure) == []
    grid = stars(rescue_grid(frame, **LAST).figure)
    assert len(grid) == 2 * 13  # a panel each, in both directions
    assert [answer.name for answer in beside_published(frame)] == ["comparison"]
    assert beside_published(Analysis("other", "", frame, None, "")) == []


def test_nothing_changes_where_nothing_is_published() -> None:
    frame = make_frame()
    assert sweep_marks(frame) == {}
    assert beside_published(frame) == []
    for answer in (rescue_figure(frame, last_depth=12), baseline(frame), checkpoint_table(frame, last_depth=12)):
        assert stars(answer.figure) == []
        assert not [name for name in answer.table.columns if "published" in name]
        assert "published" not in answer.caption


def test_means_over_other_languages_than_the_papers_have_no_star() -> None:
    frame: pd.DataFrame = sweep()
    frame = frame[frame["language"] != "fil"]
    assert {key[1] for key in sweep_marks(frame) if key[0] == "mean"} == {"HRL"}
    assert is_published(HUB, "xm3600:xm3600-1k@0123abcd")
    assert not is_published("emoji-causal", "emoji-36")
