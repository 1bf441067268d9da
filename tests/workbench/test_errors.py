import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import HookError, InputError, TowerError, WorkbenchError, suggest


@pytest.mark.parametrize(
    ("given_name", "known", "expected"),
    [
        ("emoji-casual", ["emoji-causal", "emoji-bidirectional"], "emoji-causal"),
        ("Emoji-Causal", ["emoji-causal", "emoji-bidirectional"], "emoji-causal"),
        ("mrr", ["R@1", "MRR"], "MRR"),
        ("ParallelEOs", {"ParallelEOS": 1, "MeanEOS": 2}, "ParallelEOS"),
        ("sw", (code for code in ["en", "sw"]), "sw"),
    ],
)
def test_the_nearest_name_is_suggested_as_it_is_written(given_name, known, expected):
    assert suggest(given_name, known) == f" Did you mean {expected!r}?"


@pytest.mark.parametrize(("given_name", "known"), [("zzz", ["en", "sw"]), ("en", []), ("", ["en"])])
def test_nothing_is_suggested_where_nothing_is_near(given_name, known):
    assert suggest(given_name, known) == ""


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text("abcdefgh", min_size=3), min_size=1, max_size=6))
def test_a_known_name_is_its_own_nearest(known):
    assert suggest(known[0], known) == f" Did you mean {known[0]!r}?"


def test_names_that_are_no_text_are_compared_as_text():
    assert suggest("12", [10, 12]) == " Did you mean '12'?"  # pyright: ignore[reportArgumentType]


def test_what_a_user_can_get_wrong_is_a_value_error_and_a_lost_patch_is_not():
    assert issubclass(InputError, ValueError)
    assert issubclass(TowerError, InputError)
    assert issubclass(HookError, RuntimeError)
    assert not issubclass(HookError, InputError)
    assert {InputError, TowerError, HookError} <= set(_all_below(WorkbenchError))


def _all_below(base: type) -> list[type]:
    return [base, *(found for below in base.__subclasses__() for found in _all_below(below))]
