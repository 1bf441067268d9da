"""Opening pictures: from bytes or a file, always RGB, transparent drawings on white.

An image processor drops the alpha channel without a word, and what a drawing hides under its
transparent pixels then becomes its background. So transparency is flattened here, once. The other two
things that go wrong in silence are settled here as well: a photo that its camera stored sideways is
turned upright, unless its benchmark is scored without that, and deep grey is scaled, not clipped to white: 16 bits
by their whole range, 32 bits and fractions from 0 (or the lowest, if that is below) to the highest that occurs.

Only formats of pictures are opened: Pillow would run Ghostscript on an EPS file.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, overload

import numpy as np
from PIL import Image, ImageOps

from workbench.errors import InputError

Exif = Literal["apply", "ignore"]
"""Whether the orientation that a camera noted in its file is applied. The evaluators of the field ignore it."""

MOST_PIXELS = 89_478_485
"""Pixels of the largest image that is opened: Pillow's own, which takes a quarter of a gigabyte unpacked."""

_TOO_MANY = f"At most {MOST_PIXELS:,} are opened: a small file can unpack to more than the memory. Make it smaller."
_FORMATS = (
    "AVIF",
    "BMP",
    "DIB",
    "GIF",
    "ICO",
    "JPEG",
    "JPEG2000",
    "MPO",
    "PCX",
    "PNG",
    "PPM",
    "QOI",
    "TGA",
    "TIFF",
    "WEBP",
)
_SAMPLE_FORMAT, _BITS = 339, 258  # tags of TIFF


@lru_cache(maxsize=1)
def _formats() -> list[str]:
    Image.init()
    return [name for name in _FORMATS if name in Image.OPEN]


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
    name = f"The {what}" + ("" if isinstance(source, bytes) else f" {str(source)!r}")
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=_formats()) as file:
            if file.width * file.height > MOST_PIXELS:
                raise InputError(f"{name} has {file.width} × {file.height} pixels. {_TOO_MANY}")
            file.load()
            image = ImageOps.exif_transpose(file) if exif == "apply" else file
            return to_rgb(image, name, unsigned=_is_unsigned(file))
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{name} does not exist.") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InputError(f"{name} can't be opened as an image: {error} {_TOO_MANY}") from None
    except Exception as error:
        # Each of Pillow's decoders lets out whatever a damaged byte leads to: struct.error, KeyError, EOFError …
        raise InputError(f"{name} can't be opened as an image: {' '.join(str(error).split())[:200]}.") from None


def to_rgb(image: Image.Image, name: str = "The image", *, unsigned: bool = False) -> Image.Image:
    """Return a picture as RGB on a white ground, whatever it is stored in.

    Parameters
    ----------
    image : Image
    name : str
        How an error names it.
    unsigned : bool
        Whether 32-bit numbers are, though Pillow has turned the upper half of them negative.

    Raises
    ------
    InputError
        If its numbers are not finite.
    """
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.mode in ("I", "F"):
        image = _scaled(image, name, unsigned)
    if "A" in image.getbands() or "transparency" in image.info:
        rgba = image.convert("RGBA")
        ground = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(ground, rgba).convert("RGB")
    return image.convert("RGB")


def _is_unsigned(file: Image.Image) -> bool:
    tags = getattr(file, "tag_v2", {})
    return file.mode == "I" and tags.get(_BITS, (0,))[0] == 32 and tags.get(_SAMPLE_FORMAT, (1,))[0] == 1


def _scaled(image: Image.Image, name: str, unsigned: bool) -> Image.Image:
    """Scale 32-bit numbers to 8 bits by the largest that occurs; what is white is not in the file."""
    values = np.asarray(image)
    if unsigned:
        values = values.astype(np.int32).view(np.uint32)
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        raise InputError(f"{name} has pixels that are NaN or infinite, so it has no range. Store it with 8 bits.")
    low, high = min(0.0, values.min()), max(0.0, values.max())
    scaled = (values - low) / ((high - low) or 1.0) * 255.0
    return Image.fromarray(np.round(scaled).astype(np.uint8))
