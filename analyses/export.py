"""Taking the figures and tables of a run into a paper.

A run holds each figure twice, as data and as a page, and each table as CSV. An export makes of them what a paper
is made of: vector figures of the width of a column or a page with type of 8 points, images of 300 dots an inch,
LaTeX tables, and the numbers at full precision::

    export_run(Path("runs/diagnose-x"), ["pdf", "tex"], width="column")

Figures are drawn by a Chrome or Chromium on this machine; tables need none. The same run gives the same bytes as
long as browser and fonts stay the same. What is read is data: no file of a run is executed, and a figure that
asks for something from outside is refused.
"""

import io
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal

from analyses.export_browser import PX_PER_INCH, Chrome, missing_glyphs, run, sized_svg
from analyses.export_fit import DoesNotFitError, fitted, too_wide
from analyses.export_states import plain
from analyses.export_states import states as states_of
from analyses.export_tex import read_table, table_tex
from analyses.theme import label
from workbench.errors import InputError, suggest
from workbench.files import path_below, write_atomically
from workbench.packed import read_frame
from workbench.parsing import load_file
from workbench.runs import check_table

log = logging.getLogger("workbench")

FIGURE_FORMATS = ("pdf", "svg", "png")
TABLE_FORMATS = ("csv", "tex")
FORMATS = (*FIGURE_FORMATS, *TABLE_FORMATS)

WIDTHS = {"column": 3.25, "text": 6.75}
"""Inches, of one column and of both: those of ACL, ICML, CVPR and many others, to a few hundredths."""

NARROWEST, WIDEST = 2.0, 20.0

# On plain axes, drawn as vectors and without asking anybody: others need WebGL, or load maps.
_TRACES = ("bar", "box", "contour", "heatmap", "histogram", "histogram2d", "scatter", "violin", "waterfall")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_FIGURE_FILES, _FRAME_FILES = (".json", ".csv"), (".csv", ".parquet")


@dataclass(frozen=True)
class _Item:
    """A figure, a table or both under one name."""

    name: str
    figure: Path | None
    table: Path | None


def export_run(
    run_folder: Path,
    formats: Sequence[str],
    *,
    width: str | float = "text",
    out: Path | None = None,
    names: Sequence[str] | None = None,
    states: Literal["first", "all"] = "first",
    dpi: int = 300,
) -> list[Path]:
    """Write figures and tables of a run in the formats of papers.

    Parameters
    ----------
    run_folder : Path
        What ``workbench diagnose`` and its like wrote.
    formats : sequence of str
        ``pdf``, ``svg`` and ``png`` of each figure, ``csv`` and ``tex`` of each table.
    width : str or float
        ``"column"`` (3.25 in), ``"text"`` (6.75 in), or inches. Figures are laid out anew for it, with type of 8
        points; tables break where they are wider.
    out : Path, optional
        By default ``export`` in the run. Files of the same names are replaced.
    names : sequence of str, optional
        Of the figures and tables; by default all. ``results`` is the tidy frame of a sweep.
    states : {"first", "all"}
        Of a figure with menus, what it opens with, or a file for each choice, whose name ends in the choice.
    dpi : int
        Dots an inch of PNG; 192 is twice a screen's.

    Returns
    -------
    list of Path
        What was written.

    Raises
    ------
    InputError
        If ``run_folder`` is no run or holds no figures, a format, width or name is none, a file of the run is not
        what it should be, a figure doesn't fit the width, or there is no browser. Nothing is written then.
    """
    formats = _formats(formats)
    inches = parse_width(width)
    if states not in ("first", "all"):
        raise InputError(f"states={states!r} came. 'first' exports what a figure opens with, 'all' every choice.")
    if isinstance(dpi, bool) or not isinstance(dpi, int) or not 72 <= dpi <= 1200:
        raise InputError(f"dpi={dpi!r} came. PNG files are written with 72 to 1200 dots an inch; papers ask for 300.")
    items = _chosen(_items(run_folder), names, formats, run_folder)
    content: dict[str, bytes] = {}
    for item in items:
        if item.table is not None:
            content |= _tables(item, formats, inches, run_folder)
    drawn = [name for name in formats if name in FIGURE_FORMATS]
    figures = {item.name: _titled(item, run_folder) for item in items if item.figure is not None and drawn}
    if figures:
        content |= run(_figures(figures, drawn, inches, every=states == "all", dpi=dpi))
    folder = run_folder / "export" if out is None else Path(out)
    for name, body in content.items():
        write_atomically(path_below(folder, name, what="A file of an export"), body)
    return [folder / name for name in content]


def parse_width(width: str | float) -> float:
    """Return a width in inches: of ``"column"``, ``"text"`` or a number."""
    legal = f"A width is {', '.join(f'{key!r} ({value} in)' for key, value in WIDTHS.items())} or a number of inches."
    if isinstance(width, str) and width.strip().lower() in WIDTHS:
        return WIDTHS[width.strip().lower()]
    try:
        inches = float(str(width).strip().removesuffix("in"))
    except ValueError:
        raise InputError(f"{width!r} is no width.{suggest(str(width), WIDTHS)} {legal}") from None
    if not NARROWEST <= inches <= WIDEST:
        raise InputError(f"The width {inches:g} in came; widths run from {NARROWEST:g} to {WIDEST:g} in. {legal}")
    return inches


def _formats(formats: Sequence[str]) -> list[str]:
    given = [formats] if isinstance(formats, str) else list(formats)
    wanted = list(dict.fromkeys(name.strip().lower().lstrip(".") for text in given for name in text.split(",")))
    for name in wanted:
        if name not in FORMATS:
            raise InputError(
                f"{name!r} is no format to export.{suggest(name, FORMATS)} There are {', '.join(FORMATS)}."
            )
    if not wanted:
        raise InputError(f"No format came. There are {', '.join(FORMATS)}.")
    return wanted


# -- what a run holds --------------------------------------------------------------------------------


def _items(folder: Path) -> dict[str, _Item]:
    """Find the figures and tables of a run."""
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        reason = "it has no manifest.json" if folder.is_dir() else "there is no such folder"
        raise InputError(f"{str(folder)!r} is no run: {reason}. Give the folder that workbench diagnose wrote.")
    try:
        content = load_file(manifest)
    except InputError:
        content = None
    if not isinstance(content, dict) or "versions" not in content:
        raise InputError(f"{str(manifest)!r} is not the manifest of a run. Make the run again.")
    found: dict[str, dict[str, Path]] = {}
    # What is in the run itself are its frames, such as results.parquet.
    for kinds, place in ((_FIGURE_FILES, folder / "figures"), (_FRAME_FILES, folder)):
        for path in sorted(place.glob("*")):
            # Dots begin the names of files that a killed run has not finished.
            if path.suffix not in kinds or not path.is_file() or path.name.startswith("."):
                continue
            if not _NAME.fullmatch(path.stem):
                raise InputError(f"{str(path)!r} is not the name of a figure or table. Rename it or take it away.")
            kind = "figure" if path.suffix == ".json" else "table"
            found.setdefault(path.stem, {}).setdefault(kind, path)
    if not found:
        raise InputError(
            f"{str(folder)!r} holds no figures or tables yet. Finish the run with the command that began it."
        )
    return {name: _Item(name, paths.get("figure"), paths.get("table")) for name, paths in found.items()}


def _chosen(
    items: Mapping[str, _Item], names: Sequence[str] | None, formats: Sequence[str], folder: Path
) -> list[_Item]:
    for name in names or ():
        if name not in items:
            raise InputError(
                f"The run {str(folder)!r} has no figure or table {name!r}.{suggest(name, items)} It has "
                f"{', '.join(items)}."
            )
    chosen = [items[name] for name in dict.fromkeys(items if names is None else names)]
    figures, tables = set(formats) & set(FIGURE_FORMATS), set(formats) & set(TABLE_FORMATS)
    if figures and names is None and not any(item.figure for item in chosen):
        raise InputError(
            f"The run {str(folder)!r} holds tables alone, so nothing can be written as {', '.join(sorted(figures))}. "
            f"Ask for {' or '.join(TABLE_FORMATS)}; figures are in the runs of workbench diagnose and the like."
        )
    if not any((item.figure and figures) or (item.table and tables) for item in chosen):
        raise InputError(
            f"Nothing of {', '.join(item.name for item in chosen) or 'no names'} can be written as "
            f"{', '.join(formats)}: figures are written as {', '.join(FIGURE_FORMATS)}, tables as "
            f"{', '.join(TABLE_FORMATS)}."
        )
    return chosen


def read_figure(path: Path) -> dict[str, Any]:
    """Read a figure of a run: Plotly's ``data`` and ``layout``, every part of them checked.

    Raises
    ------
    InputError
        If it is no figure of Plotly, has a kind of trace that is not drawn for paper, or has pictures that are
        not in the file itself.
    """
    import plotly.graph_objects as go

    again = "Make the run's figures again."
    content = load_file(path)
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise InputError(f"{str(path)!r} is no figure of Plotly: it has no list of traces. {again}")
    for trace in content["data"]:
        kind = trace.get("type", "scatter") if isinstance(trace, dict) else trace
        if kind not in _TRACES:
            raise InputError(
                f"{str(path)!r} has a trace of the type {kind!r}, which is not drawn for paper. An export draws "
                f"{', '.join(_TRACES)}."
            )
    try:
        figure = go.Figure({"data": content["data"], "layout": content.get("layout") or {}})
        checked = json.loads(str(figure.to_json()))
    except (ValueError, TypeError, KeyError) as error:
        reason = re.sub(r"\s+", " ", str(error))[:160]
        raise InputError(f"{str(path)!r} is no figure of Plotly ({reason}). {again}") from None
    if _fetches(checked):
        raise InputError(f"{str(path)!r} has pictures that are not in the file, and nothing is fetched for it. {again}")
    return {"data": checked["data"], "layout": checked["layout"]}


def _fetches(part: Any) -> bool:
    """Whether a figure names a picture by its place; also in what its buttons would do."""
    if isinstance(part, list):
        return any(map(_fetches, part))
    if not isinstance(part, dict):
        return False
    return any(
        (str(key).split(".")[-1] == "source" and isinstance(value, str) and not value.startswith("data:image/"))
        or _fetches(value)
        for key, value in part.items()
    )


def _titled(item: _Item, folder: Path) -> dict[str, Any]:
    """Read a figure; one without a title takes that of its page, which says what it shows and of how much."""
    figure = read_figure(item.figure or folder)
    if not (figure["layout"].get("title") or {}).get("text"):
        figure["layout"]["title"] = {"text": label(_words(folder, item.name)[0])}
    return figure


# -- figures -----------------------------------------------------------------------------------------


async def _figures(
    figures: Mapping[str, Mapping[str, Any]], formats: Sequence[str], inches: float, *, every: bool, dpi: int
) -> dict[str, bytes]:
    """Draw figures; return the files by their names."""
    content: dict[str, bytes] = {}
    misfits: dict[str, DoesNotFitError] = {}
    async with Chrome() as chrome:
        for name, figure in figures.items():
            for state in states_of(figure, every=every, name=name):
                stem = f"{name}--{state.slug}" if every and state.slug else name
                try:
                    drawing = await fitted(chrome, state, inches * PX_PER_INCH, name)
                except DoesNotFitError as error:
                    misfits[name] = error
                    break
                for kind in formats:
                    if kind == "pdf":
                        title = plain((figure["layout"].get("title") or {}).get("text") or name)
                        body = await chrome.pdf(drawing, title)
                        if boxes := missing_glyphs(body):
                            log.warning(
                                f"{stem}.pdf: {boxes} characters are empty boxes, as no font of this machine has them. "
                                "Install fonts (Debian, Ubuntu: fonts-noto-core, fonts-noto-cjk) and export again."
                            )
                    elif kind == "svg":
                        body = sized_svg(drawing, sha256(stem.encode()).hexdigest()[:6])
                    else:
                        body = await chrome.png(drawing, dpi)
                    content[f"{stem}.{kind}"] = body
    if misfits:
        raise InputError(too_wide(list(misfits.values()), inches))
    return content


# -- tables ------------------------------------------------------------------------------------------


def _tables(item: _Item, formats: Sequence[str], inches: float, folder: Path) -> dict[str, bytes]:
    """Return the table of an item in the wanted formats, by the names of the files."""
    wanted = [kind for kind in TABLE_FORMATS if kind in formats]
    if not wanted or item.table is None:
        return {}
    csv = _frame_csv(item.table) if item.table.suffix == ".parquet" else item.table.read_bytes()
    table = read_table(csv, str(item.table))
    content = {f"{item.name}.csv": csv}
    if "tex" in wanted:
        frame = item.table.parent == folder
        title, caption = (f"{item.name}: all numbers", "") if frame else _words(folder, item.name)
        text = table_tex(table, name=item.name, title=title or item.name, caption=caption, width=inches)
        content[f"{item.name}.tex"] = text.encode()
    return {name: body for name, body in content.items() if name.rsplit(".", 1)[1] in wanted}


def _frame_csv(path: Path) -> bytes:
    check_table(path)
    frame = read_frame(path)
    buffer = io.StringIO()
    frame.to_csv(buffer, index=False, lineterminator="\n")
    return buffer.getvalue().encode()


def _words(folder: Path, name: str) -> tuple[str, str]:
    """Return title and caption of an analysis; they stand in its page, or in the report where it has none."""
    for path, section in ((folder / "figures" / f"{name}.html", None), (folder / "report.html", name)):
        if path.is_file():
            page = _Words(section)
            page.feed(path.read_text("utf-8", errors="replace"))
            if page.title or page.caption:
                return _one_line(page.title), _one_line(page.caption)
    return "", ""


def _one_line(parts: Iterable[str]) -> str:
    return " ".join("".join(parts).split())


class _Words(HTMLParser):
    """Reads heading and caption of a page, or of one of its sections."""

    def __init__(self, section: str | None) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.caption: list[str] = []
        self._section, self._heading = section, "h1" if section is None else "h2"
        self._inside = section is None
        self._into: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "section" and self._section is not None:
            self._inside = dict(attrs).get("id") == self._section
        if self._inside and tag in (self._heading, "figcaption"):
            self._into = self.caption if tag == "figcaption" else self.title

    def handle_endtag(self, tag: str) -> None:
        if tag in (self._heading, "figcaption"):
            self._into = None

    def handle_data(self, data: str) -> None:
        if self._into is not None:
            self._into.append(data)
