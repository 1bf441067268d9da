import numpy as np
import pytest

from probes import probe_language
from workbench.errors import InputError

N, D = 200, 12


def embeddings(shift: float, languages=("en", "sw", "te"), seed=0):
    generator = np.random.default_rng(seed)
    content = generator.standard_normal((N, D))
    return {
        language: content + 0.3 * generator.standard_normal((N, D)) + shift * np.eye(D)[k]
        for k, language in enumerate(languages)
    }


def test_a_planted_language_direction_is_read_and_its_absence_is_chance():
    found = probe_language(embeddings(8.0), np.arange(N))
    assert found.accuracy > 99
    assert found.chance == pytest.approx(100 / 3)
    assert found.confusion.sum() == found.n_test == 3 * N // 2
    assert abs(probe_language(embeddings(0.0), np.arange(N)).accuracy - 100 / 3) < 8


def test_images_never_stand_on_both_sides():
    """Rows that repeat the image and nothing of the language would be told apart by a leaky split."""
    generator = np.random.default_rng(0)
    rows = {language: generator.standard_normal((N, 2 * N)) for language in ("en", "sw")}
    assert abs(probe_language(rows, np.arange(N)).accuracy - 50) < 12
    found = probe_language(embeddings(1.0), np.repeat(np.arange(N // 4), 4))
    assert found.n_train + found.n_test == 3 * N


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"en": np.ones((N, D))}, "two languages or more; 1 came"),
        ({"en": np.ones((N, D)), "sw": np.ones((N - 1, D))}, r"'sw' have shape \(199, 12\)"),
        ({"en": np.ones((N, D)), "sw": np.full((N, D), np.nan)}, "'sw' holds NaN"),
    ],
)
def test_bad_input_is_named(rows, message):
    with pytest.raises(InputError, match=message):
        probe_language(rows, np.arange(N))
    with pytest.raises(InputError, match="two images"):
        probe_language(embeddings(0.0), np.zeros(N))
