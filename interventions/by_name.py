"""Interventions by a short name, for the command line: ``parallel:en,mean:HRL,random:en,noise,mid:en``."""

import re
from collections.abc import Collection, Mapping, Sequence

from workbench.errors import InputError, suggest
from workbench.intervention import Intervention
from workbench.language_codes import own_code

HELP = (
    "parallel:LANG (the same caption's row in LANG), mean:LANG+LANG or mean:TIER (mean over languages), "
    "random:LANG (another caption's row) or random:LANG:DRAWS (the mean over so many draws), "
    "noise or noise:matched (Gaussian of the row's norm), "
    "mid:LANG (the middle token instead of the pooled one), token:LANG or token:LANG:K (a random content token, or "
    "number K), erase:leace, erase:inlp-RANK or erase:random-RANK "
    "(the language erased from the pooled row)"
)
_KINDS = ("parallel", "mean", "random", "noise", "mid", "token", "erase")


def default_names(
    source: str, tiers: Mapping[str, str], available: Collection[str], pivot: str | None = None
) -> list[str]:
    """Return the five interventions of a diagnosis: two patches and three controls.

    Parameters
    ----------
    source : str
        Language that works.
    tiers : mapping of str to str
        Tier of each language; the mean is taken over the tier of the source.
    available : collection of str
        Languages of the corpus. A tier with fewer than two of them has no mean.
    pivot : str, optional
        Language whose captions are the gallery; it can be no source.
    """
    source, pivot = own_code(source), pivot and own_code(pivot)
    own = tiers.get(source)
    members = [code for code, tier in tiers.items() if tier == own and code in available and code != pivot]
    mean = [f"mean:{'+'.join(members)}"] if len(members) > 1 else []
    return [f"parallel:{source}", *mean, f"random:{source}", "noise", f"mid:{source}"]


def interventions_by_name(
    names: Sequence[str], tiers: Mapping[str, str], languages: Sequence[str] = ()
) -> list[Intervention]:
    """Make interventions from their short names.

    Parameters
    ----------
    names : sequence of str
    tiers : mapping of str to str
        What ``mean:TIER`` refers to.
    languages : sequence of str
        What an eraser is fitted on.

    Raises
    ------
    InputError
        If a name is unknown or lacks its language.
    """
    if not names:
        raise InputError(f"No intervention was named. Use {HELP}.")
    return [one for name in names for one in _several(name.strip(), tiers, tuple(languages))]


def _several(name: str, tiers: Mapping[str, str], languages: tuple[str, ...]) -> list[Intervention]:
    from interventions.controls import random_draws

    kind, _, rest = name.partition(":")
    source, colon, draws = rest.partition(":")
    if kind != "random" or not colon:
        return [_make(name, tiers, languages)]
    if not (re.fullmatch("[0-9]{1,4}", draws) and 2 <= int(draws) <= 1000):
        raise InputError(
            f"The intervention {name!r} needs a number of draws from 2 to 1000, such as random:{source}:5."
        )
    return [*random_draws(own_code(source, f"The language of {name!r}"), int(draws))]


def _make(name: str, tiers: Mapping[str, str], languages: tuple[str, ...]) -> Intervention:
    from interventions.controls import ContentToken, MidToken, NormMatchedNoise, RandomEOS
    from interventions.eos_patch import MeanEOS, ParallelEOS

    kind, _, rest = name.partition(":")
    if kind not in _KINDS:
        raise InputError(f"There is no intervention {name!r}.{suggest(kind, _KINDS)} Use {HELP}.")
    if kind == "noise":
        if rest not in ("", "isotropic", "matched"):
            raise InputError(f"There is no noise {rest!r}. Use noise or noise:matched.")
        return NormMatchedNoise("matched" if rest == "matched" else "isotropic")
    if kind == "erase":
        return _eraser(name, rest, languages)
    if not rest:
        raise InputError(f"The intervention {name!r} needs a language, such as {kind}:en.")
    if kind == "mean":
        members = tuple(language for language, tier in tiers.items() if tier == rest.strip())
        named = members or tuple(own_code(part, f"A language of {name!r}") for part in rest.split("+"))
        if len(set(named)) < len(named):
            raise InputError(f"The intervention {name!r} names a language twice ({', '.join(named)}). Name each once.")
        return MeanEOS(named)
    if kind == "token":
        source, _, place = rest.partition(":")
        if place and not re.fullmatch(r"-?[0-9]{1,9}", place):
            raise InputError(f"The intervention {name!r} needs a number, such as token:en:0 or token:en:-1.")
        source = own_code(source, f"The language of {name!r}")
        return ContentToken(source, int(place) if place else "random")
    source = own_code(rest, f"The language of {name!r}")
    return {"parallel": ParallelEOS, "random": RandomEOS, "mid": MidToken}[kind](source)


def _eraser(name: str, rest: str, languages: tuple[str, ...]) -> Intervention:
    from interventions.erase_rows import Erase
    from interventions.erasers import INLP, LEACE, RandomAblation

    kind, _, rank = rest.partition("-")
    languages = tuple(own_code(language, "A language of --languages") for language in languages)
    if kind == "leace" and not rank:
        return Erase(LEACE(), languages)
    if kind not in ("inlp", "random") or not re.fullmatch("[0-9]{1,9}", rank):
        raise InputError(f"There is no eraser {name!r}. Use erase:leace, erase:inlp-RANK or erase:random-RANK.")
    return Erase(INLP(int(rank)) if kind == "inlp" else RandomAblation(int(rank)), languages)
