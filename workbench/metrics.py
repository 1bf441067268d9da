"""Metrics over ranked lists in which several candidates may be right.

An image of Crossmodal-3600 has about 72 captions in a pool of all languages. Which of them count, and how,
is where published numbers part ways:

- ``R@k`` is the hit rate: whether *any* right candidate is among the first k. Papers on image and text
  retrieval call this recall. ``Acc@k`` is the same number under the name it has where the pool mixes
  languages and a caption in any of them will do (S0-14).
- ``recall@k`` is recall as text retrieval defines it: the *share* of the right candidates among the first k.
- ``MRR`` is the reciprocal rank of the first right candidate; ``MRR@k`` counts 0 beyond rank k (AMB-42).
- ``NDCG@k`` has binary gain and the discount 1/log2(rank + 1), divided by that of the best list there could
  be. ``NDCG-list@k`` divides by the best order of what the first 100 happen to hold, as published (S0-15);
  it is higher, and 1 for a list whose only right candidate is the first.

Ties: a score is the mean over the orders of the tied (``"expected"``), which is exact here and never
sampled, or that with right candidates first (``"optimistic"``) or last (``"pessimistic"``) among the tied. A
scorer that says the same of everything gets a recall of k/N and no more. Scores are float64 percent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from workbench.arrays import ArrayLike, as_matrix
from workbench.errors import InputError
from workbench.retrieval import Ranks, Ties, check_ties, split_cutoff

Ideal = Literal["full", "list"]

LIST_DEPTH = 100
"""How many candidates a query keeps before an ideal order is made of them (S0-16)."""

_LEGAL = "'R@k', 'Acc@k', 'recall@k', 'MRR', 'MRR@k', 'NDCG@k' or 'NDCG-list@k', with a whole number k, such as 'R@5'"


@dataclass(frozen=True)
class Targets:
    """Which candidates are right for which query, as pairs sorted by query.

    Attributes
    ----------
    query, candidate : int arrays of shape (pair,)
    n_queries : int
        Each of them has one pair or more.
    """

    query: Int[np.ndarray, " pair"]
    candidate: Int[np.ndarray, " pair"]
    n_queries: int

    def __post_init__(self) -> None:
        if self.query.shape != self.candidate.shape or self.query.ndim != 1:
            raise InputError(
                f"Targets of shapes {self.query.shape} and {self.candidate.shape} came; give one candidate a query, "
                "in two arrays of the same length."
            )
        if len(self.query) and (self.query.min() < 0 or self.query.max() >= self.n_queries):
            raise InputError(
                f"Targets name queries {self.query.min()} to {self.query.max()}; there are {self.n_queries}, from 0."
            )
        lacking = np.flatnonzero(np.bincount(self.query, minlength=self.n_queries) == 0)
        if len(lacking):
            raise InputError(
                f"{len(lacking)} of {self.n_queries} queries have no target (the first is query {lacking[0]}), and "
                "nothing can be found for them. Leave them out."
            )
        order = np.lexsort((self.candidate, self.query))
        pairs = np.stack([self.query[order], self.candidate[order]])
        if (np.diff(pairs) == 0).all(axis=0).any():
            raise InputError("A candidate is named twice as a target of one query. Name it once.")
        object.__setattr__(self, "query", pairs[0])
        object.__setattr__(self, "candidate", pairs[1])

    @classmethod
    def of_images(cls, owner: Int[np.ndarray, " caption"], n_images: int) -> "Targets":
        """Image to text: the targets of an image are its captions."""
        return cls(np.asarray(owner), np.arange(len(owner)), n_images)

    @classmethod
    def of_captions(cls, owner: Int[np.ndarray, " caption"]) -> "Targets":
        """Text to image: the target of a caption is its image."""
        return cls(np.arange(len(owner)), np.asarray(owner), len(owner))

    @cached_property
    def starts(self) -> Int[np.ndarray, " query_and_one"]:
        """Where each query's pairs begin, and where the last one's end."""
        return np.searchsorted(self.query, np.arange(self.n_queries + 1))


@dataclass(frozen=True)
class Placements:
    """Where all targets of all queries ended up.

    Attributes
    ----------
    query : int array of shape (target,)
        Whose target each is, sorted.
    better : int array, same shape
        Candidates with a strictly higher similarity.
    tied : int array, same shape
        Other candidates with exactly the same similarity, other targets among them.
    relevant : int array of shape (query,)
        Targets of each query, whether placed here or not.
    depth : int, optional
        Length of the lists, where only the heads of the rankings are known.
    """

    query: Int[np.ndarray, " target"]
    better: Int[np.ndarray, " target"]
    tied: Int[np.ndarray, " target"]
    relevant: Int[np.ndarray, " query"]
    depth: int | None = None

    @classmethod
    def of_scores(cls, scores: ArrayLike, targets: Targets) -> "Placements":
        """Place the targets in a matrix of similarities of shape (query, candidate).

        :func:`workbench.pools.search` does the same for matrices too large to hold.
        """
        # Not widened to float64, which would double a large matrix and change no comparison.
        matrix = np.asarray(scores)
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
            raise InputError(
                f"Similarities of shape {matrix.shape} and type {matrix.dtype} came; give a matrix of floats."
            )
        if len(matrix) != targets.n_queries or targets.candidate.max(initial=0) >= matrix.shape[1]:
            raise InputError(
                f"Similarities of shape {matrix.shape} came for {targets.n_queries} queries with targets up to "
                f"candidate {targets.candidate.max(initial=0)}. Give one row a query and one column a candidate."
            )
        for row, values in enumerate(matrix):
            if not np.isfinite(values).all():
                raise InputError(f"The similarities of query {row} hold NaN or infinity.")
        better, tied = np.empty((2, len(targets.query)), dtype=np.int64)
        for row, (start, stop) in enumerate(zip(targets.starts, targets.starts[1:], strict=False)):
            better[start:stop], tied[start:stop] = place(
                np.ascontiguousarray(matrix[row]), targets.candidate[start:stop]
            )
        return cls(targets.query, better, tied, np.diff(targets.starts))

    @classmethod
    def of_lists(cls, right: Bool[np.ndarray, "query place"], relevant: Int[np.ndarray, " query"]) -> "Placements":
        """Read ranked lists, best first: whether each place holds a right candidate.

        Parameters
        ----------
        right : bool array of shape (query, place)
            Their order is taken as it comes; ties were settled by whoever made it.
        relevant : int array of shape (query,)
            How many right candidates the whole pool has for each query.
        """
        lists, relevant = np.asarray(right), np.asarray(relevant)
        if lists.ndim != 2 or lists.dtype.kind != "b" or relevant.shape != lists.shape[:1]:
            raise InputError(
                f"Lists of shape {lists.shape} and type {lists.dtype} came with {relevant.shape} counts; give booleans "
                "of shape (query, place) and one count a query."
            )
        if (relevant < np.maximum(lists.sum(1), 1)).any():
            row = int(np.flatnonzero(relevant < np.maximum(lists.sum(1), 1))[0])
            raise InputError(
                f"Query {row} has {lists[row].sum()} right candidates in its list and {relevant[row]} in the whole "
                "pool. The second count includes the first, and is at least 1."
            )
        query, place = np.nonzero(lists)
        return cls(query, place, np.zeros_like(place), relevant, lists.shape[1])

    def __len__(self) -> int:
        return len(self.relevant)

    def subset(self, chosen: Bool[np.ndarray, " target"]) -> "Placements":
        """Keep some targets; the others go on as candidates that are wrong.

        With the captions of one language chosen, ``R@k`` in a pool of all languages is the share of images
        that find a caption in this language.
        """
        if self.depth is not None:
            raise InputError(
                "A subset of targets needs whole rankings; these are lists, with targets beyond their end."
            )
        relevant = np.bincount(self.query[chosen], minlength=len(self))
        if (relevant == 0).any():
            raise InputError(f"Query {int(np.flatnonzero(relevant == 0)[0])} would be left without a target.")
        return Placements(self.query[chosen], self.better[chosen], self.tied[chosen], relevant)

    @cached_property
    def first(self) -> Ranks:
        """Ranks of the first target of each query."""
        query, better, size, right = self._groups
        _, head = np.unique(query, return_index=True)
        places = np.full((3, len(self)), [[0 if self.depth is None else self.depth], [0], [1]])
        places[:, query[head]] = better[head], (size - right)[head], right[head]
        return Ranks(places[0], places[1], places[2])

    @cached_property
    def _groups(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Targets that tie, together: query, better, how many candidates tie, how many of them are targets."""
        order = np.lexsort((self.better, self.query))
        query, better, tied = self.query[order], self.better[order], self.tied[order]
        new = np.ones(len(query), dtype=bool)
        new[1:] = (np.diff(query) != 0) | (np.diff(better) != 0)
        heads = np.flatnonzero(new)
        return query[heads], better[heads], tied[heads] + 1, np.diff(np.append(heads, len(query)))

    def _sum(self, values: Float[np.ndarray, " group"]) -> Float[np.ndarray, " query"]:
        return np.bincount(self._groups[0], values, minlength=len(self))

    def _within(self, cumulative: Callable[[np.ndarray], np.ndarray], ties: Ties) -> Float[np.ndarray, " group"]:
        """Sum over the targets of each group of what their places are worth; ``cumulative(n)`` is that of n places."""
        _, better, size, right = self._groups
        if ties == "optimistic":
            return cumulative(better + right) - cumulative(better)
        if ties == "pessimistic":
            return cumulative(better + size) - cumulative(better + size - right)
        return (cumulative(better + size) - cumulative(better)) * right / size

    def recall(self, k: int, ties: Ties = "expected") -> Float[np.ndarray, " query"]:
        """Share of a query's targets among the first ``k``, 0 to 1."""
        self._check_depth(k)
        return self._sum(self._within(lambda places: np.minimum(places, k), check_ties(ties))) / self.relevant

    def ndcg(
        self, k: int, ties: Ties = "expected", ideal: Ideal = "full", list_depth: int = LIST_DEPTH
    ) -> Float[np.ndarray, " query"]:
        """Normalised discounted cumulative gain at ``k`` with binary gain, 0 to 1.

        Parameters
        ----------
        k : int
        ties : {"expected", "optimistic", "pessimistic"}
        ideal : {"full", "list"}
            Divide by the gain of all targets in the first places, or of those that the list holds (S0-15);
            a list that holds none scores 0.
        list_depth : int
            Length of that list. A longer one lowers the score: it holds more that could have come earlier.
        """
        self._check_depth(k)
        worth = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, k + 2)))])

        def gain(places: np.ndarray) -> np.ndarray:
            return worth[np.minimum(places, k)]

        found = self._within(gain, check_ties(ties))
        if ideal == "full":
            return self._sum(found) / gain(self.relevant)
        if ideal != "list":
            raise InputError(f"There is no ideal {ideal!r}. Use 'full' or 'list'.")
        depth = list_depth if self.depth is None else min(list_depth, self.depth)
        if depth < k:
            raise InputError(f"NDCG at {k} needs lists of {k} or more; their depth is {depth}.")
        held = self._sum(self._within(lambda places: np.minimum(places, depth), ties))
        best = gain(np.rint(held).astype(np.int64))
        score = np.divide(self._sum(found), best, out=np.zeros(len(self)), where=best > 0)
        if ties == "expected":
            self._average_over_the_cut(score, found, gain, depth)
        return score

    def _average_over_the_cut(
        self, score: np.ndarray, found: np.ndarray, gain: Callable[[np.ndarray], np.ndarray], depth: int
    ) -> None:
        """Where a tie straddles the end of the list, how many targets it holds is chance, and so is the ideal."""
        from scipy.stats import hypergeom

        queries, better, size, right = self._groups
        for group in np.flatnonzero((better < depth) & (better + size > depth) & (size > right)):
            query, inside = queries[group], depth - better[group]
            before = (queries == query) & (better < better[group])
            count = np.arange(min(inside, right[group]) + 1)
            held = right[before].sum() + count
            each = (gain(np.array(depth)) - gain(better[group])) / inside
            ratio = np.divide(found[before].sum() + count * each, gain(held), out=np.zeros(len(count)), where=held > 0)
            score[query] = hypergeom.pmf(count, size[group], right[group], inside) @ ratio

    def score(self, metric: str, ties: Ties = "expected") -> Float[np.ndarray, " query"]:
        """One metric for each query, in percent. The module says which there are.

        Raises
        ------
        InputError
            If there is no such metric, or it looks further than the lists reach.
        """
        name, k = parse_metric(metric)
        if name in ("R", "Acc", "MRR"):
            self._check_depth(k)
            return self.first.score(metric if name == "MRR" else f"R@{k}", ties)
        if k is None:
            raise InputError(f"There is no metric {metric!r}. Use {_LEGAL}.")
        if name == "recall":
            return 100 * self.recall(k, ties)
        return 100 * self.ndcg(k, ties, "list" if name == "NDCG-list" else "full")

    def _check_depth(self, k: int | None) -> None:
        if self.depth is not None and (k is None or k > self.depth):
            what = "The whole MRR" if k is None else f"A cutoff of {k}"
            raise InputError(f"{what} needs more than the first {self.depth} of a ranking. Use a cutoff up to that.")


def parse_metric(metric: str) -> tuple[str, int | None]:
    """Split a metric into its name and cutoff, such as ``("NDCG", 10)``.

    Raises
    ------
    InputError
        If there is no such metric.
    """
    name, k = split_cutoff(metric)
    if metric == "MRR" or (k and name in ("R", "Acc", "recall", "MRR", "NDCG", "NDCG-list")):
        return name, k
    raise InputError(f"There is no metric {metric!r}. Use {_LEGAL}.")


def place(
    scores: Float[np.ndarray, " candidate"], targets: Int[np.ndarray, " target"]
) -> tuple[Int[np.ndarray, " target"], Int[np.ndarray, " target"]]:
    """Count, for each target of one query, how many candidates are better and how many others tie."""
    own = scores[targets]
    if len(own) <= 4:
        better = np.array([np.count_nonzero(scores > value) for value in own])
        return better, np.array([np.count_nonzero(scores == value) for value in own]) - 1
    ascending = np.sort(scores)
    first, last = (np.searchsorted(ascending, own, side) for side in ("left", "right"))
    return len(scores) - last, last - first - 1


def forced_choice(scores: ArrayLike, target: "ArrayLike | int" = 0) -> Ranks:
    """Rank the right one of k options, as in a question with four answers or a triplet of images.

    Parameters
    ----------
    scores : array of shape (trial, option)
        Of which more is better: cosine, MaxSim or any other.
    target : int or int array of shape (trial,)
        Which option is right.

    Returns
    -------
    Ranks
        ``score("R@1")`` is the accuracy: 100/k for a scorer that says the same of every option.
    """
    matrix = as_matrix(scores, "The scores of the options", minimum_rows=1)
    right = np.broadcast_to(np.asarray(target), len(matrix)) if np.ndim(target) == 0 else np.asarray(target)
    if right.shape != matrix.shape[:1] or right.dtype.kind not in "iu":
        raise InputError(
            f"Right options of shape {right.shape} and type {right.dtype} came for {len(matrix)} trials; give one "
            "whole number a trial."
        )
    outside = np.flatnonzero((right < 0) | (right >= matrix.shape[1]))
    if len(outside):
        raise InputError(
            f"Trial {outside[0]} says that option {right[outside[0]]} is right; options are 0 to "
            f"{matrix.shape[1] - 1}. A label of -1 stands for a hidden answer, which can't be scored."
        )
    own = matrix[np.arange(len(matrix)), right][:, None]
    return Ranks((matrix > own).sum(1), (matrix == own).sum(1) - 1)


def wins(scores: ArrayLike, ties: Literal["shared", "first"] = "shared") -> Float[np.ndarray, "trial option"]:
    """Say which option won each trial; rows sum to 1.

    Parameters
    ----------
    scores : array of shape (trial, option)
    ties : {"shared", "first"}
        The tied share the trial, or the one listed first takes it, as an argmax does (AMB-39).
    """
    matrix = as_matrix(scores, "The scores of the options", minimum_rows=1)
    best = matrix == matrix.max(axis=1, keepdims=True)
    if ties == "first":
        return (best & (best.cumsum(axis=1) == 1)).astype(np.float64)
    if ties != "shared":
        raise InputError(f"There is no rule {ties!r} for ties here. Use 'shared' or 'first'.")
    return best / best.sum(axis=1, keepdims=True)
