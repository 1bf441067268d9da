import copy
import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from interventions import ContentToken, MeanEOS, MidToken, NormMatchedNoise, ParallelEOS, RandomEOS
from interventions.by_name import interventions_by_name
from tests.conftest import BUILT_IN, CAPTIONS, TINY
from tests.workbench.test_trajectory import corpus_of
from workbench import sweeps
from workbench.corpora import load_corpus
from workbench.errors import HookError, InputError, TowerError
from workbench.hooks import HookManager
from workbench.intervention import Intervention
from workbench.languages import tiers
from workbench.retrieval import rank, unit
from workbench.runs import Run, key_of
from workbench.sweep_frame import COLUMNS
from workbench.sweeps import make_settings, sweep, sweep_config
from workbench.trajectory import capture

FIVE = [ParallelEOS("en"), MeanEOS(("en", "hi")), RandomEOS("en"), NormMatchedNoise(), MidToken("en")]
TIERS = {"en": "HRL", "hi": "LRL", "sw": "LRL"}


SINGLE = [name for name in TINY if name != "colqwen2"]


@pytest.fixture(params=SINGLE)
def tiny(request, get_tower):
    """Each tiny tower in turn that has one vector a caption."""
    return get_tower(request.param)


@pytest.fixture(params=[*BUILT_IN, *SINGLE])
def tower(request, get_tower):
    """Each tower in turn that has one vector a caption."""
    return get_tower(request.param)


def go(tower, **options):
    options = {"interventions": FIVE, "tier_map": TIERS, "resamples": 50, "progress": False, **options}
    return sweep(tower, corpus_of(), options.pop("interventions"), **options)


def pick(frame, **where):
    for column, value in where.items():
        frame = frame[frame[column] == value]
    return frame


def test_the_frame_is_tidy_and_complete(tiny):
    frame = go(tiny).frame
    assert tuple(frame.columns) == COLUMNS
    assert not frame.drop(columns=["depth", "block"]).isna().any().any()
    cells = frame[frame["intervention"] != "none"]
    assert (cells["block"] == cells["depth"] - 1).all()
    assert frame[frame["intervention"] == "none"]["depth"].isna().all()
    keys = ["language", "tier", "intervention", "depth", "direction", "metric"]
    assert not frame.duplicated(keys).any()
    wanted = 3 * 5 * (tiny.n_blocks + 1) * 2
    single = cells[cells["language"] != "mean"]
    assert len(pick(single, metric="R@1")) == wanted
    assert (frame["low"] <= frame["value"] + 1e-9).all()
    assert (frame["high"] >= frame["value"] - 1e-9).all()


def test_numbers_equal_those_made_by_hand(tiny):
    result, depth = go(tiny), 2
    donors, tokens = tiny.tokenize(CAPTIONS["en"], "en"), tiny.tokenize(CAPTIONS["sw"], "sw")
    with HookManager(tiny.blocks) as hooks:
        rows = hooks.capture([depth], donors.where("pooled"))
        tiny.forward(donors)
    with HookManager(tiny.blocks) as hooks:
        hooks.replace(depth, tokens.where("pooled"), lambda row: rows[depth])
        patched = unit(tiny.forward(tokens), "x")
    gallery = unit(tiny.encode_images(corpus_of().images()), "images")
    ranks = rank(patched, gallery, torch.arange(6))
    for direction in ("i2t", "t2i"):
        row = pick(result.frame, language="sw", intervention="parallel en", depth=depth, direction=direction).set_index(
            "metric"
        )["value"]
        for metric in ("R@1", "R@5", "MRR"):
            assert row[metric] == pytest.approx(ranks[direction].score(metric).mean())


def test_patching_after_the_last_block_equals_the_sources_own_score(tower):
    frame = go(tower, interventions=[ParallelEOS("en")]).frame
    for direction in ("i2t", "t2i"):
        for metric in ("R@1", "R@5", "R@10", "MRR"):
            source = pick(frame, language="en", intervention="none", direction=direction, metric=metric)
            patched = pick(
                frame,
                language="sw",
                intervention="parallel en",
                depth=tower.n_blocks,
                direction=direction,
                metric=metric,
            )
            assert patched["value"].item() == pytest.approx(source["value"].item(), abs=1e-9)


def test_a_self_patch_scores_the_frozen_score_with_a_lift_of_exactly_zero(tower):
    frame = go(tower, interventions=[ParallelEOS("en")]).frame
    lifts = pick(frame, language="en", intervention="parallel en")
    lifts = lifts[lifts["metric"].str.startswith("lift")]
    assert (lifts[["value", "low", "high"]] == 0).all().all()


def test_a_mid_token_patch_after_the_last_block_lifts_nothing(tower):
    frame = go(tower, interventions=[MidToken("en")]).frame
    lifts = pick(frame, depth=tower.n_blocks)
    lifts = lifts[lifts["metric"].str.startswith("lift")]
    assert len(lifts)
    if "mean of" in tower.pool:
        # The middle token is one of those that are averaged, so that even there it counts.
        assert (lifts["value"] != 0).any()
        return
    assert (lifts[["value", "low", "high"]] == 0).all().all()


def test_tier_rows_are_means_over_their_languages(tiny):
    frame = go(tiny).frame
    mean = pick(frame, language="mean", tier="LRL")
    own = frame[(frame["tier"] == "LRL") & (frame["language"] != "mean")]
    keys = ["intervention", "depth", "direction", "metric"]
    both = mean[~mean["metric"].str.startswith("rescue")].merge(
        own.groupby(keys, dropna=False)["value"].mean().reset_index(), on=keys
    )
    assert len(both)
    np.testing.assert_allclose(both["value_x"], both["value_y"], atol=1e-9)


def test_a_lift_is_the_difference_to_the_frozen_tower_and_rescue_its_share_of_the_distance():
    from workbench.towers import load_tower

    tower = load_tower("emoji-causal")
    corpus = load_corpus("emoji-36", ["en", "sw"], limit=150)
    frame = sweep(tower, corpus, [ParallelEOS("en")], depths=[6, 9], resamples=50, progress=False).frame
    sw = pick(frame, language="sw", direction="i2t", intervention="parallel en", depth=9).set_index("metric")["value"]
    frozen = pick(frame, language="sw", direction="i2t", intervention="none", metric="R@1")["value"].item()
    source = pick(frame, language="en", direction="i2t", intervention="none", metric="R@1")["value"].item()
    assert sw["lift R@1"] == pytest.approx(sw["R@1"] - frozen)
    assert sw["rescue R@1"] == pytest.approx(sw["lift R@1"] / (source - frozen))


@pytest.mark.parametrize("batch_size", [1, 4])
def test_the_batch_size_changes_no_number(tiny, batch_size):
    wanted, given = go(tiny).frame, go(tiny, batch_size=batch_size).frame
    np.testing.assert_allclose(given["value"], wanted["value"], atol=1e-9)


def test_same_seed_same_frame_other_seed_other_controls(tiny):
    one, two, other = go(tiny, seed=1), go(tiny, seed=1), go(tiny, seed=2)
    pd.testing.assert_frame_equal(one.frame, two.frame)
    for name, same in (("parallel en", True), ("random en", False), ("noise", False)):
        k = [i.name for i in FIVE].index(name)
        # How far rows moved: ranks among six images agree now and then for other rows too.
        moved = [result.cells["sw"].arrays["change"][k] for result in (one, other)]
        assert np.array_equal(*moved) == same


def test_a_users_own_intervention_is_swept_beside_ours(tiny):
    class Flip(Intervention):
        name = "flip"

        def rows(self, rows, depth, context):
            return rows.flip(-1)

    frame = go(tiny, interventions=[ParallelEOS("en"), Flip()]).frame
    assert set(frame["intervention"]) == {"none", "parallel en", "flip"}


def test_several_captions_an_image_are_scored_under_their_own_protocol(tiny):
    corpus = load_corpus("emoji-36", ["en", "fr"], protocol="all", limit=12)
    assert any(len(texts) == 2 for texts in corpus.captions["en"])
    result = sweep(tiny, corpus, [ParallelEOS("fr")], protocol="all", depths=[1, 4], resamples=20, progress=False)
    assert set(result.frame["protocol"]) == {"all"}
    assert (result.frame["n"] == 12).all()
    captions = sum(len(texts) for texts in corpus.captions["en"])
    assert result.cells["en"].clean("t2i").better.shape == (captions,)
    assert result.cells["en"].clean("i2t").better.shape == (12,)


def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(tiny, tmp_path, monkeypatch):
    import workbench.sweeps as module

    corpus = corpus_of()
    settings = make_settings(tiny, corpus, FIVE, tier_map=TIERS, resamples=50)
    config = sweep_config(tiny, corpus, settings)

    def go_in(folder):
        run = Run(folder, config)
        result = sweep(tiny, corpus, FIVE, tier_map=TIERS, resamples=50, run=run, progress=False)
        return result.frame, {path.name: path.read_bytes() for path in sorted((folder / "cells").iterdir())}

    wanted, cells = go_in(tmp_path / "whole")
    real, done = module._language_cell, []

    def dies(tower, corpus, language, *rest):
        if len(done) == 1:
            raise KeyboardInterrupt
        done.append(language)
        return real(tower, corpus, language, *rest)

    monkeypatch.setattr(module, "_language_cell", dies)
    with pytest.raises(KeyboardInterrupt):
        go_in(tmp_path / "killed")
    assert [path.stem for path in (tmp_path / "killed" / "cells").iterdir()] == ["en"]
    ran = []
    monkeypatch.setattr(module, "_language_cell", lambda *a: ran.append(a[2]) or real(*a))
    frame, again = go_in(tmp_path / "killed")
    assert ran == ["hi", "sw"]
    pd.testing.assert_frame_equal(frame, wanted)
    assert again == cells
    ran.clear()
    go_in(tmp_path / "killed")
    assert ran == []


def test_what_rows_were_touched_and_truncated_is_noted(tiny):
    captions = [*CAPTIONS["sw"][:5], "neno " * 60]
    corpus = corpus_of({**CAPTIONS, "sw": captions})
    result = sweep(tiny, corpus, FIVE, tier_map=TIERS, depths=[1], resamples=5, progress=False)
    note = result.notes["languages"]["sw"]
    assert note["captions"] == 6
    assert note["rows_touched"]["parallel en"] == 6
    assert note["truncated_captions"] == 1
    wanted = tiny.tokenize(captions).content.sum().item() / 6
    assert note["content_tokens_per_caption"] == pytest.approx(wanted, abs=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interventions": []}, "No intervention"),
        ({"interventions": [ParallelEOS("fr")]}, "reads rows of 'fr'"),
        ({"languages": ["xx"]}, "has no language 'xx'"),
        ({"depths": [99]}, "There is no depth 99"),
        ({"batch_size": 0}, "at least 1"),
        ({"tier_map": "s9"}, "No tier map is called 's9'"),
    ],
)
def test_bad_requests_are_refused_before_any_work(tiny, monkeypatch, options, message):
    monkeypatch.setattr(tiny, "encode_images", lambda *_: pytest.fail("work was done"))
    with pytest.raises(InputError, match=message):
        go(tiny, **options)


def test_a_tower_with_several_vectors_a_caption_is_refused_before_any_work(get_tower, monkeypatch):
    tower = get_tower("colqwen2")
    monkeypatch.setattr(tower, "encode_images", lambda *_: pytest.fail("work was done"))
    with pytest.raises(InputError, match="has a vector for each token"):
        go(tower)


def test_a_gallery_with_nan_is_refused(tiny, monkeypatch):
    monkeypatch.setattr(tiny, "encode_images", lambda images: torch.full((len(images), 4), float("nan")))
    with pytest.raises(InputError, match="image embeddings hold 6 rows"):
        go(tiny)


def test_the_same_text_ties_although_batches_differ_in_the_last_bits(get_tower, monkeypatch):
    """Both captions of a pair are nearest to the same image, so that one of the two images can't be found for sure."""
    tower, plain = get_tower("emoji-causal"), sweeps.sweep_pass

    def noisy(*arguments, **options):
        found = plain(*arguments, **options)
        generator = torch.Generator().manual_seed(7)
        parts = {
            name: rows * (1 + 3e-7 * torch.randn(rows.shape, generator=generator))
            for name, rows in (("clean", found.clean), ("patched", found.patched))
        }
        return dataclasses.replace(found, **parts)

    monkeypatch.setattr(sweeps, "sweep_pass", noisy)
    names = load_corpus("emoji-36", ["en", "sw"], limit=12)
    twice = {language: names.captions[language][:6] * 2 for language in ("en", "sw")}
    corpus = dataclasses.replace(names, captions=twice)
    result = sweep(
        tower, corpus, [ParallelEOS("en"), RandomEOS("en")], depths=[3, 12], resamples=20, batch_size=5, progress=False
    )
    cell = result.cells["sw"]
    tied = cell.clean("i2t").tied
    assert (tied >= 1).all()
    # The rows put in are the same too; those of other captions are not.
    assert (cell.arrays["patched_i2t_tied"][0] >= 1).all()
    assert (cell.arrays["patched_i2t_tied"][1] == 0).any()


def test_a_rule_that_works_in_place_patches_what_it_returns(get_tower):
    class InPlace(Intervention):
        name = "in place"

        def rows(self, rows, depth, context):
            return rows.mul_(0)

    class Plain(Intervention):
        name = "plain"

        def rows(self, rows, depth, context):
            return rows * 0

    frame = go(get_tower("emoji-causal"), interventions=[InPlace(), Plain()], depths=[3, 12]).frame
    one, other = (pick(frame, intervention=name)["value"].to_numpy() for name in ("in place", "plain"))
    np.testing.assert_array_equal(one, other)
    moved = go(get_tower("emoji-causal"), interventions=[InPlace()], depths=[3]).cells["sw"].arrays["change"]
    np.testing.assert_allclose(moved, 1, atol=1e-6)


def test_a_patch_of_a_row_that_no_caption_has_is_refused_and_of_one_that_some_have_is_counted(get_tower):
    tower = get_tower("emoji-causal")
    for place in (99, -99):
        with pytest.raises(InputError, match=rf"would patch nothing: no caption has the row 'token {place}'"):
            go(tower, interventions=[ContentToken("en", place)], depths=[3])
    result = go(tower, interventions=[ContentToken("en", 3), MidToken("en")], depths=[3])
    frame = result.frame[result.frame["metric"] == "captions touched"]
    assert set(frame["intervention"]) == {"token 3 en"}
    tokens = {language: tower.tokenize(CAPTIONS[language], language).content.sum(-1) for language in CAPTIONS}
    for language in CAPTIONS:
        have = ((tokens[language] > 3) & (tokens["en"] > 3)).sum()
        assert set(pick(frame, language=language)["value"]) == {100 * float(have) / 6}
        assert result.notes["languages"][language]["rows_touched"]["token 3 en"] == have


def test_an_intervention_needs_a_name_and_gives_a_tensor(get_tower):
    class Nameless(Intervention):
        def rows(self, rows, depth, context):
            return rows

    class Array(Intervention):
        name = "array"

        def rows(self, rows, depth, context):  # pyright: ignore[reportIncompatibleMethodOverride]
            return rows.numpy()

    tower = get_tower("emoji-causal")
    with pytest.raises(InputError, match="Nameless has no name"):
        go(tower, interventions=[Nameless()])
    with pytest.raises(HookError, match=r"returned ndarray .* must return a tensor"):
        go(tower, interventions=[Array()], depths=[3])


class Writes(Intervention):
    """Puts in the English row turned round, and writes into everything that it was lent on the way."""

    name = "turned round"
    sources = ("en",)

    def rows(self, rows, depth, context):
        donor = context.donor("en", depth)
        donor *= -1
        rows[:] = 7
        context.trajectories["en"].fill_(3.0)
        context.trajectories["en"].numpy()[:] = 3.0
        context.available["en"].fill_(False)
        context.donor("en", depth, torch.arange(6)).numpy()[:] = 5.0
        context.cached(("own", depth), lambda: torch.ones(6)).zero_()
        context.normal(rows.shape[-1], "own").zero_()
        context.captions.zero_()
        return donor


class Lends(Intervention):
    """The same without writing."""

    name = "turned round"
    sources = ("en",)

    def rows(self, rows, depth, context):
        return -context.donor("en", depth)


def test_an_intervention_that_writes_into_what_it_was_lent_changes_no_other_and_says_the_same(tower):
    wanted = go(tower, interventions=[Lends(), ParallelEOS("en"), MidToken("en"), NormMatchedNoise("matched")])
    found = go(tower, interventions=[Writes(), ParallelEOS("en"), MidToken("en"), NormMatchedNoise("matched")])
    pd.testing.assert_frame_equal(found.frame, wanted.frame)
    assert (pick(found.frame, language="en", intervention="turned round", metric="lift R@1")["value"] != 0).any()


def test_the_code_and_the_numbers_of_a_users_rule_are_part_of_what_a_run_is():
    def rule(factor, sign):
        class Scaled(Intervention):
            name = "scaled"

            def __init__(self):
                self.factor = factor

            if sign:

                def rows(self, rows, depth, context):
                    return -self.factor * rows
            else:

                def rows(self, rows, depth, context):
                    return self.factor * rows

        return Scaled()

    keys = [key_of(rule(factor, sign).describe()) for factor in (2.0, 3.0, np.ones(3)) for sign in (False, True)]
    assert len(set(keys)) == 6
    assert key_of(rule(2.0, True).describe()) == keys[1]


def test_weights_with_nan_are_named_and_not_the_intervention(get_tower):
    tower = copy.copy(get_tower("emoji-causal"))
    tower.model = copy.deepcopy(tower.model)
    ids = tower.tokenize(CAPTIONS["sw"], "sw").input_ids
    with torch.no_grad():
        tower.model.text_model.embeddings.token_embedding.weight[int(ids[1, 1])] = float("nan")
    for run in (lambda: go(tower, interventions=[NormMatchedNoise()]), lambda: capture(tower, corpus_of())):
        with pytest.raises(TowerError, match="'emoji-causal' gives NaN or infinity"):
            run()


def test_draws_are_averaged_as_scores_with_their_spread(get_tower):
    """Five derangements, as published (S3-54): the mean of what each does, not what a mean row does."""
    corpus = load_corpus("emoji-36", ["en", "de", "sw"], limit=40)
    chosen = interventions_by_name(["random:en:3", "noise"], tiers("s3"))
    frame = sweep(get_tower("emoji-causal"), corpus, chosen, languages=["de", "sw"], depths=[6, 12], progress=False,
                  resamples=50).frame  # fmt: skip
    assert set(frame["intervention"]) == {
        "none", "noise", "random en", "random en #1", "random en #2", "random en, mean of 3",
    }  # fmt: skip
    table = frame.set_index(["intervention", "language", "direction", "metric", "depth"])["value"].sort_index()
    names = ["random en", "random en #1", "random en #2"]
    for language in ("de", "sw", "mean"):
        for metric in ("R@1", "lift R@1", "MRR"):
            each = [table[name, language, "i2t", metric, 6].mean() for name in names]
            found = table["random en, mean of 3", language, "i2t", metric, 6].mean()
            assert found == pytest.approx(np.mean(each))
    each = [table[name, "sw", "i2t", "MRR", 6].item() for name in names]
    assert len(set(each)) > 1
    spread = table["random en, mean of 3", "sw", "i2t", "sd over draws MRR", 6].item()
    assert spread == pytest.approx(np.std(each, ddof=1))
    assert set(frame.loc[frame["intervention"] == "random en, mean of 3", "source"]) == {"en"}
    plain = sweep(get_tower("emoji-causal"), corpus, interventions_by_name(["random:en"], tiers("s3")),
                  languages=["sw"], depths=[6], progress=False, resamples=50).frame  # fmt: skip
    assert not plain["metric"].str.startswith("sd").any()
