import numpy as np
import pytest

from probes.input_information import token_information
from workbench.errors import InputError


def captions(n=120, words=8, seed=0):
    """Captions of three tokens of a small vocabulary; an image is the sum of what its tokens mean."""
    generator = np.random.default_rng(seed)
    ids = generator.integers(1, 40, size=(n, words))
    content = np.zeros((n, words), dtype=bool)
    content[:, :3] = True
    meaning = generator.standard_normal((40, 24))
    images = np.stack([meaning[row[:3]].sum(0) for row in ids])
    return ids, content, images


def test_tokens_that_mean_the_image_find_it_and_others_do_not():
    ids, content, images = captions()
    told = token_information(ids, content, images)
    chance = np.mean(1 / np.arange(1, 61)) * 100
    shuffled = token_information(np.random.default_rng(1).permutation(ids), content, images)
    assert told.mean > 60
    assert abs(shuffled.mean - chance) < 5
    assert (told.n, told.tokens) == (120, 39)


def test_what_stands_outside_the_content_is_not_read():
    ids, content, images = captions()
    other = ids.copy()
    other[:, 3:] = 7
    assert np.array_equal(
        token_information(ids, content, images).reciprocal_rank,
        token_information(other, content, images).reciprocal_rank,
    )


def test_names_and_order_of_tokens_do_not_matter():
    ids, content, images = captions()
    renamed = 1000 - ids
    turned = ids.copy()
    turned[:, :3] = turned[:, :3][:, ::-1]
    wanted = token_information(ids, content, images).reciprocal_rank
    for other in (renamed, turned):
        np.testing.assert_allclose(token_information(other, content, images).reciprocal_rank, wanted, atol=1e-6)


def test_lost_tokens_lose_information():
    ids, content, images = captions()
    means = []
    for left in (3, 2, 1):
        kept = content.copy()
        kept[:, left:] = False
        means.append(token_information(ids, kept, images).mean)
    assert means[0] > means[1] + 10 > means[2] + 20


def test_captions_that_say_nothing_are_at_the_expected_rank_of_a_tie():
    ids, content, images = captions()
    silent = token_information(np.zeros_like(ids), content, images)
    assert silent.mean == pytest.approx(100 / (1 + 59 / 2), abs=1e-9)


def test_the_same_seed_gives_the_same_split():
    ids, content, images = captions()
    one, two, other = (token_information(ids, content, images, seed=s).reciprocal_rank for s in (0, 0, 1))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_bad_input_teaches():
    ids, content, images = captions()
    with pytest.raises(InputError, match="one caption an image"):
        token_information(ids[:-1], content[:-1], images)
    with pytest.raises(InputError, match="too few"):
        token_information(ids[:10], content[:10], images[:10])
    images[0, 0] = np.nan
    with pytest.raises(InputError, match="NaN"):
        token_information(ids, content, images)
