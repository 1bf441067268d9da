"""Towers of open_clip. All but one test need it: `make test-open-clip` runs them, and fails where one is skipped."""

from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from interventions import ParallelEOS
from tests.checkpoints.common import POSITIONS
from tests.checkpoints.open_clip import (
    VARIANTS,
    coca_checkpoint,
    edit_config,
    native_clip_checkpoint,
    native_metaclip_checkpoint,
    nllb_clip_checkpoint,
    nllb_tokenizer,
    open_clip_library,
    xlm_clip_checkpoint,
)
from tests.conftest import CAPTIONS
from workbench.engine import sweep_pass
from workbench.errors import InputError, TowerError
from workbench.intervention import Context
from workbench.language_codes import model_code
from workbench.oracle import patch_depths
from workbench.towers import load_tower
from workbench.towers.base import relative_error
from workbench.trajectory import capture_language

ALL = {"open_clip": nllb_clip_checkpoint, **VARIANTS}
ODD = ["a cat", "the quick brown fox, and a hen", "x", "שאב אבג"]


def weights(folder):
    return load_file(folder / "open_clip_model.safetensors")


@pytest.fixture(scope="module")
def nllb_folder(tmp_path_factory):
    return nllb_clip_checkpoint(tmp_path_factory.mktemp("nllb"))


@pytest.fixture(scope="module")
def nllb(nllb_folder):
    return load_tower(nllb_folder)


# -- what open_clip itself says ---------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(ALL))
def test_everything_equals_what_open_clips_own_loader_gives(tmp_path, name):
    open_clip = open_clip_library()
    folder = ALL[name](tmp_path)
    tower = load_tower(folder)

    def local(config):
        if "hf_model_name" in config["text_cfg"]:
            config["text_cfg"]["hf_model_name"] = str(folder)

    edit_config(folder, local)
    model, preprocess = open_clip.create_model_from_pretrained(f"local-dir:{folder}")
    assert model.training, "the trap: dropout is on after construction"
    model.eval()
    ids = open_clip.get_tokenizer(f"local-dir:{folder}")(ODD)
    images = [Image.new("RGB", (50, 30), colour) for colour in ("red", "navy")]
    with torch.no_grad():
        text = model.encode_text(ids, normalize=False)
        image = model.encode_image(torch.stack([preprocess(image) for image in images]), normalize=False)
    given = tower.tokenize(ODD).input_ids
    assert torch.equal(given, ids[:, : given.shape[1]])
    assert relative_error(tower.encode_text(ODD), text) < 1e-5
    assert relative_error(tower.encode_images(images, batch_size=1), image) < 1e-5


# -- language codes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "code"),
    [("en", "eng_Latn"), ("sw", "swh_Latn"), ("hi", "hin_Deva"), ("fil", "tgl_Latn"), ("quz", "quy_Latn")],
)
def test_the_pooled_row_is_the_code_of_the_captions_language(nllb, language, code):
    tokens = nllb.tokenize(["a cat", "two dogs"], language)
    wanted = nllb.tokenizer.convert_tokens_to_ids(code)
    assert nllb.tokenizer.convert_ids_to_tokens(wanted) == code == model_code(language)
    assert tokens.input_ids.gather(1, tokens.pooled[:, None]).tolist() == [[wanted], [wanted]]
    assert not tokens.content[:, 0].any()


def test_the_embedding_moves_with_the_language_and_only_with_it(nllb):
    swahili = nllb.encode_text(["a cat"], "sw")
    assert relative_error(nllb.encode_text(["a cat"], "hi"), swahili) > 1e-2
    assert torch.equal(nllb.encode_text(["a cat"], "sw"), swahili), "a language lasts for its own captions"
    assert torch.equal(nllb.encode_text(["a cat"], "swh_Latn"), swahili)


def test_the_trap_is_real_and_cannot_be_opened_again(nllb, nllb_folder, monkeypatch):
    open_clip_library()
    from open_clip.tokenizer import HFTokenizer  # pyright: ignore[reportMissingImports]

    english = nllb.tokenizer.convert_tokens_to_ids("eng_Latn")
    theirs = HFTokenizer(str(nllb_folder), context_length=POSITIONS)
    theirs.set_language("swh_Latn")
    assert theirs(["a cat"])[0, 0] == english, "set_language works now: the adapter's detour can go"

    nllb.tokenize(["x"], "hi")
    real = type(nllb.tokenizer).src_lang
    monkeypatch.setattr(type(nllb.tokenizer), "src_lang", property(real.fget, lambda self, code: None))
    with pytest.raises(TowerError, match="does not put the language code first"):
        nllb.tokenize(["paka"], "sw")


@pytest.mark.parametrize(("language", "message"), [("ab", "NLLB-200 has no code for Abkhaz"), ("xx", "has no 'xx'")])
def test_a_language_without_a_code_is_one_clear_error(nllb, language, message):
    with pytest.raises(InputError, match=message) as error:
        nllb.encode_text(["a cat"], language)
    assert "\n" not in str(error.value)


def test_a_code_that_the_tokeniser_lacks_is_named(tmp_path):
    folder = nllb_clip_checkpoint(tmp_path)
    path = folder / "tokenizer.json"
    path.write_text(path.read_text("utf-8").replace("swh_Latn", "swq_Latn"), "utf-8")
    config = folder / "tokenizer_config.json"
    config.write_text(config.read_text("utf-8").replace("swh_Latn", "swq_Latn"), "utf-8")
    with pytest.raises(InputError, match=r"has no language code 'swh_Latn' \(for 'sw'\)"):
        load_tower(folder).tokenize(["paka"], "sw")


def test_captions_without_a_language_are_read_as_english_and_that_is_said_once(nllb_folder, caplog):
    tower = load_tower(nllb_folder)
    assert "English" not in caplog.text, "the self-check is no use of the tower"
    assert torch.equal(tower.encode_text(["a cat"]), tower.encode_text(["a cat"], "en"))
    tower.encode_text(["a cat"])
    assert caplog.text.count("as English") == 1


def test_all_language_codes_of_the_table_are_tokens_of_the_tokeniser():
    open_clip_library()
    from workbench.language_codes import languages

    tokenizer = nllb_tokenizer()
    codes = {row.nllb for row in languages().values() if row.nllb}
    assert len(codes) > 190
    for code in codes:
        assert tokenizer.convert_tokens_to_ids(code) != tokenizer.unk_token_id, code


# -- the other traps --------------------------------------------------------------------------------


def test_dropout_and_layerdrop_are_off(nllb):
    assert not any(module.training for module in nllb.model.modules())
    wanted = nllb.encode_text(ODD, "en")
    assert torch.equal(nllb.encode_text(ODD, "en"), wanted)
    nllb.model.train()
    try:
        assert relative_error(nllb.encode_text(ODD, "en"), wanted) > 1e-2, "the trap is real"
        with nllb.evaluating():
            assert torch.equal(nllb.encode_text(ODD, "en"), wanted)
    finally:
        nllb.model.eval()


@pytest.mark.parametrize("make", [nllb_clip_checkpoint, xlm_clip_checkpoint])
def test_encoders_need_their_mask(tmp_path, make):
    tower: Any = load_tower(make(tmp_path))
    tokens = tower.tokenize(ODD, "en")
    with torch.no_grad():
        plain = tower.forward(tokens)
        # The trap: every position counts as text.
        tower.text.config.pad_token_id, padding = -1, tower.text.config.pad_token_id
        unmasked = tower.forward(tokens)
        tower.text.config.pad_token_id = padding
    error = [relative_error(unmasked[[k]], plain[[k]]) for k in range(len(ODD))]
    longest = int(tokens.length.argmax())
    assert error[longest] < 1e-5
    assert min(error[:longest] + error[longest + 1 :]) > 1e-2
    assert tokens.attention_mask is not None
    assert tokens.attention_mask.equal((tokens.input_ids != padding).long())


@pytest.mark.parametrize("said", [torch.float16, torch.bfloat16])
def test_weights_are_not_rounded_to_the_precision_of_the_encoders_own_checkpoint(tmp_path, said):
    folder = nllb_clip_checkpoint(tmp_path, dtype=said)
    from transformers import AutoConfig, AutoModel

    trap = AutoModel.from_config(AutoConfig.from_pretrained(folder))
    assert next(trap.parameters()).dtype == said, "the trap is real"
    tower, stored = load_tower(folder), weights(folder)
    assert {parameter.dtype for parameter in tower.model.parameters()} == {torch.float32}
    for name, value in tower.model.state_dict().items():
        assert torch.equal(value, stored[name]), name
    # Nor are the tables that the class computes.
    plain = load_tower(nllb_clip_checkpoint(tmp_path / "plain"))
    assert torch.equal(tower.encode_text(ODD, "en"), plain.encode_text(ODD, "en"))


@pytest.mark.parametrize("name", ["open_clip", "open_clip-native_argmax", "open_clip-native_last", "open_clip-xlm"])
def test_half_precision_is_asked_for_and_never_inherited(tmp_path, name):
    folder = ALL[name](tmp_path)
    wanted = load_tower(folder).encode_text(ODD, "en")
    stored = {key: value.to(torch.bfloat16) for key, value in weights(folder).items()}
    tower = load_tower(folder, dtype="bfloat16")
    assert {parameter.dtype for parameter in tower.model.parameters()} == {torch.bfloat16}
    given = tower.encode_text(ODD, "en")
    assert given.dtype == torch.float32
    assert relative_error(given, wanted) < 0.1
    save_file(stored, folder / "open_clip_model.safetensors")
    assert load_tower(folder).dtype == torch.float32


def test_the_norm_of_the_last_block_is_not_that_of_the_tower(nllb, monkeypatch):
    last = nllb.blocks[-1]
    assert any("final_layer_norm" in name for name, _ in last.named_parameters())
    monkeypatch.setattr(nllb, "_norm", last.final_layer_norm)
    with pytest.raises(TowerError, match="failed its self-check"):
        nllb.check()


def test_a_mean_of_normed_rows_is_not_the_norm_of_their_mean(tmp_path, monkeypatch):
    tower = load_tower(nllb_clip_checkpoint(tmp_path, pooler="mean_pooler"))
    engine_equals_oracle(tower, CAPTIONS["sw"], CAPTIONS["en"])
    monkeypatch.setattr(tower, "finish", lambda hidden, where: tower.head(pick_mean(hidden, where)))
    with pytest.raises(TowerError, match="failed its self-check"):
        tower.check()


def pick_mean(hidden, mask):
    return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def engine_equals_oracle(tower, captions, donors):
    depths = list(range(tower.n_blocks + 1))
    donor = capture_language(tower, tower.tokenize(donors, "en"), depths, "pooled")
    n = len(captions)
    context = Context("sw", torch.arange(n), n, "pooled", {"en": donor.rows}, {"en": donor.available}, 0)
    tokens = tower.tokenize(captions, "sw")
    given = sweep_pass(tower, tokens, [ParallelEOS("en")], [context], depths).patched[0]
    wanted = patch_depths(tower, tokens, ParallelEOS("en"), context, depths)
    for depth in depths:
        assert relative_error(given[depth], wanted[depth]) < 1e-5, depth


@pytest.mark.parametrize("make", [native_clip_checkpoint, coca_checkpoint])
@pytest.mark.parametrize("n", [1, 4, POSITIONS])
def test_a_square_mask_is_not_taken_for_a_batch(tmp_path, make, n):
    """One mask of 24 by 24 serves all captions, also where there are 24 of them; CoCa's has a square a head."""
    tower = load_tower(make(tmp_path))
    captions = [f"dog number {k}" for k in range(n)]
    engine_equals_oracle(tower, captions, [f"a cat that has {k} hats" for k in range(n)])


# -- which row is pooled ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rule"),
    [("native_argmax", "argmax"), ("native_eos", "eos"), ("native_last", "last"), ("coca", "appended")],
)
def test_native_towers_read_all_positions_and_pool_by_their_own_rule(tmp_path, name, rule):
    tower = load_tower(ALL[f"open_clip-{name}"](tmp_path))
    tokens = tower.tokenize(["a cat", "x!"])
    assert tokens.input_ids.shape == (2, POSITIONS) == (2, tower.max_positions)
    assert not tower.shared_padding
    rules = {
        "argmax": lambda row: row.index(max(row)),
        "eos": lambda row: row.index(2),
        "last": lambda row: POSITIONS - 1,
        "appended": lambda row: POSITIONS,
    }
    assert tokens.pooled.tolist() == [rules[rule](row) for row in tokens.input_ids.tolist()]
    assert tower.causal == (rule != "last")


def test_clips_padding_is_no_text_though_it_has_the_id_of_an_exclamation_mark(tmp_path):
    tokens = load_tower(native_clip_checkpoint(tmp_path)).tokenize(["cat !€", "cat"])
    ids = tokens.input_ids[0].tolist()
    end = ids.index(max(ids))
    assert 0 in ids[1:end]
    assert 0 in ids[end:]
    assert tokens.content[0].tolist() == [0 < place < end for place in range(POSITIONS)]
    assert tokens.content[1].sum() == 1


def test_siglip_is_cleaned_as_it_was_trained(tmp_path):
    tower = load_tower(ALL["open_clip-native_last"](tmp_path))
    assert torch.equal(tower.encode_text(["A  Cat!"]), tower.encode_text(["a cat"]))


def test_a_rule_that_does_not_fit_the_tokeniser_is_refused(tmp_path):
    """MetaCLIP-2's end token is not its largest id: the rule of a plain CLIP pools a word."""
    folder = edit_config(native_metaclip_checkpoint(tmp_path), lambda config: config["text_cfg"].pop("pool_type"))
    with pytest.raises(InputError, match="pools its end token 2 by the rule 'argmax', which gives token"):
        load_tower(folder)


def test_a_rule_that_pools_no_row_is_refused(tmp_path):
    folder = edit_config(native_clip_checkpoint(tmp_path), lambda config: config["text_cfg"].update(pool_type="none"))
    with pytest.raises(TowerError, match="so that no row is its embedding"):
        load_tower(folder)
    folder = edit_config(
        xlm_clip_checkpoint(tmp_path / "max"), lambda c: c["text_cfg"].update(hf_pooler_type="max_pooler")
    )
    with pytest.raises(TowerError, match="MaxPooler"):
        load_tower(folder)
