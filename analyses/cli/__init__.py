"""The command ``workbench``.

Every command says on stdout what it found and on stderr what it does; with ``--json`` stdout holds one JSON
object and nothing else. It exits with 0 only when everything that was asked for is done, and with 2, after
one line that teaches, for a mistake in what was asked.

Imports of the heavy libraries happen inside the commands, so that ``--help`` is quick.
"""

import json
import logging
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.exceptions import TyperException

from workbench.errors import InputError, WorkbenchError

app = typer.Typer(
    name="workbench",
    help="Where inside a multilingual text tower do languages fail? Capture, patch and measure its pooled row.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Tower_ = Annotated[str, typer.Option("--tower", help="Built-in name, model folder, or hub id org/model.")]
Corpus_ = Annotated[str, typer.Option("--corpus", help="Built-in name, or a folder with captions.jsonl.")]
Languages = Annotated[
    str,
    typer.Option(help="Codes, comma-separated; 'tiers': those of the tier map; 'all': those of the corpus."),
]
TierMap = Annotated[str, typer.Option(help="s3, s0, or a JSON file {language: tier}.")]
Depths = Annotated[str, typer.Option(help="'all', or such as 0,4-8,N-3,N; depth d is after d blocks.")]
Names = Annotated[
    str | None,
    typer.Option(
        help="parallel:LANG, mean:LANG+LANG or mean:TIER, random:LANG, noise, noise:matched, mid:LANG; "
        "comma-separated.",
        show_default="parallel, mean, random and mid of --source, and noise",
    ),
]
Source = Annotated[str, typer.Option(help="The language that works, where the donor rows come from.")]
Protocol_ = Annotated[str, typer.Option("--protocol", help="first: one caption an image; all: every caption.")]
Limit = Annotated[int | None, typer.Option(help="Use the first so many images.", show_default="all images")]
Seed = Annotated[int, typer.Option(help="Decides derangements, noise and bootstrap.")]
Out = Annotated[Path | None, typer.Option(help="Folder of the run.", show_default="runs/…, named after the question")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:0 or mps.")]
Dtype = Annotated[str, typer.Option(help="Precision of the weights: float32, bfloat16 or float16.")]
Revision = Annotated[str | None, typer.Option(help="Commit of a hub id.", show_default="main")]
Batch = Annotated[int | None, typer.Option(help="Captions a pass.", show_default="from the tower's size")]
Drop = Annotated[bool, typer.Option("--drop-incomplete", help="Leave out images that lack a caption.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for scripts.")]


def _version(asked: bool) -> None:
    if asked:
        from workbench import __version__

        typer.echo(f"eos-workbench {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command(epilog="Example: workbench diagnose --tower emoji-bidirectional --languages en,de,sw,te --limit 500")
def diagnose(
    tower: Tower_ = "emoji-causal",
    corpus: Corpus_ = "emoji-36",
    languages: Languages = "tiers",
    tier_map: TierMap = "s3",
    depths: Depths = "all",
    interventions: Names = None,
    source: Source = "en",
    protocol: Protocol_ = "first",
    limit: Limit = None,
    seed: Seed = 0,
    out: Out = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    revision: Revision = None,
    batch_size: Batch = None,
    drop_incomplete: Drop = False,
    as_json: Json = False,
) -> None:
    """Say where a tower fails: a sweep with its controls, a verdict, and an interactive report.html."""
    from analyses.commands import run_diagnose

    run_diagnose(_request(locals()), as_json)


@app.command(epilog="Example: workbench sweep --depths 0,N-3,N --interventions parallel:fr,random:fr --json")
def sweep(
    tower: Tower_ = "emoji-causal",
    corpus: Corpus_ = "emoji-36",
    languages: Languages = "tiers",
    tier_map: TierMap = "s3",
    depths: Depths = "all",
    interventions: Names = None,
    source: Source = "en",
    protocol: Protocol_ = "first",
    limit: Limit = None,
    seed: Seed = 0,
    out: Out = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    revision: Revision = None,
    batch_size: Batch = None,
    drop_incomplete: Drop = False,
    as_json: Json = False,
) -> None:
    """Patch every language at every depth and write the numbers to results.parquet."""
    from analyses.commands import run_sweep

    run_sweep(_request(locals()), as_json)


@app.command(epilog="Example: workbench capture --tower emoji-causal --languages en,sw --out rows/")
def capture(
    out: Annotated[Path, typer.Option(help="Folder to write the trajectory to.")],
    tower: Tower_ = "emoji-causal",
    corpus: Corpus_ = "emoji-36",
    languages: Languages = "tiers",
    tier_map: TierMap = "s3",
    depths: Depths = "all",
    site: Annotated[str, typer.Option(help="pooled, or middle: the token in the middle of the content.")] = "pooled",
    protocol: Protocol_ = "first",
    limit: Limit = None,
    half: Annotated[bool, typer.Option("--float16", help="Store rows in float16.")] = False,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    revision: Revision = None,
    batch_size: Batch = None,
    drop_incomplete: Drop = False,
    as_json: Json = False,
) -> None:
    """Write the pooled row of every caption at every depth, one safetensors file a language."""
    from analyses.commands import run_capture

    run_capture(_request(locals()), as_json)


@app.command(epilog="Example: workbench towers --json")
def towers(as_json: Json = False) -> None:
    """List the built-in towers and the model families that have an adapter."""
    from analyses.commands import list_towers

    list_towers(as_json)


@app.command(epilog="Example: workbench corpora --json")
def corpora(as_json: Json = False) -> None:
    """List the built-in corpora and what a corpus folder looks like."""
    from analyses.commands import list_corpora

    list_corpora(as_json)


def _request(values: dict[str, Any]) -> Any:
    from analyses.commands import Request

    fields = {name: value for name, value in values.items() if name in Request.__dataclass_fields__}
    return Request(**fields)


def main() -> None:
    """Run the command line; mistakes of the user end with one line and exit code 2."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("workbench").setLevel(logging.INFO)
    try:
        code = app(prog_name="workbench", standalone_mode=False)
    except InputError as error:
        _fail(error, 2)
    except WorkbenchError as error:
        _fail(error, 1)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except TyperException as error:
        if len(sys.argv) < 2:
            typer.echo(error.format_message())
            sys.exit(2)
        # An option that is unknown or lacks its value; the library's own message takes three lines.
        known = [command.callback.__name__ for command in app.registered_commands if command.callback]
        wanted = f"workbench {sys.argv[1]}" if sys.argv[1] in known else "workbench"
        message = error.format_message()
        _fail(InputError(f"{message}{'' if message.endswith(('.', '?')) else '.'} See {wanted} --help."), 2)
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("\nInterrupted. What is finished is kept; the same command goes on from there.", err=True)
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(error: Exception, code: int) -> NoReturn:
    message = " ".join(str(error).split())
    if "--json" in sys.argv:
        typer.echo(json.dumps({"error": message, "exit_code": code}))
    typer.echo(f"workbench: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
