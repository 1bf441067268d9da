"""Opening pictures: from bytes or a file, always RGB, transparent drawings on white.

An image processor drops the alpha channel without a word, and what a drawing hides under its
transparent pixels then becomes its background. So transparency is flattened here, once. The other two
things that go wrong in silence are settled here as well: a photo that its camera stored sideways is
turned upright, and 16-bit grey is scaled, not clipped to white.
"""

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from workbench.errors import InputError


def open_image(source: bytes | str | Path, what: str = "image") -> Image.Image:
    """Open an image as RGB on a white ground.

    Parameters
    ----------
    source : bytes, str or Path
        Encoded image, or its file.
    what : str
        How an error names it.

    Raises
    ------
    InputError
        If the file is absent, truncated or no image.
    """
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as file:
            file.load()
            image = ImageOps.exif_transpose(file)
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
