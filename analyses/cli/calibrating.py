"""``calibrate``: how often the diagnosis is right on towers whose fault is known."""

from pathlib import Path
from typing import Annotated

import typer

from analyses.cli.options import Json


def calibrate(
    towers: Annotated[int, typer.Option(help="How many planted towers; 240 take about an hour on two cores.")] = 240,
    images: Annotated[str, typer.Option(help="Images a language; several in turn, such as 100,500.")] = "500",
    weak: Annotated[
        bool, typer.Option("--weak", help="Draw strengths from 0 up, to see what weak faults are called.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Draws the towers.", min=0, max=2**32 - 1)] = 0,
    out: Annotated[Path, typer.Option(help="Folder; a killed study goes on from there.")] = Path("runs/calibration"),
    as_json: Json = False,
) -> None:
    """Diagnose towers with a planted fault, and count how often it is named rightly."""
    from analyses.commands.calibrating import run_calibrate

    run_calibrate(towers, images, weak, seed, out, as_json)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: workbench calibrate --towers 12 --images 200 --out study/")(calibrate)
