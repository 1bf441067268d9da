import numpy as np
import pytest

from interventions.averaging import leave_one_out, pool_average
from workbench.errors import InputError

N, D = 30, 6


@pytest.fixture
def embeddings():
    generator = np.random.default_rng(0)
    return {code: (k + 1) * generator.standard_normal((N, D)) for k, code in enumerate(("en", "de", "sw"))}


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_rows_are_normalised_averaged_and_normalised_again(embeddings):
    wanted = unit(sum(unit(rows) for rows in embeddings.values()))
    np.testing.assert_allclose(pool_average(embeddings), wanted, atol=1e-12)
    pair = unit(unit(embeddings["en"]) + unit(embeddings["sw"]))
    np.testing.assert_allclose(pool_average(embeddings, ["sw", "en"]), pair, atol=1e-12)
    np.testing.assert_allclose(pool_average(embeddings, ["de"]), unit(embeddings["de"]), atol=1e-12)


def test_the_length_of_a_languages_embeddings_does_not_count(embeddings):
    longer = {code: rows * (50 if code == "sw" else 1) for code, rows in embeddings.items()}
    np.testing.assert_allclose(pool_average(longer), pool_average(embeddings), atol=1e-12)


def test_centroid_cosine_times_the_length_of_the_mean_is_the_mean_cosine(embeddings):
    """S3-34's identity, for each item."""
    image = unit(np.random.default_rng(1).standard_normal((N, D)))
    mean = np.mean([unit(rows) for rows in embeddings.values()], axis=0)
    centroid = (image * pool_average(embeddings)).sum(axis=1)
    np.testing.assert_allclose(centroid * np.linalg.norm(mean, axis=1), (image * mean).sum(axis=1), atol=1e-12)


def test_weights(embeddings):
    equal = pool_average(embeddings, weights={"en": 2, "de": 2, "sw": 2})
    np.testing.assert_allclose(equal, pool_average(embeddings), atol=1e-12)
    heavy = pool_average(embeddings, weights={"en": 3, "sw": 1})
    np.testing.assert_allclose(heavy, unit(3 * unit(embeddings["en"]) + unit(embeddings["sw"])), atol=1e-12)


def test_leave_one_out_has_no_trace_of_the_language(embeddings):
    apart = leave_one_out(embeddings)
    assert list(apart) == ["en", "de", "sw"]
    changed = leave_one_out({**embeddings, "sw": np.ones((N, D))})
    np.testing.assert_array_equal(apart["sw"], changed["sw"])
    np.testing.assert_array_equal(apart["sw"], pool_average(embeddings, ["en", "de"]))
    assert not np.allclose(apart["en"], changed["en"])


def test_bad_input_is_named(embeddings):
    cancel = {"en": embeddings["en"], "xx": -embeddings["en"]}
    cases = [
        (lambda: pool_average(embeddings, ["en", "fr"]), "no embeddings in 'fr'"),
        (lambda: pool_average(embeddings, ["en", "en"]), "'en' is in the pool twice"),
        (lambda: pool_average(embeddings, []), "No language"),
        (lambda: pool_average(embeddings, "en"), "name them as a list"),
        (lambda: pool_average(embeddings, weights={"en": -1}), "weights"),
        (lambda: pool_average(embeddings, weights={"fr": 1}), "weights"),
        (lambda: pool_average(cancel), "image 0 cancel over en, xx"),
        (lambda: pool_average({**embeddings, "sw": embeddings["sw"][:-1]}), r"'sw' have shape \(29, 6\)"),
        (lambda: pool_average({**embeddings, "sw": np.zeros((N, D))}), "image 0 in 'sw' is zero"),
        (lambda: pool_average({**embeddings, "sw": np.full((N, D), np.nan)}), "'sw' holds NaN"),
        (lambda: leave_one_out(embeddings, ["en"]), "two languages or more"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()
