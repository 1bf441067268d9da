"""Encoders without an image tower: pooling rules, prefixes, and what is measured about a model."""

import json

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from interventions import MeanEOS, MidToken, NormMatchedNoise, ParallelEOS, RandomEOS
from tests.checkpoints.text_only import TEXT_ONLY, decoder_checkpoint, e5_checkpoint, labse_checkpoint
from tests.conftest import CAPTIONS
from tests.workbench.test_engine import Halfway, context_for, tokens_of
from workbench.engine import strategy, sweep_pass
from workbench.errors import InputError, TowerError
from workbench.hooks import HookManager
from workbench.oracle import patch_depths
from workbench.towers import load_tower
from workbench.towers.base import relative_error
from workbench.trajectory import capture_language

INTERVENTIONS = {
    "parallel": ParallelEOS("en"),
    "mean": MeanEOS(("en", "hi", "sw")),
    "random": RandomEOS("en"),
    "noise": NormMatchedNoise("matched"),
    "mid": MidToken("en"),
    "halfway": Halfway(),
}
ODD = ["a cat", "the quick brown fox", "x", "שאב אבג"]


@pytest.fixture(params=sorted(TEXT_ONLY), scope="module")
def tower(request, tmp_path_factory):
    return load_tower(TEXT_ONLY[request.param](tmp_path_factory.mktemp(request.param)))


def by_hand(folder, rule, captions, dense=None):
    """Pool with plain transformers, written out, one caption at a time."""
    model = AutoModel.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = []
    with torch.no_grad():
        for caption in captions:
            hidden = model(**tokenizer([caption], return_tensors="pt")).last_hidden_state[0]
            rows.append({"cls": hidden[0], "mean": hidden.mean(0), "last": hidden[-1]}[rule])
    return torch.stack(rows)


@pytest.mark.parametrize(("name", "rule"), [("bge", "cls"), ("decoder", "last"), ("e5", "mean")])
def test_embeddings_are_the_models_last_hidden_state_pooled_by_its_own_rule(tmp_path, name, rule):
    folder = TEXT_ONLY[name](tmp_path)
    tower = load_tower(folder)
    assert tower.provenance.notes["pooling"] == rule
    assert relative_error(tower.encode_text(ODD), by_hand(folder, rule, ODD)) < 1e-5


def test_a_dense_layer_is_part_of_the_embedding_and_of_the_fingerprint(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = labse_checkpoint(tmp_path)
    tower, path = load_tower(folder), folder / "2_Dense" / "model.safetensors"
    weights = load_file(path)
    wanted = torch.tanh(by_hand(folder, "cls", ODD) @ weights["linear.weight"].T + weights["linear.bias"])
    assert relative_error(tower.encode_text(ODD), wanted) < 1e-5
    save_file({name: -tensor for name, tensor in weights.items()}, path)
    other = load_tower(folder)
    assert relative_error(other.encode_text(ODD), -tower.encode_text(ODD)) < 1e-6
    assert other.fingerprint != tower.fingerprint


@pytest.mark.parametrize("name", INTERVENTIONS)
def test_the_engine_equals_the_oracle_at_every_depth(tower, name):
    intervention, depths = INTERVENTIONS[name], list(range(tower.n_blocks + 1))
    context = context_for(tower, intervention)
    given = sweep_pass(tower, tokens_of(tower), [intervention], [context], depths).patched[0]
    wanted = patch_depths(tower, tokens_of(tower), intervention, context, depths)
    for depth in depths:
        assert relative_error(given[depth], wanted[depth]) < 1e-5, depth


def test_a_row_patched_with_itself_changes_no_bit_and_a_full_patch_gives_the_source(tower):
    depths = list(range(tower.n_blocks + 1))
    own = ParallelEOS("sw")
    result = sweep_pass(tower, tokens_of(tower), [own], [context_for(tower, own)], depths)
    assert torch.equal(result.patched[0], result.clean.expand_as(result.patched[0]))
    tokens = tokens_of(tower)
    with HookManager(tower.blocks) as hooks:
        for depth in depths:
            hooks.replace(depth, tokens.where("pooled"), lambda row: row)
        same = tower.forward(tokens)
    with tower.evaluating():
        assert torch.equal(same, tower.forward(tokens))


@pytest.mark.parametrize("name", ["bge", "decoder", "labse", "e5"])
def test_a_patch_after_the_last_block_gives_the_sources_embedding(tmp_path, name):
    """With a norm between the last block and a mean it can't, and no family here has that."""
    tower = load_tower(TEXT_ONLY[name](tmp_path))
    source = ParallelEOS("en")
    patched = sweep_pass(tower, tokens_of(tower), [source], [context_for(tower, source)], [tower.n_blocks]).patched[
        0, 0
    ]
    with tower.evaluating():
        assert relative_error(patched, tower.forward(tokens_of(tower, "en"))) < 1e-5


def test_capture_equals_an_independent_forward(tower):
    tokens = tokens_of(tower)
    depths = list(range(tower.n_blocks + 1))
    found = capture_language(tower, tokens, depths, batch_size=2)
    for k, caption in enumerate(CAPTIONS["sw"]):
        own = tower.tokenize([caption], "sw")
        with HookManager(tower.blocks) as hooks:
            rows = hooks.capture(depths)
            tower.forward(own)
        for place, depth in enumerate(depths):
            hidden = rows[depth][0]
            wanted = hidden.mean(0) if own.averaged is not None else hidden[own.pooled[0]]
            assert relative_error(found.rows[k, place], wanted) < 1e-5


def test_a_mean_is_moved_by_shifting_every_row_by_the_same_vector(tmp_path):
    tower = load_tower(e5_checkpoint(tmp_path))
    tokens = tower.tokenize(ODD)
    where = tokens.where("pooled")
    assert torch.equal(where, tokens.attention_mask.bool())  # pyright: ignore[reportOptionalMemberAccess]
    donor = torch.randn(len(ODD), tower.width)
    with HookManager(tower.blocks) as hooks:
        before = hooks.capture([2])
        hooks.replace(2, where, lambda row: donor)
        after, mean = hooks.capture([2]), hooks.capture([2], where)
        tower.forward(tokens)
    moved = after[2] - before[2]
    assert moved[~where].abs().max() == 0  # padding stays
    for k in range(len(ODD)):
        rows = moved[k][where[k]]
        assert (rows - rows[0]).abs().max() < 1e-5
    assert relative_error(mean[2], donor) < 1e-5


def test_only_a_causal_model_that_pools_its_last_row_is_appended_to(tmp_path):
    last = load_tower(decoder_checkpoint(tmp_path / "last"))
    mean = load_tower(decoder_checkpoint(tmp_path / "mean", pooling="mean_tokens"))
    encoder = load_tower(e5_checkpoint(tmp_path / "encoder"))
    assert last.causal
    assert mean.causal
    assert not encoder.causal
    assert [strategy(tower, ParallelEOS("en")) for tower in (last, mean, encoder)] == ["append", "widen", "widen"]
    # A norm stands between the last block and this mean: the model's own order is kept all the same.
    wanted = by_hand(tmp_path / "mean", "mean", ODD)
    assert relative_error(mean.encode_text(ODD), wanted) < 1e-5
    context = context_for(mean, ParallelEOS("en"))
    depths = list(range(5))
    given = sweep_pass(mean, tokens_of(mean), [ParallelEOS("en")], [context], depths).patched[0]
    assert relative_error(given, patch_depths(mean, tokens_of(mean), ParallelEOS("en"), context, depths)) < 1e-5


def test_no_cache_is_kept_by_a_decoder(tmp_path):
    tower = load_tower(decoder_checkpoint(tmp_path))
    assert tower.model_inputs(tower.tokenize(["x"]))["use_cache"] is False
    with torch.no_grad():
        assert tower.model(**tower.model_inputs(tower.tokenize(["x"]))).past_key_values is None


def test_a_prefix_is_read_but_is_no_content(tmp_path):
    folder = e5_checkpoint(tmp_path)
    plain, prefixed = load_tower(folder), load_tower(folder, prefix="query: ")
    with_prefix = [f"query: {caption}" for caption in ODD]
    assert relative_error(prefixed.encode_text(ODD), plain.encode_text(with_prefix)) < 1e-6
    assert relative_error(prefixed.encode_text(ODD), plain.encode_text(ODD)) > 1e-2
    one, two = plain.tokenize(ODD), prefixed.tokenize(ODD)
    fits = ~two.truncated
    assert fits.sum() == 3
    assert one.content.sum(-1)[fits].tolist() == two.content.sum(-1)[fits].tolist()
    assert prefixed.provenance.notes["prefix"] == "query: "


def test_captions_over_the_limit_are_truncated_and_marked(tower):
    long = "the quick brown fox jumps over the lazy dog again" * 3
    tokens = tower.tokenize(["a cat", long])
    assert tokens.truncated.tolist() == [False, True]
    assert tokens.input_ids.shape[1] == tower.max_positions
    assert torch.equal(tower.encode_text([long]), tower.encode_text([long + " and more"]))


def test_a_model_that_does_not_say_how_it_pools_needs_to_be_told(tmp_path):
    folder = e5_checkpoint(tmp_path)
    (folder / "modules.json").unlink()
    with pytest.raises(InputError, match="does not say how it pools its rows"):
        load_tower(folder)
    with pytest.raises(InputError, match="pooling='max' came"):
        load_tower(folder, pooling="max")
    told = load_tower(folder, pooling="cls")
    assert relative_error(told.encode_text(ODD), by_hand(folder, "cls", ODD)) < 1e-5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modules.json": "{"}, "modules.json .* can't be read"),
        ({"modules.json": '[{"type": "a.LSTM", "path": ""}]'}, "module 'LSTM'"),
        ({"1_Pooling/config.json": '{"pooling_mode_max_tokens": true}'}, "pools by"),
    ],
)
def test_broken_or_unknown_sentence_transformers_files(tmp_path, change, message):
    folder = e5_checkpoint(tmp_path)
    for name, content in change.items():
        (folder / name).write_text(content)
    with pytest.raises(TowerError, match=message):
        load_tower(folder)


def test_an_unknown_activation_of_a_dense_layer_is_refused(tmp_path):
    folder = labse_checkpoint(tmp_path)
    path = folder / "2_Dense" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "activation_function": "torch.nn.GELU"}))
    with pytest.raises(TowerError, match="activation 'gelu'"):
        load_tower(folder)


def test_images_are_refused(tower):
    assert not tower.has_images
    with pytest.raises(InputError, match="is a text-only encoder"):
        tower.encode_images([])
