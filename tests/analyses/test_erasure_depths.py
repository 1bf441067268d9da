# pyright: reportOptionalMemberAccess=false
import numpy as np
import pytest
import xarray

from analyses.erasure_depths import language_by_depth
from interventions.erasers import MeanDifference
from workbench.errors import InputError

N, D = 120, 10
LANGUAGES = ["en", "de", "sw"]


def trajectory(captions: int = 1) -> xarray.DataArray:
    """Three depths: the same row everywhere, a planted language, and content alone."""
    generator = np.random.default_rng(0)
    content = generator.standard_normal((N * captions, D))
    rows = np.empty((3, N * captions, 3, D), dtype=np.float32)
    for k in range(3):
        rows[k, :, 0] = 1.0
        rows[k, :, 1] = content + 0.2 * generator.standard_normal(content.shape) + 5 * np.eye(D)[k]
        rows[k, :, 2] = content + 0.2 * generator.standard_normal(content.shape)
    names = [
        f"image {row // captions}" + (f"#{row % captions}" if row % captions else "") for row in range(len(content))
    ]
    return xarray.DataArray(
        rows, dims=("language", "caption", "depth", "feature"),
        coords={"language": LANGUAGES, "caption": names, "depth": [0, 1, 2]}, attrs={"tower": "toy"},
    )  # fmt: skip


def test_language_is_read_where_it_is_and_gone_after_the_eraser():
    answer = language_by_depth(trajectory(), resamples=50)
    table = answer.table.set_index(["depth", "rows"])["accuracy"]
    assert table[0, "before"] == table[0, "LEACE"] == pytest.approx(100 / 3)
    assert table[1, "before"] > 97
    assert abs(table[1, "LEACE"] - 100 / 3) < 12
    assert abs(table[2, "before"] - 100 / 3) < 12
    assert answer.table["block"].tolist() == [-1, -1, 0, 0, 1, 1]
    assert f"{N // 2} held-out images" in answer.title


def test_second_captions_stay_with_their_image():
    answer = language_by_depth(trajectory(captions=3), depths=[1], resamples=50)
    assert set(answer.table["images"]) == {N // 2}
    assert set(answer.table["n"]) == {3 * 3 * N // 2}


def test_token_counts_and_other_erasers():
    tokens = np.repeat([[3], [5], [7]], N, axis=1)
    answer = language_by_depth(trajectory(), tokens=tokens, eraser=MeanDifference(), depths=[1], resamples=50)
    assert set(answer.table["rows"]) == {"before", "MeanDifference"}
    assert (answer.table["token count"] == 100).all()
    assert "token count alone" in str(answer.figure.to_json())


def test_bad_input_is_named():
    with pytest.raises(InputError, match="no depth 7"):
        language_by_depth(trajectory(), depths=[7])
    with pytest.raises(InputError, match=r"tokens has shape \(2,\)"):
        language_by_depth(trajectory(), tokens=np.ones(2))
    with pytest.raises(InputError, match="no classifier 'tree'"):
        language_by_depth(trajectory(), classifier="tree")
