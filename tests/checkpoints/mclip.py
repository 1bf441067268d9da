"""Tiny random M-CLIP checkpoints in the layout of the published ones."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertTokenizer, XLMRobertaConfig

from tests.checkpoints.common import LETTERS, POSITIONS, TEXT, WIDTH, randomise
from tests.checkpoints.dual import clip_checkpoint, xlm_tokenizer
from workbench.towers.mclip import MultilingualClip

OUT = 16


def mclip_checkpoint(
    folder: Path,
    *,
    seed: int = 0,
    base: str = "xlm-roberta",
    pooler: bool = True,
    pickled: bool = False,
    dims: int = OUT,
    dtype: torch.dtype = torch.float32,
) -> Path:
    """Save an encoder with the linear layer after it.

    The published folders name their encoder by ``modelBase`` and hold no config of it; here it lies in a folder of
    that name. Their weights are a pickle that older versions of ``transformers`` wrote, with the table of position
    ids that newer ones compute.
    """
    if base == "bert":
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
        tokenizer: Any = BertTokenizer(vocab={piece: k for k, piece in enumerate(pieces)}, model_max_length=POSITIONS)
        encoder: Any = BertConfig(**TEXT, vocab_size=len(pieces), max_position_embeddings=POSITIONS)
    else:
        tokenizer = xlm_tokenizer()
        encoder = XLMRobertaConfig(
            **TEXT, vocab_size=len(tokenizer), max_position_embeddings=POSITIONS + 2, type_vocab_size=1,
            pad_token_id=1, bos_token_id=0, eos_token_id=2,
        )  # fmt: skip
    model = randomise(MultilingualClip(encoder, dims, pooler=pooler), seed)
    folder.mkdir(parents=True, exist_ok=True)
    encoder.save_pretrained(folder / f"{base}-tiny")
    tokenizer.save_pretrained(folder)
    config = {
        "architectures": ["MultilingualCLIP"], "model_type": "M-CLIP", "modelBase": f"{base}-tiny", "numDims": dims,
        "transformerDimensions": WIDTH, "torch_dtype": str(dtype).removeprefix("torch."),
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    state = {name: value.to(dtype) for name, value in model.state_dict().items()}
    state["transformer.embeddings.position_ids"] = torch.arange(encoder.max_position_embeddings)[None]
    if pickled:
        torch.save(state, folder / "pytorch_model.bin")
    else:
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def paired_mclip_checkpoint(folder: Path, *, seed: int = 0) -> Path:
    """Save the image tower as well, in the folder ``images``."""
    clip_checkpoint(folder / "images", seed=seed)
    return mclip_checkpoint(folder, seed=seed)
