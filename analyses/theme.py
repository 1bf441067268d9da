"""One look for every figure: the same language has the same colour everywhere.

Colour never carries a meaning alone. A language is told by its colour, its marker and its dash together, an
intervention by its marker and dash too, so that figures survive greyscale print and colour-blind readers.

Texts that come from users (names of interventions, languages, captions) go through :func:`label`, because
Plotly reads a little HTML in texts.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from workbench.languages import COMMON_CRAWL_SHARE, ENGLISH_NAMES, HRL_6, LRL_5

INK, FAINT, GRID = "#1a1a1a", "#5f5f5f", "#e3e3e3"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"

# Nine hues at four lightnesses (OKLCH 0.34, 0.46, 0.56, 0.66), each at least 2.9:1 on white.
_COLOURS: tuple[tuple[str, ...], ...] = (
    ("#02376f", "#0256a9", "#2474cf", "#4693f1"),
    ("#5b2700", "#8b3f03", "#b55508", "#dd6f23"),
    ("#05441d", "#046a2f", "#0e8c41", "#33ac5a"),
    ("#63034f", "#8e2873", "#af4791", "#d066b1"),
    ("#433700", "#68570b", "#8a7300", "#ac9003"),
    ("#064043", "#0c6468", "#01858a", "#10a6ad"),
    ("#47137c", "#673ba2", "#8459c3", "#a278e4"),
    ("#6d0218", "#9e2030", "#c0434c", "#e36368"),
    ("#383838", "#585858", "#747474", "#929292"),
)
_SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up", "triangle-down", "star", "hexagon")
_DASHES = ("solid", "dash", "dot", "dashdot")
# Marks of interventions and languages that are not in the tables start again with hollow markers.
_HOLLOW = tuple(f"{symbol}-open" for symbol in _SYMBOLS)


@dataclass(frozen=True)
class Style:
    """How one thing is drawn wherever it is drawn.

    Attributes
    ----------
    colour : str
        Of lines and markers.
    dash : str
        Of lines.
    symbol : str
        Of markers.
    width : float
        Of lines, in pixels.
    """

    colour: str
    dash: str = "solid"
    symbol: str = "circle"
    width: float = 2.0

    def rgba(self, alpha: float) -> str:
        """Return the colour with an opacity, for bands."""
        red, green, blue = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},{alpha})"


def _language_styles() -> dict[str, Style]:
    # Languages that are most often drawn together come first, and so get the hues that differ most.
    rest = sorted(set(COMMON_CRAWL_SHARE) - {*HRL_6, *LRL_5}, key=lambda code: -COMMON_CRAWL_SHARE[code])
    styles = {}
    for place, code in enumerate((*HRL_6, *LRL_5, *rest)):
        turn, hue = divmod(place, len(_COLOURS))
        shift = (0, 2, 1, 3)[turn]
        # Another symbol each time a hue comes round: two shades of it are not told apart in a cloud of points.
        mark = (hue + 2 * turn) % len(_SYMBOLS)
        styles[code] = Style(_COLOURS[hue][(hue + shift) % 4], _DASHES[(mark + shift) % 4], _SYMBOLS[mark])
    return styles


_LANGUAGES = _language_styles()

FROZEN = Style("#000000", "dash", "line-ew-open", 1.8)
SOURCE = Style("#000000", "dot", "line-ew-open", 1.8)
PUBLISHED = Style(INK, "solid", "star-open")
"""What a paper printed; a hollow star wherever it is drawn."""

# By the first word of an intervention's name. Parallel rows are the claim, so they are the strongest line. A
# legend shows 30 pixels of a line; dashes in pixels are chosen so that these don't end in a gap.
_ROLES: dict[str, Style] = {
    "parallel": Style("#0256a9", "solid", "circle", 3.2),
    "mean": Style("#0e8c41", "8px,3px", "square", 2.2),
    "random": Style("#b55508", "dashdot", "triangle-down-open", 1.8),
    "noise": Style("#747474", "dot", "x", 1.8),
    "mid-token": Style("#8e2873", "12px,3px,3px,3px", "diamond-open", 1.8),
}
_TIERS: dict[str, Style] = {
    "HRL": Style("#0256a9", "solid", "circle"),
    "LRL": Style("#b55508", "dash", "diamond"),
    "High": Style("#0256a9", "solid", "circle"),
    "Medium": Style("#0e8c41", "dot", "square"),
    "Low": Style("#b55508", "dash", "diamond"),
    "": Style("#747474", "dashdot", "x"),
}


def language_style(code: str) -> Style:
    """Return the style of a language: fixed for the 36 of XM3600, derived from the code for any other."""
    if code in _LANGUAGES:
        return _LANGUAGES[code]
    return _derived(code)


def tier_style(tier: str) -> Style:
    """Return the style of a tier."""
    return _TIERS.get(tier) or _derived(tier)


def intervention_styles(names: Iterable[str]) -> dict[str, Style]:
    """Return a style for each intervention of a sweep, by the role that its name begins with.

    A second intervention of one role, and one of no known role, gets marks that none of the others has.
    """
    styles: dict[str, Style] = {}
    spare = [
        Style(_COLOURS[hue][level], _DASHES[level], _HOLLOW[hue])
        for hue, level in ((6, 2), (5, 1), (7, 3), (4, 2), (0, 3), (2, 0), (3, 2), (1, 3), (8, 1))
    ]
    for name in names:
        role = name.replace(",", " ").split(" ")[0].lower()
        style = _ROLES.get(role)
        if style is None or style in styles.values():
            style = spare[sum(used in spare for used in styles.values()) % len(spare)]
        styles[name] = style
    return styles


def _derived(word: str) -> Style:
    number = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
    hue, level = number % len(_COLOURS), number // len(_COLOURS) % 4
    return Style(_COLOURS[hue][level], _DASHES[level], _HOLLOW[hue])


def label(text: str) -> str:
    """Escape a text for Plotly, which reads tags, entities and, in names of traces, ``%{…}`` placeholders."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "&#37;{")


def language_name(code: str) -> str:
    """Return ``"Swahili (sw)"``, or the code itself where it has no known name."""
    return f"{ENGLISH_NAMES[code]} ({code})" if code in ENGLISH_NAMES else code


def depth_name(depth: int) -> str:
    """Return ``"depth 9 (block 8)"``; depth 0 is the embedding layer, before any block."""
    return "depth 0 (embedding)" if depth == 0 else f"depth {depth} (block {depth - 1})"


def depth_ticks(depths: Sequence[int], at_most: int) -> dict[str, list]:
    """Return ``tickvals`` and ``ticktext`` of a depth axis: the depth, and below it the block.

    Parameters
    ----------
    depths : sequence of int
    at_most : int
        Ticks that fit. If there are more depths, evenly spaced ones are kept, the last always.
    """
    step = -(-len(depths) // at_most)
    kept = list(depths)[::-1][::step][::-1]
    return {
        "tickvals": kept,
        "ticktext": ["0<br><i>emb</i>" if depth == 0 else f"{depth}<br><i>{depth - 1}</i>" for depth in kept],
    }


DEPTH_TITLE = "depth (blocks that have run); in italics the block, counted from 0"


def _template() -> go.layout.Template:
    axis: dict[str, Any] = {
        "gridcolor": GRID,
        "linecolor": FAINT,
        "showline": True,
        "ticks": "outside",
        "tickcolor": FAINT,
        "ticklen": 4,
        "zeroline": False,
        "title": {"standoff": 10, "font": {"size": 13}},
    }
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": 13, "color": INK},
            "paper_bgcolor": "#ffffff",
            "plot_bgcolor": "#ffffff",
            "colorway": [shades[1 + place % 2] for place, shades in enumerate(_COLOURS)],
            "title": {"x": 0, "xref": "paper", "xanchor": "left", "font": {"size": 16}},
            "margin": {"l": 64, "r": 24, "t": 64, "b": 64},
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {"bgcolor": "#ffffff", "bordercolor": FAINT, "font": {"family": FONT, "size": 13}},
            "legend": {"bgcolor": "rgba(255,255,255,0.85)", "font": {"size": 13}},
            # One signed and one unsigned map for heatmaps, both readable in grey.
            "colorscale": {"sequential": "Cividis", "diverging": "RdBu_r"},
        }
    )


TEMPLATE = _template()
