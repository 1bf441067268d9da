"""What the commands do, apart from how they are called (:mod:`analyses.cli`)."""

import json
import logging
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from interventions.by_name import default_names, interventions_by_name
from workbench.corpora.base import Corpus, check_protocol
from workbench.corpora.loading import corpus_languages, load_corpus
from workbench.errors import InputError
from workbench.languages import tier_map as resolve_tier_map
from workbench.runs import Run, default_folder
from workbench.towers import load_tower

if TYPE_CHECKING:
    import pandas as pd

    from analyses.base import Analysis
    from workbench.sweep_frame import SweepSettings
    from workbench.sweeps import SweepResult
    from workbench.towers.base import Tower

log = logging.getLogger("workbench")


@dataclass(frozen=True)
class Request:
    """The options of a command, as they were typed."""

    tower: str
    corpus: str
    languages: str
    tier_map: str
    depths: str
    protocol: str
    limit: int | None
    out: Path | None
    device: str
    dtype: str
    revision: str | None
    batch_size: int | None
    drop_incomplete: bool
    interventions: str | None = None
    source: str = "en"
    seed: int = 0
    site: str = "pooled"
    half: bool = False


def parse_depths(text: str, n_blocks: int) -> list[int]:
    """Read ``"all"`` or such as ``"0,4-8,N-3,N"``.

    Raises
    ------
    InputError
        If a part is no depth of a tower with so many blocks.
    """
    legal = f"Depths run from 0 to {n_blocks}: 'all', or such as 0,4-8,N-3,N."
    if text.strip().lower() == "all":
        return list(range(n_blocks + 1))
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(N-\d+|N|\d+)(?:\s*(?:-|…|\.\.)\s*(N-\d+|N|\d+))?\s*", part, re.IGNORECASE)
        if match is None:
            raise InputError(f"{part!r} is no depth. {legal}")
        ends = [_depth(word, n_blocks) for word in match.groups() if word]
        for depth in ends:
            if not 0 <= depth <= n_blocks:
                raise InputError(f"There is no depth {part.strip()} in a tower of {n_blocks} blocks. {legal}")
        if ends[0] > ends[-1]:
            raise InputError(f"{part!r} runs backwards. {legal}")
        found |= set(range(ends[0], ends[-1] + 1))
    return sorted(found)


def _depth(word: str, n_blocks: int) -> int:
    if word[0] in "Nn":
        return n_blocks - int(word[2:] or 0)
    return int(word)


def _split(text: str, what: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise InputError(f"{what} is empty. Give codes with commas between, such as en,sw.")
    return words


def _corpus(request: Request, sources: tuple[str, ...]) -> tuple[Corpus, list[str]]:
    """Load the corpus with the wanted languages and the sources; return it and the wanted ones."""
    protocol = check_protocol(request.protocol)
    options: dict[str, Any] = {
        "protocol": protocol, "limit": request.limit, "drop_incomplete": request.drop_incomplete
    }  # fmt: skip
    _, tiers = resolve_tier_map(request.tier_map)
    known = corpus_languages(request.corpus)
    if request.languages == "all":
        wanted = list(known)
    elif request.languages == "tiers":
        wanted = [language for language in tiers if language in known]
        if not wanted:
            raise InputError(
                f"None of the languages of the tier map {request.tier_map!r} ({', '.join(tiers)}) is in "
                f"{request.corpus!r} ({', '.join(known)}). Name some with --languages."
            )
    else:
        wanted = _split(request.languages, "--languages")
    everything = list(dict.fromkeys([*wanted, *sources]))
    return load_corpus(request.corpus, everything, **options), wanted


def _tower(request: Request) -> "Tower":
    return load_tower(request.tower, revision=request.revision, dtype=request.dtype, device=request.device)


def _sweep(
    command: str, request: Request, check: Callable[["SweepSettings"], object] | None = None
) -> tuple["SweepResult", Corpus, Run, "Tower"]:
    from workbench.sweeps import make_settings, sweep, sweep_config

    _, tiers = resolve_tier_map(request.tier_map)
    names = (
        default_names(request.source, tiers, corpus_languages(request.corpus))
        if request.interventions is None
        else _split(request.interventions, "--interventions")
    )
    chosen = interventions_by_name(names, tiers)
    sources = tuple(dict.fromkeys(source for intervention in chosen for source in intervention.sources))
    corpus, languages = _corpus(request, sources)
    tower = _tower(request)
    depths = parse_depths(request.depths, tower.n_blocks)
    arguments: dict[str, Any] = {
        "languages": languages,
        "depths": depths,
        "tier_map": request.tier_map,
        "protocol": request.protocol,
        "seed": request.seed,
        "batch_size": request.batch_size,
    }
    settings = make_settings(tower, corpus, chosen, **arguments)
    if check:
        check(settings)
    config = sweep_config(tower, corpus, settings)
    folder = request.out or default_folder(command, request.tower, request.corpus, config)
    run = Run(folder, config)
    for reason, count in corpus.left_out.items():
        log.info("%s: %d images left out (%s)", corpus.name, count, reason)
    result = sweep(tower, corpus, chosen, run=run, progress=True, **arguments)
    _write_results(run, result)
    return result, corpus, run, tower


def _write_results(run: Run, result: "SweepResult") -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pandas(result.frame, preserve_index=False), sink, compression="zstd")
    run.write_bytes("results.parquet", sink.getvalue().to_pybytes())
    run.finish({"notes": result.notes})


def run_sweep(request: Request, as_json: bool) -> None:
    """``workbench sweep``."""
    from analyses.checkpoint import checkpoint_table

    result, _, run, tower = _sweep("sweep", request)
    truncated = _truncated(result)
    table = checkpoint_table(result.frame)
    if as_json:
        _print_json({"run": str(run.folder), "tower": tower.name, "rows": len(result.frame), "truncated": truncated})
        return
    _print_checkpoint(table, result)
    typer.echo(f"Numbers: {run.folder / 'results.parquet'}")


def run_diagnose(request: Request, as_json: bool) -> None:
    """``workbench diagnose``."""
    from analyses.diagnosis import check_settings, diagnose
    from analyses.page import write_page

    result, corpus, run, _ = _sweep("diagnose", request, check_settings)
    verdict = diagnose(result, corpus)
    page = write_page(run, result, corpus, verdict)
    if as_json:
        _print_json(
            {
                "verdict": verdict.kind,
                "sentence": verdict.sentence,
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


def run_capture(request: Request, as_json: bool) -> None:
    """``workbench capture``."""
    import torch

    from workbench.trajectory import DEFAULT_BATCH, capture

    if request.site not in ("pooled", "middle"):
        raise InputError(f"There is no site {request.site!r}. Use 'pooled' or 'middle'.")
    corpus, languages = _corpus(request, ())
    tower = _tower(request)
    depths = parse_depths(request.depths, tower.n_blocks)
    rows = capture(
        tower,
        corpus,
        languages,
        depths=depths,
        site=request.site,
        protocol=check_protocol(request.protocol),
        batch_size=request.batch_size or DEFAULT_BATCH,
        dtype=torch.float16 if request.half else torch.float32,
        out=request.out,
    )
    summary = {"out": str(request.out), "tower": tower.name, **dict(zip(rows.dims, rows.shape, strict=True))}
    if as_json:
        _print_json(summary)
        return
    sizes = " × ".join(f"{size} {name}s" for name, size in zip(rows.dims, rows.shape, strict=True))
    typer.echo(f"{tower.name}: {sizes}, in {request.out}")


def list_towers(as_json: bool) -> None:
    """``workbench towers``."""
    from workbench.builtin import TOWER_FOLDERS
    from workbench.towers.registry import adapters

    built_in = []
    for name, folder in TOWER_FOLDERS.items():
        config = json.loads((folder / "config.json").read_text("utf-8"))
        text = config["text_config"]
        built_in.append(
            {
                "name": name,
                "model_type": config["model_type"],
                "blocks": text["num_hidden_layers"],
                "width": text["hidden_size"],
                "positions": text["max_position_embeddings"],
            }
        )
    families = [
        {
            "model_type": kind,
            "model_class": " or ".join(adapter.model_classes),
            "pooled_row": adapter.pool,
            "causal": adapter.causal,
            "strategy": adapter.strategy,
        }
        for kind, adapter in adapters().items()
    ]
    if as_json:
        _print_json({"built_in": built_in, "families": families})
        return
    typer.echo("Built-in towers\n" + _as_text(built_in))
    typer.echo("\nFamilies: a folder or hub id of one of these works with --tower\n" + _as_text(families))


def list_corpora(as_json: bool) -> None:
    """``workbench corpora``."""
    corpus = load_corpus("emoji-36", ["en"])
    from workbench.languages import XM3600_LANGUAGES

    entry = {
        "name": corpus.name,
        "images": len(corpus),
        "languages": list(XM3600_LANGUAGES),
        "licence": corpus.licence,
        "description": corpus.description,
    }
    if as_json:
        _print_json({"built_in": [entry]})
        return
    typer.echo(f"{corpus.name}: {corpus.description}")
    typer.echo(f"  {len(corpus)} images, {len(XM3600_LANGUAGES)} languages: {' '.join(XM3600_LANGUAGES)}")
    typer.echo(f"  licences: {corpus.licence}")
    typer.echo(
        "\nYour own: a folder with captions.jsonl, one line an image,\n"
        '  {"image": "a.jpg", "captions": {"en": "a red bus", "sw": "basi jekundu"}}'
    )


def _truncated(result: "SweepResult") -> dict[str, int]:
    notes: Mapping[str, Any] = result.notes["languages"]
    found = {language: note["truncated_captions"] for language, note in notes.items()}
    lost = {language: count for language, count in found.items() if count}
    if lost:
        words = ", ".join(f"{language} {count}" for language, count in lost.items())
        log.info("captions too long for the tower, cut at its last position: %s", words)
    return found


def _print_checkpoint(checkpoint: "Analysis", result: "SweepResult") -> None:
    """Print the checkpoint table, narrow enough for a terminal; the report and the Parquet have the intervals."""
    names = [i.name for i in result.settings.interventions if i.name in checkpoint.table]
    columns = ["language", "tier", "frozen", *(c for c in map(str, checkpoint.table) if c.endswith(" itself")), *names]
    depth, n = checkpoint.table["depth"].iloc[0], len(next(iter(result.cells.values())).clean("i2t").better)
    title = f"Image-to-text R@1 in percent, frozen and patched at depth {depth} (block {depth - 1}), {n:,} images"
    typer.echo(f"{title}\n\n{_as_text(checkpoint.table[columns])}\n")


def _as_text(table: "pd.DataFrame | list[dict[str, Any]]") -> str:
    import pandas as pd

    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)
    return frame.to_string(index=False, float_format=lambda x: f"{x:.1f}", na_rep="–")


def _print_json(content: Mapping[str, Any]) -> None:
    json.dump(content, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")
