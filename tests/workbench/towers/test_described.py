import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2_5_VLModel

from interventions import MeanEOS, MidToken, NormMatchedNoise, ParallelEOS
from tests.checkpoints import described as make
from tests.workbench.test_engine import context_for, tokens_of
from workbench.engine import sweep_pass
from workbench.errors import InputError, TowerError
from workbench.hooks import HookManager, pick
from workbench.oracle import patch_depths
from workbench.towers import load_tower
from workbench.towers.base import relative_error
from workbench.towers.described import DescribedTower
from workbench.towers.description import read_description, shipped

LONG = "the quick brown fox jumps over the lazy dog again"
ODD = ["a cat", LONG, "x", "שאב אבג", "two dogs"]
PICTURES = [Image.new("RGB", size, colour) for size, colour in (((40, 30), "red"), ((24, 60), "blue"))]
KINDS = {
    "bert, class token": lambda folder: make.bert_checkpoint(folder),
    "bert, first row": lambda folder: make.bert_checkpoint(folder, pooling="first"),
    "bert, mean": lambda folder: make.bert_checkpoint(folder, pooling="mean"),
    "internvl": make.internvl_checkpoint,
    "llama, end token": make.llama_checkpoint,
    "llama, mean": lambda folder: make.llama_checkpoint(folder, pooling="mean", normalise=True),
    "llama, short window": lambda folder: make.llama_checkpoint(folder, max_length=100),
    "llava-next": make.llava_next_checkpoint,
    "qwen2.5-vl, mean": make.qwen25_checkpoint,
}


@pytest.fixture(scope="module", params=KINDS)
def tower(request, tmp_path_factory) -> DescribedTower:
    found = load_tower(KINDS[request.param](tmp_path_factory.mktemp("described") / "model"))
    assert isinstance(found, DescribedTower)
    return found


def change(path: Path, **said) -> Path:
    """Say other things in a description; None leaves a key out."""
    lines = path.read_text("utf-8").splitlines()
    kept = [line for line in lines if line.partition(" = ")[0] not in said]
    new = [f"{key} = {json.dumps(value)}" for key, value in said.items() if value is not None]
    path.write_text("\n".join([*new, *kept]) + "\n", "utf-8")
    return path


def by_hand(tower, captions) -> torch.Tensor:
    """Pool the model's last hidden state by the rule in the file, from whole texts, one by one."""
    said, found = tower.description, []
    for caption in captions:
        text = said.template.replace("{text}", caption)
        inputs = tower.tokenizer([text], return_tensors="pt")
        with torch.no_grad():
            rows = tower.model(input_ids=inputs["input_ids"]).last_hidden_state[0]
        row = {"first": 0, "cls": 0, "last": -1, "eos": -1}.get(said.pooling)
        found.append(rows.mean(0) if row is None else rows[row])
    return functional.normalize(torch.stack(found), dim=-1) if tower.description.normalise else torch.stack(found)


# -- what is described is what is done -------------------------------------------------------------


def test_embeddings_are_the_models_own_by_the_rule_of_the_file(tower):
    assert relative_error(tower.encode_text(ODD), by_hand(tower, ODD)) < 1e-5


def test_finished_rows_are_the_models_own_embedding(tower):
    tokens = tower.tokenize(ODD)
    with tower.evaluating(), HookManager(tower.blocks) as hooks:
        hidden = hooks.capture([tower.n_blocks])
        plain = tower.forward(tokens)
    with torch.no_grad():
        assert relative_error(tower.finish(hidden[tower.n_blocks], tokens.where("pooled")), plain) < 1e-6


@pytest.mark.parametrize("intervention", [ParallelEOS("en"), MeanEOS(("en", "hi")), NormMatchedNoise(), MidToken("en")])
def test_the_engine_equals_the_oracle_at_every_depth(tower, intervention):
    depths = list(range(tower.n_blocks + 1))
    context = context_for(tower, intervention)
    given = sweep_pass(tower, tokens_of(tower), [intervention], [context], depths).patched[0]
    assert relative_error(given, patch_depths(tower, tokens_of(tower), intervention, context, depths)) < 1e-5


def test_no_block_is_handed_a_cache(tower):
    calls = []
    with tower.evaluating(), HookManager(tower.blocks) as hooks:
        hooks.intercept(0, lambda call: calls.append(call) or call)
        tower.forward(tower.tokenize(ODD))
    assert calls[0].kwargs.get("cache") is None


def test_a_caption_too_long_is_cut_marked_and_keeps_the_template(tower):
    tokens = tower.tokenize(["a cat", LONG * 6])
    assert tokens.truncated.tolist() == [False, True]
    assert tokens.input_ids.shape[1] == tower.max_positions
    after = tower.description.template.partition("{text}")[2]
    assert after in tower.tokenizer.decode(tokens.input_ids[1], skip_special_tokens=False)
    assert torch.equal(tower.encode_text([LONG * 6]), tower.encode_text([LONG * 7]))


def test_appending_is_used_where_one_row_is_pooled_in_a_causal_model_that_can(tower):
    said = tower.description
    assert (tower.strategy == "append") == (said.causal and said.pooling != "mean")


def test_a_sliding_window_shorter_than_captions_is_widened_and_exact(tmp_path):
    from transformers import MistralConfig, MistralModel

    from tests.checkpoints.common import TEXT
    from tests.checkpoints.llm import attentive

    tokenizer = make.byte_tokenizer(end="</s>")
    sizes = {**TEXT, "num_key_value_heads": 2, "vocab_size": len(tokenizer), "max_position_embeddings": 64}
    for window, strategy in ((8, "widen"), (64, "append")):
        folder = tmp_path / str(window)
        attentive(MistralModel(MistralConfig(**sizes, sliding_window=window)), 0).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        said = {"model_class": "MistralModel", "blocks": "layers", "norm": "norm", "template": "{text}"}
        tower = load_tower(make.describe(folder, **said, pooling="last"))
        assert tower.strategy == strategy
        depths, context = [0, 1, 2, 3, 4], context_for(tower, ParallelEOS("en"))
        given = sweep_pass(tower, tokens_of(tower), [ParallelEOS("en")], [context], depths).patched[0]
        wanted = patch_depths(tower, tokens_of(tower), ParallelEOS("en"), context, depths)
        assert relative_error(given, wanted) < 1e-5


@pytest.mark.parametrize("kind", ["llama, end token", "llava-next"])
def test_both_sides_of_padding_give_the_same(tmp_path, kind):
    path = KINDS[kind](tmp_path / "model")
    right = load_tower(change(path, padding_side="right")).encode_text(ODD)
    assert relative_error(load_tower(change(path, padding_side="left")).encode_text(ODD), right) < 1e-5


def test_the_end_token_is_that_after_the_caption_and_one_inside_it_is_refused(tmp_path):
    tower = load_tower(make.llama_checkpoint(tmp_path / "model"))
    with pytest.raises(InputError, match="spells out '</s>'"):
        tower.tokenize(["two </s></s> dogs in a hut"])
    captions = ["a cat", "two dogs in a hut"]
    tokens = tower.tokenize(captions)
    assert tokens.pooled.tolist() == [len(row) - 1 for row in tower.tokenizer(captions)["input_ids"]]


# -- images ----------------------------------------------------------------------------------------


def test_internvl_images_take_one_tile_and_the_models_own_features(tmp_path):
    tower = load_tower(make.internvl_checkpoint(tmp_path / "model"))
    pixels = tower.image_processor(PICTURES, crop_to_patches=False, return_tensors="pt")["pixel_values"]
    text = "<|im_start|>user\n<img>" + "<IMG_CONTEXT>" * 4 + "</img><|im_end|>\n<|im_start|>assistant\n"
    ids = tower.tokenizer([text, text], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        wanted = tower.model(input_ids=ids, pixel_values=pixels).last_hidden_state[:, -1]
    assert relative_error(tower.encode_images(PICTURES, batch_size=1), wanted) < 1e-5


def test_several_tiles_an_image_are_counted(tmp_path):
    path = make.internvl_checkpoint(tmp_path / "model")
    path.write_text(path.read_text("utf-8").replace("crop_to_patches = false", "crop_to_patches = true"), "utf-8")
    tower = load_tower(path)
    inputs = tower.image_inputs(PICTURES)
    tiles = tower.image_processor(PICTURES, crop_to_patches=True, return_tensors="pt")["num_patches"]
    assert min(tiles) > 1
    wanted = [4 * int(count) for count in tiles]
    assert (inputs["input_ids"] == tower.tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>")).sum(-1).tolist() == wanted
    assert relative_error(tower.encode_images(PICTURES, batch_size=1), tower.encode_images(PICTURES)) < 1e-5


@pytest.mark.parametrize("positions", ["grid", "sequence"])
def test_a_span_of_image_rows_is_averaged_with_the_positions_that_the_file_names(tmp_path, positions):
    path = make.qwen25_checkpoint(tmp_path / "model")
    path.write_text(path.read_text("utf-8") + f'positions = "{positions}"\n', "utf-8")
    tower, found = load_tower(path), []
    assert isinstance(tower.model, Qwen2_5_VLModel)
    for image in PICTURES:
        inputs = dict(tower.image_processor([image], return_tensors="pt"))
        count = int(inputs["image_grid_thw"].prod()) // 4
        before, after = "<|im_start|>user\n<|vision_start|>", "<|vision_end|>Describe the image.<|im_end|>\n"
        ids = tower.tokenizer([before + "<|image_pad|>" * count + after], return_tensors="pt")["input_ids"]
        if positions == "grid":
            inputs["mm_token_type_ids"] = (ids == tower.model.config.image_token_id).int()
        else:
            inputs["position_ids"] = torch.arange(ids.shape[1])[None]
        with torch.no_grad():
            rows = tower.model(input_ids=ids, **inputs).last_hidden_state[0]
        first = len(tower.tokenizer(before)["input_ids"]) - 1
        found.append(functional.normalize(rows[first : first + count + 2].mean(0), dim=-1))
    assert relative_error(tower.encode_images(PICTURES), torch.stack(found)) < 1e-5


def test_a_tower_without_images_says_so(tmp_path):
    tower = load_tower(make.bert_checkpoint(tmp_path / "model"))
    assert not tower.has_images
    with pytest.raises(InputError, match="text-only"):
        tower.encode_images(PICTURES)


def test_images_are_resized_first_where_the_file_says_so(tmp_path):
    path = make.llava_next_checkpoint(tmp_path / "model")
    plain = load_tower(path).encode_images(PICTURES)
    path.write_text(path.read_text("utf-8") + "size = [16, 32]\n", "utf-8")
    squared = load_tower(path)
    assert relative_error(squared.encode_images(PICTURES), plain) > 1e-3
    resized = [image.resize((32, 16)) for image in PICTURES]
    assert torch.equal(squared.encode_images(PICTURES), squared.encode_images(resized))


# -- what is said of the model and is not so -------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            {"blocks": "model.layers"},
            r"has blocks = 'model\.layers', which is no module of a LlamaModel.* It has embed_tokens, layers",
        ),
        ({"blocks": "layers.0.self_attn"}, "a LlamaAttention and no list of blocks. The lists of this model: layers"),
        ({"norm": "layers.0.nrm"}, r"has norm = 'layers\.0\.nrm', which is no .*Under 'layers\.0' has self_attn"),
        ({"norm": None}, "has norm = None, and the model does something else between its last block"),
        ({"norm": "layers.3.input_layernorm"}, "Name the norm that follows the last block"),
        ({"projection": "nowhere"}, "has projection = 'nowhere', which is no module"),
        ({"causal": False}, r"has causal = false, and a change of the last token did not reach .* Set causal = true"),
        ({"pooling": "cls", "special_tokens": False}, r"no such token \(id 1\) before the caption"),
        ({"pooling": "eos", "special_tokens": False}, r"no such token \(id 2\) after the caption"),
        (
            {"model_class": "LlamaForCausalLM", "blocks": "model.layers", "norm": "model.norm"},
            "gives no 'last_hidden_state'; its output has: logits",
        ),
        ({"model_class": "LlamaModle"}, "model_class = 'LlamaModle', which is no model class of transformers"),
        ({"model_class": "AutoTokenizer"}, "no model class of transformers"),
        ({"model_class": "__import__('os')"}, "no model class of transformers"),
        ({"model_class": "pipeline"}, "no model class of transformers"),
        ({"model_class": "Qwen2VLModel"}, "can't be loaded as Qwen2VLModel|lacks .* of the weights of a Qwen2VLModel"),
        ({"output": "hidden"}, "gives no 'hidden'; its output has: last_hidden_state"),
        ({"checkpoint": "nowhere"}, "names the checkpoint 'nowhere': neither a folder beside it nor a hub id"),
        ({"checkpoint": "../../etc"}, "neither a folder beside it nor a hub id"),
        ({"max_length": 2}, "no room for the caption"),
    ],
)  # fmt: skip
def test_what_is_not_as_described_is_one_clear_error(tmp_path, said, message):
    path = make.llama_checkpoint(tmp_path / "model")
    if "ForCausalLM" in said.get("model_class", ""):
        config = LlamaConfig.from_pretrained(tmp_path / "model")
        LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match=message) as error:
        load_tower(change(path, **said))
    assert "\n" not in str(error.value)


def test_a_bidirectional_model_called_causal_is_refused(tmp_path):
    path = change(make.bert_checkpoint(tmp_path / "model"), causal=True)
    with pytest.raises(
        TowerError, match=r"has causal = true, and a change of the last token reached .* Set causal = false"
    ):
        load_tower(path)


def test_a_span_that_is_not_in_the_template_is_refused(tmp_path):
    path = make.qwen25_checkpoint(tmp_path / "model")
    path.write_text(path.read_text("utf-8").replace('["<|vision_start|>"', '["<|im_end|>x"'), "utf-8")
    with pytest.raises(TowerError, match="not both in its template"):
        load_tower(path).encode_images(PICTURES)


def test_arguments_of_the_file_reach_the_model_and_do_not_replace_its_inputs(tmp_path):
    path = make.llama_checkpoint(tmp_path / "model")
    wanted = load_tower(path).encode_text(ODD)
    path.write_text(path.read_text("utf-8") + "[inputs]\nuse_cache = true\ninput_ids = 3\n", "utf-8")
    tower = load_tower(path)
    assert tower.model_inputs(tower.tokenize(["a cat"]))["use_cache"] is False
    assert torch.equal(tower.encode_text(ODD), wanted)


def test_a_projection_is_applied_after_pooling(tmp_path, monkeypatch):
    path = make.bert_checkpoint(tmp_path / "model", pooling="mean", projection="encoder.layer.0.attention.self.query")
    tower = load_tower(path)
    tokens = tower.tokenize(ODD)
    with torch.no_grad():
        rows = tower.model(**tower.model_inputs(tokens)).last_hidden_state
        wanted = tower.model.encoder.layer[0].attention.self.query(pick(rows, tokens.where("pooled")))
    assert relative_error(tower.encode_text(ODD), wanted) < 1e-6


# -- where it came from ----------------------------------------------------------------------------


def test_a_description_is_part_of_where_a_tower_came_from(tmp_path):
    path = make.llama_checkpoint(tmp_path / "model")
    one = load_tower(path)
    assert one.provenance.notes["description"] == "model.toml"
    assert one.provenance.notes["checkpoint"] == "model"
    two = load_tower(change(path, template="a photo of {text}"))
    assert one.fingerprint == two.fingerprint
    assert one.provenance.notes["description_sha256"] != two.provenance.notes["description_sha256"]


def test_another_copy_of_the_weights_can_be_named(tmp_path):
    path = make.llama_checkpoint(tmp_path / "model")
    other = make.llama_checkpoint(tmp_path / "elsewhere" / "other", seed=1)
    tower = load_tower(path, checkpoint=str(other.with_suffix("")))
    assert tower.name == "model"
    assert tower.fingerprint == load_tower(other).fingerprint != load_tower(path).fingerprint


def test_tokeniser_and_images_may_lie_elsewhere(tmp_path):
    path = make.llava_next_checkpoint(tmp_path / "model")
    wanted = load_tower(path)
    other = tmp_path / "other"
    other.mkdir()
    for file in (tmp_path / "model").iterdir():
        if "token" in file.name or "processor" in file.name:
            file.rename(other / file.name)
    (other / "config.json").write_bytes((tmp_path / "model" / "config.json").read_bytes())
    tower = load_tower(change(path, processor="other"))
    assert torch.equal(tower.encode_text(ODD), wanted.encode_text(ODD))
    assert torch.equal(tower.encode_images(PICTURES), wanted.encode_images(PICTURES))


def test_an_option_that_no_description_takes_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"described adapter has no option 'pooling'\. It takes checkpoint"):
        load_tower(make.llama_checkpoint(tmp_path / "model"), pooling="mean")


@pytest.mark.parametrize("name", sorted(set(shipped()) - {"jina-embeddings-v4"}))
def test_each_description_that_ships_fits_a_random_model_of_its_class(tmp_path, name):
    said = read_description(shipped()[name])
    folder = tmp_path / "model"
    {
        "InternVLModel": make.internvl_checkpoint, "LlavaNextModel": make.llava_next_checkpoint,
        "LlavaOnevisionModel": make.llava_onevision_checkpoint, "Qwen2_5_VLModel": make.qwen25_checkpoint,
    }[said.model_class](folder)  # fmt: skip
    tower = load_tower(name, checkpoint=str(folder))
    assert tower.name == name
    assert relative_error(tower.encode_text(ODD), by_hand(tower, ODD)) < 1e-5
    assert tower.encode_images(PICTURES).isfinite().all()
