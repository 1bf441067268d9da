"""What a corpus holds and what is wrong with it: everything at once, where loading stops at the first fault.

Duplicate captions, captions of one character and writing from right to left are not faults; they are counted,
because a duplicate is a tie that no tower can break, and the others break careless code.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from workbench.corpora.benchmarks import BENCHMARKS, BUILT_IN, KIND_WORDS
from workbench.corpora.images import open_image
from workbench.corpora.loading import check_options, find_corpus, open_found
from workbench.corpora.reading import Faults
from workbench.corpora.source import Source
from workbench.corpora.stores import Store
from workbench.errors import InputError
from workbench.language_codes import Codes
from workbench.texts import is_blank

_SHOWN = 20


@dataclass(frozen=True)
class LanguageCount:
    """What a corpus has in one language.

    Attributes
    ----------
    code, benchmark, model : str
        The bench's code, the benchmark's, and the one that NLLB is prompted with.
    texts : int
        Captions, class names, questions or triplets.
    absent : int
        Images, or sentences, without a text.
    empty : int
        Texts of blanks alone.
    duplicates : int
        Texts that repeat another of the language.
    one_character : int
    right_to_left : int
        Texts with letters that are written from right to left.
    """

    code: str
    benchmark: str
    model: str | None
    texts: int
    absent: int
    empty: int
    duplicates: int
    one_character: int
    right_to_left: int


@dataclass(frozen=True)
class CorpusReport:
    """What was found.

    Attributes
    ----------
    place : str
    benchmark : str
    kind : str
    layout : str
        What the files were recognised as; empty if they could not be read at all.
    listed : int
        Images, sentences, questions or triplets that the files list.
    published : int or None
        How many the benchmark has.
    missing_images : int
    languages : tuple of LanguageCount
    problems : tuple of str
        What is wrong. Loading the whole corpus would stop at the first.
    notes : tuple of str
        What is right and good to know.
    opened : bool
        Whether images were opened.
    """

    place: str
    benchmark: str
    kind: str
    layout: str
    listed: int
    published: int | None
    missing_images: int
    languages: tuple[LanguageCount, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    opened: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-like values."""
        return {**asdict(self), "ok": self.ok}


@dataclass
class _Findings:
    """What the check of one kind of benchmark gathers."""

    layout: str = ""
    listed: int = 0
    published: int | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    languages: list[LanguageCount] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    store: Store | None = None
    noun: str = "images"


def check_corpus(
    place: str | Path, *, root: str | Path | None = None, open_images: bool = False, **options: Any
) -> CorpusReport:
    """Read all of a corpus and report.

    Parameters
    ----------
    place : str or Path
        As for :func:`workbench.corpora.loading.load_benchmark`.
    root : str or Path, optional
    open_images : bool
        Open each image too. Takes a minute for some thousand.
    **options
        ``images``, ``split``, ``revision`` and others that say where something is.

    Returns
    -------
    CorpusReport

    Raises
    ------
    InputError
        If nothing goes by the name, or the place is nobody's; what is wrong with a corpus is in the report.
    """
    if str(place) in BUILT_IN:
        raise InputError(f"{place} is built in and checked by the tests of the bench. Give a corpus of your own.")
    found = find_corpus(place, root)
    check_options(found.benchmark, options, found.benchmark.accepts)
    faults, findings = Faults(strict=False), _Findings()
    try:
        source = open_found(found, faults, options)
        _CHECKS[found.benchmark.kind](source, faults, findings)
    except InputError as error:
        # Nothing can be read past this one.
        faults.found.append(str(error))
    problems = [*faults.found, *_missing(findings)]
    if open_images:
        problems += _unreadable(findings)
    return CorpusReport(
        place=str(place),
        benchmark=found.benchmark.name,
        kind=found.benchmark.kind,
        layout=findings.layout,
        listed=findings.listed,
        published=findings.published,
        missing_images=len(findings.missing),
        languages=tuple(findings.languages),
        problems=tuple(dict.fromkeys(problems)),
        notes=tuple(findings.notes),
        opened=open_images,
    )


def _missing(findings: _Findings) -> list[str]:
    problems = []
    if findings.published is not None and findings.layout and findings.listed != findings.published:
        problems.append(
            f"{findings.listed:,} {findings.noun} are listed, and the benchmark has {findings.published:,}."
        )
    if findings.missing:
        first = next(iter(findings.missing))
        problems.append(
            f"{len(findings.missing):,} of {len(findings.images):,} images are not here; the first is {first!r}. "
            f"{findings.missing[first]}"
        )
    return problems


def _unreadable(findings: _Findings) -> list[str]:
    problems, sideways = [], 0
    for image_id in findings.images:
        if findings.store is None or image_id in findings.missing:
            continue
        try:
            encoded = findings.store(image_id)
            upright, stored = (open_image(encoded or b"", f"image {image_id}", exif) for exif in ("apply", "ignore"))
            sideways += upright.tobytes() != stored.tobytes()
        except InputError as error:
            problems.append(str(error))
    if sideways:
        findings.notes.append(f"{sideways:,} images would be turned by exif='apply'")
    return problems


def _count(code: str, codes: Codes, texts: Iterable[str], absent: int = 0) -> LanguageCount:
    texts = list(texts)
    return LanguageCount(
        code=code,
        benchmark=codes.benchmark,
        model=codes.model,
        texts=len(texts),
        absent=absent,
        empty=sum(map(is_blank, texts)),
        duplicates=len(texts) - len(set(texts)),
        one_character=sum(len(text.strip()) == 1 for text in texts),
        right_to_left=sum(any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text) for text in texts),
    )


def _check_parallel(source: Source, faults: Faults, findings: _Findings) -> None:
    findings.layout, findings.listed, findings.published = source.layout, len(source.image_ids), source.published
    findings.missing, findings.store, findings.noun = source.missing, source.store, source.noun
    findings.images = list(source.image_ids) if source.store else []
    findings.notes += source.notes
    seen: set[str] = set()
    for image_id in source.image_ids:
        if image_id in seen:
            faults.add(f"The image {image_id!r} is listed twice. Ids must be unique.")
        seen.add(image_id)
    for language, codes in source.codes.items():
        try:
            captions = source.read(language, faults)
        except InputError as error:
            faults.add(str(error))
            captions = []
        count = _count(language, codes, (t for texts in captions for t in texts), sum(not texts for texts in captions))
        findings.languages.append(count)
        if count.absent:
            faults.add(f"{count.absent:,} {source.noun} have no caption in {language!r}.")
        if count.empty:
            faults.add(f"{count.empty:,} captions in {language!r} are empty.")


def _check_classification(source: Any, faults: Faults, findings: _Findings) -> None:
    findings.layout, findings.listed, findings.noun = source.layout, len(source.images), "images"
    findings.images, findings.store = list(source.images), source.store
    bare = [language for language in source.codes if language not in source.prompts]
    for language, codes in source.codes.items():
        findings.languages.append(_count(language, codes, source.names[language][1]))
    findings.notes.append(
        f"{len(bare)} languages have no templates and are scored with the bare name: {', '.join(bare)}"
    )
    if not source.images:
        faults.add("No image of ImageNet's validation set is here.")
    elif short := source.short_classes(source.languages):
        number, count = next(iter(short.items()))
        faults.add(
            f"{len(short)} classes do not have {source.per_class} images; the first is class {number} with {count}."
        )


def _check_choices(source: Any, faults: Faults, findings: _Findings) -> None:
    findings.layout, findings.published, findings.noun = source.layout, source.published, "questions"
    findings.listed, findings.missing, findings.store = len(source.questions), source.missing, source.picture
    findings.images = [question.id for question in source.questions]
    findings.notes += source.table.notes
    groups = {(question.language, question.country) for question in source.questions}
    findings.notes.append(f"{len(groups)} pairs of a language and a country")
    for language, codes in source.codes.items():
        texts = [question.question for question in source.questions if question.language == language]
        findings.languages.append(_count(language, codes, texts))


def _check_triplets(source: Any, faults: Faults, findings: _Findings) -> None:
    findings.layout, findings.published, findings.noun = source.layout, source.published, "triplets"
    findings.listed, findings.missing, findings.store = len(source.triplets), source.missing, source.store
    findings.images = list(dict.fromkeys(item.image_id for triplet in source.triplets for item in triplet.items))
    native = source.native
    findings.notes += source.notes
    if native is None:
        findings.notes.append("no image_metadata, so there are no text queries: image to image only")
    for language, codes in source.codes.items():
        queries = [t.query for t in source.triplets if source.language_of(t) == language]
        texts = [native.get(q.image_id, "") if native else q.concept for q in queries]
        findings.languages.append(_count(language, codes, texts))


_CHECKS = {
    "parallel": _check_parallel,
    "texts": _check_parallel,
    "classification": _check_classification,
    "choices": _check_choices,
    "triplets": _check_triplets,
}


def render_report(report: CorpusReport) -> str:
    """Return a report as plain text for a terminal."""
    noun = {"classification": "images", "choices": "questions", "triplets": "triplets", "texts": "texts"}
    what = noun.get(report.kind, "images")
    # A question or a query may be asked twice; a caption or a class name that is there twice can't be told apart.
    ties = "" if report.kind in ("choices", "triplets") else " of their language: ties that no tower breaks"
    published = "" if report.published is None else f" of {report.published:,} published"
    lines = [
        f"{report.place}: {report.layout or 'can not be read'}",
        f"  {report.benchmark}, {KIND_WORDS[BENCHMARKS[report.benchmark].kind]}",
        f"  {report.listed:,} {what}{published}, {report.missing_images:,} images missing",
        f"  {len(report.languages)} languages, {sum(count.texts for count in report.languages):,} texts, "
        f"{sum(count.duplicates for count in report.languages):,} of which repeat another{ties}",
    ]
    lines += [f"  {note}" for note in report.notes]
    if report.languages:
        lines += ["", *_table(report.languages)]
    lines.append("")
    if report.ok:
        opened = "" if report.opened else " Images were not opened; --open-images (open_images=True) does that."
        return "\n".join([*lines, f"Nothing is wrong.{opened}"])
    lines.append(f"{len(report.problems)} problem{'s' if len(report.problems) > 1 else ''}:")
    lines += [f"  - {problem}" for problem in report.problems[:_SHOWN]]
    if len(report.problems) > _SHOWN:
        lines.append(f"  … and {len(report.problems) - _SHOWN} more; --json lists them all")
    return "\n".join(lines)


def _table(counts: Iterable[LanguageCount]) -> list[str]:
    heads = ("language", "benchmark", "model", "texts", "absent", "empty", "repeated", "1 character", "right-to-left")
    rows = [(c.code, c.benchmark, c.model or "–", *(str(number) for number in _numbers(c))) for c in counts]
    widths = [max(len(row[k]) for row in (heads, *rows)) for k in range(len(heads))]
    return [_line(cells, widths) for cells in (heads, *rows)]


def _numbers(count: LanguageCount) -> tuple[int, ...]:
    return count.texts, count.absent, count.empty, count.duplicates, count.one_character, count.right_to_left


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = [cell.ljust(w) if k < 3 else cell.rjust(w) for k, (cell, w) in enumerate(zip(cells, widths, strict=True))]
    return "  " + "  ".join(parts).rstrip()
