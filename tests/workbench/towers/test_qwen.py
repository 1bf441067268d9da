import copy
import json

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import Qwen2VLModel

from interventions import MidToken, ParallelEOS, RandomEOS
from tests.checkpoints import llm
from tests.checkpoints.described import qwen25_checkpoint
from tests.workbench.test_engine import context_for, tokens_of
from workbench.engine import sweep_pass
from workbench.errors import InputError
from workbench.hooks import HookManager
from workbench.oracle import patch_depths
from workbench.towers import load_tower
from workbench.towers.base import relative_error
from workbench.towers.qwen import GmeTower, gme_prompt, to_whole_patches

LAST = {
    "blocks": "language_model.layers", "norm": "language_model.norm", "pooling": "last",
    "template": "<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n",
}  # fmt: skip
PICTURES = [Image.new("RGB", size, colour) for size, colour in (((40, 30), "red"), ((90, 40), "blue"))]


def gme(folder, **options) -> GmeTower:
    tower = load_tower(llm.gme_checkpoint(folder), **options)
    assert isinstance(tower, GmeTower)
    return tower


# -- what GME is told ------------------------------------------------------------------------------


def test_a_caption_stands_in_gmes_conversation_and_its_last_token_is_pooled(get_tower):
    tower = get_tower("qwen2_vl")
    captions = ["a cat", "two dogs in a hut", "שאב"]
    tokens = tower.tokenize(captions)
    for row, caption in enumerate(captions):
        whole = (
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
            f"{caption}<|im_end|>\n<|im_start|>assistant\n<|endoftext|>"
        )
        ids = tower.tokenizer(whole)["input_ids"]
        assert tokens.input_ids[row, : len(ids)].tolist() == ids
        assert tokens.attention_mask[row].tolist() == [1] * len(ids) + [0] * (tokens.input_ids.shape[1] - len(ids))
        assert tokens.pooled[row] == len(ids) - 1
        assert tower.tokenizer.decode(tokens.input_ids[row][tokens.content[row]]) == caption


def test_an_instruction_takes_the_place_of_the_default_before_captions_and_is_noted(tmp_path):
    plain, told = gme(tmp_path / "a"), gme(tmp_path / "b", instruction="Find an image.")
    assert "system\nFind an image.<|im_end|>" in told.tokenizer.decode(told.tokenize(["a cat"]).input_ids[0])
    assert told.provenance.notes["instruction"] == "Find an image."
    assert plain.provenance.notes["instruction"] == "You are a helpful assistant."
    assert relative_error(told.encode_text(["a cat"]), plain.encode_text(["a cat"])) > 1e-3
    assert torch.equal(told.encode_images(PICTURES), plain.encode_images(PICTURES))


def test_the_pooled_row_is_counted_and_never_found_by_its_id(get_tower):
    """The end token is the padding token too, and an instruction may hold it; a caption may not."""
    tower = copy.copy(get_tower("qwen2_vl"))
    tower.prompt = gme_prompt("Read <|endoftext|> and the rest.")
    captions = ["x a cat", "a cat", "a longer caption than the others"]
    tokens = tower.tokenize(captions)
    assert tokens.pooled.tolist() == (tokens.attention_mask.sum(-1) - 1).tolist()
    end = tower.tokenizer.pad_token_id
    first = [ids.index(end) for ids in tokens.input_ids.tolist()]
    assert first[0] < tokens.pooled[0]
    assert first[2] < tokens.pooled[2]
    alone = torch.cat([tower.encode_text([caption]) for caption in captions])
    assert relative_error(alone, tower.encode_text(captions)) < 1e-5
    # The trap is real: the row of the first end token gives another embedding.
    with torch.no_grad():
        hidden = tower.model(**tower.model_inputs(tokens)).last_hidden_state
    trapped = hidden[torch.arange(3), torch.tensor(first)]
    assert relative_error(trapped[[0]], alone[[0]]) > 0.1
    assert relative_error(trapped[[2]], alone[[2]]) > 0.1


def test_a_caption_that_is_too_long_keeps_the_end_of_the_conversation(get_tower):
    tower = get_tower("qwen2_vl")
    tokens = tower.tokenize(["the quick brown fox " * 20])
    text = tower.tokenizer.decode(tokens.input_ids[0])
    assert text.endswith("<|im_end|>\n<|im_start|>assistant\n<|endoftext|>")
    assert "user\nthe quick brown fox the" in text
    assert tokens.truncated.all()
    assert tokens.pooled.tolist() == [tower.max_positions - 1]


def test_an_instruction_without_room_for_a_caption_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"of the 160 tokens .* no room for the caption 'a cat'"):
        gme(tmp_path, instruction="Find " * 40)


def test_the_limit_is_gmes_own_unless_the_position_table_is_shorter(tmp_path):
    assert gme(tmp_path / "a").max_positions == 160
    assert load_tower(llm.gme_checkpoint(tmp_path / "b", max_position_embeddings=4000)).max_positions == 1800


# -- traps of Qwen ---------------------------------------------------------------------------------


def test_no_block_is_handed_a_cache(get_tower):
    tower = get_tower("qwen2_vl")
    tokens, calls = tower.tokenize(["a cat", "x"]), []
    with HookManager(tower.blocks) as hooks:
        for block in range(tower.n_blocks):
            hooks.intercept(block, lambda call: calls.append(call) or call)
        tower.forward(tokens)
    assert len(calls) == tower.n_blocks
    assert all(call.kwargs["cache"] is None for call in calls)
    assert tower.model.config.text_config.use_cache  # the model's own default would fill one


def test_a_block_that_is_run_again_with_a_filled_cache_reads_stale_keys_and_says_nothing(get_tower):
    """The trap itself, which is why no pass here keeps a cache."""
    tower, calls = get_tower("qwen2_vl"), []
    with tower.evaluating(), HookManager(tower.blocks) as hooks:
        hooks.intercept(tower.n_blocks - 1, lambda call: calls.append(call) or call)
        tower.model(**{**tower.model_inputs(tower.tokenize(["a cat", "a dog"])), "use_cache": True})
        call, patched = calls[0], calls[0].hidden.flip(0)
        given = tower.blocks[-1].forward(patched, *call.args, **call.kwargs)
        wanted = tower.blocks[-1].forward(patched, *call.args, **{**call.kwargs, "cache": None})
    assert relative_error(given[:, -1], wanted[:, -1]) > 1e-2


def test_weights_are_float32_unless_asked_whatever_they_are_stored_in(tmp_path):
    folder = llm.gme_checkpoint(tmp_path)
    weights = load_file(folder / "model.safetensors")
    save_file({k: v.bfloat16() for k, v in weights.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["dtype"] = "bfloat16"
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    whole = load_tower(folder)
    assert whole.dtype == torch.float32
    half = load_tower(folder, dtype="bfloat16")
    assert half.dtype == torch.bfloat16
    assert half.check().padding < 5e-2
    # What half precision costs is there with any number of threads; how batches differ depends on it.
    assert 1e-4 < relative_error(half.encode_text(["a cat"]), whole.encode_text(["a cat"])) < 5e-2
    assert half.encode_text(["a cat"]).dtype == half.encode_images(PICTURES).dtype == torch.float32


def test_a_model_that_is_built_and_not_loaded_is_put_into_evaluation_mode(get_tower):
    donor, tokenizer = get_tower("qwen2_vl"), llm.qwen_tokenizer()
    model = Qwen2VLModel(llm.qwen_config("2", tokenizer, attention_dropout=0.5))
    assert model.training
    tower = GmeTower("built", model, tokenizer, donor.image_processor, donor.provenance)
    assert not model.training
    assert torch.equal(tower.encode_text(["a cat"]), tower.encode_text(["a cat"]))


def test_the_files_of_the_hub_have_older_names_and_load_whole(tmp_path):
    folder = llm.gme_checkpoint(tmp_path)
    wanted = load_tower(folder).encode_text(["a cat"])
    weights = load_file(folder / "model.safetensors")
    older = {name.replace("language_model.", "model.", 1): tensor for name, tensor in weights.items()}
    assert {name.partition(".")[0] for name in older} == {"model", "visual"}
    save_file(older, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text("utf-8"))
    # The text side's sizes stand at the top level there, and the class has a generator's head.
    config = {**config.pop("text_config"), **config, "architectures": ["Qwen2VLForConditionalGeneration"]}
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "qwen2_vl"}), "utf-8")
    assert torch.equal(load_tower(folder).encode_text(["a cat"]), wanted)


# -- images ----------------------------------------------------------------------------------------


def test_grid_positions_are_the_classs_own_and_differ_from_gmes(tmp_path):
    tower = gme(tmp_path, image_positions="grid")
    found = []
    for image in PICTURES:
        whole = image.resize((round(image.width / 8) * 8, round(image.height / 8) * 8))
        inputs = tower.image_processor([whole], size={"shortest_edge": 256 * 64, "longest_edge": 1280 * 64})
        inputs = {name: torch.as_tensor(value) for name, value in inputs.items()}
        count = int(inputs["image_grid_thw"].prod()) // 4
        ids = tower.tokenizer([llm.GME_IMAGE.format("<|image_pad|>" * count)], return_tensors="pt")["input_ids"]
        types = (ids == tower.model.config.image_token_id).int()
        with torch.no_grad():
            output = tower.model(input_ids=ids, mm_token_type_ids=types, **inputs)
        found.append(output.last_hidden_state[:, -1])
    assert relative_error(tower.encode_images(PICTURES), torch.cat(found)) < 1e-5
    tower.image_positions = "sequence"
    assert relative_error(tower.encode_images(PICTURES), torch.cat(found)) > 1e-3


@pytest.mark.parametrize("positions", ["grid", "sequence"])
def test_an_image_pass_leaves_nothing_behind_that_a_text_pass_reads(tmp_path, positions):
    tower = gme(tmp_path, image_positions=positions)
    before = tower.encode_text(["a cat", "two dogs"])
    tower.encode_images(PICTURES)
    assert torch.equal(tower.encode_text(["a cat", "two dogs"]), before)


def test_images_have_gmes_sizes(get_tower):
    tower = get_tower("qwen2_vl")
    inputs = tower.image_inputs([Image.new("RGB", (9, 9)), Image.new("RGB", (900, 500))])
    tokens = inputs["image_grid_thw"].prod(-1) // 4
    assert tokens[0] == 256
    assert 1200 < tokens[1] <= 1280
    assert (inputs["input_ids"] == tower.image_token_id).sum(-1).tolist() == tokens.tolist()


def test_an_image_of_any_mode_is_resized_to_whole_patches():
    assert to_whole_patches(Image.new("LA", (43, 33)), 8).size == (40, 32)
    assert to_whole_patches(Image.new("P", (43, 33)), 8).mode == "RGB"
    with pytest.raises(InputError, match="900 × 4 pixels came"):
        to_whole_patches(Image.new("RGB", (900, 4)), 8)


def test_unknown_image_positions_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"image_positions='mrope' came\. Use 'sequence'"):
        gme(tmp_path, image_positions="mrope")


def test_a_tokeniser_without_the_image_token_is_refused(get_tower, monkeypatch):
    tower = get_tower("qwen2_vl")
    monkeypatch.setattr(tower, "image_token", "<picture>")
    with pytest.raises(InputError, match=r"has \d+ image tokens for the \d+ .*'<picture>' is not one token"):
        tower.encode_images(PICTURES)


# -- rotary positions of appended and repeated rows ------------------------------------------------


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("version", ["2", "2.5"])
def test_the_engine_equals_the_oracle_for_three_captions_of_any_qwen(tmp_path, version, side, attention):
    # Three captions: as many as there are axes of a position, in time, height and width.
    if version == "2":
        folder = llm.gme_checkpoint(tmp_path / "model")
        said = {"model_class": "Qwen2VLModel", "checkpoint": folder.name, "padding_side": side, **LAST}
        (tmp_path / "model.toml").write_text("".join(f"{k} = {json.dumps(v)}\n" for k, v in said.items()), "utf-8")
        tower = load_tower(tmp_path / "model.toml")
    else:
        said = {"model_class": "Qwen2_5_VLModel", "padding_side": side, **LAST}
        tower = load_tower(qwen25_checkpoint(tmp_path / "model", said=said))
    tower.model.set_attn_implementation({"text_config": attention})
    depths, rows = list(range(tower.n_blocks + 1)), torch.tensor([0, 1, 3])
    tokens = tokens_of(tower).take(rows)
    assert tokens.attention_mask is not None
    real = tokens.attention_mask[:, 0 if side == "left" else -1].sum()
    assert 0 < real < 3
    for intervention, kind in ((ParallelEOS("en"), "append"), (RandomEOS("en"), "append"), (MidToken("en"), "widen")):
        assert kind == (tower.strategy if intervention.site == "pooled" else "widen")
        context = context_for(tower, intervention).at(rows)
        given = sweep_pass(tower, tokens, [intervention], [context], depths).patched[0]
        wanted = patch_depths(tower, tokens, intervention, context, depths)
        assert relative_error(given, wanted) < 1e-5, intervention.name


def test_appending_without_positions_would_be_wrong(get_tower, monkeypatch):
    """Rows that are appended without the position of the row they stand for: the trap is real."""
    import workbench.engine as module

    tower, depths = get_tower("qwen2_vl"), [0, 1, 2]
    intervention = ParallelEOS("en")
    context = context_for(tower, intervention)
    wanted = patch_depths(tower, tokens_of(tower), intervention, context, depths)
    real = module.with_positions

    def next_in_line(kwargs, pooled, appended):
        # What a model does with rows at the end of a sequence: the position after the last.
        return real(kwargs, torch.full_like(pooled, int(pooled.max())), appended)

    monkeypatch.setattr(module, "with_positions", next_in_line)
    given = sweep_pass(tower, tokens_of(tower), [intervention], [context], depths).patched[0]
    assert relative_error(given, wanted) > 1e-4


@pytest.mark.parametrize("batch", [2, 3, 4])
def test_tables_three_deep_are_lengthened_and_repeated_along_the_captions(batch):
    """Multimodal rotary tables stood (axis, caption, position, width) in earlier versions of transformers."""
    from workbench.engine import _Widen, with_positions
    from workbench.hooks import BlockCall

    tables = torch.randn(3, batch, 7, 8)
    ids = torch.arange(3 * batch * 7).view(3, batch, 7)
    pooled = torch.arange(batch) + 2
    found = with_positions({"position_embeddings": (tables, -tables), "position_ids": ids}, pooled, 2)
    cos, sin = found["position_embeddings"]
    assert cos.shape == (3, batch, 9, 8)
    for caption, place in enumerate(pooled.tolist()):
        for appended in (7, 8):
            assert torch.equal(cos[:, caption, appended], tables[:, caption, place])
            assert torch.equal(sin[:, caption, appended], -tables[:, caption, place])
            assert torch.equal(found["position_ids"][:, caption, appended], ids[:, caption, place])
    widen = object.__new__(_Widen)
    widen.batch = batch
    kwargs = {
        "position_embeddings": (tables, -tables),
        "position_ids": ids,
        "attention_mask": torch.ones(batch, 1, 7, 7),
    }
    tiled = widen._tiled(BlockCall(torch.zeros(2 * batch, 7, 8), (), kwargs), 2).kwargs
    assert torch.equal(tiled["position_embeddings"][0], torch.cat([tables, tables], dim=1))
    assert torch.equal(tiled["position_ids"], torch.cat([ids, ids], dim=1))
    assert tiled["attention_mask"].shape == (2 * batch, 1, 7, 7)
