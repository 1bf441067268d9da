"""Buttons and drop-downs inside a figure.

They are Plotly menus, so they also work in a notebook and in an exported figure. In a page, ``figures.js``
turns each menu into ordinary buttons or a ``<select>``, labelled with the menu's name, for keyboards and
small screens.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from analyses.frames import DIRECTIONS
from analyses.theme import INK, label

_LOOK: dict[str, Any] = {
    "yanchor": "bottom",
    "y": 1,
    "pad": {"b": 34, "r": 8},
    "bgcolor": "#ffffff",
    "bordercolor": "#9a9a9a",
    "font": {"size": 12, "color": INK},
    "showactive": True,
}


def add_traces(
    figure: go.Figure,
    traces: Mapping[str, Sequence[Any]],
    direction: str,
    layouts: Mapping[str, Mapping[str, Any]],
) -> dict[str, list[int]]:
    """Add the traces of every direction to an empty figure, show those of one, and add buttons to switch.

    Parameters
    ----------
    figure : Figure
    traces : mapping of str to sequence of traces
        By direction.
    direction : str
        What is shown first.
    layouts : mapping of str to mapping
        By direction, what else changes, such as the title of an axis.

    Returns
    -------
    dict of str to list of int
        Numbers of the traces of each direction.
    """
    places: dict[str, list[int]] = {}
    total = 0
    for name, own in traces.items():
        places[name] = list(range(total, total + len(own)))
        total += len(own)
        for trace in own:
            trace.visible = name == direction
    figure.add_traces([trace for own in traces.values() for trace in own])
    figure.update_layout(_nested(layouts[direction]))
    if len(traces) > 1:
        buttons = [
            {
                "label": DIRECTIONS[name],
                "method": "update",
                "args": [
                    {"visible": [place in places[name] for place in range(total)]},
                    dict(layouts[name]),
                ],
            }
            for name in traces
        ]
        add_menu(figure, "direction", "buttons", buttons, list(traces).index(direction), x=0.0, anchor="left")
    return places


def add_menu(
    figure: go.Figure, name: str, kind: str, buttons: Sequence[Any], active: int, *, x: float, anchor: str
) -> None:
    """Add a menu of a kind, ``"buttons"`` or ``"dropdown"``, that a page labels with its name."""
    menu = {
        **_LOOK,
        "name": name,
        "type": kind,
        "direction": "right" if kind == "buttons" else "down",
        "buttons": list(buttons),
        "active": active,
        "x": x,
        "xanchor": anchor,
    }
    figure.update_layout(updatemenus=[*figure.layout.updatemenus, menu])


def choice(name: str, changes: Mapping[str, Any], places: Sequence[int]) -> dict[str, Any]:
    """Return a button that gives some traces new values."""
    return {"label": label(name), "method": "restyle", "args": [dict(changes), list(places)]}


def _nested(layout: Mapping[str, Any]) -> dict[str, Any]:
    """Turn ``{"xaxis.title.text": x}``, as Plotly's buttons need it, into what Python's Plotly needs."""
    return {key.replace(".", "_"): value for key, value in layout.items()}
