import json
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest
from plotly.subplots import make_subplots

from analyses import baseline, checkpoint_table, rescue_figure, rescue_grid
from analyses.export_browser import Box, Chrome, Drawing, run
from analyses.export_fit import MOST_HEIGHT, DoesNotFitError, fitted
from analyses.export_print import BODY
from analyses.export_states import states
from analyses.theme import TEMPLATE, language_name
from tests.analyses.factory import make_frame
from workbench.errors import InputError
from workbench.languages import XM3600_LANGUAGES, tiers

WIDTHS = {"column": 312, "text": 648}


def has_browser() -> bool:
    try:
        Chrome()
    except InputError:
        return False
    return True


pytestmark = pytest.mark.skipif(not has_browser(), reason="needs Chrome or Chromium")


def content_of(figure: go.Figure | None) -> dict[str, Any]:
    assert figure is not None
    content = json.loads(str(figure.to_json()))
    return {"data": content["data"], "layout": content["layout"]}


def frame_of(languages: dict[str, str], depths: Sequence[int]) -> pd.DataFrame:
    """A sweep of many languages, each with the numbers of Swahili, or of German where it leads."""
    base = make_frame(depths=depths)
    parts = [base[base["language"] == "mean"]]
    for code, tier in languages.items():
        parts.append(base[base["language"] == ("de" if tier == "HRL" else "sw")].assign(language=code, tier=tier))
    return pd.concat(parts, ignore_index=True)


def figures() -> dict[str, dict[str, Any]]:
    depths = (0, 3, 6, 9, 10, 11, 12)
    everything = dict.fromkeys(XM3600_LANGUAGES, "") | tiers("s3")
    frame = frame_of(everything, depths)
    some = frame_of({code: tier for code, tier in everything.items() if tier}, depths)
    codes = list(XM3600_LANGUAGES)
    matrix = go.Figure(go.Heatmap(z=[[1.0] * 36] * 36, x=codes, y=codes, colorbar={"title": "CKA of pooled rows"}))
    cloud = go.Figure(
        [go.Scatter(x=[0, 1e4], y=[0, 1e-5], name=f"a name that is rather long, number {k}") for k in "ab"]
    )
    cloud.add_annotation(x=1e4, y=1e-5, text="a note that says at length what this point is", showarrow=False)
    cloud.update_xaxes(title="the first principal component of the rows, after each language's mean is taken away")
    cloud.update_yaxes(title="a title of a vertical axis that is longer than the axis itself, as such titles often are")
    pair = make_subplots(1, 2, subplot_titles=["a heading that is longer than its panel is wide"] * 2)
    for column in (1, 2):
        pair.add_trace(go.Scatter(x=[0, 1], y=[0, 1], name=f"line {column}"), 1, column)
    for figure in (matrix, cloud, pair):
        figure.update_layout(template=TEMPLATE, title="A title that goes on for longer than a line (n = 36 languages)")
    return {
        "baseline": content_of(baseline(frame).figure),
        "checkpoint": content_of(checkpoint_table(frame).figure),
        "rescue": content_of(rescue_figure(some).figure),
        "grid": content_of(rescue_grid(some).figure),
        "matrix": content_of(matrix),
        "cloud": content_of(cloud),
        "pair": content_of(pair),
    }


@pytest.fixture(scope="module")
def drawn() -> dict[tuple[str, str], tuple[Drawing, list[Box]] | InputError]:
    """Each figure at each width, with the boxes of its texts: one browser for all."""

    async def work() -> dict[tuple[str, str], tuple[Drawing, list[Box]] | InputError]:
        found: dict[tuple[str, str], tuple[Drawing, list[Box]] | InputError] = {}
        async with Chrome() as chrome:
            for name, figure in figures().items():
                for key, width in WIDTHS.items():
                    (state,) = states(figure, every=False, name=name)
                    try:
                        drawing = await fitted(chrome, state, width, name)
                    except InputError as error:
                        found[name, key] = error
                    else:
                        found[name, key] = drawing, await chrome.measure(drawing)
        return found

    return run(work())


FIT = [
    (name, key) for name in ("baseline", "checkpoint", "rescue", "grid", "matrix", "cloud", "pair") for key in WIDTHS
]
FIT.remove(("matrix", "column"))


@pytest.fixture(params=FIT, ids="-".join)
def one(request: pytest.FixtureRequest, drawn: dict) -> tuple[Drawing, list[Box]]:
    result = drawn[request.param]
    assert not isinstance(result, InputError), result
    return result


def test_every_text_stands_inside(one: tuple[Drawing, list[Box]]) -> None:
    drawing, boxes = one
    assert len(boxes) > 8
    for box in boxes:
        assert box.left >= -0.1, box
        assert box.top >= -0.1, box
        assert box.right <= drawing.width + 0.1, box
        assert box.bottom <= drawing.height + 0.1, box


def test_no_room_is_wasted(one: tuple[Drawing, list[Box]]) -> None:
    drawing, boxes = one
    assert min(box.left for box in boxes) < 8
    assert min(box.top for box in boxes) < 8
    assert max(box.bottom for box in boxes) > drawing.height - 8
    assert max(box.bottom for box in boxes if box.kind != "legend") - min(box.top for box in boxes) < MOST_HEIGHT + 1
    assert drawing.height <= MOST_HEIGHT + 1


def test_type_has_8_or_9_points(one: tuple[Drawing, list[Box]]) -> None:
    _, boxes = one
    for box in boxes:
        assert not box.text or 8 <= round(box.size * 72 / 96, 2) <= 9, box


def test_no_two_texts_overlap(one: tuple[Drawing, list[Box]]) -> None:
    _, boxes = one
    texts = [box for box in boxes if box.text.strip()]
    for a, b in combinations(texts, 2):
        across = min(a.right, b.right) - max(a.left, b.left)
        down = min(a.bottom, b.bottom) - max(a.top, b.top)
        # A box of type is taller than its letters, so lines may come a little closer than their boxes.
        assert across < 1.5 or down < 0.25 * BODY, (a, b)


def test_the_legend_stands_below_all_else(one: tuple[Drawing, list[Box]]) -> None:
    _, boxes = one
    legend = [box.top for box in boxes if box.kind == "legend"]
    rest = [box.bottom for box in boxes if box.kind != "legend"]
    assert not legend or min(legend) >= max(rest) - 0.5
    title = [box.bottom for box in boxes if box.kind == "title"]
    assert title
    assert max(title) <= min(box.top for box in boxes if box.kind != "title") + 0.5


def test_what_is_shown_first_is_said(drawn: dict) -> None:
    for key in WIDTHS:
        _, boxes = drawn["rescue", key]
        (title,) = [box.text for box in boxes if box.kind == "title"]
        assert "image to text (i2t), mean of LRL" in title
        assert "n = 200" in title
        assert {"parallel en", "noise", "en itself, no patch"} <= {box.text for box in boxes if box.kind == "legend"}


def test_panels_share_the_labels_of_their_axes(drawn: dict) -> None:
    heads = {language_name(code) for code in tiers("s3")} | {"mean of HRL", "mean of LRL"}
    for key, columns in (("column", 3), ("text", 5)):
        drawing, boxes = drawn["grid", key]
        notes = {box.text.replace("\u200b", ""): box for box in boxes if box.kind == "note"}
        assert set(notes) == heads
        lefts = sorted({round(box.left) for box in notes.values()})
        assert len(lefts) == columns
        rows = -(-len(heads) // columns)
        zeros = [box for box in boxes if box.kind == "ytick" and box.text == "0"]
        assert len(zeros) == rows
        assert all(box.right < lefts[0] + 8 for box in zeros)
        # One panel in each column has labels below it.
        assert sum(box.kind == "xtick" and box.text.startswith("12") for box in boxes) == columns
        assert drawing.height < 9 * 96


def test_every_language_of_a_matrix_is_named(drawn: dict) -> None:
    _, boxes = drawn["matrix", "text"]
    for kind in ("xtick", "ytick"):
        assert {box.text for box in boxes if box.kind == kind} >= set(XM3600_LANGUAGES)
    error = drawn["matrix", "column"]
    assert isinstance(error, DoesNotFitError)
    assert error.needed is not None
    assert 3.25 < error.needed < 6.75
    assert "'matrix' (about" in str(error)


def test_a_browser_that_stops_is_one_clear_error() -> None:
    async def work() -> None:
        async with Chrome() as chrome:
            chrome._kaleido.subprocess.kill()
            await chrome.draw("x", content_of(go.Figure()), 300, 300)

    with pytest.raises(InputError, match="The browser stopped while it drew"):
        run(work())


def test_nothing_outside_is_fetched_and_no_script_of_a_drawing_runs() -> None:
    script = "fetch('data:,x').then(() => 'fetched', () => 'refused')"

    async def work() -> tuple[list[str], str]:
        async with Chrome() as chrome:
            drawing = await chrome.draw("x", content_of(go.Figure(layout={"title": "<script>1</script>"})), 300, 300)
            evil = drawing.svg.replace("</svg>", "<script>document.title='broken'</script></svg>")
            await chrome._show(Drawing("x", {}, 300, 300, evil), "fine")
            title = await chrome._command("Runtime.evaluate", expression="document.title")
            answers = [
                await tab.send_command("Runtime.evaluate", params={"expression": script, "awaitPromise": True})
                for tab in chrome._kaleido.tabs.values()
            ]
            return [answer["result"]["result"]["value"] for answer in answers], title["result"]["value"]

    answers, title = run(work())
    assert len(answers) == 2
    assert set(answers) == {"refused"}
    assert title == "fine"
