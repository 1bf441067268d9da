"""A corpus: images, and captions in several languages that describe the same image.

Captions of one image in two languages are *parallel*; every comparison of this bench rests on that. So a
corpus is rectangular: each language has captions for each image, in the same order. A loader that finds a
hole says where, and leaves an image out only when it was asked to, or when its card says so, and counts it.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from PIL.Image import Image

from workbench.errors import InputError, suggest

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
                if not isinstance(text, str) or not text.strip():
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
        """Return the languages as a tuple, or say which one the corpus does not have."""
        wanted = tuple(dict.fromkeys(languages))
        for language in wanted:
            if language not in self.captions:
                raise InputError(unknown_language(self.name, language, self.captions))
        if not wanted:
            raise InputError(f"No language was chosen. {self.name!r} has: {', '.join(self.captions)}.")
        return wanted

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
        return [self.open_image(image_id) for image_id in self.image_ids]

    @cached_property
    def hash(self) -> str:
        """SHA-256 over image ids, image files, languages and captions."""
        digest = hashlib.sha256()
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


def unknown_language(corpus: str, language: str, known: Iterable[str]) -> str:
    """Say that a corpus lacks a language: the nearest code, by code or by English name, and all codes."""
    from workbench.languages import ENGLISH_NAMES

    known = list(known)
    by_name = {ENGLISH_NAMES[code].lower(): code for code in known if code in ENGLISH_NAMES}
    hint = suggest(language, known)
    named = suggest(language, by_name)
    if named:
        hint = f" Did you mean {by_name[named.split(chr(39))[1]]!r}?"
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
