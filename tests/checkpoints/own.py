"""What a model says of itself, called the way its own documentation does: what an adapter is held to."""

from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor

from tests.checkpoints import llm
from workbench.late_interaction import MultiVectors
from workbench.towers import Tokens, Tower
from workbench.towers.mclip import MultilingualClipTower


@torch.no_grad()
def text_features(tower: Tower, tokens: Tokens) -> Tensor:
    """The model's own text features, unnormalised."""
    if tower.family == "open_clip":
        return _open_clip_pass(tower.model.encode_text)(tokens.input_ids)
    if tower.family in llm.TEXT_FEATURES:
        return llm.TEXT_FEATURES[tower.family](tower, tokens.input_ids, tokens.attention_mask)
    masked = {} if tokens.attention_mask is None else {"attention_mask": tokens.attention_mask}
    found = tower.model.get_text_features(input_ids=tokens.input_ids, **masked)
    return found if isinstance(found, Tensor) else found.pooler_output


@torch.no_grad()
def image_features(tower: Tower, images: list[Image]) -> Tensor:
    """The model's own image features, unnormalised."""
    if isinstance(tower, MultilingualClipTower):
        return image_features(tower.image_side, images)
    if tower.family in llm.IMAGE_FEATURES:
        return llm.IMAGE_FEATURES[tower.family](tower, images)
    if tower.family == "open_clip":
        return _open_clip_pass(tower.model.encode_image)(
            torch.stack([tower.image_processor(image) for image in images])
        )
    # All that the processor gives: NaFlex needs to know which patches are real, and how they lie.
    return tower.model.get_image_features(**tower.image_processor(images, return_tensors="pt")).pooler_output


@torch.no_grad()
def text_embeds(tower: Tower, tokens: Tokens, images: list[Image]) -> Tensor:
    """The text embeddings that the model's forward pass over texts and images returns, normalised."""
    inputs = tower.image_inputs(images)
    if tower.family == "open_clip":
        # CoCa takes one image for each text.
        found = tower.model(inputs["image"].expand(len(tokens), -1, -1, -1), tokens.input_ids)
        return found["text_features"] if isinstance(found, dict) else found[1]
    return tower.model(**tower.model_inputs(tokens), **inputs).text_embeds


def has_dual_pass(tower: Tower) -> bool:
    """Whether the model's forward pass takes texts and images at once and embeds both."""
    return tower.has_images and tower.family not in (*llm.TEXT_FEATURES, "M-CLIP")


def end_token(tower: Tower) -> int:
    """The token that ends a caption."""
    if tower.family in llm.END_TOKENS:
        return tower.tokenizer.convert_tokens_to_ids(llm.END_TOKENS[tower.family])
    names = ("eos_token_id", "sep_token_id", "eot_token_id")
    return next(found for name in names if (found := getattr(tower.tokenizer, name, None)) is not None)


def flat(found: Tensor | MultiVectors) -> Tensor:
    """Embeddings as rows: one an item, or one a token where an item has several."""
    return torch.as_tensor(found.tokens)[found.mask] if isinstance(found, MultiVectors) else found


def _open_clip_pass(method: Any) -> Any:
    # CoCa alone normalises by itself.
    return lambda inputs: method(inputs, normalize=False)
