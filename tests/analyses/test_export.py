import asyncio
import json
import logging
import re
import shutil
import subprocess
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest
from PIL import Image

from analyses import Analysis, baseline, checkpoint_table, rescue_figure, rescue_grid
from analyses.export import FORMATS, export_run, parse_width
from analyses.theme import TEMPLATE, label
from tests.analyses.factory import make_frame
from tests.analyses.test_export_fit import has_browser
from workbench.corpora import load_corpus
from workbench.errors import InputError

EVIL = "<img src=x onerror=1> & %{x} \\input $x$ </text><script>1</script>"
needs_browser = pytest.mark.skipif(not has_browser(), reason="needs Chrome or Chromium")
needs_poppler = pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs poppler-utils")


def make_run(folder: Path, analyses: list[Analysis]) -> Path:
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps({"schema": 1, "versions": {}}), "utf-8")
    for analysis in analyses:
        analysis.save(folder / "figures")
    return folder


@pytest.fixture
def plain_run(tmp_path: Path) -> Path:
    frame = make_frame(depths=(0, 9, 12))
    folder = make_run(tmp_path / "run", [baseline(frame), checkpoint_table(frame)])
    frame.to_parquet(folder / "results.parquet")
    return folder


# -- without a browser -------------------------------------------------------------------------------


@pytest.fixture
def no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER_PATH", "/nowhere/chrome")


@pytest.mark.usefixtures("no_browser")
def test_tables_need_no_browser_and_keep_every_digit(plain_run: Path) -> None:
    written = export_run(plain_run, ["csv", "tex"])
    assert [path.name for path in written] == [
        f"{name}.{kind}" for name in ("baseline", "checkpoint", "results") for kind in ("csv", "tex")
    ]
    assert all(path.parent == plain_run / "export" and path.is_file() for path in written)
    figures = plain_run / "figures"
    assert (plain_run / "export" / "baseline.csv").read_bytes() == (figures / "baseline.csv").read_bytes()
    read = pd.read_csv(plain_run / "export" / "results.csv")
    frame = make_frame(depths=(0, 9, 12))
    assert read["value"].tolist() == frame["value"].tolist()
    assert len(read) == len(frame)


@pytest.mark.usefixtures("no_browser")
def test_a_table_takes_title_and_caption_of_its_analysis(tmp_path: Path) -> None:
    analysis = baseline(make_frame(interventions={EVIL: ""}, depths=(0, 12)))
    run = make_run(tmp_path / "run", [analysis])
    (path,) = export_run(run, ["tex"], width="column")
    text = path.read_text("utf-8")
    assert r"\caption{Frozen tower: R@1 by language (n = 200 images). toy-tower on toy-corpus" in text
    assert r"\label{tab:baseline}" in text
    assert r"\begin{table}" in text
    # An analysis without a figure has no page of its own; its words are in the report.
    (run / "figures" / "baseline.html").unlink()
    (run / "report.html").write_text(
        '<section id="other"><h2>No</h2><figcaption>No</figcaption></section>'
        '<section id="baseline"><h2>R@1 &amp; more</h2><figure>'
        "<figcaption>A\n caption_1.</figcaption></figure></section>",
        "utf-8",
    )
    (path,) = export_run(run, ["tex"])
    assert r"\caption{R@1 \& more. A caption\_1. In every row" in path.read_text("utf-8")
    (run / "report.html").unlink()
    (path,) = export_run(run, ["tex"])
    assert r"\caption{baseline. In every row" in path.read_text("utf-8")


@pytest.mark.usefixtures("no_browser")
def test_no_browser_is_one_line_that_says_what_to_install(plain_run: Path) -> None:
    with pytest.raises(InputError) as error:
        export_run(plain_run, ["csv", "pdf"])
    assert "apt-get install chromium" in str(error.value)
    assert "csv and tex need none" in str(error.value)
    assert "\n" not in str(error.value)
    assert not (plain_run / "export").exists()


def test_kaleido_that_is_not_installed_is_said(plain_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analyses.export_browser.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'eos-workbench\[figures\]'"):
        export_run(plain_run, ["pdf"])


@needs_browser
def test_a_browser_that_does_not_start_is_said(plain_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER_PATH", "/bin/false")
    with pytest.raises(InputError, match="'/bin/false' did not start"):
        export_run(plain_run, ["pdf"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"formats": ["pfd"]}, "'pfd' is no format to export. Did you mean 'pdf'?"),
        ({"formats": []}, "No format came"),
        ({"width": "colum"}, "'colum' is no width. Did you mean 'column'?"),
        ({"width": 1.0}, "widths run from 2 to 20 in"),
        ({"width": float("nan")}, "widths run from 2 to 20 in"),
        ({"names": ["basline"]}, "no figure or table 'basline'. Did you mean 'baseline'?"),
        ({"names": ["results"], "formats": ["pdf"]}, "Nothing of results can be written as pdf"),
        ({"names": []}, "Nothing of no names"),
        ({"states": "some"}, "'first' exports what a figure opens with"),
        ({"dpi": 20}, "72 to 1200 dots"),
        ({"dpi": True}, "72 to 1200 dots"),
    ],
)
def test_wrong_wishes_are_one_clear_error(plain_run: Path, changes: dict[str, Any], message: str) -> None:
    wishes: dict[str, Any] = {"formats": ["csv", "png"]} | changes
    with pytest.raises(InputError, match=re.escape(message)):
        export_run(plain_run, **wishes)
    assert not (plain_run / "export").exists()


def test_what_is_no_run_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        export_run(tmp_path / "nothing", ["csv"])
    with pytest.raises(InputError, match=r"it has no manifest\.json"):
        export_run(tmp_path, ["csv"])
    (tmp_path / "manifest.json").write_text("[]", "utf-8")
    with pytest.raises(InputError, match="not the manifest of a run"):
        export_run(tmp_path, ["csv"])
    (tmp_path / "manifest.json").write_text('{"versions": {}}', "utf-8")
    with pytest.raises(InputError, match="holds no figures or tables yet"):
        export_run(tmp_path, ["csv"])
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / ".half.csv.x1").write_text("a", "utf-8")
    with pytest.raises(InputError, match="holds no figures or tables yet"):
        export_run(tmp_path, ["csv"])


def spoil(figure: dict[str, Any], path: str, value: Any) -> str:
    *parts, last = path.split(".")
    here: Any = figure
    for part in parts:
        here = here[int(part)] if isinstance(here, list) else here.setdefault(part, {})
    here[int(last) if isinstance(here, list) else last] = value
    return json.dumps(figure)


@pytest.mark.parametrize(
    ("spoiled", "message"),
    [
        (lambda f: "{", "is not JSON"),
        (lambda f: "[" * 100_000, "is nested more than 100 levels"),
        (lambda f: '{"data": 3}', "it has no list of traces"),
        (lambda f: json.dumps({"data": [3]}), "a trace of the type 3"),
        (lambda f: json.dumps({"data": [{"type": "scattermap"}]}), "type 'scattermap', which is not drawn for paper"),
        (lambda f: spoil(f, "layout.bogus", 1), "is no figure of Plotly"),
        (lambda f: spoil(f, "data.0.x", "no list"), "is no figure of Plotly"),
        (lambda f: spoil(f, "layout.images", [{"source": "file:///etc/passwd"}]), "nothing is fetched"),
        (
            lambda f: spoil(f, "layout.updatemenus.0.buttons.1.args.1", {"images[0].source": "http://x/y.png"}),
            "nothing is fetched",
        ),
    ],
)
def test_a_spoiled_figure_is_one_clear_error(
    plain_run: Path, spoiled: Callable[[dict[str, Any]], str], message: str
) -> None:
    path = plain_run / "figures" / "baseline.json"
    path.write_text(spoiled(json.loads(path.read_text("utf-8"))), "utf-8")
    with pytest.raises(InputError, match=r"baseline\.json") as error:
        export_run(plain_run, ["svg", "csv"])
    assert message in str(error.value)
    assert len(str(error.value)) < 600
    assert not (plain_run / "export").exists()


def test_a_spoiled_table_is_one_clear_error(plain_run: Path) -> None:
    (plain_run / "figures" / "baseline.csv").write_bytes(b"a,b\n1,2,3\n")
    with pytest.raises(InputError, match=r"baseline\.csv' is no CSV table"):
        export_run(plain_run, ["csv"])
    (plain_run / "results.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"results\.parquet' is no Parquet file"):
        export_run(plain_run, ["csv"], names=["results"])
    (plain_run / "figures" / "a name.csv").write_bytes(b"a\n1\n")
    with pytest.raises(InputError, match="is not the name of a figure or table"):
        export_run(plain_run, ["csv"])


@pytest.mark.usefixtures("no_browser")
def test_a_study_keeps_its_table_beside_its_figures(plain_run: Path) -> None:
    (plain_run / "trials.csv").write_bytes(b"kind,n\nnone,3\nmixed,4\n")
    (plain_run / "results.parquet").unlink()
    export_run(plain_run, ["csv", "tex"], names=["trials"])
    text = (plain_run / "export" / "trials.tex").read_text("utf-8")
    assert r"\caption{trials: all numbers.}" in text
    assert "none & 3" in text
    # Exports are no tables of the run.
    export_run(plain_run, ["csv"], out=plain_run / "figures" / "export")
    assert len(export_run(plain_run, ["csv"])) == 3


def test_files_are_replaced_and_folders_made(plain_run: Path, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "er"
    for _ in range(2):
        (path,) = export_run(plain_run, ["csv"], names=["checkpoint"], out=target)
        assert path == target / "checkpoint.csv"
        assert path.read_bytes() == (plain_run / "figures" / "checkpoint.csv").read_bytes()
        path.write_bytes(b"old")
    assert [found.name for found in target.iterdir()] == ["checkpoint.csv"]
    with pytest.raises(InputError, match="can't be written"):
        export_run(plain_run, ["csv"], out=target / "checkpoint.csv")


def test_widths() -> None:
    assert [parse_width(text) for text in ("column", "Text", "3.3", " 5in ", 12)] == [3.25, 6.75, 3.3, 5.0, 12.0]


# -- with a browser ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = make_frame(depths=(0, 9, 12), interventions={"parallel en": "en", EVIL: "", "noise": ""})
    bare = Analysis("bare", "A & <b> (n = 7 images)", pd.DataFrame({"x": [1]}), go.Figure(go.Bar(y=[1, 2])), "")
    analyses = [baseline(frame), rescue_figure(frame), rescue_grid(frame), bare]
    folder = make_run(tmp_path_factory.mktemp("exported"), analyses)
    export_run(folder, FORMATS, width="column")
    return folder / "export"


def output(*command: str | Path) -> str:
    return subprocess.run([*map(str, command)], capture_output=True, check=True, timeout=60).stdout.decode("utf-8")


@needs_browser
def test_every_figure_and_table_is_there(exported: Path) -> None:
    wanted = {f"{name}.{kind}" for name in ("bare", "baseline", "rescue", "rescue-grid") for kind in FORMATS}
    assert {path.name for path in exported.iterdir()} == wanted


@needs_browser
@needs_poppler
@pytest.mark.parametrize("name", ["baseline", "rescue", "rescue-grid"])
def test_a_pdf_has_the_width_of_the_column_and_its_fonts(exported: Path, name: str) -> None:
    path = exported / f"{name}.pdf"
    info = output("pdfinfo", path)
    size = re.search(r"Page size: +([\d.]+) x ([\d.]+) pts", info)
    assert size is not None
    assert float(size[1]) == pytest.approx(3.25 * 72, abs=0.1)
    assert re.search(r"Pages: +1\n", info)
    assert "Creator:         eos-workbench" in info
    assert "n = 200 images" in info
    rows = output("pdffonts", path).splitlines()[2:]
    assert rows
    for row in rows:
        # type, encoding, embedded, subset, characters known
        assert re.search(r"CID TrueType +Identity-H +yes yes yes", row), row
    assert output("pdfimages", "-list", path).count("\n") == 2, "no part of it is a raster image"


@needs_browser
@needs_poppler
def test_a_figure_without_a_title_takes_that_of_its_page(exported: Path) -> None:
    assert "A & <b> (n = 7 images)" in output("pdftotext", exported / "bare.pdf", "-")


@needs_browser
@needs_poppler
def test_names_of_users_are_texts(exported: Path) -> None:
    text = output("pdftotext", "-layout", exported / "rescue.pdf", "-")
    # The legend breaks it into lines, and knows no bold.
    assert "<img src=x" in text
    assert "</text><script>1</script>" in re.sub(r"\s", "", text)
    svg = (exported / "rescue.svg").read_text("utf-8")
    assert "<script" not in svg
    assert "<img" not in svg


@needs_browser
def test_an_svg_says_its_size_and_a_png_its_resolution(exported: Path) -> None:
    svg = (exported / "rescue.svg").read_text("utf-8")
    assert re.match(r'<svg [^>]*width="3\.25in" height="[\d.]+in"[^>]*viewBox="0 0 312 \d+"', svg)
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert len(ids) == len(set(ids)) > 4
    assert set(re.findall(r"url\(['\"]?#([^'\")]+)", svg.replace("&quot;", '"'))) <= set(ids)
    assert not set(ids) & set(re.findall(r'\bid="([^"]+)"', (exported / "baseline.svg").read_text("utf-8")))
    with Image.open(exported / "rescue.png") as image:
        assert image.mode == "RGB"
        assert image.width == round(3.25 * 300)
        assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)
        assert image.getextrema() != ((255, 255),) * 3


@needs_browser
def test_the_same_run_gives_the_same_bytes(exported: Path, tmp_path: Path) -> None:
    for path in export_run(exported.parent, ["pdf,svg,png"], width=3.25, out=tmp_path, names=["baseline", "rescue"]):
        assert path.read_bytes() == (exported / path.name).read_bytes(), path.name


@needs_browser
@needs_poppler
def test_every_choice_of_a_menu_can_be_had_also_in_a_notebook(exported: Path, tmp_path: Path) -> None:
    async def cell() -> list[Path]:
        # A notebook runs a loop of its own.
        return export_run(exported.parent, ["pdf", "png"], out=tmp_path, names=["rescue-grid"], states="all", dpi=192)

    names = [f"rescue-grid--{way}" for way in ("image-to-text-i2t", "text-to-image-t2i")]
    written = asyncio.run(cell())
    assert [path.name for path in written] == [f"{name}.{kind}" for name in names for kind in ("pdf", "png")]
    assert "image to text (i2t)" in output("pdftotext", written[0], "-")
    assert "text to image (t2i)" in output("pdftotext", written[2], "-")
    with Image.open(written[1]) as first, Image.open(written[3]) as second:
        assert first.width == second.width == 6.75 * 192
        assert first.tobytes() != second.tobytes()


# -- scripts -----------------------------------------------------------------------------------------

ROW = 19.0
RIGHT_TO_LEFT = ("ar", "fa", "he")


def rows_of(captions: list[str]) -> list[str]:
    """Words that together have every character of some captions, on rows of about 20 letters."""
    seen: set[str] = set()
    rows, used = [""], 0.0
    for word in dict.fromkeys(word for text in captions for word in text.split()):
        if set(word) <= seen:
            continue
        seen |= set(word)
        wide = sum(1.6 if unicodedata.east_asian_width(letter) in "WF" else 1.0 for letter in word)
        if used and used + wide > ROW:
            rows.append("")
            used = 0.0
        rows[-1] = f"{rows[-1]} {word}".strip()
        used += wide + 1
    return rows


def letters(text: str) -> str:
    """A text without blanks and without marks that only steer its direction."""
    normal = unicodedata.normalize("NFKC", text)
    return "".join(c for c in normal if not c.isspace() and unicodedata.category(c) != "Cf")


@needs_browser
@needs_poppler
def test_every_character_of_all_36_languages_has_a_glyph_and_can_be_read_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corpus = load_corpus("emoji-36")
    rows = {
        language: rows_of([text for image in corpus.captions[language] for text in image])
        for language in corpus.languages
    }
    assert len(rows) == 36
    texts = [text for own in rows.values() for text in own]
    for place in range(0, len(texts), 240):
        part = texts[place : place + 240]
        figure = go.Figure(go.Scatter(x=[0] * len(part), y=list(range(len(part))), mode="markers"))
        figure.update_layout(template=TEMPLATE, title="Captions in all scripts (n = 36 languages)")
        figure.update_yaxes(tickvals=list(range(len(part))), ticktext=[label(text) for text in part])
        analysis = Analysis(f"scripts-{place}", "Captions", pd.DataFrame({"caption": part}), figure, "")
        make_run(tmp_path / "run", [analysis])
    # Of these no font has a glyph; that they are found shows that of the others none is missing.
    private = go.Figure(layout={"template": TEMPLATE, "title": "\ue000 and \ue001 (n = 2)"})
    make_run(tmp_path / "run", [Analysis("private", "Private", pd.DataFrame({"x": [1]}), private, "")])
    with caplog.at_level(logging.WARNING, logger="workbench"):
        written = export_run(tmp_path / "run", ["pdf"], width="text")
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith("private.pdf: 2 characters are empty boxes")
    lines = [line for path in written for line in output("pdftotext", "-layout", path, "-").splitlines()]
    exact = {letters(line) for line in lines}
    # Readers of PDF put right-to-left lines in order again, each by its own rules for digits and marks.
    any_order = {"".join(sorted(line)) for line in exact}
    for language, own in rows.items():
        for text in own:
            if language in RIGHT_TO_LEFT:
                assert "".join(sorted(letters(text))) in any_order, (language, text)
            else:
                assert letters(text) in exact, (language, text)
    for path in written:
        for row in output("pdffonts", path).splitlines()[2:]:
            assert re.search(r"(TrueType|Type 3|CID Type 0C).* yes +(yes|no) +yes", row), row
