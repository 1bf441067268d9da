"""What all tiny checkpoints share: sizes, letters, weights of a size that shows faults."""

from pathlib import Path
from typing import Any

import torch

BLOCKS, WIDTH, POSITIONS = 4, 32, 24
SCRIPTS = "abcdefghijklmnopqrstuvwxyz0123456789.,:?!' éüñßøкотдмяहथनదేలుאבגד中文猫狗"
LETTERS = [letter for letter in SCRIPTS if letter != " "]

TEXT: dict[str, Any] = {
    "hidden_size": WIDTH,
    "intermediate_size": 64,
    "num_hidden_layers": BLOCKS,
    "num_attention_heads": 4,
}
VISION: dict[str, Any] = {
    "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "image_size": 32, "patch_size": 16,
}  # fmt: skip


def randomise(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Give every weight some size: the classes' own start leaves a tower almost linear, which hides faults."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if weight.ndim == 1 and name.endswith("weight"):  # of a norm, however a class calls it
                weight.copy_(1 + 0.2 * noise)
            elif weight.ndim >= 2:
                fan_in = 1 if "embedding" in name and "patch" not in name else weight[0].numel()
                weight.copy_(noise / fan_in**0.5)
            else:
                weight.copy_(0.1 * noise)
    return model


def save(folder: Path, model: Any, tokenizer: Any, images: Any) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    images.save_pretrained(folder)
    return folder
