"""Tiny random checkpoints of the real classes, saved with ``save_pretrained`` and loaded from the folder.

They are built by the same libraries that wrote the real ones: configs, tokenisers and image processors are
the real classes with small sizes. ``CHECKPOINTS`` has one for every family in the registry.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path

from tests.checkpoints.described import llava_next_checkpoint
from tests.checkpoints.dual import (
    clip_checkpoint,
    metaclip2_checkpoint,
    siglip2_checkpoint,
    siglip_checkpoint,
)
from tests.checkpoints.first_row import altclip_checkpoint, chinese_clip_checkpoint
from tests.checkpoints.llm import colqwen_checkpoint, gme_checkpoint
from tests.checkpoints.mclip import paired_mclip_checkpoint
from tests.checkpoints.open_clip import VARIANTS, nllb_clip_checkpoint

CHECKPOINTS: dict[str, Callable[..., Path]] = {
    "M-CLIP": paired_mclip_checkpoint,
    "altclip": altclip_checkpoint,
    "chinese_clip": chinese_clip_checkpoint,
    "clip": clip_checkpoint,
    "colqwen2": colqwen_checkpoint,
    "described": llava_next_checkpoint,
    "metaclip_2": metaclip2_checkpoint,
    "open_clip": nllb_clip_checkpoint,
    "qwen2_vl": gme_checkpoint,
    "siglip": siglip_checkpoint,
    "siglip2": siglip2_checkpoint,
}

# Where open_clip is, all kinds of its towers go through the tests of every family; elsewhere one is skipped.
MORE: dict[str, Callable[..., Path]] = VARIANTS if importlib.util.find_spec("open_clip") else {}
