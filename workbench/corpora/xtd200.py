"""XTD-200: the 1,000 images of XTD10, one caption each, machine-translated into 200 languages (S3-19).

As distributed with NLLB-CLIP: ``test_image_names.txt`` and a file a FLORES-200 code. The images are those of COCO
2014, 800 of them from its training part, so a tower that was tuned on COCO has seen them.
"""

from pathlib import Path

from workbench.corpora.flickr30k200 import language_files, open_translations
from workbench.corpora.reading import Faults
from workbench.corpora.source import Source

NAME = "xtd-200"
IMAGES = 1000
LICENCE = "Adobe research licence (non-commercial); images on the terms of COCO"
DESCRIPTION = "1,000 COCO photos with one machine-translated caption in each of 201 languages"
NAMES_FILE = "test_image_names.txt"


def recognises(place: Path) -> bool:
    """Whether a folder has the list of names and a file named by a FLORES-200 code."""
    return (place / NAMES_FILE).is_file() and bool(language_files(place))


def open_xtd200(
    place: Path | str,
    faults: Faults,
    *,
    images: str | Path | None = None,
    split: str | None = None,
    revision: str | None = None,
    published: int = IMAGES,
) -> Source:
    """Find XTD-200 in a folder, or in a data set in one of the forms of a table."""
    return open_translations(
        Path(place), faults, name=NAME, names_file=NAMES_FILE, licence=LICENCE, description=DESCRIPTION,
        images=images, split=split, revision=revision, published=published,
    )  # fmt: skip
