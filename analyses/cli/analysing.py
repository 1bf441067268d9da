"""``score``, ``geometry``, ``erase``, ``bias``, ``compare`` and ``export``: rows and outputs, without a patch."""

from pathlib import Path
from typing import Annotated

import typer

from analyses.cli.options import CorpusOptions, Json, OneDepth, Out, Seed, Source, TowerOptions, grouped

bias = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)

Run = Annotated[Path, typer.Argument(help="Folder of a run.")]


@grouped
def score(
    tower: TowerOptions,
    corpus: CorpusOptions,
    metrics: Annotated[
        str | None,
        typer.Option(help="Such as R@1,R@5,MRR,MRR@10,NDCG@10; comma-separated.", show_default="R@1,R@5,R@10,MRR"),
    ] = None,
    pools: Annotated[
        str, typer.Option(help="language, mixed, or language,mixed: candidates of one language or of all.")
    ] = "language",
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Score a tower on a corpus: retrieval, zero-shot classes (Babel-ImageNet) or questions (CVQA)."""
    from analyses.commands.analysing import run_score

    run_score(tower, corpus, metrics, pools, seed, out, as_json)


@grouped
def geometry(
    tower: TowerOptions,
    corpus: CorpusOptions,
    source: Source = "en",
    depth: OneDepth = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """CKA, divergence, silhouettes and sensitivity by depth, the modality gap and neighbours at the output."""
    from analyses.commands.analysing import run_geometry

    run_geometry(tower, corpus, source, depth, seed, out, as_json)


@grouped
def erase(
    tower: TowerOptions,
    corpus: CorpusOptions,
    ranks: Annotated[
        str | None, typer.Option(help="Of INLP, such as 12,64,128.", show_default="those of the paper that fit")
    ] = None,
    average: Annotated[
        str | None,
        typer.Option(help="Sets of languages to average, such as en+fr+de,sw+te.", show_default="each tier"),
    ] = None,
    adversarial: Annotated[
        bool, typer.Option("--adversarial", help="Add the adversarial eraser; takes longer than all others.")
    ] = False,
    average_pairs: Annotated[
        bool, typer.Option("--average-pairs", help="Average each two languages too: the matrix of who helps whom.")
    ] = False,
    cross_fit: Annotated[
        int | None,
        typer.Option(
            help="Folds: fit on all but one, score that one, so that every image is scored once among all.",
            show_default="off: half of the images is scored",
        ),
    ] = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Read the language off embeddings, erase it, average it away: attackers and retrieval, beside random ablation."""
    from analyses.commands.analysing import ErasePlan, run_erase

    run_erase(tower, corpus, ErasePlan(ranks, average, adversarial, average_pairs, cross_fit), seed, out, as_json)


@bias.command("prevalence", epilog="Example: workbench bias prevalence --languages all --tier-map s0")
@grouped
def prevalence(
    tower: TowerOptions,
    corpus: CorpusOptions,
    prior: Annotated[str, typer.Option(help="P of the low-resource group: half, pool, or a number.")] = "half",
    query: Annotated[
        str | None, typer.Option(help="Image whose ranked list is shown.", show_default="the most one-sided")
    ] = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Which languages are ranked first when the captions of all compete for an image (LBKL, DLBKL)."""
    from analyses.commands.analysing import run_prevalence

    run_prevalence(tower, corpus, prior, query, seed, out, as_json)


@bias.command("association", epilog="Example: workbench bias association --limit 200")
@grouped
def association(
    tower: TowerOptions,
    corpus: Annotated[str, typer.Option(help="3xcm:FOLDER; emoji-36 stands for triplets made of emoji.")] = "emoji-36",
    limit: Annotated[int | None, typer.Option(help="Trials, or emoji of the stand-in.", show_default="all")] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="JSON {image id: [concepts]}: leave out trials with a wrong answer that shows the query's concept.",
            show_default="one concept an image",
        ),
    ] = None,
    review: Annotated[
        float | None,
        typer.Option(
            help="Cosine, such as 0.95: list images this near, with a page that shows each pair side by side."
        ),
    ] = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Whether a text finds pictures of its own language's culture before pictures of what it says (SP)."""
    from analyses.commands.analysing import Trials, run_association

    run_association(tower, corpus, Trials(limit, labels, review), seed, out, as_json)


def compare(
    run: Run,
    published: Annotated[bool, typer.Option("--published", help="Beside the papers' numbers.")] = False,
    calibrated: Annotated[
        Path | None, typer.Option("--calibrated", help="Beside a sweep of the same tower with trained front blocks.")
    ] = None,
    paper: Annotated[str | None, typer.Option(help="s0, s1 or s3.", show_default="all")] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Lay the numbers of a run beside published ones, or a patch beside calibrated front blocks."""
    from analyses.commands.analysing import run_compare
    from workbench.errors import InputError

    if published == (calibrated is not None):
        raise InputError(
            "Say with what: --published lays a run beside the papers' numbers, --calibrated RUN beside another sweep."
        )
    if calibrated is not None and paper is not None:
        raise InputError("--paper names the papers of --published; leave it out with --calibrated.")
    run_compare(run, paper, calibrated, out, as_json)


def export(
    run: Run,
    formats: Annotated[str, typer.Option("--format", help="pdf, svg, png, csv, tex; comma-separated.")] = "pdf,csv",
    width: Annotated[str, typer.Option(help="column (3.25 in), text (6.75 in), or inches.")] = "text",
    names: Annotated[str | None, typer.Option(help="Figures and tables, comma-separated.", show_default="all")] = None,
    states: Annotated[str, typer.Option(help="first or all: of a figure with menus.")] = "first",
    dpi: Annotated[int, typer.Option(help="Of PNG.")] = 300,
    out: Annotated[Path | None, typer.Option(help="Folder.", show_default="export in the run")] = None,
    as_json: Json = False,
) -> None:
    """Write every figure and table of a run for a paper."""
    from analyses.commands.exporting import run_export

    run_export(run, formats, width, names, states, dpi, out, as_json)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: workbench score --metrics R@1,MRR@10 --pools language,mixed")(score)
    app.command(epilog="Example: workbench geometry --tower emoji-bidirectional --limit 300")(geometry)
    app.command(epilog="Example: workbench erase --limit 600 --ranks 10,20")(erase)
    app.add_typer(bias, name="bias", help="The two perspectival biases: prevalence and association.")
    app.command(epilog="Example: workbench compare runs/sweep-… --published")(compare)
    app.command(epilog="Example: workbench export runs/diagnose-… --format pdf,tex --width column")(export)
