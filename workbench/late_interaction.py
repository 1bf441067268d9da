"""MaxSim: the similarity of items that are many vectors each, as ColBERT, ColPali and ColQwen2 embed.

An item has one vector a token, padded to a common length, and a mask that says which are real. The score of
a query and a document is

    MaxSim(q, d) = sum over the query's tokens of the highest dot product with a token of the document

It isn't symmetric, and grows with the number of query tokens: compare the documents of one query, not the
scores of two queries. These models were trained with texts as queries; to find texts for an image, score the
texts as queries and read the matrix the other way round. Tokens are taken as they come, which is unit length.

All pairs of 3,600 images and 261,375 captions are more than a CPU can do. The published way (S0-16) is here
too: search for 100 candidates with the mean of the tokens (:func:`mean_pooled` and
:func:`workbench.pools.search`), then :func:`rerank` them. What the first step misses the second can't bring
back, and that is no small print: it bounds every number at depths near 100.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.errors import InputError

MEMORY = 1 << 28
"""Bytes of token similarities that are held at a time."""

_TOKENS = 1024  # query tokens in one product


@dataclass(frozen=True)
class MultiVectors:
    """Items with one vector a token.

    Attributes
    ----------
    tokens : float array, memory map or Tensor of shape (item, token, d)
        Half or single precision; widened block by block.
    mask : bool array or Tensor of shape (item, token)
        True for real tokens; each item has one or more. What stands elsewhere is never read.
    """

    tokens: "Float[np.ndarray, 'item token d'] | Float[Tensor, 'item token d']"
    mask: "Bool[np.ndarray, 'item token'] | Bool[Tensor, 'item token']"

    def __post_init__(self) -> None:
        mask = np.asarray(self.mask)
        if self.tokens.ndim != 3 or mask.shape != tuple(self.tokens.shape[:2]) or mask.dtype != bool:
            raise InputError(
                f"Tokens of shape {tuple(self.tokens.shape)} came with a mask of shape {mask.shape} and type "
                f"{mask.dtype}; give (item, token, d) and booleans of shape (item, token)."
            )
        empty = np.flatnonzero(~mask.any(axis=1))
        if len(mask) == 0 or len(empty):
            what = f"Item {empty[0]} has no real token" if len(empty) else "There is no item"
            raise InputError(f"{what}, so it can't be scored. Leave it out, or look at the mask: True is a real token.")
        object.__setattr__(self, "mask", mask)

    def __len__(self) -> int:
        return len(self.mask)

    @property
    def width(self) -> int:
        """Numbers in a vector."""
        return self.tokens.shape[2]

    def pick(self, items: "Sequence[int] | Int[np.ndarray, ' item']") -> "MultiVectors":
        """Return some items, as they are stored; an item may come twice."""
        rows = np.asarray(items)
        return MultiVectors(self.tokens[rows], np.asarray(self.mask)[rows])

    def take(
        self, items: "slice | Int[np.ndarray, ' item']"
    ) -> tuple[Float[Tensor, "item token d"], Bool[Tensor, "item token"]]:
        """Return some items in float32, with zeros where no token is, and their mask."""
        mask = torch.from_numpy(np.asarray(self.mask)[items])
        rows = self.tokens[items]
        wide = (
            torch.from_numpy(np.array(rows, dtype=np.float32))
            if isinstance(rows, np.ndarray)
            else rows.detach().cpu().float()
        )
        wide = wide.masked_fill(~mask[..., None], 0)
        finite = torch.isfinite(wide).flatten(1).all(1)
        if not finite.all():
            row = np.arange(len(self))[items][int((~finite).nonzero()[0, 0])]
            raise InputError(f"Item {row} has a token with NaN or infinity. Look for a tower in half precision.")
        return wide, mask

    @cached_property
    def twins(self) -> Int[np.ndarray, " item"]:
        """For each item, the first one with the same tokens to the bit."""
        seen: dict[bytes, int] = {}
        first = np.empty(len(self), dtype=np.int64)
        for item in range(len(self)):
            wide, mask = self.take(slice(item, item + 1))
            first[item] = seen.setdefault(blake2b(wide[mask].numpy().tobytes(), digest_size=16).digest(), item)
        return first


def mean_pooled(items: MultiVectors) -> Float[Tensor, "item d"]:
    """Mean of the tokens of each item, in float32: one vector for a first, coarse search (S0-16)."""
    parts = []
    for start in range(0, len(items), 64):
        wide, mask = items.take(slice(start, start + 64))
        parts.append((wide.double().sum(1) / mask.sum(1, keepdim=True)).float())
    return torch.cat(parts)


def maxsim(
    queries: MultiVectors, documents: MultiVectors, *, memory: int = MEMORY
) -> Float[np.ndarray, "query document"]:
    """Score every query with every document.

    Parameters
    ----------
    queries, documents : MultiVectors
    memory : int
        Bytes of token similarities that are held at a time.

    Returns
    -------
    float32 array of shape (query, document)
        Documents with the same tokens to the bit have the same scores. Give it to
        :meth:`workbench.metrics.Placements.of_scores`.

    Raises
    ------
    InputError
        If widths differ, or a token is NaN or infinite.
    """
    _check(queries, documents)
    scores = np.empty((len(queries), len(documents)), dtype=np.float32)
    length = documents.tokens.shape[1]
    step = max(1, memory // (4 * _TOKENS * length))
    distinct = np.flatnonzero(documents.twins == np.arange(len(documents)))
    for chosen in np.split(distinct, range(step, len(distinct), step)):
        wide, mask = documents.take(chosen)
        for part, tokens, owner in _query_tokens(queries):
            scores[part, chosen] = _sums(tokens, owner, wide, mask).numpy()
    return scores[:, documents.twins]


def rerank(
    queries: MultiVectors, documents: MultiVectors, candidates: Int[np.ndarray, "query k"]
) -> tuple[Int[np.ndarray, "query k"], Float[np.ndarray, "query k"]]:
    """Order each query's candidates by MaxSim.

    Parameters
    ----------
    queries, documents : MultiVectors
    candidates : int array of shape (query, k)
        Rows of ``documents``, each once a query, such as :attr:`workbench.pools.Found.candidates`.

    Returns
    -------
    tuple of int array and float32 array, of shape (query, k)
        The candidates, best first, of the tied the lowest id first; and their scores.
    """
    lists = np.asarray(candidates)
    scores = listed_scores(queries, documents, lists)
    order = np.lexsort((lists, -scores))
    return np.take_along_axis(lists, order, 1), np.take_along_axis(scores, order, 1)


def listed_scores(
    queries: MultiVectors, documents: MultiVectors, candidates: Int[np.ndarray, "query k"]
) -> Float[np.ndarray, "query k"]:
    """Score each query with its own few documents, in the order in which they are listed."""
    _check(queries, documents)
    lists = np.asarray(candidates)
    if lists.ndim != 2 or len(lists) != len(queries) or lists.dtype.kind not in "iu":
        raise InputError(
            f"Candidates of shape {lists.shape} and type {lists.dtype} came for {len(queries)} queries; give one list "
            "of whole numbers a query."
        )
    if lists.size and (lists.min() < 0 or lists.max() >= len(documents)):
        raise InputError(
            f"Candidates {lists.min()} to {lists.max()} came for {len(documents)} documents, which count from 0."
        )
    scores = np.empty(lists.shape, dtype=np.float32)
    for query, row in enumerate(lists):
        tokens, mask = queries.take(slice(query, query + 1))
        distinct, place = np.unique(documents.twins[row], return_inverse=True)
        real = tokens[mask]
        found = _sums(real, torch.zeros(len(real), dtype=torch.int64), *documents.take(distinct))
        scores[query] = found[0].numpy()[place]
    return scores


def _check(queries: MultiVectors, documents: MultiVectors) -> None:
    if queries.width != documents.width:
        raise InputError(
            f"Query tokens have {queries.width} numbers and document tokens {documents.width}. Both come from one "
            "model."
        )


def _query_tokens(queries: MultiVectors) -> Iterator[tuple[slice, Float[Tensor, "token d"], Int[Tensor, " token"]]]:
    """Yield the real tokens of some queries, end to end, and whose each is."""
    step = max(1, _TOKENS // queries.tokens.shape[1])
    for start in range(0, len(queries), step):
        part = slice(start, min(start + step, len(queries)))
        wide, mask = queries.take(part)
        yield part, wide[mask], torch.arange(len(mask))[:, None].expand_as(mask)[mask]


def _sums(
    tokens: Float[Tensor, "token d"],
    owner: Int[Tensor, " token"],
    documents: Float[Tensor, "document length d"],
    mask: Bool[Tensor, "document length"],
) -> Float[Tensor, "query document"]:
    similarity = (tokens @ documents.flatten(0, 1).T).view(len(tokens), *mask.shape)
    best = similarity.masked_fill_(~mask, -torch.inf).amax(-1)
    # Summed in float64, so that the order of the tokens leaves no trace.
    sums = torch.zeros(int(owner[-1]) + 1, len(documents), dtype=torch.float64)
    return sums.index_add_(0, owner, best.double()).float()
