"""GME: a Qwen2-VL that was trained to embed (2B and 7B).

A caption is the user's turn of a short conversation, and the embedding is the row of the ``<|endoftext|>`` after
the assistant's name. The checkpoint is read with Qwen2-VL's own class, since the code that comes with it refuses
current versions of ``transformers``; formats and sizes below are that code's.

Two things about images follow from it. They are resized twice, first to whole patches and then into the model's
range of sizes. And their tokens are counted on in one row, as words are: the published code hands the model no
grid positions, though Qwen2-VL was trained with them. ``image_positions="grid"`` gives it those.
"""

from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from PIL.Image import Image, Resampling
from torch import Tensor, nn

from workbench.errors import InputError
from workbench.towers.language_model import LanguageModelTower
from workbench.towers.prompts import Prompt
from workbench.towers.provenance import Provenance

if TYPE_CHECKING:
    from workbench.towers.source import Source

INSTRUCTION = "You are a helpful assistant."
LONGEST = 1800
# Merged patches of an image, at least and at most, and before that the pixels of the first resizing in patches.
IMAGE_TOKENS = (256, 1280)
_FIRST_PATCHES = (4, 16384)

Positions = Literal["sequence", "grid"]


class GmeTower(LanguageModelTower):
    """GME-Qwen2-VL, 2B and 7B.

    Attributes
    ----------
    prompt : Prompt
        The conversation around a caption; ``instruction`` is its system turn.
    image_positions : {"sequence", "grid"}
        Whether image tokens are counted on in one row, as GME's own code does, or by time, height and width.
    """

    family = "qwen2_vl"
    pool = "last token (<|endoftext|> after the assistant's turn)"
    model_classes = ("Qwen2VLModel",)
    options = ("instruction", "image_positions")
    image_token = "<|image_pad|>"

    def __init__(
        self,
        name: str,
        model: nn.Module,
        tokenizer: Any,
        image_processor: Any,
        provenance: Provenance,
        *,
        instruction: str = INSTRUCTION,
        image_positions: Positions = "sequence",
    ) -> None:
        super().__init__(name, model, tokenizer, image_processor, provenance)
        self.prompt, self.image_prompt = gme_prompt(instruction), gme_prompt(INSTRUCTION, image=True)
        self.image_positions = image_positions

    @classmethod
    def from_source(
        cls, source: "Source", *, instruction: str = INSTRUCTION, image_positions: Positions = "sequence"
    ) -> Self:
        """Load with Qwen2-VL's own class.

        Parameters
        ----------
        source : Source
        instruction : str
            The system turn before a caption. Images always get the default one, as in GME's own code.
        image_positions : {"sequence", "grid"}

        Raises
        ------
        InputError
            If an option is none of these.
        """
        if image_positions not in ("sequence", "grid"):
            raise InputError(f"image_positions={image_positions!r} came. Use 'sequence' (GME's own code) or 'grid'.")
        model = source.model(cls.model_classes[0])
        notes = {"instruction": instruction, "image_positions": image_positions}
        return cls(
            source.short, model, source.tokenizer(), source.image_processor(), source.provenance(model, **notes),
            instruction=instruction, image_positions=image_positions,
        )  # fmt: skip

    @property
    def blocks(self) -> list[nn.Module]:
        """The real text blocks, in order."""
        return list(self.model.language_model.layers)

    @property
    def norm(self) -> nn.Module:
        """The norm after the last block."""
        return self.model.language_model.norm

    @property
    def max_positions(self) -> int:
        """Longest caption in tokens, the conversation around it included."""
        return min(LONGEST, self.text_config.max_position_embeddings)

    def image_inputs(self, images: list[Image]) -> dict[str, Tensor]:
        """Return patches of the images, and the conversation in which each stands."""
        side = self.image_processor.patch_size * self.image_processor.merge_size
        size = {"shortest_edge": IMAGE_TOKENS[0] * side**2, "longest_edge": IMAGE_TOKENS[1] * side**2}
        whole = [to_whole_patches(image, side) for image in images]
        found = dict(self.image_processor(whole, size=size, return_tensors="pt"))
        return self._in_prompt(found)

    def _in_prompt(self, found: dict[str, Tensor]) -> dict[str, Tensor]:
        ids, mask = self.prompts_with_images(grid_tokens(found["image_grid_thw"], self.image_processor.merge_size))
        inputs = {"input_ids": ids, "attention_mask": mask, **found}
        if self.image_positions == "grid":
            return inputs | {"mm_token_type_ids": (ids == self.image_token_id).int()}
        return inputs | {"position_ids": torch.arange(ids.shape[1]).expand_as(ids)}


def gme_prompt(instruction: str, *, image: bool = False) -> Prompt:
    """Return the conversation around a caption, or around the placeholder of an image."""
    start, end = ("<|vision_start|>", "<|vision_end|>") if image else ("", "")
    return Prompt(
        f"<|im_start|>system\n{instruction}<|im_end|>\n<|im_start|>user\n{start}",
        f"{end}<|im_end|>\n<|im_start|>assistant\n<|endoftext|>",
    )


def grid_tokens(grids: Tensor, merge: int) -> list[int]:
    """Return how many tokens each image becomes: patches in time, height and width, merged in squares."""
    return (grids.prod(-1) // merge**2).tolist()


def to_whole_patches(image: Image, side: int) -> Image:
    """Resize an image so that it falls into whole patches, as GME's own code does first.

    Raises
    ------
    InputError
        If an image is more than 200 times as long as it is wide.
    """
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    least, most = (patches * side**2 for patches in _FIRST_PATCHES)
    try:
        height, width = smart_resize(image.height, image.width, side, least, most)
    except ValueError:
        raise InputError(
            f"An image of {image.width} × {image.height} pixels came; Qwen2-VL takes none that is 200 times as long as "
            "it is wide. Crop it, or leave it out."
        ) from None
    return image.convert("RGB").resize((width, height), Resampling.BICUBIC)
