"""A patch of the last token, where a caption is scored by the vectors of all its tokens.

A late-interaction score (:mod:`workbench.late_interaction`) is a sum over the caption's tokens. In a causal tower
no token sees the last one, so that a patch of the last token's row changes the last term of that sum and no other::

    score = sum over the other tokens, which is computed once  +  the best match of the new last vector

:class:`LastTokenScores` is that, exactly, and costs one product a patch instead of one a token.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.late_interaction import MultiVectors, maxsim


def joined(parts: list[MultiVectors]) -> MultiVectors:
    """Put items of several batches into one, padded to the longest of all."""
    longest = max(part.mask.shape[1] for part in parts)
    tokens, masks = [], []
    for part in parts:
        missing = longest - part.mask.shape[1]
        tokens.append(torch.nn.functional.pad(torch.as_tensor(part.tokens), (0, 0, 0, missing)))
        masks.append(np.pad(np.asarray(part.mask), ((0, 0), (0, missing))))
    return MultiVectors(torch.cat(tokens), np.concatenate(masks))


def last_vectors(items: MultiVectors) -> Float[Tensor, "item d"]:
    """Return the vector of each item's last token."""
    return torch.as_tensor(items.tokens)[torch.arange(len(items)), _last(items)]


def without_last(items: MultiVectors) -> MultiVectors:
    """Return all vectors but the one of each item's last token."""
    mask = np.array(items.mask)
    mask[np.arange(len(items)), _last(items).numpy()] = False
    return MultiVectors(items.tokens, mask)


def _last(items: MultiVectors) -> Tensor:
    mask = torch.as_tensor(items.mask)
    return (mask * torch.arange(1, mask.shape[1] + 1)).argmax(-1)


@dataclass(frozen=True)
class LastTokenScores:
    """MaxSim of captions whose last vector is replaced, on one gallery.

    Attributes
    ----------
    rest : float32 array of shape (caption, image)
        The sum over all other tokens.
    gallery : MultiVectors
    """

    rest: Float[np.ndarray, "caption image"]
    gallery: MultiVectors

    @classmethod
    def of(cls, captions: MultiVectors, gallery: MultiVectors) -> "LastTokenScores":
        """Score what no patch of the last token touches."""
        return cls(maxsim(without_last(captions), gallery), gallery)

    def with_last(self, vectors: Float[Tensor, "caption d"]) -> Float[np.ndarray, "caption image"]:
        """Return the scores with these last vectors, which have length one; float32."""
        mask = torch.ones(len(vectors), 1, dtype=torch.bool)
        new = maxsim(MultiVectors(vectors[:, None], mask), self.gallery)
        return (self.rest.astype(np.float64) + new).astype(np.float32)
