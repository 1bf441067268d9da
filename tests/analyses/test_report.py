import base64
import gzip
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analyses import Analysis, baseline, checkpoint_table, patch_browser, rescue_figure, rescue_grid, write_report
from analyses.base import template
from analyses.report import SHOWN_ROWS, flattened
from tests.analyses.factory import make_corpus, make_frame, make_result
from workbench.errors import InputError

DEPTHS = (0, 6, 9, 12)
EVIL = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\"><!-- \u2028"


class Page(HTMLParser):
    """What an HTML parser, and so a browser, makes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self.code: list[str] = []
        self.text = ""
        self._in: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._in = dict(attrs).get("id") or tag
            if tag == "script":
                self.scripts[self._in] = ""
                self.code += [] if "id" in dict(attrs) else [""]

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._in = None

    def handle_data(self, data: str) -> None:
        if self._in is None:
            self.text += data
        elif self._in in self.scripts:
            self.scripts[self._in] += data
            if self._in == "script":
                self.code[-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def write(path: Path, **changes: Any) -> str:
    corpus = make_corpus(12, captions=dict.fromkeys(range(12), EVIL))
    frame = make_frame(interventions={"parallel en": "en", EVIL: "", "noise": ""}, depths=DEPTHS)
    inputs: dict[str, Any] = {
        "title": f"A title {EVIL}",
        "verdict": f"A verdict {EVIL}",
        "evidence": [("Gap", "24 points"), (EVIL, EVIL)],
        "analyses": [baseline(frame), checkpoint_table(frame), rescue_figure(frame), rescue_grid(frame)],
        "browser": patch_browser(make_result(corpus), corpus, captions=3),
        "caveats": ["One draw.", EVIL],
        "provenance": {"config": {"tower": {"name": EVIL}, "languages": ["en", "sw"]}, EVIL: None},
    }
    return write_report(path, **(inputs | changes)).read_text("utf-8")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_texts_of_users_are_texts(page: Page, text: str) -> None:
    assert page.text.count("document.title='broken'") >= 8
    assert not page.all("img")
    assert all("broken" not in code for code in page.code)
    assert all("onerror" not in attrs for _, attrs in page.tags)
    # Two scripts that run, and data.
    assert len(page.code) == 2
    assert all(attrs.get("type") == "application/json" for attrs in page.all("script") if "id" in attrs)
    assert EVIL not in text


def test_captions_reach_the_browser_unharmed(page: Page) -> None:
    data = json.loads(page.scripts["patch-browser-data"])
    assert data["captions"]["sw"] == [EVIL] * 3
    assert "innerHTML" not in template("browser.js") + template("figures.js")


def test_the_verdict_comes_first_and_headings_are_in_order(page: Page) -> None:
    names = [tag for tag, _ in page.tags]
    assert names.index("p") < names.index("h2")
    levels = [int(tag[1]) for tag in names if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    order = [
        page.text.index(word) for word in ("A verdict", "24 points", "Frozen tower", "One draw.", "config.tower.name")
    ]
    assert order == sorted(order)


def test_nothing_is_fetched(page: Page) -> None:
    for tag, attrs in page.tags:
        for name in ("src", "href", "data", "action", "srcset", "poster"):
            value = attrs.get(name)
            assert value is None or value.startswith("#"), (tag, name, value)
    assert "link" not in [tag for tag, _ in page.tags]
    assert "@import" not in template("report.css")
    assert "url(" not in template("report.css")
    assert not re.search(r"fetch\(|XMLHttpRequest|https?:|WebSocket", template("figures.js") + template("browser.js"))


def test_only_the_pages_own_scripts_may_run(page: Page) -> None:
    policy = next(attrs["content"] for attrs in page.all("meta") if "http-equiv" in attrs) or ""
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    hashes = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in page.code]
    assert rules["script-src"] == " ".join(f"'sha256-{value}'" for value in hashes)
    assert rules["default-src"] == "'none'"


def test_plotly_is_there_once_and_may_not_upload(text: str) -> None:
    assert text.count("plotly.js v") == 1
    assert "showSendToCloud: false" in text


def test_figures_keep_their_numbers(page: Page) -> None:
    figure = json.loads(page.scripts["figure-baseline-data"])
    dots = next(trace for trace in figure["data"] if trace.get("name") == "language")
    assert dots["x"] == [80, 65, 50, 35]
    assert "title" not in figure["layout"]


def test_tables_and_their_csv_are_in_the_page(page: Page) -> None:
    frame = make_frame(interventions={"parallel en": "en", EVIL: "", "noise": ""}, depths=DEPTHS)
    packed = json.loads(page.scripts["csv-rescue"])
    csv = gzip.decompress(base64.b64decode(packed["gzip"])).decode()
    assert csv == rescue_figure(frame).csv()
    assert len(rescue_figure(frame).table) > SHOWN_ROWS
    assert f"the first {SHOWN_ROWS} of" in page.text
    # The grid has the same numbers; they are not there twice.
    assert "csv-rescue-grid" not in page.scripts
    assert "80.0 [78.0, 83.0]" in page.text


def test_controls_have_labels(page: Page) -> None:
    labelled = {attrs.get("for") for attrs in page.all("label")}
    for control in [*page.all("select"), *page.all("input")]:
        assert control["id"] in labelled
    assert page.all("html")[0]["lang"] == "en"
    assert "picture.alt = name" in template("browser.js")
    assert 'element.dir = "auto"' in template("browser.js")


def test_ids_are_unique(page: Page) -> None:
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_same_inputs_same_bytes(tmp_path: Path, text: str) -> None:
    assert write(tmp_path / "again.html") == text


def test_a_page_may_be_short(tmp_path: Path) -> None:
    plain = Analysis("plain", "Only a table", pd.DataFrame({"a": ["x"]}), None, "c")
    path = write_report(tmp_path / "new/report.html", title="t", verdict="v", evidence=[], analyses=[plain])
    page = Page(path.read_text("utf-8"))
    assert "Only a table" in page.text
    assert "patch-browser-data" not in page.scripts
    assert len(page.code) == 2


def test_two_sections_of_one_name_and_an_empty_verdict_are_refused(tmp_path: Path) -> None:
    plain = Analysis("plain", "t", pd.DataFrame({"a": ["x"]}), None, "c")
    taken = Analysis("caveats", "t", pd.DataFrame({"a": ["x"]}), None, "c")
    for analyses in ([plain, plain], [taken]):
        with pytest.raises(InputError, match="give each its own name"):
            write_report(tmp_path / "r.html", title="t", verdict="v", evidence=[], analyses=analyses)
    with pytest.raises(InputError, match="verdict is empty"):
        write_report(tmp_path / "r.html", title="t", verdict=" ", evidence=[], analyses=[])
    assert not (tmp_path / "r.html").exists()


def test_provenance_is_readable() -> None:
    content = {"a": {"b": 1, "c": ["x", "y"]}, "d": [{"e": None}], "f": [], "g": {}}
    assert flattened(content) == [("a.b", "1"), ("a.c", "x, y"), ("d[0].e", "none"), ("f", "none"), ("g", "none")]


CHROMIUM = os.environ.get("BROWSER_PATH") or shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chrome or Chromium")
def test_a_real_browser_draws_it_and_runs_nothing_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.html").write_text(text, "utf-8")
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        "--no-first-run", f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=1500", "--dump-dom",
        (tmp_path / "report.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    dom = Page(done.stdout.decode("utf-8"))
    assert "<title>broken" not in done.stdout.decode("utf-8")
    drawn = [attrs for attrs in dom.all("svg") if "main-svg" in (attrs.get("class") or "")]
    assert len(drawn) >= 4
    pictures = dom.all("img")
    assert len(pictures) == 10
    assert all(picture["alt"] and (picture["src"] or "").startswith("data:image/png") for picture in pictures)
    assert any(attrs.get("lang") == "sw" and attrs.get("dir") == "auto" for attrs in dom.all("dd"))
    # Names that a user gave appear as they are, also inside a figure.
    assert html.unescape("noise") in dom.text
    assert "document.title='broken'" in dom.text
