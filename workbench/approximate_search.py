"""Approximate search in large pools, by faiss, and how much of the exact answer it finds.

An approximate index answers sooner and misses some neighbours, and which ones depends on the data: rows of
rare languages in a sparse corner are missed more easily than others. So an answer never comes alone here. A
seeded sample of the queries is searched exactly as well, and the recall, the share of the exact top k that
the index found, comes back with the lists. Published prevalence figures rest on such an index (S0-16).

faiss is optional: ``pip install faiss-cpu``.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int

from workbench.errors import InputError
from workbench.pools import Embeddings, Found, Rows, search
from workbench.splits import generator as seeded

Kind = Literal["ivf", "hnsw"]

# Two products of the same unit rows in float32 may differ by this much.
_ROUNDING = 2e-6


@dataclass(frozen=True)
class ApproximateFound(Found):
    """What an approximate search found, and how much it missed.

    Attributes
    ----------
    recall : float
        Percent of the exact top k found, mean over the checked queries. Candidates that tie with the last
        of the exact ones count as found.
    worst : float
        The same of the checked query that fared worst.
    checked : int array of shape (checked,)
        Queries that were searched exactly as well.
    index : str
        What was searched, such as ``"IVF511, 32 probed"``.
    """

    recall: float = float("nan")
    worst: float = float("nan")
    checked: Int[np.ndarray, " checked"] | None = None
    index: str = ""


def search_approximately(
    queries: Embeddings,
    pool: Embeddings,
    k: int = 100,
    *,
    kind: Kind = "ivf",
    cells: int | None = None,
    effort: int = 32,
    check: int = 200,
    seed: int = 0,
) -> ApproximateFound:
    """Search a pool with a faiss index and measure the recall.

    Parameters
    ----------
    queries, pool : array, memory map, Tensor, or iterable of arrays of shape (n, d)
        As for :func:`workbench.pools.search`. The index holds the whole pool in float32.
    k : int
    kind : {"ivf", "hnsw"}
        Cells around k-means centres, of which the nearest are searched: the same numbers for the same seed
        and number of threads. Or a graph of neighbours, as published, with 32 links a row; it is built by
        several threads at once, so two builds differ.
    cells : int, optional
        Cells of ``"ivf"``; about the square root of the pool by default.
    effort : int
        Cells that are searched (``"ivf"``), or length of the search list (``"hnsw"``, at least k). As many
        as there are cells make the search exact.
    check : int
        How many queries are searched exactly as well.
    seed : int
        Decides the k-means and the checked queries.

    Returns
    -------
    ApproximateFound

    Raises
    ------
    InputError
        If faiss is not installed, or a setting is not legal.
    """
    faiss = _faiss()
    if k < 1 or effort < 1 or check < 1:
        raise InputError(f"k={k}, effort={effort} and check={check} came; each is at least 1.")
    asked, rows = Rows(queries, "queries"), Rows(pool, "pool")
    if asked.width != rows.width:
        raise InputError(f"The queries have {asked.width} columns and the pool {rows.width}. Both come from one tower.")
    k = min(k, len(rows))
    index, name = _build(faiss, rows, kind, cells, effort, k, seed)
    lists = np.empty((len(asked), k), dtype=np.int64), np.empty((len(asked), k), dtype=np.float32)
    for start, block in asked.blocks(1024):
        part = slice(start, start + len(block))
        lists[1][part], lists[0][part] = index.search(block.numpy(), k)
    candidates, similarity = _ordered(*lists)
    checked = np.sort(seeded(seed).permutation(len(asked))[:check])
    wanted = torch.as_tensor(checked)
    sample = torch.cat(
        [
            block[wanted[(wanted >= start) & (wanted < start + len(block))] - start]
            for start, block in asked.blocks(1024)
        ]
    )
    last = search(sample, rows.source, k).similarity[:, -1]
    found = 100 * (similarity[checked] >= last[:, None] - _ROUNDING).mean(axis=1, dtype=np.float64)
    return ApproximateFound(
        candidates, similarity, recall=float(found.mean()), worst=float(found.min()), checked=checked, index=name
    )


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise InputError(
            "An approximate search needs faiss, which is not installed. `pip install faiss-cpu`, or use the exact "
            "search (workbench.pools.search)."
        ) from None
    return faiss


def _build(faiss: Any, rows: Rows, kind: Kind, cells: int | None, effort: int, k: int, seed: int) -> tuple[Any, str]:
    inner = faiss.METRIC_INNER_PRODUCT
    if kind == "ivf":
        n_cells = max(1, min(len(rows), round(len(rows) ** 0.5))) if cells is None else cells
        if not 1 <= n_cells <= len(rows):
            raise InputError(f"{n_cells} cells came for a pool of {len(rows)}; use at least 1 and at most one a row.")
        effort = min(effort, n_cells)
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(rows.width), rows.width, n_cells, inner)
        index.cp.seed, index.cp.verbose, index.nprobe = seed, False, effort
        index.cp.min_points_per_centroid = 1  # fewer points a cell are our choice, and no reason to warn
        index.cp.max_points_per_centroid = 64  # more make no better cells here, only a longer k-means
        index.train(_sample(rows, index.cp.max_points_per_centroid * n_cells, seed))
        name = f"IVF{n_cells}, {effort} probed"
    elif kind == "hnsw":
        effort = max(effort, k)
        index = faiss.IndexHNSWFlat(rows.width, 32, inner)
        index.hnsw.efConstruction, index.hnsw.efSearch = 100, effort
        name = f"HNSW32, search list of {effort}"
    else:
        raise InputError(f"There is no index {kind!r}. Use 'ivf' or 'hnsw'.")
    for _, block in rows.blocks(8192):
        index.add(block.numpy())
    return index, name


def _sample(rows: Rows, most: int, seed: int) -> Float[np.ndarray, "row d"]:
    """Up to ``most`` rows to train on, drawn without regard to their order."""
    chosen = np.zeros(len(rows), dtype=bool)
    chosen[seeded(seed, 1).permutation(len(rows))[:most]] = True
    return np.concatenate([block.numpy()[chosen[start : start + len(block)]] for start, block in rows.blocks(8192)])


def _ordered(candidates: np.ndarray, similarity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the tied, the lowest id first; places that the index left empty (-1) last."""
    similarity = np.where(candidates < 0, -np.inf, similarity).astype(np.float32)
    order = np.lexsort((candidates, -similarity))
    return np.take_along_axis(candidates, order, 1), np.take_along_axis(similarity, order, 1)
