from itertools import pairwise

import pytest

from analyses.theme import (
    _COLOURS,
    depth_name,
    depth_ticks,
    intervention_styles,
    label,
    language_name,
    language_style,
    tier_style,
)
from workbench.languages import HRL_6, LRL_5, XM3600_LANGUAGES


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_language_has_its_own_fixed_colour() -> None:
    colours = {code: language_style(code).colour for code in XM3600_LANGUAGES}
    assert len(set(colours.values())) == 36
    # Published figures rely on these: changing one is a decision, not an accident.
    assert (colours["en"], colours["sw"], colours["quz"]) == ("#02376f", "#2474cf", "#929292")


def test_languages_differ_without_colour() -> None:
    styles = [language_style(code) for code in XM3600_LANGUAGES]
    assert len({(style.symbol, style.dash) for style in styles}) == 36


def test_languages_of_one_hue_have_different_markers() -> None:
    by_hue: dict[int, list[str]] = {}
    for code in XM3600_LANGUAGES:
        style = language_style(code)
        hue = next(k for k, shades in enumerate(_COLOURS) if style.colour in shades)
        by_hue.setdefault(hue, []).append(style.symbol)
    assert all(len(set(symbols)) == len(symbols) for symbols in by_hue.values())


def test_colours_are_dark_enough_on_white() -> None:
    for code in XM3600_LANGUAGES:
        assert 1.05 / (luminance(language_style(code).colour) + 0.05) >= 2.9, code


def test_languages_that_are_drawn_together_differ_in_colour_and_marker() -> None:
    first = [language_style(code) for code in (*HRL_6, *LRL_5)][:9]
    assert len({style.symbol for style in first}) == 9


def test_an_unknown_language_or_tier_has_a_style_of_its_own_every_time() -> None:
    assert language_style("tlh") == language_style("tlh") != language_style("sjn")
    assert tier_style("mine") == tier_style("mine")
    assert language_style("tlh").symbol.endswith("-open")


def test_controls_keep_their_style_and_differ_without_colour() -> None:
    names = ["parallel en", "mean of 6", "random en", "noise", "mid-token en"]
    styles = intervention_styles(names)
    assert len({style.symbol for style in styles.values()}) == 5
    assert len({style.dash for style in styles.values()}) == 5
    assert styles["parallel en"].dash == "solid"
    assert styles["parallel en"].width == max(style.width for style in styles.values())
    assert intervention_styles(["noise"])["noise"] == styles["noise"]


def test_more_interventions_of_one_role_stay_apart() -> None:
    styles = intervention_styles(["parallel en", "parallel fr", "parallel de", "halfway", "noise, matched covariance"])
    assert len({(style.colour, style.symbol) for style in styles.values()}) == 5


def test_names_of_depths_carry_the_block() -> None:
    assert depth_name(9) == "depth 9 (block 8)"
    assert depth_name(0) == "depth 0 (embedding)"
    ticks = depth_ticks(range(13), 15)
    assert ticks["tickvals"] == list(range(13))
    assert ticks["ticktext"][9] == "9<br><i>8</i>"


def test_ticks_are_thinned_and_keep_the_last_depth() -> None:
    ticks = depth_ticks(range(28), 7)
    assert len(ticks["tickvals"]) <= 7
    assert ticks["tickvals"][-1] == 27
    assert len({b - a for a, b in pairwise(ticks["tickvals"])}) == 1


@pytest.mark.parametrize(
    ("text", "escaped"),
    [("<b>", "&lt;b&gt;"), ("a & b", "a &amp; b"), ("&lt;", "&amp;lt;"), ("%{y}", "&#37;{y}"), ("5 %", "5 %")],
)
def test_labels_are_escaped_for_plotly(text: str, escaped: str) -> None:
    assert label(text) == escaped


def test_names_of_languages() -> None:
    assert language_name("sw") == "Swahili (sw)"
    assert language_name("tlh") == "tlh"
