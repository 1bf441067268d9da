"""How much a caption's tokens say about its image, before any block has run.

A language can be lost before the tower begins: a tokeniser that splits it to bits, drops what it does not know
or cuts long captions. Nothing inside the tower shows that as such. So the tokens are asked directly: from the
counts of a caption's tokens alone, weighted by how rare each is, a ridge regression predicts the embedding of
the caption's image, is fitted on some images and ranks the others. The model is no part of it; the same tokens
give the same answer whatever the blocks do with them.

The absolute level means little, as a bag of tokens is a poor reader. What is compared is a language with
another on the same images: captions that lost tokens lose this information, and a fault inside the tower
leaves it as it was, to the last bit.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import linalg, sparse
from scipy.sparse.linalg import norm as sparse_norm

from workbench.errors import InputError
from workbench.splits import generator as seeded

_SMALLEST = 10


@dataclass(frozen=True)
class InputInformation:
    """What the tokens of one language say.

    Attributes
    ----------
    reciprocal_rank : array of shape (n,)
        Of each caption's own image among those that the regression was not fitted on; in percent.
    n, tokens : int
        Captions, and distinct tokens among them.
    """

    reciprocal_rank: Float[np.ndarray, " n"]
    n: int
    tokens: int

    @property
    def mean(self) -> float:
        """Mean reciprocal rank in percent."""
        return float(self.reciprocal_rank.mean())


def token_information(
    input_ids: Int[np.ndarray, "n position"],
    content: Bool[np.ndarray, "n position"],
    images: Float[np.ndarray, "n embedding"],
    *,
    folds: int = 2,
    penalty: float = 0.1,
    seed: int = 0,
) -> InputInformation:
    """Predict images from the tokens of their captions, on images that were held out.

    Parameters
    ----------
    input_ids : int array of shape (n, position)
        One caption an image.
    content : bool array of shape (n, position)
        Which tokens are text.
    images : array of shape (n, embedding)
        Embeddings of the images, row by row.
    folds : int
        The images are split into so many parts by the seed; each is ranked by a fit on the others.
    penalty : float
        Of the ridge, in mean squared norms of a caption.
    seed : int
        The same seed gives every language the same split.

    Returns
    -------
    InputInformation

    Raises
    ------
    InputError
        If the arrays do not fit each other, or there are too few captions.
    """
    ids, mask, targets = np.asarray(input_ids), np.asarray(content, dtype=bool), np.asarray(images, dtype=np.float64)
    n = len(targets)
    if ids.shape != mask.shape or len(ids) != n:
        raise InputError(
            f"Tokens of shape {ids.shape}, a mask of {mask.shape} and {n} images came; give one caption an image."
        )
    if n < _SMALLEST * folds:
        raise InputError(f"{n} captions are too few to predict from; {_SMALLEST * folds} are needed for {folds} folds.")
    if not np.isfinite(targets).all():
        raise InputError("The embeddings of the images hold NaN or infinity.")
    counts = _weighted_counts(ids, mask)
    order = seeded(seed).permutation(n)
    scores = np.zeros(n)
    for fold in range(folds):
        held_out = np.sort(order[fold::folds])
        fitted = np.setdiff1d(np.arange(n), held_out)
        scores[held_out] = _held_out(counts, targets, fitted, held_out, penalty)
    return InputInformation(100 * scores, n, len(np.unique(ids[mask])))


def _weighted_counts(ids: np.ndarray, mask: np.ndarray) -> sparse.csr_matrix:
    """Unit rows of token counts, each times the logarithm of how rare its token is."""
    rows = np.nonzero(mask)[0]
    distinct, columns = np.unique(ids[mask], return_inverse=True)
    width = max(len(distinct), 1)
    counts = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(ids), width))
    holding = np.bincount(counts.tocoo().col, minlength=width)
    rarity = np.log((1 + len(ids)) / (1 + holding))
    weighted = sparse.csr_matrix(counts.multiply(rarity[None]))
    norms = sparse_norm(weighted, axis=1)
    return sparse.csr_matrix(weighted.multiply(1 / np.maximum(norms, 1e-30)[:, None]))


def _held_out(
    counts: sparse.csr_matrix, targets: np.ndarray, fitted: np.ndarray, held_out: np.ndarray, penalty: float
) -> np.ndarray:
    """Reciprocal ranks of held-out images, ties at their expected place."""
    centre = np.asarray(counts[fitted].mean(0))
    seen, new = counts[fitted].toarray() - centre, counts[held_out].toarray() - centre
    mean = targets[fitted].mean(0)
    gram = seen @ seen.T
    ridge = penalty * max(np.trace(gram), 1e-12) / len(fitted)
    weights = linalg.solve(gram + ridge * np.eye(len(fitted)), targets[fitted] - mean, assume_a="pos")
    predicted = (new @ seen.T) @ weights
    gallery = targets[held_out] - mean
    gallery /= np.maximum(np.linalg.norm(gallery, axis=1, keepdims=True), 1e-30)
    similarity = predicted @ gallery.T
    own = np.diag(similarity)[:, None]
    better = (similarity > own).sum(1)
    tied = (similarity == own).sum(1) - 1
    return 1 / (1 + better + tied / 2)
