"""The command ``workbench``.

Every command says on stdout what it found and on stderr what it does; with ``--json`` stdout holds one JSON
object and nothing else. It exits with 0 only when everything that was asked for is done, and with 2, after
one line that teaches, for a mistake in what was asked.

What is typed is read here; what is then done stands in :mod:`analyses.commands`, which is imported by the
command that needs it, so that ``--help`` is quick.
"""

import json
import logging
import sys
import warnings
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from analyses.cli import analysing, calibrating, listing, sweeping
from workbench.errors import InputError, WorkbenchError

app = typer.Typer(
    name="workbench",
    help="Where inside a multilingual text tower do languages fail? Capture, patch and measure its pooled row.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _module in (sweeping, analysing, listing, calibrating):
    _module.register(app)


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


def main() -> None:
    """Run the command line; mistakes of the user end with one line and exit code 2."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("workbench").setLevel(logging.INFO)
    # A hub that can't be reached is told once, at the end, and not for each of five tries.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    warnings.showwarning = _Warnings()
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
        message = error.format_message()
        _fail(InputError(f"{message}{'' if message.endswith(('.', '?')) else '.'} See {_asked()} --help."), 2)
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("\nInterrupted. What is finished is kept; the same command goes on from there.", err=True)
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


class _Warnings:
    """Shows a warning as one line, once, however many depths it is met at; where it arose in the code helps nobody."""

    def __init__(self) -> None:
        self.told: set[str] = set()

    def __call__(self, message: Warning | str, *_: object, **__: object) -> None:
        text = " ".join(str(message).split())
        if text not in self.told:
            self.told.add(text)
            typer.echo(f"Warning: {text}", err=True)


def _asked() -> str:
    """Return the command that was typed, as far as there is one of that name."""
    words: list[str] = ["workbench"]
    known: typer.Typer | None = app
    for word in sys.argv[1:]:
        if known is None:
            break
        commands = [command.name or getattr(command.callback, "__name__", "") for command in known.registered_commands]
        groups = {group.name: group.typer_instance for group in known.registered_groups}
        if word not in groups:
            return " ".join([*words, word] if word in commands else words)
        words.append(word)
        known = groups[word]
    return " ".join(words)


def _fail(error: Exception, code: int) -> NoReturn:
    message = " ".join(str(error).split())
    if "--json" in sys.argv:
        typer.echo(json.dumps({"error": message, "exit_code": code}))
    typer.echo(f"workbench: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
