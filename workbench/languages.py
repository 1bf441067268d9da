"""Languages: their codes, how much of the web they fill, and the tiers that papers sort them into.

A *tier map* gives each language of a study to a named tier. Papers disagree (Korean is high-resource
in one and low in another), so a map always has a name and no map is a default truth::

    tiers("s3")["sw"]      # 'LRL'
    tiers("s0")["ko"]      # 'Low'
    tier_map("my-tiers.json")

Codes are those of Crossmodal-3600: ISO 639-1 where it exists, ``fil`` and ``quz`` otherwise.
"""

import difflib
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from workbench.errors import InputError, suggest
from workbench.files import as_path
from workbench.language_codes import languages, own_codes, recognise
from workbench.parsing import load_file

log = logging.getLogger(__name__)

# Share of Common Crawl CC-MAIN-2025-18 in percent, and the tier (S0 table 3; S0-19).
_COMMON_CRAWL: dict[str, tuple[str, float]] = {
    "en": ("High", 43.9499), "ru": ("High", 5.7614), "de": ("High", 5.5691),
    "ja": ("Medium", 4.9152), "zh": ("Medium", 4.8778), "es": ("Medium", 4.5422),
    "fr": ("Medium", 4.3271), "it": ("Medium", 2.4060), "pt": ("Medium", 2.3369),
    "pl": ("Medium", 1.8744), "nl": ("Medium", 1.8083), "id": ("Medium", 1.1759),
    "tr": ("Medium", 1.1274), "cs": ("Medium", 1.0479), "vi": ("Medium", 1.0213),
    "ko": ("Low", 0.7865), "fa": ("Low", 0.7087), "sv": ("Low", 0.6736), "ar": ("Low", 0.6722),
    "ro": ("Low", 0.6374), "uk": ("Low", 0.6079), "el": ("Low", 0.5651), "hu": ("Low", 0.5082),
    "da": ("Low", 0.4792), "th": ("Low", 0.4269), "fi": ("Low", 0.3649), "no": ("Low", 0.3135),
    "he": ("Low", 0.2654), "hr": ("Low", 0.2339), "hi": ("Low", 0.2004), "bn": ("Low", 0.1064),
    "te": ("Low", 0.0213), "sw": ("Low", 0.0102), "fil": ("Low", 0.0084), "mi": ("Low", 0.0014),
    "quz": ("Low", 0.0005),
}  # fmt: skip

XM3600_LANGUAGES: tuple[str, ...] = tuple(sorted(_COMMON_CRAWL))
"""The 36 languages of Crossmodal-3600, in alphabetical order of their codes."""

COMMON_CRAWL_SHARE: Mapping[str, float] = MappingProxyType(
    {language: share for language, (_, share) in _COMMON_CRAWL.items()}
)
"""Percent of Common Crawl CC-MAIN-2025-18 written in each language (S0 table 3)."""

HRL_6 = ("en", "fr", "de", "es", "zh", "ko")
LRL_5 = ("bn", "fil", "hi", "sw", "te")

_TIER_MAPS: dict[str, dict[str, str]] = {
    "s3": {**dict.fromkeys(HRL_6, "HRL"), **dict.fromkeys(LRL_5, "LRL")},
    "s0": {language: tier for language, (tier, _) in _COMMON_CRAWL.items()},
    "pseudo": {"en": "HRL", "ok1": "HRL", "ok2": "HRL", "ok3": "HRL", "lo1": "LRL", "lo2": "LRL", "lo3": "LRL"},
}

ENGLISH_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "ar": "Arabic",
        "bn": "Bengali",
        "cs": "Czech",
        "da": "Danish",
        "de": "German",
        "el": "Greek",
        "en": "English",
        "es": "Spanish",
        "fa": "Persian",
        "fi": "Finnish",
        "fil": "Filipino",
        "fr": "French",
        "he": "Hebrew",
        "hi": "Hindi",
        "hr": "Croatian",
        "hu": "Hungarian",
        "id": "Indonesian",
        "it": "Italian",
        "ja": "Japanese",
        "ko": "Korean",
        "mi": "Māori",
        "nl": "Dutch",
        "no": "Norwegian",
        "pl": "Polish",
        "pt": "Portuguese",
        "quz": "Cusco Quechua",
        "ro": "Romanian",
        "ru": "Russian",
        "sv": "Swedish",
        "sw": "Swahili",
        "te": "Telugu",
        "th": "Thai",
        "tr": "Turkish",
        "uk": "Ukrainian",
        "vi": "Vietnamese",
        "zh": "Chinese",
    }
)


def tiers(name: str) -> dict[str, str]:
    """Return a published tier map, ``{language: tier}``.

    Parameters
    ----------
    name : {"s3", "s0", "pseudo"}
        ``"s3"`` is HRL-6 and LRL-5 (S3-07, S3-08); ``"s0"`` is High, Medium and Low by Common Crawl
        share (S0-19); ``"pseudo"`` are the labels of the corpus emoji-pseudo.

    Raises
    ------
    InputError
        If no map has that name.
    """
    try:
        return dict(_TIER_MAPS[name])
    except KeyError:
        raise InputError(
            f"No tier map is called {name!r}.{suggest(name, _TIER_MAPS)} Maps: "
            f"{', '.join(_TIER_MAPS)}. A JSON file {{language: tier}} works too."
        ) from None


def tier_map(name_or_path: str | Path | Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Resolve a tier map: a published name, a JSON file ``{language: tier}``, or a mapping.

    Returns
    -------
    tuple of str and dict
        The map's name (a file's stem, ``"custom"`` for a mapping) and the map.
    """
    if isinstance(name_or_path, Mapping):
        return "custom", _checked(dict(name_or_path), "The tier map")
    path = as_path(name_or_path, "The tier map")
    if path.suffix == ".json":
        if not path.is_file():
            raise InputError(f"There is no tier map file {str(path)!r}.")
        what = f"The tier map {str(path)!r}"
        return path.stem, _checked(load_file(path, what), what)
    return str(name_or_path), tiers(str(name_or_path))


def say_tiers(name: str, tiers: Mapping[str, str], languages: Iterable[str]) -> None:
    """Log what a tier map names and a run lacks, and the reverse: neither takes part in a comparison of tiers.

    Parameters
    ----------
    name : str
        Of the map. One that is published names languages that few corpora have, so only one's own is held to it.
    tiers : mapping of str to str
    languages : iterable of str
        Of the run.
    """
    there = list(languages)
    absent = [] if name in _TIER_MAPS else [language for language in tiers if language not in there]
    if absent:
        log.info("%s", f"The tier map {name!r} names {', '.join(map(_guessed, absent))}: not among the languages here.")
    bare = [language for language in there if language not in tiers]
    if bare:
        log.info("%s", f"The tier map {name!r} gives no tier to {', '.join(bare)}, which count in no tier.")


def _guessed(code: str) -> str:
    if recognise(code) is not None:
        return code
    near = difflib.get_close_matches(code.lower(), list(languages()), n=1, cutoff=0.5)
    return f"{code} (a code of no language known here; {near[0]}?)" if near else code


def _checked(content: object, what: str) -> dict[str, str]:
    legal = 'It must map language codes to tier names, such as {"en": "HRL", "sw": "LRL"}.'
    if not isinstance(content, dict) or not content:
        raise InputError(f"{what} is not a filled JSON object. {legal}")
    for language, tier in content.items():
        if not (isinstance(language, str) and isinstance(tier, str) and tier.strip()):
            raise InputError(f"{what} gives {language!r} the tier {tier!r}. {legal}")
    own = own_codes(content, what)
    return {own[language]: tier.strip() for language, tier in content.items()}
