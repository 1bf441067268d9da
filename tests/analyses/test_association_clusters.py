"""Self-preference beside silhouettes: published tables give the published correlations, and Nigeria is named."""

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from analyses.association import TripletEmbeddings
from analyses.association_clusters import (
    cluster_table,
    distinct_names,
    image_clusters,
    preference_and_clusters,
    published_preference_and_clusters,
    text_clusters,
)
from analyses.emoji_triplets import emoji_triplets
from analyses.published_values import country_languages, load_published
from probes.clusters import cluster_labels
from workbench.corpora.triplets import Item, Triplet, TripletCorpus
from workbench.errors import InputError

TOWERS = {"CLIP-L/14": (0.829, 0.85), "XLM-R-B/16plus": (0.981, -0.50), "jinaai/jina-embeddings-v4": (0.856, 0.16)}


def cell(table: Any, metric: str, country: str = "all") -> float:
    found = table[(table["metric"] == metric) & (table["country"] == country)]
    assert len(found) == 1
    return float(found["value"].iloc[0])


@pytest.mark.parametrize("tower", TOWERS)
def test_published_values_give_the_published_correlation_with_and_without_nigeria(tower: str) -> None:
    whole, without = TOWERS[tower]
    answer = published_preference_and_clusters(tower)
    assert cell(answer.table, "TSC") == pytest.approx(whole, abs=0.0006)
    assert cell(answer.table, "TSC without", "Nigeria") == pytest.approx(without, abs=0.006)
    assert len(answer.table[answer.table["metric"] == "TSC Spearman without"]) == 16
    if tower != "CLIP-L/14":
        assert f"without Nigeria it is {cell(answer.table, 'TSC without', 'Nigeria'):.2f}" in answer.caption
    assert "rounded to two places" in answer.caption
    figure: Any = answer.figure
    countries = list(figure.data[0].x)
    assert (countries[0], countries[-1]) == ("USA", "Nigeria")
    assert [trace.yaxis for trace in figure.data] == [None, "y2", "y2"]
    assert len({trace.line.dash for trace in figure.data}) == 3
    assert "n = 16 countries" in answer.title


def test_a_tower_that_is_not_in_the_table_is_named() -> None:
    with pytest.raises(InputError, match=r"no tower 'ColQwen2\.5-v0\.2'\. It has: CLIP-L/14"):
        published_preference_and_clusters("ColQwen2.5-v0.2")


def test_values_by_language_or_by_country_and_what_is_lacking() -> None:
    languages = country_languages()
    generator = np.random.default_rng(0)
    preference = {country: float(value) for country, value in zip(languages, generator.random(16), strict=True)}
    by_language = {language: float(generator.random()) for language in dict.fromkeys(languages.values())}
    names: Any = {"tower": "a", "corpus": "b"}
    one = preference_and_clusters(preference, by_language, None, languages, **names)
    spread = {country: by_language[language] for country, language in languages.items()}
    two = preference_and_clusters(preference, spread, None, languages, **names)
    assert one.table.equals(two.table)
    assert cell(one.table, "TS", "UK") == cell(one.table, "TS", "USA")
    assert not one.table["metric"].str.startswith("ISC").any()
    with pytest.raises(InputError, match="none for Nigeria"):
        preference_and_clusters(preference, None, {c: 0.1 for c in languages if c != "Nigeria"}, languages, **names)
    with pytest.raises(InputError, match="No silhouette"):
        preference_and_clusters(preference, None, None, languages, **names)
    with pytest.raises(InputError, match=r"'Kenya' is inf.*log SP"):
        preference_and_clusters({**preference, "Kenya": float("inf")}, by_language, None, languages, **names)


def small_set() -> TripletCorpus:
    """Two countries with three images each, of which two names are the same text."""
    items = [Item(f"{country}-{k}", f"concept {k}", country) for country in ("Kenya", "USA") for k in range(3)]
    kenya, usa = items[:3], items[3:]
    triplets = [Triplet(kenya[k], usa[k], kenya[k - 1], usa[k - 1]) for k in range(3)]
    triplets += [Triplet(usa[k], kenya[k], usa[k - 1], kenya[k - 1]) for k in range(3)]
    native = {item.image_id: f"{item.country} {item.concept}" for item in items} | {"Kenya-2": "taxi", "USA-2": "taxi"}
    return TripletCorpus(
        name="small", triplets=tuple(triplets), languages_of={"Kenya": "sw", "USA": "en"},
        open_image=lambda _: Image.new("RGB", (4, 4)), image_hash=str, licence="", description="", native=native,
    )  # fmt: skip


def test_a_name_of_two_languages_counts_once_for_the_first() -> None:
    corpus = small_set()
    names, rows = distinct_names(corpus)
    assert [name for name in names if name[1] == "taxi"] == [("sw", "taxi")]
    assert len(names) == 5
    generator = torch.Generator().manual_seed(1)
    embeddings = TripletEmbeddings(torch.randn(6, 4, generator=generator), torch.randn(6, 4, generator=generator))
    found, points = text_clusters(corpus, embeddings)
    assert points == names
    expected = cluster_labels(embeddings.texts[rows].numpy(), [language for language, _ in names])
    assert found == expected
    images = image_clusters(corpus, embeddings.images)
    assert images.counts == {"Kenya": 3, "USA": 3}
    answer = cluster_table(images, "country", "toy", corpus.name)
    assert answer.table["silhouette"].is_monotonic_decreasing
    assert "n = 6 images" in answer.title


def test_countries_of_the_stand_in_have_no_clusters_of_images() -> None:
    corpus = emoji_triplets(["en", "sw"], limit=2)
    with pytest.raises(InputError, match="the same pictures for every country"):
        image_clusters(corpus, torch.ones(len(corpus.image_ids), 2))


def test_the_correlations_of_table_7_are_read_beside_table_8() -> None:
    printed = load_published("s0", 7).pivot_table("value", "tower", "metric")
    for tower in ("CLIP-L/14", "GME-Qwen2-2B"):
        table = published_preference_and_clusters(tower).table
        assert cell(table, "TSC") == pytest.approx(printed.loc[tower, "TSC"], abs=0.025)
        assert cell(table, "ISC") == pytest.approx(printed.loc[tower, "ISC"], abs=0.09)
