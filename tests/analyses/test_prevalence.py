# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false
"""The table of prevalence bias and its figures, on lists that are known."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analyses.mixed_pool import MixedRanking
from analyses.prevalence import accuracy_scatter, low_group, prevalence_bias
from analyses.prevalence_figure import text_sides
from analyses.prevalence_lists import language_frequency, language_shares, rank_frequency, ranked_list
from probes.prevalence_bias import ceiling, sampling_null
from tests.analyses.factory import make_corpus
from tests.analyses.test_mixed_pool import ranking_of
from workbench.errors import InputError
from workbench.retrieval import Bootstrap

MAP = {"en": "High", "sw": "Low", "te": "Low"}


@pytest.fixture
def ranking() -> MixedRanking:
    """40 images, lists of 20 from three languages at random; the first caption is right."""
    generator = np.random.default_rng(0)
    relevant = np.zeros((40, 20), dtype=bool)
    relevant[:, 0] = True
    languages = generator.choice(3, size=(40, 20), p=[0.6, 0.3, 0.1])
    return ranking_of(relevant.tolist(), languages.tolist())


def table_of(ranking: MixedRanking, **options: Any) -> pd.DataFrame:
    return prevalence_bias([ranking], tier_map=MAP, **options).table


def row(table: pd.DataFrame, metric: str) -> dict[str, Any]:
    found = table[table["metric"] == metric].to_dict("records")
    assert len(found) == 1
    return {str(key): value for key, value in found[0].items()}


def test_every_depth_has_both_measures_the_share_chance_and_the_ceiling(ranking):
    table = table_of(ranking)
    low = np.array([False, True, True])[ranking.top_languages]
    pool = float(np.array([False, True, True])[ranking.language].mean())
    for k in (1, 5, 10, 15):
        share = low[:, :k].mean(1)
        q = np.stack([share, 1 - share])
        by_hand = (0.5 * np.log(0.5 / np.where(q == 0, 1e-9, q))).sum(0).mean()
        assert row(table, f"LBKL@{k}")["value"] == pytest.approx(by_hand, rel=1e-9)
        assert row(table, f"low share@{k}")["value"] == pytest.approx(100 * share.mean())
        assert row(table, f"low share minus P@{k}")["value"] == pytest.approx(100 * share.mean() - 50)
        assert row(table, f"LBKL@{k}")["null"] == pytest.approx(sampling_null(k, pool, 40).mean)
        assert row(table, f"DLBKL@{k}")["null"] == sampling_null(k, pool, 40, discounted=True).mean
        assert row(table, f"low share@{k}")["null"] == pytest.approx(100 * pool)
        assert row(table, f"LBKL@{k}")["ceiling"] == ceiling()
        assert (row(table, f"LBKL@{k}")["note"] != "") == (k == 1)
    assert "uninformative" in row(table, "LBKL@1")["note"]
    assert "uninformative" in row(table, "DLBKL@1")["note"]
    assert "floor at this k" in row(table, "language KL@5")["note"]
    assert "as published" in row(table, "NDCG-list@10")["note"]
    assert row(table, "Acc@1")["value"] == 100


def test_intervals_are_those_of_a_bootstrap_over_images(ranking):
    found = row(table_of(ranking, seed=5, resamples=300), "low share@10")
    low = np.array([False, True, True])[ranking.top_languages][:, :10].mean(1)
    bootstrap = Bootstrap(40, 300, 5)
    assert (found["low"], found["high"]) == pytest.approx(bootstrap.interval(bootstrap.means(100 * low)))
    assert (found["n"], found["seed"]) == (40, 5)
    assert table_of(ranking, seed=5, resamples=300).equals(table_of(ranking, seed=5, resamples=300))


def test_the_prior_is_named_and_is_not_mixed_up(ranking):
    pool = float((ranking.language > 0).mean())
    half, own, given = (table_of(ranking, prior=prior) for prior in ("half", "pool", 0.2))
    assert (row(half, "LBKL@10")["P"], row(half, "LBKL@10")["P rule"]) == (0.5, "half")
    assert row(own, "LBKL@10")["P"] == pytest.approx(pool)
    assert row(given, "LBKL@10")["P rule"] == "given"
    assert row(given, "low share minus P@10")["value"] == pytest.approx(row(half, "low share@10")["value"] - 20)
    assert len({row(table, "LBKL@10")["value"] for table in (half, own, given)}) == 3


def test_lists_of_one_group_alone_are_at_the_ceiling_and_the_sign_tells_them_apart():
    hidden = ranking_of([[True] + [False] * 9] * 4, [[0] * 10] * 3 + [[0] * 9 + [1]])
    flooded = ranking_of([[True] + [False] * 9] * 4, [[1] * 10] * 3 + [[1] * 9 + [0]])
    for lists, sign in ((hidden, -1), (flooded, 1)):
        table = table_of(lists)
        assert row(table, "LBKL@5")["value"] == pytest.approx(ceiling())
        assert np.sign(row(table, "low share minus P@5")["value"]) == sign
    assert row(table_of(hidden), "LBKL@10")["value"] == pytest.approx(row(table_of(flooded), "LBKL@10")["value"])


def test_several_towers_stand_in_one_figure_and_must_share_the_pool(ranking):
    other = replace(ranking, tower="other <b>tower</b>", top=ranking.top[:, ::-1])
    answer = prevalence_bias([ranking, other], tier_map=MAP)
    figure: Any = answer.figure
    assert set(answer.table["tower"]) == {ranking.tower, other.tower}
    names = [trace.name for trace in figure.data if trace.name]
    assert "other &lt;b&gt;tower&lt;/b&gt;, LBKL" in names
    assert not any("<b>tower" in name for name in names)
    lines = {trace.name: trace for trace in figure.data}
    own = lines["toy-tower, LBKL"]
    assert list(own.x) == [5, 10, 15]  # the constant at 1 is not drawn
    assert own.line.dash != lines["toy-tower, DLBKL"].line.dash
    assert "n = 40 images" in answer.title
    shorter = replace(other, tower="third", texts=ranking.texts[:-1])
    with pytest.raises(InputError, match="differ in their texts"):
        prevalence_bias([ranking, shorter], tier_map=MAP)
    with pytest.raises(InputError, match="each may come once"):
        prevalence_bias([ranking, ranking], tier_map=MAP)


def test_a_language_without_a_tier_is_no_silent_member_of_a_group(ranking):
    with pytest.raises(InputError, match="no tier for te"):
        low_group(ranking, {"en": "High", "sw": "Low"})
    with pytest.raises(InputError, match="Both groups"):
        low_group(ranking, MAP, ["Medium"])
    assert low_group(ranking, MAP, ["High"])[1].tolist() == [True, False, False]
    # Korean is low-resource by web share, and high-resource in another study.
    korean = replace(ranking, languages=("en", "ko", "sw"))
    assert low_group(korean, "s0")[1].tolist() == [False, True, True]
    assert low_group(korean, "s3")[1].tolist() == [False, False, True]


def test_depths_beyond_the_lists_are_said_to_be_left_out(ranking):
    answer = prevalence_bias([ranking], tier_map=MAP)
    assert "left out: 25, 50, 99" in answer.caption
    assert set(answer.table["k"]) == {1, 5, 10, 15}
    with pytest.raises(InputError, match="lists of 20"):
        prevalence_bias([ranking], tier_map=MAP, depths=[50])


def test_rank_frequency_counts_every_image_at_every_rank(ranking):
    answer = rank_frequency(ranking, tier_map=MAP)
    low = np.array([False, True, True])[ranking.top_languages]
    assert answer.table["low"].tolist() == low.sum(0).tolist()
    assert set(answer.table["low"] + answer.table["rest"]) == {40}
    figure: Any = answer.figure
    assert list(figure.data[0].y) == low.sum(0).tolist()
    assert figure.data[0].marker.pattern.shape != figure.data[1].marker.pattern.shape


def test_language_frequency_is_a_histogram_over_images(ranking):
    table = language_frequency(ranking, tier_map=MAP).table
    low = np.array([False, True, True])[ranking.top_languages].sum(1)
    for captions in range(21):
        assert table["images low"].iloc[captions] == (low == captions).sum()
        assert table["images rest"].iloc[captions] == (20 - low == captions).sum()
    assert table["chance low"].sum() == pytest.approx(40)


def test_language_shares_are_relative_to_the_pool(ranking):
    answer = language_shares(ranking, k=10, tier_map=MAP)
    table = answer.table.set_index("language")
    first = ranking.top_languages[:, :10]
    for place, language in enumerate(ranking.languages):
        expected = (first == place).mean() / (ranking.language == place).mean()
        assert table.loc[language, "ratio"] == pytest.approx(expected)
    assert answer.table["language"].tolist() == ["en", "te", "sw"]  # by web resources
    with pytest.raises(InputError, match="k=21"):
        language_shares(ranking, k=21, tier_map=MAP)


def test_a_list_shows_every_caption_escaped_in_the_look_of_its_language(ranking):
    evil = '<script>alert("x")</script> %{y}'
    texts = (evil, *ranking.texts[1:])
    corpus = make_corpus(40, ("en", "sw", "te"))
    answer = ranked_list(replace(ranking, texts=texts), "image-0", k=8, corpus=corpus, tier_map=MAP)
    figure: Any = answer.figure
    shown = [text for trace in figure.data for text in trace.text] + [t for tr in figure.data for t in tr.hovertext]
    assert len(answer.table) == 8
    assert any("&lt;script&gt;" in text for text in shown)
    assert not any("<script" in text or "%{" in text for text in shown)
    colours = {trace.name: trace.marker.color for trace in figure.data}
    assert len(set(colours.values())) == len(colours)
    # The right caption is filled, the others are hollow.
    symbols = {y: symbol for trace in figure.data for y, symbol in zip(trace.y, trace.marker.symbol, strict=True)}
    assert not symbols[1].endswith("-open")
    assert all(symbols[rank].endswith("-open") for rank in range(2, 9))
    assert len(figure.layout.images) == 1
    assert answer.table["caption"].iloc[0] == evil
    with pytest.raises(InputError, match="no image 'image-x'"):
        ranked_list(ranking, "image-x", tier_map=MAP)


def test_without_a_name_the_list_with_fewest_low_resource_captions_is_shown(ranking):
    low = np.array([False, True, True])[ranking.top_languages][:, :10].sum(1)
    assert ranked_list(ranking, tier_map=MAP).table["image"].iloc[0] == f"image-{int(low.argmin())}"


def test_scatter_of_published_towers_and_of_a_run(ranking):
    both = accuracy_scatter()
    assert len(both.table) == 10
    table = both.table.set_index("tower")
    assert table.loc["CLIP-L/14", "Acc@5"] == pytest.approx(50.9)
    assert table.loc["CLIP-L/14", "DLBKL@10"] == 5.684
    own = accuracy_scatter(table_of(ranking))
    assert own.table["tower"].tolist() == ["toy-tower"]  # another benchmark: no published towers beside it
    assert math.isfinite(own.table["null"].iloc[0])
    assert len(accuracy_scatter(table_of(ranking), published=True).table) == 11
    assert "another pool" in accuracy_scatter(table_of(ranking), published=True).caption
    on_xm3600 = prevalence_bias([replace(ranking, corpus="crossmodal3600")], tier_map=MAP).table
    assert len(accuracy_scatter(on_xm3600).table) == 11
    with pytest.raises(InputError, match="nothing to draw"):
        accuracy_scatter(published=False)
    with pytest.raises(InputError, match="no 'Acc@7'"):
        accuracy_scatter(table_of(ranking), accuracy="Acc@7")
    with pytest.raises(InputError, match="No published tower has both"):
        accuracy_scatter(accuracy="Acc@1")


def test_texts_of_points_avoid_each_other():
    sides = text_sides([(100, 100), (115, 100)], ["a long name", "a long name"])
    assert len(set(sides)) == 2
    assert text_sides([(10, 100)], ["name"], [(15, 200, 90, 110)]) != ["middle right"]


def test_an_analysis_can_be_saved(ranking, tmp_path):
    for answer in (prevalence_bias([ranking], tier_map=MAP), ranked_list(ranking, tier_map=MAP), accuracy_scatter()):
        paths = answer.save(tmp_path)
        assert [path.stat().st_size > 0 for path in paths] == [True] * 3
