import copy
from typing import Any

import pytest

from analyses import rescue_figure, rescue_grid
from analyses.export_states import MOST_STATES, State, assign, plain, states
from tests.analyses.factory import make_frame, patched_score
from workbench.errors import InputError


def figure_of(analysis: Any) -> dict[str, Any]:
    content = analysis.figure.to_plotly_json()
    return {"data": content["data"], "layout": content["layout"]}


@pytest.fixture(scope="module")
def rescue() -> dict[str, Any]:
    return figure_of(rescue_figure(make_frame(depths=(0, 6, 12))))


def visible(figure: dict[str, Any]) -> list[int]:
    return [place for place, trace in enumerate(figure["data"]) if trace.get("visible", True) is True]


def is_parallel_line(state: State, place: int) -> bool:
    """Whether a trace is the line of the parallel rows."""
    trace = state.figure["data"][place]
    return trace.get("name") == "parallel en" and trace.get("showlegend", True)


def test_the_first_state_is_what_the_file_opens_with(rescue: dict[str, Any]) -> None:
    before = copy.deepcopy(rescue)
    (state,) = states(rescue, every=False, name="rescue")
    assert state.label == "image to text (i2t), mean of LRL"
    assert "updatemenus" not in state.figure["layout"]
    assert state.figure["data"] == rescue["data"]
    assert rescue == before


def test_every_state_is_what_the_buttons_give(rescue: dict[str, Any]) -> None:
    found = {state.label: state for state in states(rescue, every=True, name="rescue")}
    # Two directions, two tier means and four languages.
    assert len(found) == 2 * 6
    assert next(iter(found)) == "image to text (i2t), mean of LRL"
    swahili = found["text to image (t2i), Swahili (sw)"]
    assert swahili.slug == "text-to-image-t2i--Swahili-sw"
    assert swahili.figure["layout"]["yaxis"]["title"]["text"] == "R@1, text to image (t2i), %"
    half = len(rescue["data"]) // 2
    assert visible(swahili.figure) == list(range(half, 2 * half))
    (curve,) = [swahili.figure["data"][place] for place in visible(swahili.figure) if is_parallel_line(swahili, place)]
    assert list(curve["y"]) == [patched_score("sw", "parallel en", depth, "t2i") for depth in (0, 6, 12)]
    assert len({state.slug for state in found.values()}) == 12


def test_a_restyle_goes_round_its_traces() -> None:
    button = {"method": "restyle", "label": "b", "args": [{"y": [[1], [2]], "line.dash": "dot"}, [2, 0, 1]]}
    menu = {"buttons": [{"method": "skip", "label": "a"}, button]}
    figure = {"data": [{"y": [0]}, {"y": [0]}, {"y": [0], "line": {"width": 3}}], "layout": {"updatemenus": [menu]}}
    _, pressed = states(figure, every=True, name="x")
    assert [trace["y"] for trace in pressed.figure["data"]] == [[2], [1], [1]]
    assert pressed.figure["data"][2]["line"] == {"width": 3, "dash": "dot"}


def test_sliders_are_choices_too() -> None:
    steps = [
        {"label": str(k), "method": "update", "args": [{"visible": [k == 0, k == 1]}, {"title": k}]} for k in (0, 1)
    ]
    slider = {"active": 1, "currentvalue": {"prefix": "depth "}, "steps": steps}
    figure = {"data": [{"visible": False}, {"visible": True}], "layout": {"sliders": [slider], "title": 1}}
    first, second = states(figure, every=True, name="x")
    assert (first.label, second.label) == ("depth 1", "depth 0")
    assert visible(second.figure) == [0]
    assert second.figure["layout"] == {"title": 0}


def test_slugs_differ_where_letters_are_not_latin() -> None:
    buttons = [{"method": "skip", "label": text} for text in ("हिन्दी", "తెలుగు", "a <b>bold</b> &amp; R@1")]
    found = states({"data": [], "layout": {"updatemenus": [{"buttons": buttons}]}}, every=True, name="x")
    assert [state.slug for state in found] == ["choice-1", "choice-2", "a-bold-Rat1"]


def test_what_paper_cannot_show_is_refused() -> None:
    animate = [{"method": "skip", "label": "a"}, {"method": "animate", "label": "b", "args": [None]}]
    figure = {"data": [], "layout": {"updatemenus": [{"buttons": animate}]}}
    assert len(states(figure, every=False, name="x")) == 1
    with pytest.raises(InputError, match="animate"):
        states(figure, every=True, name="x")
    many = {"buttons": [{"method": "skip", "label": str(k)} for k in range(21)]}
    with pytest.raises(InputError, match=f"441 figures.*at most {MOST_STATES}"):
        states({"data": [], "layout": {"updatemenus": [many, many]}}, every=True, name="x")


def test_a_button_that_leads_nowhere_is_refused() -> None:
    for args in ([{"y": [[1]]}, [3]], [{"y": 1}, ["__proto__"]]):
        buttons = [{"method": "skip", "label": "a"}, {"method": "restyle", "label": "b", "args": args}]
        with pytest.raises(InputError, match="a trace that the figure doesn't have"):
            states({"data": [{}], "layout": {"updatemenus": [{"buttons": buttons}]}}, every=True, name="x")


def test_paths_are_those_of_plotly() -> None:
    layout: dict[str, Any] = {"title": "plain", "annotations": [{"x": 0}, {"x": 1}]}
    for path, value in (("title.font.size", 9), ("annotations[1].x", 5), ("xaxis2.domain", [0, 1]), ("height", None)):
        assign(layout, path, value, "x")
    assert layout == {
        "title": {"text": "plain", "font": {"size": 9}},
        "annotations": [{"x": 0}, {"x": 5}],
        "xaxis2": {"domain": [0, 1]},
    }
    for path in ("annotations[7].x", "annotations.x", "", "title.font.size.deep.er"):
        with pytest.raises(InputError, match="which it doesn't have"):
            assign(layout, path, 1, "x")


def test_texts_without_tags() -> None:
    assert plain("<b>a</b><br>b &lt;c&gt; &#37;{x}") == "a b <c> %{x}"


def test_panels_keep_their_places_in_every_state() -> None:
    grid = figure_of(rescue_grid(make_frame(depths=(0, 6, 12))))
    i2t, t2i = states(grid, every=True, name="grid")
    assert set(visible(i2t.figure)) | set(visible(t2i.figure)) == set(range(len(grid["data"])))
    assert not set(visible(i2t.figure)) & set(visible(t2i.figure))
