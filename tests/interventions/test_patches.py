from dataclasses import replace

import pytest
import torch

from interventions import ContentToken, MeanEOS, MidToken, NormMatchedNoise, ParallelEOS, RandomEOS
from interventions.by_name import default_names, interventions_by_name
from workbench.errors import InputError
from workbench.intervention import Context
from workbench.languages import tiers

N, WIDTH = 400, 6


@pytest.fixture
def context():
    generator = torch.Generator().manual_seed(0)
    rows = {
        language: torch.randn(N, 2, WIDTH, generator=generator) @ torch.diag(torch.tensor([9.0, 4, 1, 1, 1, 0.1]))
        for language in ("en", "fr", "sw")
    }
    available = {language: torch.arange(N) % 5 > 0 for language in rows}
    return Context("sw", torch.arange(N), N, "pooled", rows, available, seed=0)


@pytest.fixture
def rows():
    return torch.randn(N, WIDTH, generator=torch.Generator().manual_seed(1)) * torch.arange(1, N + 1)[:, None]


def test_parallel_puts_in_the_sources_own_rows(context, rows):
    assert torch.equal(ParallelEOS("fr").rows(rows, 1, context), context.trajectories["fr"][:, 1])


def test_mean_is_the_plain_mean(context, rows):
    wanted = (context.trajectories["en"][:, 1] + context.trajectories["fr"][:, 1]) / 2
    torch.testing.assert_close(MeanEOS(("en", "fr")).rows(rows, 1, context), wanted)


def test_mean_can_keep_the_norm_and_leave_out_the_target(context, rows):
    stack = torch.stack([context.trajectories[s][:, 0] for s in ("en", "fr")])
    kept = MeanEOS(("en", "fr"), keep_norm=True).rows(rows, 0, context)
    torch.testing.assert_close(kept.norm(dim=-1), stack.norm(dim=-1).mean(0))
    torch.testing.assert_close(
        torch.nn.functional.cosine_similarity(kept, stack.mean(0)), torch.ones(N), rtol=1e-5, atol=1e-5
    )
    without = MeanEOS(("en", "sw"), exclude_target=True).rows(rows, 0, context)
    assert torch.equal(without, context.trajectories["en"][:, 0])
    with pytest.raises(InputError, match="its only language"):
        MeanEOS(("sw",), exclude_target=True).rows(rows, 0, context)
    with pytest.raises(InputError, match="no language"):
        MeanEOS(())


def test_random_never_gives_a_caption_its_own_row_and_uses_each_once(context, rows):
    given = RandomEOS("en").rows(rows, 1, context)
    own = context.trajectories["en"][:, 1]
    assert not (given == own).all(-1).any()
    assert torch.equal(given.sort(0).values, own.sort(0).values)


def test_random_takes_the_same_other_caption_at_every_depth_and_another_one_in_another_draw(context, rows):
    at = [RandomEOS("en").rows(rows, depth, context) for depth in (0, 1)]
    who = context.derangement("random eos", 0)
    for depth, given in enumerate(at):
        assert torch.equal(given, context.trajectories["en"][who, depth])
    assert not torch.equal(RandomEOS("en", draw=1).rows(rows, 0, context), at[0])
    assert RandomEOS("en", draw=1).name != RandomEOS("en").name


@pytest.mark.parametrize("covariance", ["isotropic", "matched"])
def test_noise_has_the_norm_of_the_row_that_it_replaces(context, rows, covariance):
    noise = NormMatchedNoise(covariance).rows(rows, 0, context)
    torch.testing.assert_close(noise.norm(dim=-1), rows.norm(dim=-1), rtol=1e-5, atol=0)
    assert torch.nn.functional.cosine_similarity(noise, rows).abs().mean() < 0.6


def test_noise_can_take_the_norm_of_the_source(context, rows):
    noise = NormMatchedNoise(norm="source", source="fr").rows(rows, 1, context)
    torch.testing.assert_close(noise.norm(dim=-1), context.trajectories["fr"][:, 1].norm(dim=-1), rtol=1e-5, atol=0)


def test_matched_noise_has_the_directions_of_the_source_and_isotropic_noise_has_none(context):
    ones = torch.ones(N, WIDTH)
    matched = NormMatchedNoise("matched").rows(ones, 0, context).square().mean(0)
    plain = NormMatchedNoise().rows(ones, 0, context).square().mean(0)
    # The source's variances are 81, 16 and 1; giving every row one norm brings them closer together.
    assert matched[0] > 2 * matched[1]
    assert matched[1] > 4 * matched[2]
    assert plain.max() < 1.5 * plain.min()


def test_matched_noise_is_isotropic_where_all_rows_are_the_same(context):
    same = {"en": torch.ones_like(context.trajectories["en"])}
    context = replace(context, trajectories=same)
    noise = NormMatchedNoise("matched").rows(torch.ones(N, WIDTH), 0, context)
    assert torch.isfinite(noise).all()
    assert noise.square().mean(0).max() < 1.5 * noise.square().mean(0).min()


def test_noise_differs_by_depth_and_language(context, rows):
    noise = NormMatchedNoise()
    assert not torch.equal(noise.rows(rows, 0, context), noise.rows(rows, 1, context))
    context.language = "te"
    other = noise.rows(rows, 0, context)
    context.language = "sw"
    assert not torch.equal(noise.rows(rows, 0, context), other)


@pytest.mark.parametrize("bad", [{"covariance": "full"}, {"norm": "mean"}])
def test_noise_options_are_checked(bad):
    with pytest.raises(InputError, match="came; it is"):
        NormMatchedNoise(**bad)


def test_mid_token_keeps_rows_whose_source_has_no_middle(context, rows):
    given = MidToken("en").rows(rows, 1, context)
    has = context.available["en"]
    assert torch.equal(given[has], context.trajectories["en"][has, 1])
    assert torch.equal(given[~has], rows[~has])


def test_names_make_interventions():
    s3 = tiers("s3")
    found = interventions_by_name(default_names("en", s3, s3), s3)
    assert [i.name for i in found] == ["parallel en", "mean of 6", "random en", "noise", "mid-token en"]
    assert found[1].sources == ("en", "fr", "de", "es", "zh", "ko")
    assert default_names("en", s3, ("en", "sw")) == ["parallel:en", "random:en", "noise", "mid:en"]
    assert len(interventions_by_name(["mean:LRL"], s3)[0].sources) == 5
    assert interventions_by_name(["mean:en+fr"], s3)[0].sources == ("en", "fr")
    assert interventions_by_name(["noise:matched"], s3)[0].name == "noise, matched covariance"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("paralel:en", "Did you mean 'parallel'"),
        ("parallel", "needs a language, such as parallel:en"),
        ("noise:loud", "noise or noise:matched"),
        ("", "There is no intervention"),
    ],
)
def test_a_wrong_name_teaches(name, message):
    with pytest.raises(InputError, match=message):
        interventions_by_name([name], {})
    with pytest.raises(InputError, match="No intervention"):
        interventions_by_name([], {})


def test_content_tokens_have_a_name_a_site_and_a_short_form():
    made = interventions_by_name(["mid:en", "token:en", "token:sw:-1"], {})
    assert [one.name for one in made] == ["mid-token en", "random-token en", "token -1 sw"]
    assert [one.site for one in made] == ["middle", "random", "token -1"]
    assert [one.sources for one in made] == [("en",), ("en",), ("sw",)]
    with pytest.raises(InputError, match="needs a number"):
        interventions_by_name(["token:en:first"], {})
    with pytest.raises(InputError, match="'middle', 'random' or a number"):
        ContentToken("en", "pooled")


def test_draws_by_name_are_that_many_derangements(context, rows):
    found = interventions_by_name(["random:fr:4"], {})
    assert [one.name for one in found] == ["random fr", "random fr #1", "random fr #2", "random fr #3"]
    assert {one.mean_of for one in found} == {"random fr, mean of 4"}
    drawn = [one.rows(rows, 1, context) for one in found]
    assert not any(torch.equal(drawn[0], other) for other in drawn[1:])
    assert torch.equal(drawn[0], RandomEOS("fr").rows(rows, 1, context))
    assert "mean_of" not in RandomEOS("fr").describe()


@pytest.mark.parametrize(
    "name", ["random:en:1", "random:en:", "random:en:x", "random:en:5000", "random:en:²", "random:en:-2"]
)
def test_a_wrong_number_of_draws_teaches(name):
    with pytest.raises(InputError, match="number of draws from 2 to 1000, such as random:en:5"):
        interventions_by_name([name], {})
