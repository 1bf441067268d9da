"""What every command does first and last: find the tower and the corpus, and print."""

import json
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analyses.cli.options import CorpusOptions, LoadOptions, TowerOptions
from workbench.corpora.base import Corpus, check_protocol
from workbench.corpora.loading import corpus_languages, load_corpus
from workbench.errors import InputError
from workbench.languages import tier_map as resolve_tier_map
from workbench.towers import load_tower

if TYPE_CHECKING:
    import pandas as pd

    from workbench.towers.base import Tower


def parse_depths(text: str, n_blocks: int) -> list[int]:
    """Read ``"all"`` or such as ``"0,4-8,N-3,N"``.

    Raises
    ------
    InputError
        If a part is no depth of a tower with so many blocks.
    """
    legal = f"Depths run from 0 to {n_blocks}: 'all', or such as 0,4-8,N-3,N."
    if text.strip().lower() == "all":
        return list(range(n_blocks + 1))
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(N-\d+|N|\d+)(?:\s*(?:-|…|\.\.)\s*(N-\d+|N|\d+))?\s*", part, re.IGNORECASE)
        if match is None:
            raise InputError(f"{part!r} is no depth. {legal}")
        ends = [_depth(word, n_blocks) for word in match.groups() if word]
        for depth in ends:
            if not 0 <= depth <= n_blocks:
                raise InputError(f"There is no depth {part.strip()} in a tower of {n_blocks} blocks. {legal}")
        if ends[0] > ends[-1]:
            raise InputError(f"{part!r} runs backwards. {legal}")
        found |= set(range(ends[0], ends[-1] + 1))
    return sorted(found)


def _depth(word: str, n_blocks: int) -> int:
    if word[0] in "Nn":
        return n_blocks - int(word[2:] or 0)
    return int(word)


def split_words(text: str, what: str) -> list[str]:
    """Split an option at its commas.

    Raises
    ------
    InputError
        If nothing is in it.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise InputError(f"{what} is empty. Give codes with commas between, such as en,sw.")
    return words


def tower_of(options: TowerOptions) -> "Tower":
    """Load the tower that was asked for."""
    return load_named(options.tower, options)


def load_named(name: str, options: LoadOptions) -> "Tower":
    """Load a tower by its name, with the options that were typed."""
    extra = {key: getattr(options, key) for key in ("pooling", "prefix", "images")}
    return load_tower(
        name,
        revision=options.revision,
        dtype=options.dtype,
        device=options.device,
        device_map=options.device_map,
        remote_code=options.remote_code,
        **{key: value for key, value in extra.items() if value is not None},
    )


def wanted_languages(options: CorpusOptions) -> list[str]:
    """Return the languages that were asked for; the pivot, which is the gallery, only where it is named."""
    known = corpus_languages(options.corpus)
    if options.languages not in ("all", "tiers"):
        return split_words(options.languages, "--languages")
    _, tiers = resolve_tier_map(options.tier_map)
    wanted = list(known) if options.languages == "all" else [language for language in tiers if language in known]
    if not wanted:
        raise InputError(
            f"None of the languages of the tier map {options.tier_map!r} ({', '.join(tiers)}) is in "
            f"{options.corpus!r} ({', '.join(known)}). Name some with --languages."
        )
    return [language for language in wanted if language != options.pivot]


def benchmark_options(options: CorpusOptions) -> dict[str, Any]:
    """Return what was said of a benchmark beside its name."""
    return {
        **({"subset": options.subset} if options.subset else {}),
        **({"with_images": False} if options.no_images else {}),
    }


def corpus_of(options: CorpusOptions, sources: tuple[str, ...] = ()) -> tuple[Corpus, list[str]]:
    """Load the corpus with the wanted languages, the sources and the pivot; return it and the wanted ones."""
    wanted = wanted_languages(options)
    pivot = (options.pivot,) if options.pivot else ()
    corpus = load_corpus(
        options.corpus,
        list(dict.fromkeys([*wanted, *sources, *pivot])),
        protocol=check_protocol(options.protocol),
        limit=options.limit,
        drop_incomplete=options.drop_incomplete,
        **benchmark_options(options),
    )
    return corpus, wanted


def as_text(table: "pd.DataFrame | list[dict[str, Any]]") -> str:
    """Return a table for a terminal."""
    import pandas as pd

    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)
    return frame.to_string(index=False, float_format=lambda x: f"{x:.1f}", na_rep="–")


def print_json(content: Mapping[str, Any]) -> None:
    """Print one JSON object."""
    json.dump(content, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")
