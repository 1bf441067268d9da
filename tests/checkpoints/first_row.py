"""AltCLIP and Chinese-CLIP."""

from pathlib import Path
from typing import Any

from transformers import (
    AltCLIPConfig,
    AltCLIPModel,
    BertTokenizer,
    ChineseCLIPConfig,
    ChineseCLIPImageProcessorPil,
    ChineseCLIPModel,
    CLIPImageProcessorPil,
)

from tests.checkpoints.common import LETTERS, POSITIONS, TEXT, VISION, randomise, save
from tests.checkpoints.dual import xlm_tokenizer

_SIDE = {"height": 32, "width": 32}


def altclip_checkpoint(folder: Path, *, seed: int = 0, **text: Any) -> Path:
    """Save a tiny ``AltCLIPModel``: an XLM-R that is projected twice, beside a CLIP image tower."""
    tokenizer = xlm_tokenizer()
    config = AltCLIPConfig(
        text_config={
            **TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": POSITIONS + 2, "project_dim": 24,
            "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, **text,
        },
        vision_config={**VISION, "projection_dim": 16},
        projection_dim=16,
    )  # fmt: skip
    images = CLIPImageProcessorPil(size=_SIDE, crop_size=_SIDE, do_center_crop=False)
    return save(folder, randomise(AltCLIPModel(config), seed), tokenizer, images)


def chinese_clip_checkpoint(folder: Path, *, seed: int = 0, **text: Any) -> Path:
    """Save a tiny ``ChineseCLIPModel``: a BERT that knows letters, beside a CLIP image tower."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    tokenizer = BertTokenizer(vocab={piece: k for k, piece in enumerate(pieces)}, model_max_length=POSITIONS)
    config = ChineseCLIPConfig(
        text_config={
            **TEXT, "vocab_size": len(pieces), "max_position_embeddings": POSITIONS, "pad_token_id": 0, **text,
        },
        vision_config={**VISION, "projection_dim": 16},
        projection_dim=16,
    )  # fmt: skip
    images = ChineseCLIPImageProcessorPil(size=_SIDE, crop_size=_SIDE, do_center_crop=False)
    return save(folder, randomise(ChineseCLIPModel(config), seed), tokenizer, images)
