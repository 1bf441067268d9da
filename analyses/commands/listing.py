"""``workbench towers``, ``workbench towers check`` and ``workbench corpora``."""

from importlib import resources
from typing import Any

import typer

from analyses.cli.options import LoadOptions
from analyses.commands.common import as_text, load_named, print_json, truncation
from workbench.builtin import TOWER_FOLDERS
from workbench.corpora.base import Corpus
from workbench.corpora.benchmarks import BENCHMARKS, KIND_WORDS
from workbench.corpora.loading import load_corpus
from workbench.errors import InputError
from workbench.languages import XM3600_LANGUAGES
from workbench.parsing import load_file, loads
from workbench.planning import sweep_memory
from workbench.towers import load_tower
from workbench.towers.base import Tower
from workbench.towers.description import read_description, shipped
from workbench.towers.registry import FAMILIES


def list_towers(as_json: bool) -> None:
    """``workbench towers``."""
    built_in = []
    for name, folder in TOWER_FOLDERS.items():
        config = load_file(folder / "config.json")
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
    descriptions = [
        {"name": name, "checkpoint": read_description(path).checkpoint, "use": f"--tower {name}"}
        for name, path in shipped().items()
    ]
    record = coverage()
    families = [_family(kind, record) for kind in sorted(FAMILIES)]
    if as_json:
        print_json({"built_in": built_in, "descriptions": descriptions, "families": families})
        return
    typer.echo("Built-in towers\n" + as_text(built_in))
    typer.echo("\nDescriptions of other models that ship with the bench; each name works with --tower as it stands\n")
    typer.echo(as_text(descriptions))
    typer.echo("\nFamilies: a folder or hub id of one of these works with --tower\n")
    short = [
        {key: row[key] for key in ("model_type", "example", "pooled_row", "causal", "strategy")} for row in families
    ]
    typer.echo(as_text(short))
    typer.echo("\nVerified by the tests on tiny checkpoints of the real classes")
    groups: dict[str, list[str]] = {}
    for row in families:
        versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
        groups.setdefault(f"{', '.join(row['verified']) or 'nothing recorded'}\n    with {versions}", []).append(
            row["model_type"]
        )
    for text, names in groups.items():
        typer.echo(f"  {', '.join(names)}:\n    {text}")
    typer.echo(
        "\nAlso: any text-only encoder that AutoModel loads (--pooling, --prefix, --pivot), a model that you describe\n"
        "in a .toml file, files of embeddings (.npz, .safetensors, .parquet), and planted faults (planted-block-5,\n"
        "which brings the corpus emoji-pseudo and its tiers)."
    )


def _family(kind: str, record: dict[str, Any]) -> dict[str, Any]:
    family = FAMILIES[kind]
    adapter = family.adapter_class
    return {
        "model_type": kind,
        "model_class": " or ".join(adapter.model_classes),
        "example": family.example,
        "pooled_row": adapter.pool,
        "causal": adapter.causal,
        "strategy": adapter.strategy,
        **record.get(kind, {"verified": [], "versions": {}}),
    }


def coverage() -> dict[str, Any]:
    """Return what the tests verified of each family, and with which versions, as they recorded it."""
    return loads(resources.files("workbench.towers").joinpath("coverage.json").read_bytes(), "coverage.json")


def check_tower(name: str, options: LoadOptions, as_json: bool) -> None:
    """``workbench towers check``."""
    found = describe_tower(load_named(name, options))
    if as_json:
        print_json(found)
        return
    width = max(map(len, found))
    for key, value in found.items():
        typer.echo(f"{key.replace('_', ' '):{width}}  {value}")


def describe_tower(tower: Tower) -> dict[str, Any]:
    """Return what loading a tower found out about it."""
    paths = {id(module): path for path, module in tower.model.named_modules()}
    found: dict[str, Any] = {
        "tower": tower.name,
        "family": tower.family,
        "model_class": tower.provenance.model_class,
        "revision": tower.provenance.revision or "none: a local folder or file",
        "weights_sha256": tower.fingerprint,
        "dtype": tower.provenance.dtype,
        "device": str(tower.device),
        "parameters": sum(p.numel() for p in tower.model.parameters()),
        "images": "yes" if tower.has_images else "no: rank against the captions of a pivot language",
    }
    if tower.n_blocks:
        check = tower.check()
        memory = sweep_memory(tower, 1000)
        found |= {
            "blocks": f"{tower.n_blocks} × {tower.width}, {paths[id(tower.blocks[0])]} … {paths[id(tower.blocks[-1])]}",
            "positions": tower.max_positions,
            "pooled_row": tower.pool,
            "causal": tower.causal,
            "strategy": tower.strategy,
            "error_of_the_pooled_row": f"{check.pooled_row:.1e}",
            "noise_floor": f"{check.padding:.1e} (a caption alone against in a padded batch)",
            "memory_for_1,000_captions": f"{memory.range_gib} (5 interventions, 6 source languages, every depth)",
        }
    return found | {f"note_{key}": value for key, value in tower.provenance.notes.items()}


def list_corpora(as_json: bool) -> None:
    """``workbench corpora``."""
    corpus = load_corpus("emoji-36", ["en"])
    entry = {
        "name": corpus.name,
        "images": len(corpus),
        "languages": list(XM3600_LANGUAGES),
        "licence": corpus.licence,
        "description": corpus.description,
    }
    benchmarks = [
        {"name": benchmark.name, "measures": KIND_WORDS[benchmark.kind], "size": benchmark.size}
        for benchmark in BENCHMARKS.values()
    ]
    if as_json:
        print_json({"built_in": [entry], "benchmarks": benchmarks})
        return
    typer.echo(f"{corpus.name}: {corpus.description}")
    typer.echo(f"  {len(corpus)} images, {len(XM3600_LANGUAGES)} languages: {' '.join(XM3600_LANGUAGES)}")
    typer.echo(f"  licences: {corpus.licence}")
    typer.echo(f"\nBenchmarks, as NAME:FOLDER\n{as_text(benchmarks)}")
    typer.echo(
        "\nYour own: a folder with captions.jsonl, one line an image,\n"
        '  {"image": "a.jpg", "captions": {"en": "a red bus", "sw": "basi jekundu"}}'
    )


def report_corpus(place: str, open_images: bool, tower: str | None, as_json: bool) -> None:
    """``workbench corpora check``."""
    from workbench.corpora.check import check_corpus, render_report

    report = check_corpus(place, open_images=open_images)
    counted = {} if tower is None or not report.ok else _too_long(place, tower)
    if as_json:
        print_json({**report.to_dict(), **counted})
    else:
        typer.echo(render_report(report))
        for language, count in counted.get("truncated_captions", {}).items():
            typer.echo(f"  {language}: {count} captions are too long for {tower} and lose their end")
    if not report.ok:
        # Everything that was asked for is not done as long as something is wrong.
        raise typer.Exit(1)


def _too_long(place: str, name: str) -> dict[str, dict[str, int]]:
    from workbench.corpora.loading import load_benchmark

    corpus = load_benchmark(place)
    if not isinstance(corpus, Corpus):
        raise InputError(f"{place!r} has no captions to count: --tower is for images or sentences with captions.")
    return truncation(load_tower(name), {code: corpus.texts(code, "all")[0] for code in corpus.languages})
