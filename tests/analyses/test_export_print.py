import re
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go
import pytest

from analyses import rescue_figure
from analyses.export_print import BODY, FONT, HEAD, SCALE, printed, text_width, thinned, wrapped
from analyses.export_states import State, states
from tests.analyses.factory import make_frame


def opened(figure: go.Figure) -> State:
    content = figure.to_plotly_json()
    (state,) = states({"data": content["data"], "layout": content["layout"]}, every=False, name="x")
    return state


def fonts(part: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    if isinstance(part, list | tuple):
        return [font for place, item in enumerate(part) for font in fonts(item, f"{path}[{place}]")]
    if not isinstance(part, dict):
        return []
    own = [(f"{path}.{key}", value) for key, value in part.items() if key.endswith("font") and isinstance(value, dict)]
    return own + [font for key, value in part.items() for font in fonts(value, f"{path}.{key}")]


@pytest.fixture(scope="module")
def rescue() -> State:
    figure = rescue_figure(make_frame(depths=range(13))).figure
    assert figure is not None
    return opened(figure)


def test_all_type_has_8_points_and_the_title_9(rescue: State) -> None:
    figure = printed(rescue, 312, "x")
    sizes = {path: font.get("size") for path, font in fonts(figure)}
    points = [size * 72 / 96 for size in (BODY, HEAD)]
    assert points == pytest.approx([8, 9])
    assert sizes.pop(".layout.title.font") == HEAD
    assert len(sizes) > 8
    assert set(sizes.values()) == {BODY}
    families = {font.get("family") for _, font in fonts(figure)}
    assert families == {FONT, None}


def test_nothing_is_left_that_only_a_pointer_can_use(rescue: State) -> None:
    figure = printed(rescue, 312, "x")
    assert rescue.figure["data"][0]["visible"] is True
    assert not {"updatemenus", "sliders", "hovermode"} & set(figure["layout"])
    assert all(not {key for key in trace if key.startswith("hover")} for trace in figure["data"])
    # One direction is shown; the other has no place on paper.
    assert len(figure["data"]) == len(rescue.figure["data"]) / 2
    assert figure["layout"]["title"]["subtitle"]["text"] == "image to text (i2t), mean of LRL"
    assert figure["layout"]["legend"]["orientation"] == "h"


def test_the_numbers_stay_and_their_marks_shrink_with_the_type(rescue: State) -> None:
    figure = printed(rescue, 312, "x")
    for old, new in zip(rescue.figure["data"], figure["data"], strict=False):
        assert list(new["x"]) == list(old["x"])
        assert list(new["y"]) == list(old["y"])
        assert new["line"]["width"] == pytest.approx(SCALE * old["line"]["width"])
    styles = [(trace["line"]["color"], trace["line"]["dash"]) for trace in figure["data"] if trace.get("name")]
    assert len(set(styles)) == len(styles) == 7


def test_a_column_takes_the_layout_of_narrow_screens(rescue: State) -> None:
    column, page = (printed(rescue, width, "x")["layout"] for width in (312, 648))
    assert column["xaxis"]["title"]["text"] == "depth, <i>block</i>"
    assert page["xaxis"]["title"]["text"].startswith("depth (blocks that have run)")
    assert len(column["xaxis"]["tickvals"]) < len(page["xaxis"]["tickvals"]) == 13
    assert "meta" not in page


def test_every_category_is_labelled() -> None:
    codes = [f"l{k}" for k in range(40)]
    figure = printed(opened(go.Figure(go.Heatmap(z=[[0] * 40] * 2, x=codes, y=["2020-01-01", "2021-01-01"]))), 648, "x")
    assert figure["layout"]["xaxis"] | {"dtick": 1, "tickmode": "linear"} == figure["layout"]["xaxis"]
    assert "dtick" not in figure["layout"]["yaxis"]
    numbers = printed(opened(go.Figure(go.Bar(x=["0", "6", "12"], y=[1, 2, 3]))), 648, "x")
    assert "dtick" not in numbers["layout"]["xaxis"]


@pytest.mark.parametrize("room", [40, 70, 120, 400])
@pytest.mark.parametrize(
    "text",
    [
        "depth (blocks that have run); in italics the <i>block</i>, counted from 0",
        "a &lt;very&gt; long&#37;{x} word: Donaudampfschifffahrtsgesellschaftskapitän",
        "日本語の文字は幅が広いので、行を折り返す必要がある",
        '<span style="color: red">a span with blanks in it</span> and<br>a break',
        "दाँत दिखाता चेहरा",
    ],
)
def test_lines_are_no_wider_than_their_room(text: str, room: float) -> None:
    lines = wrapped(text, room).split("<br>")
    assert all(text_width(line) <= room + 1e-9 for line in lines)
    squeezed = [re.sub(r" |<br>", "", part) for part in (text, "".join(lines))]
    assert squeezed[0] == squeezed[1]
    assert text_width(text) <= room or len(lines) > text.count("<br>") + 1
    for line in lines:
        assert line.count("<span") == line.count('red">')
        assert not re.search(r"&(lt|gt|#37)?$", line)


def test_ticks_are_thinned_evenly_and_keep_the_last() -> None:
    ticks = [float(tick) for tick in range(25)]
    texts = [f"{tick:.0f}" for tick in ticks]
    counts = []
    for room in (10, 60, 100, 200, 400):
        kept, labels = thinned(ticks, texts, room, 25)
        assert kept[-1] == 24
        assert len({b - a for a, b in pairwise(kept)}) <= 1
        assert labels == [f"{tick:.0f}" for tick in kept]
        for a, b in pairwise(kept):
            assert (b - a) * room / 25 > (text_width(f"{a:.0f}") + text_width(f"{b:.0f}")) / 2
        counts.append(len(kept))
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert thinned(ticks, texts, 1000, 25) == (ticks, texts)


def test_ticks_that_crowd_are_thinned_where_they_crowd() -> None:
    ticks = [0.0, 4.0, 8.0, 9.0, 10.0, 11.0, 12.0]
    kept, _ = thinned(ticks, [f"{tick:.0f}" for tick in ticks], 120, 13)
    assert kept == [0, 4, 8, 10, 12]
    assert thinned([], [], 10, 1) == ([], [])
    assert thinned([3.0], ["3"], 1, 0) == ([3.0], ["3"])
