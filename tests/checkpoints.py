"""Tiny random checkpoints of the real classes, saved with ``save_pretrained`` and loaded from the folder.

They are built by the same libraries that wrote the real ones: configs, tokenisers and image processors are
the real classes with small sizes.
"""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    CLIPConfig,
    CLIPImageProcessorPil,
    CLIPModel,
    CLIPTokenizer,
    MetaClip2Config,
    MetaClip2Model,
    PreTrainedTokenizerFast,
    SiglipConfig,
    SiglipImageProcessorPil,
    SiglipModel,
    XLMRobertaTokenizer,
)

BLOCKS, WIDTH, POSITIONS = 4, 32, 24
SCRIPTS = "abcdefghijklmnopqrstuvwxyz0123456789.,:?!' éüñßøкотдмяहथनదేలుאבגد中文猫狗"

_TEXT = {"hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": BLOCKS, "num_attention_heads": 4}
_VISION = {
    "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "image_size": 32, "patch_size": 16,
}  # fmt: skip


def _randomise(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Give every weight some size: the classes' own start leaves a tower almost linear, which hides faults."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if "norm" in name and name.endswith("weight"):
                weight.copy_(1 + 0.2 * noise)
            elif weight.ndim >= 2:
                fan_in = 1 if "embedding" in name and "patch" not in name else weight[0].numel()
                weight.copy_(noise / fan_in**0.5)
            else:
                weight.copy_(0.1 * noise)
    return model


def clip_checkpoint(folder: Path, *, legacy_end: bool = False, seed: int = 0, **text: Any) -> Path:
    """Save a tiny ``CLIPModel``; ``legacy_end`` gives it the config of OpenAI's own, with eos_token_id 2."""
    letters = [*SCRIPTS.replace(" ", "")]
    pieces = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {piece: place for place, piece in enumerate(pieces)}
    tokenizer = CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=POSITIONS)
    end = vocabulary["<|endoftext|>"]
    config = CLIPConfig(
        text_config={
            **_TEXT, "vocab_size": len(vocabulary), "max_position_embeddings": POSITIONS, "projection_dim": 16,
            "bos_token_id": end - 1, "eos_token_id": 2 if legacy_end else end, "pad_token_id": 1, **text,
        },
        vision_config={**_VISION, "projection_dim": 16},
        projection_dim=16,
    )  # fmt: skip
    side = {"height": 32, "width": 32}
    images = CLIPImageProcessorPil(size=side, crop_size=side, do_center_crop=False)
    return _save(folder, _randomise(CLIPModel(config), seed), tokenizer, images)


def metaclip2_checkpoint(folder: Path, *, seed: int = 0, **text: Any) -> Path:
    """Save a tiny ``MetaClip2Model`` with an XLM-V-like tokeniser."""
    pieces = [(piece, 0.0) for piece in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces += [
        ("▁", -2.0),
        *((letter, -3.0 - place / 100) for place, letter in enumerate(SCRIPTS) if letter != " "),
    ]
    tokenizer = XLMRobertaTokenizer(vocab=pieces, model_max_length=POSITIONS)
    config = MetaClip2Config(
        text_config={
            **_TEXT, "vocab_size": len(pieces), "max_position_embeddings": POSITIONS, "projection_dim": 16,
            "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, **text,
        },
        vision_config={**_VISION, "projection_dim": 16},
        projection_dim=16,
    )  # fmt: skip
    side = {"height": 32, "width": 32}
    images = CLIPImageProcessorPil(size=side, crop_size=side, do_center_crop=False)
    return _save(folder, _randomise(MetaClip2Model(config), seed), tokenizer, images)


def siglip_checkpoint(folder: Path, *, lowercase: bool = True, seed: int = 0, **text: Any) -> Path:
    """Save a tiny ``SiglipModel``; without ``lowercase`` its tokeniser keeps case, as SigLIP-2's folders do."""
    pieces = [("<unk>", 0.0), ("</s>", 0.0), ("▁", -2.0)]
    pieces += [(letter, -3.0 - place / 100) for place, letter in enumerate(SCRIPTS) if letter != " "]
    pieces += [(letter, -9.0) for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    backend = Tokenizer(models.Unigram(pieces, unk_id=0))
    if lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="</s>", pad_token="</s>", unk_token="<unk>",
        model_max_length=POSITIONS, model_input_names=["input_ids"],
    )  # fmt: skip
    config = SiglipConfig(
        text_config={
            **_TEXT, "vocab_size": len(pieces), "max_position_embeddings": POSITIONS, "projection_size": WIDTH,
            "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, **text,
        },
        vision_config=_VISION,
    )  # fmt: skip
    images = SiglipImageProcessorPil(size={"height": 32, "width": 32})
    return _save(folder, _randomise(SiglipModel(config), seed), tokenizer, images)


CHECKPOINTS = {"clip": clip_checkpoint, "metaclip_2": metaclip2_checkpoint, "siglip": siglip_checkpoint}


def _save(folder: Path, model: Any, tokenizer: Any, images: Any) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    images.save_pretrained(folder)
    return folder
