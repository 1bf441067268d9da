"""The modality gap, and two ways to average cosines over languages (S3-34, S3-90).

Images and captions of a dual encoder lie in two separate clouds on the sphere; the *gap* is the distance
between the means of the unit embeddings. How large that is depends on how wide the clouds are, so it is also
given *relative* to their spread (AMB-35):

    raw = ||mean v - mean z||,     relative = raw / ((s_v + s_z) / 2),     s = mean distance to the own mean.

Averaging captions over languages can be done before or after the cosine with the image v. Before, the mean of
unit captions is normalised again (*centroid cosine*); after, the cosines are averaged (*mean cosine*). For unit
vectors the two differ by a factor that has nothing to do with the image, exactly:

    centroid cosine × ||mean_L z^L|| = mean cosine.

So that the centroid scores higher (it does wherever the mean is positive) says nothing about its direction.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from probes._checks import parallel_rows
from probes._resampling import Estimates, check_count, mean_over_captions
from workbench.arrays import ArrayLike, as_matrix, check_rows
from workbench.errors import InputError


@dataclass(frozen=True)
class ModalityGap:
    """Distances between the cloud of images and that of a language's captions.

    Attributes
    ----------
    languages : tuple of str
    raw, relative : Estimates of arrays of shape (language,)
        With 95 % bootstrap intervals over images; every language sees the same resamples.
    image_spread : float
        Mean distance of unit image embeddings to their mean.
    text_spread : array of shape (language,)
    n, d : int
        Images (and captions of each language), and dimensions.
    """

    languages: tuple[str, ...]
    raw: Estimates
    relative: Estimates
    image_spread: float
    text_spread: Float[np.ndarray, " language"]
    n: int
    d: int


@dataclass(frozen=True)
class CentroidCosine:
    """Cosine of images with the centroid of several languages, beside the mean of their cosines.

    Attributes
    ----------
    languages : tuple of str
    centroid, mean, length : arrays of shape (n,)
        Of each image: cosine with the normalised centroid, mean of the cosines, and the norm of the centroid
        before it is normalised. ``centroid * length`` is ``mean``.
    n, d : int
    """

    languages: tuple[str, ...]
    centroid: Float[np.ndarray, " n"] = field(repr=False)
    mean: Float[np.ndarray, " n"] = field(repr=False)
    length: Float[np.ndarray, " n"] = field(repr=False)
    n: int
    d: int

    def estimates(self, *, resamples: int = 1000, seed: int = 0) -> dict[str, Estimates]:
        """Return ``centroid``, ``mean``, ``difference`` and ``length`` averaged over images, with intervals."""
        each = {
            "centroid": self.centroid,
            "mean": self.mean,
            "difference": self.centroid - self.mean,
            "length": self.length,
        }
        return {name: mean_over_captions(values, resamples=resamples, seed=seed) for name, values in each.items()}


def measure_modality_gap(
    images: ArrayLike, texts: Mapping[str, ArrayLike], *, resamples: int = 1000, seed: int = 0
) -> ModalityGap:
    """Measure the modality gap of every language.

    Parameters
    ----------
    images : array of shape (n, d)
        Embeddings; they are normalised here.
    texts : mapping of str to array of shape (n, d)
        Row i describes image i.
    resamples, seed : int
        Of the bootstrap.

    Returns
    -------
    ModalityGap

    Raises
    ------
    InputError
        If shapes differ, a row is zero or not finite, or fewer than 2 images came.
    """
    gallery, captions, languages = _units(images, texts)
    n, d = gallery.shape
    weights = _weights(n, check_count("resamples", resamples, 1), seed)
    middle, spread = _cloud(gallery, weights)
    raw, relative = [], []
    text_spread = []
    for own in captions:
        centre, width = _cloud(own, weights)
        gap = np.linalg.norm(middle - centre, axis=1)
        raw.append(gap)
        relative.append(_divide(gap, (spread + width) / 2))
        text_spread.append(width[0])
    return ModalityGap(
        languages, _estimates(raw), _estimates(relative), float(spread[0]), np.array(text_spread), n, d
    )  # fmt: skip


def centroid_cosine(images: ArrayLike, texts: Mapping[str, ArrayLike]) -> CentroidCosine:
    """Compare the two ways of averaging a language set.

    Parameters
    ----------
    images : array of shape (n, d)
    texts : mapping of str to array of shape (n, d)
        Row i describes image i in each language.

    Returns
    -------
    CentroidCosine

    Raises
    ------
    InputError
        If shapes differ, a row is zero or not finite, or the captions of an image cancel out.
    """
    gallery, captions, languages = _units(images, texts)
    mean = captions.mean(axis=0)
    length = np.linalg.norm(mean, axis=1)
    gone = np.flatnonzero(length < 1e-12)
    if len(gone):
        raise InputError(
            f"The captions of image {gone[0]} cancel out: their mean is zero, and a zero centroid has no cosine."
        )
    cosines = np.einsum("nd,lnd->ln", gallery, captions)
    centroid = np.einsum("nd,nd->n", gallery, mean / length[:, None])
    return CentroidCosine(languages, centroid, cosines.mean(axis=0), length, *gallery.shape)


def _units(
    images: ArrayLike, texts: Mapping[str, ArrayLike]
) -> tuple[np.ndarray, Float[np.ndarray, "language n d"], tuple[str, ...]]:
    gallery = as_matrix(images, "images")
    rows = parallel_rows(texts, minimum_rows=2)
    captions = rows.only()
    check_rows(len(gallery), {f"texts[{rows.languages[0]!r}]": captions[0]})
    if captions.shape[2] != gallery.shape[1]:
        raise InputError(f"Texts have {captions.shape[2]} dimensions and images {gallery.shape[1]}. Give one space.")
    units = [unit_rows(gallery, "images")]
    units += [unit_rows(own, f"texts of {name!r}") for name, own in zip(rows.languages, captions, strict=True)]
    return units[0], np.stack(units[1:]), rows.languages


def unit_rows(rows: Float[np.ndarray, "n d"], what: str) -> Float[np.ndarray, "n d"]:
    """Normalise rows in float64; refuse zero rows, which have no direction."""
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    zero = np.flatnonzero(size == 0)
    if len(zero):
        raise InputError(f"{len(zero)} of {len(rows)} rows of the {what} are zero, the first is row {zero[0]}.")
    return rows / size


def _weights(n: int, resamples: int, seed: int) -> Float[np.ndarray, "draw n"]:
    """Return how much each image counts: all alike, then in each resample."""
    from workbench.retrieval import Bootstrap

    return np.concatenate([np.full((1, n), 1 / n), Bootstrap(n, resamples, seed).weights])


def _cloud(points: Float[np.ndarray, "n d"], weights: Float[np.ndarray, "draw n"]) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of each draw, (draw, d), and the mean distance to it, (draw,)."""
    middle = weights @ points
    # |x - m|² is |x|² - 2 x·m + |m|²; the draws share x·m as one product. Seen from one of the points, so that the
    # numbers subtracted are no larger than the cloud and points that coincide have no spread at all.
    shifted = points - points[0]
    centre = weights @ shifted
    square = np.square(shifted).sum(axis=1) + np.square(centre).sum(axis=1, keepdims=True) - 2 * (centre @ shifted.T)
    return middle, (np.sqrt(np.maximum(square, 0)) * weights).sum(axis=1)


def _divide(gap: np.ndarray, spread: np.ndarray) -> np.ndarray:
    if spread[0] < 1e-9:
        raise InputError("All images are one point and so are all captions; a gap relative to no spread is undefined.")
    return gap / spread


def _estimates(values: list[Float[np.ndarray, " draw"]]) -> Estimates:
    stack = np.stack(values)
    return Estimates(stack[:, 0], *np.quantile(stack[:, 1:], [0.025, 0.975], axis=1))
