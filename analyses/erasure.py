"""Whether the language that a classifier reads off embeddings makes languages fail (S3-35 to S3-40).

An eraser takes the language out of the embeddings; then two things are looked at, both on images that the
eraser has not seen: half of them, or with ``folds`` each fold in turn, so that every image is scored once among all.
Does a *fresh* classifier, trained on erased embeddings, still name the language? And what happens to retrieval? A
language direction that goes without retrieval noticing was a symptom.

Two comparisons keep that honest. The same number of *random* directions, drawn five times, shows what losing
that many dimensions costs; and a classifier that is not linear shows what a linear eraser leaves.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from analyses.image_scores import DIRECTIONS, image_scores, tier_groups, unit_languages
from interventions.erasers import INLP, LEACE, Eraser, LinearEraser, MeanDifference, random_ablations
from interventions.erasers.base import ErasureWarning
from interventions.erasers.inlp import RowsExhausted
from probes.classifiers import LINEAR, check_classifiers, fit_predict
from workbench.arrays import ArrayLike
from workbench.errors import InputError
from workbench.retrieval import DIFFERENCE, PERCENT, Bootstrap
from workbench.splits import image_folds, split_by_image

if TYPE_CHECKING:
    import pandas as pd

    from workbench.corpora.base import Corpus
    from workbench.towers.base import Tower

BEFORE = "none"
PLACEBO = "RandomAblation"


@dataclass(frozen=True)
class ErasureAudit:
    """What erasing the language did to held-out images.

    Attributes
    ----------
    retrieval : pandas.DataFrame
        One row a number. Columns ``tower, corpus, tier_map, language, tier, eraser, rank, draw, direction,
        metric, value, low, high, sd, n, seed``. ``metric`` is such as ``R@1`` in percent, or ``change R@1`` in
        points; ``eraser`` is ``"none"`` before erasure. The placebo of rank r is ``"RandomAblation r"``: a row
        for each ``draw``, and one without, the mean over draws with their standard deviation in ``sd``.
    attacks : pandas.DataFrame
        One row an attacker and eraser. Columns ``tower, corpus, eraser, rank, guards, draw, attacker, linear,
        accuracy, low, high, sd, chance, majority, classes, n, images, seed``. ``guards`` is what kind of
        attacker an eraser is meant to stop; ``sd`` is that of the accuracy over resamples of images.
    fitted : dict of str to Eraser
        The erasers, fitted on the training images; with folds, on those of the first one.
    placebo_rank : dict of str to int
        Which placebo each eraser is compared with.
    languages : tuple of str
    train_images, test_images : int
        With folds, the images that the eraser of the smallest fit saw, and all images.
    notes : tuple of str
        What was left out, and why; what makes an eraser less than it looks.
    """

    retrieval: "pd.DataFrame" = field(repr=False)
    attacks: "pd.DataFrame" = field(repr=False)
    fitted: dict[str, Eraser] = field(repr=False)
    placebo_rank: dict[str, int]
    languages: tuple[str, ...]
    train_images: int
    test_images: int
    notes: tuple[str, ...] = ()


def default_erasers(languages: int, d: int) -> list[Eraser]:
    """Return LEACE, mean-difference removal, and INLP from its first step to the ranks of S3-37, as far as d allows."""
    step = languages - 1
    ranks = sorted(rank for rank in {step, 2 * step, 4 * step, 64, 128} if step <= rank < d)
    return [LEACE(), MeanDifference(), *(INLP(rank) for rank in ranks)]


def audit_tower(
    tower: "Tower",
    corpus: "Corpus",
    erasers: Sequence[Eraser] | None = None,
    *,
    languages: Iterable[str] | None = None,
    pivot: str | None = None,
    progress: bool = True,
    **options: Any,
) -> ErasureAudit:
    """Embed a corpus, first caption of each language, and audit erasers on it.

    Parameters
    ----------
    tower : Tower
    corpus : Corpus
    erasers, **options
        Of :func:`audit_erasure`.
    languages : iterable of str, optional
        All of the corpus by default.
    pivot : str, optional
        For a text-only tower: the language whose captions are the gallery.
    progress : bool
    """
    from workbench.scoring import embed

    wanted = corpus.languages if languages is None else corpus.check_languages(languages)
    found = embed(tower, corpus, wanted, "first", pivot, progress)
    return audit_erasure(
        {language: rows.numpy() for language, rows in found.captions.items()},
        found.gallery.numpy(),
        erasers,
        images=np.array(corpus.image_ids),
        tower=tower.name,
        corpus=corpus.name,
        **options,
    )


def audit_erasure(
    embeddings: Mapping[str, ArrayLike],
    gallery: ArrayLike,
    erasers: Sequence[Eraser] | None = None,
    *,
    extra: Sequence[Eraser] = (),
    images: "ArrayLike | None" = None,
    tier_map: str | Mapping[str, str] = "s3",
    metric: str = "R@1",
    attackers: Sequence[str] = ("logistic", "mlp"),
    draws: int = 5,
    test_share: float = 0.5,
    folds: int | None = None,
    seed: int = 0,
    resamples: int = 1000,
    tower: str = "",
    corpus: str = "",
) -> ErasureAudit:
    """Fit erasers on half of the images, and attack and rank the other half.

    Parameters
    ----------
    embeddings : mapping of str to array of shape (image, d)
        Output embeddings by language, one caption an image; normalised here (AMB-14).
    gallery : array of shape (image, d)
        Embeddings of the images; never erased. Held-out captions are ranked against held-out images.
    erasers : sequence of Eraser, optional
        Not fitted; :func:`default_erasers` by default. Ranks of INLP that the rows
        don't hold are left out, with a warning and a note.
    extra : sequence of Eraser
        Beside those.
    images : array of shape (image,), optional
        Ids, for the split; the row numbers by default.
    tier_map : str or mapping
    metric : str
        ``"R@k"`` or ``"MRR"``.
    attackers : sequence of str
        Of :data:`probes.classifiers.CLASSIFIERS`, one of them linear. Each is trained anew on erased training
        rows. The placebo meets the linear ones alone.
    draws : int
        Random ablations a rank, at least 5 (S3-36).
    test_share, seed, resamples
        Of the split and the bootstrap over held-out images.
    folds : int, optional
        Cross-fitting, in place of one split: deal the images into so many folds, fit on the others of each, and
        score every image once, among all images. So the numbers are of all images, as published ones are.
    tower, corpus : str
        Names for the tables.

    Raises
    ------
    InputError
        If arrays don't match, an eraser comes twice, or there are too few languages, images or draws.
    """
    job = _Job(
        embeddings,
        gallery,
        images,
        tier_map,
        metric,
        attackers,
        draws,
        test_share,
        folds,
        seed,
        resamples,
        tower,
        corpus,
    )
    chosen = [*(default_erasers(len(job.rows), job.width) if erasers is None else erasers), *extra]
    try:
        return job.run(chosen)
    except RowsExhausted as stop:
        # The rest is worth having, and what is left out is said.
        fitting = [one for one in chosen if not isinstance(one, INLP) or (one.rank or 0) <= stop.reached]
        if not fitting:
            raise
        dropped = [one.label for one in chosen if one not in fitting]
        trained = job.train_images
        note = f"{', '.join(dropped)} left out: on {trained} images nothing can be read after rank {stop.reached}."
        warnings.warn(note, ErasureWarning, stacklevel=2)
        audit = job.run(fitting)
        return replace(audit, notes=(note, *audit.notes))


class _Job:
    def __init__(
        self,
        embeddings: Mapping[str, ArrayLike],
        gallery: ArrayLike,
        images: "ArrayLike | None",
        tier_map: str | Mapping[str, str],
        metric: str,
        attackers: Sequence[str],
        draws: int,
        test_share: float,
        folds: int | None,
        seed: int,
        resamples: int,
        tower: str,
        corpus: str,
    ) -> None:
        if len(embeddings) < 2:
            raise InputError(f"Erasing the language needs two languages or more; {len(embeddings)} came.")
        if draws < 5:
            raise InputError(f"draws={draws} came; a band of random ablations needs 5 or more (S3-36).")
        check_classifiers(attackers)
        if not set(attackers) & set(LINEAR):
            raise InputError(f"Name a linear attacker too: one of {', '.join(LINEAR)}.")
        self.rows, every = unit_languages(embeddings, gallery)
        self.width = every.shape[1]
        ids = np.arange(len(every)) if images is None else np.asarray(images)
        if len(ids) != len(every):
            raise InputError(f"{len(ids)} image ids came for {len(every)} images. Give one an image, in order.")
        self.parts = _parts(ids, test_share, folds, seed)
        self.train_images = min(int(train.sum()) for train, _ in self.parts)
        places = np.concatenate([np.flatnonzero(test) for _, test in self.parts])
        # Rows of one part after the other are brought back into the order of the images.
        self.order = np.argsort(places)
        self.n = len(places)
        self.gallery = every[np.sort(places)]
        self.languages = tuple(self.rows)
        self.map_name, self.groups = tier_groups(self.rows, tier_map)
        self.metric, self.attackers, self.draws, self.seed = metric, list(attackers), draws, seed
        self.bootstrap = Bootstrap(self.n, resamples, seed)
        self.names = {"tower": tower, "corpus": corpus}
        self.frozen = self._scores(None)
        self.retrieval: list[dict[str, Any]] = []
        self.attacks: list[dict[str, Any]] = []

    def run(self, erasers: list[Eraser]) -> ErasureAudit:
        import pandas as pd

        labels = [eraser.label for eraser in erasers]
        for label in labels:
            if labels.count(label) > 1:
                raise InputError(f"The eraser {label!r} came twice. Give each once.")
        if not erasers:
            raise InputError("No eraser came. Give LEACE(), for one.")
        training = [np.concatenate([rows[train] for rows in self.rows.values()]) for train, _ in self.parts]
        names = [np.array(self.languages)[self._codes(train)] for train, _ in self.parts]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ErasureWarning)
            each = [_fit_all(erasers, *part) for part in zip(training, names, strict=True)]
        told = {str(one.message): one for one in caught}
        for one in told.values():
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        self._put(BEFORE, None, None, self.frozen)
        self._attack(BEFORE, None, "nothing", None, None, self.attackers)
        placebo = {}
        for label, one in each[0].items():
            own = [part[label] for part in each]
            rank = one.rank_ if isinstance(one, LinearEraser) else None
            placebo[label] = len(self.languages) - 1 if rank is None else rank
            self._put(label, rank, None, self._scores(own))
            self._attack(label, rank, one.guards, None, own, self.attackers)
        linear = [name for name in self.attackers if name in LINEAR]
        for rank in sorted(set(placebo.values())):
            arms = []
            for draw, ablation in enumerate(random_ablations(rank, self.draws)):
                own = [ablation.unfitted().fit(*part) for part in zip(training, names, strict=True)]
                arms.append(self._scores(own))
                self._put(f"{PLACEBO} {rank}", rank, draw, arms[-1])
                self._attack(f"{PLACEBO} {rank}", rank, "nothing", draw, own, linear)
            self._put_mean(f"{PLACEBO} {rank}", rank, arms)
        attacks = pd.DataFrame(self.attacks).astype({"rank": "Int64", "draw": "Int64"})
        retrieval = pd.DataFrame(self.retrieval).astype({"rank": "Int64", "draw": "Int64"})
        counts = self.train_images, self.n
        notes = tuple(text for text, one in told.items() if issubclass(one.category, ErasureWarning))
        return ErasureAudit(retrieval, attacks, each[0], placebo, self.languages, *counts, notes)

    def _codes(self, side: np.ndarray) -> np.ndarray:
        return np.repeat(np.arange(len(self.languages)), int(side.sum()))

    # -- retrieval --------------------------------------------------------------------------------

    def _held_out(self, erasers: Sequence[Eraser] | None, rows: np.ndarray) -> list[np.ndarray]:
        """Return the rows of the held-out images of each part, erased by what has not seen them."""
        parts = [rows[test] for _, test in self.parts]
        return parts if erasers is None else [one.transform(p) for one, p in zip(erasers, parts, strict=True)]

    def _scores(self, erasers: Sequence[Eraser] | None) -> dict[tuple[str, str], np.ndarray]:
        found = {}
        for language, rows in self.rows.items():
            texts = np.concatenate(self._held_out(erasers, rows))[self.order]
            for direction, scores in image_scores(texts, self.gallery, f"{language} embeddings", self.metric).items():
                found[language, direction] = scores
        return found

    def _put(self, eraser: str, rank: int | None, draw: int | None, scores: dict[tuple[str, str], np.ndarray]) -> None:
        for language, tier, members in self.groups:
            for direction in DIRECTIONS:
                after, before = (_mean(scores, members, direction), _mean(self.frozen, members, direction))
                self._row(language, tier, eraser, rank, draw, direction, self.metric, after, np.nan)
                if eraser != BEFORE:
                    change = after - before
                    self._row(language, tier, eraser, rank, draw, direction, f"change {self.metric}", change, np.nan)

    def _put_mean(self, eraser: str, rank: int, arms: list[dict[tuple[str, str], np.ndarray]]) -> None:
        for language, tier, members in self.groups:
            for direction in DIRECTIONS:
                before = _mean(self.frozen, members, direction)
                each = np.stack([_mean(arm, members, direction) for arm in arms])
                sd = float(each.mean(axis=1).std(ddof=1))
                head = (language, tier, eraser, rank, None, direction)
                self._row(*head, self.metric, each.mean(axis=0), sd)
                self._row(*head, f"change {self.metric}", each.mean(axis=0) - before, sd)

    def _row(
        self, language: str, tier: str, eraser: str, rank: int | None, draw: int | None, direction: str, metric: str,
        by_image: np.ndarray, sd: float,
    ) -> None:  # fmt: skip
        ends = DIFFERENCE if metric.startswith("change") else PERCENT
        low, high = self.bootstrap.mean_interval(by_image, ends)
        self.retrieval.append(
            {
                **self.names, "tier_map": self.map_name, "language": language, "tier": tier, "eraser": eraser,
                "rank": rank, "draw": draw, "direction": direction, "metric": metric, "value": float(by_image.mean()),
                "low": float(low), "high": float(high), "sd": sd, "n": len(by_image), "seed": self.seed,
            }
        )  # fmt: skip

    # -- attack -----------------------------------------------------------------------------------

    def _attack(
        self, label: str, rank: int | None, guards: str, draw: int | None, erasers: Sequence[Eraser] | None,
        attackers: list[str],
    ) -> None:  # fmt: skip
        sides = []
        for place, (train, test) in enumerate(self.parts):
            stacks = [np.concatenate([rows[side] for rows in self.rows.values()]) for side in (train, test)]
            sides.append(stacks if erasers is None else [erasers[place].transform(stack) for stack in stacks])
        for attacker in attackers:
            parts = []
            for (train, test), (fit_on, read) in zip(self.parts, sides, strict=True):
                named = fit_predict(attacker, fit_on, self._codes(train), [read], seed=self.seed)[0]
                parts.append((named == self._codes(test)).reshape(len(self.languages), -1))
            right = 100.0 * np.concatenate(parts, axis=1)[:, self.order]
            resampled = self.bootstrap.means(right.mean(axis=0))
            low, high = self.bootstrap.mean_interval(right.mean(axis=0))
            chance = 100.0 / len(self.languages)
            self.attacks.append(
                {
                    **self.names, "eraser": label, "rank": rank, "guards": guards, "draw": draw, "attacker": attacker,
                    "linear": attacker in LINEAR, "accuracy": float(right.mean()), "low": float(low),
                    "high": float(high), "sd": float(resampled.std(ddof=1)), "chance": chance,
                    # One caption an image in every language, so every class is as frequent as any other.
                    "majority": chance, "classes": len(self.languages), "n": right.size, "images": self.n,
                    "seed": self.seed,
                }
            )  # fmt: skip


def _parts(ids: np.ndarray, test_share: float, folds: int | None, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return which images are fitted on and which held out, once or fold by fold."""
    if folds is None:
        return [split_by_image(ids, test_share=test_share, seed=seed)]
    fold = image_folds(ids, folds, seed=seed)
    return [(fold != place, fold == place) for place in range(folds)]


def _fit_all(erasers: list[Eraser], rows: np.ndarray, names: np.ndarray) -> dict[str, Eraser]:
    """Fit each eraser; of INLP at several ranks only the largest, which holds the others."""
    largest: dict[str, INLP] = {}
    for eraser in erasers:
        if isinstance(eraser, INLP) and eraser.rank is not None:
            key = _but_rank(eraser)
            if key not in largest or (largest[key].rank or 0) < eraser.rank:
                largest[key] = eraser
    whole = {key: eraser.unfitted().fit(rows, names) for key, eraser in largest.items()}
    fitted: dict[str, Eraser] = {}
    for eraser in erasers:
        if isinstance(eraser, INLP) and eraser.rank is not None:
            fitted[eraser.label] = whole[_but_rank(eraser)].truncated(eraser.rank)
        else:
            fitted[eraser.label] = eraser.unfitted().fit(rows, names)
    return fitted


def _but_rank(eraser: INLP) -> str:
    return repr({name: value for name, value in eraser.get_params().items() if name != "rank"})


def _mean(scores: dict[tuple[str, str], np.ndarray], members: list[str], direction: str) -> np.ndarray:
    return np.mean([scores[member, direction] for member in members], axis=0)
