"""Tiny random checkpoints of the real classes, saved with ``save_pretrained`` and loaded from the folder.

They are built by the same libraries that wrote the real ones: configs, tokenisers and image processors are
the real classes with small sizes. ``CHECKPOINTS`` has one for every family in the registry.
"""

from collections.abc import Callable
from pathlib import Path

from tests.checkpoints.dual import (
    clip_checkpoint,
    metaclip2_checkpoint,
    siglip2_checkpoint,
    siglip_checkpoint,
)
from tests.checkpoints.first_row import altclip_checkpoint, chinese_clip_checkpoint

CHECKPOINTS: dict[str, Callable[..., Path]] = {
    "altclip": altclip_checkpoint,
    "chinese_clip": chinese_clip_checkpoint,
    "clip": clip_checkpoint,
    "metaclip_2": metaclip2_checkpoint,
    "siglip": siglip_checkpoint,
    "siglip2": siglip2_checkpoint,
}
