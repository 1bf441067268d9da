import copy
import math

import numpy as np
import pytest
import torch
from PIL import Image

from probes.sensitivity import (
    _Step,
    back_half_sensitivity,
    residual_weighted_correlation,
    sensitivity_change,
)
from tests.conftest import CAPTIONS
from workbench.corpora.base import Corpus
from workbench.errors import InputError
from workbench.hooks import HookManager
from workbench.intervention import Context
from workbench.trajectory import capture_language

DEPTH = 2


def make_corpus(captions=CAPTIONS):
    n = len(captions["en"])
    return Corpus(
        name="toy-corpus",
        image_ids=tuple(f"image-{row}" for row in range(n)),
        captions={code: tuple((text,) for text in texts) for code, texts in captions.items()},
        open_image=lambda name: Image.new("RGB", (32, 32)),
        licence="none",
        description="grey squares",
        image_hash=lambda name: name,
    )


def patched(tower, tokens, rows, depth=DEPTH):
    """The embeddings with other rows put in, by one plain patched pass."""
    with HookManager(tower.blocks) as hooks:
        hooks.replace(depth, tokens.where("pooled"), lambda clean: rows)
        return tower.forward(tokens).double()


def norm(rows):
    return torch.linalg.vector_norm(rows.double(), dim=-1).numpy()


def test_the_ratio_towards_the_reference_is_that_of_a_plain_patch(tower):
    found = back_half_sensitivity(tower, make_corpus(), DEPTH, languages=["hi", "sw"], directions=2)
    english = capture_language(tower, tower.tokenize(CAPTIONS["en"], "en"), [DEPTH]).rows[:, 0]
    for k, code in enumerate(("hi", "sw")):
        tokens = tower.tokenize(CAPTIONS[code], code)
        own = capture_language(tower, tokens, [DEPTH])
        moved = norm(patched(tower, tokens, english) - own.embeddings)
        np.testing.assert_allclose(found.residual[k], norm(english.double() - own.rows[:, 0].double()), rtol=1e-5)
        np.testing.assert_allclose(found.to_reference[k], moved / found.residual[k], rtol=1e-3)
    assert (found.n, found.d, found.depth, found.n_blocks) == (6, tower.width, DEPTH, tower.n_blocks)
    assert (found.random > 0).all()


def test_small_random_steps_are_the_derivative(tiny):
    """Against the exact Jacobian of the tower's own pass, from autograd."""
    found = back_half_sensitivity(tiny, make_corpus(), DEPTH, languages=["sw"], directions=3, step=1e-3, seed=5)
    tokens = tiny.tokenize(CAPTIONS["sw"], "sw")
    rows = capture_language(tiny, tokens, [DEPTH]).rows[:, 0].clone().requires_grad_()
    with HookManager(tiny.blocks, gradients=True) as hooks:
        hooks.replace(DEPTH, tokens.where("pooled"), lambda clean: rows)
        embeddings = tiny.forward(tokens)
        parts = [torch.autograd.grad(column.sum(), rows, retain_graph=True)[0] for column in embeddings.T]
    jacobian = torch.stack(parts, dim=1).double()  # caption, embedding, width
    context = Context("sw", torch.arange(6), 6, "pooled", {}, {}, 5)
    for k in range(3):
        move = (_Step(k, 1.0).rows(rows.detach(), DEPTH, context) - rows.detach()).double()
        expected = norm(torch.einsum("new,nw->ne", jacobian, move)) / norm(move)
        np.testing.assert_allclose(found.random[0, :, k], expected, rtol=0.05)


def test_at_the_last_depth_it_is_the_head_alone(get_tower):
    tower = get_tower("clip")
    found = back_half_sensitivity(tower, make_corpus(), -1, languages=["sw"], directions=0)
    rows = [capture_language(tower, tower.tokenize(CAPTIONS[c], c), [4]).rows[:, 0] for c in ("sw", "en")]
    with torch.no_grad():
        moved = norm(tower.head(rows[1]).double() - tower.head(rows[0]).double())
    np.testing.assert_allclose(found.to_reference[0], moved / norm(rows[1].double() - rows[0].double()), rtol=1e-4)
    assert found.depth == 4
    assert np.isnan(found.summary("random").mean.value).all()
    assert found.summary("random").captions.tolist() == [0]


def test_a_caption_that_is_the_reference_has_no_ratio(get_tower):
    captions = {**CAPTIONS, "sw": [CAPTIONS["en"][0], *CAPTIONS["sw"][1:]]}
    found = back_half_sensitivity(get_tower("metaclip_2"), make_corpus(captions), DEPTH, directions=2)
    assert found.languages == ("en", "hi", "sw")
    assert np.isnan(found.to_reference[0]).all()
    assert math.isnan(found.to_reference[2, 0])
    assert np.isfinite(found.to_reference[2, 1:]).all()
    summary = found.summary()
    assert summary.captions.tolist() == [0, 6, 5]
    assert math.isnan(summary.mean.value[0])
    assert summary.mean.value[2] == pytest.approx(found.to_reference[2, 1:].mean())
    assert summary.maximum[2] == found.to_reference[2, 1:].max()
    assert summary.mean.low[1] < summary.mean.value[1] < summary.mean.high[1]
    assert set(found.by_language()) == {"hi", "sw"}
    assert set(found.residuals()) == {"hi", "sw"}
    random = found.summary("random")
    assert random.captions.tolist() == [6, 6, 6]
    assert random.maximum[0] == found.random[0].max()
    assert random.mean.value[0] == pytest.approx(found.random[0].mean())


def test_one_of_several_references_is_measured_against_the_others(get_tower):
    tower = get_tower("siglip")
    found = back_half_sensitivity(tower, make_corpus(), DEPTH, ("en", "hi"), directions=0)
    rows = {
        code: capture_language(tower, tower.tokenize(CAPTIONS[code], code), [DEPTH]).rows[:, 0].double()
        for code in CAPTIONS
    }
    np.testing.assert_allclose(found.residual[0], norm(rows["hi"] - rows["en"]), rtol=1e-6)
    np.testing.assert_allclose(found.residual[2], norm((rows["hi"] + rows["en"]) / 2 - rows["sw"]), rtol=1e-5)


def test_unit_embeddings_are_what_retrieval_sees(get_tower):
    tower = get_tower("clip")
    found = back_half_sensitivity(tower, make_corpus(), DEPTH, languages=["sw"], directions=0, output="unit")
    tokens = tower.tokenize(CAPTIONS["sw"], "sw")
    english = capture_language(tower, tower.tokenize(CAPTIONS["en"], "en"), [DEPTH]).rows[:, 0]
    clean, moved = tower.encode_text(CAPTIONS["sw"], "sw").double(), patched(tower, tokens, english)
    cosine = torch.cosine_similarity(clean, moved).numpy()
    np.testing.assert_allclose(found.to_reference[0] * found.residual[0], np.sqrt(2 - 2 * cosine), rtol=1e-3)


def test_batches_do_not_matter_the_seed_does_and_nothing_stays_behind(get_tower):
    tower, corpus = get_tower("emoji-causal"), make_corpus()
    hooks = sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in tower.model.modules())
    first, again, small, other = (
        back_half_sensitivity(tower, corpus, DEPTH, directions=2, batch_size=size, seed=seed)
        for size, seed in ((None, 0), (None, 0), (2, 0), (None, 1))
    )
    assert first.random.tobytes() == again.random.tobytes()
    np.testing.assert_allclose(first.random, small.random, rtol=5e-3)
    np.testing.assert_allclose(first.to_reference, small.to_reference, rtol=1e-3)
    assert not np.allclose(first.random, other.random, rtol=5e-3)
    assert hooks == sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in tower.model.modules())


def test_the_product_is_correlated_with_the_lift():
    codes: tuple[str, ...] = ("bn", "fil", "hi", "sw", "te")
    sensitivity: dict[str, float] = dict(zip(codes, (0.8, 0.7, 0.5, 0.4, 0.3), strict=True))
    residual: dict[str, float] = dict(zip(codes, (2.0, 1.0, 2.0, 1.0, 2.0), strict=True))
    lift = {code: 10 * sensitivity[code] * residual[code] for code in reversed(codes)}
    found = residual_weighted_correlation(sensitivity, residual, lift)
    assert (found.pearson, found.spearman, found.n) == (pytest.approx(1), pytest.approx(1), 5)
    assert found.names == codes
    with pytest.raises(InputError, match="not all have te"):
        residual_weighted_correlation(sensitivity, residual, {code: lift[code] for code in codes[:4]})


def test_a_change_is_told_as_percent_and_factor(get_tower):
    tower = get_tower("clip")
    before = back_half_sensitivity(tower, make_corpus(), DEPTH, directions=2)
    weaker = copy.copy(tower)
    weaker.model = copy.deepcopy(tower.model)
    with torch.no_grad():
        weaker.model.text_projection.weight.mul_(0.25)
    after = back_half_sensitivity(weaker, make_corpus(), DEPTH, directions=2)
    for kind in ("reference", "random"):
        change = sensitivity_change(before, after, kind)
        assert change.mean_percent == pytest.approx(-75, abs=0.1)
        assert change.max_factor == pytest.approx(4, rel=0.01)
    with pytest.raises(InputError, match="differ in depth: 2 and 3"):
        sensitivity_change(before, back_half_sensitivity(tower, make_corpus(), 3, directions=2))
    alone = back_half_sensitivity(tower, make_corpus(), 3, languages=["en"], directions=1)
    with pytest.raises(InputError, match="No caption has a ratio"):
        sensitivity_change(alone, alone)


def test_bad_input_is_named(get_tower):
    tower, corpus = get_tower("clip"), make_corpus()
    half = copy.copy(tower)
    half.model = copy.deepcopy(tower.model).half()
    with pytest.raises(InputError, match=r"is in float16; a step of 1\.00% drowns"):
        back_half_sensitivity(half, corpus, DEPTH)
    with pytest.raises(InputError, match="no depth 9"):
        back_half_sensitivity(tower, corpus, 9)
    with pytest.raises(InputError, match="'embedding' or 'unit'"):
        back_half_sensitivity(tower, corpus, DEPTH, output="logits")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="step=0 came"):
        back_half_sensitivity(tower, corpus, DEPTH, step=0)
    with pytest.raises(InputError, match="xx"):
        back_half_sensitivity(tower, corpus, DEPTH, "xx")
    with pytest.raises(InputError, match="Nothing is to be measured"):
        back_half_sensitivity(tower, corpus, DEPTH, languages=["en"], directions=0)
    with pytest.raises(InputError, match="1 caption a language"):
        back_half_sensitivity(tower, make_corpus({code: texts[:1] for code, texts in CAPTIONS.items()}), DEPTH)
    with pytest.raises(InputError, match="'reference' or 'random'"):
        back_half_sensitivity(tower, corpus, DEPTH).summary("mean")  # pyright: ignore[reportArgumentType]
