"""The command ``workbench``.

Every command says on stdout what it found and on stderr what it does; with ``--json`` stdout holds one JSON
object and nothing else. It exits with 0 only when everything that was asked for is done, and with 2, after
one line that teaches, for a mistake in what was asked.

What is typed is read here; what is then done stands in :mod:`analyses.commands`, which is imported by the
command that needs it, so that ``--help`` is quick.
"""

import inspect
import json
import logging
import sys
import warnings
from typing import Annotated, Any, NoReturn, cast

import typer
from typer.exceptions import TyperException

from analyses.cli import analysing, calibrating, listing, sweeping
from workbench.errors import InputError, WorkbenchError, suggest

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
_GOES_ON = ("diagnose", "sweep", "capture", "calibrate")
"""Commands that keep what is finished; the others keep nothing until they end."""


def _whole_help(typer_app: typer.Typer) -> None:
    """Say in the list of commands all that a command says of itself; by default it is cut to fit a line."""
    for command in typer_app.registered_commands:
        command.short_help = inspect.getdoc(cast(Any, command.callback))
    for group in typer_app.registered_groups:
        inner = cast(typer.Typer, group.typer_instance)
        callback = inner.registered_callback and inner.registered_callback.callback
        group.short_help = group.help if isinstance(group.help, str) else inspect.getdoc(cast(Any, callback))
        _whole_help(inner)


_whole_help(app)


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
        _fail(InputError(f"{_message(error)} See {_asked()} --help."), 2)
    except (KeyboardInterrupt, typer.Abort):
        _interrupted()
    except OSError as error:
        # A reader or writer that met the file system where nothing said more.
        _fail(WorkbenchError(f"{error.filename or 'A file'} can't be used: {error.strerror or error}."), 1)
    if code == 130:
        _interrupted()
    sys.exit(code if isinstance(code, int) else 0)


def _interrupted() -> NoReturn:
    kept = "What is finished is kept; the same command goes on from there."
    lost = "This command keeps nothing before it ends; give it again."
    typer.echo(f"\nInterrupted. {kept if _asked().split()[-1] in _GOES_ON else lost}", err=True)
    sys.exit(130)


def _message(error: TyperException) -> str:
    """Return the library's message as a sentence; of an unknown option, with the one that was probably meant."""
    name = getattr(error, "option_name", None)
    if name and hasattr(error, "possibilities"):
        known = [option for parameter in _parameters(error) for option in parameter.opts]
        return f"There is no option {name!r}.{suggest(name, known)}"
    message = error.format_message()
    return message if message.endswith((".", "?")) else f"{message}."


def _parameters(error: TyperException) -> list[Any]:
    context = getattr(error, "ctx", None)
    return [] if context is None else list(context.command.params)


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
