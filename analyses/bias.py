"""What ``workbench bias prevalence`` and ``workbench bias association`` do: one tower, one corpus, every figure."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from analyses.association import (
    ChoiceDirection,
    ChoiceTies,
    TripletEmbeddings,
    association_bias,
    country_self_preference,
    embed_triplets,
    run_trials,
)
from analyses.association_clusters import (
    cluster_table,
    distinct_names,
    image_clusters,
    preference_and_clusters,
    text_clusters,
)
from analyses.base import Analysis
from analyses.emoji_triplets import NAME as STAND_IN
from analyses.emoji_triplets import emoji_categories, emoji_triplets
from analyses.maps import NEIGHBOURS, MapMethod, default_method, embedding_map
from analyses.mixed_pool import PoolTies, mixed_ranking
from analyses.prevalence import Prior, TierMap, accuracy_scatter, prevalence_bias
from analyses.prevalence_lists import language_frequency, language_shares, rank_frequency, ranked_list
from workbench.corpora.base import Corpus, Protocol
from workbench.corpora.triplets import TripletCorpus
from workbench.errors import InputError
from workbench.languages import say_tiers
from workbench.languages import tier_map as resolve_tier_map
from workbench.towers.base import Tower

log = logging.getLogger(__name__)

STAND_IN_EMOJI = 300
"""Emoji that the stand-in asks for by default: 4,500 trials, some seconds a language."""


def bias_prevalence(
    tower: Tower,
    corpus: Corpus,
    languages: Iterable[str] | None = None,
    *,
    tier_map: TierMap = "s0",
    low_tiers: Iterable[str] | None = None,
    protocol: Protocol = "all",
    prior: Prior | float = "half",
    ties: PoolTies = "random",
    query: str | None = None,
    seed: int = 0,
    resamples: int = 1000,
    embeddings: Mapping[str, Any] | None = None,
) -> list[Analysis]:
    """Measure prevalence bias of one tower on one corpus, with every figure: ``workbench bias prevalence``.

    Parameters
    ----------
    tower : Tower
    corpus : Corpus
    languages : iterable of str, optional
        Of the mixed pool; those of the corpus that have a tier, by default.
    tier_map : str, Path or mapping
    low_tiers : iterable of str, optional
        Tiers that are the low-resource group; ``Low`` and ``LRL`` by default.
    protocol : {"all", "first"}
    prior : {"half", "pool"} or float
        P of the low-resource group: ½ as published, its share of the pool, or a number.
    ties : {"random", "index"}
    query : str, optional
        Image whose list is shown; the one with fewest low-resource captions among its first ten by default.
    seed, resamples : int
    embeddings : mapping of str to Tensor, optional
        Text embeddings by language, where they are there already.

    Returns
    -------
    list of Analysis
        ``prevalence-bias``, ``rank-frequency``, ``language-frequency``, ``language-shares``,
        ``accuracy-and-bias`` and ``ranked-list``.
    """
    map_name, tiers = resolve_tier_map(tier_map)
    say_tiers(map_name, tiers, corpus.languages if languages is None else corpus.check_languages(languages))
    if languages is None:
        languages = [language for language in corpus.languages if language in tiers]
        if not languages:
            raise InputError(
                f"No language of {corpus.name!r} ({', '.join(corpus.languages)}) has a tier in this map "
                f"({', '.join(tiers)}). Name languages, and a map that has them."
            )
    ranking = mixed_ranking(tower, corpus, languages, protocol=protocol, ties=ties, seed=seed, embeddings=embeddings)
    where: dict[str, Any] = {"tier_map": tier_map, "low_tiers": low_tiers}
    main = prevalence_bias([ranking], prior=prior, seed=seed, resamples=resamples, **where)
    return [
        main,
        rank_frequency(ranking, **where),
        language_frequency(ranking, **where),
        language_shares(ranking, tier_map=tier_map, seed=seed, resamples=resamples),
        accuracy_scatter(main.table),
        ranked_list(ranking, query, corpus=corpus, **where),
    ]


def bias_association(
    tower: Tower,
    corpus: TripletCorpus | None = None,
    *,
    languages: Iterable[str] | None = None,
    directions: Sequence[ChoiceDirection] = ("t2i", "i2i"),
    ties: ChoiceTies = "first",
    method: MapMethod | None = None,
    limit: int | None = None,
    seed: int = 0,
    resamples: int = 1000,
    embeddings: TripletEmbeddings | None = None,
) -> list[Analysis]:
    """Measure association bias of one tower, with every figure: ``workbench bias association``.

    Parameters
    ----------
    tower : Tower
    corpus : TripletCorpus, optional
        The stand-in made of emoji by default.
    languages : iterable of str, optional
        Of the queries; all of the corpus by default.
    directions : sequence of {"t2i", "i2i"}
    ties : {"first", "shared"}
    method : {"umap", "pca", "tsne"}, optional
        Of the maps; UMAP where it is installed, PCA otherwise.
    limit : int, optional
        Trials of a corpus, or emoji that the stand-in asks for.
    seed, resamples : int
    embeddings : TripletEmbeddings, optional
        Where they are there already.

    Returns
    -------
    list of Analysis
        ``association-t2i``, ``association-i2i``, ``clusters-by-language`` (of two or more),
        ``clusters-by-country`` (where countries have several images), ``preference-and-clusters`` (where four
        countries or more all have a finite SP), ``map-texts`` and ``map-images``. What makes no sense for a set of
        trials is left out, and the log says why.
    """
    if corpus is None:
        corpus = emoji_triplets(languages, limit=STAND_IN_EMOJI if limit is None else limit, seed=seed)
    elif languages is not None or limit is not None:
        corpus = corpus.select(languages, limit)
    found = embed_triplets(tower, corpus) if embeddings is None else embeddings
    trials = {direction: run_trials(tower.name, corpus, found, direction) for direction in dict.fromkeys(directions)}
    found = found.single
    answers = [association_bias([one], ties=ties, seed=seed, resamples=resamples) for one in trials.values()]
    names: Any = {"tower": tower.name, "corpus": corpus.name}
    texts = _or_none("clusters-by-language", lambda: text_clusters(corpus, found)[0])
    images = _or_none("clusters-by-country", lambda: image_clusters(corpus, found.images))
    for clusters, what in ((texts, "language"), (images, "country")):
        if clusters is not None:
            answers.append(cluster_table(clusters, what, **names))
    if "t2i" in trials:
        preference = country_self_preference(answers[list(trials).index("t2i")].table, tower.name)
        text, image = (None if clusters is None else clusters.silhouettes for clusters in (texts, images))
        beside = _or_none(
            "preference-and-clusters",
            lambda: preference_and_clusters(preference, text, image, corpus.languages_of, **names),
        )
        answers += [] if beside is None else [beside]
    chosen = method or default_method()
    maps = {"map-texts": _text_map, "map-images": _image_map}
    drawn = [_or_none(name, partial(draw, tower, corpus, found, chosen)) for name, draw in maps.items()]
    return [*answers, *(one for one in drawn if one is not None)]


T = TypeVar("T")


def _or_none(name: str, make: Callable[[], T]) -> T | None:
    """Make something, or log why it makes no sense for this set of trials."""
    try:
        return make()
    except InputError as reason:
        log.info("%s is left out: %s", name, reason)
        return None


def _text_map(tower: Tower, corpus: TripletCorpus, found: TripletEmbeddings, method: MapMethod) -> Analysis:
    """Map the distinct native names by language."""
    points, rows = distinct_names(corpus)
    concept = [corpus.triplets[row].query.concept for row in rows]
    return embedding_map(
        found.texts[rows].numpy(),
        [language for language, _ in points],
        [f"{text} ({name})" for (_, text), name in zip(points, concept, strict=True)],
        method=method,
        neighbours=min(NEIGHBOURS, len(rows) - 1),
        subject=f"native names, {tower.name}",
        name="map-texts",
    )


def _image_map(tower: Tower, corpus: TripletCorpus, found: TripletEmbeddings, method: MapMethod) -> Analysis:
    """Map the images by country or, in the stand-in, by category."""
    items = {item.image_id: item for triplet in corpus.triplets for item in triplet.items}
    place = {image_id: row for row, image_id in enumerate(corpus.image_ids)}
    stand_in = corpus.name == STAND_IN
    if stand_in:
        # Queries show one picture for every country; it stands once.
        categories = emoji_categories()
        pictures = {image_id.split("@")[0]: image_id for image_id in corpus.image_ids}
        chosen, groups = list(pictures.values()), [categories[picture] for picture in pictures]
    else:
        chosen = list(corpus.image_ids)
        groups = [items[image_id].country for image_id in chosen]
    return embedding_map(
        found.images[[place[image_id] for image_id in chosen]].numpy(),
        groups,
        [f"{items[image_id].concept}, {image_id}" for image_id in chosen],
        kind="group" if stand_in else "country",
        method=method,
        neighbours=min(NEIGHBOURS, len(chosen) - 1),
        subject=f"images, {tower.name}",
        name="map-images",
    )
