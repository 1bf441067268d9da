"""Triplets for a forced choice: a query, and three images of which one shares its concept, one its culture.

Text in a country's language, or an image of it, asks for a concept. The *semantic* candidate shows the concept from
another country, the *cultural* one another concept from the same country, the *unrelated* one neither. How often a
tower prefers the second to the first is its association bias (S0-36 to S0-38).
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from PIL.Image import Image

from workbench.corpora.base import choose_languages
from workbench.corpora.images import Exif, LazyImages, image_policy
from workbench.corpora.subsets import Subset
from workbench.errors import InputError
from workbench.language_codes import Codes
from workbench.texts import is_blank

CANDIDATES = ("semantic", "cultural", "unrelated")
"""In the order in which a tie is settled: the first wins."""


@dataclass(frozen=True)
class Item:
    """An image and what it shows.

    Attributes
    ----------
    image_id : str
    concept : str
        In English.
    country : str
    """

    image_id: str
    concept: str
    country: str


@dataclass(frozen=True)
class Triplet:
    """A query and its three candidates."""

    query: Item
    semantic: Item
    cultural: Item
    unrelated: Item

    @property
    def items(self) -> tuple[Item, Item, Item, Item]:
        """Query, semantic, cultural, unrelated."""
        return self.query, self.semantic, self.cultural, self.unrelated

    def fault(self) -> str | None:
        """Say which of the three constraints is broken, or None (S0-36)."""
        query = self.query
        if self.semantic.concept != query.concept or self.semantic.country == query.country:
            return "the semantic candidate must show the query's concept from another country"
        if self.cultural.country != query.country or self.cultural.concept == query.concept:
            return "the cultural candidate must show another concept from the query's country"
        if self.unrelated.concept == query.concept or self.unrelated.country == query.country:
            return "the unrelated candidate must differ in both concept and country"
        return None


def check_triplets(triplets: Iterable[Triplet]) -> tuple[Triplet, ...]:
    """Return the triplets, or name the first that breaks one of the three constraints."""
    kept = tuple(triplets)
    for row, triplet in enumerate(kept, 1):
        fault = triplet.fault()
        if fault:
            raise InputError(f"Triplet {row} (query {triplet.query.image_id!r}) is none: {fault}.")
    return kept


@dataclass(frozen=True)
class TripletCorpus:
    """Triplets, their images, and the queries as texts.

    Attributes
    ----------
    name : str
    triplets : tuple of Triplet
    languages_of : mapping of str to str
        Country to its language, by the bench's code.
    open_image, image_hash : callable
        Give the image of an id as RGB, and the hash of its file.
    licence, description : str
    native : mapping of str to str, optional
        Image id to the name of its concept in the language of its country; the text query. None where only the
        triplets are at hand.
    codes : mapping of str to Codes
    subset : Subset, optional
    exif : {"apply", "ignore"}
    text_only : bool
        Whether there are no images: embeddings then have to come from elsewhere.
    origin : str
    """

    name: str
    triplets: tuple[Triplet, ...]
    languages_of: Mapping[str, str]
    open_image: Callable[[str], Image] = field(repr=False)
    image_hash: Callable[[str], str] = field(repr=False)
    licence: str
    description: str
    native: Mapping[str, str] | None = field(default=None, repr=False)
    codes: Mapping[str, Codes] = field(default_factory=dict, repr=False)
    subset: Subset | None = None
    exif: Exif = "ignore"
    text_only: bool = False
    origin: str = ""
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.triplets:
            raise InputError(f"The corpus {self.name!r} has no triplet left.")
        check_triplets(self.triplets)
        for triplet in self.triplets:
            if triplet.query.country not in self.languages_of:
                raise InputError(
                    f"{self.name!r} has the country {triplet.query.country!r}, and no language is given for it. "
                    f"Countries with one: {', '.join(self.languages_of)}."
                )
            if self.native is not None and is_blank(self.native.get(triplet.query.image_id, "")):
                raise InputError(
                    f"{self.name!r} has no native name for the query {triplet.query.image_id!r}; the metadata and the "
                    "triplets belong to different versions."
                )

    def __len__(self) -> int:
        return len(self.triplets)

    @cached_property
    def image_ids(self) -> tuple[str, ...]:
        """Every image that a triplet needs, once, in order of appearance."""
        return tuple(dict.fromkeys(item.image_id for triplet in self.triplets for item in triplet.items))

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of the queries, by the bench's codes."""
        return tuple(dict.fromkeys(self.languages_of[triplet.query.country] for triplet in self.triplets))

    @property
    def countries(self) -> tuple[str, ...]:
        """Country of each query."""
        return tuple(triplet.query.country for triplet in self.triplets)

    def check_languages(self, languages: Iterable[str]) -> tuple[str, ...]:
        """Return the languages as a tuple, or say which one the corpus does not have."""
        return choose_languages(self.name, languages, self.languages, self.codes)

    def select(self, languages: Iterable[str] | None = None, limit: int | None = None) -> "TripletCorpus":
        """Keep the triplets whose query is in some languages, and the first ``limit`` of them."""
        wanted = self.languages if languages is None else self.check_languages(languages)
        if limit is not None and limit < 1:
            raise InputError(f"A limit of {limit} triplets came; at least 1 is needed.")
        kept = [triplet for triplet in self.triplets if self.languages_of[triplet.query.country] in wanted][:limit]
        return replace(self, triplets=tuple(kept))

    def texts(self) -> list[str]:
        """Return the text query of each triplet: its concept in the language of its country.

        Raises
        ------
        InputError
            If only the triplets are at hand.
        """
        if self.native is None:
            raise InputError(
                f"{self.name!r} was loaded without the table of images, which holds the concepts in their languages. "
                "Put image_metadata.csv (or .parquet, .jsonl) beside the triplets."
            )
        return [self.native[triplet.query.image_id] for triplet in self.triplets]

    def rows(self) -> np.ndarray:
        """Rows into :attr:`image_ids`, int array of shape (triplet, 4): query, semantic, cultural, unrelated."""
        place = {image_id: row for row, image_id in enumerate(self.image_ids)}
        return np.array([[place[item.image_id] for item in triplet.items] for triplet in self.triplets], dtype=np.int64)

    def images(self) -> LazyImages:
        """Return all images as a sequence that opens each when it is asked for."""
        if self.text_only:
            raise InputError(f"{self.name!r} was loaded without images; give embeddings of them instead.")
        return LazyImages(self.image_ids, self.open_image)

    @cached_property
    def hash(self) -> str:
        """SHA-256 over triplets, text queries and images."""
        digest = hashlib.sha256(f"exif {self.exif}\0".encode())
        for triplet in self.triplets:
            parts: Sequence[str] = [f"{i.image_id}\2{i.concept}\2{i.country}" for i in triplet.items]
            native = self.native[triplet.query.image_id] if self.native else ""
            digest.update("\1".join([*parts, native, ""]).encode())
        for image_id in self.image_ids:
            digest.update(f"{image_id}\0{self.image_hash(image_id)}\0".encode())
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """Everything about the corpus that a number depends on, as JSON-like values for a manifest."""
        return {
            "name": self.name,
            "sha256": self.hash,
            "triplets": len(self),
            "images": len(self.image_ids),
            "licence": self.licence,
            "text_queries": self.native is not None,
            "subset": self.subset.describe() if self.subset else None,
            "image_policy": None if self.text_only else image_policy(self.exif),
            "codes": {own: {"benchmark": both.benchmark, "model": both.model} for own, both in self.codes.items()},
            "origin": self.origin,
        }
