from typing import Any

import pandas as pd
import pytest

from analyses import Analysis, baseline
from tests.analyses.factory import frozen_score, make_frame
from workbench.errors import InputError


def drawn(answer: Analysis) -> Any:
    assert answer.figure is not None
    return answer.figure


def trace(figure: Any, name: str, visible: bool = True) -> Any:
    return next(t for t in figure.data if t.name == name and t.visible is visible)


def test_dots_and_intervals_are_those_of_the_frame() -> None:
    dots = trace(baseline(make_frame()).figure, "language")
    assert list(dots.x) == [frozen_score(code) for code in ("en", "de", "sw", "te")]
    assert list(dots.error_x.array) == [3.0] * 4
    assert list(dots.error_x.arrayminus) == [2.0] * 4


def test_languages_stand_under_their_tier_with_its_mean() -> None:
    figure = drawn(baseline(make_frame()))
    assert list(figure.layout.yaxis.ticktext) == [
        "<b>mean of HRL</b>", "English (en)", "German (de)", "<b>mean of LRL</b>", "Swahili (sw)", "Telugu (te)",
    ]  # fmt: skip
    line = next(t for t in figure.data if t.mode == "lines" and t.line.width and t.visible)
    assert set(line.x) == {(frozen_score("en") + frozen_score("de")) / 2}
    band = next(t for t in figure.data if t.fill == "toself" and t.visible)
    assert set(band.x) == {line.x[0] - 2, line.x[0] + 3}


def test_the_button_shows_the_other_direction() -> None:
    figure = drawn(baseline(make_frame()))
    button = figure.layout.updatemenus[0].buttons[1]
    shown = [t for t, visible in zip(figure.data, button.args[0]["visible"], strict=True) if visible]
    dots = next(t for t in shown if t.name == "language")
    assert list(dots.x) == [frozen_score(code, "t2i") for code in ("en", "de", "sw", "te")]
    assert "t2i" in button.args[1]["xaxis.title.text"]


def test_table_has_every_metric_in_both_directions() -> None:
    table = baseline(make_frame()).table.set_index("name")
    assert table.loc["Swahili (sw)", "t2i MRR"] == frozen_score("sw", "t2i", "MRR")
    assert table.loc["Swahili (sw)", "i2t MRR high"] == frozen_score("sw", "i2t", "MRR") + 3
    assert table.loc["mean of LRL", "i2t R@1"] == (frozen_score("sw") + frozen_score("te")) / 2
    assert set(table["n"]) == {200}


def test_title_says_n_and_caption_names_the_tiers() -> None:
    answer = baseline(make_frame(), metric="MRR")
    assert "MRR" in answer.title
    assert "n = 200 images" in answer.title
    assert "'toy-map'" in answer.caption


def test_a_language_keeps_its_colour_whoever_is_beside_it() -> None:
    alone = trace(baseline(make_frame({"sw": "LRL"})).figure, "language")
    among = trace(baseline(make_frame()).figure, "language")
    assert alone.marker.color[0] == among.marker.color[2]


def test_without_tiers_there_are_no_lines() -> None:
    answer = baseline(make_frame({"sw": "", "en": ""}))
    assert not [t for t in drawn(answer).data if t.mode == "lines"]
    assert "No language has a tier" in answer.caption


def test_one_direction_needs_no_button() -> None:
    figure = drawn(baseline(make_frame(directions=["t2i"]), direction="t2i"))
    assert not figure.layout.updatemenus


def test_the_frozen_tower_alone_is_enough() -> None:
    frame = make_frame(depths=[9])
    assert len(baseline(frame[frame["intervention"] == "none"]).table) == 6


def test_unseen_captions_are_hollow() -> None:
    unseen = pd.DataFrame(
        {"language": ["sw"], "direction": "i2t", "metric": "R@1", "value": 11.0, "low": 9.0, "high": 14.0, "n": 40}
    )
    answer = baseline(make_frame(), unseen=unseen)
    dots = trace(answer.figure, "unseen captions")
    assert (list(dots.x), list(dots.error_x.array)) == ([11.0], [3.0])
    assert "n = 40" in dots.hovertext[0]
    table = answer.table.set_index("language")
    assert table.loc["sw", "unseen i2t R@1"] == 11.0
    assert "never saw" in answer.caption
    with pytest.raises(InputError, match="language 'xx'"):
        baseline(make_frame(), unseen=unseen.assign(language="xx"))
    with pytest.raises(InputError, match="lacks n"):
        baseline(make_frame(), unseen=unseen.drop(columns="n"))
