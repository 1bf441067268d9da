"""``workbench export``."""

from pathlib import Path

import typer

from analyses.commands.common import print_json, split_words
from analyses.export import export_run, parse_width
from workbench.errors import InputError


def run_export(
    run: Path, formats: str, width: str, names: str | None, states: str, dpi: int, out: Path | None, as_json: bool
) -> None:
    """Write the files and list them."""
    if states not in ("first", "all"):
        raise InputError(f"--states is {states!r}. Use first or all.")
    written = export_run(
        run,
        split_words(formats, "--format"),
        width=parse_width(width),
        out=out,
        names=None if names is None else split_words(names, "--names"),
        states="all" if states == "all" else "first",
        dpi=dpi,
    )
    if as_json:
        print_json({"written": [str(path) for path in written]})
        return
    for path in written:
        typer.echo(str(path))
