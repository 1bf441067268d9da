"""Rows with a planted language, for tests of erasers."""

import numpy as np


def planted(
    classes: int = 4, each: int = 150, d: int = 20, shift: float = 3.0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Correlated Gaussian rows whose mean depends on the language."""
    generator = np.random.default_rng(seed)
    mix = generator.standard_normal((d, d)) / np.sqrt(d) + np.eye(d)
    means = shift * generator.standard_normal((classes, d))
    rows = np.concatenate([generator.standard_normal((each, d)) @ mix + mean for mean in means])
    return rows + 5.0, np.repeat([f"l{k}" for k in range(classes)], each)


def spread(rows: np.ndarray, labels: np.ndarray) -> float:
    """Largest distance between the mean rows of two classes."""
    means = np.stack([rows[labels == label].mean(axis=0) for label in np.unique(labels)])
    return float(np.linalg.norm(means[:, None] - means[None], axis=-1).max())
