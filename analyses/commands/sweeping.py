"""``workbench sweep`` and ``workbench diagnose``."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from analyses.base import Analysis
from analyses.cli.options import CorpusOptions, TowerOptions
from analyses.commands.common import (
    as_text,
    corpus_of,
    parse_depths,
    print_json,
    split_words,
    start,
    tell_truncated,
    tower_of,
    wanted_languages,
    write_frame,
)
from interventions.by_name import default_names, interventions_by_name
from workbench.corpora.base import Corpus
from workbench.corpora.loading import corpus_languages
from workbench.errors import InputError
from workbench.intervention import Intervention
from workbench.languages import tier_map as resolve_tier_map
from workbench.runs import Run
from workbench.sweep_frame import SweepSettings
from workbench.sweeps import SweepResult, make_settings, sweep
from workbench.towers.base import Tower


@dataclass(frozen=True)
class SweepOptions:
    """What is swept, as it was typed."""

    depths: str
    interventions: str | None
    source: str
    seed: int
    batch_size: int | None
    out: Path | None


def _request(
    tower_options: TowerOptions, corpus_options: CorpusOptions, options: SweepOptions
) -> tuple[Corpus, Tower, list[Intervention], dict[str, Any]]:
    """Load what is asked for; return it with the keyword arguments of a sweep."""
    _, tiers = resolve_tier_map(corpus_options.tier_map)
    if options.interventions is not None and options.source not in ("en", *re.split(r"[,:+]", options.interventions)):
        raise InputError(
            f"--source {options.source} came beside --interventions {options.interventions}: it says where the default "
            f"interventions take their rows from. Name it there, such as parallel:{options.source}."
        )
    names = (
        default_names(options.source, tiers, corpus_languages(corpus_options.corpus), corpus_options.pivot)
        if options.interventions is None
        else split_words(options.interventions, "--interventions")
    )
    chosen = interventions_by_name(names, tiers, wanted_languages(corpus_options))
    sources = tuple(dict.fromkeys(source for intervention in chosen for source in intervention.sources))
    corpus, languages = corpus_of(corpus_options, sources)
    tower = tower_of(tower_options)
    depths = parse_depths(options.depths, tower.n_blocks)
    arguments: dict[str, Any] = {
        "languages": languages,
        "depths": depths,
        "tier_map": corpus_options.tier_map,
        "protocol": corpus_options.protocol,
        "pivot": corpus_options.pivot,
        "seed": options.seed,
        "batch_size": options.batch_size,
    }
    return corpus, tower, chosen, arguments


def _sweep(
    command: str,
    tower_options: TowerOptions,
    corpus_options: CorpusOptions,
    options: SweepOptions,
    check: Callable[[SweepSettings], object] | None = None,
) -> tuple[SweepResult, Corpus, Run, Tower]:
    corpus, tower, chosen, arguments = _request(tower_options, corpus_options, options)
    settings = make_settings(tower, corpus, chosen, **arguments)
    if check:
        check(settings)
    run = start(
        command, tower, corpus, tower_options, corpus_options, options.out, source=options.source, **settings.describe()
    )
    result = sweep(tower, corpus, chosen, run=run, progress=True, **arguments)
    write_frame(run, result.frame)
    run.finish({"notes": result.notes})
    return result, corpus, run, tower


def run_sweep(tower_options: TowerOptions, corpus_options: CorpusOptions, options: SweepOptions, as_json: bool) -> None:
    """``workbench sweep``."""
    from analyses.checkpoint import checkpoint_table

    result, _, run, tower = _sweep("sweep", tower_options, corpus_options, options)
    truncated = _truncated(result)
    table = checkpoint_table(result.frame)
    if as_json:
        print_json({"run": str(run.folder), "tower": tower.name, "rows": len(result.frame), "truncated": truncated})
        return
    _print_checkpoint(table, result)
    typer.echo(f"Numbers: {run.folder / 'results.parquet'}")


def plan_diagnosis(
    tower_options: TowerOptions, corpus_options: CorpusOptions, options: SweepOptions, as_json: bool
) -> None:
    """``workbench diagnose --plan``."""
    from analyses.diagnosis.power import images_needed, pilot_of, power_table, smallest_gap
    from workbench.planning import sweep_memory, sweep_seconds

    corpus, tower, chosen, arguments = _request(tower_options, corpus_options, options)
    settings = make_settings(tower, corpus, chosen, **arguments)
    pilot = pilot_of(tower, corpus, settings.tiers, settings.gallery)
    sources = len({source for intervention in chosen for source in intervention.sources})
    memory = sweep_memory(tower, len(corpus), len(chosen), sources, len(settings.depths))
    tokens = tower.tokenize(corpus.texts(settings.languages[0], settings.protocol)[0], settings.languages[0])
    seconds = sweep_seconds(tower, tokens, chosen, settings.depths, len(settings.languages))
    shown = smallest_gap(pilot, len(corpus))
    if as_json:
        print_json(
            {
                "images": len(corpus),
                "smallest_gap_seen": shown,
                "images_needed": {f"{gap:g}": images_needed(pilot, gap) for gap in (2.0, 5.0, 10.0, 20.0)},
                "tests": pilot.tests,
                "spread": pilot.largest,
                "pilot_images": pilot.n,
                "seconds": round(seconds, 1),
                "memory_gib": round(memory.gib, 2),
            }
        )
        return
    typer.echo(
        f"Pilot: {pilot.n} images, {pilot.tests} tests (languages × directions), spread {pilot.largest:.0f} points\n"
        f"With {len(corpus):,} images a gap of {shown:.1f} points of R@1 is seen with 80 % power.\n\n"
        f"{as_text(power_table(pilot))}\n\n"
        f"This run: about {seconds:.0f} s of sweeping and {memory.range_gib}, for {len(settings.languages)} "
        f"languages, {len(settings.depths)} depths and {len(chosen)} interventions on {tower.name}."
    )


def run_diagnose(
    tower_options: TowerOptions, corpus_options: CorpusOptions, options: SweepOptions, as_json: bool
) -> None:
    """``workbench diagnose``."""
    from analyses.diagnosis import check_settings, diagnose
    from analyses.page import write_page

    result, corpus, run, tower = _sweep("diagnose", tower_options, corpus_options, options, check_settings)
    verdict = diagnose(result, corpus, tower)
    page = write_page(run, result, corpus, verdict, tower)
    if as_json:
        print_json(
            {
                "verdict": verdict.kind,
                "sentence": verdict.sentence,
                "languages": list(verdict.languages),
                "onset_depth": verdict.numbers["onset_depth"],
                "evidence": verdict.numbers,
                "run": str(run.folder),
                "report": str(page.report),
                "truncated": _truncated(result),
            }
        )
        return
    _print_checkpoint(page.checkpoint, result)
    typer.echo(verdict.sentence)
    for label, text in verdict.evidence:
        typer.echo(f"  {label}: {text}")
    typer.echo(f"\nReport: {page.report}")


def _truncated(result: SweepResult) -> dict[str, int]:
    notes: Mapping[str, Any] = result.notes["languages"]
    found = {language: note["truncated_captions"] for language, note in notes.items()}
    tell_truncated(found)
    return found


def _print_checkpoint(checkpoint: Analysis, result: SweepResult) -> None:
    """Print the checkpoint table, narrow enough for a terminal; the report and the Parquet have the intervals."""
    names = [i.name for i in result.settings.interventions if i.name in checkpoint.table]
    columns = ["language", "tier", "frozen", *(c for c in map(str, checkpoint.table) if c.endswith(" itself")), *names]
    depth, n = checkpoint.table["depth"].iloc[0], len(next(iter(result.cells.values())).clean("i2t").better)
    title = f"Image-to-text R@1 in percent, frozen and patched at depth {depth} (block {depth - 1}), {n:,} images"
    typer.echo(f"{title}\n\n{as_text(checkpoint.table[columns])}\n")
