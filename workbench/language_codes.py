"""One language, many codes: a table of what each benchmark and each model calls it.

A benchmark's code is for reading its files; a model's code is what a language-conditioned tokeniser is
prompted with. Neither can be made from the other: Babel-ImageNet's ``ALS`` is Alemannic while FLORES-200's
``als_Latn`` is Albanian, Filipino is ``fil``, ``TL`` and ``tgl_Latn``, and NLLB asks for ``sat_Beng`` where
FLORES-200 writes ``sat_Olck``. So both are looked up, in ``language_codes.csv`` beside this module.

The bench itself calls a language by its Crossmodal-3600 code where it has one, else by its ISO 639-1 code,
else by its FLORES-200 code; a tier map then fits every benchmark::

    bench_code("swh_Latn", "flores")   # 'sw'
    model_code("sw")                   # 'swh_Latn'
    model_code("quz")                  # 'quy_Latn': the nearest that NLLB knows
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from types import MappingProxyType

from workbench.errors import InputError, suggest

SCHEMES = ("flores", "xm3600", "xtd10", "babel_imagenet", "cvqa")
"""Columns of the table that are codes of a benchmark. Flickr30k-200, XTD-200 and FLORES-200 share ``flores``."""


@dataclass(frozen=True)
class Codes:
    """What a benchmark and a language-conditioned model call one language.

    Attributes
    ----------
    benchmark : str
        As the benchmark's files write it.
    model : str or None
        NLLB-200 code; None where NLLB has no such language.
    """

    benchmark: str
    model: str | None


@dataclass(frozen=True)
class Language:
    """A row of the table.

    Attributes
    ----------
    code : str
        The bench's own.
    english : str
        English name.
    nllb : str or None
        The code that NLLB-200 is prompted with, or the nearest that it has; see :attr:`exact`.
    benchmarks : mapping of str to str
        Scheme (:data:`SCHEMES`) to the code there.
    aliases : tuple of str
        Older or common codes that mean the same.
    """

    code: str
    english: str
    nllb: str | None
    benchmarks: Mapping[str, str]
    aliases: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether NLLB's code is for this very language, and not for its nearest relative."""
        return self.nllb is not None and "flores" in self.benchmarks


@lru_cache(maxsize=1)
def languages() -> Mapping[str, Language]:
    """Return the whole table, by the bench's code."""
    text = resources.files("workbench").joinpath("language_codes.csv").read_text("utf-8")
    found = {}
    for row in csv.DictReader(text.splitlines()):
        found[row["code"]] = Language(
            code=row["code"],
            english=row["english"],
            nllb=row["nllb"] or None,
            benchmarks=MappingProxyType({scheme: row[scheme] for scheme in SCHEMES if row[scheme]}),
            aliases=tuple(row["aliases"].split()),
        )
    return MappingProxyType(found)


@lru_cache(maxsize=len(SCHEMES))
def scheme_codes(scheme: str) -> Mapping[str, str]:
    """Return ``{code of a benchmark: code of the bench}``.

    Raises
    ------
    InputError
        If no scheme has that name.
    """
    if scheme not in SCHEMES:
        raise InputError(
            f"There is no code scheme {scheme!r}.{suggest(scheme, SCHEMES)} Schemes: {', '.join(SCHEMES)}."
        )
    return MappingProxyType(
        {row.benchmarks[scheme]: row.code for row in languages().values() if scheme in row.benchmarks}
    )


def bench_code(code: str, scheme: str) -> str:
    """Return the bench's code for a benchmark's, or the code itself where the table has no such language."""
    return scheme_codes(scheme).get(code, code)


def benchmark_code(code: str, scheme: str) -> str | None:
    """Return a benchmark's code for the bench's, or None where the benchmark has no such language."""
    scheme_codes(scheme)
    row = languages().get(code)
    return row.benchmarks.get(scheme) if row else None


@lru_cache(maxsize=1)
def _spellings() -> Mapping[str, str]:
    # The bench's own codes go in last: nothing may rename one of them.
    found: dict[str, str] = {}
    for row in languages().values():
        for spelling in (*row.aliases, row.benchmarks.get("flores", "")):
            if spelling:
                found.setdefault(spelling, row.code)
    return MappingProxyType({**found, **{code: code for code in languages()}})


def recognise(code: str) -> str | None:
    """Return the bench's code for one of the bench, of FLORES-200 or an alias (``iw``, ``nb``, ``tl``), or None."""
    return _spellings().get(code)


def find_language(code: str) -> Language | None:
    """Return the row of a language by any code that :func:`recognise` knows, or None."""
    own = recognise(code)
    return None if own is None else languages()[own]


def model_code(code: str) -> str:
    """Return the NLLB-200 code to prompt a language-conditioned tokeniser with.

    Parameters
    ----------
    code : str
        Code of the bench, of FLORES-200, or an alias.

    Raises
    ------
    InputError
        If the language is unknown, or NLLB-200 has neither it nor a near relative.
    """
    row = find_language(code)
    if row is None:
        raise InputError(
            f"The table of language codes has no {code!r}.{suggest(code, _spellings())} A language-conditioned tower "
            "needs an NLLB-200 code, such as 'swh_Latn'."
        )
    if row.nllb is None:
        raise InputError(
            f"NLLB-200 has no code for {row.english} ({code!r}), so a language-conditioned tower can't be told to read "
            "it. Leave the language out for this tower."
        )
    return row.nllb


def codes_of(code: str, scheme: str | None = None) -> Codes:
    """Return both codes of a language of the bench: a benchmark's, by its scheme, and the model's."""
    row = find_language(code)
    if row is None:
        return Codes(code, None)
    return Codes(row.benchmarks.get(scheme, code) if scheme else code, row.nllb)


def english_name(code: str) -> str:
    """Return the English name of a language, or the code where the table has none."""
    row = find_language(code)
    return row.english if row else code
