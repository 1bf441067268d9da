"""Score a tower on a corpus, without any patch: what ``workbench score`` does.

:func:`score` gives one tidy frame for every kind of corpus; :func:`estimate` gives the same rows with their
resamples, so that two towers can be compared with paired intervals (:meth:`Estimates.minus`).

For images with captions the candidates of an image are the captions of one language (``pool="language"``),
or those of all languages at once (``pool="mixed"``, S0-16). In a mixed pool the row of a language counts
its own captions as right and all others as competitors, the same image's captions in other languages among
them; the row ``"any"`` counts a caption in any language as right.

Under the protocol ``"all"`` a text-to-image score is a mean over captions, as published: an image with three
of them weighs three times as much as one with one. An image-to-text score is a mean over images.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from jaxtyping import Int
from torch import Tensor
from tqdm.auto import tqdm

from workbench.corpora.base import Corpus, Protocol, check_protocol
from workbench.errors import InputError, suggest
from workbench.estimates import Estimate, Estimates, estimates_of
from workbench.gallery import check_gallery, embed_gallery, gallery_name, pivot_of
from workbench.languages import say_tiers
from workbench.languages import tier_map as resolve_tier_map
from workbench.late_interaction import MultiVectors, maxsim
from workbench.metrics import Placements, Targets, parse_metric
from workbench.pools import Found, search
from workbench.retrieval import METRICS, ROUNDING, Direction, Ranks, Ties, check_ties, first_places, unit
from workbench.towers.base import Tower

if TYPE_CHECKING:
    import pandas as pd

Pool = Literal["language", "mixed"]
POOLS: tuple[Pool, ...] = ("language", "mixed")
DIRECTIONS: tuple[Direction, ...] = ("i2t", "t2i")


def score(tower: Tower, corpus: Any, metrics: Iterable[str] | None = None, **options: Any) -> "pd.DataFrame":
    """Score a tower on a corpus of any kind; one row a number (:data:`workbench.estimates.COLUMNS`).

    Parameters
    ----------
    tower : Tower
    corpus : Corpus, ClassificationCorpus or ChoiceCorpus
        Images with captions, with classes, or with questions.
    metrics : iterable of str, optional
        For captions those of :mod:`workbench.metrics`, R@1, R@5, R@10 and MRR by default; for classes
        ``"top-1"``, ``"top-5"``, ``"mean per class"``; for questions ``"accuracy"``.
    **options
        Of :func:`estimate_retrieval`, :func:`workbench.zero_shot_scores.score_classes` or
        :func:`workbench.zero_shot_scores.score_choices`.
    """
    return estimate(tower, corpus, metrics, **options).frame


def estimate(tower: Tower, corpus: Any, metrics: Iterable[str] | None = None, **options: Any) -> Estimates:
    """Score a tower as :func:`score` does, and keep the resamples for paired differences."""
    from workbench.corpora.choices import ChoiceCorpus
    from workbench.corpora.classification import ClassificationCorpus
    from workbench.zero_shot_scores import score_choices, score_classes

    kinds = {Corpus: estimate_retrieval, ClassificationCorpus: score_classes, ChoiceCorpus: score_choices}
    for kind, run in kinds.items():
        if isinstance(corpus, kind):
            return run(tower, corpus, **({} if metrics is None else {"metrics": metrics}), **options)
    raise InputError(
        f"A {type(corpus).__name__} can't be scored so; give a corpus of captions, of classes, or of questions. "
        "Triplets are scored by the association bias."
    )


@dataclass(frozen=True)
class Embedded:
    """A gallery and the captions of several languages, embedded.

    Attributes
    ----------
    gallery : Tensor of shape (image, d)
        Unit rows. For a tower with one vector a token, here and in the captions, :class:`MultiVectors`.
    captions : mapping of str to Tensor of shape (caption, d)
        By language; unit rows, equal to the bit for equal captions.
    owner : mapping of str to int array of shape (caption,)
        Row of the image that each caption describes.
    """

    gallery: Any
    captions: Mapping[str, Any]
    owner: Mapping[str, Int[np.ndarray, " caption"]]


def estimate_retrieval(
    tower: Tower,
    corpus: Corpus,
    metrics: Iterable[str] = METRICS,
    *,
    protocol: Protocol = "first",
    pools: Iterable[Pool] = ("language",),
    directions: Iterable[Direction] = DIRECTIONS,
    languages: Iterable[str] | None = None,
    ties: Iterable[Ties] = ("expected",),
    tier_map: str | Mapping[str, str] = "s3",
    pivot: str | None = None,
    resamples: int = 1000,
    seed: int = 0,
    progress: bool = True,
) -> Estimates:
    """Score the retrieval of images and captions.

    Parameters
    ----------
    tower : Tower
    corpus : Corpus
    metrics : iterable of str
        See :mod:`workbench.metrics`.
    protocol : {"first", "all"}
        One caption an image, or all of them. They differ by 7 to 10 points of image-to-text R@1 on
        Crossmodal-3600, and no number means anything without it.
    pools : iterable of {"language", "mixed"}
    directions : iterable of {"i2t", "t2i"}
        A mixed pool has image to text alone: to find an image, captions don't compete.
    languages : iterable of str, optional
        All of the corpus by default; a mixed pool holds these.
    ties : iterable of {"optimistic", "expected", "pessimistic"}
    tier_map : str or mapping
        A published map, a JSON file, or ``{language: tier}``.
    pivot : str, optional
        Rank against the first captions of this language instead of the images, as a text-only encoder
        has to (:mod:`workbench.gallery`); the language itself is then left out.
    resamples, seed : int
        Of the bootstrap over images.
    progress : bool
        Show a bar on stderr.

    Returns
    -------
    Estimates
        Rows by pool, direction, metric and rule for ties: each language, the mean of each tier, and the gap
        between tiers.

    Raises
    ------
    InputError
        If something that was asked for does not exist. It is checked before anything is embedded.
    """
    chosen = list(metrics)
    rules: list[Ties] = [check_ties(rule) for rule in ties]
    names = {parse_metric(metric)[0] for metric in chosen}
    places: list[Pool] = [_check_pool(pool) for pool in pools]
    ways: list[Direction] = [_check_direction(direction) for direction in directions]
    wanted = corpus.languages if languages is None else corpus.check_languages(languages)
    if not chosen or not rules or not places or not ways:
        raise InputError("Nothing was asked for. Name at least one metric, pool, direction and rule for ties.")
    if places == ["mixed"] and "i2t" not in ways:
        raise InputError("A mixed pool is searched from an image. Add the direction 'i2t', or the pool 'language'.")
    against = gallery_name(tower, corpus, pivot)
    if languages is None:
        wanted = tuple(language for language in wanted if language != pivot_of(against))
    check_gallery(against, wanted, [])
    table = estimates_of(tower.name, corpus, tier_map, resamples, seed, gallery=against)
    embedded = embed(tower, corpus, wanted, check_protocol(protocol), pivot, progress)
    every = bool(names & {"recall", "NDCG", "NDCG-list"})
    map_name, tiers = resolve_tier_map(tier_map)
    say_tiers(map_name, tiers, wanted)
    fill = _Filler(table, tiers, protocol, chosen, rules)
    steps: list[tuple[Pool, Direction]] = [
        (place, way) for place in places for way in ways if place == "language" or way == "i2t"
    ]
    for pool, direction in tqdm(steps, desc="rank", disable=not progress):
        if pool == "mixed":
            fill.rows(pool, direction, _mixed(embedded, n_images=len(corpus)))
        else:
            fill.rows(pool, direction, _by_language(embedded, direction, every, len(corpus)))
    return table


def embed(
    tower: Tower,
    corpus: Corpus,
    languages: Iterable[str],
    protocol: Protocol = "first",
    pivot: str | None = None,
    progress: bool = True,
) -> Embedded:
    """Embed the gallery and the captions of some languages, as unit rows.

    Captions that a tower reads as the same tokens get the same embedding wherever they stand, although two batches
    may differ in the last bits, because otherwise two captions that it can't tell apart would not tie. Between
    languages that is done where the two differ by no more than rounding: a file of embeddings may say otherwise.
    """
    against = gallery_name(tower, corpus, pivot)
    if tower.multi_vector:
        return _embed_tokens(tower, corpus, list(languages), protocol, against)
    gallery = embed_gallery(tower, corpus, against)
    captions: dict[str, Tensor] = {}
    owner: dict[str, np.ndarray] = {}
    anywhere: dict[Hashable, tuple[str, int]] = {}
    for language in tqdm(list(languages), desc="embed", disable=not progress):
        texts, owner[language] = corpus.texts(language, protocol)
        rows = unit(tower.embed_captions(corpus, language, protocol), f"{language} embeddings")
        keys = tower.caption_keys(texts, language)
        first = first_places(keys)
        for row in dict.fromkeys(first):
            other, place = anywhere.setdefault(keys[row], (language, row))
            if other != language and float((captions[other][place] - rows[row]).norm()) <= ROUNDING:
                rows[row] = captions[other][place]
        captions[language] = rows[first]
    return Embedded(gallery, captions, owner)


def _embed_tokens(tower: Tower, corpus: Corpus, languages: list[str], protocol: Protocol, against: str) -> Embedded:
    pivot = pivot_of(against)
    gallery = tower.embed_images(corpus) if pivot is None else tower.embed_captions(corpus, pivot)
    captions: dict[str, MultiVectors] = {}
    owner: dict[str, np.ndarray] = {}
    for language in languages:
        _, owner[language] = corpus.texts(language, protocol)
        captions[language] = cast(Any, tower.embed_captions(corpus, language, protocol))
    return Embedded(gallery, captions, owner)


_Ranked = tuple[str, "Ranks | Placements", "Int[np.ndarray, ' query'] | None"]
"""A language, its queries' ranks, and the image of each query where there may be several an image."""


def _by_language(embedded: Embedded, direction: Direction, every: bool, n_images: int) -> Iterable[_Ranked]:
    for language, captions in embedded.captions.items():
        owner = embedded.owner[language]
        if direction == "i2t":
            yield (
                language,
                _find_captions(embedded.gallery, [captions], Targets.of_images(owner, n_images), every),
                None,
            )
        else:
            yield language, _find_images(captions, embedded.gallery, Targets.of_captions(owner), every), owner


def _mixed(embedded: Embedded, n_images: int) -> Iterable[_Ranked]:
    owner = np.concatenate(list(embedded.owner.values()))
    language = np.repeat(list(embedded.captions), [len(rows) for rows in embedded.owner.values()])
    targets = Targets.of_images(owner, n_images)
    found = _find_captions(embedded.gallery, list(embedded.captions.values()), targets, every=True)
    yield "any", found, None
    if isinstance(found, Placements):
        for own in embedded.captions:
            yield own, found.subset(language[targets.candidate] == own), None


def _find_captions(gallery: Any, captions: list[Any], targets: Targets, every: bool) -> Ranks | Placements:
    if isinstance(gallery, MultiVectors):
        # The sum runs over the tokens of the captions, whichever way one searches.
        scores = np.concatenate([maxsim(part, gallery) for part in captions])
        return Placements.of_scores(scores.T, targets)
    return _ranks(search(gallery, captions, 0, targets=targets, every=every))


def _find_images(captions: Any, gallery: Any, targets: Targets, every: bool) -> Ranks | Placements:
    if isinstance(gallery, MultiVectors):
        return Placements.of_scores(maxsim(captions, gallery), targets)
    return _ranks(search(captions, gallery, 0, targets=targets, every=every))


def _ranks(found: Found) -> Ranks | Placements:
    ranks = found.placements or found.first
    if ranks is None:
        raise InputError("No target was ranked.")
    return ranks


@dataclass(frozen=True)
class _Filler:
    table: Estimates
    tiers: Mapping[str, str]
    protocol: Protocol
    metrics: list[str]
    ties: list[Ties]

    def rows(self, pool: Pool, direction: Direction, ranked: Iterable[_Ranked]) -> None:
        """Add the rows of one pool and direction: languages, means of tiers, gaps."""
        members: dict[tuple[str, Ties], dict[str, Estimate]] = {}
        fixed = {"pool": pool, "direction": direction, "protocol": self.protocol}
        for language, ranks, owner in ranked:
            for metric in self.metrics:
                for rule in self.ties:
                    scores = ranks.score(_plain(metric, ranks), rule)
                    sums, counts = self._by_image(scores, owner)
                    labels = {**fixed, "language": language, "tier": self.tiers.get(language, "")}
                    found = self.table.add({**labels, "metric": metric, "ties": rule}, sums, counts)
                    members.setdefault((metric, rule), {})[language] = found
        for (metric, rule), of_language in members.items():
            self.table.add_tiers({**fixed, "metric": metric, "ties": rule}, of_language, self.tiers)

    def _by_image(self, scores: np.ndarray, owner: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        if owner is None:
            return scores, None
        n = self.table.bootstrap.n
        return np.bincount(owner, scores, minlength=n), np.bincount(owner, minlength=n).astype(np.float64)


def _plain(metric: str, ranks: Ranks | Placements) -> str:
    """Name a metric as plain ranks know it."""
    return metric.replace("Acc@", "R@") if isinstance(ranks, Ranks) else metric


def _check_pool(pool: str) -> Pool:
    if pool not in POOLS:
        raise InputError(f"There is no pool {pool!r}.{suggest(pool, POOLS)} Use 'language' or 'mixed'.")
    return pool


def _check_direction(direction: str) -> Direction:
    if direction not in DIRECTIONS:
        raise InputError(f"There is no direction {direction!r}. Use 'i2t' (image to text) or 't2i'.")
    return direction
