"""The language direction of one tower on one corpus: read, erased, judged, and held against averaging.

:func:`measure_erasure` embeds each language once and asks section 4 of S3 in order. Can the language be read
off embeddings, and by which classifiers? What does erasing it take from a fresh classifier and from retrieval,
beside as many random directions? What does averaging over languages gain? Do the two act in the same
directions? And at which depth can the language be read, before and after erasure there?
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from analyses.averaging import AveragingGains, average_languages
from analyses.averaging_figures import averaging_figure
from analyses.averaging_pairs import averaging_pairs
from analyses.base import Analysis
from analyses.erasure import ErasureAudit, audit_erasure
from analyses.erasure_depths import language_by_depth
from analyses.erasure_figures import erasure_attacks, erasure_changes
from analyses.erasure_ranks import erasure_by_rank
from analyses.erasure_verdict import ErasureThresholds, ErasureVerdict, judge_erasure
from analyses.geometry_output import subspace_angles
from analyses.key_numbers import erasure_numbers
from analyses.language_probe import classifier_accuracies, confusion_figure
from interventions.erasers import AdversarialEraser, Eraser, LinearEraser
from probes.classifiers import CLASSIFIERS, ClassifierComparison, compare_classifiers, stack_languages
from probes.subspaces import PrincipalAngles, averaging_subspace, principal_angles
from workbench.corpora.base import Corpus
from workbench.errors import InputError
from workbench.languages import tier_map as resolve_tier_map
from workbench.scoring import embed
from workbench.splits import split_by_image
from workbench.towers.base import Tower
from workbench.trajectory import capture

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ErasureStudy:
    """What was found.

    Attributes
    ----------
    tower, corpus : str
    classifiers : ClassifierComparison
        On unit embeddings, before erasure.
    audit : ErasureAudit
    verdicts : dict of (eraser, direction) to ErasureVerdict
    gains : AveragingGains, optional
        Absent where no tier has two languages.
    angles : PrincipalAngles, optional
        Between what LEACE reads and what averaging takes away (S3-39), on training images.
    depths : Analysis, optional
        Language by depth; absent for towers without blocks, or where it was not asked for.
    pairs : Analysis, optional
        What each language gains by being averaged with each other one, where that was asked for.
    notes : tuple of str
        What was left out, and why.
    """

    tower: str
    corpus: str
    classifiers: ClassifierComparison = field(repr=False)
    audit: ErasureAudit = field(repr=False)
    verdicts: dict[tuple[str, str], ErasureVerdict] = field(repr=False)
    gains: AveragingGains | None = field(repr=False)
    angles: PrincipalAngles | None
    depths: Analysis | None = field(repr=False)
    notes: tuple[str, ...] = ()
    pairs: Analysis | None = field(repr=False, default=None)


def measure_erasure(
    tower: Tower,
    corpus: Corpus,
    languages: Iterable[str] | None = None,
    *,
    tier_map: str | Mapping[str, str] = "s3",
    erasers: Sequence[Eraser] | None = None,
    adversarial: bool = False,
    classifiers: Sequence[str] = CLASSIFIERS,
    by_depth: bool = True,
    pools: Mapping[str, Iterable[str]] | None = None,
    pairs: bool = False,
    pivot: str | None = None,
    draws: int = 5,
    folds: int | None = None,
    thresholds: ErasureThresholds | None = None,
    resamples: int = 1000,
    seed: int = 0,
    progress: bool = True,
) -> ErasureStudy:
    """Run section 4 of S3 on a tower, with the first caption of each image.

    Parameters
    ----------
    tower : Tower
    corpus : Corpus
    languages : iterable of str, optional
        All of the corpus by default.
    tier_map : str or mapping
    erasers : sequence of Eraser, optional
        Not fitted; LEACE, mean difference, and INLP at several ranks by default.
    adversarial : bool
        Add the adversarial eraser, which takes longer than all others together.
    classifiers : sequence of str
        What reads the language before erasure.
    by_depth : bool
        Read it at every depth too.
    pools : mapping of str to iterable of str, optional
        Languages to average, by the name of the set; each tier of two or more by default.
    pairs : bool
        Average each two languages too, for the matrix of who helps whom.
    pivot : str, optional
        For a text-only tower: the language whose captions are the gallery.
    draws : int
        Random ablations a rank.
    folds : int, optional
        Cross-fit erasers and attackers, so that every image is scored once; half of the images by default.
    thresholds : ErasureThresholds, optional
    resamples, seed : int
    progress : bool
    """
    if tower.multi_vector:
        raise InputError(
            f"{tower.name!r} has a vector for each token, and erasure works on one vector a caption. Score it, or "
            "measure its biases."
        )
    wanted = corpus.languages if languages is None else corpus.check_languages(languages)
    if pivot in wanted:
        raise InputError(f"The captions of {pivot!r} are the gallery; leave it out of the languages.")
    found = embed(tower, corpus, wanted, "first", pivot, progress)
    embeddings = {language: rows.numpy() for language, rows in found.captions.items()}
    gallery, images = found.gallery.numpy(), np.array(corpus.image_ids)
    tokens = _tokens(tower, corpus, wanted)
    rows, labels, groups = stack_languages(embeddings, images)
    compared = compare_classifiers(
        rows, labels, groups, classifiers=classifiers, tokens=None if tokens is None else tokens.reshape(-1), seed=seed,
        resamples=resamples,
    )  # fmt: skip
    audit = audit_erasure(
        embeddings, gallery, erasers, extra=[AdversarialEraser(seed=seed)] if adversarial else (), images=images,
        tier_map=tier_map, draws=draws, folds=folds, seed=seed, resamples=resamples,
        tower=tower.name, corpus=corpus.name,
    )  # fmt: skip
    directions: tuple = ("i2t", "t2i")
    verdicts = {
        (name, direction): judge_erasure(audit, name, direction=direction, thresholds=thresholds)
        for name in audit.fitted
        for direction in directions
    }
    if pools is None:
        pools = tier_pools(wanted, tier_map)
    notes = list(audit.notes)
    if not pools:
        notes.append("Nothing was averaged: no tier has two of the languages.")
    gains = None
    if pools:
        gains = average_languages(
            embeddings, gallery, pools, resamples=resamples, seed=seed, tower=tower.name, corpus=corpus.name
        )
    matrix = None
    if pairs:
        matrix = averaging_pairs(
            embeddings, gallery, resamples=resamples, seed=seed, tower=tower.name, corpus=corpus.name
        )
    depths = None
    if by_depth and tower.n_blocks:
        trajectory = capture(tower, corpus, wanted, progress=progress)
        depths = language_by_depth(trajectory, tokens=tokens, seed=seed, resamples=resamples)
    train, _ = split_by_image(images, seed=seed)
    angles = _angles(audit, {language: own[train] for language, own in embeddings.items()})
    return ErasureStudy(tower.name, corpus.name, compared, audit, verdicts, gains, angles, depths, tuple(notes), matrix)


def tier_pools(languages: Sequence[str], tier_map: str | Mapping[str, str] = "s3") -> dict[str, tuple[str, ...]]:
    """Return the languages of each tier that has two or more of them."""
    tiers = resolve_tier_map(tier_map)[1]
    pools = {
        tier: tuple(language for language in languages if tiers.get(language) == tier)
        for tier in dict.fromkeys(tiers.values())
    }
    return {tier: pool for tier, pool in pools.items() if len(pool) > 1}


def erasure_analyses(study: ErasureStudy) -> list[Analysis]:
    """Show a study: classifiers, erasure at the output, by rank and by depth, averaging, and their angles."""
    subject = f"{study.tower} on {study.corpus}"
    found = [classifier_accuracies(study.classifiers, subject=subject)]
    if "logistic" in {score.classifier for score in study.classifiers.scores}:
        found.append(confusion_figure(study.classifiers, subject=subject))
    found += [erasure_attacks(study.audit), *(erasure_changes(study.audit, name) for name in _shown(study.audit))]
    if sum(name.startswith("INLP") for name in study.audit.fitted) > 1:
        found.append(erasure_by_rank(study.audit))
    if study.depths is not None:
        found.append(study.depths)
    if study.gains is not None:
        found.append(averaging_figure(study.gains))
    if study.pairs is not None:
        found.append(study.pairs)
    if study.angles is not None:
        found.append(subspace_angles({"read by LEACE, averaged away": study.angles}, subject=subject))
    return [*found, erasure_numbers(study)]


def _shown(audit: ErasureAudit) -> list[str]:
    """LEACE, and what has no other figure; INLP has a curve over its ranks."""
    return [name for name in audit.fitted if not name.startswith("INLP")]


def _tokens(tower: Tower, corpus: Corpus, languages: Iterable[str]) -> np.ndarray | None:
    """Content tokens of each caption, (language, caption); None for a tower that has no tokeniser."""
    if not tower.n_blocks:
        return None
    return np.stack(
        [tower.tokenize(corpus.texts(language)[0], language).content.sum(dim=-1).numpy() for language in languages]
    )


def _angles(audit: ErasureAudit, embeddings: dict[str, np.ndarray]) -> PrincipalAngles | None:
    leace = audit.fitted.get("LEACE")
    if not isinstance(leace, LinearEraser):
        return None
    return principal_angles(leace.subspace_, averaging_subspace(embeddings, leace.rank_))
