"""Opening pictures: from bytes or a file, always RGB, transparent drawings on white.

An image processor drops the alpha channel without a word, and what a drawing hides under its
transparent pixels then becomes its background. So transparency is flattened here, once. The other two
things that go wrong in silence are settled here as well: a photo that its camera stored sideways is
turned upright, unless its benchmark is scored without that, and 16-bit grey is scaled, not clipped to white.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, overload

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from workbench.errors import InputError

Exif = Literal["apply", "ignore"]
"""Whether the orientation that a camera noted in its file is applied. The evaluators of the field ignore it."""


def image_policy(exif: Exif) -> dict[str, str]:
    """Say how images are opened, for a manifest."""
    return {
        "exif_rotation": {"apply": "applied", "ignore": "ignored"}[check_exif(exif)],
        "colour": "converted to RGB",
        "transparency": "flattened on white",
    }


def check_exif(exif: str) -> Exif:
    """Return the policy, or say which ones there are."""
    if exif not in ("apply", "ignore"):
        raise InputError(f"There is no EXIF policy {exif!r}. Use 'apply', or 'ignore' as the field's evaluators do.")
    return exif


class LazyImages(Sequence[Image.Image]):
    """Images that are opened when they are asked for, and not kept."""

    def __init__(self, image_ids: Sequence[str], open_image: Callable[[str], Image.Image]) -> None:
        self._ids, self._open = image_ids, open_image

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, index: int) -> Image.Image: ...
    @overload
    def __getitem__(self, index: slice) -> list[Image.Image]: ...
    def __getitem__(self, index: int | slice) -> Image.Image | list[Image.Image]:
        if isinstance(index, slice):
            return [self._open(image_id) for image_id in self._ids[index]]
        return self._open(self._ids[index])

    def __iter__(self) -> Iterator[Image.Image]:
        return map(self._open, self._ids)


def open_image(source: bytes | str | Path, what: str = "image", exif: Exif = "apply") -> Image.Image:
    """Open an image as RGB on a white ground.

    Parameters
    ----------
    source : bytes, str or Path
        Encoded image, or its file.
    what : str
        How an error names it.
    exif : {"apply", "ignore"}

    Raises
    ------
    InputError
        If the file is absent, truncated or no image.
    """
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as file:
            file.load()
            image = ImageOps.exif_transpose(file) if exif == "apply" else file
            if image.mode.startswith("I;16"):
                image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
            if "A" in image.getbands() or "transparency" in image.info:
                rgba = image.convert("RGBA")
                ground = Image.new("RGBA", rgba.size, "white")
                return Image.alpha_composite(ground, rgba).convert("RGB")
            return image.convert("RGB")
    except FileNotFoundError:
        raise InputError(f"The {what} {str(source)!r} does not exist.") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        name = "" if isinstance(source, bytes) else f" {str(source)!r}"
        raise InputError(f"The {what}{name} can't be opened as an image: {error}.") from None
