import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from interventions import MeanEOS, NormMatchedNoise, ParallelEOS
from workbench.errors import HookError, InputError
from workbench.intervention import Context, Intervention, check_interventions, derangement


def context(n=8, captions=None, seed=0, language="sw"):
    rows = torch.arange(n * 2 * 3, dtype=torch.float32).view(n, 2, 3)
    captions = torch.arange(n) if captions is None else torch.tensor(captions)
    return Context(language, captions, n, "pooled", {"en": rows}, {"en": torch.ones(n, dtype=torch.bool)}, seed)


@given(st.integers(2, 60), st.integers(0, 2**32))
def test_a_derangement_moves_everything_and_loses_nothing(n, seed):
    order = derangement(n, np.random.default_rng(seed))
    assert sorted(order) == list(range(n))
    assert not (order == np.arange(n)).any()


def test_derangements_are_uniform():
    generator = np.random.default_rng(0)
    counts: dict[tuple, int] = {}
    for _ in range(9000):
        key = tuple(derangement(4, generator).tolist())
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 9
    assert max(abs(count - 1000) for count in counts.values()) < 150


def test_random_numbers_belong_to_the_caption_and_not_to_the_batch():
    whole = context()
    part = whole.at(torch.tensor([5, 2]))
    assert torch.equal(part.normal(3, "a", 1), whole.normal(3, "a", 1)[[5, 2]])
    assert torch.equal(part.derangement("b"), whole.derangement("b")[[5, 2]])
    fresh = context(captions=[5, 2])
    assert torch.equal(part.normal(3, "a", 1), fresh.normal(3, "a", 1))


def test_random_numbers_depend_on_the_seed_and_the_key():
    base = context().normal(3, "a", 1)
    assert torch.equal(base, context().normal(3, "a", 1))
    assert not torch.equal(base, context(seed=1).normal(3, "a", 1))
    assert not torch.equal(base, context().normal(3, "a", 2))
    assert not torch.equal(base, context().normal(3, "b", 1))


def test_donors_are_the_parallel_captions():
    part = context().at(torch.tensor([5, 2]))
    assert torch.equal(part.donor("en", 1), context().trajectories["en"][[5, 2], 1])
    assert torch.equal(part.donor("en", 1, torch.tensor([0, 1])), context().trajectories["en"][[0, 1], 1])


def test_a_language_that_is_no_source_is_named():
    with pytest.raises(InputError, match="'fr', which is none of its sources"):
        context().donor("fr", 0)


def test_a_random_other_caption_needs_two():
    with pytest.raises(InputError, match="at least two"):
        context(n=1).derangement("x")


def test_own_rows_come_from_the_pass_itself():
    own = context(language="en")
    own.clean = torch.full((8, 3), 7.0)
    assert torch.equal(own.donor("en", 1), own.clean)
    assert torch.equal(own.donor("en", 1, own.derangement("x")), own.trajectories["en"][own.derangement("x"), 1])


def test_new_rows_are_checked():
    class Wrong(Intervention):
        name = "wrong"

        def rows(self, rows, depth, context):
            return rows[:, :1]

    with pytest.raises(HookError, match="one new row for each row"):
        Wrong().new_rows(torch.ones(8, 3), 1, context())


def test_descriptions_tell_rules_apart():
    one, two = NormMatchedNoise().describe(), NormMatchedNoise("matched").describe()
    assert one != two
    assert ParallelEOS("en").describe() != ParallelEOS("fr").describe()
    assert MeanEOS(("en", "fr"), keep_norm=True).describe()["keep_norm"] is True


def test_two_interventions_of_one_name_and_absent_sources_are_refused():
    with pytest.raises(InputError, match="Two interventions are called 'parallel en'"):
        check_interventions([ParallelEOS("en"), ParallelEOS("en")], ("en",))
    with pytest.raises(InputError, match="reads rows of 'fr'"):
        check_interventions([ParallelEOS("fr")], ("en", "sw"))
