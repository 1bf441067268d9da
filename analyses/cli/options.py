"""The options that commands share, in groups.

A command names the groups that it takes as if each were one argument::

    @grouped
    def sweep(tower: TowerOptions, corpus: CorpusOptions, out: Out = None) -> None: ...

and the command line shows the options of each. So an option has one name, one help text and one default
wherever it stands.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, cast, get_type_hints

import typer

Names = Annotated[
    str | None,
    typer.Option(
        help="parallel:LANG, mean:LANG+LANG or mean:TIER, random:LANG or random:LANG:DRAWS, noise, noise:matched, "
        "mid:LANG, erase:leace, erase:random; comma-separated.",
        show_default="parallel, mean, random and mid of --source, and noise",
    ),
]
Depths = Annotated[
    str,
    typer.Option(
        help="'all', or such as 0,4-8,N-3,N; depth d is after d blocks. The papers' block N-4 is block:N-4, depth N-3."
    ),
]
OneDepth = Annotated[
    str | None,
    typer.Option(
        "--depths", help="One: M, where residuals and sensitivity are taken.", show_default="a sixth of the blocks"
    ),
]
Source = Annotated[str, typer.Option(help="The language that works, where the donor rows come from.")]
Seed = Annotated[
    int,
    typer.Option(help="Decides derangements, noise, splits and bootstrap.", min=0, max=2**32 - 1, metavar="INTEGER"),
]


def _checked_out(out: Path | None) -> Path | None:
    """Refuse a folder that can hold no run while nothing is loaded yet."""
    if out is not None:
        from workbench.runs import check_folder

        check_folder(out)
    return out


Out = Annotated[
    Path | None,
    typer.Option(help="Folder of the run.", show_default="runs/…, named after the question", callback=_checked_out),
]
Batch = Annotated[int | None, typer.Option(help="Captions a pass.", show_default="from the tower's size")]
NeededOut = Annotated[Path, typer.Option(help="Folder of the run.", callback=_checked_out)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for scripts.")]


@dataclass(frozen=True)
class LoadOptions:
    """How a tower is loaded."""

    revision: Annotated[str | None, typer.Option(help="Commit of a hub id.", show_default="main")] = None
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:0 or mps.")] = "cpu"
    device_map: Annotated[
        str | None, typer.Option(help="'auto' spreads a large model over devices.", show_default="one device")
    ] = None
    dtype: Annotated[str, typer.Option(help="Precision of the weights: float32, bfloat16 or float16.")] = "float32"
    pooling: Annotated[
        str | None,
        typer.Option(help="cls, mean or last, for a text-only encoder.", show_default="what the model says"),
    ] = None
    prefix: Annotated[
        str | None, typer.Option(help="Text before every caption of a text-only encoder.", show_default="the model's")
    ] = None
    images: Annotated[str | None, typer.Option(help="Image tower of an M-CLIP text tower.", show_default="none")] = None
    remote_code: Annotated[
        bool,
        typer.Option("--remote-code", help="Run Python code that comes with the checkpoint: it can do all you can."),
    ] = False


@dataclass(frozen=True)
class TowerOptions(LoadOptions):
    """Which tower, and how it is loaded."""

    tower: Annotated[
        str,
        typer.Option(help="Built-in name, model folder, hub id org/model, description .toml, or a file of embeddings."),
    ] = "emoji-causal"
    preset: Annotated[
        str | None,
        typer.Option(help="s3 or s0: what that paper used, for every option that is not typed.", show_default="none"),
    ] = None


@dataclass(frozen=True)
class CorpusOptions:
    """Which captions and images."""

    corpus: Annotated[str, typer.Option(help="Built-in name, benchmark:FOLDER, or a folder or table of your own.")] = (
        "emoji-36"
    )
    languages: Annotated[
        str,
        typer.Option(help="Codes, comma-separated; 'tiers': those of the tier map; 'all': those of the corpus."),
    ] = "tiers"
    tier_map: Annotated[str, typer.Option(help="s3, s0, or a JSON file {language: tier}.")] = "s3"
    protocol: Annotated[str, typer.Option(help="first: one caption an image; all: every caption.")] = "first"
    pivot: Annotated[
        str | None,
        typer.Option(help="Rank against this language's captions instead of images.", show_default="images"),
    ] = None
    limit: Annotated[int | None, typer.Option(help="Use the first so many images.", show_default="all images")] = None
    drop_incomplete: Annotated[
        bool, typer.Option("--drop-incomplete", help="Leave out images that lack a caption.")
    ] = False
    subset: Annotated[
        str | None,
        typer.Option(help="Part of a benchmark: present, a recipe's name, or a file of ids.", show_default="all of it"),
    ] = None
    no_images: Annotated[bool, typer.Option("--no-images", help="Texts alone: rank against --pivot.")] = False


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Show the fields of a group's dataclass as options, and hand the command the group."""
    signature = inspect.signature(command, eval_str=True)
    groups = {name: p.annotation for name, p in signature.parameters.items() if is_dataclass(p.annotation)}
    shown: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name not in groups:
            shown.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        hints = get_type_hints(groups[name], include_extras=True)
        own = vars(groups[name])["__annotations__"]
        shown += [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
            )
            for field in sorted(fields(groups[name]), key=lambda field: field.name not in own)
        ]

    with_preset = any("preset" in {field.name for field in fields(group)} for group in groups.values())
    if with_preset:
        shown.append(inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        if with_preset:
            from analyses.cli.presets import fill

            context: typer.Context = values.pop("context")
            sources = {name: context.get_parameter_source(name) for name in values}
            typed = {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}
            values = fill(context.info_name or command.__name__, values, typed)
        for name, group in groups.items():
            values[name] = cast(type, group)(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    vars(run)["__signature__"] = signature.replace(parameters=shown)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return run
