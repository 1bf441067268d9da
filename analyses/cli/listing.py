"""``towers`` and ``corpora``: what there is, and whether a checkpoint or a folder of your own is sound."""

from typing import Annotated

import typer

from analyses.cli.options import Json, LoadOptions, grouped

towers = typer.Typer(invoke_without_command=True, rich_markup_mode=None, add_completion=False)
corpora = typer.Typer(invoke_without_command=True, rich_markup_mode=None, add_completion=False)


@towers.callback(epilog="Example: workbench towers --json")
def list_towers(context: typer.Context, as_json: Json = False) -> None:
    """List the built-in towers and the model families that have an adapter, with what was verified of each."""
    if context.invoked_subcommand is None:
        from analyses.commands.listing import list_towers

        list_towers(as_json)


@towers.command("check", epilog="Example: workbench towers check emoji-causal")
@grouped
def check_tower(
    name: Annotated[str, typer.Argument(help="Built-in name, model folder, hub id or description.")],
    load: LoadOptions,
    as_json: Json = False,
) -> None:
    """Load one checkpoint and say what was found: paths, pooled row, precision, memory that a sweep will need."""
    from analyses.commands.listing import check_tower

    check_tower(name, load, as_json)


@corpora.callback(epilog="Example: workbench corpora --json")
def list_corpora(context: typer.Context, as_json: Json = False) -> None:
    """List the built-in corpora, the benchmarks that are read, and what a corpus folder of your own looks like."""
    if context.invoked_subcommand is None:
        from analyses.commands.listing import list_corpora

        list_corpora(as_json)


@corpora.command("check", epilog="Example: workbench corpora check data/xm3600")
def check_corpus(
    place: Annotated[str, typer.Argument(help="Folder, table, or benchmark:FOLDER.")],
    open_images: Annotated[bool, typer.Option("--open-images", help="Open each image too.")] = False,
    tower: Annotated[
        str | None, typer.Option(help="Count the captions that are too long for this tower.", show_default="none")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read all of a corpus and say what is in it and what is wrong."""
    from analyses.commands.listing import report_corpus

    report_corpus(place, open_images, tower, as_json)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(towers, name="towers")
    app.add_typer(corpora, name="corpora")
