"""CVQA: questions about images of 30 countries, in 31 languages and in English, four answers each (S3-21).

As distributed: the data set ``afaji/cvqa``, or its Parquet files, with the columns ``image``, ``ID``, ``Subset``,
``Question``, ``Translated Question``, ``Options``, ``Translated Options``, ``Label``, ``Category`` and more.
``Subset`` is a text that looks like a Python tuple. Early revisions hide the answers behind the label -1, with which
every accuracy is quietly 0, and hold the options as one text; the first is refused, the second is read.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.corpora.base import choose_languages
from workbench.corpora.choices import QUESTION_AND_OPTION, ChoiceCorpus, Question, Variant
from workbench.corpora.hub import is_dataset, open_tables, parquet_files
from workbench.corpora.images import Exif
from workbench.corpora.layouts import picture
from workbench.corpora.reading import Faults, as_id, checked_text
from workbench.corpora.records import Records, read_table
from workbench.corpora.source import refuse_missing
from workbench.corpora.stores import Opener, no_image
from workbench.corpora.subsets import resolve_subset
from workbench.errors import InputError
from workbench.language_codes import Codes, bench_code, codes_of
from workbench.texts import is_blank

NAME = "cvqa"
QUESTIONS = 10_374
LICENCE = "each image and question its own; research use, some non-commercial"
DESCRIPTION = "questions on images of 30 countries in 31 languages, four answers each (CVQA)"
COLUMNS = ("ID", "Subset", "Question", "Translated Question", "Options", "Translated Options", "Label")
_OPTIONS = 4


@dataclass(frozen=True)
class CvqaSource:
    """What was found of CVQA.

    Attributes
    ----------
    layout : str
    questions : tuple of Question
    codes : mapping of str to Codes
    table : Records
    rows : mapping of str to int
        Row of each question.
    missing : mapping of str to str
        Ids without an image.
    published : int
        Questions that a whole copy has.
    root : Path, optional
        Folder that image paths are relative to.
    origin : str
    """

    layout: str
    questions: tuple[Question, ...]
    codes: Mapping[str, Codes]
    table: Records = field(repr=False)
    rows: Mapping[str, int] = field(repr=False)
    missing: Mapping[str, str] = field(repr=False)
    published: int = QUESTIONS
    root: Path | None = None
    origin: str = ""

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages by the bench's codes."""
        return tuple(self.codes)

    def picture(self, question_id: str) -> bytes | Path | None:
        """Return the encoded image of a question."""
        row = self.rows.get(question_id)
        return None if row is None else picture(self.table.cell("image", row), self.root, self.table.what)


def recognises(place: Path) -> bool:
    """Whether this is a table, or a folder with Parquet files, that has the columns of CVQA."""
    files = (
        [place] if place.suffix == ".parquet" and place.is_file() else parquet_files(place) if place.is_dir() else []
    )
    try:
        return bool(files) and set(COLUMNS) <= set(read_table(files[0]).columns)
    except InputError:
        return False


def open_cvqa(
    place: Path | str,
    faults: Faults,
    *,
    split: str | None = None,
    revision: str | None = None,
    published: int = QUESTIONS,
) -> CvqaSource:
    """Find CVQA in a Parquet or JSON Lines file, a folder of Parquet files, a saved data set or on the hub."""
    path, origin, root = Path(place), "", None
    if path.is_file():
        table, root = read_table(path), path.parent.resolve()
    elif is_dataset(place):
        tables = open_tables(place, split=split, revision=revision)
        table, origin = tables.only(), tables.origin
    else:
        raise InputError(f"{str(place)!r} is no copy of CVQA: neither a table, nor a data set, nor a hub id.")
    table.need(COLUMNS)
    columns = {name: table.values(name) for name in (*COLUMNS, *(["Category"] if "Category" in table.columns else []))}
    questions: list[Question] = []
    rows: dict[str, int] = {}
    codes: dict[str, Codes] = {}
    for row in range(table.n):
        found = _question({name: values[row] for name, values in columns.items()}, table.where(row), faults, codes)
        if found is not None and found.id in rows:
            faults.add(f"{table.where(row)} has the ID {found.id!r}, as {table.where(rows[found.id])} has.")
        elif found is not None:
            questions.append(found)
            rows[found.id] = row
    absent = set(range(table.n)) if "image" not in table.columns else set(table.absent("image"))
    missing = {i: f"{table.where(row)} has no picture." for i, row in rows.items() if row in absent}
    return CvqaSource(
        "CVQA data set" if not path.is_file() else f"CVQA table {path.suffix[1:]}",
        tuple(questions), codes, table, rows, missing, published, root, origin,
    )  # fmt: skip


def build_choices(
    source: CvqaSource,
    languages: Iterable[str] | None = None,
    *,
    template: str = QUESTION_AND_OPTION,
    variant: Variant = "native",
    subset: "str | Iterable[str] | None" = None,
    exif: Exif | None = None,
    with_images: bool = True,
) -> ChoiceCorpus:
    """Make the corpus of some languages; arguments as in :func:`workbench.corpora.source.build_corpus`."""
    chosen, questions = None, source.questions
    ids = [question.id for question in questions]
    missing = source.missing if with_images else {}
    if subset is not None:
        chosen = resolve_subset(subset, NAME, ids, [i for i in ids if i not in missing])
        kept = set(chosen.ids)
        questions = tuple(question for question in questions if question.id in kept)
    elif len(questions) != source.published:
        raise InputError(
            f"{NAME} has {source.published:,} questions, and {len(questions):,} are here; revisions differ. Take the "
            "current one, or name the subset that you mean: subset='present' (--subset present), or a file of ids."
        )
    name = NAME if chosen is None else f"{NAME}:{chosen.label}"
    if languages is not None:
        wanted = choose_languages(NAME, languages, source.languages, source.codes)
        questions = tuple(question for question in questions if question.language in wanted)
    refuse_missing(name, [question.id for question in questions], missing)
    opener = Opener(source.picture, exif or "ignore") if with_images else None
    return ChoiceCorpus(
        name=name,
        questions=questions,
        open_image=opener.open if opener else no_image,
        image_hash=opener.hash if opener else lambda _: "",
        licence=LICENCE,
        description=DESCRIPTION,
        template=template,
        variant=variant,
        codes={own: both for own, both in source.codes.items() if any(q.language == own for q in questions)},
        subset=chosen,
        exif=exif or "ignore",
        text_only=not with_images,
        origin=source.origin,
    )


def _question(row: dict[str, Any], where: str, faults: Faults, codes: dict[str, Codes]) -> Question | None:
    question_id = as_id(row["ID"], where, faults)
    group = _pair(row["Subset"])
    if group is None:
        faults.add(f"{where} has the Subset {row['Subset']!r}; it should be a language and a country.")
    texts = [checked_text(row[name], where, name, faults) for name in ("Question", "Translated Question")]
    options = [_options(row[name], where, name, faults) for name in ("Options", "Translated Options")]
    label = _label(row["Label"], where, faults)
    if question_id is None or group is None or None in texts or None in options or label is None:
        return None
    language, country = group
    own = bench_code(language, "cvqa")
    codes.setdefault(own, Codes(language, codes_of(own).model))
    return Question(
        question_id, own, country, str(texts[0]).strip(), options[0] or (), str(texts[1]).strip(), options[1] or (),
        label, str(row.get("Category") or ""),
    )  # fmt: skip


def _pair(given: object) -> tuple[str, str] | None:
    """Read ``"('Filipino', 'Philippines')"``, or a real pair."""
    value = _literal(given) if isinstance(given, str) else given
    if (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(isinstance(part, str) and part.strip() for part in value)
    ):
        language, country = (part.strip().replace("_", " ") for part in value)
        return language, country
    return None


def _literal(text: str) -> object:
    try:
        # Reads constants only; nothing is executed.
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _options(given: object, where: str, name: str, faults: Faults) -> tuple[str, ...] | None:
    value = _literal(given) if isinstance(given, str) else given
    if not isinstance(value, list | tuple) or len(value) != _OPTIONS:
        faults.add(f"{where} has the {name} {given!r}; it should be a list of {_OPTIONS} texts.")
        return None
    texts = [checked_text(option, where, name, faults) for option in value]
    if any(text is None or is_blank(text) for text in texts):
        faults.add(f"{where} has an empty text among its {name}.")
        return None
    return tuple(str(text).strip() for text in texts)


def _label(given: object, where: str, faults: Faults) -> int | None:
    label = int(given) if isinstance(given, str) and re.fullmatch(r"\s*-?[0-9]{1,9}\s*", given) else given
    if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < _OPTIONS:
        hidden = " The answers are hidden in early revisions of CVQA; take a later one." if label == -1 else ""
        faults.add(f"{where} has the Label {given!r}; it should be 0, 1, 2 or 3.{hidden}")
        return None
    return label
