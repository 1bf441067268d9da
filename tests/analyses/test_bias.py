"""Both commands, on the built-in towers and corpus, end to end."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analyses.association import embed_triplets
from analyses.bias import bias_association, bias_prevalence
from analyses.emoji_triplets import emoji_triplets
from probes.prevalence_bias import ceiling, lbkl
from tests.conftest import BUILT_IN
from workbench.corpora.emoji36 import load_emoji36
from workbench.errors import InputError
from workbench.towers import Tower

LANGUAGES = ("en", "de", "sw", "te")


@pytest.mark.parametrize("name", BUILT_IN)
def test_prevalence_runs_on_a_built_in_tower(name: str, get_tower: Callable[[str], Tower], tmp_path) -> None:
    tower, corpus = get_tower(name), load_emoji36(LANGUAGES).select(limit=80)
    answers = {answer.name: answer for answer in bias_prevalence(tower, corpus, resamples=50)}
    assert list(answers) == [
        "prevalence-bias", "rank-frequency", "language-frequency", "language-shares", "accuracy-and-bias",
        "ranked-list",
    ]  # fmt: skip
    table: Any = answers["prevalence-bias"].table.set_index("metric")
    assert table.loc["LBKL@1", "value"] == pytest.approx(ceiling())
    # A trained tower finds an emoji's name in some language, and does better with the well-resourced ones.
    assert table.loc["Acc@5", "value"] > 60
    assert table.loc["low share@1", "value"] < table.loc["low share@1", "null"]
    assert table.loc["LBKL@10", "n"] == 80
    assert set(answers["prevalence-bias"].table["tower"]) == {name}
    for answer in answers.values():
        assert answer.figure is not None
        assert "n = " in answer.title
    answers["ranked-list"].save(tmp_path)
    assert (tmp_path / "ranked-list.html").stat().st_size > 0


def test_embeddings_that_are_there_give_the_same_numbers(get_tower: Callable[[str], Tower]) -> None:
    tower, corpus = get_tower("emoji-causal"), load_emoji36(LANGUAGES).select(limit=30)
    embeddings = {language: tower.embed_captions(corpus, language) for language in LANGUAGES}
    once, again = (
        bias_prevalence(tower, corpus, protocol="first", resamples=20, embeddings=given)[0].table
        for given in (None, embeddings)
    )
    assert once.equals(again)


def test_the_tier_map_decides_who_is_low_and_a_corpus_without_tiers_is_refused(get_tower) -> None:
    tower, corpus = get_tower("emoji-causal"), load_emoji36(("en", "ko", "sw")).select(limit=20)
    by_web, by_study = (bias_prevalence(tower, corpus, tier_map=name, resamples=20)[0] for name in ("s0", "s3"))
    assert "every language" not in by_web.caption
    assert by_web.table["tier_map"].iloc[0] == "s0"
    shares = [answer.table.set_index("metric").loc["low share@10", "null"] for answer in (by_web, by_study)]
    assert shares == pytest.approx([200 / 3, 100 / 3])
    strange = replace(corpus, captions={"xx": corpus.captions["en"], "yy": corpus.captions["sw"]})
    with pytest.raises(InputError, match="No language of 'emoji-36'"):
        bias_prevalence(tower, strange)


@pytest.mark.parametrize("name", BUILT_IN)
def test_association_runs_on_a_built_in_tower(name: str, get_tower: Callable[[str], Tower], caplog) -> None:
    with caplog.at_level(logging.INFO, logger="analyses.bias"):
        answers = bias_association(
            get_tower(name), languages=["en", "de", "sw", "hi", "th"], limit=20, method="pca", resamples=50
        )
    names = [answer.name for answer in answers]
    assert names == [
        "association-t2i", "association-i2i", "clusters-by-language", "preference-and-clusters", "map-texts",
        "map-images",
    ]  # fmt: skip
    assert "clusters-by-country is left out" in caplog.text
    table = answers[0].table
    whole = table[table["by"] == "all"].set_index("metric")["value"]
    assert whole["M_sem"] + whole["M_cul"] + whole["M_non"] == pytest.approx(100)
    assert whole["M_sem"] > 100 / 3  # better than chance
    assert "stand-in" in answers[0].caption
    assert "PCA" in answers[-1].title
    images: Any = answers[-1]
    assert set(images.table["group"]) >= {"Flags", "Food & Drink"}
    assert images.table["text"].is_unique  # a picture stands once, not once a country


def test_one_direction_and_a_given_set(get_tower: Callable[[str], Tower]) -> None:
    tower, corpus = get_tower("emoji-causal"), emoji_triplets(["en", "sw"], limit=15)
    embeddings = embed_triplets(tower, corpus)
    answers = bias_association(tower, corpus, directions=["i2i"], method="pca", embeddings=embeddings, resamples=20)
    assert [answer.name for answer in answers] == ["association-i2i", "clusters-by-language", "map-texts", "map-images"]
    some = bias_association(tower, corpus, languages=["sw"], limit=9, method="pca", directions=["t2i"], resamples=20)
    assert [answer.name for answer in some] == [
        "association-t2i",
        "map-texts",
        "map-images",
    ]  # one language, no clusters
    assert set(some[0].table["n"]) <= set(range(10))
    assert np.isin(["Kenya"], some[0].table["country"]).all()


def test_lists_are_what_lbkl_says(get_tower: Callable[[str], Tower]) -> None:
    """The table's number, from the figure's: rank-frequency and LBKL are of the same lists."""
    tower, corpus = get_tower("emoji-causal"), load_emoji36(LANGUAGES).select(limit=25)
    answers = {answer.name: answer for answer in bias_prevalence(tower, corpus, resamples=20)}
    frequency = answers["rank-frequency"].table
    share = frequency["low"].iloc[:10].sum() / (10 * 25)
    table = answers["prevalence-bias"].table.set_index("metric")
    assert table.loc["low share@10", "value"] == pytest.approx(100 * share)
    assert table.loc["LBKL@1", "value"] == pytest.approx(lbkl(np.array([[True]]), 1)[0])
