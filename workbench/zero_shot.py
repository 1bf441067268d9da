"""Zero-shot answers: images sorted into named classes, and questions with several answers.

*Classes* (Babel-ImageNet, S3-20). A class is embedded through a prompt ensemble: every template is filled,
embedded and normalised, the mean is normalised again. An image goes to the class with the highest cosine.
Only the classes that a language names compete, and only their images count, so chance, one in as many as
there are classes, differs by language and stands beside every score.

Two classes with one name have one vector, and no tower can tell them apart. The published argmax gives such a
tie to the class listed first, so that the other always fails (``ties="first"``); under ``"expected"`` each is
right half of the time. :meth:`Classified.ceiling` is what a perfect tower would score.

*Questions* (CVQA, S3-21). Each answer is put into a template with its question, and the text nearest to the
image is chosen among those of its own question.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from workbench.errors import InputError
from workbench.metrics import Targets
from workbench.pools import Embeddings, search
from workbench.retrieval import Ranks, alike, check_ties, unit

ChoiceTies = Literal["optimistic", "expected", "pessimistic", "first"]

CLASS_METRICS = ("top-1", "top-5", "mean per class")
CHOICE_METRICS = ("accuracy",)

_BLOCK = 8192  # pairs that are compared at a time


def ensemble(prompts: Float[Tensor, "class template d"]) -> Float[Tensor, "class d"]:
    """Make one unit vector a class of those of its prompts: normalise, average, normalise.

    Parameters
    ----------
    prompts : Tensor of shape (class, template, d)
        Of any length.

    Raises
    ------
    InputError
        If a vector is zero, NaN or infinite, or those of a class cancel out.
    """
    return unit(unit(prompts, "prompt embeddings").mean(1), "class vectors (means over the templates)")


@dataclass(frozen=True)
class Classified:
    """Images that were sorted into classes.

    Attributes
    ----------
    ranks : Ranks
        Of the right class of each image.
    nearest : int array of shape (image, 5)
        The classes nearest to each image, nearest first; of the tied, the one listed first.
    target : int array of shape (image,)
        The right class of each image.
    same : int array of shape (class,)
        How many classes have this class's vector to the bit, itself included.
    before : int array of shape (class,)
        How many of them are listed before it.
    """

    ranks: Ranks
    nearest: Int[np.ndarray, "image place"]
    target: Int[np.ndarray, " image"]
    same: Int[np.ndarray, " class"]
    before: Int[np.ndarray, " class"]

    def hits(self, k: int, ties: ChoiceTies = "expected") -> Float[np.ndarray, " image"]:
        """Chance that the right class is among the first ``k`` (at most 5)."""
        if not 1 <= k <= 5:
            raise InputError(f"k={k} came; top-1 to top-5 are kept.")
        if ties == "first":
            return (self.nearest[:, :k] == self.target[:, None]).any(axis=1).astype(np.float64)
        return self.ranks.hits(k, check_ties(ties))

    def score(self, metric: str, ties: ChoiceTies = "expected") -> Float[np.ndarray, " image"]:
        """``"top-1"`` to ``"top-5"`` for each image, or what it adds to ``"mean per class"``, in percent.

        The mean over images is the score. For the mean per class an image counts the more, the fewer images
        its class has.
        """
        if check_class_metric(metric) == "mean per class":
            counts = np.bincount(self.target, minlength=len(self.same))
            weight = len(self.target) / ((counts > 0).sum() * counts[self.target])
            return 100 * weight * self.hits(1, ties)
        return 100 * self.hits(int(metric[-1]), ties)

    def chance(self, k: int = 1) -> float:
        """Percent right of a guess."""
        return 100.0 * min(k, len(self.same)) / len(self.same)

    def ceiling(self, k: int = 1, ties: ChoiceTies = "expected") -> float:
        """Percent right of a tower that confuses nothing but classes with one vector."""
        if ties == "first":
            return 100.0 * float((self.before[self.target] < k).mean())
        same = self.same[self.target]
        return 100.0 * float(Ranks(np.zeros_like(same), same - 1).hits(k, check_ties(ties)).mean())


def check_class_metric(metric: str) -> str:
    """Return the metric of a classification, or say which ones there are."""
    if metric != "mean per class" and metric not in tuple(f"top-{k}" for k in range(1, 6)):
        raise InputError(f"There is no metric {metric!r} for classes. Use 'top-1' to 'top-5', or 'mean per class'.")
    return metric


def check_choice_metric(metric: str) -> str:
    """Return the metric of questions with options, or say which one there is."""
    if metric not in CHOICE_METRICS:
        raise InputError(f"There is no metric {metric!r} for questions with options. Use 'accuracy'.")
    return metric


def check_choice_ties(ties: Iterable[str]) -> list[ChoiceTies]:
    """Return rules for ties where options are listed in an order, or say which ones there are."""
    return [rule if rule == "first" else check_ties(rule) for rule in ties]


def classify(images: Embeddings, vectors: Float[Tensor, "class d"], target: Int[np.ndarray, " image"]) -> Classified:
    """Sort images into classes by cosine.

    Parameters
    ----------
    images : array, memory map, Tensor, or iterable of arrays of shape (n, d)
    vectors : Tensor of shape (class, d)
        Of :func:`ensemble`; those of classes with one name must be equal to the bit.
    target : int array of shape (image,)
        The right class of each image, as a row of ``vectors``.

    Raises
    ------
    InputError
        If shapes do not fit, or a vector has no direction.
    """
    right = np.asarray(target)
    if right.ndim != 1 or right.dtype.kind not in "iu" or not len(right):
        raise InputError(f"Targets of shape {right.shape} and type {right.dtype} came; give one whole number an image.")
    if right.min() < 0 or right.max() >= len(vectors):
        raise InputError(f"Targets {right.min()} to {right.max()} came for {len(vectors)} classes, which count from 0.")
    found = search(images, vectors, 5, targets=Targets.of_captions(right))
    if found.first is None or len(found.candidates) != len(right):
        raise InputError(f"{len(right)} targets came for {len(found.candidates)} images.")
    group = alike(vectors.numpy())
    before = np.array([(group[:k] == group[k]).sum() for k in range(len(group))])
    return Classified(found.first, found.candidates, right, np.bincount(group)[group], before)


@dataclass(frozen=True)
class Chosen:
    """Questions that were answered.

    Attributes
    ----------
    ranks : Ranks
        Of the right option of each question.
    chosen : int array of shape (question,)
        The option with the highest similarity, the first of the tied.
    answers : int array of shape (question,)
        The right one.
    options : int array of shape (question,)
        How many there were.
    """

    ranks: Ranks
    chosen: Int[np.ndarray, " question"]
    answers: Int[np.ndarray, " question"]
    options: Int[np.ndarray, " question"]

    def score(self, metric: str = "accuracy", ties: ChoiceTies = "expected") -> Float[np.ndarray, " question"]:
        """Percent for each question: 100 where the right option won, a part of it where it ties."""
        check_choice_metric(metric)
        if ties == "first":
            return 100.0 * (self.chosen == self.answers)
        return self.ranks.score("R@1", check_ties(ties))

    @property
    def chance(self) -> Float[np.ndarray, " question"]:
        """Percent right of a guess, for each question."""
        return 100.0 / self.options


def choose(
    images: Float[Tensor, "question d"],
    texts: Float[Tensor, "option d"],
    options: Int[np.ndarray, " question"],
    answers: Int[np.ndarray, " question"],
) -> Chosen:
    """Choose the option nearest to each question's image.

    Parameters
    ----------
    images : Tensor of shape (question, d)
    texts : Tensor of shape (option, d)
        Options of all questions, one question after the other.
    options : int array of shape (question,)
        How many options each question has; 2 or more.
    answers : int array of shape (question,)
        Which of its own options is right, from 0.

    Raises
    ------
    InputError
        If the counts do not fit, an answer names no option (-1 hides it), or a vector has no direction.
    """
    counts, right = np.asarray(options), np.asarray(answers)
    if counts.shape != (len(images),) or right.shape != counts.shape or counts.sum() != len(texts):
        raise InputError(
            f"{len(images)} images, {counts.sum()} options of {len(counts)} questions, {len(texts)} texts and "
            f"{len(right)} answers came; give an image, an answer and as many texts as it has options a question."
        )
    outside = np.flatnonzero((right < 0) | (right >= counts) | (counts < 2))
    if len(outside):
        raise InputError(
            f"Question {outside[0]} has {counts[outside[0]]} options and the answer {right[outside[0]]}. Answers count "
            "from 0; -1 stands for a hidden one, which can't be scored."
        )
    pictures, words = unit(images, "images"), unit(texts, "option texts")
    owner = np.repeat(np.arange(len(counts)), counts)
    similarity = np.empty(len(owner), dtype=np.float32)
    for start in range(0, len(owner), _BLOCK):
        part = slice(start, start + _BLOCK)
        # Row by row and in float64, so that equal options tie wherever they stand.
        similarity[part] = (pictures[owner[part]].double() * words[part].double()).sum(-1).float().numpy()
    starts = np.cumsum(counts) - counts
    own = similarity[starts + right][owner]
    better, as_good = (np.add.reduceat(hit.astype(np.int64), starts) for hit in (similarity > own, similarity >= own))
    best = similarity == np.maximum.reduceat(similarity, starts)[owner]
    place = np.where(best, np.arange(len(owner)) - starts[owner], len(owner))
    return Chosen(Ranks(better, as_good - better - 1), np.minimum.reduceat(place, starts), right, counts)
