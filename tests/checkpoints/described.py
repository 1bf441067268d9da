"""Models that a description file describes: LLaVA-NeXT, InternVL, Qwen2.5-VL, and two that read text alone."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from tokenizers.pre_tokenizers import ByteLevel
from transformers import (
    BertConfig,
    BertModel,
    CLIPVisionConfig,
    GotOcr2ImageProcessorPil,
    InternVLConfig,
    InternVLForConditionalGeneration,
    LlamaConfig,
    LlamaModel,
    LlavaNextConfig,
    LlavaNextForConditionalGeneration,
    LlavaNextImageProcessorPil,
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    LlavaOnevisionImageProcessorPil,
    PreTrainedTokenizerFast,
)

from tests.checkpoints.common import TEXT, randomise, save
from tests.checkpoints.llm import LONGEST, MARKS, attentive, qwen_images, qwen_model, qwen_tokenizer

LLAMA_BEFORE = "<|start_header_id|>user<|end_header_id|>\n\n"
LLAMA_AFTER = "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n \n"
E5V: dict[str, Any] = {
    "model_class": "LlavaNextModel", "blocks": "language_model.layers", "norm": "language_model.norm",
    "template": LLAMA_BEFORE + "{text}\nSummary above sentence in one word: " + LLAMA_AFTER,
    "pooling": "last", "padding_side": "left",
    "images": {
        "template": LLAMA_BEFORE + "{image}\nSummary above image in one word: " + LLAMA_AFTER, "token": "<image>",
    },
}  # fmt: skip
_LLAMA_MARKS = ["<image>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]


def byte_tokenizer(*marks: str, start: str = "<s>", end: str | None = None) -> PreTrainedTokenizerFast:
    """Bytes for pieces, with a start token before the text and perhaps an end token after it."""
    special = ["<pad>", start, *([end] if end else []), *marks]
    pieces = [*special, *sorted(ByteLevel.alphabet())]
    vocabulary = {piece: place for place, piece in enumerate(pieces)}
    backend = Tokenizer(models.BPE(vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(
        single=f"{start} $A" + (f" {end}" if end else ""),
        special_tokens=[(token, vocabulary[token]) for token in (start, end) if token],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", bos_token=start, cls_token=start, eos_token=end or "<|eot_id|>",
        extra_special_tokens=list(marks), model_max_length=LONGEST,
    )  # fmt: skip


def _id(tokenizer: Any, token: str) -> int:
    return tokenizer.convert_tokens_to_ids(token)


def describe(weights: Path, **said: Any) -> Path:
    """Write a description of the checkpoint in a folder, beside that folder and with its name."""
    path = weights.with_suffix(".toml")
    said = {"checkpoint": weights.name, **said}
    lines = [f"{key} = {json.dumps(value)}" for key, value in said.items() if not isinstance(value, dict)]
    for table, entries in said.items():
        if isinstance(entries, dict):
            lines += [f"\n[{table}]", *(f"{key} = {_inline(value)}" for key, value in entries.items())]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {json.dumps(entry)}" for key, entry in value.items()) + "}"
    return json.dumps(value)


def llava_next_checkpoint(folder: Path, *, seed: int = 0, said: dict[str, Any] | None = None, **text: Any) -> Path:
    """Save a tiny ``LlavaNextForConditionalGeneration`` and describe it as E5-V."""
    tokenizer = byte_tokenizer(*_LLAMA_MARKS)
    language = LlamaConfig(
        **TEXT, num_key_value_heads=2, vocab_size=len(tokenizer), max_position_embeddings=LONGEST + 40, **text
    )
    vision = CLIPVisionConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=8
    )
    grid = [[16, 32], [32, 16]]
    config = LlavaNextConfig(
        vision_config=vision.to_dict(), text_config=language.to_dict(), image_grid_pinpoints=grid,
        image_token_index=_id(tokenizer, "<image>"),
    )  # fmt: skip
    side = {"height": 16, "width": 16}
    images = LlavaNextImageProcessorPil(size={"shortest_edge": 16}, crop_size=side, image_grid_pinpoints=grid)
    save(folder, attentive(LlavaNextForConditionalGeneration(config), seed), tokenizer, images)
    return describe(folder, **(E5V if said is None else said))


def llava_onevision_checkpoint(folder: Path, *, seed: int = 0) -> Path:
    """Save a tiny ``LlavaOnevisionForConditionalGeneration``."""
    tokenizer = byte_tokenizer("<image>", "<video>", *MARKS)
    text = {
        **TEXT, "model_type": "qwen2", "num_key_value_heads": 2, "vocab_size": len(tokenizer),
        "max_position_embeddings": 3 * LONGEST,
    }  # fmt: skip
    vision = {
        "model_type": "siglip_vision_model", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 2, "image_size": 16, "patch_size": 4, "vision_use_head": False,
    }  # fmt: skip
    grid = [[16, 32], [32, 16]]
    config = LlavaOnevisionConfig(
        vision_config=vision, text_config=text, image_grid_pinpoints=grid, vision_aspect_ratio="anyres_max_9",
        image_token_index=_id(tokenizer, "<image>"), video_token_index=_id(tokenizer, "<video>"),
    )  # fmt: skip
    images = LlavaOnevisionImageProcessorPil(size={"height": 16, "width": 16}, image_grid_pinpoints=grid)
    save(folder, attentive(LlavaOnevisionForConditionalGeneration(config), seed), tokenizer, images)
    return describe(folder, **(E5V | {"padding_side": "right"}))


INTERNVL: dict[str, Any] = {
    "model_class": "InternVLModel", "blocks": "language_model.layers", "norm": "language_model.norm",
    "template": "<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n", "pooling": "last",
    "images": {
        "template": "<|im_start|>user\n<img>{image}</img><|im_end|>\n<|im_start|>assistant\n",
        "token": "<IMG_CONTEXT>", "options": {"crop_to_patches": False},
    },
}  # fmt: skip


def internvl_checkpoint(folder: Path, *, seed: int = 0) -> Path:
    """Save a tiny ``InternVLForConditionalGeneration`` and describe it, with one tile an image."""
    tokenizer = byte_tokenizer("<img>", "</img>", "<IMG_CONTEXT>", *MARKS)
    vision = {
        "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "image_size": 32, "patch_size": 8,
    }  # fmt: skip
    text = {
        **TEXT, "model_type": "qwen2", "num_key_value_heads": 2, "vocab_size": len(tokenizer),
        "max_position_embeddings": LONGEST,
    }  # fmt: skip
    context = _id(tokenizer, "<IMG_CONTEXT>")
    config = InternVLConfig(vision_config=vision, text_config=text, image_token_id=context, image_seq_length=4)
    images = GotOcr2ImageProcessorPil(size={"height": 32, "width": 32})
    save(folder, attentive(InternVLForConditionalGeneration(config), seed), tokenizer, images)
    return describe(folder, **INTERNVL)


QWEN25: dict[str, Any] = {
    "model_class": "Qwen2_5_VLModel", "blocks": "language_model.layers", "norm": "language_model.norm",
    "template": "<|im_start|>user\n{text}<|im_end|>\n", "pooling": "mean", "normalise": True,
    "images": {
        "template": "<|im_start|>user\n<|vision_start|>{image}<|vision_end|>Describe the image.<|im_end|>\n",
        "token": "<|image_pad|>", "span": ["<|vision_start|>", "<|vision_end|>"],
    },
}  # fmt: skip


def qwen25_checkpoint(folder: Path, *, seed: int = 0, said: dict[str, Any] | None = None, **text: Any) -> Path:
    """Save a tiny ``Qwen2_5_VLModel`` and describe it, mean-pooled as jina-embeddings-v4 is."""
    tokenizer = qwen_tokenizer()
    save(folder, qwen_model("2.5", tokenizer, seed, **text), tokenizer, qwen_images())
    return describe(folder, **(QWEN25 if said is None else said))


BERT: dict[str, Any] = {
    "model_class": "BertModel", "blocks": "encoder.layer", "template": "passage: {text}", "pooling": "cls",
    "causal": False,
}  # fmt: skip


def bert_checkpoint(folder: Path, *, seed: int = 0, **said: Any) -> Path:
    """Save a tiny ``BertModel``, which reads text alone and both ways."""
    tokenizer = byte_tokenizer(start="[CLS]", end="[SEP]")
    config = BertConfig(**TEXT, vocab_size=len(tokenizer), max_position_embeddings=LONGEST)
    model: Any = randomise(BertModel(config, add_pooling_layer=False), seed)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return describe(folder, **{**BERT, **said})


def llama_checkpoint(folder: Path, *, seed: int = 0, text: dict[str, Any] | None = None, **said: Any) -> Path:
    """Save a tiny ``LlamaModel`` with an end token after the text."""
    tokenizer = byte_tokenizer(end="</s>")
    config = LlamaConfig(
        **TEXT, num_key_value_heads=2, vocab_size=len(tokenizer), max_position_embeddings=LONGEST, **(text or {})
    )
    model = attentive(LlamaModel(config), seed)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    llama = {"model_class": "LlamaModel", "blocks": "layers", "norm": "norm", "template": "{text}", "pooling": "eos"}
    return describe(folder, **{**llama, **said})
