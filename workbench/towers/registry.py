"""Which adapter reads which checkpoint.

A checkpoint is recognised by what it says of itself: ``model_type`` in its ``config.json``. The table below
is all there is to a family beside its adapter; a new one is a line here, an adapter and a tiny checkpoint in
the tests, which fail until all three are there.
"""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.towers.base import Tower


@dataclass(frozen=True)
class Family:
    """One line of the table.

    Attributes
    ----------
    adapter : str
        ``module:Class`` below ``workbench.towers``.
    example : str
        A published checkpoint.
    """

    adapter: str
    example: str

    @property
    def adapter_class(self) -> "type[Tower]":
        """The adapter, imported now."""
        module, _, name = self.adapter.partition(":")
        return getattr(importlib.import_module(f"workbench.towers.{module}"), name)


FAMILIES: dict[str, Family] = {
    "M-CLIP": Family("mclip:MultilingualClipTower", "M-CLIP/XLM-Roberta-Large-Vit-L-14"),
    "altclip": Family("first_row:AltClipTower", "BAAI/AltCLIP-m18"),
    "chinese_clip": Family("first_row:ChineseClipTower", "OFA-Sys/chinese-clip-vit-large-patch14"),
    "clip": Family("transformers_dual:ClipTower", "openai/clip-vit-large-patch14"),
    "colqwen2": Family("colqwen:ColQwenTower", "vidore/colqwen2-v1.0-hf"),
    "described": Family("described:DescribedTower", "royokong/e5-v, as the description e5-v has it"),
    "metaclip_2": Family("transformers_dual:MetaClip2Tower", "facebook/metaclip-2-worldwide-huge-quickgelu"),
    "open_clip": Family("open_clip:OpenClipTower", "visheratin/nllb-clip-large-siglip"),
    "qwen2_vl": Family("qwen:GmeTower", "Alibaba-NLP/gme-Qwen2-VL-2B-Instruct"),
    "siglip": Family("transformers_dual:SiglipTower", "google/siglip2-so400m-patch16-256"),
    "siglip2": Family("transformers_dual:Siglip2Tower", "google/siglip2-so400m-patch16-naflex"),
}


def families() -> list[str]:
    """Return the model types that have an adapter."""
    return sorted(FAMILIES)


def adapters() -> "dict[str, type[Tower]]":
    """Return the adapter of each model type."""
    return {kind: family.adapter_class for kind, family in sorted(FAMILIES.items())}
