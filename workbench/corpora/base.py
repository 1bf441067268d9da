"""A corpus: images, and captions in several languages that describe the same image.

Captions of one image in two languages are *parallel*; every comparison of this bench rests on that. So a
corpus is rectangular: each language has captions for each image, in the same order. A loader that finds a
hole says where, and leaves an image out only when it was asked to, or when its card says so, and counts it.

A language goes by the bench's own code in every corpus (:mod:`workbench.language_codes`), so that one tier map
fits all; ``codes`` keeps what the benchmark and a language-conditioned model call it.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from PIL.Image import Image

from workbench.corpora.images import Exif, LazyImages, image_policy
from workbench.corpora.subsets import Subset
from workbench.errors import InputError, suggest
from workbench.files import check_name
from workbench.language_codes import Codes, codes_of, english_name, find_language, recognise
from workbench.texts import is_blank

log = logging.getLogger(__name__)

Protocol = Literal["first", "all"]
PROTOCOLS: tuple[Protocol, ...] = ("first", "all")


@dataclass(frozen=True)
class Corpus:
    """Parallel captions of a list of images.

    Attributes
    ----------
    name : str
    image_ids : tuple of str
    captions : mapping of str to tuple of tuple of str
        Language to, for each image, its captions in that language; at least one.
    open_image : callable
        Gives the image of an id, as RGB.
    licence : str
    description : str
    image_hash : callable
        Gives a hash of the image file of an id, for the corpus hash.
    drawn : mapping of str to tuple of int, optional
        For a corpus that towers of the bench were trained on: how often each caption was drawn. 0 marks a
        caption that no built-in tower has seen.
    left_out : mapping of str to int
        Why images are missing, and how many.
    codes : mapping of str to Codes
        What the benchmark and a language-conditioned model call each language.
    subset : Subset, optional
        Which part of a benchmark this is. Its hash is part of the corpus's name.
    exif : {"apply", "ignore"}
        Whether photos that a camera stored sideways are turned upright.
    text_only : bool
        Whether there are no images: such a corpus can be captured and probed, and not ranked.
    caption_rule : str
        What was done to captions between the file and here.
    origin : str
        Hub id and revision, where the corpus came from one. Never a path of this machine.
    """

    name: str
    image_ids: tuple[str, ...]
    captions: Mapping[str, tuple[tuple[str, ...], ...]]
    open_image: Callable[[str], Image] = field(repr=False)
    licence: str
    description: str
    image_hash: Callable[[str], str] = field(repr=False)
    drawn: Mapping[str, tuple[int, ...]] | None = field(default=None, repr=False)
    left_out: Mapping[str, int] = field(default_factory=dict)
    codes: Mapping[str, Codes] = field(default_factory=dict, repr=False)
    subset: Subset | None = None
    exif: Exif = "apply"
    text_only: bool = False
    caption_rule: str = "as stored"
    origin: str = ""

    def __post_init__(self) -> None:
        if not self.image_ids:
            raise InputError(f"The corpus {self.name!r} has no image left.{self._left_out_note()}")
        if len(set(self.image_ids)) != len(self.image_ids):
            seen: set[str] = set()
            twice = next(i for i in self.image_ids if i in seen or seen.add(i))
            raise InputError(f"The corpus {self.name!r} lists the image {twice!r} twice. Ids must be unique.")
        if not self.captions:
            raise InputError(f"The corpus {self.name!r} has no language. Name at least one.")
        for language, lists in self.captions.items():
            check_name(language, f"A language of the corpus {self.name!r}", ".safetensors")
            self._check_language(language, lists)

    def _check_language(self, language: str, lists: tuple[tuple[str, ...], ...]) -> None:
        if len(lists) != len(self.image_ids):
            raise InputError(
                f"{self.name!r} has {len(lists)} caption lists in {language!r} for {len(self.image_ids)} images. "
                "Every image needs its own entry, in the order of the images."
            )
        for image_id, texts in zip(self.image_ids, lists, strict=True):
            if isinstance(texts, str):
                # It would pass as a list of one-letter captions.
                raise InputError(
                    f"{self.name!r} gives the image {image_id!r} a text in {language!r}; give it a tuple of "
                    "texts, even for one."
                )
            if not texts:
                raise InputError(
                    f"{self.name!r} has no caption in {language!r} for the image {image_id!r}. Add one, leave the "
                    "language out, or leave such images out (drop_incomplete=True, --drop-incomplete)."
                )
            for text in texts:
                if not isinstance(text, str) or is_blank(text):
                    raise InputError(
                        f"{self.name!r} has an empty caption in {language!r} for the image {image_id!r}. Give it "
                        "a text, or remove it."
                    )

    def _left_out_note(self) -> str:
        return "".join(f" Left out: {count} ({reason})." for reason, count in self.left_out.items())

    def __len__(self) -> int:
        return len(self.image_ids)

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of the corpus, in its own order."""
        return tuple(self.captions)

    def check_languages(self, languages: Iterable[str]) -> tuple[str, ...]:
        """Return the languages as a tuple, or say which one the corpus does not have.

        A benchmark's own code (``swh_Latn``, ``TL``) is as good as the bench's; the bench's comes back.
        """
        return choose_languages(self.name, languages, self.captions, self.codes)

    def select(self, languages: Iterable[str] | None = None, limit: int | None = None) -> "Corpus":
        """Keep some languages and the first ``limit`` images.

        Raises
        ------
        InputError
            If a language is unknown or the limit is below 2.
        """
        wanted = self.languages if languages is None else self.check_languages(languages)
        if limit is not None and limit < 2:
            raise InputError(f"A limit of {limit} images came; at least 2 are needed to rank anything.")
        n = len(self) if limit is None else min(limit, len(self))
        drawn = self.drawn
        return replace(
            self,
            image_ids=self.image_ids[:n],
            captions={language: self.captions[language][:n] for language in wanted},
            codes={language: self.codes[language] for language in wanted if language in self.codes},
            drawn=None if drawn is None else {language: drawn[language][:n] for language in wanted},
        )

    def texts(self, language: str, protocol: Protocol = "first") -> tuple[list[str], np.ndarray]:
        """Return the captions of a language under a protocol.

        Parameters
        ----------
        language : str
        protocol : {"first", "all"}
            One caption an image, or all of them (AMB-8).

        Returns
        -------
        texts : list of str
        owner : int array of shape (n_texts,)
            Row of the image that each caption describes.
        """
        lists = self.captions[self.check_languages([language])[0]]
        if check_protocol(protocol) == "first":
            return [texts[0] for texts in lists], np.arange(len(lists))
        owner = np.repeat(np.arange(len(lists)), [len(texts) for texts in lists])
        return [text for texts in lists for text in texts], owner

    def check_parallel(self, languages: Sequence[str], protocol: Protocol) -> None:
        """Refuse the protocol "all" where two languages have different numbers of captions for an image."""
        if protocol == "first":
            return
        first = [len(texts) for texts in self.captions[languages[0]]]
        for language in languages[1:]:
            for image_id, here, there in zip(self.image_ids, first, self.captions[language], strict=True):
                if here != len(there):
                    raise InputError(
                        f"The image {image_id!r} has {here} captions in {languages[0]!r} and {len(there)} in "
                        f"{language!r}, so they can't be patched one for one. Use the protocol 'first'."
                    )

    def images(self) -> list[Image]:
        """Open all images, in order."""
        return list(self.lazy_images())

    def lazy_images(self) -> LazyImages:
        """Return all images as a sequence that opens each when it is asked for: a gallery may not fit in memory.

        Raises
        ------
        InputError
            If the corpus is text only.
        """
        if self.text_only:
            raise InputError(
                f"{self.name!r} has texts and no images, so nothing can be ranked against it. Capture and probe it, "
                "or give a corpus with images."
            )
        return LazyImages(self.image_ids, self.open_image)

    def duplicates(self, language: str, protocol: Protocol = "all") -> int:
        """Count captions of a language that repeat another: ties that no tower can break."""
        texts, _ = self.texts(language, protocol)
        return len(texts) - len(set(texts))

    def describe(self) -> dict[str, Any]:
        """Everything about the corpus that a number depends on, as JSON-like values for a manifest."""
        codes = {language: self.codes.get(language) or codes_of(language) for language in self.captions}
        return {
            "name": self.name,
            "sha256": self.hash,
            "images": len(self),
            "left_out": dict(self.left_out),
            "licence": self.licence,
            "subset": self.subset.describe() if self.subset else None,
            "image_policy": None if self.text_only else image_policy(self.exif),
            "caption_rule": self.caption_rule,
            "codes": {own: {"benchmark": both.benchmark, "model": both.model} for own, both in codes.items()},
            "origin": self.origin,
        }

    @cached_property
    def hash(self) -> str:
        """SHA-256 over image ids, image files, languages and captions."""
        digest = hashlib.sha256()
        if self.exif != "apply":
            # The same files give other pixels.
            digest.update(f"exif {self.exif}\0".encode())
        for image_id in self.image_ids:
            digest.update(f"{image_id}\0{self.image_hash(image_id)}\0".encode())
        for language in sorted(self.captions):
            digest.update(f"\1{language}\0".encode())
            for texts in self.captions[language]:
                digest.update("\2".join(texts).encode() + b"\0")
        return digest.hexdigest()


def check_protocol(protocol: str) -> Protocol:
    """Return the protocol, or say which ones there are."""
    if protocol not in PROTOCOLS:
        raise InputError(f"There is no protocol {protocol!r}.{suggest(protocol, PROTOCOLS)} Use 'first' or 'all'.")
    return protocol


def choose_languages(
    corpus: str, languages: Iterable[str], known: Iterable[str], codes: Mapping[str, Codes]
) -> tuple[str, ...]:
    """Return languages by the bench's codes, given by those, by the benchmark's or by an alias.

    Raises
    ------
    InputError
        If the corpus lacks one, or none was named.
    """
    known = tuple(known)
    by_benchmark = {both.benchmark: own for own, both in codes.items()}
    found: dict[str, None] = {}
    for language in languages:
        label = str(language).strip()
        own = label if label in known else by_benchmark.get(label)
        own = own or recognise(label) or next((code for code in known if code.lower() == label.lower()), None)
        if own not in known:
            raise InputError(unknown_language(corpus, language, known))
        found[own] = None
    if not found:
        raise InputError(f"No language was chosen. {corpus!r} has: {', '.join(known)}.")
    return tuple(found)


def unknown_language(corpus: str, language: str, known: Iterable[str]) -> str:
    """Say that a corpus lacks a language: the nearest code, by code or by English name, and all codes."""
    known = list(known)
    by_name = {english_name(code).lower(): code for code in known if recognise(code)}
    hint = suggest(language, known)
    named = suggest(language, by_name)
    if named:
        hint = f" Did you mean {by_name[named.split(chr(39))[1]]!r}?"
    row = find_language(language)
    near = recognise(row.nllb) if row and row.nllb else None
    if near in known:
        hint = f" The nearest that it has is {near!r} ({english_name(near)}), another language."
    return f"{corpus!r} has no language {language!r}.{hint} It has: {', '.join(known)}."


def keep_complete(
    name: str,
    image_ids: Sequence[str],
    captions: Mapping[str, Sequence[Sequence[str]]],
    drop_incomplete: bool,
) -> tuple[list[int], dict[str, int]]:
    """Return the rows that have a caption in every language, and why others are left out.

    Without ``drop_incomplete`` all rows are returned, and the corpus then names the first hole.
    """
    if not drop_incomplete:
        return list(range(len(image_ids))), {}
    rows = [row for row in range(len(image_ids)) if all(captions[language][row] for language in captions)]
    left_out: dict[str, int] = {}
    if len(rows) < len(image_ids):
        lacking = {language: sum(not texts for texts in lists) for language, lists in captions.items()}
        worst = ", ".join(f"{language} lacks {count}" for language, count in lacking.items() if count)
        left_out[f"no caption in every language: {worst}"] = len(image_ids) - len(rows)
        log.debug("%s: %d of %d images left out (%s)", name, len(image_ids) - len(rows), len(image_ids), worst)
    return rows, left_out
