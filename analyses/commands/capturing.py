"""``workbench capture``."""

from pathlib import Path

import torch
import typer

from analyses.cli.options import CorpusOptions, TowerOptions
from analyses.commands.common import (
    corpus_of,
    first_captions,
    parse_depths,
    print_json,
    refuse_unread,
    start,
    tower_of,
    truncation,
)
from workbench.corpora.base import check_protocol
from workbench.towers.tokens import check_site
from workbench.trajectory import DEFAULT_BATCH, capture


def run_capture(
    tower_options: TowerOptions,
    corpus_options: CorpusOptions,
    depths: str,
    site: str,
    half: bool,
    batch_size: int | None,
    out: Path,
    as_json: bool,
) -> None:
    """``workbench capture``."""
    check_site(site)
    refuse_unread("capture", corpus_options, pivot="ranks nothing")
    corpus, languages = corpus_of(corpus_options)
    tower = tower_of(tower_options)
    chosen = parse_depths(depths, tower.n_blocks)
    run = start(
        "capture", tower, corpus, tower_options, corpus_options, out, wanted=languages, depths=chosen, site=site,
        half=half, batch_size=batch_size,
    )  # fmt: skip
    notes = truncation(tower, first_captions(corpus, languages, corpus_options.protocol))
    run.begin()
    rows = capture(
        tower,
        corpus,
        languages,
        depths=chosen,
        site=site,
        protocol=check_protocol(corpus_options.protocol),
        batch_size=batch_size or DEFAULT_BATCH,
        dtype=torch.float16 if half else torch.float32,
        out=run.folder,
    )
    run.finish(notes)
    summary = {"out": str(out), "tower": tower.name, **dict(zip(rows.dims, rows.shape, strict=True))}
    if as_json:
        print_json(summary)
        return
    sizes = " × ".join(f"{size} {name}s" for name, size in zip(rows.dims, rows.shape, strict=True))
    typer.echo(f"{tower.name}: {sizes}, in {out}")
