"""Tiny random models of open_clip in the layout of its hub repositories.

They need open_clip, which has an environment of its own (``make test-open-clip``); elsewhere a test that asks for
one is skipped.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertTokenizer, M2M100Config, NllbTokenizer, XLMRobertaConfig

from tests.checkpoints.common import BLOCKS, LETTERS, POSITIONS, TEXT, WIDTH, randomise
from tests.checkpoints.dual import siglip_tokenizer, xlm_tokenizer

OUT = 16
VISION = {"image_size": 32, "layers": 2, "width": WIDTH, "head_width": 8, "patch_size": 16}
_NATIVE = {"context_length": POSITIONS, "width": WIDTH, "heads": 4, "layers": BLOCKS}


def open_clip_library() -> Any:
    return pytest.importorskip(
        "open_clip", reason="open_clip has an environment of its own: make test-open-clip", exc_type=ImportError
    )


def write(folder: Path, model_cfg: dict[str, Any], seed: int, tokenizer: Any = None, encoder: Any = None) -> Path:
    """Build the model that a config describes, give its weights some size, and save everything."""
    open_clip = open_clip_library()
    folder.mkdir(parents=True, exist_ok=True)
    preprocess = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4], "interpolation": "bicubic", "resize_mode": "squash"}
    config = {"model_cfg": model_cfg, "preprocess_cfg": preprocess}
    (folder / "open_clip_config.json").write_text(json.dumps(config), "utf-8")
    text = dict(model_cfg["text_cfg"])
    if encoder is not None:
        encoder.save_pretrained(folder)
        text |= {"hf_model_name": str(folder), "hf_model_pretrained": False}
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False, pretrained_text=False, text_cfg=text)
    randomise(model.float(), seed)
    save_file(
        {name: value.contiguous() for name, value in model.state_dict().items()}, folder / "open_clip_model.safetensors"
    )
    return folder


def edit_config(folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Change the model's part of the config of a checkpoint."""
    path = folder / "open_clip_config.json"
    config = json.loads(path.read_text("utf-8"))
    change(config["model_cfg"])
    path.write_text(json.dumps(config), "utf-8")
    return folder


def nllb_tokenizer() -> NllbTokenizer:
    """Letters for pieces, and all 202 language codes after them."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", *LETTERS]
    return NllbTokenizer(vocab={piece: place for place, piece in enumerate(pieces)}, merges=[])


def nllb_clip_checkpoint(
    folder: Path, *, seed: int = 0, pooler: str = "cls_pooler", dtype: torch.dtype = torch.float32, **vision: Any
) -> Path:
    """Save a tiny NLLB-CLIP; ``dtype`` is what the encoder's config says of its own, other checkpoint."""
    tokenizer = nllb_tokenizer()
    encoder = M2M100Config(
        vocab_size=len(tokenizer), d_model=WIDTH, encoder_layers=BLOCKS, encoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=64, max_position_embeddings=POSITIONS,
        dropout=0.1, encoder_layerdrop=0.05, pad_token_id=1, dtype=dtype,
    )  # fmt: skip
    text = {
        "hf_model_name": "facebook/nllb-200-distilled-600M", "hf_tokenizer_name": "facebook/nllb-200-distilled-600M",
        "hf_proj_type": "linear", "hf_pooler_type": pooler, "context_length": POSITIONS,
    }  # fmt: skip
    cfg = {"embed_dim": OUT, "custom_text": True, "vision_cfg": vision or VISION, "text_cfg": text}
    return write(folder, cfg, seed, tokenizer, encoder)


def nllb_siglip_checkpoint(folder: Path, *, seed: int = 0) -> Path:
    """Save an NLLB-CLIP with an image tower of timm, as the SigLIP variants have."""
    return nllb_clip_checkpoint(
        folder, seed=seed, image_size=64, timm_model_name="test_vit", timm_model_pretrained=False, timm_pool="avg",
        timm_proj="linear",
    )  # fmt: skip


def xlm_clip_checkpoint(folder: Path, *, seed: int = 0) -> Path:
    """Save an open_clip model with an XLM-R: masked mean, then a projection of two layers."""
    tokenizer = xlm_tokenizer()
    encoder = XLMRobertaConfig(
        **TEXT, vocab_size=len(tokenizer), max_position_embeddings=POSITIONS + 2, type_vocab_size=1, pad_token_id=1,
        bos_token_id=0, eos_token_id=2,
    )  # fmt: skip
    text = {
        "hf_model_name": "xlm-roberta-base", "hf_tokenizer_name": "xlm-roberta-base", "hf_pooler_type": "mean_pooler",
        "hf_proj_type": "mlp", "context_length": POSITIONS,
    }  # fmt: skip
    cfg = {"embed_dim": OUT, "vision_cfg": VISION, "text_cfg": text}
    return write(folder, cfg, seed, tokenizer, encoder)


def bert_clip_checkpoint(folder: Path, *, seed: int = 0) -> Path:
    """Save an open_clip model with a BERT: first row, BERT's own pooler, then a projection."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    tokenizer = BertTokenizer(vocab={piece: k for k, piece in enumerate(pieces)}, model_max_length=POSITIONS)
    encoder = BertConfig(**TEXT, vocab_size=len(pieces), max_position_embeddings=POSITIONS)
    text = {
        "hf_model_name": "bert-base-multilingual-cased", "hf_tokenizer_name": "bert-base-multilingual-cased",
        "hf_pooler_type": "cls_pooler", "hf_proj_type": "linear", "context_length": POSITIONS,
    }  # fmt: skip
    return write(folder, {"embed_dim": OUT, "vision_cfg": VISION, "text_cfg": text}, seed, tokenizer, encoder)


def native_clip_checkpoint(folder: Path, *, seed: int = 0) -> Path:
    """Save open_clip's plain ``CLIP``, with CLIP's own tokeniser: causal, pools the largest token id."""
    cfg = {"embed_dim": OUT, "vision_cfg": VISION, "text_cfg": {**_NATIVE, "vocab_size": 49408}}
    return write(folder, cfg, seed)


def native_metaclip_checkpoint(folder: Path, *, seed: int = 0) -> Path:
    """Save open_clip's MetaCLIP-2: causal, pools the first end token of an XLM-V-like tokeniser."""
    tokenizer = xlm_tokenizer()
    text = {
        **_NATIVE, "vocab_size": len(tokenizer), "hf_tokenizer_name": "facebook/xlm-v-base", "pool_type": "eos",
        "eos_id": 2,
    }  # fmt: skip
    return write(
        folder, {"embed_dim": OUT, "quick_gelu": True, "vision_cfg": VISION, "text_cfg": text}, seed, tokenizer
    )


def native_siglip_checkpoint(folder: Path, *, seed: int = 0) -> Path:
    """Save open_clip's SigLIP: no mask, pools the last position, a projection with a bias."""
    tokenizer = siglip_tokenizer(lowercase=False)
    text = {
        **_NATIVE, "vocab_size": len(tokenizer), "hf_tokenizer_name": "timm/ViT-B-16-SigLIP-i18n-256",
        "tokenizer_kwargs": {"clean": "canonicalize"}, "no_causal_mask": True, "proj_bias": True, "pool_type": "last",
        "norm_kwargs": {"eps": 1e-6},
    }  # fmt: skip
    cfg = {"embed_dim": OUT, "custom_text": True, "init_logit_bias": -10, "vision_cfg": VISION, "text_cfg": text}
    return write(folder, cfg, seed, tokenizer)


def coca_checkpoint(folder: Path, *, seed: int = 0) -> Path:
    """Save a CoCa, which appends a row to each caption and pools that."""
    text = {**_NATIVE, "vocab_size": 49408, "embed_cls": True, "output_tokens": True}
    decoder = {"context_length": POSITIONS, "vocab_size": 49408, "width": WIDTH, "heads": 4, "layers": 1}
    vision = {**VISION, "attentional_pool": True, "attn_pooler_heads": 4, "output_tokens": True}
    cfg = {"embed_dim": WIDTH, "multimodal_cfg": decoder, "custom_text": True, "vision_cfg": vision, "text_cfg": text}
    return write(folder, cfg, seed)


VARIANTS = {
    "open_clip-bert": bert_clip_checkpoint,
    "open_clip-coca": coca_checkpoint,
    "open_clip-native_argmax": native_clip_checkpoint,
    "open_clip-native_eos": native_metaclip_checkpoint,
    "open_clip-native_last": native_siglip_checkpoint,
    "open_clip-timm": nllb_siglip_checkpoint,
    "open_clip-xlm": xlm_clip_checkpoint,
}
"""Beside ``nllb_clip_checkpoint``, the other kinds of text tower that open_clip builds."""
