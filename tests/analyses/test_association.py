"""Forced choices: the table, its order and figure, the stand-in made of emoji, and clusters beside it."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch

from analyses.association import (
    Trials,
    TripletEmbeddings,
    association_bias,
    country_order,
    country_self_preference,
    embed_triplets,
    run_trials,
)
from analyses.emoji_triplets import FLAGS, NO_COUNTRY, emoji_categories, emoji_triplets, flag_id
from probes.self_preference import WinRates
from probes.triplets import COLUMNS, ROLES, check_triplets
from workbench.corpora.triplets import TripletCorpus
from workbench.errors import InputError


def make_trials(wins: dict[tuple[str, str, str], tuple[int, int, int]], **changes: Any) -> Trials:
    """Trials of which each (country, language, concept) has so many wins of each kind."""
    rows, score = [], {0: (0.9, 0.5, 0.1), 1: (0.5, 0.9, 0.1), 2: (0.1, 0.5, 0.9)}
    for (country, language, concept), counts in wins.items():
        rows += [(country, language, concept, score[kind]) for kind, n in enumerate(counts) for _ in range(n)]
    country, language, concept, similarity = (np.array(column) for column in zip(*rows, strict=True))
    countries = list(dict.fromkeys(country.tolist()))
    abroad = np.array([countries[(countries.index(one) + 1) % len(countries)] for one in country.tolist()])
    fixed = {"tower": "toy-tower", "corpus": "toy-triplets", "direction": "t2i", **changes}
    return Trials(
        similarity=similarity, country=country, language=language, concept=concept, abroad=abroad,
        query=np.arange(len(rows)), **fixed,
    )  # fmt: skip


WINS = {
    ("Kenya", "sw", "mask"): (10, 20, 10), ("Kenya", "sw", "hat"): (30, 5, 5), ("USA", "en", "mask"): (38, 1, 1),
    ("UK", "en", "hat"): (0, 10, 10),
}  # fmt: skip


def value(table: Any, metric: str, **place: str) -> float:
    chosen = table[table["metric"] == metric]
    for column, name in place.items():
        chosen = chosen[chosen[column] == name]
    assert len(chosen) == 1
    return float(chosen["value"].iloc[0])


def test_rates_by_all_country_language_and_concept() -> None:
    table = association_bias([make_trials(WINS)]).table
    whole = WinRates(78, 36, 26)
    for kind, percent in zip(("sem", "cul", "non"), whole.percent, strict=True):
        assert value(table, f"M_{kind}", by="all") == pytest.approx(percent)
    assert value(table, "SP", by="all") == pytest.approx(36 / 78)
    assert value(table, "SP", by="country", country="Kenya") == pytest.approx(25 / 40)
    assert value(table, "SP", by="language", language="en") == pytest.approx(11 / 38)
    assert value(table, "SP", by="concept", concept="mask") == pytest.approx(21 / 48)
    assert value(table, "SP", by="country", country="UK") == math.inf
    uk = table[(table["by"] == "country") & (table["country"] == "UK") & (table["metric"] == "SP")]
    assert "no trial was won by the image of the concept" in uk["note"].iloc[0]
    assert value(table, "log SP", by="country", country="UK") == pytest.approx(math.log(10.5 / 0.5))
    assert sum(value(table, f"z {kind}", by="all") for kind in ("sem", "cul", "non")) == pytest.approx(0, abs=1e-12)
    # Kenya's images are the non-relevant ones of the UK's trials here, half of which they won.
    assert value(table, "M_abroad", by="country", country="Kenya") == pytest.approx(50)
    assert set(table.loc[table["by"] == "country", "n"]) == {80, 40, 20}


def test_countries_stand_in_the_order_of_web_resources() -> None:
    languages = {"Kenya": "sw", "USA": "en", "Nigeria": "yo", "Brazil": "pt", "Portugal": "pt", "Atlantis": "en"}
    assert country_order(languages) == ["USA", "Atlantis", "Portugal", "Brazil", "Kenya", "Nigeria"]


def test_the_figure_stacks_the_three_kinds_for_each_tower() -> None:
    other = make_trials(WINS, tower="other <i>tower</i>")
    answer = association_bias([make_trials(WINS), other])
    figure: Any = answer.figure
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert len(bars) == 6
    assert list(bars[0].x) == ["USA", "UK", "Kenya"]
    assert np.add.reduce([bar.y for bar in bars[:3]]) == pytest.approx([100.0] * 3)
    assert len({bar.marker.pattern.shape for bar in bars[:3]}) == 3
    assert next(t for t in figure.data if t.type == "scatter").text[1] == "∞"
    assert "other &lt;i&gt;tower&lt;/i&gt;" in figure.layout.annotations[1].text
    assert "n = 140 trials" in answer.title
    with pytest.raises(InputError, match="each may come once"):
        association_bias([other, other])
    with pytest.raises(InputError, match="different sets"):
        association_bias([other, replace(make_trials(WINS), corpus="another")])
    with pytest.raises(InputError, match="No trials"):
        association_bias([])


def test_ties_go_to_the_first_or_are_shared() -> None:
    tied = replace(make_trials(WINS), similarity=np.tile([0.5, 0.5, 0.1], (140, 1)))
    first, shared = (association_bias([tied], ties=rule) for rule in ("first", "shared"))
    assert value(first.table, "M_sem", by="all") == 100
    assert value(shared.table, "M_sem", by="all") == 50
    assert "toy-tower 140" in first.caption


def test_self_preference_by_country_is_read_off_the_table() -> None:
    table = association_bias([make_trials(WINS)]).table
    assert country_self_preference(table, "toy-tower") == {"USA": 1 / 38, "UK": math.inf, "Kenya": 25 / 40}
    with pytest.raises(InputError, match="no trials of 'x'"):
        country_self_preference(table, "x")


# -- the stand-in ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stand_in() -> TripletCorpus:
    return emoji_triplets(limit=12)


def test_the_stand_in_keeps_the_three_constraints(stand_in: TripletCorpus) -> None:
    import pandas as pd

    rows = [
        [cell for item in triplet.items for cell in (item.image_id, item.concept, item.country)]
        for triplet in stand_in.triplets
    ]
    report = check_triplets(pd.DataFrame(rows, columns=list(COLUMNS)))
    assert report.n == len(stand_in) == 12 * 15
    assert "Nigeria" not in report.by_country  # emoji-36 has no Yoruba
    assert len(ROLES) == 4


def test_both_wrong_answers_are_flags_and_each_flag_is_either_equally_often(stand_in: TripletCorpus) -> None:
    languages = stand_in.languages_of
    for triplet in stand_in.triplets:
        assert triplet.cultural.concept == triplet.unrelated.concept == FLAGS
        assert triplet.semantic.country == NO_COUNTRY
        assert triplet.semantic.image_id != triplet.query.image_id.split("@")[0]
        assert languages[triplet.unrelated.country] != languages[triplet.query.country]
    cultural = Counter(triplet.cultural.image_id for triplet in stand_in.triplets)
    unrelated = Counter(triplet.unrelated.image_id for triplet in stand_in.triplets)
    assert cultural == unrelated
    assert set(cultural.values()) == {12}


def test_queries_are_names_in_the_language_of_the_country(stand_in: TripletCorpus) -> None:
    assert flag_id("KE") == "1f1f0-1f1ea"
    texts = dict(zip([t.query.image_id for t in stand_in.triplets], stand_in.texts(), strict=True))
    whole = emoji_triplets(["en", "sw"])
    named = dict(zip([t.query.image_id for t in whole.triplets], whole.texts(), strict=True))
    assert named["1f418@Kenya"] == "ndovu"
    assert named["1f418@USA"] == named["1f418@UK"] == "elephant"
    assert len(texts) == 180
    assert "not comparable with published values" in stand_in.description
    assert emoji_categories()["1f418"] == "Animals & Nature"
    # Drawn by the seed.
    assert emoji_triplets(limit=12).triplets == stand_in.triplets
    assert emoji_triplets(limit=12, seed=1).triplets != stand_in.triplets


def test_every_language_of_emoji_36_has_a_country() -> None:
    from workbench.languages import XM3600_LANGUAGES

    corpus = emoji_triplets([language for language in XM3600_LANGUAGES if language != "te"], limit=2)
    assert set(corpus.languages) == set(XM3600_LANGUAGES) - {"te"}
    assert emoji_triplets(["te", "en"], limit=2).languages_of["India"] == "te"


@pytest.mark.parametrize(
    ("languages", "words"),
    [
        (["en"], "two languages or more, and en came"),
        ([], "two languages or more, and none came"),
        (["hi", "te"], "share the flag of India"),
        (["xx", "en"], "no language 'xx'"),
    ],
)
def test_errors_teach(languages, words) -> None:
    with pytest.raises(InputError, match=words):
        emoji_triplets(languages)


def test_a_limit_is_at_least_one() -> None:
    with pytest.raises(InputError, match="at least 1"):
        emoji_triplets(limit=0)


def test_a_planted_association_is_found_and_none_is_found_without_it(stand_in: TripletCorpus) -> None:
    """Embeddings by construction: a query is its category, plus its country's flag to a degree that is known."""
    items = {item.image_id: item for triplet in stand_in.triplets for item in triplet.items}
    concepts = sorted({item.concept for item in items.values()})
    countries = sorted({item.country for item in items.values()})
    generator = torch.Generator().manual_seed(0)
    images = torch.stack(
        [
            torch.cat([torch.eye(len(concepts))[concepts.index(item.concept)] * (item.concept != FLAGS),
                       torch.eye(len(countries))[countries.index(item.country)] * (item.concept == FLAGS)])
            for item in (items[image_id] for image_id in stand_in.image_ids)
        ]
    )  # fmt: skip

    def score(pull: float) -> Any:
        noise = 0.05 * torch.randn(len(stand_in), images.shape[1], generator=generator)
        queries = torch.stack(
            [
                torch.cat([torch.eye(len(concepts))[concepts.index(t.query.concept)],
                           pull * torch.eye(len(countries))[countries.index(t.query.country)]])
                for t in stand_in.triplets
            ]
        )  # fmt: skip
        trials = run_trials("planted", stand_in, TripletEmbeddings(queries + noise, images))
        return association_bias([trials]).table

    assert value(score(0.0), "SP", by="all") == 0
    half = score(1.0)
    assert 0.5 < value(half, "SP", by="all") < 2
    assert value(half, "M_non", by="all") == 0
    assert value(score(3.0), "SP", by="all") == math.inf
    assert (
        "stand-in made of emoji"
        in association_bias(
            [run_trials("planted", stand_in, TripletEmbeddings(images[: len(stand_in)], images))]
        ).caption
    )


def test_distinct_texts_and_pictures_are_embedded_once(stand_in: TripletCorpus) -> None:
    seen: dict[str, Any] = {"texts": [], "images": 0}

    class Tower:
        name = "toy-tower"

        def encode_text(self, texts, language):
            seen["texts"] += [(language, text) for text in texts]
            return torch.tensor([[float(len(text)), len(seen["texts"]), 1.0] for text in texts])

        def encode_images(self, images):
            seen["images"] = len(images)
            return torch.tensor([[float(image.getpixel((20, 20))[0]), float(k), 1.0] for k, image in enumerate(images)])

    found = embed_triplets(cast(Any, Tower()), stand_in)
    assert len(seen["texts"]) == len(set(seen["texts"]))
    assert found.texts[:, 0].tolist() == [float(len(text)) for text in stand_in.texts()]
    pictures = {image_id.split("@")[0] for image_id in stand_in.image_ids}
    assert seen["images"] <= len(pictures) < len(stand_in.image_ids)
    opened: Any = stand_in.images()
    for row in range(0, len(stand_in.image_ids), 37):
        assert found.images[row, 0] == opened[row].getpixel((20, 20))[0]
    i2i = run_trials("toy-tower", stand_in, found, "i2i")
    assert i2i.query[0] == stand_in.triplets[0].query.image_id
    with pytest.raises(InputError, match="'t2i' or 'i2i'"):
        run_trials("toy-tower", stand_in, found, cast(Any, "i2t"))
    with pytest.raises(InputError, match="3 texts"):
        run_trials("toy-tower", stand_in, replace(found, texts=found.texts[:3]))
