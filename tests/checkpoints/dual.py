"""CLIP, MetaCLIP-2, SigLIP and SigLIP-2."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    CLIPConfig,
    CLIPImageProcessorPil,
    CLIPModel,
    CLIPTokenizer,
    MetaClip2Config,
    MetaClip2Model,
    PreTrainedTokenizerFast,
    Siglip2Config,
    Siglip2ImageProcessorPil,
    Siglip2Model,
    SiglipConfig,
    SiglipImageProcessorPil,
    SiglipModel,
    XLMRobertaTokenizer,
)

from tests.checkpoints.common import LETTERS, POSITIONS, SCRIPTS, TEXT, VISION, WIDTH, randomise, save


def clip_checkpoint(folder: Path, *, legacy_end: bool = False, seed: int = 0, **text: Any) -> Path:
    """Save a tiny ``CLIPModel``; ``legacy_end`` gives it the config of OpenAI's own, with eos_token_id 2."""
    letters = LETTERS
    pieces = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {piece: place for place, piece in enumerate(pieces)}
    tokenizer = CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=POSITIONS)
    end = vocabulary["<|endoftext|>"]
    config = CLIPConfig(
        text_config={
            **TEXT, "vocab_size": len(vocabulary), "max_position_embeddings": POSITIONS, "projection_dim": 16,
            "bos_token_id": end - 1, "eos_token_id": 2 if legacy_end else end, "pad_token_id": 1, **text,
        },
        vision_config={**VISION, "projection_dim": 16},
        projection_dim=16,
    )  # fmt: skip
    side = {"height": 32, "width": 32}
    images = CLIPImageProcessorPil(size=side, crop_size=side, do_center_crop=False)
    return save(folder, randomise(CLIPModel(config), seed), tokenizer, images)


def xlm_tokenizer() -> XLMRobertaTokenizer:
    """Letters for pieces, with the special tokens of XLM-R in their places."""
    pieces = [(piece, 0.0) for piece in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces += [("▁", -2.0)]
    pieces += [(letter, -3.0 - place / 100) for place, letter in enumerate(SCRIPTS) if letter != " "]
    return XLMRobertaTokenizer(vocab=pieces, model_max_length=POSITIONS)


def metaclip2_checkpoint(folder: Path, *, seed: int = 0, **text: Any) -> Path:
    """Save a tiny ``MetaClip2Model`` with an XLM-V-like tokeniser."""
    tokenizer = xlm_tokenizer()
    config = MetaClip2Config(
        text_config={
            **TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": POSITIONS, "projection_dim": 16,
            "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, **text,
        },
        vision_config={**VISION, "projection_dim": 16},
        projection_dim=16,
    )  # fmt: skip
    side = {"height": 32, "width": 32}
    images = CLIPImageProcessorPil(size=side, crop_size=side, do_center_crop=False)
    return save(folder, randomise(MetaClip2Model(config), seed), tokenizer, images)


def siglip_tokenizer(*, lowercase: bool = True) -> PreTrainedTokenizerFast:
    """Pad with the end token, as SigLIP does; without ``lowercase`` keep case, as SigLIP-2's folders do."""
    pieces = [("<unk>", 0.0), ("</s>", 0.0), ("▁", -2.0)]
    pieces += [(letter, -3.0 - place / 100) for place, letter in enumerate(SCRIPTS) if letter != " "]
    pieces += [(letter, -9.0) for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    backend = Tokenizer(models.Unigram(pieces, unk_id=0))
    if lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="</s>", pad_token="</s>", unk_token="<unk>",
        model_max_length=POSITIONS, model_input_names=["input_ids"],
    )  # fmt: skip


def siglip_checkpoint(folder: Path, *, lowercase: bool = True, seed: int = 0, **text: Any) -> Path:
    """Save a tiny ``SiglipModel``."""
    tokenizer = siglip_tokenizer(lowercase=lowercase)
    config = SiglipConfig(
        text_config={
            **TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": POSITIONS, "projection_size": WIDTH,
            "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, **text,
        },
        vision_config=VISION,
    )  # fmt: skip
    images = SiglipImageProcessorPil(size={"height": 32, "width": 32})
    return save(folder, randomise(SiglipModel(config), seed), tokenizer, images)


def siglip2_checkpoint(folder: Path, *, seed: int = 0, **text: Any) -> Path:
    """Save a tiny ``Siglip2Model``, whose images keep their aspect (NaFlex)."""
    tokenizer = siglip_tokenizer(lowercase=False)
    config = Siglip2Config(
        text_config={
            **TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": POSITIONS, "projection_size": WIDTH,
            "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, **text,
        },
        vision_config={
            "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "patch_size": 8, "num_patches": 16,
        },
    )  # fmt: skip
    images = Siglip2ImageProcessorPil(patch_size=8, max_num_patches=16)
    return save(folder, randomise(Siglip2Model(config), seed), tokenizer, images)
