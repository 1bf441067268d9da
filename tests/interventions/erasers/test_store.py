# pyright: reportArgumentType=false
import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from interventions.erasers import INLP, LEACE, AdversarialEraser, RandomAblation, load_eraser, save_eraser
from tests.interventions.erasers.rows import planted
from workbench.errors import InputError

FITTED = [LEACE(tolerance=1e-5), INLP(5, C=0.5), RandomAblation(6, seed=3), AdversarialEraser(hidden=8, steps=10)]
KEY = "eos-workbench eraser"


@pytest.fixture
def towers(get_tower):
    return get_tower("emoji-causal"), get_tower("emoji-bidirectional")


@pytest.mark.parametrize("eraser", FITTED, ids=repr)
def test_a_saved_eraser_comes_back_whole(eraser, towers, tmp_path):
    rows, labels = planted()
    eraser.fit(rows, labels)
    path = save_eraser(eraser, tmp_path / "eraser.safetensors", towers[0], 9)
    found = load_eraser(path, towers[0], 9)
    assert type(found) is type(eraser)
    assert found.get_params() == eraser.get_params()
    assert found.languages_ == eraser.languages_
    np.testing.assert_array_equal(found.transform(rows), eraser.transform(rows))
    for name in eraser.fitted_names():
        np.testing.assert_array_equal(getattr(found, name), getattr(eraser, name))
    assert save_eraser(found, tmp_path / "again.safetensors", towers[0], 9).read_bytes() == path.read_bytes()


def test_it_is_refused_on_another_tower_and_at_another_place(towers, tmp_path):
    causal, bidirectional = towers
    eraser = LEACE().fit(*planted())
    path = save_eraser(eraser, tmp_path / "leace.safetensors", causal, "output")
    with pytest.raises(InputError, match=r"fitted on rows of 'emoji-causal'.* this tower is 'emoji-bidirectional'"):
        load_eraser(path, bidirectional, "output")
    with pytest.raises(InputError, match="embeddings at the output, not on rows of depth 3"):
        load_eraser(path, causal, 3)
    for place in (13, -1, True, "top"):
        with pytest.raises(InputError, match="depths 0 to 12"):
            load_eraser(path, causal, place)
        with pytest.raises(InputError, match="depths 0 to 12"):
            save_eraser(eraser, path, causal, place)
    with pytest.raises(InputError, match="not fitted"):
        save_eraser(LEACE(), path, causal, 3)
    with pytest.raises(InputError, match=r"\.safetensors file"):
        save_eraser(eraser, tmp_path / "leace.pkl", causal, 3)


def test_a_broken_file_is_named(towers, tmp_path):
    tower = towers[0]
    path = save_eraser(LEACE().fit(*planted()), tmp_path / "leace.safetensors", tower, 3)
    with pytest.raises(InputError, match="There is no eraser"):
        load_eraser(tmp_path / "absent.safetensors", tower, 3)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"not tensors"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="truncated or no eraser"):
            load_eraser(path, tower, 3)
    save_file({"left_": np.zeros(3)}, path)
    with pytest.raises(InputError, match="is no eraser: its header"):
        load_eraser(path, tower, 3)


def header(path) -> dict:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()[KEY])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 9}, "has format 9"),
        ({"class": "Popen"}, "is a 'Popen', which is not imported"),
        ({"parameters": {"shell": True}}, "damaged"),
        ({"numbers": {"__class__": 1}}, r"unknown attributes \['__class__'\]"),
        ({"numbers": {"n_features_in_": 7}}, "damaged: .* has shape"),
        ({"numbers": {}}, "damaged"),
    ],
)
def test_a_tampered_header_is_refused(change, message, towers, tmp_path):
    path = save_eraser(LEACE().fit(*planted()), tmp_path / "leace.safetensors", towers[0], 3)
    arrays, entry = load_file(path), header(path)
    save_file(arrays, path, metadata={KEY: json.dumps({**entry, **change})})
    with pytest.raises(InputError, match=message):
        load_eraser(path, towers[0], 3)


def test_numbers_that_are_not_finite_are_refused(towers, tmp_path):
    path = save_eraser(LEACE().fit(*planted()), tmp_path / "leace.safetensors", towers[0], 3)
    arrays, entry = load_file(path), header(path)
    arrays["left_"][0, 0] = np.nan
    save_file(arrays, path, metadata={KEY: json.dumps(entry)})
    with pytest.raises(InputError, match="damaged"):
        load_eraser(path, towers[0], 3)
