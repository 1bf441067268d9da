"""What a paper used, by the paper's short name: ``--preset s3`` fills the options that were not typed.

The words of the table are those of the options. Where a value hangs on the tower or the corpus it is a function of
what was asked for. A run's manifest holds the preset's name and every value, as if it had been typed.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from workbench.errors import InputError, suggest

log = logging.getLogger("workbench")

Options = Mapping[str, Any]


def _trunk(asked: Options) -> str | None:
    """M of a tower, as S3 and its model cards print it; the bench's own default for all others."""
    from analyses.published_values import published_rows, tower_name

    rows = [row for row in published_rows("s3_published.csv") if row["key"] == "trunk_M"]
    return {row["encoder"]: row["value"] for row in rows}.get(tower_name(str(asked["tower"])))


def _images(asked: Options) -> int | None:
    """The first 1,000 images; of XM3600 the subset that stands for the paper's says so itself."""
    return None if _of_xm3600(asked) or asked.get("subset") else 1000


def _subset(asked: Options) -> str | None:
    return "xm3600-1k" if _of_xm3600(asked) and asked.get("limit") is None else None


def _of_xm3600(asked: Options) -> bool:
    return str(asked["corpus"]).split(":", 1)[0] == "xm3600"


_S3: Options = {"tier_map": "s3", "limit": _images, "subset": _subset}
_S3_FIRST: Options = {**_S3, "protocol": "first"}
_S3_SWEEP: Options = {
    **_S3_FIRST,
    "depths": "all",
    # S3-50 to S3-57: two sources and a mean over six, five derangements, noise of the row's norm, a middle token.
    "interventions": "parallel:en,mean:en+fr+de+es+zh+ko,parallel:fr,random:en:5,noise,mid:en",
}

PRESETS: dict[str, dict[str, Options]] = {
    "s3": {
        "diagnose": _S3_SWEEP,
        "sweep": _S3_SWEEP,
        "capture": {**_S3_FIRST, "depths": "all"},
        "score": {**_S3_FIRST, "metrics": "R@1,R@5,R@10", "pools": "language"},
        "geometry": {**_S3, "source": "en", "depth": _trunk},
        # The ranks are the paper's 12, 64 and 128 already, as far as a tower's width and the sample hold them.
        "erase": {**_S3, "cross_fit": 5},
    },
    "s0": {
        "score": {"tier_map": "s0", "protocol": "all", "pools": "mixed", "metrics": "Acc@5,NDCG-list@10"},
        "prevalence": {"tier_map": "s0", "protocol": "all", "prior": "half"},
        "association": {"limit": None},  # every trial; of a tie the first candidate, as here
    },
}


def fill(command: str, asked: Options, typed: Collection[str]) -> dict[str, Any]:
    """Return the options of a command with those of its preset, if one was asked for.

    Parameters
    ----------
    command : str
        Its name; of ``bias prevalence`` the last word.
    asked : mapping
        All options, typed or default; ``preset`` among them.
    typed : collection of str
        Those that were typed: they win.

    Raises
    ------
    InputError
        If there is no such preset, or it says nothing of this command.
    """
    asked = _beside_planted(asked, typed)
    name = asked.get("preset")
    if name is None:
        return dict(asked)
    if name not in PRESETS:
        raise InputError(f"There is no preset {name!r}.{suggest(name, PRESETS)} Presets: {', '.join(PRESETS)}.")
    if command not in PRESETS[name]:
        raise InputError(
            f"The preset {name!r} has nothing for {command!r}: that paper did nothing of the kind. It has values for "
            f"{', '.join(PRESETS[name])}."
        )
    found = dict(asked)
    for option, value in PRESETS[name][command].items():
        if option not in typed:
            chosen = value(found) if isinstance(value, Callable) else value
            found[option] = found.get(option) if chosen is None else chosen
    said = ", ".join(
        f"--{option.replace('_', '-')} {found[option]}{' (typed)' if option in typed else ''}"
        for option in PRESETS[name][command]
        if found[option] is not None
    )
    log.info("preset %s: %s", name, said or "what the options are without it")
    return found


def _beside_planted(asked: Options, typed: Collection[str]) -> Options:
    """Bring the corpus and the tiers of the labels in which a planted tower has its fault; typed ones stay."""
    if not str(asked.get("tower", "")).startswith("planted-") or "tier_map" not in asked:
        return asked
    from workbench.towers.planted import LABELS, parse_planted

    if not set(parse_planted(str(asked["tower"]))[1].labels) & set(LABELS):
        return asked  # planted in languages of the user's own corpus
    own = {option: value for option, value in _PLANTED.items() if option not in typed}
    if "corpus" in typed and asked["corpus"] != _PLANTED["corpus"]:
        return asked
    if own:
        log.info("a planted tower: %s", ", ".join(f"--{o.replace('_', '-')} {v}" for o, v in own.items()))
    return {**asked, **own}


_PLANTED = {"corpus": "emoji-pseudo", "tier_map": "pseudo"}
