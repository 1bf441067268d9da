"""``diagnose``, ``sweep`` and ``capture``: the commands that run a tower's blocks."""

from typing import Annotated

import typer

from analyses.cli.options import (
    Batch,
    CorpusOptions,
    Depths,
    Json,
    Names,
    NeededOut,
    Out,
    Seed,
    Source,
    TowerOptions,
    grouped,
)


@grouped
def diagnose(
    tower: TowerOptions,
    corpus: CorpusOptions,
    depths: Depths = "all",
    interventions: Names = None,
    source: Source = "en",
    seed: Seed = 0,
    batch_size: Batch = None,
    out: Out = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only say how many images a gap takes, and what the run will cost.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say where a tower fails: a sweep with its controls, a verdict, and an interactive report.html."""
    from analyses.commands.sweeping import SweepOptions, plan_diagnosis, run_diagnose

    run = plan_diagnosis if plan else run_diagnose
    run(tower, corpus, SweepOptions(depths, interventions, source, seed, batch_size, out), as_json)


@grouped
def sweep(
    tower: TowerOptions,
    corpus: CorpusOptions,
    depths: Depths = "all",
    interventions: Names = None,
    source: Source = "en",
    seed: Seed = 0,
    batch_size: Batch = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Patch every language at every depth and write the numbers to results.parquet."""
    from analyses.commands.sweeping import SweepOptions, run_sweep

    run_sweep(tower, corpus, SweepOptions(depths, interventions, source, seed, batch_size, out), as_json)


@grouped
def capture(
    out: NeededOut,
    tower: TowerOptions,
    corpus: CorpusOptions,
    depths: Depths = "all",
    site: Annotated[str, typer.Option(help="pooled, middle, random, or 'token K': content token K.")] = "pooled",
    half: Annotated[bool, typer.Option("--float16", help="Store rows in float16.")] = False,
    batch_size: Batch = None,
    as_json: Json = False,
) -> None:
    """Write the pooled row of every caption at every depth, one safetensors file a language."""
    from analyses.commands.capturing import run_capture

    run_capture(tower, corpus, depths, site, half, batch_size, out, as_json)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: workbench diagnose --tower emoji-bidirectional --languages en,de,sw,te --limit 500")(
        diagnose
    )
    app.command(epilog="Example: workbench sweep --depths 0,N-3,N --interventions parallel:fr,random:fr --json")(sweep)
    app.command(epilog="Example: workbench capture --tower emoji-causal --languages en,sw --out rows/")(capture)
