"""Loading towers of open_clip. All but one test need it, as in test_open_clip.py."""

import contextlib
import json
import logging
import shutil
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from tests.checkpoints.common import WIDTH
from tests.checkpoints.mclip import mclip_checkpoint
from tests.checkpoints.open_clip import (
    OUT,
    edit_config,
    native_clip_checkpoint,
    nllb_clip_checkpoint,
    open_clip_library,
    xlm_clip_checkpoint,
)
from workbench.errors import InputError, TowerError
from workbench.towers import Tower, load_tower
from workbench.towers.mclip import PAIRS, ImageSide, side_of

ODD = ["a cat", "the quick brown fox, and a hen", "x", "שאב אבג"]


@pytest.fixture(scope="module")
def nllb_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nllb_clip_checkpoint(tmp_path_factory.mktemp("nllb"))


@pytest.fixture(scope="module")
def nllb(nllb_folder: Path) -> Tower:
    return load_tower(nllb_folder)


def weights(folder):
    return load_file(folder / "open_clip_model.safetensors")


def copied(folder, to):
    return Path(shutil.copytree(folder, to / "copy"))


def test_without_open_clip_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    (tmp_path / "open_clip_config.json").write_text('{"model_cfg": {"text_cfg": {}, "vision_cfg": {}}}')
    with pytest.raises(InputError, match=r"pip install 'eos-workbench\[open-clip\]'") as error:
        load_tower(tmp_path)
    assert "\n" not in str(error.value)


def test_a_folder_with_both_kinds_of_weights_is_read_by_transformers(tmp_path):
    from tests.checkpoints import clip_checkpoint

    folder = clip_checkpoint(tmp_path)
    (folder / "open_clip_config.json").write_text("{}")
    assert load_tower(folder).family == "clip"


def test_pickled_weights_are_read_as_plain_tensors_and_that_is_said(nllb_folder, tmp_path, nllb):
    folder = copied(nllb_folder, tmp_path)
    torch.save({"state_dict": weights(folder)}, folder / "open_clip_pytorch_model.bin")
    (folder / "open_clip_model.safetensors").unlink()
    tower = load_tower(folder)
    assert "weights_only" in tower.provenance.notes["weights"]
    assert tower.fingerprint == nllb.fingerprint


def test_a_pickle_that_runs_code_is_refused(nllb_folder, tmp_path):
    folder, mark = copied(nllb_folder, tmp_path), tmp_path / "it ran"

    class Attack:
        def __reduce__(self):
            return Path.touch, (mark,)

    torch.save({"logit_scale": Attack()}, folder / "open_clip_pytorch_model.bin")
    (folder / "open_clip_model.safetensors").unlink()
    with pytest.raises(TowerError, match="can't be loaded"):
        load_tower(folder)
    assert not mark.exists()


def test_tables_that_older_versions_stored_are_no_unknown_weights(nllb_folder, tmp_path, nllb):
    folder = copied(nllb_folder, tmp_path)
    stored = weights(folder)
    stored["text.transformer.embed_positions.weights"] = torch.ones(3, 4)
    save_file(stored, folder / "open_clip_model.safetensors")
    assert torch.equal(load_tower(folder).encode_text(ODD, "en"), nllb.encode_text(ODD, "en"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda stored: stored.pop("text.proj.weight"), r"Missing key.*text\.proj\.weight"),
        (lambda stored: stored.update(extra=torch.ones(1)), r"Unexpected key.*extra"),
    ],
)
def test_weights_that_do_not_fit_are_one_clear_error(nllb_folder, tmp_path, change, message):
    folder = copied(nllb_folder, tmp_path)
    stored = weights(folder)
    change(stored)
    save_file(stored, folder / "open_clip_model.safetensors")
    with pytest.raises(TowerError, match=message) as error:
        load_tower(folder)
    assert "\n" not in str(error.value)


def test_truncated_or_absent_weights_are_one_clear_error(nllb_folder, tmp_path):
    folder = copied(nllb_folder, tmp_path)
    path = folder / "open_clip_model.safetensors"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(TowerError, match="can't be loaded into a CustomTextCLIP"):
        load_tower(folder)
    path.unlink()
    with pytest.raises(TowerError, match="holds no weights"):
        load_tower(folder)


def test_an_encoder_whose_config_cannot_be_had_is_one_clear_error(nllb_folder, tmp_path):
    folder = copied(nllb_folder, tmp_path)
    (folder / "config.json").unlink()
    with pytest.raises(TowerError, match=r"Put the config\.json of 'facebook/nllb-200-distilled-600M' beside"):
        load_tower(folder)


def test_an_encoder_without_an_adapter_is_named(tmp_path):
    from transformers import MT5Config

    folder = xlm_clip_checkpoint(tmp_path)
    edit_config(folder, lambda config: config["text_cfg"].update(hf_model_name=str(tmp_path / "mt5")))
    MT5Config(d_model=32, num_layers=2, d_ff=32, num_heads=2, vocab_size=50).save_pretrained(tmp_path / "mt5")
    (folder / "config.json").unlink()
    with pytest.raises(TowerError, match="is a 'mt5', for which there is no adapter"):
        load_tower(folder)


def test_a_checkpoint_cannot_allow_its_own_code_to_run(nllb_folder, tmp_path, nllb):
    """A config may hand the tokeniser any argument, this one too."""
    folder, mark = copied(nllb_folder, tmp_path), tmp_path / "it ran"
    edit_config(folder, lambda config: config["text_cfg"].update(tokenizer_kwargs={"trust_remote_code": True}))
    (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w')\nclass Evil: pass\n")
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8"))
    config["auto_map"] = {"AutoTokenizer": ["evil.Evil", None]}
    config["tokenizer_class"] = "Evil"
    path.write_text(json.dumps(config), "utf-8")
    with contextlib.suppress(Exception):
        open_clip_library().get_tokenizer(f"local-dir:{folder}")
    assert mark.exists(), "the trap is real"
    mark.unlink()
    assert torch.equal(load_tower(folder).encode_text(ODD, "en"), nllb.encode_text(ODD, "en"))
    assert not mark.exists()


def test_a_tokeniser_that_draws_words_at_random_is_refused(tmp_path):
    folder = native_clip_checkpoint(tmp_path)
    edit_config(folder, lambda config: config["text_cfg"].update(tokenizer_kwargs={"reduction_mask": "random"}))
    with pytest.raises(TowerError, match="drops words at random"):
        load_tower(folder)


@pytest.mark.parametrize("content", ["[]", '{"model_cfg": 3}', '{"model_cfg": {"text_cfg": {}}}', "{"])
def test_a_broken_config_is_one_clear_error(tmp_path, content):
    open_clip_library()
    (tmp_path / "open_clip_config.json").write_text(content)
    with pytest.raises(TowerError, match=r"open_clip_config\.json of .* (describes no model|is not)"):
        load_tower(tmp_path)


def test_a_device_map_is_refused(nllb_folder):
    with pytest.raises(InputError, match="use device= instead"):
        load_tower(nllb_folder, device_map="auto")


def test_the_root_logger_is_left_as_it_was(nllb_folder, caplog):
    root = logging.getLogger()
    before = (list(root.handlers), root.disabled, root.level)
    load_tower(nllb_folder)
    assert (list(root.handlers), root.disabled, root.level) == before
    assert not root.disabled
    assert "initialized randomly" not in caplog.text


def test_m_clip_takes_the_image_side_of_an_open_clip_model(tmp_path):
    folder = native_clip_checkpoint(tmp_path / "images")
    tower = load_tower(mclip_checkpoint(tmp_path / "text"), images=folder)
    images = [Image.new("RGB", (50, 30), "green")]
    assert tower.has_images
    assert side_of(load_tower(folder)) == ImageSide(32, 16, WIDTH, 2, OUT)
    assert torch.equal(tower.encode_images(images), load_tower(folder).encode_images(images))
    assert tower.encode_text(["a cat"]).shape == tower.encode_images(images).shape


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("xlm-roberta-large-vit-l-14", "ViT-L-14"),
        ("xlm-roberta-large-vit-b-32", "ViT-B-32"),
        ("xlm-roberta-large-vit-b-16plus", "ViT-B-16-plus-240"),
    ],
)
def test_what_tells_the_image_sides_of_m_clip_apart_is_what_open_clip_says_of_them(text, name):
    config = open_clip_library().get_model_config(name)
    vision = config["vision_cfg"]
    size, patch, width, blocks = (vision[key] for key in ("image_size", "patch_size", "width", "layers"))
    assert PAIRS[text].side == ImageSide(size, patch, width, blocks, config["embed_dim"])
