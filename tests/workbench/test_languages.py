import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import InputError
from workbench.language_codes import own_codes
from workbench.languages import (
    COMMON_CRAWL_SHARE,
    ENGLISH_NAMES,
    HRL_6,
    LRL_5,
    XM3600_LANGUAGES,
    say_tiers,
    tier_map,
    tiers,
)


def test_s3_has_six_high_and_five_low_languages():
    found = tiers("s3")
    assert {language for language, tier in found.items() if tier == "HRL"} == {
        "en",
        "fr",
        "de",
        "es",
        "zh",
        "ko",
    }
    assert {language for language, tier in found.items() if tier == "LRL"} == {"bn", "fil", "hi", "sw", "te"}
    assert len(found) == 11
    assert (set(HRL_6), set(LRL_5)) == ({"en", "fr", "de", "es", "zh", "ko"}, {"bn", "fil", "hi", "sw", "te"})


def test_s0_sorts_all_36_languages_by_share():
    found = tiers("s0")
    groups = {tier: {language for language in found if found[language] == tier} for tier in found.values()}
    assert groups.keys() == {"High", "Medium", "Low"}
    assert groups["High"] == {"en", "ru", "de"}
    assert len(groups["Medium"]) == 12
    assert len(groups["Low"]) == 21
    assert set(found) == set(XM3600_LANGUAGES)
    share = {tier: [COMMON_CRAWL_SHARE[language] for language in group] for tier, group in groups.items()}
    assert min(share["High"]) > max(share["Medium"]) > min(share["Medium"]) > 1 > max(share["Low"])


def test_papers_disagree_on_korean():
    assert tiers("s0")["ko"] == "Low"
    assert tiers("s3")["ko"] == "HRL"


def test_the_36_shares_are_those_of_the_table():
    assert len(COMMON_CRAWL_SHARE) == len(XM3600_LANGUAGES) == 36
    assert math.fsum(COMMON_CRAWL_SHARE.values()) == pytest.approx(94.33, abs=0.005)
    for language, share in (("en", 43.9499), ("zh", 4.8778), ("ko", 0.7865), ("sw", 0.0102), ("quz", 0.0005)):
        assert COMMON_CRAWL_SHARE[language] == share


def test_every_language_has_an_english_name_of_its_own():
    assert set(ENGLISH_NAMES) == set(XM3600_LANGUAGES)
    assert len(set(ENGLISH_NAMES.values())) == 36
    assert (ENGLISH_NAMES["sw"], ENGLISH_NAMES["quz"], ENGLISH_NAMES["he"]) == (
        "Swahili",
        "Cusco Quechua",
        "Hebrew",
    )


def test_languages_are_listed_in_alphabetical_order():
    assert list(XM3600_LANGUAGES) == sorted(XM3600_LANGUAGES)


def test_a_changed_copy_leaves_the_published_map_and_shares_alone():
    tiers("s3")["ko"] = "LRL"
    tier_map("s3")[1].clear()
    assert tiers("s3")["ko"] == "HRL"
    with pytest.raises(TypeError):
        COMMON_CRAWL_SHARE["en"] = 1.0  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize("name", ["s3", "s0"])
def test_a_published_map_keeps_its_name(name):
    assert tier_map(name) == (name, tiers(name))


@pytest.mark.parametrize(
    ("wrong", "hint"), [("S3", " Did you mean 's3'?"), ("s00", " Did you mean 's0'?"), ("mine", "")]
)
def test_an_unknown_map_names_the_nearest_and_what_there_is(wrong, hint):
    for use in (tiers, tier_map):
        with pytest.raises(InputError) as caught:
            use(wrong)
        assert str(caught.value).startswith(f"No tier map is called {wrong!r}.{hint} Maps: s3, s0, pseudo.")
        assert "JSON" in str(caught.value)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=3), st.sampled_from(["HRL", "LRL", "큰"]), min_size=1, max_size=5))
def test_a_map_of_ones_own_comes_back_by_the_benchs_codes_or_is_refused(own):
    try:
        codes = own_codes(own, "The tier map")
    except InputError:
        with pytest.raises(InputError):
            tier_map(own)
        return
    assert tier_map(own) == ("custom", {codes[language]: tier for language, tier in own.items()})


def test_a_language_goes_by_one_code_and_a_tier_by_one_name():
    given_map = {"EN": "HRL", "iw": "HRL ", "zho_Hans": " HRL", "swh_Latn": "LRL", "ok1 ": "LRL"}
    assert tier_map(given_map)[1] == {"en": "HRL", "he": "HRL", "zh": "HRL", "sw": "LRL", "ok1": "LRL"}
    with pytest.raises(InputError, match="'he' and 'iw': both are 'he'"):
        tier_map({"he": "HRL", "iw": "LRL"})


def test_what_a_map_names_and_a_run_lacks_is_said_and_the_reverse(caplog):
    with caplog.at_level("INFO", logger="workbench"):
        say_tiers("mine", {"en": "HRL", "sww": "LRL", "ko": "HRL"}, ["en", "sw"])
        say_tiers("s3", tiers("s3"), ["en", "sw"])
    assert [record.getMessage() for record in caplog.records] == [
        "The tier map 'mine' names sww (a code of no language known here; sw?), ko: not among the languages here.",
        "The tier map 'mine' gives no tier to sw, which count in no tier.",
    ]


def test_a_json_file_is_a_map_named_after_it(tmp_path):
    path = tmp_path / "my-tiers.json"
    path.write_text(json.dumps({"mi": "tiny", "한": "큰"}, ensure_ascii=False), "utf-8")
    for given_path in (path, str(path)):
        assert tier_map(given_path) == ("my-tiers", {"mi": "tiny", "한": "큰"})


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{'en': 'HRL'}", "is not JSON"),
        (b'{"en": "HRL"', "is not JSON"),
        (b"", "is not JSON"),
        ('{"en": "höch"}'.encode("latin-1"), "is not JSON"),
        (b"{}", "not a filled JSON object"),
        (b'["en", "sw"]', "not a filled JSON object"),
        (b'"HRL"', "not a filled JSON object"),
        (b'{"en": "HRL", "sw": 1}', "gives 'sw' the tier 1"),
        (b'{"en": null}', "gives 'en' the tier None"),
        (b'{"en": "  "}', "gives 'en' the tier '  '"),
        (b'{"en": ["HRL"]}', "gives 'en' the tier"),
    ],
)
def test_a_file_that_is_no_map_is_named(tmp_path, content, says):
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"The tier map '.*t\.json' .*{says}" if "gives" not in says else says):
        tier_map(path)


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no tier map file .*absent\.json"):
        tier_map(tmp_path / "absent.json")


@pytest.mark.parametrize("own", [{}, {"en": 1}, {1: "HRL"}, {"en": ""}])
def test_a_mapping_that_is_no_map_is_refused(own):
    with pytest.raises(InputError, match="must map language codes to tier names"):
        tier_map(own)
