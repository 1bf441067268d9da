"""Flickr30k-200: the 1,000 test images of Flickr30k, one caption each, translated into 200 languages (S3-18).

As distributed with NLLB-CLIP: ``filenames.txt`` and a file a FLORES-200 code, ``swh_Latn.txt``. The captions were
translated by NLLB-200 (3.3B) and not read by a person, so a low score may be the translator's. Three FLORES codes
are absent: ``arb_Latn``, ``min_Arab``, ``sat_Olck``. Older copies have ``eng_captions.txt`` and no
``eng_Latn.txt``. The images go to ``images/``, or come from a data set such as ``nlphuji/flickr30k``.
"""

from pathlib import Path

from workbench.corpora.hub import is_dataset, open_tables
from workbench.corpora.parallel_lines import CAPTION_RULE, find_images, line_reader, read_names
from workbench.corpora.reading import Faults
from workbench.corpora.source import Source
from workbench.corpora.table import source_of_tables
from workbench.errors import InputError
from workbench.language_codes import Codes, codes_of, scheme_codes

NAME = "flickr30k-200"
IMAGES = 1000
LICENCE = "images for research only (Flickr30k terms); translations without a licence file"
DESCRIPTION = "1,000 Flickr30k photos with one machine-translated caption in each of 201 languages"
NAMES_FILE = "filenames.txt"
_OLD_ENGLISH = "eng_captions.txt"


def recognises(place: Path) -> bool:
    """Whether a folder has the list of names and a file named by a FLORES-200 code."""
    return (place / NAMES_FILE).is_file() and bool(language_files(place))


def language_files(folder: Path) -> dict[str, Path]:
    """Return the files that are named by a FLORES-200 code, by that code."""
    known = scheme_codes("flores")
    return {path.stem: path for path in sorted(folder.glob("*.txt")) if path.stem in known}


def open_flickr30k200(
    place: Path | str,
    faults: Faults,
    *,
    images: str | Path | None = None,
    split: str | None = None,
    revision: str | None = None,
    published: int = IMAGES,
) -> Source:
    """Find Flickr30k-200 in a folder, or in a data set in one of the forms of a table."""
    return open_translations(
        Path(place), faults, name=NAME, names_file=NAMES_FILE, licence=LICENCE, description=DESCRIPTION,
        images=images, split=split, revision=revision, published=published,
    )  # fmt: skip


def open_translations(
    place: Path,
    faults: Faults,
    *,
    name: str,
    names_file: str,
    licence: str,
    description: str,
    images: str | Path | None,
    split: str | None,
    revision: str | None,
    published: int,
) -> Source:
    """Find a benchmark of NLLB-CLIP: a list of names, and a file a FLORES-200 code."""
    names = place / names_file
    if not names.is_file() and is_dataset(place):
        tables = open_tables(place, split=split, revision=revision)
        return source_of_tables(
            name, tables.splits, faults, scheme="flores", kind="data set", published=published, licence=licence,
            description=description, exif="ignore", origin=tables.origin,
        )  # fmt: skip
    if not names.is_file():
        raise InputError(f"{str(place)!r} is no copy of {name}: it has no {names_file}.")
    files = language_files(place)
    notes = [f"{path.name} is no file of a language" for path in sorted(place.glob("*.txt")) if path.stem not in files]
    if "eng_Latn" not in files and (place / _OLD_ENGLISH).is_file():
        files["eng_Latn"] = place / _OLD_ENGLISH
    if not files:
        raise InputError(f"{str(place)!r} has no file named by a FLORES-200 code, such as eng_Latn.txt.")
    ids = read_names(names, faults)
    store, missing = find_images(ids, place, images)
    own = {scheme_codes("flores")[code]: code for code in files}
    return Source(
        benchmark=name,
        layout=f"folder with {names_file} and a file a language",
        image_ids=ids,
        codes={code: Codes(theirs, codes_of(code).model) for code, theirs in own.items()},
        read=line_reader({code: files[theirs] for code, theirs in own.items()}, ids, names),
        store=store,
        missing=missing,
        published=published,
        licence=licence,
        description=description,
        exif="ignore",
        caption_rule=CAPTION_RULE,
        notes=tuple(note for note in notes if names_file not in note and _OLD_ENGLISH not in note),
    )
