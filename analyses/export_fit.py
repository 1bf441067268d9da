"""Making a printed figure fit: margins as wide as its texts, the legend below, panels in rows.

How much room a text takes depends on the fonts of the machine. So nothing is guessed for good: a figure is
drawn, its texts are measured in the browser, the margins are set to what was measured, and it is drawn again,
until everything stands inside and nothing has room to spare. Two or three drawings do.

Small multiples (panels that share both axes) are set for paper as papers set them: as many side by side as the
width holds, and tick labels at the outer panels alone.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any

from analyses.export_browser import PX_PER_INCH, Box, Chrome, Drawing
from analyses.export_print import BODY, HEAD, SCALE, axes_of, is_number, printed, rescale, thinned, wrapped
from analyses.export_states import State
from workbench.errors import InputError

MOST_HEIGHT = 9 * PX_PER_INCH
"""The height of a page's text in most styles; a figure is taller only where its rows of labels need it."""

_TALLEST = 190 * PX_PER_INCH  # of a page of PDF
_PASSES = 7
_GAP = 5.0  # between title, plot and legend
_EDGE = 2.0
_SPARE = 160.0
_SIDES = ("left", "right", "top", "bottom")
# Boxes of type are taller than its letters: at this overlap, letters of two lines come close and don't touch.
_OVERLAP = 0.16 * BODY
_LINE = 1.3 * BODY - _OVERLAP
_PANEL_WIDTH, _PANEL_HEIGHT, _PANEL_GAP = 80.0, 33.0, 16.0


@dataclass(frozen=True)
class _Room:
    """Margins around the plot, its height, and how far down the title is moved, in CSS pixels."""

    left: float
    right: float
    top: float
    bottom: float
    plot: float
    title: float = 0.0

    @property
    def height(self) -> float:
        return self.top + self.plot + self.bottom


@dataclass(frozen=True)
class _Panel:
    """One of several plots in a figure: its axes, and the number of the annotation that heads it."""

    x: str
    y: str
    head: int | None


class DoesNotFitError(InputError):
    """A figure has texts that don't stand side by side in the width.

    Attributes
    ----------
    name : str
        Of the figure.
    needed : float or None
        About how many inches would do.
    """

    def __init__(self, name: str, width: float, needed: float | None) -> None:
        self.name, self.needed = name, needed
        super().__init__(too_wide([self], width / PX_PER_INCH))


def too_wide(errors: Sequence[DoesNotFitError], inches: float) -> str:
    """Say of several figures what each of them needs."""
    needs = [f"{e.name!r}{f' (about {math.ceil(e.needed * 10) / 10:g} in)' if e.needed else ''}" for e in errors]
    return (
        f"With type of 8 points, the labels of {', '.join(needs)} don't fit side by side into {inches:g} in. Choose a "
        "larger --width, or export the others by --names."
    )


async def fitted(chrome: Chrome, state: State, width: float, name: str) -> Drawing:
    """Draw a figure for print.

    Parameters
    ----------
    chrome : Chrome
    state : State
    width : float
        CSS pixels.
    name : str
        Of the figure, for messages.

    Raises
    ------
    DoesNotFitError
        If the figure's texts don't fit into the width, whatever is tried.
    InputError
        If it would be taller than any page.
    """
    figure = printed(state, width, name)
    panels = _small_multiples(figure["layout"])
    room = _Room(left=60.0, right=8.0, top=60.0, bottom=60.0 + _SPARE, plot=0.0)
    room = replace(room, plot=math.ceil(_plot_height(figure, panels, width - room.left - room.right)))
    least = 0.0
    for turn in range(_PASSES):
        if room.height > _TALLEST:
            raise InputError(
                f"{name!r} has so many rows that it would be {room.height / PX_PER_INCH:.0f} in tall, and no page is. "
                "Leave it out with --names, and take its numbers as csv."
            )
        drawing = await chrome.draw(name, _placed(figure, panels, width, room), width, room.height)
        boxes = await chrome.measure(drawing)
        needed = _needed(boxes, width, room)
        if needed.left + needed.right > 0.75 * width:
            break
        taller = _taller(boxes, room)
        if not taller and _holds(room, needed, spare=2.0 if turn < 3 else 30.0):
            _check_side_by_side(boxes, width, name)
            return drawing
        if turn >= 3:
            # Other margins can give other ticks, and these other margins: from here on they only grow.
            needed = replace(needed, **{side: max(getattr(room, side), getattr(needed, side)) for side in _SIDES})
        least = max(least, taller or 0.0, _least_plot(figure["layout"], panels, width, needed))
        plot = taller or min(room.plot, max(least, MOST_HEIGHT - needed.top - needed.bottom))
        # Where legend and axis title would meet, Plotly moves the title into the plot, and it can't be measured.
        # The second drawing has the right width, so the legend its final height.
        room = replace(needed, plot=math.ceil(plot), bottom=needed.bottom + (_SPARE if turn == 0 else 0))
    raise DoesNotFitError(name, width, None)


def _placed(figure: dict[str, Any], panels: Sequence[_Panel], width: float, room: _Room) -> dict[str, Any]:
    """Return a figure with these margins; long texts are on lines that fit."""
    layout, wide = copy.deepcopy(figure["layout"]), width - room.left - room.right
    layout["margin"] = {
        "l": room.left, "r": room.right, "t": room.top, "b": room.bottom, "pad": 0, "autoexpand": False
    }  # fmt: skip
    title = layout["title"]
    title["text"] = wrapped(title["text"], width - 2 * _EDGE, HEAD)
    label = wrapped(title.pop("subtitle")["text"], width - 2 * _EDGE)
    if label:
        title["text"] += f'{"<br>" if title["text"] else ""}<span style="font-size:{BODY:.2f}px">{label}</span>'
    title["pad"] = {"t": room.title, "l": _EDGE}
    if panels:
        _place_panels(layout, panels, wide, room.plot)
    for key, axis in axes_of(layout).items():
        start, end = axis.get("domain") or (0, 1)
        length = (end - start) * (wide if key[0] == "x" else room.plot)
        if axis["title"].get("text"):
            axis["title"]["text"] = wrapped(axis["title"]["text"], max(length, 40.0))
        _fit_ticks(axis, key[0] == "x", length, width)
    for place, note in enumerate(layout.get("annotations") or ()):
        if all(panel.head != place for panel in panels):
            note["text"] = wrapped(str(note.get("text") or ""), _note_share(note, axes_of(layout)) * wide)
    # So many names side by side, each with a sample of its line, which takes 45 pixels.
    entry = width / max(1, width // 150) - 45
    data = []
    for trace in figure["data"]:
        own = copy.copy(trace)
        if own.get("name"):
            own["name"] = wrapped(own["name"], entry)
        if panels:
            rescale(own, 0.65)
        data.append(own)
    return {"data": data, "layout": layout}


def _note_share(note: Mapping[str, Any], axes: Mapping[str, Mapping[str, Any]]) -> float:
    """Return how much of the plot's width an annotation may take: a heading, all of its panel's."""
    x, anchor = note.get("x"), note.get("xanchor")
    if note.get("xref") != "paper" or not is_number(x) or anchor not in ("left", "center"):
        return 0.62
    domains = [axis.get("domain") or (0, 1) for key, axis in axes.items() if key[0] == "x"]
    rooms = [
        end - x if anchor == "left" else 2 * min(end - x, x - start)
        for start, end in domains
        if start - 1e-6 <= x < end
    ]
    return max(0.3, min(rooms, default=0.62))


def _fit_ticks(axis: dict[str, Any], horizontal: bool, length: float, width: float) -> None:
    texts, ticks = axis.get("ticktext"), axis.get("tickvals")
    if not isinstance(texts, list) or not isinstance(ticks, list) or len(texts) != len(ticks):
        return
    if not horizontal:
        axis["ticktext"] = [wrapped(str(text), 0.38 * width) for text in texts]
    elif ticks and all(map(is_number, ticks)) and all(str(text)[:1].isdigit() for text in texts):
        ends = axis.get("range")
        if not isinstance(ends, list) or len(ends) != 2 or not all(map(is_number, ends)):
            ends = [min(ticks), max(ticks)]
        span = ends[1] - ends[0]
        axis["tickvals"], axis["ticktext"] = thinned(ticks, [str(text) for text in texts], length, span)


# -- margins -----------------------------------------------------------------------------------------


def _needed(boxes: Sequence[Box], width: float, room: _Room) -> _Room:
    """Return the margins that hold what was measured."""
    beside = [box for box in boxes if box.kind not in ("title", "legend")]
    heights = {
        kind: max((box.bottom for box in own), default=0) - min((box.top for box in own), default=0)
        for kind in ("title", "legend")
        for own in [[box for box in boxes if box.kind == kind]]
    }
    title = [box.top for box in boxes if box.kind == "title"]
    above = room.top - min([room.top, *(box.top for box in beside)])
    below = max([0.0, *(box.bottom - room.top - room.plot for box in beside)])
    # Plotly rounds margins; whole pixels are what it can keep.
    return _Room(
        left=math.ceil(room.left - min([room.left, *(box.left for box in beside)]) + _EDGE),
        right=math.ceil(max([0.0, *(box.right - (width - room.right) for box in beside)]) + _EDGE),
        top=math.ceil(_EDGE + above + (heights["title"] + _GAP if heights["title"] else 0)),
        bottom=math.ceil(_EDGE + below + (heights["legend"] + _GAP if heights["legend"] else 0)),
        plot=room.plot,
        title=math.ceil(room.title + _EDGE - min(title, default=_EDGE)),
    )


def _holds(room: _Room, needed: _Room, *, spare: float) -> bool:
    """Whether the margins are wide enough, and not much wider than that, on a page that isn't too tall."""
    differences = [getattr(room, side) - getattr(needed, side) for side in (*_SIDES, "title")]
    return all(-1 <= difference <= spare for difference in differences)


def _taller(boxes: Sequence[Box], room: _Room) -> float | None:
    """Return the height of the plot at which labels of rows no longer overlap, if they do."""
    factor = _crowding([box for box in boxes if box.kind == "ytick"], "right", "top", "bottom")
    return room.plot * factor if factor > 1 else None


def _check_side_by_side(boxes: Sequence[Box], width: float, name: str) -> None:
    """Refuse a figure with so many labels side by side that they run into each other."""
    labels = [box for box in boxes if box.kind == "xtick"]
    factor = max(_crowding(labels, edge, "left", "right") for edge in ("top", "bottom"))
    if factor > 1:
        raise DoesNotFitError(name, width, width * factor / PX_PER_INCH)


def _crowding(labels: Sequence[Box], edge: str, start: str, end: str) -> float:
    """Return by how much the distance of labels must grow so that none overlaps the next; 1 where none does.

    Labels of one axis stand with an ``edge`` on one line.
    """
    factor = 1.0
    for _, own in groupby(
        sorted(labels, key=lambda box: round(getattr(box, edge))), key=lambda box: round(getattr(box, edge))
    ):
        ends = sorted((getattr(box, start), getattr(box, end)) for box in own)
        for (a, b), (c, d) in pairwise(ends):
            distance, needed = (c + d - a - b) / 2, (b - a + d - c) / 2 - _OVERLAP
            if distance > 0.5 and needed > distance + 0.3:
                factor = max(factor, needed / distance)
    return factor


def _plot_height(figure: dict[str, Any], panels: Sequence[_Panel], wide: float) -> float:
    """Return the height of the plot: that of the screen, in proportion to the type."""
    if panels:
        rows, _, wide_panel = _tiles(panels, wide)
        return rows * max(_PANEL_HEIGHT, 0.72 * wide_panel) + sum(_row_gaps(figure["layout"], panels, wide))
    layout = figure["layout"]
    margin = layout.get("margin") or {}
    height = layout.get("height") or 450
    screen = max(float(height) - float(margin.get("t", 64)) - float(margin.get("b", 64)), 120.0)
    # Rows with a name each need less room on paper than a pointer does on a screen.
    rows = len(layout["yaxis"].get("ticktext") or ())
    height = min(max(screen * (0.62 if rows > 6 else SCALE), 0.4 * wide), MOST_HEIGHT)
    return max(height, rows * _LINE)


def _least_plot(layout: dict[str, Any], panels: Sequence[_Panel], width: float, room: _Room) -> float:
    if not panels:
        return 100.0
    wide = width - room.left - room.right
    return _tiles(panels, wide)[0] * _PANEL_HEIGHT + sum(_row_gaps(layout, panels, wide))


# -- small multiples ---------------------------------------------------------------------------------


def _small_multiples(layout: dict[str, Any]) -> list[_Panel]:
    """Return the panels of a figure whose four or more plots share both axes; else nothing."""
    panels = []
    axes = axes_of(layout)
    for key, axis in axes.items():
        if key[0] == "x":
            other = f"yaxis{key[5:]}"
            if other not in axes or not axis.get("domain") or not axes[other].get("domain"):
                return []
            panels.append(_Panel(key, other, None))
    shared = ("range", "tickvals", "type", "title")
    if len(panels) < 4 or any(
        axes[getattr(panel, side)].get(key) != axes[getattr(panels[0], side)].get(key)
        for panel in panels
        for side in "xy"
        for key in shared
    ):
        return []
    if not all(axes[getattr(panels[0], side)].get("range") for side in "xy"):
        return []
    return [replace(panel, head=_head(layout, axes[panel.x]["domain"], axes[panel.y]["domain"])) for panel in panels]


def _head(layout: dict[str, Any], across: Sequence[float], upwards: Sequence[float]) -> int | None:
    """Return the annotation that stands above a panel."""
    for place, note in enumerate(layout.get("annotations") or ()):
        if note.get("xref") == note.get("yref") == "paper" and isinstance(note.get("x"), int | float):
            inside = across[0] - 1e-6 <= note["x"] <= across[1] + 1e-6
            if inside and abs(float(note.get("y", -1)) - upwards[1]) < 1e-6:
                return place
    return None


def _tiles(panels: Sequence[_Panel], wide: float) -> tuple[int, int, float]:
    """Return rows, columns, and the width of a panel."""
    most = max(1, min(len(panels), int((wide + _PANEL_GAP) // (_PANEL_WIDTH + _PANEL_GAP))))
    rows = -(-len(panels) // most)
    columns = -(-len(panels) // rows)
    return rows, columns, (wide - _PANEL_GAP * (columns - 1)) / columns


def _row_gaps(layout: dict[str, Any], panels: Sequence[_Panel], wide: float) -> list[float]:
    """Return the room above each row but the first: for its panels' heads, on as many lines as they need."""
    rows, columns, wide_panel = _tiles(panels, wide)
    gaps = []
    for row in range(1, rows):
        heads = [panel.head for panel in panels[row * columns : (row + 1) * columns] if panel.head is not None]
        lines = [wrapped(layout["annotations"][head]["text"], wide_panel + _PANEL_GAP).count("<br>") for head in heads]
        gaps.append(6 + (1 + max(lines, default=0)) * BODY * 1.3)
    return gaps


def _place_panels(layout: dict[str, Any], panels: Sequence[_Panel], wide: float, tall: float) -> None:
    """Set the panels in rows. Labels of ticks stand at the left, and below the last panel of each column."""
    rows, columns, wide_panel = _tiles(panels, wide)
    gaps = [0.0, *_row_gaps(layout, panels, wide)]
    tall_panel = (tall - sum(gaps)) / rows
    for place, panel in enumerate(panels):
        row, column = divmod(place, columns)
        left = column * (wide_panel + _PANEL_GAP) / wide
        top = 1 - (row * tall_panel + sum(gaps[: row + 1])) / tall
        x, y = layout[panel.x], layout[panel.y]
        x["domain"] = [left, min(left + wide_panel / wide, 1.0)]
        y["domain"] = [max(top - tall_panel / tall, 0.0), min(top, 1.0)]
        x["showticklabels"], y["showticklabels"] = place + columns >= len(panels), column == 0
        if panel.head is not None:
            note = layout["annotations"][panel.head]
            note |= {"x": left, "y": top, "xanchor": "left", "yanchor": "bottom", "align": "left", "borderpad": 0}
            note["text"] = wrapped(note["text"], wide_panel + _PANEL_GAP)
