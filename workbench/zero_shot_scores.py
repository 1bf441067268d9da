"""Zero-shot scores of a tower, as tidy rows: Babel-ImageNet and CVQA, or corpora like them.

Images are resampled once for all languages, so a mean over languages has a paired interval although each
language is scored on images of its own (:mod:`workbench.estimates`). What a number depends on stands in its
row: number of classes and templates, chance, and the ceiling that classes of one name leave; or country,
template, and whether the question was asked in its own language or in English.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from workbench.estimates import Estimate, Estimates, estimates_of
from workbench.languages import tier_map as resolve_tier_map
from workbench.retrieval import unit
from workbench.zero_shot import (
    CHOICE_METRICS,
    CLASS_METRICS,
    ChoiceTies,
    check_choice_metric,
    check_choice_ties,
    check_class_metric,
    choose,
    classify,
    ensemble,
)

if TYPE_CHECKING:
    from workbench.corpora.choices import ChoiceCorpus
    from workbench.corpora.classification import ClassificationCorpus
    from workbench.towers.base import Tower

_PROMPTS = 4096  # texts that are embedded at a time


def score_classes(
    tower: "Tower",
    corpus: "ClassificationCorpus",
    metrics: Iterable[str] = CLASS_METRICS,
    *,
    languages: Iterable[str] | None = None,
    ties: Iterable[ChoiceTies] = ("expected",),
    tier_map: str | Mapping[str, str] = "s3",
    resamples: int = 1000,
    seed: int = 0,
    progress: bool = True,
) -> Estimates:
    """Score a tower on Babel-ImageNet or a corpus like it.

    Parameters
    ----------
    tower : Tower
    corpus : ClassificationCorpus
    metrics : iterable of str
        ``"top-1"`` to ``"top-5"``, and ``"mean per class"``.
    languages : iterable of str, optional
        All of the corpus by default.
    ties : iterable of {"expected", "optimistic", "pessimistic", "first"}
        ``"first"`` is the published argmax.
    tier_map : str or mapping
        A published map, a JSON file, or ``{language: tier}``.
    resamples, seed : int
        Of the bootstrap over images.
    progress : bool
        Show a bar on stderr.

    Returns
    -------
    Estimates
        Its frame has the further columns ``classes``, ``templates``, ``chance`` and ``ceiling``; the row
        ``language="mean", tier="all"`` is the unweighted mean over the languages.
    """
    wanted = corpus.languages if languages is None else corpus.check_languages(languages)
    chosen, rules = [check_class_metric(metric) for metric in metrics], check_choice_ties(ties)
    extra = {"classes": "Int64", "templates": "Int64", "chance": "float64", "ceiling": "float64"}
    table = estimates_of(tower.name, corpus, tier_map, resamples, seed, extra)
    tiers = resolve_tier_map(tier_map)[1]
    gallery = unit(tower.encode_images(corpus.images()), "image embeddings")
    asked = {"pool": "classes", "direction": "i2t"}
    members: dict[tuple[str, ChoiceTies], dict[str, Estimate]] = {}
    for language in tqdm(wanted, desc="classify", disable=not progress):
        rows, target = corpus.task(language)
        texts = corpus.texts(language)
        found = classify(gallery[torch.from_numpy(rows)], _class_vectors(tower, texts, language), target)
        sizes = {"classes": len(texts), "templates": len(texts[0]), "protocol": f"{len(texts[0])} templates"}
        counts = np.zeros(len(corpus))
        counts[rows] = 1
        for metric in chosen:
            k = int(metric[-1]) if metric.startswith("top-") else 1
            for rule in rules:
                scores = np.zeros(len(corpus))
                scores[rows] = found.score(metric, rule)
                labels = {**asked, **sizes, "language": language, "tier": tiers.get(language, ""), "ties": rule}
                labels |= {"metric": metric, "chance": found.chance(k), "ceiling": found.ceiling(k, rule)}
                members.setdefault((metric, rule), {})[language] = table.add(labels, scores, counts)
    for (metric, rule), of_language in members.items():
        labels = {**asked, "ties": rule, "metric": metric, "protocol": "templates of each language"}
        table.add_mean({**labels, "language": "mean", "tier": "all"}, list(of_language.values()))
        table.add_tiers(labels, of_language, tiers)
    return table


def _class_vectors(tower: "Tower", texts: list[list[str]], language: str) -> Float[Tensor, "class d"]:
    """Ensemble the prompts of each class; classes whose prompts a tower reads alike get one vector to the bit."""
    keys = [tuple(tower.caption_keys(prompts, language)) for prompts in texts]
    first = dict(zip(reversed(keys), reversed(texts), strict=True))
    place = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    distinct, vectors = [first[key] for key in place], []
    step = max(1, _PROMPTS // len(texts[0]))
    for start in range(0, len(distinct), step):
        some = distinct[start : start + step]
        embedded = tower.encode_text([text for prompts in some for text in prompts], language)
        vectors.append(ensemble(embedded.view(len(some), len(texts[0]), -1)))
    return torch.cat(vectors)[[place[key] for key in keys]]


def score_choices(
    tower: "Tower",
    corpus: "ChoiceCorpus",
    metrics: Iterable[str] = CHOICE_METRICS,
    *,
    languages: Iterable[str] | None = None,
    ties: Iterable[ChoiceTies] = ("expected",),
    tier_map: str | Mapping[str, str] = "s3",
    resamples: int = 1000,
    seed: int = 0,
    progress: bool = True,
) -> Estimates:
    """Score a tower on CVQA or a corpus like it.

    Parameters
    ----------
    tower : Tower
    corpus : ChoiceCorpus
        It says which template is filled, and whether questions are asked in their own language.
    metrics : iterable of str
        ``"accuracy"``.
    languages, ties, tier_map, resamples, seed, progress
        As for :func:`score_classes`; the bootstrap is over questions.

    Returns
    -------
    Estimates
        Its frame has the further columns ``country``, ``template``, ``variant`` and ``chance``. A row is the
        accuracy of one language and country; ``language="mean", tier="all"`` is the unweighted mean over
        these groups, and a tier's mean that over its groups.
    """
    corpus = corpus if languages is None else corpus.select(languages)
    chosen, rules = [check_choice_metric(metric) for metric in metrics], check_choice_ties(ties)
    extra = {"country": "str", "template": "str", "variant": "str", "chance": "float64"}
    table = estimates_of(tower.name, corpus, tier_map, resamples, seed, extra)
    tiers = resolve_tier_map(tier_map)[1]
    lists = corpus.texts()
    spoken = [corpus.text_language(question) for question in corpus.questions]
    texts = _option_texts(tower, lists, spoken, progress)
    gallery = unit(tower.encode_images(corpus.images()), "image embeddings")
    found = choose(gallery, texts, np.array([len(options) for options in lists]), corpus.answers)
    asked = {"pool": "options", "direction": "i2t", "protocol": "question with options"}
    asked |= {"template": corpus.template, "variant": corpus.variant}
    for metric in chosen:
        for rule in rules:
            scores = found.score(metric, rule)
            labels = {**asked, "ties": rule, "metric": metric}
            members: dict[str, Estimate] = {}
            tier_of: dict[str, str] = {}
            for (language, country), rows in corpus.groups.items():
                counts = np.zeros(len(corpus))
                counts[rows] = 1
                own = {
                    "language": language,
                    "country": country,
                    "tier": tiers.get(language, ""),
                    "chance": float(found.chance[rows].mean()),
                }
                group = f"{language} {country}"
                members[group] = table.add({**labels, **own}, scores * counts, counts)
                if language in tiers:
                    tier_of[group] = tiers[language]
            chance = float(np.mean([found.chance[rows].mean() for rows in corpus.groups.values()]))
            table.add_mean({**labels, "language": "mean", "tier": "all", "chance": chance}, list(members.values()))
            table.add_tiers(labels, members, tier_of)
    return table


def _option_texts(
    tower: "Tower", lists: list[list[str]], spoken: list[str], progress: bool
) -> Float[Tensor, "option d"]:
    """Embed each distinct text of a language once, so that equal options tie."""
    flat = [(language, text) for language, texts in zip(spoken, lists, strict=True) for text in texts]
    distinct: dict[str, dict[str, None]] = {}
    for language, text in flat:
        distinct.setdefault(language, {})[text] = None
    place = {key: k for k, key in enumerate((language, text) for language, texts in distinct.items() for text in texts)}
    vectors = [
        tower.encode_text(list(texts), language)
        for language, texts in tqdm(distinct.items(), desc="answers", disable=not progress)
    ]
    return torch.cat(vectors)[[place[key] for key in flat]]
