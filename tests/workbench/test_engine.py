import pytest
import torch

from interventions import ContentToken, MeanEOS, MidToken, NormMatchedNoise, ParallelEOS, RandomEOS
from tests.conftest import CAPTIONS
from workbench.engine import strategy, sweep_pass
from workbench.errors import HookError
from workbench.hooks import HookManager
from workbench.intervention import Context, Intervention
from workbench.oracle import patch_depths
from workbench.towers.base import relative_error
from workbench.trajectory import batches, capture_language

INTERVENTIONS = {
    "parallel": ParallelEOS("en"),
    "self": ParallelEOS("sw"),
    "mean": MeanEOS(("en", "hi", "sw")),
    "random": RandomEOS("en"),
    "noise": NormMatchedNoise(),
    "matched": NormMatchedNoise("matched"),
    "mid": MidToken("en"),
    "content": ContentToken("en"),
    "last": ContentToken("en", -1),
}


class Halfway(Intervention):
    """A user's own, as in the README."""

    name = "halfway to English"
    sources = ("en",)

    def rows(self, rows, depth, context):
        return (rows + context.donor("en", depth)) / 2


def tokens_of(tower, language="sw"):
    return tower.tokenize(CAPTIONS[language], language)


def context_for(tower, intervention, language="sw"):
    found = {
        source: capture_language(tower, tokens_of(tower, source), range(tower.n_blocks + 1), intervention.site)
        for source in intervention.sources
    }
    n = len(CAPTIONS[language])
    return Context(
        language, torch.arange(n), n, intervention.site,
        {source: rows.rows for source, rows in found.items()},
        {source: rows.available for source, rows in found.items()}, seed=3,
    )  # fmt: skip


def run(tower, intervention, depths=None, language="sw"):
    depths = list(range(tower.n_blocks + 1)) if depths is None else depths
    context = context_for(tower, intervention, language)
    return sweep_pass(tower, tokens_of(tower, language), [intervention], [context], depths)


@pytest.mark.parametrize("name", INTERVENTIONS)
def test_the_engine_equals_the_oracle_at_every_depth(tower, name):
    intervention = INTERVENTIONS[name]
    depths = list(range(tower.n_blocks + 1))
    context = context_for(tower, intervention)
    given = sweep_pass(tower, tokens_of(tower), [intervention], [context], depths).patched[0]
    wanted = patch_depths(tower, tokens_of(tower), intervention, context, depths)
    for depth in depths:
        assert relative_error(given[depth], wanted[depth]) < 1e-5, depth


def test_a_users_own_intervention_equals_the_oracle(tower):
    depths = list(range(tower.n_blocks + 1))
    context = context_for(tower, Halfway())
    given = sweep_pass(tower, tokens_of(tower), [Halfway()], [context], depths).patched[0]
    assert relative_error(given, patch_depths(tower, tokens_of(tower), Halfway(), context, depths)) < 1e-5


@pytest.mark.parametrize("batch_size", [1, 2, 5, 6])
@pytest.mark.parametrize("name", ["parallel", "random", "noise", "mid"])
def test_any_batch_size_and_padding_gives_the_same(tiny, name, batch_size):
    intervention = INTERVENTIONS[name]
    depths = list(range(tiny.n_blocks + 1))
    context = context_for(tiny, intervention)
    whole = sweep_pass(tiny, tokens_of(tiny), [intervention], [context], depths).patched[0]
    for part, batch in batches(tiny, tokens_of(tiny), batch_size):
        piece = sweep_pass(tiny, batch, [intervention], [context.at(part)], depths).patched[0]
        assert relative_error(piece, whole[:, part]) < 1e-5


def test_several_interventions_in_one_pass_equal_each_alone(tiny):
    names = [n for n, i in INTERVENTIONS.items() if strategy(tiny, i) == strategy(tiny, INTERVENTIONS["parallel"])]
    chosen = [INTERVENTIONS[name] for name in names]
    contexts = [context_for(tiny, intervention) for intervention in chosen]
    together = sweep_pass(tiny, tokens_of(tiny), chosen, contexts, [0, 2, 4])
    for k, intervention in enumerate(chosen):
        alone = run(tiny, intervention, [0, 2, 4])
        assert relative_error(together.patched[k], alone.patched[0]) < 1e-5
        assert torch.equal(together.touched[k], alone.touched[0])


def test_the_clean_embedding_is_the_models_own(tower):
    result = run(tower, INTERVENTIONS["parallel"])
    with tower.evaluating():
        assert relative_error(result.clean, tower.forward(tokens_of(tower))) < 1e-6


def test_a_patch_after_the_last_block_gives_the_source(tower):
    result = run(tower, INTERVENTIONS["parallel"], [tower.n_blocks])
    with tower.evaluating():
        wanted = tower.forward(tokens_of(tower, "en"))
    assert relative_error(result.patched[0, 0], wanted) < 1e-5


def test_a_self_patch_is_bit_identical(tower):
    result = run(tower, INTERVENTIONS["self"])
    assert (result.patched[0] == result.clean).all()
    assert result.unchanged.all()
    assert result.change.abs().max() == 0


def test_a_mid_token_patch_after_the_last_block_changes_nothing(tower):
    result = run(tower, INTERVENTIONS["mid"])
    if tokens_of(tower).averaged is not None:
        # A middle row is one of those averaged: it counts to the end.
        assert relative_error(result.patched[0, -1], result.clean) > 1e-4
        return
    assert torch.equal(result.patched[0, -1], result.clean)
    # … and before it, it does: a patch without any effect would pass the line above too.
    assert relative_error(result.patched[0, 1], result.clean) > 1e-4


def test_a_caption_without_a_middle_token_is_left_as_it_is_and_counted(get_tower):
    tower = get_tower("clip")
    # CLIP writes "a" and nothing else as one token; a caption of only an unknown sign has none of its own.
    captions = ["a cat", "☃", "two dogs"]
    tokens = tower.tokenize(captions)
    assert tokens.middle.tolist()[1] == -1
    rows = capture_language(tower, tokens, range(5), "middle")
    assert rows.available.tolist() == [True, False, True]
    context = Context("x", torch.arange(3), 3, "middle", {"en": rows.rows.flip(0)}, {"en": rows.available.flip(0)}, 0)
    result = sweep_pass(tower, tokens, [MidToken("en")], [context], [1])
    assert result.touched.tolist() == [[True, False, True]]
    assert torch.equal(result.patched[0, 0, 1], result.clean[1])
    assert not torch.equal(result.patched[0, 0, 0], result.clean[0])


def test_capture_equals_an_independent_forward(tower):
    depths = list(range(tower.n_blocks + 1))
    found = capture_language(tower, tokens_of(tower), depths, batch_size=2)
    for k, caption in enumerate(CAPTIONS["sw"]):
        alone = tower.tokenize([caption], "sw")
        with HookManager(tower.blocks) as hooks:
            hidden = hooks.capture(depths)
            tower.forward(alone)
        where = alone.averaged[0] if alone.averaged is not None else alone.pooled[:1]
        for place, depth in enumerate(depths):
            assert relative_error(found.rows[k, place], hidden[depth][0][where].mean(0)) < 1e-5


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["clip", "metaclip_2"])
def test_appending_is_exact_under_every_attention_implementation(tmp_path, name, attention):
    from tests.checkpoints import CHECKPOINTS
    from workbench.towers import load_tower

    tower = load_tower(CHECKPOINTS[name](tmp_path))
    tower.model.set_attn_implementation({"text_config": attention})
    depths = list(range(tower.n_blocks + 1))
    context = context_for(tower, INTERVENTIONS["parallel"])
    given = sweep_pass(tower, tokens_of(tower), [INTERVENTIONS["parallel"]], [context], depths).patched[0]
    wanted = patch_depths(tower, tokens_of(tower), INTERVENTIONS["parallel"], context, depths)
    assert relative_error(given, wanted) < 1e-5


def test_the_pooled_row_alone_suffices_in_the_last_block(tiny):
    tokens = tokens_of(tiny)
    calls = []
    with HookManager(tiny.blocks) as hooks:
        hooks.intercept(tiny.n_blocks - 1, lambda call: calls.append(call) or call)
        rows = hooks.capture([tiny.n_blocks], tokens.pooled)
        tiny.forward(tokens)
        given = tiny.last_block(calls[0], tokens.pooled)
    assert relative_error(given, rows[tiny.n_blocks]) < 1e-6


def test_a_pass_leaves_the_model_as_it_was(tower):
    tokens = tokens_of(tower)
    with tower.evaluating():
        plain = tower.forward(tokens)
        before = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in tower.model.modules()]
        run(tower, INTERVENTIONS["parallel"])
        after = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in tower.model.modules()]
        assert torch.equal(tower.forward(tokens), plain)
    assert before == after


def test_interventions_of_two_strategies_do_not_share_a_pass(get_tower):
    tower = get_tower("clip")
    chosen = [INTERVENTIONS["parallel"], INTERVENTIONS["mid"]]
    contexts = [context_for(tower, intervention) for intervention in chosen]
    with pytest.raises(HookError, match="one strategy"):
        sweep_pass(tower, tokens_of(tower), chosen, contexts, [1])


def test_an_intervention_that_returns_nan_names_the_depth(tiny):
    class Broken(Intervention):
        name = "broken"

        def rows(self, rows, depth, context):
            return rows * float("inf") if depth == 2 else rows

    with pytest.raises(HookError, match="NaN or infinity at depth 2"):
        run(tiny, Broken())
