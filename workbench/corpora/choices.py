"""Questions about images with several answers to choose from, one of them right.

An encoder chooses by similarity: each answer is put into a template, with its question or without, and the text
nearest to the image wins. Nobody publishes the one right template, so it is part of the corpus and goes with every
number, as does whether the question was asked in its own language or in English.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from PIL.Image import Image

from workbench.corpora.base import choose_languages
from workbench.corpora.images import Exif, LazyImages, image_policy
from workbench.corpora.subsets import Subset
from workbench.errors import InputError, suggest
from workbench.files import check_name
from workbench.language_codes import Codes
from workbench.texts import is_blank

Variant = Literal["native", "translated"]
VARIANTS: tuple[Variant, ...] = ("native", "translated")

QUESTION_AND_OPTION = "{question} {option}"
"""The template of S3-21."""
OPTION_ONLY = "{option}"
"""The ablation: how far an encoder gets without the question."""


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes
    ----------
    id : str
        Its own, and its image's.
    language, country : str
        The language by the bench's code.
    question : str
        In its language.
    options : tuple of str
    translated_question : str
        In English.
    translated_options : tuple of str
    answer : int
        Which option is right.
    category : str
    """

    id: str
    language: str
    country: str
    question: str
    options: tuple[str, ...]
    translated_question: str
    translated_options: tuple[str, ...]
    answer: int
    category: str = ""


@dataclass(frozen=True)
class ChoiceCorpus:
    """Questions, their images, and how they are put to an encoder.

    Attributes
    ----------
    name : str
    questions : tuple of Question
    open_image, image_hash : callable
        Give the image of a question's id as RGB, and the hash of its file.
    licence, description : str
    template : str
        With ``{option}``, and with ``{question}`` or without.
    variant : {"native", "translated"}
        Whether question and options are in their own language or in English.
    codes : mapping of str to Codes
    subset : Subset, optional
    exif : {"apply", "ignore"}
    text_only : bool
    origin : str
    """

    name: str
    questions: tuple[Question, ...]
    open_image: Callable[[str], Image] = field(repr=False)
    image_hash: Callable[[str], str] = field(repr=False)
    licence: str
    description: str
    template: str = QUESTION_AND_OPTION
    variant: Variant = "native"
    codes: Mapping[str, Codes] = field(default_factory=dict, repr=False)
    subset: Subset | None = None
    exif: Exif = "ignore"
    text_only: bool = False
    origin: str = ""
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.questions:
            raise InputError(f"The corpus {self.name!r} has no question left.")
        if self.variant not in VARIANTS:
            raise InputError(
                f"There is no variant {self.variant!r}.{suggest(self.variant, VARIANTS)} Use 'native' or 'translated'."
            )
        check_template(self.template)
        for language in self.languages:
            check_name(language, f"A language of the corpus {self.name!r}", ".safetensors")
        seen: set[str] = set()
        for question in self.questions:
            if question.id in seen:
                raise InputError(f"The corpus {self.name!r} has the question {question.id!r} twice.")
            seen.add(question.id)
            if not 0 <= question.answer < len(question.options):
                raise InputError(
                    f"The question {question.id!r} of {self.name!r} has the answer {question.answer} of "
                    f"{len(question.options)} options. Early revisions of CVQA hide the answers as -1; take a later "
                    "one."
                )
            for options in (question.options, question.translated_options):
                if len(options) != len(question.options) or len(options) < 2 or any(map(is_blank, options)):
                    raise InputError(f"The question {question.id!r} of {self.name!r} has the options {options}.")

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def image_ids(self) -> tuple[str, ...]:
        """Ids of the questions, which are those of their images."""
        return tuple(question.id for question in self.questions)

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of the questions, by the bench's codes."""
        return tuple(dict.fromkeys(question.language for question in self.questions))

    @property
    def groups(self) -> Mapping[tuple[str, str], np.ndarray]:
        """Rows of the questions of each language and country: accuracy is averaged over these (S3-21)."""
        found: dict[tuple[str, str], list[int]] = {}
        for row, question in enumerate(self.questions):
            found.setdefault((question.language, question.country), []).append(row)
        return {group: np.array(rows) for group, rows in found.items()}

    @property
    def answers(self) -> np.ndarray:
        """Which option is right, int array of shape (question,)."""
        return np.array([question.answer for question in self.questions], dtype=np.int64)

    def chance(self) -> float:
        """Accuracy of a blind guess."""
        return float(np.mean([1.0 / len(question.options) for question in self.questions]))

    def check_languages(self, languages: Iterable[str]) -> tuple[str, ...]:
        """Return the languages as a tuple, or say which one the corpus does not have."""
        return choose_languages(self.name, languages, self.languages, self.codes)

    def select(self, languages: Iterable[str] | None = None, limit: int | None = None) -> "ChoiceCorpus":
        """Keep the questions of some languages, and the first ``limit`` of them."""
        wanted = self.languages if languages is None else self.check_languages(languages)
        if limit is not None and limit < 1:
            raise InputError(f"A limit of {limit} questions came; at least 1 is needed.")
        kept = [question for question in self.questions if question.language in wanted][:limit]
        return replace(self, questions=tuple(kept))

    def asked(self, template: str | None = None, variant: Variant | None = None) -> "ChoiceCorpus":
        """Return the same questions, put in another way."""
        return replace(self, template=template or self.template, variant=variant or self.variant)

    def texts(self) -> list[list[str]]:
        """Return, for each question, the text of each of its options."""
        return [self.texts_of(question) for question in self.questions]

    def texts_of(self, question: Question) -> list[str]:
        """Return the text of each option of one question."""
        native = self.variant == "native"
        asked = question.question if native else question.translated_question
        return [fill(self.template, asked, o) for o in (question.options if native else question.translated_options)]

    def text_language(self, question: Question) -> str:
        """Language that the texts of a question are in, by the bench's code."""
        return question.language if self.variant == "native" else "en"

    def images(self) -> LazyImages:
        """Return the image of each question as a sequence that opens each when it is asked for."""
        if self.text_only:
            raise InputError(f"{self.name!r} was loaded without images; only its texts can be used.")
        return LazyImages(self.image_ids, self.open_image)

    @cached_property
    def hash(self) -> str:
        """SHA-256 over questions, options, answers, images, template and variant."""
        digest = hashlib.sha256(f"exif {self.exif}\0{self.template}\0{self.variant}\0".encode())
        for question in self.questions:
            digest.update(f"{question.id}\0{self.image_hash(question.id)}\0{question.language}\0".encode())
            digest.update("\2".join([question.country, *self.texts_of(question), str(question.answer)]).encode())
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """Everything about the corpus that a number depends on, as JSON-like values for a manifest."""
        return {
            "name": self.name,
            "sha256": self.hash,
            "questions": len(self),
            "licence": self.licence,
            "template": self.template,
            "variant": self.variant,
            "subset": self.subset.describe() if self.subset else None,
            "image_policy": None if self.text_only else image_policy(self.exif),
            "caption_rule": "blanks around questions and options removed",
            "codes": {own: {"benchmark": both.benchmark, "model": both.model} for own, both in self.codes.items()},
            "origin": self.origin,
        }


def check_template(template: str) -> str:
    """Return a template, or say what it lacks."""
    if template.count("{option}") != 1 or template.count("{question}") > 1:
        raise InputError(
            f"The template {template!r} needs '{{option}}' once, and '{{question}}' at most once, such as "
            f"{QUESTION_AND_OPTION!r} or {OPTION_ONLY!r}."
        )
    return template


def fill(template: str, question: str, option: str) -> str:
    """Put a question and an option into a template. What they hold is not looked into again."""
    values = {"{question}": question, "{option}": option}
    return "".join(values.get(part, part) for part in re.split(r"(\{question\}|\{option\})", template))
