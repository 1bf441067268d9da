"""Concepts that are the same under two names, found by the cosine of their embeddings (S0-32).

A list of concepts for a benchmark must not hold "headgear" beside "headwear": the second image of the pair
would be a wrong answer that is right. Embeddings of the names, of any text encoder, and a threshold say which
names go. Published: BGE-M3 and 0.92.

The order decides who stays: a name goes if it is too close to one that stands *before* it and stays. A name
that is close only to one that went, stays; ``linkage="connected"`` sends it too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from workbench.arrays import ArrayLike, as_matrix
from workbench.errors import InputError

PUBLISHED_THRESHOLD = 0.92

_BLOCK = 1024  # rows of the similarity matrix that are in memory at once


@dataclass(frozen=True)
class Deduplication:
    """Which concepts stay.

    Attributes
    ----------
    kept : tuple of int
        Places of those that stay, in their order.
    removed : dict of int to tuple of int and float
        Place of each that goes, to the place of the one that stays for it and the cosine between the two.
        Under ``"connected"`` that cosine may be below the threshold: a chain of others lies between.
    threshold : float
    """

    kept: tuple[int, ...]
    removed: dict[int, tuple[int, float]]
    threshold: float


def deduplicate(
    embeddings: ArrayLike,
    names: Sequence[str] | None = None,
    *,
    threshold: float = PUBLISHED_THRESHOLD,
    linkage: Literal["first", "connected"] = "first",
) -> Deduplication:
    """Find concepts whose embeddings have a cosine at or above a threshold.

    Parameters
    ----------
    embeddings : array of shape (concept, d)
        Of any length; normalised here.
    names : sequence of str, optional
        One a row, only for messages.
    threshold : float
        Above -1 and at most 1.
    linkage : {"first", "connected"}
        ``"first"``: one goes if it is close to an earlier one that stays. ``"connected"``: of concepts that
        hang together by pairs, only the first stays.

    Returns
    -------
    Deduplication

    Raises
    ------
    InputError
        If a row is zero, NaN or infinite, names do not match the rows, or the threshold is out of range.
    """
    rows = as_matrix(embeddings, "embeddings", minimum_rows=1)
    if names is not None and len(names) != len(rows):
        raise InputError(f"{len(names)} names came for {len(rows)} rows; give one name a row.")
    if not -1 < threshold <= 1:
        raise InputError(f"A threshold of {threshold} came; a cosine above -1 and at most 1 is needed.")
    if linkage not in ("first", "connected"):
        raise InputError(f"linkage={linkage!r} came; it is 'first' or 'connected'.")
    lengths = np.linalg.norm(rows, axis=1)
    if (lengths == 0).any():
        row = int(np.flatnonzero(lengths == 0)[0])
        called = "" if names is None else f" ({names[row]})"
        raise InputError(f"The embedding of row {row}{called} is zero and has no direction. Leave it out.")
    units = rows / lengths[:, None]
    owner = _first(units, threshold) if linkage == "first" else _connected(units, threshold)
    removed = {
        place: (int(owner[place]), float(units[place] @ units[owner[place]]))
        for place in range(len(units))
        if owner[place] != place
    }
    kept = tuple(place for place in range(len(units)) if owner[place] == place)
    return Deduplication(kept, removed, threshold)


def _pairs(units: np.ndarray, threshold: float) -> list[tuple[int, int, float]]:
    """Pairs (later, earlier, cosine) at or above the threshold, later ones in order."""
    found = []
    # Equal rows must pair at a threshold of 1, where rounding leaves their cosine a little short of it.
    reach = threshold - 1e-12
    for start in range(0, len(units), _BLOCK):
        part = units[start : start + _BLOCK]
        cosines = part @ units[: start + len(part)].T
        for row, column in zip(*np.nonzero(cosines >= reach), strict=True):
            if column < start + row:
                found.append((start + int(row), int(column), float(cosines[row, column])))
    return found


def _first(units: np.ndarray, threshold: float) -> np.ndarray:
    owner = np.arange(len(units))
    best = np.full(len(units), -np.inf)
    # In the order of the later one, so that whether an earlier one stays is settled when it is asked.
    for later, earlier, cosine in _pairs(units, threshold):
        if owner[earlier] == earlier and cosine > best[later]:
            owner[later], best[later] = earlier, cosine
    return owner


def _connected(units: np.ndarray, threshold: float) -> np.ndarray:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = _pairs(units, threshold)
    later, earlier = ([pair[k] for pair in pairs] for k in (0, 1))
    graph = coo_array((np.ones(len(pairs)), (later, earlier)), shape=(len(units), len(units)))
    _, groups = connected_components(graph, directed=False)
    _, first = np.unique(groups, return_index=True)
    return first[groups]
