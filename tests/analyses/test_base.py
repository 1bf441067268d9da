import json
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest

from analyses import Analysis
from analyses.base import json_script
from workbench.errors import InputError


def answer(name: str = "answer") -> Analysis:
    table = pd.DataFrame({"language": ["sw"], "R@1": [22.123456789], "R@1 low": [20.0], "R@1 high": [25.0]})
    figure = go.Figure(go.Scatter(x=[1, 2], y=[0.1, 0.2], name="</script>"))
    return Analysis(name, "A title & <more>", table, figure, "A caption <script>alert(1)</script>")


def test_files_and_their_content(tmp_path: Path) -> None:
    paths = answer().save(tmp_path / "figures")
    assert {path.name for path in paths} == {"answer.csv", "answer.json", "answer.html"}
    read = pd.read_csv(tmp_path / "figures/answer.csv")
    assert read["R@1"].tolist() == [22.123456789]
    figure = json.loads((tmp_path / "figures/answer.json").read_text())
    assert figure["data"][0]["y"] == [0.1, 0.2]


def test_pages_share_one_plotly_and_need_no_network(tmp_path: Path) -> None:
    answer().save(tmp_path)
    answer("other").save(tmp_path)
    assert len(list(tmp_path.glob("*.js"))) == 1
    page = (tmp_path / "answer.html").read_text()
    assert '<script src="plotly.min.js">' in page
    assert "http" not in page
    assert "<script>alert" not in page


def test_same_input_same_bytes(tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in answer().save(tmp_path / "a")}
    second = {path.name: path.read_bytes() for path in answer().save(tmp_path / "b")}
    assert first == second


def test_without_a_figure_there_is_a_table(tmp_path: Path) -> None:
    plain = Analysis("plain", "t", pd.DataFrame({"a": [1]}), None, "c")
    assert [path.name for path in plain.save(tmp_path)] == ["plain.csv"]
    assert not (tmp_path / "plotly.min.js").exists()


def test_a_number_is_read_with_its_interval() -> None:
    readable = answer().readable()
    assert list(readable.columns) == ["language", "R@1"]
    assert readable["R@1"].tolist() == ["22.1 [20.0, 25.0]"]


@pytest.mark.parametrize("name", ["", "a/b", "../a", "ä", "a b"])
def test_names_that_are_no_file_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="files need a name"):
        answer(name)


def test_data_in_a_page_cannot_end_its_element() -> None:
    evil = "</script><!-- \u2028 \u2029 <b> &amp;"
    script = json_script("x", {"caption": evil})
    inside = script.split(">", 1)[1].rsplit("</script>", 1)[0]
    assert not set("<>&\u2028\u2029") & set(inside)
    assert json.loads(inside) == {"caption": evil}
