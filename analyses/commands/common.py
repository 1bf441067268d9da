"""What every command does first and last: find the tower and the corpus, and print."""

import json
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyses.cli.options import CorpusOptions, LoadOptions, TowerOptions
from workbench.corpora.base import Corpus, check_protocol
from workbench.corpora.loading import corpus_languages, load_corpus
from workbench.errors import InputError
from workbench.language_codes import own_code
from workbench.languages import tier_map as resolve_tier_map
from workbench.runs import SCHEMA, Run, default_folder
from workbench.towers import load_tower
from workbench.towers.base import describe_tower

if TYPE_CHECKING:
    import pandas as pd

    from workbench.towers.base import Tower

log = logging.getLogger("workbench")


def parse_depths(text: str, n_blocks: int) -> list[int]:
    """Read ``"all"``, depths such as ``"0,4-8,N-3,N"``, or blocks such as ``"block:N-4"`` or ``"l=N-4"``.

    A depth says how many blocks have run; papers number blocks from 0, and the output of block N-4 is depth N-3.

    Raises
    ------
    InputError
        If a part is no depth of a tower with so many blocks.
    """
    legal = (
        f"Depths run from 0 to {n_blocks}: 'all', or such as 0,4-8,N-3,N. Papers count blocks from 0: block:N-4 (or "
        "l=N-4) is the output of block N-4, which is depth N-3."
    )
    if text.strip().lower() == "all":
        return list(range(n_blocks + 1))
    found: set[int] = set()
    for part in text.split(","):
        block = re.match(r"\s*(?:block\s*[:=]?|[lℓ]\s*[:=])\s*", part, re.IGNORECASE)
        written = part[block.end() :] if block else part
        found.update(_read_depths(part, written, int(block is not None), n_blocks, legal))
    return sorted(found)


def one_depth(text: str, n_blocks: int) -> int:
    """Read a single depth, written as :func:`parse_depths` takes it."""
    found = parse_depths(text, n_blocks)
    if len(found) != 1:
        raise InputError(f"--depths is {text!r}, which is {len(found)} depths. Give one, such as 4 or N-20.")
    return found[0]


def _read_depths(part: str, written: str, shift: int, n_blocks: int, legal: str) -> range:
    """Read one part; ``shift`` is 1 where it numbers blocks, whose output is the next depth."""
    match = re.fullmatch(
        r"\s*(N-\d{1,6}|N|\d{1,6})(?:\s*(?:-|…|\.\.)\s*(N-\d{1,6}|N|\d{1,6}))?\s*", written, re.IGNORECASE | re.ASCII
    )
    if match is None:
        raise InputError(f"{part[:60]!r} is no depth. {legal}")
    ends = [_depth(word, n_blocks) + shift for word in match.groups() if word]
    for depth in ends:
        if not shift <= depth <= n_blocks:
            what = "block" if shift else "depth"
            raise InputError(f"There is no {what} {written.strip()} in a tower of {n_blocks} blocks. {legal}")
    if ends[0] > ends[-1]:
        raise InputError(f"{part!r} runs backwards. {legal}")
    return range(ends[0], ends[-1] + 1)


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
    return [language for language in wanted if options.pivot is None or language != own_code(options.pivot)]


def benchmark_options(options: CorpusOptions) -> dict[str, Any]:
    """Return what was said of a benchmark beside its name."""
    return {
        **({"subset": options.subset} if options.subset else {}),
        **({"with_images": False} if options.no_images else {}),
        **({"drop_incomplete": True} if options.drop_incomplete else {}),
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
        **benchmark_options(options),
    )
    return corpus, list(corpus.check_languages(wanted))


_PLACES = ("tower", "corpus", "images", "subset", "tier_map")
"""Options that say where something is; the manifest holds what was found there instead."""


def start(
    command: str,
    tower: "Tower",
    corpus: Any,
    tower_options: TowerOptions,
    corpus_options: CorpusOptions | None,
    out: Path | None,
    **asked: Any,
) -> Run:
    """Open the run directory of a command: one identity for all of them, and before any work.

    Parameters
    ----------
    command : str
    tower : Tower
    corpus : Corpus or another kind
        What it says of itself goes into the manifest.
    tower_options, corpus_options : TowerOptions, CorpusOptions
        As they were typed. A place (a path, a name) is left out, and what was found there stands for it.
    out : Path, optional
        Named after the question by default.
    **asked
        Every other option of the command that decides a number.
    """
    _check_planted(tower, corpus)
    typed = {
        field.name: getattr(options, field.name)
        for options in (tower_options, corpus_options)
        if options is not None
        for field in fields(options)
        if field.name not in _PLACES
    }
    if corpus_options is not None:
        name, tiers = resolve_tier_map(corpus_options.tier_map)
        typed["tier_map"] = {"name": name, "tiers": tiers}
    config = {"command": command, "tower": describe_tower(tower), "corpus": corpus.describe(), **typed, **asked}
    place = corpus.name if corpus_options is None else corpus_options.corpus
    run = Run(out or default_folder(command, tower_options.tower, place, config), config, begin=False)
    for reason, count in getattr(corpus, "left_out", {}).items():
        log.info("%s: %d images left out (%s)", corpus.name, count, reason)
    return run


def _check_planted(tower: "Tower", corpus: Any) -> None:
    """Refuse a planted tower on languages that its fault does not touch: nothing was planted in them."""
    fault = getattr(tower, "fault", None)
    if fault is None or fault.kind == "none" or set(fault.labels) & set(corpus.languages):
        return
    raise InputError(
        f"The fault of {tower.name!r} strikes {', '.join(fault.labels)} and none of the languages asked for "
        f"({', '.join(corpus.languages)}). Leave --corpus and --tier-map out, which brings emoji-pseudo with these "
        "labels, or name languages with labels=, such as planted-block-5:labels=sw."
    )


def truncation(tower: "Tower", texts: Mapping[str, Sequence[str]]) -> dict[str, dict[str, int]]:
    """Count the captions that are too long for a tower, for the manifest, and say so in one line.

    Parameters
    ----------
    tower : Tower
    texts : mapping of str to sequence of str
        By language.
    """
    if not tower.n_blocks:
        return {}
    found = {language: int(tower.tokenize(own, language).truncated.sum()) for language, own in texts.items() if own}
    tell_truncated(found)
    return {"truncated_captions": found}


def tell_truncated(found: Mapping[str, int]) -> None:
    """Say in one line how many captions of each language lost their end."""
    lost = ", ".join(f"{language} {count}" for language, count in found.items() if count)
    if lost:
        log.info("captions too long for the tower, cut at its last position: %s", lost)


def first_captions(corpus: Corpus, languages: Sequence[str], protocol: str = "first") -> dict[str, list[str]]:
    """Return the captions that are scored, by language."""
    return {language: corpus.texts(language, check_protocol(protocol))[0] for language in languages}


def refuse_unread(command: str, options: CorpusOptions, **instead: str) -> None:
    """Refuse options of the corpus that a command has no use for; taken and ignored, they would change nothing.

    Parameters
    ----------
    command : str
    options : CorpusOptions
    **instead
        By the name of an option that is not read: what the command does instead, as a clause.
    """
    for field in fields(options):
        if field.name in instead and getattr(options, field.name) != field.default:
            raise InputError(
                f"--{field.name.replace('_', '-')} {getattr(options, field.name)} came, and {command} "
                f"{instead[field.name]}. Leave the option out."
            )


def write_frame(run: Run, frame: "pd.DataFrame") -> None:
    """Write the tidy frame of a run."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), sink, compression="zstd")
    run.write_bytes("results.parquet", sink.getvalue().to_pybytes())


def as_text(table: "pd.DataFrame | list[dict[str, Any]]") -> str:
    """Return a table for a terminal."""
    import pandas as pd

    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)
    return frame.to_string(index=False, float_format=lambda x: f"{x:.1f}", na_rep="–")


def print_json(content: Mapping[str, Any]) -> None:
    """Print one JSON object, with the schema that it follows."""
    json.dump({"schema": SCHEMA, **content}, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")
