"""Scores of an image, for analyses that rank embeddings of their own making against a gallery.

A mean with a paired interval needs one number an image in every arm; and every arm must be ranked the same
way: unit rows, similarities in float32, expected score where candidates tie.
"""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.arrays import ArrayLike, as_matrix
from workbench.errors import InputError
from workbench.languages import tier_map as resolve_tier_map
from workbench.retrieval import Direction, rank, unit

DIRECTIONS: tuple[Direction, ...] = ("i2t", "t2i")


def unit_rows(embeddings: ArrayLike, name: str) -> Float[Tensor, "n d"]:
    """Return embeddings as unit rows in float32; NaN and zero rows are refused."""
    return unit(torch.from_numpy(as_matrix(embeddings, name)), name)


def image_scores(
    texts: ArrayLike, gallery: Float[Tensor, "image d"], name: str, metric: str = "R@1"
) -> dict[Direction, Float[np.ndarray, " image"]]:
    """Score one text an image against a gallery.

    Parameters
    ----------
    texts : array of shape (image, d)
        Row i describes image i; normalised here.
    gallery : Tensor of shape (image, d)
        Unit rows.
    name : str
        How a message calls the texts.
    metric : str
        ``"R@k"`` or ``"MRR"``.

    Returns
    -------
    dict of direction to array of shape (image,)
        In percent.
    """
    ranks = rank(unit_rows(texts, name), gallery, torch.arange(len(gallery)))
    return {direction: ranks[direction].score(metric) for direction in DIRECTIONS}


def unit_languages(
    embeddings: Mapping[str, ArrayLike], gallery: ArrayLike
) -> tuple[dict[str, Float[np.ndarray, "image d"]], Float[Tensor, "image d"]]:
    """Check parallel embeddings and their gallery, and return both as unit rows.

    Returns
    -------
    dict of str to float64 array of shape (image, d)
    Tensor of shape (image, d)
    """
    images = unit_rows(gallery, "gallery")
    rows = {}
    for language, values in embeddings.items():
        found = unit_rows(values, f"{language} embeddings")
        if found.shape != images.shape:
            raise InputError(
                f"The embeddings in {language!r} have shape {tuple(found.shape)} and the gallery "
                f"{tuple(images.shape)}. Give one caption an image, in the order of the gallery, from one tower."
            )
        rows[language] = found.double().numpy()
    if not rows:
        raise InputError("No language came. Give embeddings by language.")
    return rows, images


def tier_groups(
    languages: Mapping[str, object], tier_map: str | Mapping[str, str]
) -> tuple[str, list[tuple[str, str, list[str]]]]:
    """Return a tier map's name, and (language, tier, members) of each language and then of each tier's mean."""
    name, tiers = resolve_tier_map(tier_map)
    groups = [(language, tiers.get(language, ""), [language]) for language in languages]
    for tier in dict.fromkeys(tiers.values()):
        members = [language for language in languages if tiers.get(language) == tier]
        if members:
            groups.append(("mean", tier, members))
    return name, groups
