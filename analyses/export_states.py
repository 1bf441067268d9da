"""What a figure shows before and after its buttons are pressed.

Paper has no buttons. A figure with menus or sliders is a family of figures, one for each choice, so an export
prints one of them: the choice that the file opens with, or every one, each under its own name. What was chosen
is said above the plot, since the menu that said it is gone.

The buttons are data, in Plotly's words: ``restyle`` changes traces, ``relayout`` the layout, ``update`` both.
They are carried out here on plain dictionaries, and nothing in them is ever run.
"""

import copy
import dataclasses
import html
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import InputError

# A figure with more choices than this is for the screen.
MOST_STATES = 400

_METHODS = ("restyle", "relayout", "update", "skip")


@dataclass(frozen=True)
class State:
    """A figure as it stands after some choices.

    Attributes
    ----------
    figure : dict
        Plotly's ``data`` and ``layout``, without menus and sliders.
    label : str
        What is chosen, as Plotly text: ``"image to text (i2t), mean of LRL"``; empty where there is no choice.
    slug : str
        The same for the name of a file: ``"image-to-text-i2t--mean-of-LRL"``.
    """

    figure: dict[str, Any] = field(repr=False)
    label: str
    slug: str


@dataclass(frozen=True)
class _Control:
    prefix: str
    active: int
    buttons: list[Mapping[str, Any]]


def states(figure: Mapping[str, Any], *, every: bool, name: str) -> list[State]:
    """Return what a figure shows.

    Parameters
    ----------
    figure : mapping
        Plotly's ``data`` and ``layout``. It is left as it is.
    every : bool
        Every combination of the choices of its menus and sliders, instead of that one alone that the file opens
        with.
    name : str
        Of the figure, for messages.

    Returns
    -------
    list of State
        The one that the file opens with comes first.

    Raises
    ------
    InputError
        If there are too many states, or a button does what can't be done on paper (``animate``).
    """
    controls = _controls(figure["layout"])
    opening = tuple(control.active for control in controls)
    combinations: list[tuple[int, ...]] = [opening]
    if every:
        total = 1
        for control in controls:
            total *= len(control.buttons)
        if total > MOST_STATES:
            raise InputError(
                f"The menus of {name!r} give {total:,} figures, and an export writes at most {MOST_STATES}. Export the "
                "state that it opens with, or make the figures that you want in Python."
            )
        everything = itertools.product(*(range(len(control.buttons)) for control in controls))
        combinations = list(dict.fromkeys([*([] if -1 in opening else [opening]), *everything]))
    found = [_state(figure, controls, chosen, name) for chosen in combinations]
    # Names in scripts other than the Latin leave no trace in a slug.
    seen: dict[str, int] = {}
    for place, state in enumerate(found):
        seen[state.slug] = seen.get(state.slug, 0) + 1
        if seen[state.slug] > 1:
            found[place] = dataclasses.replace(state, slug=f"{state.slug}-{seen[state.slug]}")
    return found


def _state(figure: Mapping[str, Any], controls: Sequence[_Control], chosen: Sequence[int], name: str) -> State:
    changed = {"data": copy.deepcopy(figure["data"]), "layout": copy.deepcopy(figure["layout"])}
    labels, slugs = [], []
    for control, place in zip(controls, chosen, strict=True):
        if place < 0:
            continue
        button = control.buttons[place]
        if place != control.active:
            _press(changed, button, name)
        text = str(button.get("label") or f"choice {place + 1}")
        labels.append(f"{control.prefix}{text}")
        slugs.append(_slug(text) or f"choice-{place + 1}")
    for key in ("updatemenus", "sliders"):
        changed["layout"].pop(key, None)
    return State(changed, ", ".join(labels), "--".join(slugs))


def _controls(layout: Mapping[str, Any]) -> list[_Control]:
    """Return menus and sliders that offer a choice."""
    found = []
    for key, buttons in (("updatemenus", "buttons"), ("sliders", "steps")):
        for control in layout.get(key) or ():
            offered: list[Mapping[str, Any]] = list(control.get(buttons) or ())
            active = control.get("active", 0)
            if control.get("visible", True) and len(offered) > 1:
                inside = isinstance(active, int) and 0 <= active < len(offered)
                prefix = str((control.get("currentvalue") or {}).get("prefix") or "")
                found.append(_Control(prefix, active if inside else -1, offered))
    return found


def _press(figure: dict[str, Any], button: Mapping[str, Any], name: str) -> None:
    """Do to a figure what Plotly does when a button is pressed."""
    method, args = button.get("method", "restyle"), list(button.get("args") or ())
    if method not in _METHODS:
        raise InputError(
            f"A button of {name!r} calls Plotly's {method!r}, which paper can't show; an export knows "
            f"{', '.join(_METHODS)}. Export the state that the figure opens with."
        )
    if method == "skip":
        return
    if method in ("restyle", "update") and args:
        places = args[2 if method == "update" else 1 :]
        _restyle(figure["data"], args[0], places[0] if places else None, name)
    changes = args[:1] if method == "relayout" else args[1:2] if method == "update" else []
    for path, value in (changes[0] if changes else {}).items():
        assign(figure["layout"], path, value, name)


def _restyle(traces: list[dict[str, Any]], changes: Mapping[str, Any], places: Any, name: str) -> None:
    """Give traces new values; a list of values goes round the traces, one each."""
    chosen = range(len(traces)) if places is None else [places] if isinstance(places, int) else list(places)
    if not all(isinstance(place, int) and -len(traces) <= place < len(traces) for place in chosen):
        raise InputError(f"A button of {name!r} changes a trace that the figure doesn't have: {list(chosen)}.")
    for path, value in changes.items():
        for turn, place in enumerate(chosen):
            own = value[turn % len(value)] if isinstance(value, list) and value else value
            assign(traces[place], path, own, name)


def assign(target: dict[str, Any], path: str, value: Any, name: str) -> None:
    """Set what Plotly calls ``"annotations[2].x"`` or ``"xaxis.title.text"``; None takes it away.

    Raises
    ------
    InputError
        If the path leads through something that isn't there.
    """
    keys = list(_keys(path))
    here: Any = target
    for key, following in itertools.pairwise(keys):
        if isinstance(key, str) and isinstance(here, dict):
            if here.get(key) is None:
                here[key] = [] if isinstance(following, int) else {}
            # Plotly reads a title that is a text alone as its "text".
            if key == "title" and isinstance(here[key], str):
                here[key] = {"text": here[key]}
            here = here[key]
        elif isinstance(key, int) and isinstance(here, list) and key < len(here):
            here = here[key]
        else:
            here = None
            break
    last = keys[-1] if keys else ""
    if isinstance(here, dict) and isinstance(last, str) and last:
        if value is None:
            here.pop(last, None)
        else:
            here[last] = copy.deepcopy(value)
    elif isinstance(here, list) and isinstance(last, int) and last < len(here):
        here[last] = copy.deepcopy(value)
    else:
        raise InputError(f"The figure {name!r} changes {path!r}, which it doesn't have. Make the run's figures again.")


def _keys(path: str) -> Iterator[str | int]:
    for word, number in re.findall(r"([^.\[\]]+)|\[(\d{1,6})\]", path):
        yield word or int(number)


def plain(text: str) -> str:
    """Return a Plotly text without its tags and entities."""
    untagged = re.sub(r"</?[a-zA-Z][^<>]*>", "", re.sub(r"<br\s*/?>", " ", text))
    return html.unescape(untagged)


def _slug(text: str) -> str:
    words = re.findall(r"[A-Za-z0-9@+]+", plain(text))
    return "-".join(word.replace("@", "at").replace("+", "plus") for word in words)
