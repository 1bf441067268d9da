"""A figure's look on paper, whatever its look on a screen.

Journals set figures at the width of a column or of the page and want type of 8 to 9 points *at that width*. So
a figure is not shrunk into place, which would shrink its type too, but laid out again: all type at 8 points and
the title at 9, lines and marks scaled with the type, long texts on several lines, the legend below the plot, and
nothing that only a pointer can use. Where the figure has a layout for narrow screens (``meta.narrow``), a column
takes that.

What the numbers are is never touched.
"""

import copy
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeGuard

from analyses.export_browser import PX_PER_INCH
from analyses.export_states import State, assign

BODY, HEAD = 8 * PX_PER_INCH / 72, 9 * PX_PER_INCH / 72
"""Type in CSS pixels: 8 and 9 points."""

SCALE = BODY / 13
"""From screen to paper: the type of a screen has 13 pixels."""

# Static TrueType fonts first: a browser embeds others as Type 3, which some publishers refuse.
FONT = "'Noto Sans', 'DejaVu Sans', Arial, Helvetica, sans-serif"

# As in figures.js: a page narrower than this takes a figure's narrow layout.
_NARROW = 640

_AXIS = re.compile(r"[xy]axis\d*")
# Of texts for the pointer, which would only make the figure heavier.
_POINTER = ("hovertext", "hovertemplate", "customdata", "hoverinfo", "hoverlabel")


def printed(state: State, width: float, name: str) -> dict[str, Any]:
    """Return a figure in the look for print, still without margins.

    Parameters
    ----------
    state : State
    width : float
        CSS pixels.
    name : str
        Of the figure, for messages.
    """
    data, layout = copy.deepcopy(state.figure["data"]), copy.deepcopy(state.figure["layout"])
    meta = layout.pop("meta", None)
    variant = "narrow" if width / SCALE < _NARROW else "wide"
    changes = meta.get(variant) if isinstance(meta, Mapping) else None
    for path, value in (changes if isinstance(changes, Mapping) else {}).items():
        assign(layout, str(path), value, name)
    # What is hidden behind a button has no place on paper.
    data = [trace for trace in data if trace.get("visible", True) is True]
    for place, trace in enumerate(data):
        for key in _POINTER:
            trace.pop(key, None)
        trace["uid"] = f"-{place}"  # Plotly would draw a random one
        _restyle(trace)
    _restyle(layout)
    layout["font"] = {**layout.get("font", {}), "family": FONT, "size": BODY}
    for key in ("width", "autosize", "hovermode", "uirevision"):
        layout.pop(key, None)
    _title(layout, state.label)
    _axes(layout)
    _categories(layout, data)
    _legend(layout, data)
    for trace in [*data, layout.get("coloraxis") or {}]:
        for holder in (trace, trace.get("marker") or {}):
            _colour_bar(holder)
    return {"data": data, "layout": layout}


def _restyle(part: Any) -> None:
    """Give all type in a part of a figure its size, and scale what is measured in pixels."""
    if isinstance(part, list):
        for item in part:
            _restyle(item)
    if not isinstance(part, dict):
        return
    for key, value in part.items():
        if isinstance(value, dict):
            if key.endswith("font"):
                value["size"] = BODY
                value.pop("family", None)
            elif key == "marker":
                _scale(value, "size")
            elif key == "line":
                _scale(value, "width")
            elif key in ("error_x", "error_y"):
                _scale(value, "thickness", "width")
        elif key in ("ax", "ay", "xshift", "yshift", "zerolinewidth", "ticklen"):
            _scale(part, key)
        _restyle(value)


def rescale(trace: dict[str, Any], factor: float) -> None:
    """Make a trace's marks and lines smaller, as panels do; what is shared with other figures stays as it is."""
    for holder, key in (("marker", "size"), ("line", "width")):
        if isinstance(trace.get(holder), dict):
            trace[holder] = dict(trace[holder])
            _scale(trace[holder], key, factor=factor)


def _scale(part: dict[str, Any], *keys: str, factor: float = SCALE) -> None:
    for key in keys:
        value = part.get(key)
        if is_number(value):
            part[key] = value * factor
        elif isinstance(value, list) and all(is_number(item) for item in value):
            part[key] = [item * factor for item in value]


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value of a figure is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _title(layout: dict[str, Any], label: str) -> None:
    """Put the title, and below it what was chosen, at the top of the figure."""
    layout["title"] = {
        "text": str(_as_title(layout.get("title")).get("text") or ""),
        "subtitle": {"text": label, "font": {"size": BODY}},
        "font": {"size": HEAD},
        "x": 0, "xref": "container", "xanchor": "left", "y": 1, "yref": "container", "yanchor": "top",
        "pad": {"t": 1, "l": 2}, "automargin": False,
    }  # fmt: skip


def _as_title(title: Any) -> dict[str, Any]:
    return dict(title) if isinstance(title, dict) else {"text": str(title or "")}


def axes_of(layout: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the axes of a layout by their keys, ``"xaxis"``, ``"yaxis2"``, ..."""
    return {key: value for key, value in layout.items() if _AXIS.fullmatch(key) and isinstance(value, dict)}


def _axes(layout: dict[str, Any]) -> None:
    for key in ("xaxis", "yaxis"):
        layout.setdefault(key, {})
    for axis in axes_of(layout).values():
        title = _as_title(axis.get("title"))
        axis["title"] = {**title, "font": {**title.get("font", {}), "size": BODY}, "standoff": 6}
        axis["tickfont"] = {**axis.get("tickfont", {}), "size": BODY}
        axis["automargin"] = False
        # A label that lies across is neither quick to read nor does its box say where it is.
        axis["autotickangles"] = [0, 90]
        axis.pop("rangeslider", None)
        axis.pop("rangeselector", None)


def _categories(layout: dict[str, Any], data: Sequence[Mapping[str, Any]]) -> None:
    """Have every category labelled; Plotly leaves some out where room is short."""
    for key, axis in axes_of(layout).items():
        letter, number = key[0], key[5:]
        own = [trace for trace in data if trace.get(f"{letter}axis", letter) == f"{letter}{number}"]
        values = [value for trace in own for value in _listed(trace.get(letter))]
        texts = any(isinstance(value, str) and not _reads_as_number(value) for value in values)
        if "tickvals" not in axis and (axis.get("type") == "category" or ("type" not in axis and texts)):
            axis |= {"type": "category", "tickmode": "linear", "tick0": 0, "dtick": 1}


def _listed(values: Any) -> list[Any]:
    return values if isinstance(values, list) else []


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        # A date is a number to Plotly too.
        return re.match(r"\d{4}-\d\d", text) is not None
    return True


def _legend(layout: dict[str, Any], data: Sequence[dict[str, Any]]) -> None:
    if not any(trace.get("legendgrouptitle") for trace in data):
        # Groups are for clicking; each would start a row of its own.
        for trace in data:
            trace.pop("legendgroup", None)
    legend = layout.get("legend") or {}
    layout["legend"] = {
        **{key: legend[key] for key in ("title", "traceorder", "itemsizing") if key in legend},
        "font": {"size": BODY},
        "grouptitlefont": {"size": BODY},
        "orientation": "h",
        "x": 0, "xref": "container", "xanchor": "left", "y": 0, "yref": "container", "yanchor": "bottom",
        "maxheight": 5000, "tracegroupgap": 3, "bgcolor": "rgba(255,255,255,0)", "borderwidth": 0,
    }  # fmt: skip


def _colour_bar(holder: dict[str, Any]) -> None:
    bar = holder.get("colorbar")
    if bar is None and not holder.get("showscale", "z" in holder):
        return
    bar = dict(bar or {})
    title = {**_as_title(bar.get("title")), "side": "right", "font": {"size": BODY}}
    holder["colorbar"] = {**bar, "title": title, "thickness": 9, "xpad": 4, "tickfont": {"size": BODY}}


# -- texts -------------------------------------------------------------------------------------------


def text_width(text: str, size: float = BODY) -> float:
    """Estimate, on the safe side, how wide a Plotly text is in CSS pixels, its longest line if it has several."""
    return max(size * sum(_em(part) for part in _parts(line)) for line in re.split(r"<br\s*/?>", text))


def wrapped(text: str, room: float, size: float = BODY) -> str:
    """Return a Plotly text on as many lines as it needs to be no wider than ``room`` CSS pixels.

    Lines break at spaces, in a word only where it is longer than a line. Tags and entities stay whole.
    """
    lines = []
    for line in re.split(r"<br\s*/?>", text):
        lines.append("")
        used = 0.0
        for word in re.findall(r"(?:<[^<>]*>|[^ ])+", line):
            space = size * 0.3 if used else 0.0
            wide = size * sum(_em(part) for part in _parts(word))
            if used and used + space + wide > room:
                lines.append("")
                used = space = 0.0
            if wide <= room:
                lines[-1] += f"{' ' if space else ''}{word}"
                used += space + wide
                continue
            for part in _parts(word):
                if used and used + size * _em(part) > room:
                    lines.append("")
                    used = 0.0
                lines[-1] += part
                used += size * _em(part)
    return "<br>".join(lines)


def _parts(text: str) -> list[str]:
    """Split into tags, entities and characters with the marks that belong to them."""
    return re.findall(r"</?[a-zA-Z][^<>]*>|&#?\w{1,31};|[^\u0300-\u036f][\u0300-\u036f]*", text, re.DOTALL)


def _em(part: str) -> float:
    """Width of a part as a share of the type's size: of Noto Sans, rounded up."""
    if len(part) > 1 and part[0] == "<":
        return 0.0
    if part[0] != "&" and unicodedata.category(part[0]) in ("Mn", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(part[0]) in "WF":
        return 1.0
    if part in ("m", "w", "@", "%") or part.isupper():
        return 0.78
    return 0.3 if part in " .,:;|ijl'!()[]" else 0.6


def thinned(ticks: Sequence[float], texts: Sequence[str], room: float, span: float) -> tuple[list[float], list[str]]:
    """Keep so many labels of a numeric axis that they stand side by side, the last always.

    Parameters
    ----------
    ticks : sequence of float
        Where the labels stand, rising or falling.
    texts : sequence of str
    room : float
        Length of the axis in CSS pixels.
    span : float
        From one end of the axis to the other, in the units of ``ticks``.
    """
    halves = [text_width(text) / 2 + 0.25 * BODY for text in texts]

    def apart(a: int, b: int) -> bool:
        return abs(ticks[a] - ticks[b]) * room >= abs(span) * (halves[a] + halves[b])

    last, kept = len(ticks) - 1, list(range(len(ticks)))
    steps = [b - a for a, b in pairwise(ticks)]
    if steps and max(steps) - min(steps) < 1e-9:
        # Evenly spaced labels stay so.
        for step in range(1, len(ticks) + 1):
            kept = list(range(last, -1, -step))[::-1]
            if all(apart(a, b) for a, b in pairwise(kept)):
                break
    elif steps:
        kept = [last]
        for place in range(last - 1, -1, -1):
            if apart(place, kept[0]):
                kept.insert(0, place)
    return [ticks[place] for place in kept], [texts[place] for place in kept]
