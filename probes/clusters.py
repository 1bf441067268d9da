"""Whether self-preference goes with how far a language stands apart: silhouettes, TSC and ISC (S0-50 to S0-53).

The *text silhouette* of a language says how much its concept names form a cluster of their own among the
names in all languages, the *image silhouette* of a country the same of its images (:mod:`probes.silhouette`,
Euclidean, on embeddings as they come). TSC is the correlation, over countries, of self-preference with the
text silhouette of each country's language, ISC that with its image silhouette.

With 16 countries one of them can make a correlation. :func:`probes.correlation.correlate` leaves each out in turn,
and :func:`most_influential` names the one that matters most: of the published values, most fall to about 0 without
Nigeria.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from probes.correlation import Correlation
from probes.silhouette import silhouette_scores
from workbench.arrays import ArrayLike, as_labels, as_matrix
from workbench.errors import InputError


def most_influential(correlation: Correlation) -> str:
    """Return the country without which Pearson's r changes most."""

    def change(name: str) -> float:
        left = correlation.without[name][0]
        return -1.0 if np.isnan(left) else abs(left - correlation.pearson)

    return max(correlation.without, key=change)


def distinct_texts(texts: Sequence[str]) -> Int[np.ndarray, " kept"]:
    """Rows of the first of each text, as published: a name that two languages share counts once, for the first.

    Two labels on one point would pull the silhouettes of both towards 0 for no reason of the tower's.
    """
    seen: dict[str, int] = {}
    for row, text in enumerate(texts):
        seen.setdefault(text, row)
    return np.array(sorted(seen.values()), dtype=np.int64)


@dataclass(frozen=True)
class Clusters:
    """How far labelled embeddings stand apart.

    Attributes
    ----------
    silhouette : float
        Mean over all points.
    silhouettes : dict of str to float
        Mean over the points of each label.
    compactness : dict of str to float
        Mean Euclidean distance of a label's points to their own mean (S0-53); small is compact.
    counts : dict of str to int
        Points of each label.
    n : int
        Points.
    """

    silhouette: float
    silhouettes: dict[str, float]
    compactness: dict[str, float]
    counts: dict[str, int]
    n: int


def cluster_labels(embeddings: ArrayLike, labels: Sequence[Hashable] | np.ndarray) -> Clusters:
    """Measure how labelled embeddings cluster, by Euclidean distance, without normalising them (S0-50, S0-51).

    Parameters
    ----------
    embeddings : array of shape (n, d)
        Of concept names, :func:`distinct_texts` taken; or of images.
    labels : sequence of length n
        The language of each name, or the country of each image.

    Raises
    ------
    InputError
        If fewer than two labels came, shapes do not fit, or a value is not finite.
    """
    points = as_matrix(embeddings, "embeddings")
    codes, classes = as_labels(np.asarray(labels), len(points), minimum_classes=2)
    found = silhouette_scores(points, np.asarray(labels), metric="euclidean")
    compactness, counts = {}, {}
    for code, label in enumerate(classes):
        own = points[codes == code]
        counts[str(label)] = len(own)
        # From the first of them, so that points that coincide are exactly 0 from their mean.
        shifted = own - own[0]
        compactness[str(label)] = float(np.linalg.norm(shifted - shifted.mean(0), axis=1).mean())
    return Clusters(found.score, dict(found.by_label), compactness, counts, len(points))


def by_country(values: Mapping[str, float], languages: Mapping[str, str]) -> dict[str, float]:
    """Give each country the value of its language; countries that share one share the value (S0-52).

    Parameters
    ----------
    values : mapping of str to float
        By language.
    languages : mapping of str to str
        Country to language.

    Raises
    ------
    InputError
        If the language of a country has no value.
    """
    for country, language in languages.items():
        if language not in values:
            raise InputError(
                f"The language {language!r} of {country!r} has no value. There are values for: {', '.join(values)}."
            )
    return {country: values[language] for country, language in languages.items()}
