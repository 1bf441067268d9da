"""The cosine silhouette against scikit-learn's, at 20,000 points of 512.

Both sides get the same float32 points and give the mean over all points. Before anything is timed they are
compared, point by point; a fast wrong answer is no answer.
"""

import numpy as np
from sklearn.metrics import silhouette_samples, silhouette_score

from probes.silhouette import silhouette_scores
from tests.benchmarks.timing import alternate, row

POINTS, WIDTH, LABELS = 20_000, 512, 11


def points() -> tuple[np.ndarray, np.ndarray]:
    """Return clouds that overlap, as languages do."""
    generator = np.random.default_rng(0)
    labels = generator.integers(LABELS, size=POINTS)
    centres = 0.3 * generator.standard_normal((LABELS, WIDTH))
    return (centres[labels] + generator.standard_normal((POINTS, WIDTH))).astype(np.float32), labels


def measure(rounds: int) -> list[dict]:
    """Time both sides in turn.

    Parameters
    ----------
    rounds : int
        Turns of each side.

    Returns
    -------
    list of dict
        Rows of the benchmark's table.
    """
    rows, labels = points()
    few = slice(0, 2_000)
    theirs = np.asarray(silhouette_samples(rows[few].astype(np.float64), labels[few], metric="cosine"))
    difference = float(abs(silhouette_scores(rows[few], labels[few]).values - theirs).max())
    if difference > 1e-6:
        raise RuntimeError(f"The silhouettes of one point differ by {difference:.1e}; at most 1e-6 is allowed.")

    def slow() -> None:
        silhouette_score(rows, labels, metric="cosine")

    def fast() -> None:
        silhouette_scores(rows, labels)

    slow_s, fast_s = alternate(rounds, slow, fast)
    name = f"cosine silhouette of {POINTS:,} points of {WIDTH}, times faster than scikit-learn"
    return [row(name, "≥ 100", slow_s, fast_s)]
