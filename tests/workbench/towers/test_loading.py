import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.checkpoints import CHECKPOINTS
from workbench.errors import InputError, TowerError
from workbench.towers import load_tower
from workbench.towers.registry import adapters, families


@pytest.mark.parametrize("family", sorted(CHECKPOINTS))
def test_a_saved_folder_loads_with_the_right_adapter(tmp_path, family):
    tower = load_tower(CHECKPOINTS[family](tmp_path / "model"))
    assert tower.family == family
    assert tower.name == "model"
    assert tower.n_blocks == 4
    assert not tower.model.training
    # A description names its class itself.
    assert tower.provenance.model_class == (adapters()[family].model_classes or ("LlavaNextModel",))[0]


def test_every_family_has_a_tiny_checkpoint_in_the_tests():
    assert families() == sorted(CHECKPOINTS)


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16])
def test_weights_are_read_in_float32_whatever_they_are_stored_in(tmp_path, stored):
    folder = CHECKPOINTS["metaclip_2"](tmp_path)
    weights = load_file(folder / "model.safetensors")
    save_file(
        {k: v.to(stored) if v.is_floating_point() else v for k, v in weights.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["dtype"] = str(stored).removeprefix("torch.")
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    assert load_tower(folder).dtype == torch.float32
    assert load_tower(folder, dtype="bfloat16").dtype == torch.bfloat16


def test_half_precision_passes_its_check_and_gives_float32_embeddings(tmp_path):
    tower = load_tower(CHECKPOINTS["clip"](tmp_path), dtype="bfloat16")
    assert tower.encode_text(["a cat"]).dtype == torch.float32


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("emoji-casual", "Did you mean 'emoji-causal'"),
        ("./nowhere/at/all", "No tower is called"),
        ("", "No tower is called"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(name, message):
    with pytest.raises(InputError, match=message):
        load_tower(name)


def test_a_hub_id_that_cannot_be_reached_is_one_clear_line():
    with pytest.raises(InputError, match="The hub has no tower 'no-such-org/no-such-model'") as error:
        load_tower("no-such-org/no-such-model")
    assert "\n" not in str(error.value)


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(TowerError, match=r"holds no model: it has no config\.json"):
        load_tower(tmp_path)


def test_an_adapter_alone_is_no_model_and_its_base_is_named(tmp_path):
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "vidore/colqwen2.5-base"}')
    with pytest.raises(TowerError, match=r"is an adapter .* into its base, 'vidore/colqwen2\.5-base'"):
        load_tower(tmp_path)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(TowerError, match="is a file"):
        load_tower(tmp_path / "pytorch_model.bin")
    # Weights are no embeddings: they name no image.
    with pytest.raises(TowerError, match="no 'ids' in its metadata"):
        load_tower(CHECKPOINTS["clip"](tmp_path / "model") / "model.safetensors")


@pytest.mark.parametrize("content", ["{", "[]", '{"model_type": "vit"}', "{}"])
def test_a_broken_config_or_an_unknown_family(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(TowerError, match=r"not JSON|not a JSON object|altclip, chinese_clip, clip"):
        load_tower(tmp_path)


def test_truncated_weights_are_refused(tmp_path):
    path = CHECKPOINTS["siglip"](tmp_path) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(TowerError, match="can't be loaded as SiglipModel"):
        load_tower(tmp_path)


def test_pickled_weights_are_read_as_plain_tensors_and_that_is_said(tmp_path, caplog):
    folder = CHECKPOINTS["siglip"](tmp_path)
    plain = load_tower(folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    tower = load_tower(folder)
    assert tower.fingerprint == plain.fingerprint
    # Not to the bit: a product may depend on where in memory weights lie.
    assert torch.allclose(tower.encode_text(["a cat"]), plain.encode_text(["a cat"]), atol=1e-5)
    assert "weights_only=True" in caplog.text
    assert "pickle" in tower.provenance.notes["weights"]


def test_a_pickle_that_runs_code_is_refused(tmp_path):
    folder = CHECKPOINTS["siglip"](tmp_path / "model")
    (folder / "model.safetensors").unlink()
    mark = tmp_path / "it ran"

    class Attack:
        def __reduce__(self):
            return Path.touch, (mark,)

    torch.save({"logit_scale": Attack()}, folder / "pytorch_model.bin")
    with pytest.raises(TowerError, match="can't be loaded"):
        load_tower(folder)
    assert not mark.exists()


def test_missing_weights_are_refused_and_not_drawn_at_random(tmp_path):
    folder = CHECKPOINTS["metaclip_2"](tmp_path)
    weights = load_file(folder / "model.safetensors")
    del weights["text_projection.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(TowerError, match=r"lacks 1 of the weights .*text_projection"):
        load_tower(folder)


def test_nan_weights_fail_the_self_check(tmp_path):
    folder = CHECKPOINTS["clip"](tmp_path)
    weights = load_file(folder / "model.safetensors")
    weights["text_projection.weight"][0, 0] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(TowerError, match="NaN or infinity"):
        load_tower(folder)


def test_a_folder_without_a_tokeniser(tmp_path):
    folder = CHECKPOINTS["siglip"](tmp_path)
    for path in folder.glob("token*"):
        path.unlink()
    with pytest.raises(TowerError, match="tokeniser"):
        load_tower(folder)


@pytest.mark.parametrize("change", ["pooled", "head"])
def test_the_self_check_catches_a_wrong_adapter(get_tower, monkeypatch, change):
    tower = get_tower("metaclip_2")
    if change == "pooled":
        real = tower.tokenize

        def one_off(captions, language=None):
            from dataclasses import replace

            tokens = real(captions, language)
            return replace(tokens, pooled=tokens.pooled - 1)

        monkeypatch.setattr(tower, "tokenize", one_off)
    else:
        monkeypatch.setattr(tower, "head", lambda rows: tower.model.text_projection(rows))
    with pytest.raises(TowerError, match="failed its self-check"):
        tower.check()


def test_an_unknown_device_or_dtype_teaches(tmp_path):
    with pytest.raises(InputError, match="Use 'cpu', 'cuda'"):
        load_tower("emoji-causal", device="gpu")
    with pytest.raises(InputError, match="float32, bfloat16, float16"):
        load_tower("emoji-causal", dtype="int8")


def test_an_option_that_the_family_lacks_teaches():
    with pytest.raises(InputError, match=r"metaclip_2 adapter has no option 'pooling'\. It takes none"):
        load_tower("emoji-causal", pooling="mean")
