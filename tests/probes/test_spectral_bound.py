import copy
import math

import pytest
import torch
from torch import nn

from probes import spectral_bound as module
from probes.sensitivity import back_half_sensitivity
from probes.spectral_bound import back_half_bound
from tests.conftest import CAPTIONS
from tests.probes.test_sensitivity import make_corpus
from workbench.errors import InputError
from workbench.hooks import HookManager, with_rows
from workbench.trajectory import capture_language

BUILT_IN = ["emoji-bidirectional", "emoji-causal"]
TINY = ["M-CLIP", "altclip", "chinese_clip", "clip", "metaclip_2", "open_clip", "siglip", "siglip2"]
# Gated MLPs, RMS norms and rotary queries: no bound is known here, and none is invented.
UNKNOWN = ["colqwen2", "described", "qwen2_vl"]


def captions_of(tower):
    return [tower.tokenize(texts, code) for code, texts in CAPTIONS.items()]


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("name", [*BUILT_IN, *TINY])
def test_no_sampled_ratio_exceeds_the_bound(name, depth, get_tower):
    tower = get_tower(name)
    sampled = back_half_sensitivity(tower, make_corpus(), depth, directions=4)
    highest = max(float(sampled.random.max()), float(sampled.to_reference[1:].max()))
    bound = back_half_bound(tower, depth, captions_of(tower))
    assert math.log10(highest) < bound.conditional < bound.worst
    assert bound.captions == 18
    assert [factor.name for factor in bound.factors] == [
        *(f"block {k}" for k in range(depth, tower.n_blocks)), "head",
    ]  # fmt: skip


@pytest.mark.parametrize("name", TINY)
def test_a_blocks_factor_bounds_its_exact_jacobian(name, get_tower):
    """With the very variances of these captions, so that nothing but the algebra of the bound is tested."""
    tiny, block = get_tower(name), 1
    for code, texts in CAPTIONS.items():
        tokens = tiny.tokenize(texts[:1], code)
        factor = back_half_bound(tiny, block, [tokens]).factors[0]
        taken = {}
        with HookManager(tiny.blocks) as hooks:
            hooks.intercept(block, lambda call, taken=taken: taken.setdefault("call", call))
            tiny.forward(tokens)
        call, where = taken["call"], tokens.where("pooled")
        alone = tiny.strategy == "append"

        def run(rows, call=call, where=where, alone=alone):
            hidden = with_rows(call.hidden, where, rows) if alone else rows
            out = tiny.blocks[block].forward(hidden, *call.args, **call.kwargs)
            return out[0, where[0]] if alone else out

        at = call.hidden[0, where].detach() if alone else call.hidden.detach()
        jacobian = torch.autograd.functional.jacobian(run, at)
        assert isinstance(jacobian, torch.Tensor)
        square = jacobian.reshape(-1, at.numel()).double()
        stretch = float(torch.linalg.matrix_norm(square, ord=2))
        assert stretch > 1e-3
        assert math.log10(stretch) <= factor.conditional + 1e-6


def test_a_block_that_does_nothing_has_the_factor_one(get_tower):
    tower = copy.copy(get_tower("clip"))
    tower.model = copy.deepcopy(tower.model)
    with torch.no_grad():
        for block in tower.blocks[2:]:
            block.self_attn.v_proj.weight.zero_()
            block.mlp.fc2.weight.zero_()
    bound = back_half_bound(tower, 2)
    assert [factor.worst for factor in bound.factors[:-1]] == [0, 0]
    norm, projection = tower.model.text_model.final_layer_norm, tower.model.text_projection
    head = norm.weight.abs().max() / norm.eps**0.5 * torch.linalg.matrix_norm(projection.weight, ord=2)
    assert bound.worst == pytest.approx(math.log10(float(head.detach())), abs=1e-4)
    assert math.isnan(bound.conditional)


def test_the_product_is_over_the_blocks_from_the_depth_on(get_tower):
    tower = get_tower("metaclip_2")
    whole, part = back_half_bound(tower, 0), back_half_bound(tower, 3)
    assert whole.worst == pytest.approx(part.worst + sum(factor.worst for factor in whole.factors[:3]))
    assert back_half_bound(tower, -1).worst == pytest.approx(whole.factors[-1].worst)
    assert whole.positions == 1


def test_other_rows_count_where_they_move(get_tower):
    tower = get_tower("siglip")
    tokens = captions_of(tower)
    bound = back_half_bound(tower, 2, tokens)
    assert bound.positions == tokens[0].input_ids.shape[1] == 24
    assert back_half_bound(tower, 2).positions == tower.max_positions


def linear(weight, bias=None):
    made = nn.Linear(*weight.shape[::-1], bias=bias is not None)
    with torch.no_grad():
        made.weight.copy_(weight)
        if bias is not None:
            made.bias.copy_(bias)
    return made


def test_attention_is_the_formula_by_hand():
    d, radius = 4, 3.0
    eye = torch.eye(d)
    norm = nn.LayerNorm(d)
    parts = module._Block(
        False, (norm, norm), linear(2 * eye, torch.tensor([0.0, 0, 0, 5])), linear(3 * eye), linear(7 * eye),
        linear(0.5 * eye), linear(eye), linear(eye), torch.relu, 1,
    )  # fmt: skip
    values, keys, queries = 7 * radius, 3 * radius, 2 * radius + 5
    expected = 0.5 * (7 + values / 2 * (keys * 2 + queries * 3))
    assert module._attention(parts, radius, 1) == pytest.approx(expected)
    wide = 0.5 * (2 * 7 + values / 2 * (keys * 2 + 2 * queries * 3))
    assert module._attention(parts, radius, 4) == pytest.approx(wide)
    assert module._radius(norm) == 2


@pytest.mark.parametrize("post", [False, True])
def test_a_blocks_factor_is_the_formula_by_hand(post):
    first, second = nn.LayerNorm(4, eps=1e-6), nn.LayerNorm(4, eps=1e-6)
    with torch.no_grad():
        first.weight.mul_(3.0)
        second.weight.mul_(-2.0)
    some = linear(torch.eye(4))
    block = module._Block(post, (first, second), some, some, some, some, some, some, torch.relu, 1)
    for least, spreads in (({id(first): 0.25, id(second): 4.0}, (0.5, 2.0)), (None, (1e-3, 1e-3))):
        a, b = 3 / spreads[0], 2 / spreads[1]
        expected = a * (1 + 5) * b * (1 + 7) if post else (1 + a * 5) * (1 + b * 7)
        assert module._block_log10(block, 5.0, 7.0, least) == pytest.approx(math.log10(expected), abs=1e-4)


def test_slopes_of_activations():
    assert module._steepest(torch.relu) == pytest.approx(1, abs=2e-4)
    assert module._steepest(nn.functional.gelu) == pytest.approx(1.1290, abs=2e-4)
    assert module._steepest(lambda x: x * torch.sigmoid(1.702 * x)) == pytest.approx(1.0998, abs=2e-4)


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_language_model_has_no_known_bound(name, get_tower):
    with pytest.raises(InputError, match="DecoderLayer, whose bound is not known here"):
        back_half_bound(get_tower(name), 2)


def test_an_unknown_weight_in_a_block_or_head_is_refused(get_tower):
    tower = copy.copy(get_tower("clip"))
    tower.model = copy.deepcopy(tower.model)
    tower.blocks[3].register_parameter("gate", nn.Parameter(torch.ones(1)))
    with pytest.raises(InputError, match="blocks of the kind CLIPEncoderLayer, whose bound is not known"):
        back_half_bound(tower, 2)
    plain = copy.copy(get_tower("clip"))
    plain.head = lambda rows: torch.tanh(get_tower("clip").head(rows))  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(InputError, match="more than layer norms and linear maps"):
        back_half_bound(plain, 2)
    with pytest.raises(InputError, match="no depth 9"):
        back_half_bound(tower, 9)


def test_nothing_stays_on_the_model(get_tower):
    tower = get_tower("siglip")
    before = {name: len(m._forward_hooks) + len(m._forward_pre_hooks) for name, m in tower.model.named_modules()}
    back_half_bound(tower, 2, captions_of(tower))
    rows = capture_language(tower, captions_of(tower)[0], [0]).rows
    assert torch.isfinite(rows).all()
    assert before == {
        name: len(m._forward_hooks) + len(m._forward_pre_hooks) for name, m in tower.model.named_modules()
    }
