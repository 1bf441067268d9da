"""An analysis: one question, and the table, figure and caption that answer it.

The table is for the next computation, the figure for the eye, and the caption says what is plotted, of how
much, and how sure one may be. All three are kept side by side on disk, so that a figure can always be
redrawn and a number always be looked up.
"""

import html
import json
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from workbench.errors import InputError
from workbench.files import check_name, path_below, write_atomically

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Analysis:
    """The answer to one question.

    Attributes
    ----------
    name : str
        Of its files: letters, digits, ``-`` and ``_``.
    title : str
        What the figure shows, with n.
    table : pandas.DataFrame
        Tidy. Where the columns ``x``, ``x low`` and ``x high`` stand together they are a number and its
        95 % interval.
    figure : plotly.graph_objects.Figure, optional
    caption : str
        Plain text, for below the figure.
    finding : str
        One sentence with the numbers that matter most; the caption's first sentence stands in where it is empty.
    """

    name: str
    title: str
    table: "pd.DataFrame" = field(repr=False)
    figure: "go.Figure | None" = field(repr=False)
    caption: str = field(repr=False)
    finding: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.name or not all(c.isascii() and (c.isalnum() or c in "-_") for c in self.name):
            raise InputError(
                f"An analysis can't be called {self.name!r}: its files need a name of letters, digits, '-' and '_'."
            )
        check_name(self.name, "The name of an analysis", ".parquet")

    def save(self, folder: str | Path) -> list[Path]:
        """Write ``name.csv`` and, where there is a figure, ``name.json`` and ``name.html``.

        The page needs no network: it reads ``plotly.min.js``, written once into the same folder. The same
        analysis gives the same bytes.

        Parameters
        ----------
        folder : str or Path
            Made if it is absent.

        Returns
        -------
        list of Path
            The files of this analysis, without ``plotly.min.js``.
        """
        folder = Path(folder)
        contents = {".csv": self.csv()}
        if self.figure is not None:
            contents |= {".json": f"{self.figure.to_json()}\n", ".html": self._page()}
            _write_plotlyjs(folder / "plotly.min.js")
        for suffix, content in contents.items():
            write_atomically(path_below(folder, self.name, suffix), content.encode())
        return [path_below(folder, self.name, suffix) for suffix in contents]

    @property
    def in_short(self) -> str:
        """The finding, or the first sentence of the caption."""
        head, stop, _ = self.caption.partition(". ")
        return self.finding or head + ("." if stop else "")

    def readable(self) -> "pd.DataFrame":
        """Return the table as texts, each number in one cell with its interval, for a terminal."""
        from analyses.tables import readable

        return readable(self.table)

    def csv(self) -> str:
        """Return the table as CSV, numbers at full precision."""
        return str(self.table.to_csv(index=False, lineterminator="\n"))

    def _page(self) -> str:
        return Template(template("figure.html")).substitute(
            title=html.escape(self.title),
            caption=html.escape(self.caption),
            css=template("report.css"),
            figure=figure_html(self),
            js=template("figures.js"),
        )


def figure_html(analysis: Analysis) -> str:
    """Return the place of a figure in a page, and the data that ``figures.js`` draws there."""
    if analysis.figure is None:
        return ""
    figure = json.loads(str(analysis.figure.to_json()))
    # The heading of the page wraps on a narrow screen; a title inside the figure is cut off.
    figure["layout"].pop("title", None)
    key = f"figure-{analysis.name}"
    label = html.escape(f"Interactive figure: {analysis.title}")
    return (
        f'<div class="controls" id="{key}-controls"></div>\n'
        f'<div class="plot" id="{key}" data-figure="{key}-data" role="group" aria-label="{label}"></div>\n'
        f"{json_script(f'{key}-data', figure)}"
    )


def json_script(element_id: str, content: object) -> str:
    """Return an inert script element that holds data, whatever texts are in it."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # "</script>" and "<!--" would end or swallow the element; U+2028 and U+2029 end a line in old JavaScript.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{html.escape(element_id)}">{text}</script>'


def template(name: str) -> str:
    """Return the text of a file of ``templates/``."""
    return resources.files("analyses").joinpath("templates", name).read_text("utf-8")


def _write_plotlyjs(path: Path) -> None:
    from plotly.offline import get_plotlyjs

    content = get_plotlyjs().encode()
    if not path.is_file() or path.read_bytes() != content:
        write_atomically(path, content)
