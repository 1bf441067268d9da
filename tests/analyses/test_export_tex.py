import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from analyses import baseline, checkpoint_table
from analyses.export_tex import MOST_ROWS, read_table, table_tex, tex
from tests.analyses.factory import make_frame
from workbench.corpora import load_corpus
from workbench.errors import InputError

EVIL = r"\input{/etc/passwd} & 50 % of $x_1^2$ #1 {~} <a|b> `c' \\ [3pt] *"


def as_read(table: pd.DataFrame) -> pd.DataFrame:
    return read_table(table.to_csv(index=False).encode(), "x.csv")


def made(table: pd.DataFrame, width: float = 6.75, caption: str = "All of them") -> str:
    return table_tex(as_read(table), name="x", title="A table", caption=caption, width=width)


def body(text: str) -> list[list[str]]:
    """Cells of all rows between \\midrule and \\bottomrule, split at the & that LaTeX splits at."""
    rows = [row for part in re.findall(r"\\midrule\n(.*?)\\bottomrule", text, re.DOTALL) for row in part.splitlines()]
    return [[cell.strip() for cell in re.split(r"(?<!\\)&", row.removesuffix(r"\\"))] for row in rows]


def test_a_number_stands_with_its_interval_in_one_cell() -> None:
    table = pd.DataFrame(
        {
            "language": ["sw", "te", "hi"],
            "R@1": [43.25, 100.0, -3.04],
            "R@1 low": [38.8, 100.0, -10.0],
            "R@1 high": [48.0, 100.0, None],
            "n": [200, 1200, 7],
        }
    )
    text = made(table)
    assert r"\begin{tabular}{@{}lr@{~}lr@{}}" in text
    assert r"language & \multicolumn{2}{c}{R@1} & \multicolumn{1}{c}{n} \\" in text
    assert body(text) == [
        ["sw", "43.2", "[38.8, 48.0]", "200"],
        ["te", "100.0", "[100.0, 100.0]", "1200"],
        ["hi", "$-$3.0", "", "7"],
    ]


@pytest.mark.parametrize(
    ("values", "printed"),
    [
        ([0.98765, 0.5, None], ["0.988", "0.500", "--"]),
        ([1.5, -0.004, 2.0], ["1.50", "0.00", "2.00"]),
        ([0.5, 1e-9, 0.0], ["0.500", "$<$0.001", "0.000"]),
        ([2.5e-5, -1e-7, 0.0], [r"$2.5\times10^{-5}$", r"$-1.0\times10^{-7}$", "0"]),
        ([1, None, 3], ["1", "--", "3"]),
        ([float("inf"), 12.0, 1.0], [r"$\infty$", "12.0", "1.0"]),
        (["007", "1", "2"], ["007", "1", "2"]),
    ],
)
def test_decimals_follow_the_column(values: list, printed: list[str]) -> None:
    column = pd.Series(values, dtype="Int64" if values == [1, None, 3] else None)
    rows = body(made(pd.DataFrame({"name": ["a", "b", "c"], "x": column})))
    assert [row[1] for row in rows] == printed


def test_what_is_the_same_everywhere_is_said_once() -> None:
    text = made(pd.DataFrame({"name": ["a", "b"], "n": [200, 200], "tower": ["emoji_36"] * 2, "x": [1, 2]}))
    assert r"In every row: n = 200, tower = emoji\_36." in text
    assert [len(row) for row in body(text)] == [2, 2]


def test_texts_are_texts() -> None:
    text = made(pd.DataFrame({EVIL: [EVIL, "b"], "x": [1, 2]}), caption=EVIL)
    assert r"\textbackslash{}input\{/etc/passwd\}" in text
    for line in text.splitlines():
        assert not line.startswith(("[", "*")), "would be read as an argument of the line break before it"
        assert not re.search(r"(?<!\\)[#%^~](?!\})", line) or line.startswith("%") or "@{~}" in line
    assert all(row[-1] in "12" for row in body(text))
    assert tex("a--b—c – d…\x00\n\u2028e") == r"a-{}-b---c -- d\ldots{}   e"


def test_scripts_that_latex_lacks_are_marked() -> None:
    assert tex("Swahili दाँत दिखाता (hi)") == r"Swahili \inscript{Devanagari}{दाँत दिखाता} (hi)"
    assert tex("にっこり笑う 嘿嘿") == r"\inscript{CJK}{にっこり笑う 嘿嘿}"
    assert tex("Māori, čeština, naïve") == "Māori, čeština, naïve"
    assert tex("mặt") == r"m\inscript{Latin}{ặ}t"
    assert tex("Δ 😀") == r"$\Delta$ \inscript{Symbols}{😀}"
    text = made(pd.DataFrame({"caption": ["వ్", "خنده", "a"], "x": [1, 2, 3]}))
    assert "% Texts in Arabic, Telugu: compile with XeLaTeX" in text
    assert text.index(r"\providecommand{\inscript}[2]{#2}") < text.index(r"\begin{table*}")
    assert "inscript" not in made(pd.DataFrame({"caption": ["a"], "x": [1]}))


def test_a_wide_table_goes_on_below_itself() -> None:
    table = checkpoint_table(make_frame(depths=(0, 9, 12))).table
    wide, narrow = made(table, 6.75), made(table, 3.25)
    assert wide.count(r"\begin{table*}") == 1
    assert r"\begin{table}" in narrow
    assert narrow.count(r"\begin{tabular}") > wide.count(r"\begin{tabular}") > 1
    # Every part names its rows, and together they have every column of numbers once.
    names = list(table["name"])
    for text in (wide, narrow):
        rows = body(text)
        assert len(rows) % len(names) == 0
        for start in range(0, len(rows), len(names)):
            part = rows[start : start + len(names)]
            assert any([row[place] for row in part] == names for place in range(len(part[0])))
        assert text.count(r"\multicolumn{2}{c}") == sum(f"{name} low" in table for name in table)
        assert text.count(r"\label{tab:x}") == 1


def test_a_long_table_goes_on_in_the_next() -> None:
    table = pd.DataFrame({"key": [f"k{row}" for row in range(130)], "x": range(130)})
    text = made(table, 3.25)
    assert [row[1] for row in body(text)] == [str(row) for row in range(130)]
    assert text.count(r"\begin{table}") == 3
    assert text.count(r"\addtocounter{table}{-1}") == 2
    assert text.count(r"\caption{(continued)}") == 2


def test_a_table_for_computers_is_cut_and_says_so() -> None:
    text = made(pd.DataFrame({"key": [f"k{row}" for row in range(1234)], "x": range(1234)}))
    assert len(body(text)) == MOST_ROWS
    assert f"The first {MOST_ROWS} of 1,234 rows; all of them are in x.csv." in text


def test_what_is_no_table_is_refused() -> None:
    for content in (b"", b"a,b\n1,2,3\n", b"a\n\xff\xfe\n", b'a,b\n"1,2\n'):
        with pytest.raises(InputError, match=r"'x\.csv' is no CSV table"):
            read_table(content, "x.csv")


def test_languages_keep_their_codes() -> None:
    table = read_table(b"language,x\nno,1\nnan,2\nnull,\n", "x.csv")
    assert list(table["language"]) == ["no", "nan", "null"]
    assert [row[0] for row in body(table_tex(table, name="x", title="t", caption="", width=3))] == ["no", "nan", "null"]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
@pytest.mark.parametrize("columns", ["onecolumn", "twocolumn"])
def test_latex_sets_it_within_the_column(tmp_path: Path, columns: str) -> None:
    frame = make_frame(depths=(0, 9, 12))
    width = {"onecolumn": 6.75, "twocolumn": 3.25}[columns]
    evil = pd.DataFrame({EVIL: [EVIL, "Māori"], "x": [0.5, 1e-9]})
    long = pd.DataFrame({"key": [f"k{row}" for row in range(1234)], "x": range(1234)})
    tables = {"a": baseline(frame).table, "b": checkpoint_table(frame).table, "c": evil, "d": long}
    for name, table in tables.items():
        text = table_tex(as_read(table), name=name, title=EVIL, caption=EVIL, width=width if name != "c" else 6.75)
        (tmp_path / f"{name}.tex").write_text(text, "utf-8")
    inputs = "\n".join(rf"Table~\ref{{tab:{name}}}.\input{{{name}}}" for name in tables)
    (tmp_path / "paper.tex").write_text(
        rf"\documentclass[{columns},10pt]{{article}}\usepackage[T1]{{fontenc}}\usepackage{{booktabs}}"
        r"\usepackage[textwidth=6.75in,textheight=9in,columnsep=0.25in]{geometry}"
        rf"\begin{{document}}{inputs}\end{{document}}",
        "utf-8",
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-draftmode", "paper.tex"]
    log = ""
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
        log = done.stdout.decode("utf-8", "replace")
        assert done.returncode == 0, log[-2000:]
    assert "undefined" not in log
    assert "Float too large" not in log
    # A few points are a long word at the end of a line of the caption; a table that is too wide is off by more.
    assert all(float(points) < 8 for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt", log))


@pytest.mark.skipif(shutil.which("xelatex") is None, reason="needs xelatex")
def test_the_preamble_that_the_file_gives_sets_every_script(tmp_path: Path) -> None:
    corpus = load_corpus("emoji-36", limit=2)
    table = pd.DataFrame({"caption": [corpus.captions[language][0][0] for language in corpus.languages]})
    table["x"] = range(len(table))
    text = made(table)
    preamble = "\n".join(line[2:] for line in text.splitlines() if line.startswith("% \\"))
    (tmp_path / "paper.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs}\n"
        + f"{preamble}\n\\begin{{document}}\n{text}\\end{{document}}\n",
        "utf-8",
    )
    command = ["xelatex", "-interaction=nonstopmode", "-halt-on-error", "-no-pdf", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    log = done.stdout.decode("utf-8", "replace") + (tmp_path / "paper.log").read_text("utf-8", "replace")
    assert done.returncode == 0, log[-2000:]
    assert "Missing character" not in log
