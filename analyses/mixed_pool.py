"""Images ranked against the captions of all languages at once (S0-16).

A tower with a vector for each token is ranked by MaxSim, with the image as the query, as published: the captions of one
image are then compared by sums over the same tokens, and a language of long token sequences has no advantage.

In a mixed pool a Swahili caption competes with the English one of the same image, so a list shows which
languages a tower puts first. The search is exact
(:mod:`workbench.pools`).

Ties need care here. Equal texts of two languages ("taxi") have equal embeddings, and a fixed order of the
tied, such as that of the pool, would hand every one of them to the same language. The default is therefore
one order of the pool drawn at random with a seed; ``ties="index"`` keeps the pool's own order, as published,
where captions stand by language.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.corpora.base import Corpus, Protocol
from workbench.errors import InputError
from workbench.late_interaction import MultiVectors, maxsim
from workbench.metrics import LIST_DEPTH, Placements
from workbench.pools import search
from workbench.retrieval import ROUNDING, first_places, settle
from workbench.splits import generator as seeded
from workbench.towers.base import Tower
from workbench.towers.multi_vectors import joined

PoolTies = Literal["random", "index"]

_SCORES = 1 << 26  # similarities that are held at a time


@dataclass(frozen=True)
class MixedRanking:
    """The captions nearest to each image, whatever their language.

    Attributes
    ----------
    tower, corpus : str
    languages : tuple of str
    images : tuple of str
        Ids of the queries.
    texts : tuple of str
        Captions of the pool, by language, then by image.
    language : int array of shape (caption,)
        Place of each caption's language in ``languages``.
    owner : int array of shape (caption,)
        Place of the image that each caption describes.
    top : int array of shape (image, depth)
        Captions nearest first.
    scores : float32 array of shape (image, depth)
        Their cosine similarities.
    protocol : str
        Which captions of an image are in the pool: ``"first"`` or ``"all"``.
    ties : str
    seed : int
    """

    tower: str
    corpus: str
    languages: tuple[str, ...]
    images: tuple[str, ...]
    texts: tuple[str, ...] = field(repr=False)
    language: Int[np.ndarray, " caption"] = field(repr=False)
    owner: Int[np.ndarray, " caption"] = field(repr=False)
    top: Int[np.ndarray, "image depth"] = field(repr=False)
    scores: Float[np.ndarray, "image depth"] = field(repr=False)
    protocol: str
    ties: str
    seed: int

    @property
    def n(self) -> int:
        """Queries."""
        return len(self.images)

    @property
    def depth(self) -> int:
        """Captions kept for each."""
        return self.top.shape[1]

    @property
    def top_languages(self) -> Int[np.ndarray, "image depth"]:
        """Language of each kept caption, as its place in ``languages``."""
        return self.language[self.top]

    @property
    def relevant(self) -> Bool[np.ndarray, "image depth"]:
        """Whether each kept caption describes the image, in any language."""
        return self.owner[self.top] == np.arange(self.n)[:, None]

    @property
    def pool_counts(self) -> Int[np.ndarray, " language"]:
        """Captions of each language in the pool."""
        return np.bincount(self.language, minlength=len(self.languages))

    def in_group(self, members: Iterable[str]) -> Bool[np.ndarray, " language"]:
        """Whether each language is one of some languages.

        Raises
        ------
        InputError
            If none is, or all are: then there is nothing to compare.
        """
        chosen = set(members)
        found = np.array([language in chosen for language in self.languages])
        if not found.any() or found.all():
            raise InputError(
                f"{int(found.sum())} of {len(self.languages)} languages of the pool are in the low-resource group. "
                f"Both groups need a language. The pool has: {', '.join(self.languages)}."
            )
        return found

    @cached_property
    def placements(self) -> Placements:
        """Where the right captions stand: ``score("Acc@5")`` and ``score("NDCG-list@10")``, percent an image."""
        return Placements.of_lists(self.relevant, np.bincount(self.owner, minlength=self.n))

    def split_ties(self, group: Bool[np.ndarray, " language"]) -> int:
        """Images in whose list the order of the tied decides which group stands first somewhere."""
        label = group[self.top_languages]
        same = self.scores[:, 1:] == self.scores[:, :-1]
        return int((same & (label[:, 1:] != label[:, :-1])).any(1).sum())


def rank_mixed(
    images: Float[Tensor, "image d"],
    texts: Float[Tensor, "caption d"],
    *,
    depth: int = LIST_DEPTH,
    ties: PoolTies = "random",
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Rank all captions for each image.

    Parameters
    ----------
    images : Tensor of shape (image, d)
        Of any length; normalised here.
    texts : Tensor of shape (caption, d)
    depth : int
        Captions to keep, or as many as there are.
    ties : {"random", "index"}
        Who of equally near captions stands first.
    seed : int
        Of the order of the tied.

    Returns
    -------
    top : int64 array of shape (image, depth)
    scores : float32 array, same shape
    """
    if ties not in ("random", "index"):
        raise InputError(f"ties={ties!r} came; it is 'random' or 'index'.")
    if depth < 1:
        raise InputError(f"A depth of {depth} came; keep at least 1 caption.")
    if ties == "index":
        found = search(images, texts, depth)
        return found.candidates, found.similarity
    order = seeded(seed, 16).permutation(len(texts))
    found = search(images, texts[torch.from_numpy(order)], depth)
    return order[found.candidates], found.similarity


def rank_mixed_tokens(
    images: MultiVectors, texts: MultiVectors, *, depth: int = LIST_DEPTH, ties: PoolTies = "random", seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Rank all captions for each image by MaxSim, exactly; parameters and results are those of :func:`rank_mixed`."""
    if ties not in ("random", "index"):
        raise InputError(f"ties={ties!r} came; it is 'random' or 'index'.")
    if depth < 1:
        raise InputError(f"A depth of {depth} came; keep at least 1 caption.")
    order = np.arange(len(texts)) if ties == "index" else seeded(seed, 16).permutation(len(texts))
    tops, found = [], []
    step = max(1, _SCORES // len(texts))
    for start in range(0, len(images), step):
        scores = maxsim(images.pick(np.arange(start, min(start + step, len(images)))), texts)[:, order]
        best = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
        tops.append(order[best])
        found.append(np.take_along_axis(scores, best, 1))
    return np.concatenate(tops), np.concatenate(found)


def _same_keys(items: MultiVectors, keys: list[Hashable]) -> MultiVectors:
    """Give captions that the tower reads alike the same tokens where they differ by rounding, so that they tie."""
    rows = np.arange(len(items))
    for row, first in enumerate(first_places(keys)):
        if first != row:
            (one, mine), (two, theirs) = (items.take(slice(place, place + 1)) for place in (row, first))
            if torch.equal(mine, theirs) and float((one - two).abs().max()) <= ROUNDING:
                rows[row] = first
    return items.pick(rows)


def mixed_ranking(
    tower: Tower,
    corpus: Corpus,
    languages: Iterable[str] | None = None,
    *,
    protocol: Protocol = "all",
    depth: int = LIST_DEPTH,
    ties: PoolTies = "random",
    seed: int = 0,
    embeddings: Mapping[str, Tensor] | None = None,
) -> MixedRanking:
    """Rank the captions of several languages of a corpus for each of its images.

    Parameters
    ----------
    tower : Tower
    corpus : Corpus
    languages : iterable of str, optional
        All of the corpus by default.
    protocol : {"all", "first"}
        Every caption of an image, as published, or its first one.
    depth : int
    ties : {"random", "index"}
    seed : int
        Of the order of tied captions.
    embeddings : mapping of str to Tensor, optional
        Text embeddings by language, in the order of ``corpus.texts``, where they are there already.

    Raises
    ------
    InputError
        If a language is unknown, fewer than two came, or an embedding has no direction.
    """
    wanted = corpus.languages if languages is None else corpus.check_languages(languages)
    if len(wanted) < 2:
        raise InputError("A mixed pool needs two languages or more; one came.")
    texts: list[str] = []
    keys: list[Hashable] = []
    parts, owners, places = [], [], []
    for place, language in enumerate(wanted):
        own, owner = corpus.texts(language, protocol)
        part = tower.embed_captions(corpus, language, protocol) if embeddings is None else embeddings[language]
        if len(part) != len(own):
            raise InputError(f"{len(part)} embeddings came for {len(own)} captions in {language!r}.")
        texts += own
        keys += tower.caption_keys(own, language) if embeddings is None else own
        parts.append(part if isinstance(part, MultiVectors) else part.float())
        owners.append(owner)
        places.append(np.full(len(own), place))
    images: Any = tower.embed_images(corpus)
    if isinstance(images, MultiVectors):
        top, scores = rank_mixed_tokens(images, _same_keys(joined(parts), keys), depth=depth, ties=ties, seed=seed)
    else:
        # Captions that the tower reads alike tie, also those of two languages: two batches differ in the last bits.
        rows = settle(torch.cat(parts), first_places(keys))
        top, scores = rank_mixed(images, rows, depth=depth, ties=ties, seed=seed)
    return MixedRanking(
        tower=tower.name,
        corpus=corpus.name,
        languages=wanted,
        images=corpus.image_ids,
        texts=tuple(texts),
        language=np.concatenate(places),
        owner=np.concatenate(owners),
        top=top,
        scores=scores,
        protocol=protocol,
        ties=ties,
        seed=seed,
    )
