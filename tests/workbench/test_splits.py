import numpy as np
import pytest

from workbench.errors import InputError
from workbench.splits import image_folds, split_by_image


def test_captions_of_an_image_stay_together_and_every_row_is_on_one_side():
    images = np.repeat([f"image {k}" for k in range(31)], 3)
    for share in (0.2, 0.5, 0.9):
        train, test = split_by_image(images, test_share=share, seed=4)
        assert (train ^ test).all()
        assert not set(images[train]) & set(images[test])
        assert len(set(images[test])) == np.ceil(share * 31)


def test_languages_with_the_same_images_are_split_alike():
    images = np.arange(40)
    train, _ = split_by_image(images, seed=2)
    both, _ = split_by_image(np.tile(images, 2), seed=2)
    np.testing.assert_array_equal(both, np.tile(train, 2))
    assert not np.array_equal(train, split_by_image(images, seed=3)[0])


def test_folds_are_of_like_size_and_keep_images_together():
    images = np.repeat(np.arange(23), 4)
    folds = image_folds(images, 5, seed=1)
    sizes = [len(set(images[folds == k])) for k in range(5)]
    assert sorted(sizes) == [4, 4, 5, 5, 5]
    assert all(len(set(folds[images == image])) == 1 for image in range(23))
    np.testing.assert_array_equal(folds, image_folds(images, 5, seed=1))
    assert not np.array_equal(folds, image_folds(images, 5, seed=2))


@pytest.mark.parametrize("share", [0, 1, -0.1, 0.99])
def test_an_empty_side_is_refused(share):
    with pytest.raises(InputError, match="test_share"):
        split_by_image(np.arange(5), test_share=share)


def test_too_few_images_are_refused():
    with pytest.raises(InputError, match="two images or more; 1 came"):
        split_by_image(np.zeros(9))
    for folds in (1, 4):
        with pytest.raises(InputError, match="folds came for 3 images"):
            image_folds(np.arange(3), folds)
