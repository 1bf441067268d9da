import pandas as pd
import pytest

from analyses.frames import Group, Number, SweepView, interval
from tests.analyses.factory import INTERVENTIONS, frozen_score, make_frame, patched_score
from workbench.errors import InputError


def test_numbers_are_those_of_the_frame() -> None:
    view = SweepView(make_frame())
    swahili = view.group("sw")
    frozen = frozen_score("sw", "t2i", "MRR")
    assert view.frozen(swahili, "t2i", "MRR") == Number(frozen, frozen - 2, frozen + 3, 200)
    patched = patched_score("sw", "noise", 4)
    assert view.patched(swahili, "noise", 4, "i2t", "R@1") == Number(patched, patched - 2, patched + 3, 200)
    assert view.patched(swahili, "noise", 40, "i2t", "R@1") is None


def test_what_a_frame_holds_is_read_off_it() -> None:
    view = SweepView(make_frame())
    assert view.interventions == list(INTERVENTIONS)
    assert view.metrics == ["R@1", "MRR"]
    assert view.depths == list(range(13))
    assert view.tiers == ["HRL", "LRL"]
    assert view.source_groups() == [Group("en", "HRL")]


def test_tiers_and_languages_are_sorted_by_score() -> None:
    view = SweepView(make_frame({"te": "LRL", "sw": "LRL", "hi": "", "de": "HRL", "en": "HRL"}))
    assert [(tier, [g.language for g in groups]) for tier, _, groups in view.by_tier("i2t", "R@1")] == [
        ("HRL", ["en", "de"]),
        ("LRL", ["sw", "te"]),
        ("", ["hi"]),
    ]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda f: f.drop(columns=["low", "source"]), "lacks the columns source, low"),
        (lambda f: f.head(0), "no rows"),
        (lambda f: f[f["intervention"] != "none"], "no row of the frozen tower"),
        (lambda f: pd.concat([f, f.head(1)]), "two rows of English"),
        (lambda f: pd.concat([f, f.assign(tower="other")]), "tower is toy-tower, other"),
        (lambda f: f.to_dict(), "a dict came"),
    ],
)
def test_a_frame_that_is_no_sweep_is_refused(spoil, says: str) -> None:
    with pytest.raises(InputError, match=says):
        SweepView(spoil(make_frame(depths=[9])))


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    view = SweepView(make_frame(depths=[9]))
    with pytest.raises(InputError, match=r"no language 'swa'. Did you mean 'sw'\? It has: en, de, sw, te"):
        view.group("swa")
    with pytest.raises(InputError, match="no direction 't2t'"):
        view.check("t2t", "R@1")
    with pytest.raises(InputError, match="no metric 'R@2'"):
        view.check("i2t", "R@2")
    with pytest.raises(InputError, match="means of these tiers: 'HRL', 'LRL'"):
        view.group("mean")


def test_interval_texts() -> None:
    assert interval(Number(73.44, 70.1, 76.5, 9)) == "73.4 [70.1, 76.5]"
    assert interval(None) == interval(Number(float("nan"), 0, 0, 9)) == "–"
