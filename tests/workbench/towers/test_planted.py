"""Planted faults: only where, how and for whom they were asked for."""

from typing import Any

import pytest
import torch

from interventions import MidToken, ParallelEOS, RandomEOS
from tests.workbench.test_engine import context_for, tokens_of
from workbench.engine import sweep_pass
from workbench.errors import InputError
from workbench.hooks import HookManager
from workbench.oracle import patch_depths
from workbench.towers import load_tower
from workbench.towers.base import relative_error
from workbench.towers.planted import Fault, parse_planted, plant
from workbench.trajectory import capture_language

STRUCK = ("sw",)
KINDS = {
    "output": Fault("output", strength=1.0, labels=STRUCK),
    "block": Fault("block", 2, 0.8, STRUCK),
    "tokens": Fault("tokens", 1, 1.0, STRUCK),
    "tokenizer": Fault("tokenizer", strength=0.6, labels=STRUCK),
    "mixed": Fault("mixed", 3, 0.5, STRUCK),
    "last": Fault("block", 3, 1.0, STRUCK),
}


@pytest.fixture(params=["clip", "siglip", "altclip"])
def sound(request, get_tower):
    return get_tower(request.param)


def embed(tower, language="sw"):
    with tower.evaluating():
        return tower.forward(tokens_of(tower, language)).float()


@pytest.mark.parametrize("name", KINDS)
def test_a_fault_strikes_its_labels_and_no_other(sound, name):
    planted = plant(sound, KINDS[name])
    assert relative_error(embed(planted), embed(sound)) > 1e-2
    assert torch.equal(embed(planted, "en"), embed(sound, "en"))
    assert torch.equal(embed(sound), embed(sound))  # the sound tower stays as it was
    planted.check()


def test_no_strength_is_no_fault(sound):
    for fault in (Fault("none"), Fault("block", 1, 0.0, STRUCK), Fault("output", strength=0.0, labels=STRUCK)):
        assert torch.equal(embed(plant(sound, fault)), embed(sound))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("intervention", [ParallelEOS("en"), RandomEOS("en"), MidToken("en")], ids=lambda i: i.name)
def test_the_engine_equals_the_oracle_on_a_faulty_tower(sound, name, intervention):
    planted = plant(sound, KINDS[name])
    depths = list(range(planted.n_blocks + 1))
    context = context_for(planted, intervention)
    given = sweep_pass(planted, tokens_of(planted), [intervention], [context], depths).patched[0]
    wanted = patch_depths(planted, tokens_of(planted), intervention, context, depths)
    for depth in depths:
        assert relative_error(given[depth], wanted[depth]) < 1e-5, depth


def test_a_block_fault_is_in_that_block_and_nowhere_else(sound):
    planted = plant(sound, KINDS["block"])
    before, after = (capture_language(t, tokens_of(t), range(5)).rows for t in (sound, planted))
    assert torch.equal(before[:, :3], after[:, :3])
    assert relative_error(after[:, 3], before[:, 3]) > 1e-2
    with HookManager(sound.blocks) as hooks:
        hidden = hooks.capture([3])
        sound.forward(tokens_of(sound))
    with HookManager(planted.blocks) as hooks:
        faulty = hooks.capture([3])
        planted.forward(tokens_of(planted))
    moved = (hidden[3] - faulty[3]).abs().amax(-1) > 0
    tokens = tokens_of(sound)
    assert moved.sum(-1).tolist() == [1] * len(tokens)
    assert moved.int().argmax(-1).tolist() == tokens.pooled.tolist()


def test_a_turn_keeps_the_size_of_what_it_turns(sound):
    planted = plant(sound, KINDS["last"])
    block: Any = planted.blocks[3]
    before, after = (capture_language(t, tokens_of(t), [4]).rows[:, 0] for t in (sound, planted))
    away, turned = before - block.mean, after - block.mean
    torch.testing.assert_close(turned.norm(dim=-1), away.norm(dim=-1), rtol=1e-4, atol=1e-5)
    cosine = torch.nn.functional.cosine_similarity(away, turned)
    assert cosine.abs().max() < 1e-4  # a full strength is a quarter turn
    half = plant(sound, Fault("block", 3, 0.5, STRUCK))
    faulty: Any = half.blocks[3]
    rows = capture_language(half, tokens_of(half), [4]).rows[:, 0] - faulty.mean
    torch.testing.assert_close(torch.nn.functional.cosine_similarity(away, rows), torch.full((6,), 0.5**0.5))


def test_a_clean_row_cures_a_block_fault_beyond_it_and_is_corrupted_before_it(sound):
    planted = plant(sound, KINDS["last"])
    intervention = ParallelEOS("en")
    patched = sweep_pass(
        planted, tokens_of(planted), [intervention], [context_for(planted, intervention)], range(5)
    ).patched[0]
    english = embed(planted, "en")
    assert relative_error(patched[4], english) < 1e-5
    assert min(relative_error(patched[depth], english) for depth in range(4)) > 1e-2


def test_an_output_fault_is_a_constant_that_no_patch_takes_away(sound):
    planted: Any = plant(sound, KINDS["output"])
    added = embed(planted) - embed(sound)
    size = embed(sound).norm(dim=-1, keepdim=True)
    assert relative_error(added / size, planted.constant.expand_as(added)) < 1e-4
    intervention = ParallelEOS("en")
    patched = sweep_pass(
        planted, tokens_of(planted), [intervention], [context_for(planted, intervention)], range(5)
    ).patched[0]
    english = embed(planted, "en")
    rest = patched[4] - english
    assert relative_error(rest / english.norm(dim=-1, keepdim=True), planted.constant.expand_as(rest)) < 1e-4


def test_a_tokeniser_fault_loses_the_same_words_whatever_the_batch(sound):
    planted = plant(sound, KINDS["tokenizer"])
    caption = "two dogs in a small hut"
    together, alone = planted.tokenize(["a cat", caption], "sw"), planted.tokenize([caption], "sw")
    kept = together.input_ids[1][together.content[1]].tolist()
    assert kept == alone.input_ids[0][alone.content[0]].tolist()
    whole = sound.tokenize([caption], "sw")
    assert 0 < len(kept) < int(whole.content.sum())
    single = planted.tokenize(["cat"], "sw")
    assert single.content.sum() == sound.tokenize(["cat"], "sw").content.sum()  # one word is always left


def test_fingerprints_tell_faults_apart(get_tower):
    tower = get_tower("clip")
    prints = [plant(tower, fault).fingerprint for fault in (*KINDS.values(), Fault("none"))]
    assert len({*prints, tower.fingerprint}) == len(prints) + 1


def test_a_planted_tower_is_loaded_by_name():
    tower = load_tower("planted-block-5:strength=0.6,labels=lo1+lo2,base=emoji-bidirectional")
    assert tower.name == "planted-block-5:strength=0.6,labels=lo1+lo2"
    assert tower.family == "siglip"
    assert "planted-block-5" in tower.provenance.notes["planted"]
    assert parse_planted("planted-none")[1] == Fault("none")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("planted-blok-5", "no fault 'blok'"),
        ("planted-block", "needs a block"),
        ("planted-output-3", "has no block"),
        ("planted-block-99", "has blocks 0 to 11"),
        ("planted-block-5:strength=2", "0 to 1"),
        ("planted-block-5:force=2", "no parameter"),
        ("planted-block-x", "can't be read"),
    ],
)
def test_a_name_that_makes_no_sense_teaches(name, message):
    with pytest.raises(InputError, match=message):
        load_tower(name)
