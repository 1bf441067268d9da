import json

import numpy as np
import pytest
import torch
from PIL import Image

from tests.checkpoints import CHECKPOINTS, clip_checkpoint, own, siglip_checkpoint
from tests.conftest import CAPTIONS
from workbench.errors import InputError, TowerError
from workbench.hooks import HookManager
from workbench.towers import load_tower
from workbench.towers.base import relative_error

LONG = "the quick brown fox jumps over the lazy dog again"
ODD = ["a cat", LONG, "x", "שאב אבג", "two dogs"]


@pytest.mark.parametrize("captions", [["a cat"], ["x"], [LONG], ["שאב אבג"], ODD])
def test_the_head_of_a_depth_n_row_is_the_models_own_feature(tower, captions):
    tokens = tower.tokenize(captions)
    with HookManager(tower.blocks) as hooks:
        hidden = hooks.capture([tower.n_blocks])
        tower.forward(tokens)
    with torch.no_grad():
        given = tower.finish(hidden[tower.n_blocks], tokens.where("pooled"))
        assert relative_error(given, own.text_features(tower, tokens)) < 1e-5


def test_a_caption_alone_and_in_a_padded_batch_agree(tower):
    together = own.flat(tower.encode_text(ODD))
    alone = torch.cat([own.flat(tower.encode_text([caption])) for caption in ODD])
    assert relative_error(alone, together) < 1e-5


def test_text_features_equal_the_dual_forwards_text_embeds(tiny):
    if not own.has_dual_pass(tiny):
        pytest.skip("a text-only encoder has no dual forward pass, and a language model embeds one thing at a time")
    tokens = tiny.tokenize(ODD)
    wanted = own.text_embeds(tiny, tokens, [Image.new("RGB", (40, 30), "red")])
    given = torch.nn.functional.normalize(tiny.encode_text(ODD), dim=-1)
    torch.testing.assert_close(given, wanted, rtol=1e-5, atol=1e-6)


def test_image_features_equal_the_models_own_in_any_batch(tiny):
    if not tiny.has_images:
        pytest.skip("a text-only encoder has no image pass")
    images = [Image.new("RGB", (40, 30), colour) for colour in ("red", "blue", "white")]
    given = own.flat(tiny.encode_images(images, batch_size=2))
    assert relative_error(given, own.image_features(tiny, images)) < 1e-5
    assert given.dtype == torch.float32


def test_captions_over_the_limit_are_truncated_marked_and_keep_their_end(tiny):
    tokens = tiny.tokenize(["a cat", LONG * 3])
    assert tokens.truncated.tolist() == [False, True]
    assert tokens.input_ids.shape[1] == tiny.max_positions
    assert tokens.input_ids[1, -1] == own.end_token(tiny)
    # What lies behind the limit does not count, to the bit.
    assert torch.equal(own.flat(tiny.encode_text([LONG * 3])), own.flat(tiny.encode_text([LONG * 4])))


@pytest.mark.parametrize("name", ["altclip", "chinese_clip"])
def test_first_row_towers_need_their_mask_and_padding_on_the_right(get_tower, name):
    tower = get_tower(name)
    tokens = tower.tokenize(ODD)
    assert tokens.pooled.tolist() == [0] * len(ODD)
    with torch.no_grad():
        plain = tower.forward(tokens)
        unmasked = tower.model.get_text_features(input_ids=tokens.input_ids).pooler_output
    # The trap is real: without the mask a padded caption gets another embedding, the longest one does not.
    error = [relative_error(unmasked[[k]], plain[[k]]) for k in range(len(ODD))]
    longest = int(tokens.length.argmax())
    assert error[longest] < 1e-5
    assert min(error[:longest] + error[longest + 1 :]) > 1e-2
    # A tokeniser that pads on the left by its own config can't move the first row.
    tower.tokenizer.padding_side = "left"
    try:
        assert torch.equal(tower.tokenize(ODD).input_ids, tokens.input_ids)
    finally:
        tower.tokenizer.padding_side = "right"


@pytest.mark.parametrize("name", ["altclip", "chinese_clip"])
def test_a_text_only_class_would_come_up_random_and_the_dual_one_does_not(tmp_path, name):
    import transformers

    folder = CHECKPOINTS[name](tmp_path)
    text_class = {"altclip": "AltCLIPTextModel", "chinese_clip": "ChineseCLIPTextModel"}[name]
    _, report = getattr(transformers, text_class).from_pretrained(folder, output_loading_info=True)
    assert len(report["missing_keys"]) > 50  # the trap
    embeddings = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        embeddings.append(load_tower(folder).encode_text(ODD))
    assert torch.equal(*embeddings)


@pytest.mark.parametrize("name", ["clip", "metaclip_2"])
def test_causal_towers_pool_the_first_end_token(get_tower, name):
    tower = get_tower(name)
    tokens = tower.tokenize(["a cat", "x"])
    end = tower.model.config.text_config.eos_token_id
    for ids, pooled in zip(tokens.input_ids.tolist(), tokens.pooled.tolist(), strict=True):
        assert pooled == ids.index(end)


def test_siglip_pools_the_last_position_at_its_fixed_length_and_takes_no_mask(get_tower):
    tower = get_tower("siglip")
    tokens = tower.tokenize(["x"])
    assert tokens.input_ids.shape == (1, tower.max_positions)
    assert tokens.pooled.tolist() == [tower.max_positions - 1]
    assert set(tower.model_inputs(tokens)) == {"input_ids"}
    short = {"input_ids": tokens.input_ids[:, :4]}
    masked = {"input_ids": tokens.input_ids, "attention_mask": tower.tokenize(["x"]).content.long()}
    with torch.no_grad():
        plain = tower.forward(tokens)
        # The trap is real: any other padding or a mask gives another embedding.
        assert relative_error(tower.model.get_text_features(**short).pooler_output, plain) > 1e-2
        assert relative_error(tower.model.get_text_features(**masked).pooler_output, plain) > 1e-2


def test_siglip_lower_cases_where_its_tokeniser_forgets_to(tmp_path):
    tower = load_tower(siglip_checkpoint(tmp_path, lowercase=False))
    assert not tower.lowercases  # pyright: ignore[reportAttributeAccessIssue]
    assert torch.equal(tower.encode_text(["A Cat"]), tower.encode_text(["a cat"]))
    raw = tower.tokenizer(["A Cat", "a cat"])["input_ids"]
    assert raw[0] != raw[1]


def test_clip_with_the_legacy_end_id_loads_and_pools_its_end_token(tmp_path):
    tower = load_tower(clip_checkpoint(tmp_path, legacy_end=True))
    tokens = tower.tokenize(["a cat", "x"])
    end = tower.tokenizer.eos_token_id
    assert all(ids[p] == end for ids, p in zip(tokens.input_ids.tolist(), tokens.pooled.tolist(), strict=True))


def test_metaclip2_weights_in_a_clip_class_are_refused(tmp_path):
    """The public trap: the weights load without an error, and the largest token id is pooled."""
    folder = CHECKPOINTS["metaclip_2"](tmp_path)
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8"))
    config["model_type"], config["architectures"] = "clip", ["CLIPModel"]
    for part in ("text_config", "vision_config"):
        config[part]["model_type"] = config[part]["model_type"].replace("metaclip_2", "clip")
    path.write_text(json.dumps(config), "utf-8")
    with pytest.raises(TowerError, match="pools the largest token id"):
        load_tower(folder)


def test_an_adapter_refuses_the_class_of_another_family(get_tower):
    siglip, clip = get_tower("siglip"), get_tower("clip")
    with pytest.raises(TowerError, match="is a SiglipModel, and the clip adapter takes CLIPModel"):
        type(clip)("x", siglip.model, siglip.tokenizer, siglip.image_processor, siglip.provenance)


def test_a_caption_that_loses_its_end_token_is_named(get_tower, monkeypatch):
    tower = get_tower("metaclip_2")
    real = tower.tokenizer

    class ForgetsTheEnd:
        """A tokeniser that cuts at the limit and so loses the end token, as hand-written ones do."""

        all_special_ids, eos_token_id, pad_token_id = (
            real.all_special_ids,
            real.eos_token_id,
            real.pad_token_id,
        )
        unk_token_id = real.unk_token_id

        def __getattr__(self, name):
            return getattr(real, name)

        def __call__(self, captions, truncation=False, return_tensors=None, padding=None, **_):
            own = _.get("add_special_tokens", True)
            ids = real(captions, truncation=False, verbose=False, add_special_tokens=own)["input_ids"]
            if not truncation:
                return {"input_ids": ids}
            ids = [row[: tower.max_positions] for row in ids]
            longest = max(map(len, ids))
            return {"input_ids": torch.tensor([row + [1] * (longest - len(row)) for row in ids])}

    monkeypatch.setattr(tower, "tokenizer", ForgetsTheEnd())
    with pytest.raises(InputError, match=f"{LONG[:9]}.*has no end token 2"):
        tower.tokenize(["a cat", LONG * 3], "en")


@pytest.mark.parametrize("bad", ["", "   ", "\n"])
def test_an_empty_caption_is_named(tiny, bad):
    with pytest.raises(InputError, match="Caption 1 in 'sw' is empty"):
        tiny.tokenize(["paka", bad], "sw")


def test_captions_must_be_a_list_of_texts(tiny):
    with pytest.raises(InputError, match="list of captions"):
        tiny.tokenize("a cat")
    with pytest.raises(InputError, match="is float"):
        tiny.tokenize(["a cat", float("nan")])


def test_the_middle_is_halfway_between_first_and_last_content_token(get_tower):
    tokens = get_tower("metaclip_2").tokenize(["ab cd e", "x"])
    for content, middle in zip(tokens.content, tokens.middle.tolist(), strict=True):
        places = content.nonzero()[:, 0].tolist()
        assert middle == (places[0] + places[-1]) // 2
        assert content[middle]


@pytest.mark.parametrize("captions", [["ab cd e", "x"], ["x", "ab cd e", "a b c d e f"]])
def test_content_tokens_are_counted_from_either_end_and_drawn_from_what_a_caption_says(get_tower, captions):
    tokens = get_tower("metaclip_2").tokenize(captions)
    places = [content.nonzero()[:, 0].tolist() for content in tokens.content]
    for k in (0, 2, -1, -2):
        wanted = [own[k] if -len(own) <= k < len(own) else -1 for own in places]
        assert tokens.where(f"token {k}").tolist() == wanted
    drawn = tokens.where("random").tolist()
    assert all(place in own for place, own in zip(drawn, places, strict=True))
    # Neither its neighbours nor the padding of a batch change what is drawn.
    for place, caption in zip(drawn, captions, strict=True):
        alone = get_tower("metaclip_2").tokenize([caption])
        first = alone.content[0].nonzero()[0, 0]
        assert alone.where("random")[0] - first == place - places[captions.index(caption)][0]


def test_random_content_tokens_are_spread(get_tower):
    texts = [f"a {left} b {right} c" for left in "defghij" for right in "klmnopq"]
    tokens = get_tower("metaclip_2").tokenize(texts)
    first = tokens.content.int().argmax(-1)
    drawn = (tokens.where("random") - first).tolist()
    count = int(tokens.content.sum(-1).min())
    assert len(set(drawn)) >= count
    assert max(drawn.count(place) for place in set(drawn)) < 0.6 * len(drawn)


@pytest.mark.parametrize("site", ["eos", "token", "token x", "random 3", "Middle"])
def test_a_site_that_there_is_not_is_named(tiny, site):
    with pytest.raises(InputError, match="There is no site"):
        tiny.tokenize(["a cat"]).where(site)


def test_a_trace_by_hand_patches_the_same_model(tiny):
    captions = ["a cat", "two dogs"]
    tokens = tiny.tokenize(captions)
    batch = torch.arange(2)
    with tiny.evaluating(), tiny.trace(captions) as trace:
        block = tiny.envoy_blocks[1]
        block.output[batch, tokens.pooled] = torch.zeros(2, tiny.width)
        features = trace.result.save()
    with HookManager(tiny.blocks) as hooks:
        hooks.replace(2, tokens.pooled, torch.zeros_like)
        wanted = tiny.forward(tokens)
    assert torch.equal(tiny.embedding(features, tokens), wanted)


def test_the_fingerprint_tells_weights_apart(tmp_path):
    one, two, three = (
        load_tower(CHECKPOINTS["siglip"](tmp_path / str(k), seed=seed)) for k, seed in enumerate((1, 1, 2))
    )
    assert one.fingerprint == two.fingerprint != three.fingerprint


def test_towers_leave_evaluation_mode_as_they_found_it(tiny):
    tiny.model.train()
    with tiny.evaluating():
        assert not tiny.model.training
        assert not torch.is_grad_enabled()
    assert tiny.model.training
    tiny.model.eval()


def test_captions_that_are_read_alike_have_one_embedding_in_any_batch(tiny):
    captions = [*CAPTIONS["hi"], *CAPTIONS["en"], *CAPTIONS["hi"], "A  cat", "a cat"]
    keys = tiny.caption_keys(captions, "hi")
    assert keys[:6] == keys[12:18]
    for size in (1, 3, 5, 64):
        found = tiny.encode_text(captions, "hi", batch_size=size)
        rows = [item.tobytes() for item in np.asarray(getattr(found, "tokens", found))]
        for place, key in enumerate(keys):
            assert rows[place] == rows[keys.index(key)], (size, captions[place])


def test_pictures_that_are_equal_have_one_embedding_in_any_batch(tiny):
    if not tiny.has_images:
        return
    pictures = [Image.new("RGB", (40, 30), colour) for colour in ("red", "blue", "red", "green", "blue", "red")]
    for size in (1, 4):
        found = tiny.encode_images(pictures, batch_size=size)
        rows = [item.tobytes() for item in np.asarray(getattr(found, "tokens", found))]
        assert rows[0] == rows[2] == rows[5]
        assert rows[1] == rows[4]


def test_every_small_file_of_a_local_tower_and_every_setting_is_part_of_its_identity(tmp_path):
    folder = CHECKPOINTS["clip"](tmp_path / "clip")
    known = {load_tower(folder).identity}
    files = [path for path in folder.iterdir() if path.suffix != ".safetensors"]
    assert {"config.json", "tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"} <= {
        path.name for path in files
    }
    config = folder / "config.json"
    whole = config.read_text("utf-8")
    for name, value in (("hidden_act", "relu"), ("layer_norm_eps", 1e-3)):
        changed = json.loads(whole)
        changed["text_config"][name] = value
        config.write_text(json.dumps(changed))
        tower = load_tower(folder)
        known.add(tower.identity)
    config.write_text(whole)
    for path in files:
        content = path.read_text("utf-8")
        path.write_text(content + "\n")
        known.add(load_tower(folder).identity)
        path.write_text(content)
    assert len(known) == 3 + len(files)
    assert load_tower(folder).identity in known
