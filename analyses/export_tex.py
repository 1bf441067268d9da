r"""A table as LaTeX, to be read into a paper with ``\input``.

The table needs the package ``booktabs`` and nothing else. A number and its interval stand in one cell, numbers
of a column have the same number of decimals and stand below each other, and what is the same in every row is said
once, in the caption. A table wider than the column of the paper goes on below itself, with the names of its rows
repeated; one taller than a page goes on in further tables of the same number.

LaTeX's own fonts hold Latin letters. Texts in other scripts stand in a macro, ``\inscript{Devanagari}{…}``, which
the file defines as the text alone, and the head of the file says what to put into the preamble for them.
"""

import io
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import pandas as pd

from analyses.tables import interval_columns
from workbench.errors import InputError

TYPE = 8
"""Size of the type in points."""

MOST_ROWS = 250
"""A longer table is one for a computer: its first rows are printed, and its CSV has all."""

_BETWEEN = 6.0  # points between columns
_HEADING = 44.0  # points that a heading may take before it goes on in the next line
_LINES = 54  # of a page
_FLUSH = 8  # tables, after which LaTeX sets those that it has held back; it holds back few

_INTEGER = re.compile(r"-?(0|[1-9]\d*)")
_NUMBER = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?([eE][+-]?\d+)?|nan|NaN|inf)")

_ESCAPES = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "`": r"\textasciigrave{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''",
    # After a line break, LaTeX would read these as the amount to skip and as a command.
    "[": "{[}", "]": "{]}", "*": "{*}",
    "–": "--", "—": "---", "…": r"\ldots{}", "‘": "`", "’": "'", "“": "``", "”": "''", "\u00a0": "~",
    "−": "$-$", "×": r"$\times$", "±": r"$\pm$", "≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$", "→": r"$\to$",
    "Δ": r"$\Delta$", "∞": r"$\infty$", "°": r"\textdegree{}", "·": r"\textperiodcentered{}",
    "²": r"\textsuperscript{2}", "³": r"\textsuperscript{3}",
}  # fmt: skip

# How names of characters begin whose fonts are those of Chinese, Japanese and Korean.
_CJK = ("CJK", "IDEOGRAPHIC", "KATAKANA", "KATAKANA-HIRAGANA", "HIRAGANA", "FULLWIDTH", "HANGUL", "BOPOMOFO")

_FONTS = {
    "CJK": "Noto Sans CJK JP", "Symbols": "Noto Sans Symbols2", "Greek": "Noto Sans", "Cyrillic": "Noto Sans"
}  # fmt: skip
_RIGHT_TO_LEFT = ("Arabic", "Hebrew", "Syriac", "Thaana", "Nko", "Adlam")


@dataclass(frozen=True)
class _Column:
    """A column as it is printed: a heading, and a text a row, or two where there is an interval.

    Attributes
    ----------
    name : str
    kind : str
        ``"text"``, ``"number"`` or ``"interval"``.
    cells : list of tuple of str
        LaTeX.
    widest : float
        Width of the widest cell in points.
    """

    name: str
    kind: str
    cells: list[tuple[str, ...]] = field(repr=False)
    widest: float

    @property
    def heading(self) -> list[str]:
        """The lines of the heading."""
        lines = [""]
        for word in self.name.split():
            longer = f"{lines[-1]} {word}".strip()
            if lines[-1] and _points(longer) > max(_HEADING, self.widest):
                lines.append(word)
            else:
                lines[-1] = longer
        return lines

    @property
    def width(self) -> float:
        """In points, with the room to the next column."""
        return max(self.widest, *map(_points, self.heading)) + _BETWEEN


def read_table(csv: bytes, source: str) -> pd.DataFrame:
    """Read a table of a run as texts, as they stand in the file.

    Parameters
    ----------
    csv : bytes
    source : str
        Where it comes from, for messages.

    Raises
    ------
    InputError
        If it is no table.
    """
    try:
        table = pd.read_csv(io.BytesIO(csv), dtype=str, keep_default_na=False, encoding="utf-8")
    except (ValueError, pd.errors.ParserError) as error:
        reason = str(error).split("\n")[0]
        raise InputError(f"{source!r} is no CSV table ({reason}). Make the run's figures again.") from None
    # pandas reads a row that is too short as if cells were empty, and one too long as if it had an index.
    if not isinstance(table.index, pd.RangeIndex) or not len(table.columns):
        raise InputError(f"{source!r} is no CSV table: a row has more cells than the heading. Make it again.")
    return table.fillna("")


def table_tex(table: pd.DataFrame, *, name: str, title: str, caption: str, width: float) -> str:
    """Return a table as LaTeX.

    Parameters
    ----------
    table : pandas.DataFrame
        Of texts, as :func:`read_table` gives it.
    name : str
        Of the analysis; the label is ``tab:`` and this.
    title, caption : str
        Plain text.
    width : float
        Of the paper's column, in inches. Above 3.6 the table is a ``table*``, which spans two columns.

    Returns
    -------
    str
        Of a table with more rows than :data:`MOST_ROWS`, those alone; the caption says so.
    """
    rows = len(table)
    # What is the same in the rows that are shown may differ in the others.
    constant = {str(key) for key in table.columns if table[key].nunique() == 1}
    texts, same = _columns(table.head(MOST_ROWS), constant)
    shown = min(rows, MOST_ROWS)
    parts = _parts(texts, _keys(texts, shown), width * 72.27)
    blocks = [(part, places) for part in parts for places in _row_ranges(shown)]
    environment = "table" if width <= 3.6 else "table*"
    sentences = [tex(text) for text in (title.rstrip("."), caption.rstrip(".")) if text]
    if same:
        sentences.append(f"In every row: {tex(', '.join(f'{key} = {value}' for key, value in same.items()))}")
    if shown < rows:
        sentences.append(f"The first {shown} of {rows:,} rows; all of them are in {tex(name)}.csv")
    floats = []
    for place, blocks_here in enumerate(_floats(blocks)):
        first = place == 0
        head = f"\\caption{{{'. '.join(sentences)}.}}\n\\label{{tab:{name}}}" if first else "\\caption{(continued)}"
        floats.append(
            f"\\begin{{{environment}}}\n\\centering\n\\fontsize{{{TYPE}}}{{9.5}}\\selectfont\n"
            f"\\setlength{{\\tabcolsep}}{{{_BETWEEN / 2:g}pt}}\\setlength{{\\belowcaptionskip}}{{4pt}}\n"
            + ("" if first else "\\addtocounter{table}{-1}\n")
            + f"{head}\n\n"
            + "\n\n\\medskip\n".join(_tabular(columns, rows) for columns, rows in blocks_here)
            + f"\n\\end{{{environment}}}\n"
            + ("\\clearpage\n" if (place + 1) % _FLUSH == 0 else "")
        )
    body = "\n".join(floats)
    return f"{_preamble(name, rows, body)}\n{body}"


def tex(text: str) -> str:
    r"""Return a text as LaTeX: nothing in it is a command, and what is not Latin stands in ``\inscript``."""
    text = "".join(" " if unicodedata.category(c) in ("Cc", "Zl", "Zp", "Cs") else c for c in text)
    text = unicodedata.normalize("NFC", text)
    # A mark belongs to the letter before it, and a space between two words of one script to that script.
    scripts = [_script(character) for character in text]
    for place, character in enumerate(text):
        if place and (unicodedata.category(character)[0] == "M" or character in "\u200c\u200d"):
            scripts[place] = scripts[place - 1]
    for place in range(1, len(text) - 1):
        if text[place] == " " and scripts[place - 1] == scripts[place + 1]:
            scripts[place] = scripts[place - 1]
    parts = []
    for script, places in groupby(range(len(text)), key=scripts.__getitem__):
        # Two hyphens in a row would become a dash.
        part = "".join(
            "-{}" if text[place : place + 2] == "--" else _ESCAPES.get(text[place], text[place]) for place in places
        )
        parts.append(f"\\inscript{{{script}}}{{{part}}}" if script else part)
    return "".join(parts)


def _script(character: str) -> str:
    """Return the script of a character that LaTeX's own fonts lack: ``"Devanagari"``; else an empty string."""
    if character in _ESCAPES or character < "\u0180":
        return ""
    word = unicodedata.name(character, "SYMBOLS").split()[0]
    if word in _CJK:
        return "CJK"
    return word.split("-")[0].capitalize() if unicodedata.category(character)[0] in "LMN" else "Symbols"


def _preamble(name: str, rows: int, body: str) -> str:
    lines = [
        f"% {name}: {rows:,} row{'s' * (rows != 1)}. Needs \\usepackage{{booktabs}}, and for accented letters "
        "\\usepackage[T1]{fontenc}."
    ]
    scripts = sorted(set(re.findall(r"\\inscript\{(\w+)\}", body)))
    if scripts:
        lines.append(f"% Texts in {', '.join(scripts)}: compile with XeLaTeX, and put this into the preamble:")
        lines.append(r"% \usepackage{fontspec} \TeXXeTstate=1 \newcommand{\inscript}[2]{{\csname in#1\endcsname{#2}}}")
        lines += [f"% {_font(script)}" for script in scripts]
        lines.append(r"\providecommand{\inscript}[2]{#2}")
    return "\n".join(lines) + "\n"


def _font(script: str) -> str:
    """Return what has XeLaTeX set a script in a font of Noto, shaped, and from the right where it runs so."""
    if script == "Latin":  # letters that fonts for XeLaTeX have and older ones lack
        return r"\newcommand{\inLatin}[1]{#1}"
    font = _FONTS.get(script, f"Noto Sans {script}")
    shaping = "" if script in _FONTS else f"[Script={script}]"
    text = r"\beginR#1\endR" if script in _RIGHT_TO_LEFT else "#1"
    return f"\\newfontfamily\\font{script}{{{font}}}{shaping} \\newcommand{{\\in{script}}}[1]{{\\font{script} {text}}}"


# -- cells -------------------------------------------------------------------------------------------


def _columns(table: pd.DataFrame, constant: set[str]) -> tuple[list[_Column], dict[str, str]]:
    """Return the columns to print, and those that have one value all over the whole table."""
    columns, same = [], {}
    for name, parts in interval_columns(table).items():
        values = [table[part].tolist() for part in parts]
        if len(table) > 1 and len(parts) == 1 and name in constant and values[0][0]:
            same[name] = values[0][0]
            continue
        filled = [value for column in values for value in column if value]
        if filled and all(_NUMBER.fullmatch(value) for value in filled):
            columns.append(_numbers(name, values))
        elif len(parts) == 1:
            columns.append(_texts(name, values[0]))
        else:
            columns += [_texts(part, column) for part, column in zip(parts, values, strict=True)]
    return columns, same


def _texts(name: str, values: Sequence[str]) -> _Column:
    return _Column(name, "text", [(tex(value) or "--",) for value in values], max(map(_points, values), default=0.0))


def _numbers(name: str, values: Sequence[Sequence[str]]) -> _Column:
    filled = [value for column in values for value in column if value]
    if all(_INTEGER.fullmatch(value) for value in filled):
        rows = [[_minus(value) if value else "--" for value in row] for row in zip(*values, strict=True)]
    else:
        finite = [abs(float(value)) for value in filled if math.isfinite(float(value))]
        largest = max(finite, default=0.0)
        rows = [[_float(value, largest) for value in row] for row in zip(*values, strict=True)]
    if len(values) == 1:
        return _Column(name, "number", [(row[0],) for row in rows], max(_points(_printed(row[0])) for row in rows))
    whole = [(value, "" if "--" in (low, high) else f"[{low}, {high}]") for value, low, high in rows]
    return _Column(name, "interval", whole, max(_points(_printed(f"{value} {ends}")) for value, ends in whole))


def _float(value: str, largest: float) -> str:
    """Print a number with as many decimals as the largest of its column gets: three digits."""
    number = float(value) if value else math.nan
    if math.isnan(number):
        return "--"
    if math.isinf(number):
        return r"$\infty$" if number > 0 else r"$-\infty$"
    if 0 < largest < 0.01:
        mantissa, exponent = f"{number:.1e}".split("e")
        return f"${mantissa}\\times10^{{{int(exponent)}}}$" if number else "0"
    decimals = 1 if largest >= 10 or not largest else 2 if largest >= 1 else 3
    if decimals == 3 and 0 < number < 0.0005:
        return "$<$0.001"
    text = f"{number:.{decimals}f}"
    return _minus(text if float(text) else text.lstrip("-"))


def _minus(text: str) -> str:
    return f"$-${text[1:]}" if text.startswith("-") else text.lstrip("+")


def _printed(text: str) -> str:
    """Return what LaTeX prints of a number."""
    return re.sub(r"\\times|[$^{}]", "", text)


def _points(text: str) -> float:
    """Return about how wide a text is in Computer Modern of 8 points, rather more than less."""
    width = 0.0
    for character in text:
        if unicodedata.category(character) in ("Mn", "Cf"):
            continue
        if unicodedata.east_asian_width(character) in "WF":
            width += TYPE
        elif character in " .,:;[]()'|ijl!":
            width += 2.5
        else:
            width += 6.4 if character in "mw%@" or character.isupper() else 4.3
    return width


# -- the shape of the table --------------------------------------------------------------------------


def _keys(columns: Sequence[_Column], rows: int) -> list[_Column]:
    """Return the columns that name a row, to be repeated where a table goes on below itself."""
    leading = []
    for column in columns:
        if column.kind != "text":
            break
        leading.append(column)
    alone = [column for column in leading if len(set(column.cells)) == rows]
    return [max(alone, key=lambda column: column.widest)] if alone else leading


def _parts(columns: Sequence[_Column], keys: Sequence[_Column], points: float) -> Iterator[list[_Column]]:
    """Split columns so that each part is no wider than the paper."""
    part: list[_Column] = []
    for column in columns:
        if part and sum(other.width for other in [*part, column]) > points + _BETWEEN:
            fresh = [key for key in keys if key in part]
            if len(part) > len(fresh):
                yield part
                part = fresh
        part = [*part, column]
    yield part


def _row_ranges(rows: int) -> list[range]:
    most = _LINES - 6
    return [range(start, min(start + most, rows)) for start in range(0, rows, most)] or [range(0)]


def _floats(blocks: Sequence[tuple[list[_Column], range]]) -> Iterator[list[tuple[list[_Column], range]]]:
    """Put as many blocks into one table as a page holds."""
    here: list[tuple[list[_Column], range]] = []
    lines = 0
    for columns, rows in blocks:
        own = len(rows) + max(len(column.heading) for column in columns) + 2
        if here and lines + own > _LINES:
            yield here
            here, lines = [], 0
        here.append((columns, rows))
        lines += own
    yield here


def _tabular(columns: Sequence[_Column], rows: range) -> str:
    places = {"text": "l", "number": "r", "interval": "r@{~}l"}
    headings = []
    for column in columns:
        side = "l" if column.kind == "text" else "c"
        text = r"\\".join(tex(line) for line in column.heading)
        if len(column.heading) > 1:
            text = f"\\shortstack[{side}]{{{text}}}"
        span = 2 if column.kind == "interval" else 1
        headings.append(text if column.kind == "text" else f"\\multicolumn{{{span}}}{{c}}{{{text}}}")
    body = "".join(" & ".join(cell for column in columns for cell in column.cells[row]) + " \\\\\n" for row in rows)
    return (
        f"\\begin{{tabular}}{{@{{}}{''.join(places[column.kind] for column in columns)}@{{}}}}\n\\toprule\n"
        f"{' & '.join(headings)} \\\\\n\\midrule\n{body}\\bottomrule\n\\end{{tabular}}"
    )
