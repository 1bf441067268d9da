# pyright: reportAttributeAccessIssue=false
import logging
from dataclasses import replace

import numpy as np
import pytest
import torch

from interventions import ParallelEOS
from interventions.erase_rows import Erase, fit_at_depths
from interventions.erasers import LEACE, RandomAblation
from workbench import capture, load_corpus, sweep
from workbench.errors import InputError
from workbench.intervention import Context
from workbench.splits import image_folds

N, WIDTH, LANGUAGES = 240, 8, ("en", "fr", "sw")


def context(language="sw", owner=None, seed=0):
    generator = torch.Generator().manual_seed(0)
    content = torch.randn(N, 1, WIDTH, generator=generator)
    rows = {
        code: content + 0.5 * torch.randn(N, 3, WIDTH, generator=generator) + 3 * torch.eye(WIDTH)[k]
        for k, code in enumerate(LANGUAGES)
    }
    available = {code: torch.ones(N, dtype=torch.bool) for code in rows}
    return Context(language, torch.arange(N), N, "pooled", rows, available, seed, owner=owner)


def test_each_row_is_erased_by_an_eraser_that_did_not_see_its_image():
    found = context()
    fold = image_folds(np.arange(N), 2, seed=0)
    new = Erase(LEACE(), LANGUAGES).rows(found.trajectories["sw"][:, 1], 1, found)
    for k in (0, 1):
        others = np.flatnonzero(fold != k)
        rows = np.concatenate([found.trajectories[code][others, 1].double().numpy() for code in LANGUAGES])
        eraser = LEACE().fit(rows, np.repeat(LANGUAGES, len(others)))
        mine = found.trajectories["sw"][fold == k, 1]
        wanted = torch.from_numpy(eraser.transform(mine.double().numpy())).float()
        assert torch.equal(new[fold == k], wanted)


def test_class_means_meet_on_held_out_rows():
    rule = Erase(LEACE(), LANGUAGES)
    means, before = [], []
    for code in LANGUAGES:
        found = context(code)
        before.append(found.trajectories[code][:, 2].mean(0))
        means.append(rule.rows(found.trajectories[code][:, 2], 2, found).mean(0))
    apart, apart_before = torch.pdist(torch.stack(means)).max(), torch.pdist(torch.stack(before)).max()
    assert apart_before > 3
    assert apart < 0.1 * apart_before


def test_a_batch_gets_the_rows_that_the_whole_gets():
    found = context()
    rule = Erase(RandomAblation(), LANGUAGES)
    whole = rule.rows(found.trajectories["sw"][:, 0], 0, found)
    part = torch.tensor([17, 3, 200])
    batch = rule.rows(found.trajectories["sw"][part, 0], 0, found.at(part))
    torch.testing.assert_close(batch, whole[part], rtol=0, atol=1e-6)


def test_captions_of_one_image_share_its_fold():
    owner = torch.arange(N) // 3
    found = context(owner=owner)
    rule = Erase(LEACE(), LANGUAGES)
    rule.rows(found.trajectories["sw"][:, 0], 0, found)
    fold = rule._fold(found)
    assert all(len(set(fold[owner.numpy() == image])) == 1 for image in range(N // 3))
    assert not all(len(set(rule._fold(context())[owner.numpy() == image])) == 1 for image in range(N // 3))


def test_fits_are_made_once_a_sweep_and_anew_for_other_rows(monkeypatch):
    calls = []
    monkeypatch.setattr(
        LEACE, "_fit", lambda self, rows, codes, own=LEACE._fit: (calls.append(1), own(self, rows, codes))
    )
    rule = Erase(LEACE(), LANGUAGES)
    first = context()
    for language in LANGUAGES:
        rule.rows(
            first.trajectories[language][:, 0],
            0,
            Context(language, torch.arange(N), N, "pooled", first.trajectories, first.available, 0),
        )
    assert len(calls) == 2
    rule.rows(first.trajectories["sw"][:, 1], 1, first)
    assert len(calls) == 4
    second = context()
    rule.rows(second.trajectories["sw"][:, 0], 0, second)
    rule.rows(first.trajectories["sw"][:, 0], 0, context(seed=1))
    assert len(calls) == 8


def test_where_every_language_has_the_same_rows_nothing_changes_and_it_is_said(caplog):
    found = context()
    found = replace(found, trajectories=dict.fromkeys(LANGUAGES, found.trajectories["en"]))
    rows = found.trajectories["en"][:, 0]
    with caplog.at_level(logging.WARNING):
        assert torch.equal(Erase(LEACE(), LANGUAGES).rows(rows, 0, found), rows)
    assert "depth 0 every language has the very same rows" in caplog.text


def test_fitted_erasers_and_what_they_do_not_have():
    found = context()
    rows = np.concatenate([found.trajectories[code][:, 1].double().numpy() for code in LANGUAGES])
    eraser = LEACE().fit(rows, np.repeat(LANGUAGES, N))
    rule = Erase({1: eraser}, name="saved")
    assert (rule.name, rule.sources) == ("saved", ())
    clean = found.trajectories["sw"][:, 1]
    torch.testing.assert_close(
        rule.rows(clean, 1, found), torch.from_numpy(eraser.transform(clean.double().numpy())).float()
    )
    with pytest.raises(InputError, match="no eraser for depth 2; it has erasers for 1"):
        rule.rows(clean, 2, found)
    assert rule.describe() != Erase({1: LEACE().fit(rows + rows**2, np.repeat(LANGUAGES, N))}, name="saved").describe()


def test_what_decides_the_rule_is_described_and_bad_choices_are_named():
    described = Erase(LEACE(tolerance=1e-4), LANGUAGES, folds=3).describe()
    assert described["eraser"] == {"class": "LEACE", "tolerance": 1e-4, "shrinkage": True, "affine": True}
    assert (described["folds"], described["sources"]) == (3, list(LANGUAGES))
    cases = [
        (lambda: Erase(LEACE(), ["en"]), "two languages or more"),
        (lambda: Erase(LEACE(), "en"), "Name them as a list"),
        (lambda: Erase(LEACE(), LANGUAGES, folds=0), "folds=0"),
        (lambda: Erase({}), "no fitted eraser"),
        (lambda: Erase({3: LEACE()}), "depth 3 is not fitted"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()


@pytest.mark.parametrize("name", ["emoji-causal", "emoji-bidirectional"])
def test_it_stands_beside_the_patches_of_a_sweep(name, get_tower):
    tower, corpus = get_tower(name), load_corpus("emoji-36", ["en", "de", "sw"], limit=120)
    rules = [ParallelEOS("en"), Erase(LEACE(), ["en", "de", "sw"]), Erase(RandomAblation(2), ["en", "de", "sw"])]
    result = sweep(tower, corpus, rules, languages=["sw"], depths=[0, 6, 12], resamples=20, progress=False)
    change = result.cells["sw"].arrays["change"]
    assert (change[1, 1:] > 0).all()
    # A tower that pools a padding position has one row for all captions at depth 0.
    assert (change[1, 0] == 0) == (name == "emoji-bidirectional")
    # At depth N the head reads the erased row itself.
    trajectory = capture(tower, corpus, ["en", "de", "sw"], depths=[12], progress=False)
    fold = image_folds(np.arange(120), 2, seed=0)
    rows = trajectory.sel(language="sw", depth=12).values
    wanted = np.empty_like(rows)
    for k in (0, 1):
        wanted[fold == k] = fit_at_depths(LEACE(), trajectory, train=fold != k)[12].transform(rows[fold == k])
    with torch.no_grad():
        texts = torch.nn.functional.normalize(tower.head(torch.from_numpy(wanted)), dim=-1)
    gallery = torch.nn.functional.normalize(tower.embed_images(corpus), dim=-1)
    hits = (texts @ gallery.T).argmax(1) == torch.arange(120)
    frame = result.frame
    score = frame[
        (frame.intervention == "LEACE")
        & (frame.depth == 12)
        & (frame.direction == "t2i")
        & (frame.metric == "R@1")
        & (frame.language == "sw")
    ]
    assert score["value"].item() == pytest.approx(100 * float(hits.double().mean()), abs=1.7)


def test_fit_at_depths_checks_what_it_gets(get_tower):
    tower, corpus = get_tower("emoji-causal"), load_corpus("emoji-36", ["en", "sw"], limit=40)
    trajectory = capture(tower, corpus, depths=[3, 4], progress=False)
    train = np.arange(40) < 30
    fitted = fit_at_depths(RandomAblation(3), trajectory, train=train)
    assert list(fitted) == [3, 4]
    assert fitted[3].n_rows_ == 60
    np.testing.assert_allclose(fitted[4].offset_, trajectory.sel(depth=4).values[:, train].mean((0, 1)), atol=1e-5)
    with pytest.raises(InputError, match="no depth 5"):
        fit_at_depths(RandomAblation(3), trajectory, depths=[5])
    with pytest.raises(InputError, match="a bool for each of 40"):
        fit_at_depths(RandomAblation(3), trajectory, train=np.arange(40))
