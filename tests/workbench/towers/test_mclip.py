import json

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import AutoModel, CLIPVisionConfig

from interventions import MidToken, ParallelEOS
from tests.checkpoints import clip_checkpoint
from tests.checkpoints.common import WIDTH
from tests.checkpoints.mclip import OUT, mclip_checkpoint
from tests.conftest import CAPTIONS
from workbench.engine import sweep_pass
from workbench.errors import InputError, TowerError
from workbench.hooks import HookManager
from workbench.intervention import Context
from workbench.towers import load_tower
from workbench.towers.base import relative_error
from workbench.towers.mclip import PAIRS, ImageSide, check_pair, side_of
from workbench.trajectory import capture_language

ODD = ["a cat", "the quick brown fox", "x", "שאב אבג"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return mclip_checkpoint(tmp_path_factory.mktemp("mclip"))


@pytest.fixture(scope="module")
def tower(folder):
    return load_tower(folder)


@pytest.fixture(scope="module")
def clip_folder(tmp_path_factory):
    return clip_checkpoint(tmp_path_factory.mktemp("clip"))


def by_hand(folder, captions, base="xlm-roberta-tiny"):
    """The forward pass of the authors' package, with an encoder that transformers itself loads."""
    weights = load_file(folder / "model.safetensors")
    encoder = {k.removeprefix("transformer."): v for k, v in weights.items() if k.startswith("transformer.")}
    encoder.pop("embeddings.position_ids")
    save_file(encoder, folder / base / "model.safetensors", metadata={"format": "pt"})
    model = AutoModel.from_pretrained(folder / base).eval()
    tokens = load_tower(folder).tokenizer(captions, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden, mask = model(**tokens)[0], tokens["attention_mask"]
        mean = (hidden * mask.unsqueeze(2)).sum(1) / mask.sum(1)[:, None]
        return functional.linear(mean, weights["LinearTransformation.weight"], weights["LinearTransformation.bias"])


@pytest.mark.parametrize("base", ["xlm-roberta", "bert"])
def test_text_features_equal_the_published_forward_pass(tmp_path, base):
    folder = mclip_checkpoint(tmp_path, base=base)
    assert relative_error(load_tower(folder).encode_text(ODD), by_hand(folder, ODD, f"{base}-tiny")) < 1e-5


def test_captions_are_averaged_over_all_real_tokens_start_and_end_included(tower):
    tokens = tower.tokenize(ODD)
    assert tokens.averaged is not None
    assert torch.equal(tokens.averaged, tokens.input_ids != 1)
    assert tokens.averaged[:, 0].all()
    assert (tokens.input_ids.gather(1, tokens.pooled[:, None]) == 2).all()
    assert not tokens.content[:, 0].any()


def test_the_mask_is_needed_and_given(tower):
    tokens = tower.tokenize(ODD)
    with torch.no_grad():
        plain = tower.forward(tokens)
        unmasked = tower.model.get_text_features(tokens.input_ids, torch.ones_like(tokens.input_ids))
    error = [relative_error(unmasked[[k]], plain[[k]]) for k in range(len(ODD))]
    longest = int(tokens.length.argmax())
    assert error[longest] < 1e-5
    assert min(error[:longest] + error[longest + 1 :]) > 1e-2


def test_a_patched_mean_is_the_donors_at_every_depth_and_shifts_all_rows_alike(tower):
    tokens, donor = tower.tokenize(CAPTIONS["sw"]), torch.randn(6, WIDTH)
    where = tokens.where("pooled")
    for depth in range(tower.n_blocks + 1):
        with HookManager(tower.blocks) as hooks:
            clean = hooks.capture([depth])
            tower.forward(tokens)
        with HookManager(tower.blocks) as hooks:
            hooks.replace(depth, where, lambda rows: donor)
            patched = hooks.capture([depth])
            mean = hooks.capture([depth], where)
            tower.forward(tokens)
        torch.testing.assert_close(mean[depth], donor, rtol=1e-5, atol=1e-5)
        shift = patched[depth] - clean[depth]
        assert (shift[~where] == 0).all()
        for row, mask in zip(shift, where, strict=True):
            torch.testing.assert_close(row[mask], row[mask][:1].expand(int(mask.sum()), -1), rtol=1e-4, atol=1e-5)


def context_of(tower, site, donors="en"):
    found = capture_language(tower, tower.tokenize(CAPTIONS[donors]), range(tower.n_blocks + 1), site)
    return Context("sw", torch.arange(6), 6, site, {"en": found.rows}, {"en": found.available}, 0)


def test_a_full_patch_is_the_donors_embedding_exactly_since_the_head_is_linear(tower):
    tokens, depth = tower.tokenize(CAPTIONS["sw"]), [tower.n_blocks]
    result = sweep_pass(tower, tokens, [ParallelEOS("en")], [context_of(tower, "pooled")], depth)
    assert relative_error(result.patched[0, 0], tower.encode_text(CAPTIONS["en"])) < 1e-5


def test_an_identity_patch_is_neutral_to_the_bit(tower):
    tokens = tower.tokenize(CAPTIONS["sw"])
    with tower.evaluating():
        plain = tower.forward(tokens)
    for depth in range(tower.n_blocks + 1):
        with HookManager(tower.blocks) as hooks:
            hooks.replace(depth, tokens.where("pooled"), lambda rows: rows)
            assert torch.equal(tower.forward(tokens), plain)


def test_a_middle_row_counts_with_one_over_the_length(tower):
    """At depth N the mean moves by the row's change over the number of rows, and the head is linear."""
    tokens, depth = tower.tokenize(CAPTIONS["sw"]), tower.n_blocks
    context = context_of(tower, "middle")
    result = sweep_pass(tower, tokens, [MidToken("en")], [context], [depth])
    own = capture_language(tower, tokens, [depth], "middle").rows[:, 0]
    donor = context.donor("en", depth)
    with torch.no_grad():
        moved = (donor - own) / tokens.averaged.sum(-1, keepdim=True)
        wanted = result.clean + functional.linear(moved, tower.model.LinearTransformation.weight)
    assert relative_error(result.patched[0, 0], wanted) < 1e-5


def test_dropout_is_off(folder):
    tower = load_tower(folder)
    assert torch.equal(tower.encode_text(ODD), tower.encode_text(ODD))
    tower.model.train()
    assert relative_error(tower.encode_text(ODD), load_tower(folder).encode_text(ODD)) > 1e-2


# -- files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pickled", [True, False])
@pytest.mark.parametrize("pooler", [True, False])
def test_weights_with_and_without_berts_pooler_are_read_pickled_or_not(tmp_path, pooler, pickled):
    tower = load_tower(mclip_checkpoint(tmp_path, pooler=pooler, pickled=pickled))
    assert ("transformer.pooler.dense.weight" in tower.model.state_dict()) == pooler
    assert ("pickle" in tower.provenance.notes.get("weights", "")) == pickled
    assert tower.encode_text(ODD).shape == (len(ODD), OUT)


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16])
def test_weights_are_read_in_float32_whatever_they_are_stored_in(tmp_path, stored):
    folder = mclip_checkpoint(tmp_path, dtype=stored)
    assert {parameter.dtype for parameter in load_tower(folder).model.parameters()} == {torch.float32}
    assert load_tower(folder, dtype="bfloat16").dtype == torch.bfloat16


def test_weights_are_not_rounded_to_the_precision_that_the_encoders_config_names(tmp_path, tower):
    path = mclip_checkpoint(tmp_path) / "xlm-roberta-tiny" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "dtype": "float16"}), "utf-8")
    assert load_tower(tmp_path).fingerprint == tower.fingerprint


def test_a_pickle_that_runs_code_is_refused(tmp_path):
    from pathlib import Path

    folder, mark = mclip_checkpoint(tmp_path / "model"), tmp_path / "it ran"
    (folder / "model.safetensors").unlink()

    class Attack:
        def __reduce__(self):
            return Path.touch, (mark,)

    torch.save({"LinearTransformation.weight": Attack()}, folder / "pytorch_model.bin")
    with pytest.raises(TowerError, match=r"pytorch_model\.bin\) can't be read"):
        load_tower(folder)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("transformer.encoder.layer.1.output.dense.bias"), r"Missing key.*layer\.1\.output\.dense"),
        (lambda w: w.update(extra=torch.ones(1)), r"Unexpected key.*extra"),
        (lambda w: w.pop("LinearTransformation.weight"), "is no M-CLIP"),
        (lambda w: w.update({"LinearTransformation.weight": torch.ones(OUT, 7)}), "do not belong together"),
    ],
)
def test_weights_that_do_not_fit_are_one_clear_error(tmp_path, change, message):
    folder = mclip_checkpoint(tmp_path)
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(TowerError, match=message) as error:
        load_tower(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("keep", "message"), [(5000, "can't be read"), (0, "can't be read"), (None, "holds no weights")]
)
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_truncated_or_absent_weights_are_one_clear_error(tmp_path, keep, message, name):
    path = mclip_checkpoint(tmp_path, pickled=name.endswith("bin")) / name
    if keep is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(TowerError, match=message) as error:
        load_tower(tmp_path)
    assert "\n" not in str(error.value)


def test_a_base_whose_config_cannot_be_had_says_where_to_put_it(tmp_path):
    folder = mclip_checkpoint(tmp_path)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "modelBase": "no-such-org/no-such-base"}), "utf-8")
    with pytest.raises(TowerError, match=r"in the folder 'no-such-base' inside the checkpoint"):
        load_tower(folder)


def test_a_config_that_carries_the_encoders_fields_is_enough(tmp_path, tower):
    folder = mclip_checkpoint(tmp_path)
    inner = json.loads((folder / "xlm-roberta-tiny" / "config.json").read_text("utf-8"))
    outer = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**inner, **outer, "modelBase": "elsewhere"}), "utf-8")
    assert load_tower(folder).fingerprint == tower.fingerprint


def test_the_base_of_the_published_models_is_known_without_a_network(tower):
    """Its parameters are those of XLM-R-large, 560 million; built without memory."""
    from workbench.towers.mclip import MultilingualClip, _base_config
    from workbench.towers.source import Source

    source = Source("x", "x", True, config={"modelBase": "xlm-roberta-large"})
    with torch.device("meta"):
        model = MultilingualClip(_base_config(source), 768, pooler=True)
    assert sum(parameter.numel() for parameter in model.transformer.parameters()) == 559_890_432


# -- the image side ---------------------------------------------------------------------------------


def test_without_an_image_tower_it_is_a_text_only_encoder(tower):
    assert not tower.has_images
    with pytest.raises(InputError, match="text-only encoder"):
        tower.encode_images([Image.new("RGB", (8, 8))])


def test_with_one_images_are_embedded_by_it_and_it_is_recorded(folder, clip_folder, tower):
    paired, clip = load_tower(folder, images=clip_folder), load_tower(clip_folder)
    images = [Image.new("RGB", (40, 30), colour) for colour in ("red", "navy")]
    assert paired.has_images
    assert torch.equal(paired.encode_images(images), clip.encode_images(images))
    assert torch.equal(paired.encode_text(ODD), tower.encode_text(ODD))
    assert str(clip_folder) in paired.provenance.notes["images"]
    assert paired.fingerprint != tower.fingerprint


def test_other_image_weights_are_another_tower(tmp_path, folder, clip_folder):
    other = clip_checkpoint(tmp_path, seed=1)
    assert load_tower(folder, images=clip_folder).fingerprint != load_tower(folder, images=other).fingerprint


def test_an_image_tower_of_another_width_is_refused(tmp_path, clip_folder):
    with pytest.raises(InputError, match=r"gives embeddings of 24 dimensions and the image tower .* of 16"):
        load_tower(mclip_checkpoint(tmp_path, dims=24), images=clip_folder)


def test_a_published_model_takes_only_its_own_image_tower(tmp_path, clip_folder):
    """Known by its folder's name, whatever the size."""
    folder = mclip_checkpoint(tmp_path / "XLM-Roberta-Large-Vit-L-14")
    with pytest.raises(InputError, match="It belongs to 'openai/clip-vit-large-patch14'") as error:
        load_tower(folder, images=clip_folder)
    assert "\n" not in str(error.value)


def test_an_image_tower_without_images_and_a_revision_of_nothing_are_refused(folder):
    with pytest.raises(InputError, match="without an image side"):
        load_tower(folder, images=folder)
    with pytest.raises(InputError, match="without images="):
        load_tower(folder, images_revision="main")


_RIGHT = {
    "M-CLIP/XLM-Roberta-Large-Vit-L-14": "openai/clip-vit-large-patch14",
    "M-CLIP/LABSE-Vit-L-14": "openai/clip-vit-large-patch14",
    "M-CLIP/XLM-Roberta-Large-Vit-B-32": "openai/clip-vit-base-patch32",
    "M-CLIP/XLM-Roberta-Large-Vit-B-16Plus": "timm/vit_base_patch16_plus_clip_240.laion400m_e32",
}


@pytest.mark.parametrize("text", _RIGHT)
def test_the_known_pairs(text):
    side = PAIRS[text.split("/")[1].lower()].side
    check_pair(text, side.embedding, _RIGHT[text], side, hub=True)
    check_pair(text, side.embedding, "my/copy", side, hub=False)
    with pytest.raises(InputError, match="the right shape but other weights"):
        check_pair(text, side.embedding, "laion/another", side, hub=True)


def test_a_tower_of_the_same_width_but_another_shape_is_refused():
    # CLIP-L/14 at 336 pixels, and B/16 for B/32: the dimensions agree.
    large = ImageSide(336, 14, 1024, 24, 768)
    with pytest.raises(InputError, match="images of 336 pixels"):
        check_pair("M-CLIP/XLM-Roberta-Large-Vit-L-14", 768, "openai/clip-vit-large-patch14-336", large, hub=True)
    base = ImageSide(224, 16, 768, 12, 512)
    with pytest.raises(InputError, match="patches of 16"):
        check_pair("M-CLIP/XLM-Roberta-Large-Vit-B-32", 512, "openai/clip-vit-base-patch16", base, hub=True)


def test_a_model_of_ones_own_is_held_to_the_dimensions_alone():
    check_pair("me/my-mclip", 512, "laion/another", ImageSide(224, 16, 768, 12, 512), hub=True)


def test_the_image_side_is_read_off_the_model(clip_folder):
    assert side_of(load_tower(clip_folder)) == ImageSide(32, 16, WIDTH, 2, OUT)
    # The defaults of the class are OpenAI's B/32.
    config, side = CLIPVisionConfig(), PAIRS["xlm-roberta-large-vit-b-32"].side
    assert (config.image_size, config.patch_size) == (side.size, side.patch)
    assert (config.hidden_size, config.num_hidden_layers, config.projection_dim) == (
        side.width, side.blocks, side.embedding,
    )  # fmt: skip
