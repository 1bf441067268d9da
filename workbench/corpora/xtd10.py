"""XTD10: 1,000 COCO images, one caption each in English and ten languages, written or translated by people.

As distributed, the languages lie in three folders: ``XTD10/test_1kcaptions_es.txt``, ``MIC/…_de.txt``,
``STAIR/…_jp.txt``, and the names in ``XTD10/test_image_names.txt``; a copy with all of them in one folder is
read too. Seven files end their lines as on Windows and their last line in nothing. Japanese is called ``jp`` here.
800 of the images are in COCO's training part.
"""

import re
from pathlib import Path

from workbench.corpora.hub import is_dataset, open_tables
from workbench.corpora.parallel_lines import CAPTION_RULE, find_images, line_reader, read_names
from workbench.corpora.reading import Faults
from workbench.corpora.source import Source
from workbench.corpora.table import source_of_tables
from workbench.errors import InputError
from workbench.language_codes import Codes, codes_of, scheme_codes

NAME = "xtd10"
IMAGES = 1000
LICENCE = "Adobe research licence (non-commercial); images on the terms of COCO"
DESCRIPTION = "1,000 COCO photos with one caption in each of 11 languages"
NAMES_FILE = "test_image_names.txt"
_FOLDERS = (".", "XTD10", "MIC", "STAIR")
_CAPTIONS = re.compile(r"test_1kcaptions_(\w+)\.txt")


def recognises(place: Path) -> bool:
    """Whether a folder has the list of names and a file of captions, in the folders of the repository."""
    return _names(place) is not None and bool(_language_files(place))


def _names(place: Path) -> Path | None:
    return next((path for folder in _FOLDERS if (path := place / folder / NAMES_FILE).is_file()), None)


def _language_files(place: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in _FOLDERS:
        for path in sorted((place / folder).glob("test_1kcaptions_*.txt")):
            match = _CAPTIONS.fullmatch(path.name)
            if match:
                found.setdefault(match[1], path)
    return found


def open_xtd10(
    place: Path | str,
    faults: Faults,
    *,
    images: str | Path | None = None,
    split: str | None = None,
    revision: str | None = None,
    published: int = IMAGES,
) -> Source:
    """Find XTD10 in a folder, or in a data set in one of the forms of a table."""
    root = Path(place)
    names, files = _names(root), _language_files(root)
    if names is None and is_dataset(place):
        tables = open_tables(place, split=split, revision=revision)
        return source_of_tables(
            NAME, tables.splits, faults, scheme="xtd10", kind="data set", published=published, licence=LICENCE,
            description=DESCRIPTION, exif="ignore", origin=tables.origin,
        )  # fmt: skip
    if names is None or not files:
        raise InputError(
            f"{str(place)!r} is no copy of XTD10: it needs {NAMES_FILE} and files such as test_1kcaptions_es.txt, in "
            "it or in its folders XTD10, MIC and STAIR."
        )
    known = scheme_codes("xtd10")
    for code, path in files.items():
        if code not in known:
            faults.add(
                f"{str(path)!r} is named by {code!r}, which is no language of XTD10: {', '.join(sorted(known))}."
            )
    own = {known[code]: code for code in files if code in known}
    ids = read_names(names, faults)
    store, missing = find_images(ids, root, images)
    return Source(
        benchmark=NAME,
        layout="XTD10 folder",
        image_ids=ids,
        codes={code: Codes(theirs, codes_of(code).model) for code, theirs in own.items()},
        read=line_reader({code: files[theirs] for code, theirs in own.items()}, ids, names),
        store=store,
        missing=missing,
        published=published,
        licence=LICENCE,
        description=DESCRIPTION,
        exif="ignore",
        caption_rule=CAPTION_RULE,
    )
