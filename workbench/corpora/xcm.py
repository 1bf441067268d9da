"""3XCM: 11,723 triplets of images from 16 countries, asked for in 12 languages (S0-30).

As distributed: ``xcm-bench.csv`` (in the authors' repository below ``rq2_eval/benchmarks/``) with four columns for the
query and each of three candidates, and a table of the images, ``image_metadata``, as CSV, JSON Lines, Parquet or a
configuration of the data set. They are joined on the image id: ``query_index`` counts the rows of another table, and
runs past this one's end. The images lie in ``images/<image_id>.jpg``, or in the column ``image``.

Without the table of images the triplets can be scored with embeddings of one's own, and only image to image.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.corpora.base import choose_languages
from workbench.corpora.hub import is_dataset, is_hub_id, open_tables
from workbench.corpora.images import Exif
from workbench.corpora.layouts import picture
from workbench.corpora.reading import Faults, as_id
from workbench.corpora.records import TABLE_SUFFIXES, Records, read_table
from workbench.corpora.source import refuse_missing
from workbench.corpora.stores import Opener, Store, any_suffix, list_files, no_image
from workbench.corpora.subsets import resolve_subset
from workbench.corpora.triplets import Item, Triplet, TripletCorpus
from workbench.errors import InputError
from workbench.language_codes import Codes, codes_of

NAME = "3xcm"
TRIPLETS = 11_723
LICENCE = "MIT by its README (no licence file); images of their own sources"
DESCRIPTION = "triplets of images of 137 concepts in 16 countries (3XCM)"
FILE = "xcm-bench.csv"
METADATA = "image_metadata"
_FOLDERS = (".", "benchmarks", "rq2_eval/benchmarks")
_ROLES = ("query", "semantically_relevant_candidate", "culturally_relevant_candidate", "non_relevant_candidate")
_PARTS = ("image_id", "concept", "country")
COLUMNS = tuple(f"{role}_{part}" for role in _ROLES for part in _PARTS)

COUNTRY_LANGUAGE: Mapping[str, str] = {
    "USA": "en", "UK": "en", "Australia": "en", "Germany": "de", "China": "zh", "Japan": "ja", "Spain": "es",
    "Argentina": "es", "France": "fr", "Portugal": "pt", "Brazil": "pt", "Saudi Arabia": "ar", "Thailand": "th",
    "India": "hi", "Kenya": "sw", "Nigeria": "yo",
}  # fmt: skip
"""The language that each country is asked for in (S0 table 4; S0-20)."""


@dataclass(frozen=True)
class XcmSource:
    """What was found of 3XCM.

    Attributes
    ----------
    layout : str
    triplets : tuple of Triplet
    native : mapping of str to str, optional
        Image id to the native name of its concept.
    store : Store, optional
    missing : mapping of str to str
        Ids of images that are not there.
    published : int
    origin : str
    notes : tuple of str
        What a check should mention and is no fault.
    """

    layout: str
    triplets: tuple[Triplet, ...]
    native: Mapping[str, str] | None = field(repr=False)
    store: Store | None = field(repr=False)
    missing: Mapping[str, str] = field(repr=False)
    published: int = TRIPLETS
    origin: str = ""
    notes: tuple[str, ...] = ()

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages by the bench's codes."""
        return tuple(dict.fromkeys(map(self.language_of, self.triplets)))

    def language_of(self, triplet: Triplet) -> str:
        """Language that a triplet is asked for in."""
        return COUNTRY_LANGUAGE[triplet.query.country]

    @property
    def codes(self) -> dict[str, Codes]:
        """Both codes of each language."""
        return {language: codes_of(language) for language in self.languages}


def recognises(place: Path) -> bool:
    """Whether this is the file of triplets, or a folder with it."""
    path = triplet_file(place)
    if path is None:
        return False
    with path.open("rb") as file:
        return COLUMNS[0].encode() in file.readline(65536)


def triplet_file(place: Path) -> Path | None:
    """Return the file of triplets, or None."""
    if place.is_file() and place.suffix == ".csv":
        return place
    return next((path for folder in _FOLDERS if (path := place / folder / FILE).is_file()), None)


def open_3xcm(
    place: Path | str,
    faults: Faults,
    *,
    images: str | Path | None = None,
    revision: str | None = None,
    published: int = TRIPLETS,
) -> XcmSource:
    """Find 3XCM.

    Parameters
    ----------
    place : Path or str
        The CSV file, a folder with it, or a data set with the configurations ``benchmark`` and
        ``image_metadata`` (for a saved one: folders of these names).
    faults : Faults
    images : str or Path, optional
        Folder of the images; ``images`` beside the triplets by default.
    revision : str, optional
        Of a hub id.
    published : int
        Triplets of a whole copy.
    """
    path, origin = triplet_file(Path(place)), ""
    if path is not None:
        benchmark, metadata, root = read_table(path), _metadata(path, Path(place)), path.parent
        layout = f"3XCM folder with {path.name}" + (f" and {METADATA}" if metadata else "")
    else:
        benchmark, origin = _config(place, "benchmark", revision)
        metadata, _ = _config(place, METADATA, revision)
        root, layout = Path(place), "3XCM data set"
    triplets = _triplets(benchmark, faults)
    if not triplets:
        raise InputError(f"{benchmark.what} has no triplet that can be used.")
    needed = list(dict.fromkeys(item.image_id for triplet in triplets for item in triplet.items))
    native, in_table = _native(metadata, needed, faults) if metadata else (None, {})
    store, missing = _images(needed, metadata, in_table, [root, Path(place)], images)
    notes = (*benchmark.notes, *(metadata.notes if metadata else ()))
    return XcmSource(layout, tuple(triplets), native, store, missing, published, origin, notes)


def build_triplets(
    source: XcmSource,
    languages: Iterable[str] | None = None,
    *,
    subset: "str | Iterable[str] | None" = None,
    exif: Exif | None = None,
    with_images: bool = True,
) -> TripletCorpus:
    """Make the corpus of some languages; a subset is one of images, and keeps the triplets that have all of theirs."""
    triplets, chosen = source.triplets, None
    ids = list(dict.fromkeys(item.image_id for triplet in triplets for item in triplet.items))
    missing = source.missing if with_images else {}
    if subset is not None:
        chosen = resolve_subset(subset, NAME, ids, [i for i in ids if i not in missing])
        kept = set(chosen.ids)
        triplets = tuple(t for t in triplets if all(item.image_id in kept for item in t.items))
    elif len(triplets) != source.published:
        raise InputError(
            f"{NAME} has {source.published:,} triplets, and {len(triplets):,} are here. Complete the file, or name the "
            "subset that you mean: subset='present' (--subset present), or a file of image ids."
        )
    name = NAME if chosen is None else f"{NAME}:{chosen.label}"
    if languages is not None:
        wanted = choose_languages(NAME, languages, source.languages, source.codes)
        triplets = tuple(t for t in triplets if source.language_of(t) in wanted)
    refuse_missing(name, list(dict.fromkeys(item.image_id for t in triplets for item in t.items)), missing)
    opener = Opener(source.store, exif or "ignore") if source.store and with_images else None
    return TripletCorpus(
        name=name,
        triplets=triplets,
        languages_of=COUNTRY_LANGUAGE,
        open_image=opener.open if opener else no_image,
        image_hash=opener.hash if opener else lambda _: "",
        licence=LICENCE,
        description=DESCRIPTION,
        native=source.native,
        codes=source.codes,
        subset=chosen,
        exif=exif or "ignore",
        text_only=opener is None,
        origin=source.origin,
    )


def _triplets(table: Records, faults: Faults) -> list[Triplet]:
    table.need(COLUMNS)
    columns = {name: table.values(name) for name in COLUMNS}
    found = []
    for row in range(table.n):
        where = table.where(row)
        items = [_item([columns[f"{role}_{part}"][row] for part in _PARTS], where, faults) for role in _ROLES]
        query, semantic, cultural, unrelated = items
        if query is None or semantic is None or cultural is None or unrelated is None:
            continue
        if query.country not in COUNTRY_LANGUAGE:
            faults.add(f"{where} has the country {query.country!r}. 3XCM has {', '.join(COUNTRY_LANGUAGE)}.")
            continue
        triplet = Triplet(query, semantic, cultural, unrelated)
        fault = triplet.fault()
        if fault:
            faults.add(f"{where} is no triplet: {fault}.")
            continue
        found.append(triplet)
    return found


def _item(cells: list[Any], where: str, faults: Faults) -> Item | None:
    image_id, concept, country = cells
    image = as_id(image_id, where, faults)
    if image is None:
        return None
    if not isinstance(concept, str) or not concept or not isinstance(country, str) or not country:
        faults.add(f"{where} gives the image {image!r} the concept {concept!r} and the country {country!r}.")
        return None
    return Item(image, concept, country)


def _metadata(path: Path, place: Path) -> Records | None:
    folders = dict.fromkeys([path.parent, place if place.is_dir() else path.parent])
    found = (folder / f"{METADATA}{suffix}" for folder in folders for suffix in TABLE_SUFFIXES)
    file = next((candidate for candidate in found if candidate.is_file()), None)
    return None if file is None else read_table(file)


def _config(place: Path | str, config: str, revision: str | None) -> tuple[Records, str]:
    if is_hub_id(str(place)):
        tables = open_tables(place, config=config, revision=revision)
    elif is_dataset(Path(place) / config):
        tables = open_tables(Path(place) / config)
    else:
        raise InputError(
            f"{str(place)!r} is no copy of 3XCM: it has neither {FILE} nor data sets 'benchmark' and {METADATA!r}."
        )
    return tables.only(("train",)), tables.origin


def _native(table: Records, needed: Iterable[str], faults: Faults) -> tuple[dict[str, str], dict[str, int]]:
    """Native concept and row of each image, joined on the id: a row's number is no id."""
    table.need(["image_id", "concept_in_native"])
    native: dict[str, str] = {}
    rows: dict[str, int] = {}
    names = table.values("concept_in_native")
    for row, value in enumerate(table.values("image_id")):
        image_id = as_id(value, table.where(row), faults)
        if image_id is not None and image_id in rows:
            faults.add(f"{table.where(row)} has the image {image_id!r}, as {table.where(rows[image_id])} has.")
        elif image_id is not None:
            rows[image_id] = row
            if isinstance(names[row], str):
                native[image_id] = names[row]
    unknown = [image_id for image_id in needed if image_id not in rows]
    if unknown:
        faults.add(f"{table.what} lacks {len(unknown)} images that the triplets name; the first is {unknown[0]!r}.")
    return native, rows


def _images(
    needed: list[str], table: Records | None, rows: Mapping[str, int], roots: list[Path], images: str | Path | None
) -> tuple[Store, dict[str, str]]:
    if table is not None and "image" in table.columns and images is None and not table.is_text("image"):
        absent = set(table.absent("image"))
        missing = {i: "The table of images has no picture of it." for i in needed if rows.get(i, -1) in {-1, *absent}}

        def find(image_id: str) -> bytes | Path | None:
            row = rows.get(image_id)
            return None if row is None else picture(table.cell("image", row), None, table.what)

        return find, missing
    if images is not None and not Path(images).is_dir():
        raise InputError(f"There is no folder {str(images)!r} with images.")
    files: dict[str, Path] = {}
    for root in roots if images is None else []:
        files = {**list_files(root, ["images"]), **files}
    files = list_files(Path(images), ["."]) if images is not None else files
    found = {image_id: path for image_id in needed if (path := any_suffix(files, image_id))}
    return found.get, {i: f"There is no images/{i}.jpg, .png or .webp." for i in needed if i not in found}
