"""Measure the search of large pools: against faiss's exact index in turns, and alone for time and memory.

The problem has the size of Crossmodal-3600's mixed pool: 3,600 images, 261,375 captions, 1,024 numbers, top
100. Captions gather around their images, as those of a real tower do, and some are repeated.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.benchmarks.timing import alternate, row
from workbench.approximate_search import search_approximately
from workbench.pools import search

IMAGES, CAPTIONS, WIDTH, K = 3600, 261_375, 1024, 100

ALONE = """
import json, resource, sys, time
import numpy as np
from workbench.metrics import Targets
from workbench.pools import search
queries, pool = np.load(sys.argv[1]), np.load(sys.argv[2], mmap_mode="r")
targets = Targets.of_images(np.load(sys.argv[3]), len(queries))
start = time.perf_counter()
search(queries, pool, 100, targets=targets, every=sys.argv[4] == "every")
seconds = time.perf_counter() - start
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2]))
"""


def problem(images: int = IMAGES, captions: int = CAPTIONS, width: int = WIDTH) -> tuple[np.ndarray, ...]:
    """Unit embeddings of images and captions, float32, and whose each caption is."""
    generator = np.random.default_rng(0)
    topics = generator.standard_normal((60, width), dtype=np.float32)
    queries = topics[generator.integers(0, 60, images)] + generator.standard_normal((images, width), dtype=np.float32)
    owner = generator.permutation(np.concatenate([np.arange(images), generator.integers(0, images, captions - images)]))
    pool = np.empty((captions, width), dtype=np.float32)
    for start in range(0, captions, 20_000):
        own = owner[start : start + 20_000]
        pool[start : start + 20_000] = queries[own] + 2 * generator.standard_normal((len(own), width), dtype=np.float32)
    pool[generator.integers(0, captions, captions // 180)] = pool[generator.integers(0, captions, captions // 180)]
    for rows in (queries, pool):
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return queries, pool, owner


def measure(rounds: int) -> list[dict]:
    """Run the comparison with faiss, the measurements in a process of their own, and the approximate index."""
    queries, pool, owner = problem()
    return [
        *against_faiss(rounds, queries, pool),
        *alone(min(rounds, 3), queries, pool, owner),
        approximate(queries, pool),
    ]


def against_faiss(rounds: int, queries: np.ndarray, pool: np.ndarray) -> list[dict]:
    """Search the same float32 arrays in turns; building the index counts, as checking the rows does on our side."""
    import faiss

    lists: dict[str, np.ndarray] = {}

    def peer() -> None:
        index = faiss.IndexFlatIP(pool.shape[1])
        index.add(pool)
        lists["peer"] = index.search(queries, K)[1]

    def ours() -> None:
        lists["ours"] = search(queries, pool, K).candidates

    slow, fast = alternate(rounds, peer, ours)
    # The same neighbours, but for those that tie to the last bits.
    same = float(np.mean([len(set(a) & set(b)) / K for a, b in zip(lists["peer"], lists["ours"], strict=True)]))
    if same < 0.999:
        raise RuntimeError(f"The two searches share {100 * same:.2f} % of their neighbours; one of them is wrong.")
    name = f"top {K} of {CAPTIONS:,} captions for {IMAGES:,} images, times faster than faiss's exact index"
    return [row(name, "≥ 1.0", slow, fast)]


def alone(rounds: int, queries: np.ndarray, pool: np.ndarray, owner: np.ndarray) -> list[dict]:
    """Time and memory of a process that reads the pool from a memory map and ranks every target as well."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{name}.npy" for name in ("queries", "pool", "owner")]
        np.save(files[0], queries)
        np.save(files[2], owner)
        for kind, what in ((np.float32, "first"), (np.float16, "every")):
            np.save(files[1], pool.astype(kind))
            found = []
            for _ in range(rounds):
                done = subprocess.run(
                    [sys.executable, "-c", ALONE, *map(str, files), what], capture_output=True, text=True, check=True
                )
                found.append(json.loads(done.stdout))
            whose = {"first": "an image's first caption", "every": "every caption of an image"}[what]
            name = f"the same, ranking {whose} too, {kind.__name__} memory map"
            for unit, target, values in zip(
                ("seconds", "peak memory in GiB"), ("< 120", "< 4"), zip(*found, strict=True), strict=True
            ):
                rows.append(
                    {
                        "what": f"{name}: {unit}",
                        "target": target,
                        "ratio": statistics.median(values),
                        "range": f"{min(values):.2f}–{max(values):.2f}",
                    }
                )
    return rows


def approximate(queries: np.ndarray, pool: np.ndarray) -> dict:
    """Recall of the approximate index with its default settings."""
    found = search_approximately(queries, pool, K)
    return {
        "what": f"approximate index ({found.index}): recall at {K} in percent",
        "target": "measured",
        "ratio": found.recall,
        "range": f"worst query {found.worst:.0f}",
    }
