"""``workbench score``, ``geometry``, ``bias`` and ``compare``: commands that patch nothing."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from analyses.base import Analysis
from analyses.cli.options import CorpusOptions, TowerOptions
from analyses.commands.common import (
    as_text,
    benchmark_options,
    corpus_of,
    first_captions,
    one_depth,
    print_json,
    refuse_unread,
    split_words,
    start,
    tower_of,
    truncation,
    wanted_languages,
    write_frame,
)
from analyses.comparison import beside_published
from analyses.report import write_report
from workbench.corpora.base import check_protocol
from workbench.errors import InputError
from workbench.language_codes import own_code
from workbench.parsing import load_file
from workbench.runs import Run

if TYPE_CHECKING:
    pass


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
    from workbench.corpora.benchmarks import BUILT_IN
    from workbench.corpora.loading import corpus_languages, load_benchmark
    from workbench.scoring import score

    chosen = None if metrics is None else split_words(metrics, "--metrics")
    options: dict[str, Any] = {"tier_map": corpus_options.tier_map}
    if corpus_options.corpus in BUILT_IN or _is_parallel(corpus_options.corpus):
        corpus, wanted = corpus_of(corpus_options)
        options |= {
            "protocol": corpus_options.protocol, "pools": split_words(pools, "--pools"), "languages": wanted,
            "pivot": corpus_options.pivot,
        }  # fmt: skip
        texts = first_captions(corpus, wanted, corpus_options.protocol)
    else:
        clause = "has no captions to choose from: it is scored on classes or questions"
        refuse_unread("score", corpus_options, protocol=clause, pivot=clause)
        if pools != "language":
            raise InputError(f"--pools {pools} came, and this corpus is scored on its own classes or questions.")
        wanted = None if corpus_options.languages in ("all", "tiers") else wanted_languages(corpus_options)
        corpus = load_benchmark(
            corpus_options.corpus, wanted, limit=corpus_options.limit, **benchmark_options(corpus_options)
        )
        texts = _asked_texts(corpus)
    tower = tower_of(tower_options)
    run = start(
        "score", tower, corpus, tower_options, corpus_options, out, metrics=chosen, pools=pools, seed=seed,
        wanted=wanted or list(corpus_languages(corpus_options.corpus)),
    )  # fmt: skip
    notes = truncation(tower, texts)
    frame = score(tower, corpus, chosen, seed=seed, **options)
    write_frame(run, frame)
    run.finish(notes)
    if as_json:
        print_json({"run": str(run.folder), "scores": json.loads(frame.to_json(orient="records"))})
        return
    columns = [
        c for c in ("language", "tier", "pool", "direction", "metric", "value", "low", "high", "n") if c in frame
    ]
    typer.echo(as_text(frame[columns]))
    typer.echo(f"\nNumbers: {run.folder / 'results.parquet'}")


def _asked_texts(corpus: Any) -> dict[str, list[str]]:
    """Return what is asked of the images of a corpus of classes or questions, by language."""
    from workbench.corpora.classification import ClassificationCorpus

    if isinstance(corpus, ClassificationCorpus):
        return {code: [text for prompts in corpus.texts(code) for text in prompts] for code in corpus.languages}
    found: dict[str, list[str]] = {}
    for question, options in zip(corpus.questions, corpus.texts(), strict=True):
        found.setdefault(corpus.text_language(question), []).extend(options)
    return found


def _is_parallel(name: str) -> bool:
    from workbench.corpora.loading import find_corpus

    return find_corpus(name).benchmark.kind in ("parallel", "texts")


def run_geometry(
    tower_options: TowerOptions,
    corpus_options: CorpusOptions,
    source: str,
    depths: str | None,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """``workbench geometry``."""
    from analyses.geometry_run import geometry_analyses, measure_geometry

    refuse_unread(
        "geometry", corpus_options, protocol="compares the first caption of each image", pivot="ranks nothing"
    )
    corpus, wanted = corpus_of(corpus_options, (source,))
    tower = tower_of(tower_options)
    depth = None if depths is None else one_depth(depths, tower.n_blocks)
    run = start(
        "geometry", tower, corpus, tower_options, corpus_options, out, wanted=wanted, source=source, depth=depth,
        seed=seed,
    )  # fmt: skip
    notes = truncation(tower, first_captions(corpus, wanted))
    found = measure_geometry(
        tower, corpus, wanted, tiers=corpus_options.tier_map, reference=source, depth=depth, seed=seed
    )
    analyses = geometry_analyses(found)
    headline = f"Geometry of the pooled rows of {tower.name} on {corpus.name}, {len(corpus):,} images"
    _finish(run, analyses, headline, as_json, notes, caveats=found.notes)


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

    refuse_unread("bias prevalence", corpus_options, pivot="ranks captions for images")
    corpus, wanted = corpus_of(corpus_options)
    tower = tower_of(tower_options)
    run = start(
        "prevalence", tower, corpus, tower_options, corpus_options, out, wanted=wanted, prior=prior, query=query,
        seed=seed,
    )  # fmt: skip
    notes = truncation(tower, first_captions(corpus, wanted, corpus_options.protocol))
    analyses = bias_prevalence(
        tower, corpus, wanted, tier_map=corpus_options.tier_map, protocol=check_protocol(corpus_options.protocol),
        query=query, prior=_prior(prior), seed=seed,
    )  # fmt: skip
    headline = f"Which languages {tower.name} ranks first in the mixed pool of {corpus.name}, {len(wanted)} languages"
    _finish(run, analyses, headline, as_json, notes)


@dataclass(frozen=True)
class Trials:
    """Which trials are looked at, as it was typed."""

    limit: int | None
    labels: Path | None
    review: float | None


def run_association(
    tower_options: TowerOptions, corpus_name: str, trials: Trials, seed: int, out: Path | None, as_json: bool
) -> None:
    """``workbench bias association``."""
    from analyses.association import CAVEATS, embed_triplets
    from analyses.bias import STAND_IN_EMOJI, bias_association
    from analyses.concept_labels import read_labels, without_shared_concepts
    from analyses.emoji_triplets import emoji_triplets
    from analyses.near_duplicates import near_duplicates, write_review
    from workbench.corpora.loading import load_benchmark
    from workbench.corpora.triplets import TripletCorpus

    stand_in = corpus_name == "emoji-36"
    if stand_in:
        corpus = emoji_triplets(limit=STAND_IN_EMOJI if trials.limit is None else trials.limit, seed=seed)
    else:
        corpus = load_benchmark(corpus_name)
        if not isinstance(corpus, TripletCorpus):
            raise InputError(
                f"{corpus_name!r} has no triplets. Give 3XCM (3xcm:FOLDER), or leave --corpus out for the stand-in "
                "that is made of emoji."
            )
    if trials.labels is not None:
        corpus = without_shared_concepts(corpus, read_labels(trials.labels))
    if not stand_in:
        corpus = corpus.select(limit=trials.limit)
    if trials.review is not None and not -1 < trials.review <= 1:
        raise InputError(f"--review {trials.review:g} came. Give a cosine above -1 and at most 1, such as 0.95.")
    tower = tower_of(tower_options)
    run = start(
        "association", tower, corpus, tower_options, None, out, limit=trials.limit, review=trials.review, seed=seed,
        left_out=dict(corpus.left_out),
    )  # fmt: skip
    texts: dict[str, list[str]] = {}
    for country, text in zip(corpus.countries, corpus.texts(), strict=True):
        texts.setdefault(corpus.languages_of[country], []).append(text)
    notes = truncation(tower, texts)
    embeddings = embed_triplets(tower, corpus)
    analyses = bias_association(tower, corpus, seed=seed, embeddings=embeddings)
    if trials.review is not None:
        analyses.append(near_duplicates(embeddings.single.images.numpy(), corpus.image_ids, threshold=trials.review))
        write_review(analyses[-1], corpus.open_image, run.folder / "near-duplicates.html")
    of = " (a stand-in made of emoji, not 3XCM)" if stand_in else ""
    _finish(run, analyses, f"Whose pictures {tower.name} prefers on {corpus_name}{of}", as_json, notes, caveats=CAVEATS)


@dataclass(frozen=True)
class ErasePlan:
    """What is erased and averaged, as it was typed."""

    ranks: str | None
    average: str | None
    adversarial: bool
    average_pairs: bool
    cross_fit: int | None


def run_erase(
    tower_options: TowerOptions,
    corpus_options: CorpusOptions,
    plan: ErasePlan,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """``workbench erase``."""
    from analyses.erasure_run import erasure_analyses, measure_erasure
    from interventions.erasers import INLP, LEACE, MeanDifference

    refuse_unread("erase", corpus_options, protocol="fits on the first caption of each image")
    corpus, wanted = corpus_of(corpus_options)
    tower = tower_of(tower_options)
    erasers = None
    if plan.ranks is not None:
        erasers = [LEACE(), MeanDifference(), *(INLP(_rank(word)) for word in split_words(plan.ranks, "--ranks"))]
    pools = None
    if plan.average is not None:
        pools = {
            word: [own_code(code, "A language of --average") for code in word.split("+")]
            for word in split_words(plan.average, "--average")
        }
    if plan.cross_fit is not None and not 2 <= plan.cross_fit <= len(corpus):
        raise InputError(
            f"--cross-fit {plan.cross_fit} came for {len(corpus):,} images. Give a number of folds from 2 to that."
        )
    run = start("erase", tower, corpus, tower_options, corpus_options, out, wanted=wanted, **asdict(plan), seed=seed)
    notes = truncation(tower, first_captions(corpus, wanted))
    study = measure_erasure(
        tower, corpus, wanted, tier_map=corpus_options.tier_map, erasers=erasers, adversarial=plan.adversarial,
        pools=pools, pairs=plan.average_pairs, folds=plan.cross_fit, pivot=corpus_options.pivot, seed=seed,
    )  # fmt: skip
    headline = f"The language in the embeddings of {tower.name}, and without it, on {corpus.name}"
    verdict = study.verdicts["LEACE", "i2t"].sentence
    _finish(run, erasure_analyses(study), headline, as_json, notes, verdict=verdict, caveats=study.notes)


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


def _finish(
    run: Run,
    analyses: Sequence[Analysis],
    headline: str,
    as_json: bool,
    notes: Mapping[str, Any],
    *,
    verdict: str = "",
    caveats: Sequence[str] = (),
) -> None:
    """Write figures and page, published values beside them, and say what is in them."""
    analyses = [*analyses, *beside_published(*analyses)]
    said = verdict or f"{headline}: {analyses[0].in_short}"
    run.begin()
    for analysis in analyses:
        analysis.save(run.folder / "figures")
    run.finish(notes, [f"figures/{analysis.name}.csv" for analysis in analyses])
    manifest = load_file(run.folder / "manifest.json", finite=False)
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
