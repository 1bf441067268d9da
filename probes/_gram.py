"""Sums over pairs of captions that CKA is made of, without ever holding a Gram matrix whole.

For centred rows X and Y of the same captions, ||Xᵀ Y||²_F is the sum of Kᵢⱼ Lᵢⱼ over all pairs of captions,
with K = X Xᵀ and L = Y Yᵀ. Two things are needed beside it, and both come from sums that are there anyway:

*Captions taken away* (for a jackknife). Leaving out a group g changes the sum over pairs by those pairs that
touch g, so one pass over strips of K, a strip a group, serves every group.

*Captions shuffled* (for a null). Put the captions on a circle in random order and turn each language by
another amount: that is a permutation without a fixed caption. The sum for *all* turns at once is a circular
correlation of the wrapped diagonals of K and L, which a Fourier transform gives at the price of a few plain
sums, where shuffling anew would cost one each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from probes._checks import Rows

_STRIP = 2**27  # bytes of one intermediate array
_BAND = 128  # rows of a band of diagonals


@dataclass(frozen=True)
class Products:
    """What CKA of every pair of languages is made of.

    Attributes
    ----------
    cross : array of shape (language, language)
        ||Xᵀ Y||²_F, columns centred.
    sizes : array of shape (language, n)
        Squared norms of the centred rows.
    """

    cross: Float[np.ndarray, "l l"]
    sizes: Float[np.ndarray, "l n"]


def products(rows: Rows, groups: Sequence[Int[np.ndarray, " own"]] = ()) -> tuple[Products, list[Products]]:
    """Return the products of all captions, and those without each group.

    Parameters
    ----------
    rows : array of shape (language, caption, feature)
    groups : sequence of int arrays
        Together all captions, each once; or nothing.

    Returns
    -------
    tuple of Products and list of Products
    """
    centred = rows - rows.mean(axis=1, keepdims=True)
    way = _by_covariances if covariances_are_cheaper(*rows.shape) else _by_grams
    cross, without = way(centred, groups)
    rest = []
    for group, own in zip(groups, without, strict=True):
        kept = np.delete(centred, group, axis=1)
        rest.append(Products(own, np.square(kept - kept.mean(axis=1, keepdims=True)).sum(axis=2)))
    return Products(cross, np.square(centred).sum(axis=2)), rest


def covariances_are_cheaper(languages: int, n: int, d: int) -> bool:
    """Whether (d, d) matrices of all pairs take fewer multiplications than (n, n) matrices of all languages."""
    pairs = languages * (languages + 1) // 2
    return pairs * n * d * d < languages * n * n * d + languages * languages * n * n


def _by_covariances(centred: Rows, groups: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    languages, n, _ = centred.shape
    cross, without = np.zeros((languages, languages)), [np.zeros((languages, languages)) for _ in groups]
    for a in range(languages):
        for b in range(a + 1):
            whole = centred[a].T @ centred[b]
            cross[a, b] = cross[b, a] = np.vdot(whole, whole)
            for group, own in zip(groups, without, strict=True):
                x, y = centred[a, group], centred[b, group]
                # The kept captions sum to minus the sum of the group, since all sum to 0.
                rest = whole - x.T @ y - np.outer(x.sum(axis=0), y.sum(axis=0)) / (n - len(group))
                own[a, b] = own[b, a] = np.vdot(rest, rest)
    return cross, without


def _by_grams(centred: Rows, groups: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    languages, n, _ = centred.shape
    across = centred.transpose(0, 2, 1)
    cross, without = np.zeros((languages, languages)), []
    for group in groups or [np.arange(n)]:
        touching, inside = np.zeros_like(cross), np.zeros_like(cross)
        for strip in np.array_split(group, -(-8 * languages * n * len(group) // _STRIP)):
            gram = centred[:, strip] @ across
            touching += _inner(gram)
            if groups:
                inside += _inner(gram[:, :, group])
        cross += touching
        without.append(inside - 2 * touching)
    if not groups:
        return cross, []
    for place, group in enumerate(groups):
        kept = np.delete(centred, group, axis=1)
        total = kept.sum(axis=1)  # language, feature
        to_total = np.einsum("lid,ld->li", kept, total)  # sums of the rows of the kept Gram
        whole, m = np.square(total).sum(axis=1), kept.shape[1]
        without[place] += cross - 2 / m * (to_total @ to_total.T) + np.outer(whole, whole) / m**2
    return cross, without


def _inner(gram: Float[np.ndarray, "l s n"]) -> Float[np.ndarray, "l l"]:
    flat = np.ascontiguousarray(gram).reshape(len(gram), -1)
    return flat @ flat.T


def turned_products(rows: Rows) -> Float[np.ndarray, "turn l l"]:
    """Return ||Xᵀ Y||²_F of every pair of languages with Y's captions turned by 0, 1, ..., n-1 places.

    Parameters
    ----------
    rows : array of shape (language, caption, feature)

    Returns
    -------
    array of shape (n, language, language)
        Entry [s, a, b] pairs caption i of language a with caption i + s (modulo n) of language b.
    """
    centred = rows - rows.mean(axis=1, keepdims=True)
    languages, n, _ = centred.shape
    last = n // 2
    circle = np.concatenate([centred, centred[:, : last + 1]], axis=1)
    spectrum = np.zeros((last + 1, languages, languages), dtype=np.complex128)
    block = max(1, min(last + 1, _STRIP // (16 * languages * n)))
    for start in range(0, last + 1, block):
        stop = min(start + block, last + 1)
        diagonals = np.fft.rfft(_wrapped_diagonals(circle, n, start, stop), axis=-1)
        # A diagonal and its mirror image have the same correlation; the main one, and for even n the middle
        # one, are their own mirror.
        offsets = np.arange(start, stop)
        weight = np.where((offsets == 0) | (2 * offsets == n), 1.0, 2.0)
        by_frequency = diagonals.transpose(2, 0, 1)
        spectrum += (by_frequency.conj() * weight) @ by_frequency.transpose(0, 2, 1)
    return np.fft.irfft(spectrum, n=n, axis=0)


def _wrapped_diagonals(circle: Rows, n: int, start: int, stop: int) -> Float[np.ndarray, "l offset n"]:
    """Return K[i, (i + offset) modulo n] for offsets from ``start`` to ``stop``."""
    languages, width = len(circle), stop - start
    found = np.empty((languages, width, n))
    for first in range(0, n, _BAND):
        own = min(_BAND, n - first)
        columns = circle[:, first + start : first + own + stop - 1]
        band = np.ascontiguousarray(circle[:, first : first + own] @ columns.transpose(0, 2, 1))
        step = band.strides
        # Row r of the band holds the wanted entries from column r on.
        view = np.lib.stride_tricks.as_strided(
            band, (languages, own, width), (step[0], step[1] + step[2], step[2]), writeable=False
        )
        found[:, :, first : first + own] = view.transpose(0, 2, 1)
    return found
