"""Embedders made of a multimodal language model: GME and ColQwen.

Beside each checkpoint stands what the model itself says of captions and images, reached another way than by the
adapter: whole texts through the tokeniser, the documented call of the class, the last row that is no padding.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Image
from tokenizers.pre_tokenizers import ByteLevel
from torch import Tensor
from transformers import (
    ColQwen2Config,
    ColQwen2ForRetrieval,
    ColQwen2Processor,
    LlavaNextProcessor,
    Qwen2_5_VLConfig,
    Qwen2_5_VLModel,
    Qwen2Tokenizer,
    Qwen2VLConfig,
    Qwen2VLImageProcessorPil,
    Qwen2VLModel,
)

from tests.checkpoints.common import BLOCKS, WIDTH, randomise, save

LONGEST = 160
MARKS = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]


def qwen_tokenizer() -> Qwen2Tokenizer:
    """Bytes for pieces, with Qwen's marks; the end of text is the padding too."""
    pieces = [*sorted(ByteLevel.alphabet()), "<|endoftext|>", *MARKS]
    return Qwen2Tokenizer(
        vocab={piece: place for place, piece in enumerate(pieces)}, merges=[], pad_token="<|endoftext|>",
        extra_special_tokens=MARKS, model_max_length=LONGEST,
    )  # fmt: skip


def qwen_config(version: str, tokenizer: Qwen2Tokenizer, **text: Any) -> Any:
    """Return a small config of Qwen2-VL or Qwen2.5-VL."""
    ids = {mark: tokenizer.convert_tokens_to_ids(mark) for mark in MARKS}
    text_config = {
        "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": BLOCKS, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": len(tokenizer), "max_position_embeddings": LONGEST,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]},
        "bos_token_id": None, "eos_token_id": tokenizer.pad_token_id, "pad_token_id": tokenizer.pad_token_id, **text,
    }  # fmt: skip
    shared = {"depth": 2, "num_heads": 2, "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2}
    vision = {
        "2": {"embed_dim": 16, "hidden_size": WIDTH, "mlp_ratio": 2},
        "2.5": {
            "hidden_size": 16, "out_hidden_size": WIDTH, "intermediate_size": 32, "window_size": 16,
            "fullatt_block_indexes": [1],
        },
    }[version]  # fmt: skip
    config_class = {"2": Qwen2VLConfig, "2.5": Qwen2_5_VLConfig}[version]
    return config_class(
        text_config=text_config, vision_config={**shared, **vision}, image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"], vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )  # fmt: skip


def attentive(model: torch.nn.Module, seed: int) -> Any:
    """Give every weight some size, and queries more: random attention is almost even over a long prompt, and then
    no caption makes a difference to its last row.
    """
    randomise(model, seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("q_proj.weight"):
                weight.mul_(4)
    return model


def qwen_images() -> Any:
    """Patches of 4 by 4, merged in squares of two; 4 to 16 tokens an image."""
    options: dict[str, Any] = {"size": {"shortest_edge": 4 * 64, "longest_edge": 16 * 64}}
    return Qwen2VLImageProcessorPil(patch_size=4, merge_size=2, temporal_patch_size=2, **options)


def qwen_model(version: str, tokenizer: Qwen2Tokenizer, seed: int = 0, **text: Any) -> Any:
    """Return a tiny random Qwen2-VL or Qwen2.5-VL."""
    model_class = {"2": Qwen2VLModel, "2.5": Qwen2_5_VLModel}[version]
    return attentive(model_class(qwen_config(version, tokenizer, **text)), seed)


def gme_checkpoint(folder: Path, *, seed: int = 0, **text: Any) -> Path:
    """Save a tiny ``Qwen2VLModel`` as GME."""
    tokenizer = qwen_tokenizer()
    return save(folder, qwen_model("2", tokenizer, seed, **text), tokenizer, qwen_images())


def colqwen_checkpoint(folder: Path, *, version: str = "2", seed: int = 0, **text: Any) -> Path:
    """Save a tiny ``ColQwen2ForRetrieval``; version 2.5 has the other Qwen in it."""
    tokenizer = qwen_tokenizer()
    config = ColQwen2Config(vlm_config=qwen_config(version, tokenizer, **text).to_dict(), embedding_dim=12)
    return save(folder, attentive(ColQwen2ForRetrieval(config), seed), tokenizer, qwen_images())


# -- what the models say of themselves -----------------------------------------------------------------


def last_rows(hidden: Tensor, mask: Tensor) -> Tensor:
    """The last row that is no padding; padding is on the right."""
    return hidden[torch.arange(len(hidden)), mask.sum(1) - 1]


def gme_text(tower: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """The row that GME's own code takes, from the model's documented call."""
    return last_rows(tower.model(input_ids=ids, attention_mask=mask).last_hidden_state, mask)


def colqwen_text(tower: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """The vector of the last token, from the model's documented call."""
    return last_rows(tower.model(input_ids=ids, attention_mask=mask).embeddings, mask)


def e5v_text(tower: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """The last row, from the model's documented call; padding is on the left."""
    return tower.model(input_ids=ids, attention_mask=mask).last_hidden_state[:, -1]


GME_IMAGE = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n<|vision_start|>{}<|vision_end|>"
    "<|im_end|>\n<|im_start|>assistant\n<|endoftext|>"
)


def gme_images(tower: Any, images: list[Image]) -> Tensor:
    """As GME's own code does: features in the place of placeholders, and no positions handed over. One by one."""
    model, found = tower.model, []
    for image in images:
        # 4-pixel patches in squares of two: 8 pixels a token, 256 to 1280 tokens.
        whole = image.resize((round(image.width / 8) * 8, round(image.height / 8) * 8))
        inputs = tower.image_processor(
            [whole], size={"shortest_edge": 256 * 64, "longest_edge": 1280 * 64}, return_tensors="pt"
        )
        features = model.visual(inputs["pixel_values"], grid_thw=inputs["image_grid_thw"]).pooler_output
        text = GME_IMAGE.format("<|image_pad|>" * len(features))
        ids = tower.tokenizer([text], return_tensors="pt")["input_ids"]
        rows = model.language_model.embed_tokens(ids)
        rows[ids == model.config.image_token_id] = features
        found.append(model.language_model(inputs_embeds=rows).last_hidden_state[:, -1])
    return torch.cat(found)


def colqwen_images(tower: Any, images: list[Image]) -> Tensor:
    """With the processor of the class itself; the vectors of all tokens."""
    processor: Any = ColQwen2Processor(tower.image_processor, tower.tokenizer)
    inputs = processor(images=images, return_tensors="pt")
    return tower.model(**inputs).embeddings[inputs["attention_mask"].bool()]


def e5v_images(tower: Any, images: list[Image]) -> Tensor:
    """With the processor of the class itself, as the model's card does."""
    processor: Any = LlavaNextProcessor(
        tower.image_processor, tower.tokenizer, patch_size=8, vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )  # fmt: skip
    before, after = "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|><|start_header_id|>assistant"
    text = before + "<image>\nSummary above image in one word: " + after + "<|end_header_id|>\n\n \n"
    inputs = processor(images=images, text=[text] * len(images), padding=True, padding_side="left", return_tensors="pt")
    return tower.model(**inputs).last_hidden_state[:, -1]


TEXT_FEATURES: dict[str, Callable[..., Tensor]] = {
    "colqwen2": colqwen_text, "described": e5v_text, "qwen2_vl": gme_text,
}  # fmt: skip
IMAGE_FEATURES: dict[str, Callable[..., Tensor]] = {
    "colqwen2": colqwen_images, "described": e5v_images, "qwen2_vl": gme_images,
}  # fmt: skip
END_TOKENS = {"colqwen2": "Ċ", "described": "Ċ", "qwen2_vl": "<|endoftext|>"}
