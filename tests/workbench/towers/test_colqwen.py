from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import ColQwen2Processor

from interventions import MidToken, ParallelEOS
from tests.checkpoints import llm
from tests.workbench.test_engine import context_for, tokens_of
from workbench.engine import sweep_pass
from workbench.errors import InputError, TowerError
from workbench.hooks import HookManager
from workbench.late_interaction import MultiVectors, maxsim
from workbench.oracle import patch_depths
from workbench.towers import load_tower
from workbench.towers.base import relative_error
from workbench.towers.colqwen import ColQwenTower
from workbench.towers.multi_vectors import LastTokenScores, joined, last_vectors, without_last

CAPTIONS = ["a cat", "two dogs in a hut", "שאב"]
PICTURES = [Image.new("RGB", size, colour) for size, colour in (((40, 30), "red"), ((90, 40), "blue"))]


@pytest.fixture(scope="module", params=["2", "2.5"])
def tower(request, tmp_path_factory) -> ColQwenTower:
    """ColQwen2, and ColQwen2.5 in the same class."""
    found = load_tower(llm.colqwen_checkpoint(tmp_path_factory.mktemp("colqwen"), version=request.param))
    assert isinstance(found, ColQwenTower)
    assert found.model.config.vlm_config.model_type == {"2": "qwen2_vl", "2.5": "qwen2_5_vl"}[request.param]
    return found


def processor_of(tower) -> Any:
    return ColQwen2Processor(tower.image_processor, tower.tokenizer)


def rows(items: MultiVectors) -> torch.Tensor:
    return torch.as_tensor(items.tokens)[torch.as_tensor(items.mask)]


# -- what the class's own processor and pass give -----------------------------------------------------


def test_captions_are_read_as_the_classs_own_processor_reads_them(tower):
    inputs = processor_of(tower)(text=CAPTIONS, return_tensors="pt")
    tokens = tower.tokenize(CAPTIONS)
    assert torch.equal(tokens.input_ids, inputs["input_ids"])
    assert torch.equal(tokens.attention_mask, inputs["attention_mask"])
    for row, caption in enumerate(CAPTIONS):
        assert tower.tokenizer.decode(tokens.input_ids[row][tokens.content[row]]) == caption
        assert tower.tokenizer.decode(tokens.input_ids[row, tokens.pooled[row]]) == "\n"


@pytest.mark.parametrize("side", ["right", "left"])
def test_every_vector_is_the_models_own(tower, side):
    inputs = processor_of(tower)(text=CAPTIONS, padding_side=side, return_tensors="pt")
    with torch.no_grad():
        wanted = tower.model(**inputs).embeddings
    found = tower.encode_text(CAPTIONS)
    assert relative_error(rows(found), wanted[inputs["attention_mask"].bool()]) < 1e-5
    assert found.tokens.dtype == torch.float32
    assert found.width == 12


def test_the_padding_tokens_after_a_query_are_no_padding(tower):
    """They have the padding's id and mask 1: a mask made of ids would lose ten vectors a caption."""
    tokens = tower.tokenize(CAPTIONS)
    pads = tokens.input_ids == tower.tokenizer.pad_token_id
    real = tokens.attention_mask.bool()
    assert (pads & real).sum(-1).tolist() == [10, 10, 10]
    assert (pads & ~real).any()
    found = tower.encode_text(CAPTIONS)
    vectors = torch.as_tensor(found.tokens)
    torch.testing.assert_close(vectors[real].norm(dim=-1), torch.ones(int(real.sum())))
    assert (vectors[~real] == 0).all()
    assert np.array_equal(found.mask, real.numpy())


def test_images_have_a_vector_for_each_token_of_image_and_prompt(tower):
    inputs = processor_of(tower)(images=PICTURES, return_tensors="pt")
    found = tower.encode_images(PICTURES, batch_size=1)
    assert found.mask.sum(-1).tolist() == inputs["attention_mask"].sum(-1).tolist()
    tokens = inputs["image_grid_thw"].prod(-1) // 4
    assert (inputs["input_ids"] == tower.image_token_id).sum(-1).tolist() == tokens.tolist()
    assert relative_error(rows(found), rows(tower.encode_images(PICTURES))) < 1e-5


def test_the_score_is_the_processors_own(tower):
    queries, images = tower.encode_text(CAPTIONS), tower.encode_images(PICTURES)
    # One by one: in a batch the processor lets the zeros of padding compete.
    wanted = torch.cat(
        [
            processor_of(tower).score_retrieval([torch.as_tensor(q.tokens[0])], [torch.as_tensor(d.tokens[0])])
            for q in (tower.encode_text([caption]) for caption in CAPTIONS)
            for d in (tower.encode_images([image]) for image in PICTURES)
        ]
    ).view(3, 2)
    np.testing.assert_allclose(maxsim(queries, images), wanted.numpy(), rtol=1e-5)


def test_the_formats_of_the_colpali_engine(tower):
    """No line break, and images with positions in height and width, as its own class has them."""
    other = ColQwenTower("x", tower.model, tower.tokenizer, tower.image_processor, tower.provenance, formats="colpali")
    assert other.check().pooled_row < 1e-6
    text = other.tokenizer.decode(other.tokenize(["a cat"]).input_ids[0])
    assert text == "Query: a cat" + "<|endoftext|>" * 10
    found = []
    for image in PICTURES:
        inputs = processor_of(tower)(images=[image], return_tensors="pt")
        inputs["pixel_values"] = inputs["pixel_values"][0]
        kinds = (inputs["input_ids"] == tower.image_token_id).int()
        with torch.no_grad():
            rows_of_image = tower.model.vlm(**inputs, mm_token_type_ids=kinds).last_hidden_state[0]
            found.append(torch.nn.functional.normalize(tower.model.embedding_proj_layer(rows_of_image), dim=-1))
    # The pass above left the positions of its last image on the model, for the class to go on from.
    tower.model.vlm.rope_deltas = None
    wanted = torch.cat(found)
    assert relative_error(rows(other.encode_images(PICTURES)), wanted) < 1e-5
    assert relative_error(rows(tower.encode_images(PICTURES)), wanted) > 1e-2


def test_unknown_formats_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"formats='vidore' came\. Use 'transformers' or 'colpali'"):
        load_tower(llm.colqwen_checkpoint(tmp_path), formats="vidore")


def test_formats_are_noted(tmp_path):
    assert load_tower(llm.colqwen_checkpoint(tmp_path), formats="colpali").provenance.notes["formats"] == "colpali"


def test_the_trajectory_is_that_of_the_last_token_and_says_so(tower):
    assert tower.multi_vector
    assert "last text token" in tower.pool
    tokens = tower.tokenize(CAPTIONS)
    with tower.evaluating():
        assert relative_error(tower.forward(tokens), last_vectors(tower.encode_text(CAPTIONS))) < 1e-6


# -- patches -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_engine_equals_the_oracle(tower, attention):
    tower.model.set_attn_implementation({"vlm_config": {"text_config": attention}})
    assert tower.text_config._attn_implementation == attention
    depths = list(range(tower.n_blocks + 1))
    for intervention in (ParallelEOS("en"), MidToken("en")):
        context = context_for(tower, intervention)
        given = sweep_pass(tower, tokens_of(tower), [intervention], [context], depths).patched[0]
        wanted = patch_depths(tower, tokens_of(tower), intervention, context, depths)
        assert relative_error(given, wanted) < 1e-5, intervention.name


def test_the_score_of_a_patched_caption_is_exact_at_every_depth(tower):
    """What a sweep would score: the sum over the other tokens, once, and the best match of the new last vector."""
    intervention, depths = ParallelEOS("en"), list(range(tower.n_blocks + 1))
    tokens, context = tokens_of(tower), context_for(tower, ParallelEOS("en"))
    images = tower.encode_images(PICTURES)
    with tower.evaluating():
        clean = tower.vectors(tokens)
        scores = LastTokenScores.of(clean, images)
        np.testing.assert_allclose(scores.with_last(last_vectors(clean)), maxsim(clean, images), rtol=1e-6)
        patched = sweep_pass(tower, tokens, [intervention], [context], depths).patched[0]
        for depth in depths:
            with HookManager(tower.blocks) as hooks:
                hooks.replace(depth, tokens.pooled, lambda rows, d=depth: intervention.new_rows(rows, d, context))
                whole = tower.vectors(tokens)
            wanted = maxsim(whole, images)
            np.testing.assert_allclose(scores.with_last(patched[depth]), wanted, rtol=1e-5)
            # The last token is the same for all, and without a position of its own until a block has run.
            assert (np.abs(wanted - maxsim(clean, images)).max() > 1e-3) == (depth > 0)


def test_a_patch_of_another_row_changes_other_vectors_and_has_no_such_shortcut(tower):
    tokens = tower.tokenize(CAPTIONS)
    with tower.evaluating():
        clean = tower.vectors(tokens)
        with HookManager(tower.blocks) as hooks:
            hooks.replace(1, tokens.middle, torch.neg)
            patched = tower.vectors(tokens)
    assert relative_error(rows(without_last(patched)), rows(without_last(clean))) > 1e-2


def test_the_self_check_refuses_a_last_row_that_others_see(tower, monkeypatch):
    real = tower.tokenize

    def one_before(captions, language=None):
        from dataclasses import replace

        tokens = real(captions, language)
        return replace(tokens, pooled=tokens.pooled - 1)

    monkeypatch.setattr(tower, "tokenize", one_before)
    with pytest.raises(TowerError, match="changed the vectors of other tokens"):
        tower.check()


def test_the_self_check_refuses_a_patch_that_changes_no_vector(tower, monkeypatch):
    clean = tower.vectors(tower.tokenize(["a cat", "two dogs and a small red house", "x"]))
    real = tower.vectors
    monkeypatch.setattr(tower, "vectors", lambda tokens: (real(tokens), clean)[1])
    with pytest.raises(TowerError, match="changed no vector"):
        tower.check()


def test_a_tokeniser_without_padding_is_refused(tower):
    tokenizer = llm.qwen_tokenizer()
    tokenizer.pad_token = None
    with pytest.raises(TowerError, match="has no padding token"):
        ColQwenTower("x", tower.model, tokenizer, tower.image_processor, tower.provenance)


# -- items of many vectors -------------------------------------------------------------------------------


def items(lengths, width=4, seed=0) -> MultiVectors:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    tokens = torch.nn.functional.normalize(torch.randn(*mask.shape, width, generator=generator), dim=-1)
    return MultiVectors(tokens * mask[..., None], mask.numpy())


def test_joined_items_keep_their_vectors():
    one, two = items([2, 3]), items([5, 1], seed=1)
    both = joined([one, two])
    assert both.mask.sum(-1).tolist() == [2, 3, 5, 1]
    assert torch.equal(rows(both), torch.cat([rows(one), rows(two)]))


def test_the_last_vector_and_the_others_are_the_whole():
    found = items([2, 5, 3])
    others = without_last(found)
    assert others.mask.sum(-1).tolist() == [1, 4, 2]
    for k, length in enumerate([2, 5, 3]):
        assert torch.equal(last_vectors(found)[k], torch.as_tensor(found.tokens)[k, length - 1])
    assert found.mask.sum(-1).tolist() == [2, 5, 3]  # the first is left as it was


def test_scores_with_a_last_vector_equal_those_by_hand():
    captions, images = items([2, 5, 3]), items([4, 6], seed=1)
    new = torch.nn.functional.normalize(torch.randn(3, 4, generator=torch.Generator().manual_seed(2)), dim=-1)
    given = LastTokenScores.of(captions, images).with_last(new)
    for c, length in enumerate([2, 5, 3]):
        vectors = torch.as_tensor(captions.tokens)[c, :length].clone()
        vectors[-1] = new[c]
        for i, size in enumerate([4, 6]):
            wanted = (vectors @ torch.as_tensor(images.tokens)[i, :size].T).max(-1).values.sum()
            assert given[c, i] == pytest.approx(float(wanted), rel=1e-6)
