"""Captions of a pivot language in place of images."""

import pytest
import torch

from interventions import MeanEOS, ParallelEOS, RandomEOS
from tests.checkpoints.text_only import bge_checkpoint, e5_checkpoint
from workbench.corpora import load_corpus
from workbench.errors import InputError
from workbench.gallery import check_gallery, embed_gallery, gallery_name
from workbench.retrieval import unit
from workbench.sweeps import sweep
from workbench.towers import load_tower


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("emoji-36", ["en", "de", "sw"], limit=12)


@pytest.fixture(scope="module", params=[bge_checkpoint, e5_checkpoint])
def text_only(request, tmp_path_factory):
    return load_tower(request.param(tmp_path_factory.mktemp("text")))


def test_images_are_the_gallery_where_there_are_any(get_tower, corpus):
    tower = get_tower("clip")
    assert gallery_name(tower, corpus) == "images"
    assert gallery_name(tower, corpus, "de") == "captions:de"
    wanted = unit(tower.encode_images(corpus.images()), "images")
    assert torch.equal(embed_gallery(tower, corpus, "images"), wanted)


def test_a_text_only_encoder_needs_a_pivot(text_only, corpus):
    with pytest.raises(InputError, match=r"is a text-only encoder.*--pivot en"):
        gallery_name(text_only, corpus)
    with pytest.raises(InputError, match="xx"):
        gallery_name(text_only, corpus, "xx")


def test_a_pivots_gallery_is_its_captions(text_only, corpus):
    wanted = unit(text_only.encode_text(corpus.texts("de", "first")[0], "de"), "captions")
    assert torch.equal(embed_gallery(text_only, corpus, "captions:de"), wanted)


@pytest.mark.parametrize("intervention", [ParallelEOS("en"), MeanEOS(("de", "en")), RandomEOS("en")])
def test_a_patch_from_the_pivot_is_refused_as_true_by_construction(intervention):
    with pytest.raises(InputError, match="becomes its own target"):
        check_gallery("captions:en", ["sw"], [intervention])
    check_gallery("captions:fr", ["sw"], [intervention])
    check_gallery("images", ["sw", "en"], [intervention])


def test_the_pivot_is_not_scored_against_itself():
    with pytest.raises(InputError, match="scored against itself"):
        check_gallery("captions:en", ["sw", "en"], [])


def test_a_text_only_encoder_is_swept_like_any_tower(text_only, corpus):
    """The open question of the paper, on an encoder that has seen no image: the sweep can ask it."""
    result = sweep(text_only, corpus, [ParallelEOS("de"), RandomEOS("de")], languages=["sw"], pivot="en")
    frame = result.frame
    assert set(frame.gallery) == {"captions:en"}
    assert result.settings.describe()["gallery"] == "captions:en"
    last = frame[(frame.depth == text_only.n_blocks) & (frame.intervention == "parallel de") & (frame.metric == "MRR")]
    german = sweep(text_only, corpus, [ParallelEOS("sw")], languages=["de"], pivot="en").frame
    own = german[(german.intervention == "none") & (german.metric == "MRR") & (german.language == "de")]
    for direction in ("i2t", "t2i"):
        patched = last[(last.direction == direction) & (last.language == "sw")].value.item()
        assert patched == pytest.approx(own[own.direction == direction].value.item(), abs=1e-9)


def test_the_tautology_is_real(text_only, corpus, monkeypatch):
    """Were it let through, any encoder would be 'rescued' to 100 %."""
    import workbench.sweeps

    monkeypatch.setattr(workbench.sweeps, "check_gallery", lambda *_: None)
    frame = sweep(text_only, corpus, [ParallelEOS("en")], languages=["sw"], pivot="en").frame
    top = frame[(frame.depth == text_only.n_blocks) & (frame.metric == "R@1") & (frame.direction == "t2i")]
    assert top[top.intervention != "none"].value.max() == 100.0


def test_noise_floor_and_fertility_are_noted(text_only, corpus):
    notes = sweep(text_only, corpus, [ParallelEOS("de")], languages=["sw"], pivot="en").notes
    assert 0 <= notes["noise_floor"] < 1e-5
    assert notes["languages"]["sw"]["content_tokens_per_character"] > 0
