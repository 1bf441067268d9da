"""A run beside published values: which rows meet, and what is said where none do."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analyses.association_clusters import published_preference_and_clusters
from analyses.comparison import COLUMNS, beside_published, compare_published, compare_run
from analyses.prevalence import prevalence_bias
from analyses.published_match import half_digit, match_published, sweep_marks
from tests.analyses.factory import make_frame
from tests.analyses.test_mixed_pool import ranking_of
from workbench.errors import InputError
from workbench.languages import tiers

HUB = "facebook/metaclip-2-worldwide-huge-quickgelu"


def sweep(**changes: Any) -> pd.DataFrame:
    """A sweep of the tower and subset of the paper, over the depths around its checkpoint."""
    languages = {"en": "HRL", "de": "HRL", "sw": "LRL", "te": "LRL"}
    frame = make_frame(languages, depths=[0, 20, 21, 24], interventions={"parallel en": "en", "noise": ""}, n=1000)
    others = {"de": ("fr", "es", "zh", "ko"), "te": ("bn", "fil", "hi")}
    copies = [frame[frame["language"] == own].assign(language=other) for own, more in others.items() for other in more]
    frame = pd.concat([frame, *copies], ignore_index=True)
    return frame.assign(tower=HUB, corpus="xm3600:xm3600-1k@0123abcd", tier_map="s3", **changes)


def full_pool(table: pd.DataFrame, tower: str = "openai/clip-vit-large-patch14") -> pd.DataFrame:
    """A table of prevalence as if its pool were the paper's: 36 languages, 3,600 images, every caption."""
    low = "+".join(language for language, tier in tiers("s0").items() if tier == "Low")
    return table.assign(
        tower=tower, corpus="xm3600", languages="+".join(tiers("s0")), protocol="all", n=3600, tier_map="s0",
        **{"low languages": low},
    )  # fmt: skip


def rows(frame: pd.DataFrame, **options: Any) -> dict[tuple, dict[str, Any]]:
    table = compare_published(frame, **options).table
    found = {}
    for raw in table.to_dict("records"):
        row = {str(key): value for key, value in raw.items()}
        found[row["language"], row["intervention"], row["metric"], row["direction"]] = row
    return found


def test_the_cells_of_the_paper_meet_those_of_the_sweep():
    frame = sweep()
    answer = compare_published(frame)
    assert list(answer.table.columns) == COLUMNS
    found = rows(frame)
    keys = {key[:3] for key in found}
    assert ("sw", "none", "R@1") in keys
    assert ("sw", "parallel en", "R@1") in keys
    assert ("mean", "parallel en", "lift R@1") not in keys  # published without a depth
    assert ("te", "none", "R@1") not in keys  # not published
    assert set(answer.table["depth"].dropna()) == {21}  # block N-4 of 24, no other depth
    cell = found["sw", "none", "R@1", "i2t"]
    run = frame[
        (frame["language"] == "sw") & (frame["intervention"] == "none") & (frame["direction"] == "i2t")
        & (frame["metric"] == "R@1")
    ]  # fmt: skip
    value = float(run["value"].iloc[0])
    assert (cell["value"], cell["published"], cell["printed"]) == (value, 22.1, "22.1")
    assert cell["difference"] == pytest.approx(value - 22.1)
    assert cell["tower"] == HUB
    assert "does not name the direction" in cell["note"]
    assert {key[3] for key in found} == {"i2t", "t2i"}
    tiers = answer.table[answer.table["language"] == "mean"]
    assert set(tiers["tier"]) == {"HRL", "LRL"}
    published = tiers[(tiers["tier"] == "LRL") & (tiers["metric"] == "R@1") & (tiers["intervention"] == "parallel en")]
    assert set(published["published"]) == {73.4}


SWEPT = {
    "gallery": ("captions:en", "the gallery is 'captions:en' here and 'images' in the paper"),
    "pool": ("mixed", "the pool of candidates is 'mixed' here and 'language' in the paper"),
    "protocol": ("all", "the captions are 'all' here and 'first' in the paper"),
    "n": (100, "n is 100 here and 1,000 in the paper"),
}
POOLED = {
    "protocol": ("first", "the captions are 'first' here and 'all' in the paper"),
    "n": (3599, "n is 3,599 here and 3,600 in the paper"),
    "languages": ("en+sw", "the pool has 2 languages here and 36 in the paper"),
    "low languages": ("sw", "the low-resource group has 1 languages here and 21 in the paper"),
    "gallery": ("captions:en", "the gallery is"),
    "pool": ("language", "the pool of candidates is 'language' here and 'mixed' in the paper"),
}


@pytest.mark.parametrize("column", SWEPT)
def test_what_differs_in_how_it_was_measured_is_named_and_not_compared(column):
    value, words = SWEPT[column]
    frame = sweep()
    frame[column] = value
    with pytest.raises(InputError, match=re.escape(words)):
        compare_published(frame)
    assert sweep_marks(frame) == {}
    assert beside_published(frame) == []
    # Half of the rows measured otherwise: only these are left out, and the caption says so.
    both = compare_published(pd.concat([sweep(), frame]))
    assert len(both.table) == len(compare_published(sweep()).table)
    assert words in both.caption


@pytest.mark.parametrize("column", POOLED)
def test_a_divergence_of_another_pool_is_not_compared(column):
    value, words = POOLED[column]
    ranking = ranking_of([[True] + [False] * 9] * 6, [[0, 1] * 5] * 6)
    table = full_pool(prevalence_bias([ranking], tier_map={"en": "High", "sw": "Low"}).table)
    assert len(compare_published(table).table)
    with pytest.raises(InputError, match=re.escape(words)):
        compare_published(table.assign(**{column: value}))


def test_a_patch_whose_depth_the_paper_does_not_give_is_named_and_not_compared():
    frame = sweep()
    answer = compare_published(frame)
    assert not len(answer.table[answer.table["intervention"] == "noise"])
    assert "since the paper gives no depth for it: it is each cell's best patch layer" in answer.caption


KEYS = {
    ("SigLIP-2", "CKA HRL–HRL"): (0.41, 0.388, 0.022, None),
    ("MetaCLIP-2", "CKA HRL–LRL"): (0.458, 0.458, 0.0, None),
    ("SigLIP-2", "divergence gap LRL − HRL"): (0.143, 0.143, 0.0, None),
    ("MetaCLIP-2 calibrated", "divergence gap LRL − HRL"): (0.1, 0.022, 0.078, None),
    ("SigLIP-2", "sensitivity"): (0.5, None, 0.04, False),
    ("MetaCLIP-2", "sensitivity"): (0.30, None, 0.0, True),
    ("AltCLIP", "R@1"): (20.0, 18.5, 1.5, None),
    ("SigLIP-2", "size of change R@1"): (1.54, None, 0.04, True),
    ("SigLIP-2", "language accuracy"): (99.0, 99.7, -0.7, None),
}


@pytest.mark.parametrize(("tower", "metric"), KEYS)
def test_numbers_of_other_towers_and_of_geometry_and_erasure_meet_the_paper(tower, metric):
    value, published, difference, inside = KEYS[tower, metric]
    every = "+".join(tiers("s3"))
    row: dict[str, Any] = {"tower": tower, "corpus": "xm3600-1k", "metric": metric, "value": value, "n": 1000}
    depths = {"SigLIP-2": (27, 3), "MetaCLIP-2": (24, 4), "MetaCLIP-2 calibrated": (24, 4)}.get(tower, (None, None))
    lrl = "+".join(code for code, tier in tiers("s3").items() if tier == "LRL")
    more: dict[str, Any] = {
        "sensitivity": {"depth": depths[1], "language": "all", "languages": every},
        "R@1": {"language": "average", "tier": "LRL", "languages": lrl},
        "size of change R@1": {"language": "mean", "tier": "LRL", "intervention": "LEACE", "languages": lrl},
        "language accuracy": {"language": "all", "classes": 13, "n": 500},
    }.get(metric, {"depth": depths[0], "languages": every})
    table = compare_published(pd.DataFrame([row | more])).table
    assert len(table) == 1
    found = table.iloc[0]
    assert (None if pd.isna(found["published"]) else found["published"]) == published
    assert found["difference"] == pytest.approx(difference)
    assert found["inside"] is inside or bool(found["inside"]) is inside
    # The same of other languages or classes is another number.
    other = {"classes": 11} if metric == "language accuracy" else {"languages": "en+sw"}
    with pytest.raises(InputError, match="here and"):
        compare_published(pd.DataFrame([row | more | other]))


@pytest.mark.parametrize(
    ("low", "high", "inside"),
    [
        (20.0, 24.0, True), (22.2, 24.0, False), (22.14, 24.0, True), (20.0, 22.04, False), (None, None, None),
        # A slack of two half digits, let alone ten, would let these pass.
        (22.16, 24.0, False), (20.0, 22.06, True), (22.5, 24.0, False), (20.0, 21.7, False),
    ],
)  # fmt: skip
def test_inside_allows_for_half_a_printed_place_and_no_more(low, high, inside):
    frame = pd.DataFrame(
        {
            "tower": ["MetaCLIP-2"], "corpus": ["xm3600-1k"], "language": ["sw"], "metric": ["R@1"],
            "value": [23.0], "low": [low], "high": [high],
        }
    )  # fmt: skip
    found = compare_published(frame).table["inside"].iloc[0]
    assert (None if found is None or pd.isna(found) else bool(found)) is inside


@pytest.mark.parametrize(
    ("text", "half"),
    [("22.1", 0.05), ("80", 0.5), ("30+", 0.5), ("-0.1..+2.5", 0.05), ("0.509", 0.0005), ("427.6M", 0.05),
     ("+0.063", 0.0005), ("5.6730", 0.00005), ("<=1.5", 0.05), ("37-50", 0.5), ("6.0x", 0.05)],
)  # fmt: skip
def test_the_slack_is_half_of_the_last_printed_place(text, half):
    assert half_digit(text) == pytest.approx(half, rel=1e-12)


@pytest.mark.parametrize(
    ("value", "inside"), [(0.46, True), (0.464, True), (0.466, False), (0.5, False), (0.26, False)]
)
def test_a_range_allows_for_half_a_printed_place_and_no_more(value, inside):
    """A published sensitivity between 0.27 and 0.46."""
    row = {"tower": "SigLIP-2", "corpus": "xm3600-1k", "metric": "sensitivity", "language": "all", "depth": 3}
    found = match_published(pd.DataFrame([row | {"value": value}])).rows[0]
    assert found["inside"] is inside


def test_a_fraction_in_percent_has_a_slack_in_percent():
    row = {"tower": "CLIP-L/14", "corpus": "xm3600", "metric": "Acc@5", "language": "all", "value": 50.0, "low": 40.0}
    for high, inside in ((50.86, True), (50.84, False), (50.4, False)):
        assert match_published(pd.DataFrame([row | {"high": high}])).rows[0]["inside"] is inside


def test_a_mean_over_other_languages_is_another_mean():
    frame = sweep()
    fewer = frame[frame["language"] != "hi"]
    found = compare_published(fewer)
    assert set(found.table.loc[found.table["language"] == "mean", "tier"]) == {"HRL"}
    assert "Means of LRL are over other languages" in found.caption
    assert "Means of" not in compare_published(frame).caption


def test_a_patch_from_other_languages_is_another_patch():
    frame = sweep()
    frame.loc[frame["intervention"] == "parallel en", "source"] = "de"
    assert not [key for key in rows(frame) if key[1] == "parallel en"]


def test_fractions_become_percent_and_nats_stay():
    ranking = ranking_of([[True] + [False] * 9] * 6, [[0, 1] * 5] * 6)
    table = prevalence_bias([ranking], tier_map={"en": "High", "sw": "Low"}).table
    run = full_pool(table)
    answer = compare_published(run, "s0")
    found = {row["metric"]: row for row in answer.table.to_dict("records")}
    assert (found["Acc@5"]["published"], found["Acc@5"]["unit"]) == (pytest.approx(50.9), "percent")
    assert (found["DLBKL@10"]["published"], found["DLBKL@10"]["unit"]) == (5.684, "nats")
    assert found["LBKL@1"]["inside"]
    assert found["NDCG-list@10"]["published"] == pytest.approx(29.0)
    assert "NDCG@10" not in found  # the paper's ideal is that of the list
    assert answer.table["printed"].tolist().count("0.509") == 1
    other = prevalence_bias([ranking], tier_map={"en": "High", "sw": "Low"}, prior="pool").table
    other = full_pool(other)
    kept = compare_published(other)
    assert not kept.table["metric"].str.contains("KL@").any()
    assert "since P of the divergences is not the published ½" in kept.caption
    with pytest.raises(InputError, match="prior='half'"):
        compare_published(other[other["metric"] == "LBKL@10"])


def test_countries_meet_by_any_of_their_names():
    run = pd.DataFrame(
        {
            "tower": "jinaai/jina-embeddings-v4", "corpus": "3xcm", "by": ["all", "country", "country", "language"],
            "country": ["all", "Kenya", "GER", "all"], "language": ["all", "sw", "de", "sw"], "direction": "t2i",
            "metric": "SP", "value": [0.1, 0.5, 0.06, 0.4],
        }
    )  # fmt: skip
    table = compare_published(run).table
    assert dict(zip(table["country"], table["published"], strict=True)) == {
        "all": 0.08, "Kenya": 0.49, "Germany": 0.05,
    }  # fmt: skip
    # An image query is another direction.
    with pytest.raises(InputError, match="not in the cells"):
        compare_published(run.assign(direction="i2i"))


def test_what_is_published_is_said_where_nothing_is():
    with pytest.raises(InputError) as none:
        compare_published(make_frame().assign(tower="emoji-causal", corpus="emoji-36"))
    assert str(none.value).startswith("Nothing is published for emoji-causal on emoji-36.")
    assert len(str(none.value)) < 250
    with pytest.raises(InputError, match="That tower is published on xm3600-1k"):
        compare_published(sweep().assign(corpus="flickr30k-200"))
    with pytest.raises(InputError, match="nearest published towers are MetaCLIP-2"):
        compare_published(sweep().assign(tower="metaclip2"))
    with pytest.raises(InputError, match="Published metrics: Acc@5, LBKL@10"):
        compare_published(
            pd.DataFrame({"tower": ["CLIP-L/14"], "corpus": ["xm3600"], "metric": ["R@1"], "value": [1.0]}), "s0"
        )
    with pytest.raises(InputError, match="lacks metric"):
        compare_published(pd.DataFrame({"tower": ["a"], "corpus": ["b"], "value": [1.0]}))
    with pytest.raises(InputError, match="is empty"):
        compare_published(make_frame().iloc[:0])
    # Another subset of the benchmark is another benchmark.
    with pytest.raises(InputError, match="Nothing is published"):
        compare_published(sweep().assign(corpus="xm3600:present@0123abcd"))


def test_a_run_on_disk_is_read_whatever_its_form(tmp_path: Path):
    frame = sweep()
    frame.to_parquet(tmp_path / "results.parquet")
    frame.to_csv(tmp_path / "table.csv", index=False)
    expected = compare_published(frame).table
    for path in (tmp_path, tmp_path / "results.parquet", tmp_path / "table.csv"):
        found = compare_run(path).table
        assert found["difference"].tolist() == pytest.approx(expected["difference"].tolist())
    with pytest.raises(InputError, match="There is no table"):
        compare_run(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no table in .*empty"):
        compare_run(tmp_path / "empty")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="can't be read"):
        compare_run(tmp_path / "bad.parquet")


def test_the_folder_of_a_bias_run_is_read_too(tmp_path: Path):
    preference = published_preference_and_clusters("Jina-E-v4")  # the paper's own table, as if a run had saved it
    preference.save(tmp_path / "figures")
    trials = pd.DataFrame(
        {"tower": ["Jina-E-v4"], "corpus": ["3xcm"], "by": ["country"], "country": ["Kenya"], "direction": ["t2i"],
         "metric": ["SP"], "value": [0.4], "low": [0.3], "high": [0.5]}
    )  # fmt: skip
    trials.to_csv(tmp_path / "figures" / "association-t2i.csv", index=False)
    table = compare_run(tmp_path).table
    assert len(table[table["metric"] == "SP"]) == 1  # not again from the table of silhouettes
    assert table.loc[table["metric"] == "SP", "inside"].tolist() == [True]
    assert (table.loc[table["metric"].isin(["TS", "IS"]), "difference"] == 0).all()
    assert len(table[table["metric"] == "TS"]) == 16
    correlation = table[table["metric"] == "TSC"].iloc[0]
    assert correlation["published"] == 0.86
    assert abs(correlation["difference"]) < 0.005


def test_the_figure_shows_both_and_escapes_names():
    gap = {"language": "gap", "tier": "HRL − LRL", "value": 31.0, "low": 30.0, "high": 33.0, "metric": "R@1"}
    gap |= {"tower": HUB, "corpus": "xm3600-1k"}
    answer = compare_published(pd.concat([sweep(), pd.DataFrame([gap])]))
    figure: Any = answer.figure
    units = list(dict.fromkeys(answer.table["unit"]))
    assert units == ["percent", "points"]  # on axes of their own
    shown = {
        name: [x for trace in figure.data if trace.name == name for x in trace.x] for name in ("this run", "published")
    }
    ordered = pd.concat([answer.table[answer.table["unit"] == unit] for unit in units])
    # Of "30+" the star stands where the run is, since that is in it.
    stars = ordered["published"].fillna(ordered["value"])
    assert shown == {"this run": ordered["value"].tolist(), "published": stars.tolist()}
    assert len({trace.marker.symbol for trace in figure.data}) == 2
    assert f"n = {len(answer.table)} numbers" in answer.title
    evil = compare_published(sweep().assign(tower="/models/<b>x</b>/metaclip-2-worldwide-huge-quickgelu"))
    other: Any = evil.figure
    texts = [text for trace in other.data for text in trace.hovertext] + [other.layout.title.text]
    assert not any("<b>x" in text for text in texts)
