import pytest
import torch
from torch import nn

from workbench.errors import HookError
from workbench.hooks import HookManager, unwrap, with_rows


def hooks_of(model: nn.Module) -> list[tuple[int, int]]:
    return [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]


@pytest.fixture
def tokens(tiny):
    return tiny.tokenize(["a cat", "two dogs in a hut", "x"])


def test_capture_equals_a_forward_by_hand(tiny, tokens):
    with HookManager(tiny.blocks) as hooks:
        found = hooks.capture(range(tiny.n_blocks + 1), tokens.pooled)
        tiny.forward(tokens)
    seen = []
    handles = [tiny.blocks[0].register_forward_pre_hook(lambda m, a: seen.append(a[0].clone()))]
    handles += [b.register_forward_hook(lambda m, a, o: seen.append(o.clone())) for b in tiny.blocks]
    tiny.forward(tokens)
    for handle in handles:
        handle.remove()
    assert list(found) == list(range(tiny.n_blocks + 1))
    for depth, hidden in enumerate(seen):
        assert torch.equal(found[depth], hidden[torch.arange(3), tokens.pooled])


def test_capture_without_an_index_gives_every_row(tiny, tokens):
    with HookManager(tiny.blocks) as hooks:
        found = hooks.capture([1])
        tiny.forward(tokens)
    assert found[1].shape == (*tokens.input_ids.shape, tiny.width)


def test_captured_rows_are_copies(tiny, tokens):
    with HookManager(tiny.blocks) as hooks:
        found = hooks.capture([1], tokens.pooled)
        hooks.visit(1, lambda hidden: hidden.zero_())
        tiny.forward(tokens)
    assert found[1].abs().sum() > 0


@pytest.mark.parametrize("depth", [0, 2, 4])
def test_replacing_a_row_by_itself_is_neutral_to_the_bit(tiny, tokens, depth):
    plain = tiny.forward(tokens)
    with HookManager(tiny.blocks) as hooks:
        patch = hooks.replace(depth, tokens.pooled, lambda row: row)
        same = tiny.forward(tokens)
    assert torch.equal(same, plain)
    assert patch.rows == 3
    assert patch.change is not None
    assert patch.change.abs().max() == 0


def test_a_patch_at_depth_n_gives_the_donor(tiny, tokens):
    donors = tiny.tokenize(["some tea", "the moon", "a man"])
    with HookManager(tiny.blocks) as hooks:
        rows = hooks.capture([tiny.n_blocks], donors.where("pooled"))
        wanted = tiny.forward(donors)
    with HookManager(tiny.blocks) as hooks:
        hooks.replace(tiny.n_blocks, tokens.where("pooled"), lambda row: rows[tiny.n_blocks])
        given = tiny.forward(tokens)
    torch.testing.assert_close(given, wanted, rtol=1e-5, atol=1e-6)


def test_a_later_capture_sees_an_earlier_patch(tiny, tokens):
    with HookManager(tiny.blocks) as hooks:
        hooks.replace(2, tokens.pooled, lambda row: torch.ones_like(row))
        after = hooks.capture([2], tokens.pooled)
        tiny.forward(tokens)
    assert torch.equal(after[2], torch.ones_like(after[2]))


@pytest.mark.parametrize("name", ["clip", "metaclip_2"])
def test_a_pooled_row_edit_in_a_causal_tower_leaves_every_other_row(get_tower, name):
    tower = get_tower(name)
    tokens = tower.tokenize(["a cat", "two dogs in a hut", "x"])
    depths = range(tower.n_blocks + 1)
    with HookManager(tower.blocks) as hooks:
        clean = hooks.capture(depths)
        tower.forward(tokens)
    with HookManager(tower.blocks) as hooks:
        hooks.replace(1, tokens.pooled, lambda row: row + torch.randn_like(row))
        edited = hooks.capture(depths)
        tower.forward(tokens)
    others = torch.arange(tokens.input_ids.shape[1]) < tokens.pooled[:, None]
    for depth in depths:
        assert torch.equal(clean[depth][others], edited[depth][others])
    pooled = torch.arange(3), tokens.pooled
    assert not torch.equal(clean[tower.n_blocks][pooled], edited[tower.n_blocks][pooled])


class _Stop(Exception):
    pass


def _raise(*_):
    raise _Stop


def test_hooks_are_gone_after_success_and_foreign_ones_stay(tiny, tokens):
    foreign = tiny.blocks[1].register_forward_hook(lambda *_: None)
    before = hooks_of(tiny.model)
    with HookManager(tiny.blocks) as hooks:
        hooks.capture(range(5), tokens.pooled)
        hooks.intercept(0, lambda call: call)
        assert hooks_of(tiny.model) != before
        tiny.forward(tokens)
    assert hooks_of(tiny.model) == before
    foreign.remove()


@pytest.mark.parametrize("error", [_Stop, KeyboardInterrupt, SystemExit])
def test_hooks_are_gone_after_an_exception_in_the_body(tiny, tokens, error):
    before = hooks_of(tiny.model)
    with pytest.raises(error), HookManager(tiny.blocks) as hooks:
        hooks.capture(range(5), tokens.pooled)
        raise error
    assert hooks_of(tiny.model) == before


def test_hooks_are_gone_after_an_exception_in_a_hook(tiny, tokens):
    before = hooks_of(tiny.model)
    plain = tiny.forward(tokens)
    with pytest.raises(_Stop), HookManager(tiny.blocks) as hooks:
        hooks.replace(2, tokens.pooled, _raise)
        tiny.forward(tokens)
    assert hooks_of(tiny.model) == before
    assert torch.equal(tiny.forward(tokens), plain)


@pytest.mark.parametrize("k", [0, 1, 3])
def test_hooks_are_gone_when_registering_the_kth_one_fails(tiny, tokens, monkeypatch, k):
    before = hooks_of(tiny.model)
    real = nn.Module.register_forward_hook
    calls = iter(range(100))

    def failing(self, *args, **kwargs):
        if next(calls) == k:
            raise _Stop
        return real(self, *args, **kwargs)

    monkeypatch.setattr(nn.Module, "register_forward_hook", failing)
    with pytest.raises(_Stop), HookManager(tiny.blocks) as hooks:
        hooks.capture(range(5), tokens.pooled)
    assert hooks_of(tiny.model) == before


def test_a_hook_that_never_ran_is_an_error(tiny, get_tower, tokens):
    with pytest.raises(HookError, match="replace a row at depth 2"), HookManager(tiny.blocks) as hooks:
        hooks.replace(2, tokens.pooled, lambda row: row)
    other = get_tower("clip" if tiny.family != "clip" else "siglip")
    with pytest.raises(HookError, match="never ran"), HookManager(tiny.blocks) as hooks:
        hooks.capture([1], tokens.pooled)
        other.forward(other.tokenize(["a cat"] * 3))


def test_the_gradient_mode_is_restored_and_off_inside(tiny, tokens):
    assert torch.is_grad_enabled()
    with HookManager(tiny.blocks) as hooks:
        hooks.capture([1], tokens.pooled)
        assert not tiny.forward(tokens).requires_grad
    assert torch.is_grad_enabled()


def test_gradients_flow_when_asked(tiny, tokens):
    donor = torch.randn(3, tiny.width, requires_grad=True)
    with HookManager(tiny.blocks, gradients=True) as hooks:
        hooks.replace(1, tokens.pooled, lambda row: donor)
        tiny.forward(tokens).square().sum().backward()
    assert donor.grad is not None
    assert donor.grad.abs().sum() > 0
    tiny.model.zero_grad(set_to_none=True)


def test_managers_nest(tiny, tokens):
    plain = tiny.forward(tokens)
    with HookManager(tiny.blocks) as outer:
        rows = outer.capture([3], tokens.pooled)
        with HookManager(tiny.blocks) as inner:
            inner.replace(1, tokens.pooled, lambda row: row + torch.randn_like(row))
            tiny.forward(tokens)
        assert not torch.equal(rows[3], plain)
        assert torch.equal(tiny.forward(tokens), plain)


@pytest.mark.parametrize("depth", [-1, 5, 99])
def test_a_depth_that_is_not_there_names_those_that_are(tiny, tokens, depth):
    with pytest.raises(HookError, match=r"0 \(the embedding layer\) to 4"), HookManager(tiny.blocks) as hooks:
        hooks.capture([depth], tokens.pooled)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (lambda row: row[:1], "one new row for each"),
        (lambda row: row[:, :3], "one new row for each"),
        (lambda row: None, "NoneType"),
        (lambda row: row * float("nan"), "NaN"),
    ],
)
def test_bad_replacement_rows_are_refused(tiny, tokens, rows, message):
    with pytest.raises(HookError, match=message), HookManager(tiny.blocks) as hooks:
        hooks.replace(1, tokens.pooled, rows)
        tiny.forward(tokens)


def test_an_index_for_another_batch_is_refused(tiny, tokens):
    with (
        pytest.raises(HookError, match="2 row positions came for a batch of 3"),
        HookManager(tiny.blocks) as hooks,
    ):
        hooks.capture([1], tokens.pooled[:2])
        tiny.forward(tokens)


def test_a_closed_manager_refuses_hooks_and_an_open_one_a_second_entry(tiny, tokens):
    manager = HookManager(tiny.blocks)
    with pytest.raises(HookError, match="Open the manager first"):
        manager.capture([1], tokens.pooled)
    with manager, pytest.raises(HookError, match="open already"):
        manager.__enter__()


class _TupleBlock(nn.Module):
    """A block of an older library: hidden states come in a tuple."""

    def forward(self, hidden_states):
        return (hidden_states * 2, "weights")


def test_blocks_that_return_tuples_get_tuples_back():
    block = _TupleBlock()
    index = torch.tensor([1, 0])
    with HookManager([block]) as hooks:
        rows = hooks.capture([0, 1], index)
        hooks.replace(1, index, lambda row: row + 1)
        out = block(hidden_states=torch.ones(2, 2, 3))
    assert out[1] == "weights"
    assert torch.equal(rows[0], torch.ones(2, 3))
    assert torch.equal(rows[1], 2 * torch.ones(2, 3))
    assert torch.equal(out[0], with_rows(2 * torch.ones(2, 2, 3), index, 3 * torch.ones(2, 3)))


def test_a_block_output_of_another_shape_is_refused():
    with pytest.raises(HookError, match="batch, position, width"):
        unwrap(torch.ones(2, 3))


def test_a_generator_left_open_inside_a_manager_leaves_autograd_on_elsewhere(tiny, tokens):
    def reading():
        with HookManager(tiny.blocks) as hooks:
            found = hooks.capture([1], tokens.pooled)
            yield tiny.forward(tokens), found

    left_open = reading()
    embedding, found = next(left_open)
    assert not embedding.requires_grad
    assert not found[1].requires_grad
    assert torch.is_grad_enabled()
    assert (torch.ones(2, requires_grad=True) * 2).requires_grad
    left_open.close()
    assert tiny.forward(tokens).requires_grad


def test_each_module_gets_its_own_mode_back(tiny, tokens):
    modules = list(tiny.model.modules())
    before = [module.training for module in modules]
    try:
        for place, module in enumerate(modules):
            module.training = place % 3 == 0
        mixed = [module.training for module in modules]
        with tiny.evaluating():
            assert not any(module.training for module in modules)
        assert [module.training for module in modules] == mixed
    finally:
        for module, mode in zip(modules, before, strict=True):
            module.training = mode


@pytest.mark.parametrize(
    "odd",
    [
        lambda rows: rows.to_sparse(),
        lambda rows: rows.to(torch.complex64),
        lambda rows: rows.to("meta"),
        lambda rows: rows.double() * 1e300,
        lambda rows: rows[:1],
        lambda rows: rows.tolist(),
    ],
    ids=["sparse", "complex", "meta", "too large", "too few", "list"],
)
def test_rows_that_are_no_rows_are_refused(tiny, tokens, odd):
    with pytest.raises(HookError, match="An intervention returned"), HookManager(tiny.blocks) as hooks:
        hooks.replace(1, tokens.pooled, odd)
        tiny.forward(tokens)
