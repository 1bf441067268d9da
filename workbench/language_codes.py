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

Users and files spell a language in more ways: ``EN``, ``iw``, ``zh-hans``, ``pt-BR``, ``swa_Latn``. :func:`recognise`
finds the bench's code where there is exactly one that can be meant, and :func:`own_codes` does so for all names of a
file and refuses two spellings of one language.
"""

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from types import MappingProxyType

from workbench.errors import InputError, suggest
from workbench.files import check_name

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


# ISO 639-2 and 639-3 where FLORES-200 has another part of the language, or the bibliographic code differs.
_THREE_LETTERS = {
    "ara": "ar", "arb": "ar", "fas": "fa", "per": "fa", "swa": "sw", "nor": "no", "aze": "az", "lav": "lv",
    "mlg": "mg", "mon": "mn", "msa": "ms", "may": "ms", "nep": "ne", "ori": "or", "orm": "om", "pus": "ps",
    "sqi": "sq", "alb": "sq", "uzb": "uz", "yid": "yi", "zho": "zh", "chi": "zh", "cmn": "zh", "kur": "ku",
    "ger": "de", "fre": "fr", "dut": "nl", "gre": "el", "rum": "ro", "cze": "cs", "slo": "sk", "arm": "hy",
    "baq": "eu", "bur": "my", "geo": "ka", "ice": "is", "mac": "mk", "mao": "mi", "tib": "bo", "wel": "cy",
}  # fmt: skip
# Tosk Albanian by ISO, Alemannic by BabelNet: alone it could be either.
_AMBIGUOUS = ("als",)
_TAG = re.compile(r"([a-z]{2,3})(?:-([a-z]{4}))?(?:-([a-z]{2}|\d{3}))?")
_TRADITIONAL = ("tw", "hk", "mo")
# Of these the table tells parts apart that are spoken in different countries: a region may mean another language.
_BY_REGION = ("ar", "az", "fa", "ku", "mn", "pa", "qu", "uz")


def _fold(code: str) -> str:
    return code.strip().replace("_", "-").lower()


@lru_cache(maxsize=1)
def _folded() -> Mapping[str, str]:
    return MappingProxyType({_fold(spelling): own for spelling, own in _spellings().items()})


@lru_cache(maxsize=1)
def _by_script() -> Mapping[tuple[str, str], str]:
    """Language of three letters and script to the bench's code, by the codes of FLORES-200 and NLLB-200."""
    found: dict[tuple[str, str], str] = {}
    for row in languages().values():
        # What NLLB is prompted with is the language's own code only where FLORES has the language too.
        for code in (row.benchmarks.get("flores"), row.nllb if row.exact else None):
            if code:
                found.setdefault((code[:3], code[4:].lower()), row.code)
    return MappingProxyType(found)


@lru_cache(maxsize=1)
def _three_letters() -> Mapping[str, str]:
    by_part: dict[str, set[str]] = {}
    for (part, _), own in _by_script().items():
        by_part.setdefault(part, set()).add(own)
    alone = {part: min(own) for part, own in by_part.items() if len(own) == 1 and part not in _AMBIGUOUS}
    return MappingProxyType({**alone, **_THREE_LETTERS})


def recognise(code: str) -> str | None:
    """Return the bench's code for a language, however it is spelt, or None where that is not sure.

    Known are the codes of the bench and of FLORES-200, deprecated ones and aliases (``iw``, ``nb``, ``tl``), ISO 639
    with three letters (``swh``, ``deu``), in upper or lower case, with ``-`` or ``_``, with a script or a region
    (``zh-hans``, ``zh-TW``, ``pt-BR``). Two languages, or one in two scripts that the table tells apart, never get one
    code.
    """
    if code in _spellings():
        return _spellings()[code]
    folded = _fold(code)
    if folded in _folded():
        return _folded()[folded]
    tag = _TAG.fullmatch(folded)
    if tag is None:
        return None
    part, script, region = tag.groups()
    own = _folded().get(part) or _three_letters().get(part)
    if own == "zh" and not script and region in _TRADITIONAL:
        script = "hant"
    if not script:
        return None if region and own in _BY_REGION else own
    # Of `own` FLORES may have another part of three letters than was given: swa_Latn is swh_Latn.
    row = languages().get(own or "")
    parts = [part, (row.benchmarks.get("flores") or "")[:3] if row else ""]
    return next((found for p in parts if (found := _by_script().get((p, script)))), None)


def is_column_name(name: str) -> bool:
    """Whether a column that is called so holds captions: ISO 639 with three letters is too like a word (``cat``)."""
    return recognise(name) is not None and not (_fold(name) in _three_letters() and _fold(name) not in _folded())


def own_code(given: object, what: str = "A language") -> str:
    """Return the bench's code of a language, or the user's own label without blanks around it.

    Raises
    ------
    InputError
        If it can't be the name of a language: files are named after it.
    """
    if isinstance(given, str):
        return recognise(given) or check_name(given.strip(), what, ".safetensors")
    return check_name(given, what)


def own_codes(given: Iterable[object], what: str, scheme: str | None = None) -> dict[str, str]:
    """Return ``{as it was given: code of the bench}`` for the languages that one file names.

    Parameters
    ----------
    given : iterable of str
    what : str
        How an error names the file.
    scheme : str, optional
        Of :data:`SCHEMES`, where the file's codes are a benchmark's first of all.

    Raises
    ------
    InputError
        If one can't be the name of a language, or two are spellings of one.
    """
    found: dict[str, str] = {}
    first: dict[str, str] = {}
    benchmark = scheme_codes(scheme) if scheme else {}
    for language in given:
        own = benchmark.get(str(language)) or own_code(language, f"A language of {what}")
        other = first.setdefault(own, str(language))
        if other != language:
            raise InputError(
                f"{what} spells one language in two ways, {other!r} and {language!r}: both are {own!r} "
                f"({english_name(own)}). Write it in one way; if they differ, give one a label of your own."
            )
        found[str(language)] = own
    return found


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
