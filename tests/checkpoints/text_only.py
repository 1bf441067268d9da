"""Text-only encoders: saved as their repositories are, with the files of ``sentence-transformers`` beside them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers.pre_tokenizers import ByteLevel
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizer,
    Qwen2Config,
    Qwen2Model,
    Qwen2Tokenizer,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from tests.checkpoints.common import LETTERS, POSITIONS, TEXT, WIDTH, randomise
from tests.checkpoints.dual import xlm_tokenizer


def _save(folder: Path, model: torch.nn.Module, tokenizer: Any, pooling: str, dense: bool = False) -> Path:
    model.save_pretrained(folder)  # pyright: ignore[reportCallIssue]
    tokenizer.save_pretrained(folder)
    kinds = ["Transformer", "Pooling", *(["Dense"] if dense else []), "Normalize"]
    modules = [
        {
            "idx": k,
            "name": str(k),
            "path": "" if k == 0 else f"{k}_{kind}",
            "type": f"sentence_transformers.models.{kind}",
        }
        for k, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    rules = ("cls_token", "mean_tokens", "max_tokens", "lasttoken")
    said = {"word_embedding_dimension": WIDTH, **{f"pooling_mode_{rule}": rule == pooling for rule in rules}}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(said))
    if dense:
        place = folder / "2_Dense"
        place.mkdir()
        activation = "torch.nn.modules.activation.Tanh"
        config = {"in_features": WIDTH, "out_features": 20, "bias": True, "activation_function": activation}
        (place / "config.json").write_text(json.dumps(config))
        generator = torch.Generator().manual_seed(5)
        weight = torch.randn(20, WIDTH, generator=generator) / WIDTH**0.5
        save_file({"linear.weight": weight, "linear.bias": torch.full((20,), 0.1)}, place / "model.safetensors")
    return folder


def e5_checkpoint(folder: Path, *, seed: int = 0, pooling: str = "mean_tokens") -> Path:
    """An ``XLMRobertaModel`` whose masked mean is pooled, as E5's is (with ``cls_token``, as BGE-M3's)."""
    tokenizer = xlm_tokenizer()
    config = XLMRobertaConfig(
        **TEXT, vocab_size=len(tokenizer), max_position_embeddings=POSITIONS + 2, type_vocab_size=1,
        pad_token_id=1, bos_token_id=0, eos_token_id=2,
    )  # fmt: skip
    return _save(folder, randomise(XLMRobertaModel(config), seed), tokenizer, pooling)


def bge_checkpoint(folder: Path, *, seed: int = 0) -> Path:
    """An ``XLMRobertaModel`` whose first row is pooled."""
    return e5_checkpoint(folder, seed=seed, pooling="cls_token")


def labse_checkpoint(folder: Path, *, seed: int = 0) -> Path:
    """A ``BertModel`` whose first row goes through a dense layer and a tanh, as LaBSE's does."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    tokenizer = BertTokenizer(vocab={piece: k for k, piece in enumerate(pieces)}, model_max_length=POSITIONS)
    config = BertConfig(**TEXT, vocab_size=len(pieces), max_position_embeddings=POSITIONS, pad_token_id=0)
    return _save(folder, randomise(BertModel(config), seed), tokenizer, "cls_token", dense=True)


def decoder_checkpoint(folder: Path, *, seed: int = 0, pooling: str = "lasttoken") -> Path:
    """A ``Qwen2Model``, causal, with rotary positions and a final norm, whose last row is pooled."""
    pieces = [*sorted(ByteLevel.alphabet()), "<|endoftext|>"]
    tokenizer = Qwen2Tokenizer(
        vocab={piece: k for k, piece in enumerate(pieces)}, merges=[], pad_token="<|endoftext|>",
        model_max_length=POSITIONS,
    )  # fmt: skip
    config = Qwen2Config(
        **TEXT, num_key_value_heads=2, vocab_size=len(pieces), max_position_embeddings=64, eos_token_id=len(pieces) - 1,
    )  # fmt: skip
    return _save(folder, randomise(Qwen2Model(config), seed), tokenizer, pooling)


TEXT_ONLY: dict[str, Callable[..., Path]] = {
    "bge": bge_checkpoint,
    "decoder": decoder_checkpoint,
    "e5": e5_checkpoint,
    "labse": labse_checkpoint,
}
