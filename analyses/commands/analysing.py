"""``workbench score``, ``geometry``, ``bias`` and ``compare``: commands that patch nothing."""

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from analyses.base import Analysis
from analyses.cli.options import CorpusOptions, TowerOptions
from analyses.commands.common import (
    as_text,
    benchmark_options,
    corpus_of,
    print_json,
    split_words,
    tower_of,
    wanted_languages,
)
from analyses.comparison import beside_published
from analyses.report import write_report
from workbench.corpora.base import check_protocol
from workbench.errors import InputError
from workbench.runs import Run, default_folder
from workbench.towers.base import describe_tower

if TYPE_CHECKING:
    import pandas as pd


def run_score(
    tower_options: TowerOptions,
    corpus_options: CorpusOptions,
    metrics: str | None,
    pools: str,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """``workbench score``."""
    from workbench.corpora.base import Corpus
    from workbench.corpora.loading import corpus_languages, load_benchmark
    from workbench.scoring import score

    wanted = None if corpus_options.languages == "all" else _languages(corpus_options)
    options: dict[str, Any] = {}
    if corpus_options.corpus in ("emoji-36", "emoji-pseudo") or _is_parallel(corpus_options.corpus):
        corpus, wanted = corpus_of(corpus_options)
        options = {
            "protocol": corpus_options.protocol, "pools": split_words(pools, "--pools"), "languages": wanted,
            "tier_map": corpus_options.tier_map, "pivot": corpus_options.pivot,
        }  # fmt: skip
    else:
        corpus = load_benchmark(
            corpus_options.corpus, wanted, limit=corpus_options.limit, **benchmark_options(corpus_options)
        )
    tower = tower_of(tower_options)
    chosen = None if metrics is None else split_words(metrics, "--metrics")
    frame = score(tower, corpus, chosen, seed=seed, **options)
    what = corpus.describe() if isinstance(corpus, Corpus) else {"name": corpus.name}
    config = {"tower": describe_tower(tower), "corpus": what, "metrics": chosen, "pools": pools, "seed": seed,
              "languages": wanted or list(corpus_languages(corpus_options.corpus))}  # fmt: skip
    run = Run(out or default_folder("score", tower_options.tower, corpus_options.corpus, config), config)
    _write_frame(run, frame)
    run.finish({})
    if as_json:
        print_json({"run": str(run.folder), "scores": json.loads(frame.to_json(orient="records"))})
        return
    columns = [
        c for c in ("language", "tier", "pool", "direction", "metric", "value", "low", "high", "n") if c in frame
    ]
    typer.echo(as_text(frame[columns]))
    typer.echo(f"\nNumbers: {run.folder / 'results.parquet'}")


def _languages(options: CorpusOptions) -> list[str] | None:
    return None if options.languages == "tiers" else wanted_languages(options)


def _is_parallel(name: str) -> bool:
    from workbench.corpora.loading import find_corpus

    return find_corpus(name).benchmark.kind in ("parallel", "texts")


def run_geometry(
    tower_options: TowerOptions,
    corpus_options: CorpusOptions,
    source: str,
    depth: int | None,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """``workbench geometry``."""
    from analyses.geometry_run import geometry_analyses, measure_geometry

    corpus, wanted = corpus_of(corpus_options, (source,))
    tower = tower_of(tower_options)
    found = measure_geometry(
        tower, corpus, wanted, tiers=corpus_options.tier_map, reference=source, depth=depth, seed=seed
    )
    config = {"tower": describe_tower(tower), "corpus": corpus.describe(), "languages": wanted, "reference": source,
              "depth": found.depth, "tier_map": corpus_options.tier_map, "seed": seed}  # fmt: skip
    run = Run(out or default_folder("geometry", tower_options.tower, corpus_options.corpus, config), config)
    analyses = geometry_analyses(found)
    headline = f"Geometry of the pooled rows of {tower.name} on {corpus.name}, {len(corpus):,} images"
    _finish(run, analyses, headline, as_json, caveats=found.notes)


def run_prevalence(
    tower_options: TowerOptions,
    corpus_options: CorpusOptions,
    prior: str,
    query: str | None,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """``workbench bias prevalence``."""
    from analyses.bias import bias_prevalence

    corpus, wanted = corpus_of(corpus_options)
    tower = tower_of(tower_options)
    analyses = bias_prevalence(
        tower, corpus, wanted, tier_map=corpus_options.tier_map, protocol=check_protocol(corpus_options.protocol),
        query=query, prior=_prior(prior), seed=seed,
    )  # fmt: skip
    config = {"tower": describe_tower(tower), "corpus": corpus.describe(), "languages": wanted, "prior": prior,
              "tier_map": corpus_options.tier_map, "protocol": corpus_options.protocol, "seed": seed}  # fmt: skip
    run = Run(out or default_folder("prevalence", tower_options.tower, corpus_options.corpus, config), config)
    headline = f"Which languages {tower.name} ranks first in the mixed pool of {corpus.name}, {len(wanted)} languages"
    _finish(run, analyses, headline, as_json)


def run_association(
    tower_options: TowerOptions, corpus_name: str, limit: int | None, seed: int, out: Path | None, as_json: bool
) -> None:
    """``workbench bias association``."""
    from analyses.bias import bias_association
    from workbench.corpora.loading import load_benchmark
    from workbench.corpora.triplets import TripletCorpus

    corpus = None
    if corpus_name != "emoji-36":
        corpus = load_benchmark(corpus_name)
        if not isinstance(corpus, TripletCorpus):
            raise InputError(
                f"{corpus_name!r} has no triplets. Give 3XCM (3xcm:FOLDER), or leave --corpus out for the stand-in "
                "that is made of emoji."
            )
    tower = tower_of(tower_options)
    analyses = bias_association(tower, corpus, limit=limit, seed=seed)
    config = {"tower": describe_tower(tower), "corpus": corpus_name, "limit": limit, "seed": seed}
    run = Run(out or default_folder("association", tower_options.tower, corpus_name, config), config)
    stand_in = " (a stand-in made of emoji, not 3XCM)" if corpus is None else ""
    _finish(run, analyses, f"Whose pictures {tower.name} prefers on {corpus_name}{stand_in}", as_json)


def run_erase(
    tower_options: TowerOptions,
    corpus_options: CorpusOptions,
    ranks: str | None,
    average: str | None,
    adversarial: bool,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """``workbench erase``."""
    from analyses.erasure_run import erasure_analyses, measure_erasure
    from interventions.erasers import INLP, LEACE, MeanDifference

    corpus, wanted = corpus_of(corpus_options)
    tower = tower_of(tower_options)
    erasers = None
    if ranks is not None:
        erasers = [LEACE(), MeanDifference(), *(INLP(_rank(word)) for word in split_words(ranks, "--ranks"))]
    pools = None if average is None else {word: word.split("+") for word in split_words(average, "--average")}
    study = measure_erasure(
        tower, corpus, wanted, tier_map=corpus_options.tier_map, erasers=erasers, adversarial=adversarial,
        pools=pools, pivot=corpus_options.pivot, seed=seed,
    )  # fmt: skip
    config = {"tower": describe_tower(tower), "corpus": corpus.describe(), "languages": wanted, "ranks": ranks,
              "average": average, "adversarial": adversarial, "tier_map": corpus_options.tier_map,
              "pivot": corpus_options.pivot, "seed": seed}  # fmt: skip
    run = Run(out or default_folder("erase", tower_options.tower, corpus_options.corpus, config), config)
    headline = f"The language in the embeddings of {tower.name}, and without it, on {corpus.name}"
    verdict = study.verdicts["LEACE", "i2t"].sentence
    _finish(run, erasure_analyses(study), headline, as_json, verdict=verdict, caveats=study.notes)


def run_compare(folder: Path, paper: str | None, calibrated: Path | None, out: Path | None, as_json: bool) -> None:
    """``workbench compare``."""
    from analyses.ceiling import patch_ceiling
    from analyses.comparison import compare_run, read_run

    if calibrated is None:
        analysis = compare_run(folder, paper)
    else:
        analysis = patch_ceiling(read_run(folder), read_run(calibrated))
    if out is not None or folder.is_dir():
        analysis.save((out or folder) / "figures")
    if as_json:
        print_json({"rows": json.loads(analysis.table.to_json(orient="records"))})
        return
    typer.echo(as_text(analysis.table))
    typer.echo(f"\n{analysis.caption}")


def _rank(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise InputError(
            f"--ranks holds {word!r}. Give whole numbers with commas between, such as 12,64,128."
        ) from None


def _prior(text: str) -> Any:
    if text in ("half", "pool"):
        return text
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--prior is {text!r}. Use half, pool, or a number between 0 and 1.") from None


def _write_frame(run: Run, frame: "pd.DataFrame") -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), sink, compression="zstd")
    run.write_bytes("results.parquet", sink.getvalue().to_pybytes())


def _finish(
    run: Run,
    analyses: Sequence[Analysis],
    headline: str,
    as_json: bool,
    *,
    verdict: str = "",
    caveats: Sequence[str] = (),
) -> None:
    """Write figures and page, published values beside them, and say what is in them."""
    analyses = [*analyses, *beside_published(*analyses)]
    said = verdict or f"{headline}: {analyses[0].in_short}"
    for analysis in analyses:
        analysis.save(run.folder / "figures")
    run.finish({})
    manifest = json.loads((run.folder / "manifest.json").read_text("utf-8"))
    report = write_report(
        run.folder / "report.html",
        title=headline,
        verdict=said,
        evidence=[(analysis.title, analysis.in_short) for analysis in analyses],
        analyses=analyses,
        caveats=list(caveats),
        provenance=manifest,
    )
    if as_json:
        tables = {analysis.name: json.loads(analysis.table.to_json(orient="records")) for analysis in analyses}
        print_json({"run": str(run.folder), "report": str(report), "tables": tables})
        return
    typer.echo(textwrap.fill(said, 118))
    for analysis in analyses:
        typer.echo(f"\n{analysis.title}\n{textwrap.indent(textwrap.fill(analysis.in_short, 116), '  ')}")
    typer.echo(f"\nReport: {report}")
