"""Zero-shot classification: images of known classes, and the names of those classes in many languages.

A language names only some of the classes, and is scored on the images of those alone, against those names
alone. So the number of classes, and with it the level of chance, differs from language to language and stands
beside every score. A class is embedded through several templates, each with one ``{}``.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from PIL.Image import Image

from workbench.corpora.base import choose_languages
from workbench.corpora.images import Exif, LazyImages, image_policy
from workbench.corpora.subsets import Subset
from workbench.errors import InputError
from workbench.files import check_name
from workbench.language_codes import Codes
from workbench.texts import is_blank

BARE = ("{}",)
"""What a language without templates is scored with: the name alone."""


@dataclass(frozen=True)
class ClassificationCorpus:
    """Images with their classes, and names of classes by language.

    Attributes
    ----------
    name : str
    image_ids : tuple of str
    image_classes : tuple of int
        Class of each image, by its number among all classes.
    classes : mapping of str to tuple of int
        Language to the classes that it names, in order.
    labels : mapping of str to tuple of str
        Language to the names, in the same order.
    templates : mapping of str to tuple of str
        Language to its templates, each with one ``{}``.
    open_image, image_hash : callable
        Give the image of an id as RGB, and the hash of its file.
    licence, description : str
    codes : mapping of str to Codes
    subset : Subset, optional
    exif : {"apply", "ignore"}
    english : str
        Where the English names come from: two evaluators use different ones, and their scores can't be compared.
    text_only : bool
        Whether there are no images.
    origin : str
    """

    name: str
    image_ids: tuple[str, ...]
    image_classes: tuple[int, ...]
    classes: Mapping[str, tuple[int, ...]]
    labels: Mapping[str, tuple[str, ...]]
    templates: Mapping[str, tuple[str, ...]]
    open_image: Callable[[str], Image] = field(repr=False)
    image_hash: Callable[[str], str] = field(repr=False)
    licence: str
    description: str
    codes: Mapping[str, Codes] = field(default_factory=dict, repr=False)
    subset: Subset | None = None
    exif: Exif = "ignore"
    english: str = ""
    text_only: bool = False
    origin: str = ""
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.labels:
            raise InputError(f"The corpus {self.name!r} has no language. Name at least one.")
        if len(self.image_ids) != len(self.image_classes):
            raise InputError(
                f"{self.name!r} has {len(self.image_ids)} images and {len(self.image_classes)} classes of them."
            )
        for language, labels in self.labels.items():
            check_name(language, f"A language of the corpus {self.name!r}", ".safetensors")
            self._check_language(language, labels)

    def _check_language(self, language: str, labels: tuple[str, ...]) -> None:
        classes = self.classes[language]
        if len(classes) != len(labels):
            raise InputError(f"{self.name!r} has {len(labels)} names for {len(classes)} classes in {language!r}.")
        if len(classes) < 2 or len(set(classes)) != len(classes):
            raise InputError(f"{self.name!r} needs two or more different classes in {language!r}, not {classes[:5]}.")
        for label in labels:
            if is_blank(label):
                raise InputError(f"{self.name!r} has an empty class name in {language!r}.")
        for template in self.templates[language]:
            if template.count("{}") != 1:
                raise InputError(f"{self.name!r} has the template {template!r} in {language!r}; it needs '{{}}' once.")
        if not self.templates[language]:
            raise InputError(f"{self.name!r} has no template in {language!r}. The name alone is the template '{{}}'.")
        if not self.text_only:
            # A class without images would silently be a class that is always right.
            empty = set(classes) - set(self.image_classes)
            if empty:
                raise InputError(
                    f"{self.name!r} has no image of {len(empty)} of the {len(classes)} classes that {language!r} "
                    f"names; the first is class {min(empty)}."
                )

    def __len__(self) -> int:
        return len(self.image_ids)

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages by the bench's codes."""
        return tuple(self.labels)

    def check_languages(self, languages: Iterable[str]) -> tuple[str, ...]:
        """Return the languages as a tuple, or say which one the corpus does not have."""
        return choose_languages(self.name, languages, self.labels, self.codes)

    def select(self, languages: Iterable[str] | None = None, limit: int | None = None) -> "ClassificationCorpus":
        """Keep some languages, and the first ``limit`` images of each class."""
        wanted = self.languages if languages is None else self.check_languages(languages)
        rows = list(range(len(self)))
        if limit is not None:
            if limit < 1:
                raise InputError(f"A limit of {limit} images a class came; at least 1 is needed.")
            seen: dict[int, int] = {}
            rows = []
            for row, number in enumerate(self.image_classes):
                seen[number] = seen.get(number, 0) + 1
                if seen[number] <= limit:
                    rows.append(row)
        return replace(
            self,
            image_ids=tuple(self.image_ids[row] for row in rows),
            image_classes=tuple(self.image_classes[row] for row in rows),
            **{
                name: {language: getattr(self, name)[language] for language in wanted}
                for name in ("classes", "labels", "templates")
            },
            codes={language: self.codes[language] for language in wanted if language in self.codes},
        )

    def texts(self, language: str) -> list[list[str]]:
        """Return, for each class that a language names, its name in every template.

        The text embedding of a class is made of these: each is normalised, then averaged, then normalised.
        """
        language = self.check_languages([language])[0]
        # Not str.format: other braces of a template are letters.
        return [
            [template.replace("{}", label) for template in self.templates[language]] for label in self.labels[language]
        ]

    def task(self, language: str) -> tuple[np.ndarray, np.ndarray]:
        """Return what a language is scored on.

        Returns
        -------
        rows : int array of shape (n,)
            Rows of the images whose class the language names.
        target : int array of shape (n,)
            For each, its class's place among :meth:`texts`.
        """
        language = self.check_languages([language])[0]
        place = {number: k for k, number in enumerate(self.classes[language])}
        rows = [row for row, number in enumerate(self.image_classes) if number in place]
        return np.array(rows, dtype=np.int64), np.array(
            [place[self.image_classes[row]] for row in rows], dtype=np.int64
        )

    def chance(self, language: str) -> float:
        """Accuracy of a blind guess: one in as many as the language names."""
        return 1.0 / len(self.classes[self.check_languages([language])[0]])

    def duplicates(self, language: str) -> int:
        """Count names that an earlier class of the language has too."""
        labels = self.labels[self.check_languages([language])[0]]
        return len(labels) - len(set(labels))

    def ceiling(self, language: str) -> float:
        """Top-1 accuracy that nothing can exceed, where a tie goes to the first class of the same name."""
        language = self.check_languages([language])[0]
        labels = self.labels[language]
        first = {label: k for k, label in reversed(list(enumerate(labels)))}
        _, target = self.task(language)
        if not target.size:
            raise InputError(f"{self.name!r} was loaded without images, so it has no ceiling.")
        return float(np.mean([first[labels[k]] == k for k in target]))

    def images(self) -> LazyImages:
        """Return all images as a sequence that opens each when it is asked for."""
        if self.text_only:
            raise InputError(f"{self.name!r} was loaded without images; only its texts can be used.")
        return LazyImages(self.image_ids, self.open_image)

    @cached_property
    def hash(self) -> str:
        """SHA-256 over images, their classes, and names and templates of every language."""
        digest = hashlib.sha256(f"exif {self.exif}\0".encode())
        for image_id, number in zip(self.image_ids, self.image_classes, strict=True):
            digest.update(f"{image_id}\0{number}\0{self.image_hash(image_id)}\0".encode())
        for language in sorted(self.labels):
            digest.update(f"\1{language}\0".encode())
            for number, label in zip(self.classes[language], self.labels[language], strict=True):
                digest.update(f"{number}\2{label}\0".encode())
            digest.update("\2".join(self.templates[language]).encode())
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """Everything about the corpus that a number depends on, as JSON-like values for a manifest."""
        return {
            "name": self.name,
            "sha256": self.hash,
            "images": len(self),
            "licence": self.licence,
            "subset": self.subset.describe() if self.subset else None,
            "image_policy": None if self.text_only else image_policy(self.exif),
            "english_labels": self.english,
            "classes": {language: len(classes) for language, classes in self.classes.items()},
            "templates": {language: len(templates) for language, templates in self.templates.items()},
            "codes": {own: {"benchmark": both.benchmark, "model": both.model} for own, both in self.codes.items()},
            "origin": self.origin,
        }


def size_group(n_classes: int) -> str:
    """Return the group of a language by how many classes it names (Babel-ImageNet's own).

    Raises
    ------
    InputError
        If there are more than 1,000 or less than one.
    """
    for limit, group in ((100, "very low"), (333, "low"), (666, "mid"), (1000, "high")):
        if 1 <= n_classes <= limit:
            return group
    raise InputError(f"{n_classes} classes came; Babel-ImageNet has 1 to 1,000 a language.")
