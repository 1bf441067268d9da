"""Exact search in pools too large for one matrix: top k, and the exact ranks of given targets.

3,600 images against all 261,375 captions of Crossmodal-3600 make a matrix of 3.8 GB. Here it is made in
blocks of queries, and each block is read once for everything that is asked of it. What comes back is exact:
every similarity is a float32 dot product of unit rows, no candidate is skipped, and a target is compared
with the others by the very number that stands in the matrix. Of tied candidates the lowest id comes first,
also at the last place of a list; rows with the same bits always tie.

Embeddings may be a NumPy array (also a memory map), a tensor, or an iterable of arrays, in half or single
precision; they are widened and normalised block by block. An iterable that can be walked again (a list, an
object of yours) is read anew for each block of queries and never held whole; a generator can be walked once
only, so its blocks are kept, in the precision in which they came.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.errors import InputError
from workbench.metrics import Placements, Targets, place
from workbench.retrieval import Ranks, lengths, top_k

Embeddings: TypeAlias = "np.ndarray | Tensor | Iterable[np.ndarray | Tensor]"

MEMORY = 1 << 30
"""Bytes of similarities that are held at a time."""

_ROWS = 8192  # rows that are widened and normalised at a time
_GROUP = 64  # neighbouring candidates of which the best is looked at first
_CACHED = 1 << 20  # similarities that are compared at a time: about what a core's cache holds


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes
    ----------
    candidates : int64 array of shape (query, k)
        The k most similar, best first; of the tied, the lowest id first.
    similarity : float32 array, same shape
    first : Ranks, optional
        Rank of the first target of each query, where targets were given.
    placements : Placements, optional
        Ranks of every target, where they were asked for.
    """

    candidates: Int[np.ndarray, "query k"]
    similarity: Float[np.ndarray, "query k"]
    first: Ranks | None = None
    placements: Placements | None = None


def search(
    queries: Embeddings,
    pool: Embeddings,
    k: int = 100,
    *,
    targets: Targets | None = None,
    every: bool = False,
    memory: int = MEMORY,
) -> Found:
    """Compare every query with every candidate of a pool, by blocks.

    Parameters
    ----------
    queries, pool : array, memory map, Tensor, or iterable of arrays of shape (n, d)
        Embeddings of any length; NaN, infinity and zero rows are refused.
    k : int
        How many candidates to list; 0 for ranks alone.
    targets : Targets, optional
        Right candidates, whose ranks are counted in the whole pool, not in the list.
    every : bool
        Place every target, which ``recall@k`` and ``NDCG@k`` need, and not the first alone, which is
        cheaper and enough for ``R@k`` and ``MRR``.
    memory : int
        Bytes for similarities. Besides that a search holds a block of the pool, and some tens of bytes for
        each candidate.

    Returns
    -------
    Found

    Raises
    ------
    InputError
        If shapes do not fit, or a row has no direction.
    """
    asked, candidates = Rows(queries, "queries"), Rows(pool, "pool")
    _check(asked, candidates, k, targets)
    if every and targets is None:
        raise InputError("Placing every target needs targets. Give them, or leave `every` out.")
    k, n = min(k, len(candidates)), len(candidates)
    width = -(-n // _GROUP) * _GROUP
    size = min(max(1, memory // (4 * width)), len(asked), _ROWS)
    buffer = torch.full((size, width), -torch.inf)
    lists = np.empty((len(asked), k), dtype=np.int64), np.empty((len(asked), k), dtype=np.float32)
    first = np.empty((3, len(asked)), dtype=np.int64)
    placed = np.empty((2, len(targets.query) if targets and every else 0), dtype=np.int64)
    for start, block in asked.blocks(size):
        scores = buffer[: len(block)]
        for begin, part in candidates.blocks(_ROWS):
            torch.mm(block, part.T, out=scores[:, begin : begin + len(part)])
        candidates.copy_to_twins(scores)
        rows = slice(start, start + len(block))
        if k:
            lists[1][rows], lists[0][rows] = _top_k(scores, n, k)
        if targets is not None:
            bounds = targets.starts[start : start + len(block) + 1]
            own = targets.candidate[bounds[0] : bounds[-1]]
            if every:
                _place_every(scores.numpy()[:, :n], own, bounds - bounds[0], placed[:, bounds[0] : bounds[-1]])
            else:
                first[:, rows] = _place_first(scores.numpy()[:, :n], own, bounds - bounds[0])
    if targets is None:
        return Found(*lists)
    if not every:
        return Found(*lists, Ranks(first[0], first[1], first[2]))
    placements = Placements(targets.query, placed[0], placed[1], np.diff(targets.starts))
    return Found(*lists, placements.first, placements)


def _check(asked: "Rows", candidates: "Rows", k: int, targets: Targets | None) -> None:
    if asked.width != candidates.width:
        raise InputError(
            f"The queries have {asked.width} columns and the pool {candidates.width}. Both must come from one tower."
        )
    if k < 0 or (k == 0 and targets is None):
        raise InputError(f"k={k} came; ask for at least 1 candidate, or give targets to rank.")
    if targets is not None and (targets.n_queries != len(asked) or targets.candidate.max(initial=0) >= len(candidates)):
        raise InputError(
            f"Targets of {targets.n_queries} queries, up to candidate {targets.candidate.max(initial=0)}, came for "
            f"{len(asked)} queries and a pool of {len(candidates)}."
        )


def _top_k(scores: Tensor, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Top k of each row, looking at the best of each group of candidates first.

    At most k groups have a best one above the k-th highest of these bests, so the top k are in the k first
    groups; where the next group ties with the last of them, the whole row is looked at.
    """
    groups = scores.shape[1] // _GROUP
    if groups <= 4 * (k + 1):
        return top_k(scores[:, :n], k)
    best, chosen = scores.view(len(scores), groups, _GROUP).amax(-1).topk(k + 1, dim=1)
    shared = best[:, k] == best[:, k - 1]
    chosen = chosen[:, :k].sort(dim=1).values
    inside = scores.view(len(scores), groups, _GROUP).gather(1, chosen[..., None].expand(-1, -1, _GROUP))
    values, places = top_k(inside.flatten(1), k)
    found = np.take_along_axis(chosen.numpy(), places // _GROUP, axis=1) * _GROUP + places % _GROUP
    # A tie of the groups matters only where it reaches into the list.
    for row in np.flatnonzero(shared.numpy() & (values[:, -1] <= best[:, k].numpy())).tolist():
        row_values, row_found = top_k(scores[row : row + 1, :n], k)
        values[row], found[row] = row_values[0], row_found[0]
    return values, found


def _place_first(scores: np.ndarray, own: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Better candidates, tied ones that are no targets, and tied targets, for the first target of each row."""
    values = scores[np.repeat(np.arange(len(scores)), np.diff(bounds)), own]
    best = np.maximum.reduceat(values, bounds[:-1])
    targets = np.add.reduceat((values == np.repeat(best, np.diff(bounds))).astype(np.int64), bounds[:-1])
    better, tied = np.empty((2, len(scores)), dtype=np.int64)

    def count(part: slice) -> None:
        rows, limits = scores[part], best[part, None]
        better[part] = (rows > limits).view(np.uint8).sum(1, dtype=np.int64)
        tied[part] = (rows >= limits).view(np.uint8).sum(1, dtype=np.int64) - better[part]

    step = max(1, _CACHED // scores.shape[1])
    _in_threads(count, [slice(start, start + step) for start in range(0, len(scores), step)])
    return np.stack([better, tied - targets, targets])


def _place_every(scores: np.ndarray, own: np.ndarray, bounds: np.ndarray, out: np.ndarray) -> None:
    """Better and tied candidates of every target of each row."""
    if len(own) == len(scores):
        # One each, the first of its row: counted for many rows at once.
        out[:] = _place_first(scores, own, bounds)[:2]
        return

    def some(rows: range) -> None:
        for row in rows:
            part = slice(bounds[row], bounds[row + 1])
            out[:, part] = place(scores[row], own[part])

    step = max(1, _CACHED // scores.shape[1])
    _in_threads(some, [range(start, min(start + step, len(scores))) for start in range(0, len(scores), step)])


def _in_threads(work: Callable[[Any], None], parts: Iterable[Any]) -> None:
    # NumPy lets go of the interpreter inside a loop, so threads share the cores.
    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        for _ in threads.map(work, parts):
            pass


class Rows:
    """Embeddings read by blocks, as unit rows in float32.

    Parameters
    ----------
    source : array, memory map, Tensor, or iterable of arrays of shape (n, d)
    what : str
        How a message calls them.
    """

    def __init__(self, source: Embeddings, what: str) -> None:
        self.what = what
        self.source: Any = list(source) if isinstance(source, Iterator) else source
        self.width = 0
        norms: list[Tensor] = []
        keys: list[np.ndarray] = []
        for part in self._parts(_ROWS):
            norms.append(lengths(part, what, start=len(keys) * _ROWS))
            keys.append(_keys(part.numpy()))
        if not norms:
            raise InputError(f"The {what} hold no embedding.")
        self.norms = torch.cat(norms)
        self.twins = self._twins(np.concatenate(keys))

    def __len__(self) -> int:
        return len(self.norms)

    def blocks(self, size: int) -> Iterator[tuple[int, Float[Tensor, "row d"]]]:
        """Yield the first row's number and unit rows: ``size`` of them, fewer at the end."""
        start = 0
        for part in self._parts(size):
            norms = self.norms[start : start + len(part), None]
            if len(norms) == len(part):
                yield start, part / norms
            start += len(part)
        if start != len(self):
            raise InputError(
                f"The {self.what} gave {len(self)} rows at first and {start} later. Blocks must come again as they "
                "came before; give a generator if they can be read only once."
            )

    def _parts(self, size: int) -> Iterator[Float[Tensor, "row d"]]:
        """Yield rows in float32, as long as they come, ``size`` at a time."""
        whole = isinstance(self.source, (np.ndarray, Tensor))
        kept: list[Tensor] = []
        held = 0
        for block in [self.source] if whole else self.source:
            self._check(block)
            start = 0
            while start < len(block):
                # Blocks may be of any length, and a product of few rows is a slow one: they are put together.
                rows = _float32(block[start : start + size - held])
                start, held = start + len(rows), held + len(rows)
                kept.append(rows)
                if held == size:
                    yield kept[0] if len(kept) == 1 else torch.cat(kept)
                    kept, held = [], 0
        if held:
            yield torch.cat(kept)

    def _check(self, block: Any) -> None:
        floats = (
            block.is_floating_point()
            if isinstance(block, Tensor)
            else getattr(block, "dtype", np.dtype("O")).kind == "f"
        )
        if not floats:
            raise InputError(
                f"The {self.what} hold {getattr(block, 'dtype', type(block).__name__)} values; give arrays of floats "
                "of shape (n, d)."
            )
        if block.ndim != 2 or block.shape[1] == 0 or (self.width and block.shape[1] != self.width):
            same = f", all with the same number of columns, here {self.width}" if self.width else ""
            raise InputError(
                f"The {self.what} hold a block of shape {tuple(block.shape)}; give arrays of shape (n, d){same}."
            )
        self.width = block.shape[1]

    def _twins(self, keys: Int[np.ndarray, " row"]) -> tuple[Tensor, Tensor]:
        """Rows that are equal to an earlier one to the bit, and which."""
        _, group, count = np.unique(keys, return_inverse=True, return_counts=True)
        doubtful = count[group] > 1
        if not doubtful.any():
            return torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
        seen: dict[bytes, int] = {}
        pairs, start = [], 0
        for part in self._parts(_ROWS):
            for row in np.flatnonzero(doubtful[start : start + len(part)]).tolist():
                digest = blake2b(part[row].numpy().tobytes(), digest_size=16).digest()
                earlier = seen.setdefault(digest, start + row)
                if earlier != start + row:
                    pairs.append((start + row, earlier))
            start += len(part)
        found = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def copy_to_twins(self, scores: Float[Tensor, "query candidate"]) -> None:
        """Give equal candidates one similarity: a product may differ in the last bit by the column's place."""
        for again, earlier in zip(*(rows.split(_ROWS) for rows in self.twins), strict=True):
            scores.index_copy_(1, again, scores.index_select(1, earlier))


def _float32(rows: np.ndarray | Tensor) -> Float[Tensor, "row d"]:
    # Copied, since a read-only memory map can't be a tensor.
    return (
        torch.from_numpy(np.array(rows, dtype=np.float32))
        if isinstance(rows, np.ndarray)
        else rows.detach().cpu().float()
    )


def _keys(rows: Float[np.ndarray, "row d"]) -> Int[np.ndarray, " row"]:
    """A number that equal rows share and others rarely do: the bits of their first two columns."""
    bits = np.ascontiguousarray(rows[:, :2]).view(np.uint32).astype(np.uint64)
    return (bits[:, 0] << np.uint64(32) | bits[:, -1]).view(np.int64)
