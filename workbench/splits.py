"""Splits by image: all captions of an image stand on one side, whatever their language.

Captions of one image say the same in every language. If some of them were fitted on and others scored, a
classifier could tell languages apart by remembering images, and an eraser would be judged on content that it
has seen. So every split of this bench is drawn over images (AMB-15), with a seed, and never over rows.
"""

import numpy as np
from jaxtyping import Bool, Int, Shaped

from workbench.errors import InputError

LARGEST_SEED = 2**32 - 1
"""Every library that draws takes a seed up to this one."""


def check_seed(seed: int) -> int:
    """Return a seed, or say which ones there are."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed <= LARGEST_SEED:
        shown = str(seed) if not isinstance(seed, int) or abs(seed) < 10**20 else f"of {len(hex(seed)) - 2} hex digits"
        raise InputError(f"The seed {shown} came; a seed is a whole number from 0 to {LARGEST_SEED:,}, such as 0.")
    return int(seed)


def generator(seed: int, *purpose: int) -> np.random.Generator:
    """Return a generator that depends on a seed and on what it is for."""
    return np.random.default_rng([check_seed(seed), *purpose] if purpose else check_seed(seed))


def split_by_image(
    images: Shaped[np.ndarray, " row"], *, test_share: float = 0.5, seed: int = 0
) -> tuple[Bool[np.ndarray, " row"], Bool[np.ndarray, " row"]]:
    """Draw which rows are fitted on and which are held out.

    Parameters
    ----------
    images : array of shape (row,)
        Which image each row belongs to: numbers or ids.
    test_share : float
        Share of images that are held out, between 0 and 1.
    seed : int

    Returns
    -------
    train, test : bool arrays of shape (row,)
        Each row is in exactly one of them. The draw depends on the set of images and the seed alone, so that
        two languages with the same images are split alike.

    Raises
    ------
    InputError
        If there are fewer than two images, or a side would be left empty.
    """
    from sklearn.model_selection import GroupShuffleSplit

    images = np.asarray(images)
    n = len(np.unique(images))
    if n < 2:
        raise InputError(f"A split by image needs two images or more; {n} came.")
    if not 0 < test_share < 1:
        raise InputError(f"test_share={test_share} came; it is a share of the images, between 0 and 1.")
    if not 1 <= np.ceil(test_share * n) < n:
        raise InputError(f"test_share={test_share} leaves no image to fit on out of {n}. Use a smaller one.")
    _, held_out = next(
        GroupShuffleSplit(1, test_size=test_share, random_state=check_seed(seed)).split(images, groups=images)
    )
    test = np.zeros(len(images), dtype=bool)
    test[held_out] = True
    return ~test, test


def image_folds(images: Shaped[np.ndarray, " row"], folds: int, *, seed: int = 0) -> Int[np.ndarray, " row"]:
    """Deal images into folds of like size, and return the fold of each row.

    Parameters
    ----------
    images : array of shape (row,)
        Which image each row belongs to.
    folds : int
        At least 2, at most the number of images.
    seed : int

    Returns
    -------
    int array of shape (row,)
        From 0 to ``folds - 1``; rows of one image share theirs.

    Raises
    ------
    InputError
        If there are fewer images than folds, or fewer than two folds.
    """
    names, place = np.unique(np.asarray(images), return_inverse=True)
    if not 2 <= folds <= len(names):
        raise InputError(f"{folds} folds came for {len(names)} images; use at least 2, and at most one an image.")
    dealt = np.arange(len(names)) % folds
    return generator(seed, 15).permutation(dealt)[place]
