"""The page of a diagnosis: which analyses it shows, in which order, and what a reader must know beside them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from analyses.base import Analysis
from analyses.baselines import baseline
from analyses.browser import patch_browser
from analyses.checkpoint import checkpoint_table
from analyses.comparison import beside_published
from analyses.diagnosis.panels import erasure_panel, geometry_panels
from analyses.diagnosis.verdict import Verdict, check_settings
from analyses.report import write_report
from analyses.rescue import rescue_figure, rescue_grid
from workbench.corpora.base import Corpus
from workbench.parsing import load_file
from workbench.retrieval import METRICS, Bootstrap
from workbench.runs import Run
from workbench.sweep_frame import DIRECTIONS, scores_by_image
from workbench.sweeps import SweepResult
from workbench.towers.base import Tower

if TYPE_CHECKING:
    import pandas as pd

CAVEATS = (
    "A patch shows where a row can be repaired, not why it went wrong: amount of training data, tokenisation, "
    "attention and optimisation are not told apart.",
    "At depth N the patched row is the source's own, so the last point of every curve is true by construction.",
    "The projection head and the image tower are not looked at.",
    "Intervals cover the choice of images. They say nothing about another training run or another choice of "
    "languages. The verdict corrects for the number of languages, directions and depths; the curves do not.",
    "Languages differ in tokens per caption; the provenance below lists them, with the captions that were cut.",
)


@dataclass(frozen=True)
class Page:
    """What was written.

    Attributes
    ----------
    report : Path
    checkpoint : Analysis
        The table at the checkpoint N-4, which the command line prints.
    """

    report: Path
    checkpoint: Analysis


def write_page(run: Run, result: SweepResult, corpus: Corpus, verdict: Verdict, tower: Tower | None = None) -> Page:
    """Write ``figures/`` and ``report.html`` of a run.

    Parameters
    ----------
    run : Run
        Finished, with its manifest.
    result : SweepResult
    corpus : Corpus
    verdict : Verdict
    tower : Tower, optional
        Shows CKA and divergence by depth too.

    Returns
    -------
    Page
    """
    frame, last = result.frame, result.settings.n_blocks
    checkpoint = checkpoint_table(frame, last_depth=last)
    erasure = erasure_panel(verdict)
    geometry = []
    if tower is not None:
        source, (better, worse) = check_settings(result.settings)[1].sources[0], verdict.numbers["tiers"]
        geometry = geometry_panels(tower, corpus, result.settings, source, (better, worse))
    analyses = [
        baseline(frame, unseen=unseen_scores(result, corpus)),
        *geometry,
        *([] if erasure is None else [erasure]),
        rescue_figure(frame, last_depth=last),
        rescue_grid(frame, last_depth=last),
        checkpoint,
        *beside_published(frame),
    ]
    for analysis in analyses:
        analysis.save(run.folder / "figures")
    manifest = load_file(run.folder / "manifest.json", finite=False)
    report = write_report(
        run.folder / "report.html",
        title=f"Where {frame['tower'].iloc[0]} fails, on {corpus.name}",
        verdict=verdict.sentence,
        evidence=verdict.evidence,
        analyses=analyses,
        browser=patch_browser(result, corpus, seed=result.settings.seed),
        caveats=[*CAVEATS, *_left_out(corpus)],
        provenance=manifest,
    )
    return Page(report, checkpoint)


def _left_out(corpus: Corpus) -> list[str]:
    return [f"{count} images were left out: {reason}." for reason, count in corpus.left_out.items()]


def unseen_scores(result: SweepResult, corpus: Corpus) -> "pd.DataFrame | None":
    """Score the frozen tower on those captions alone that the built-in towers never saw in training.

    Parameters
    ----------
    result : SweepResult
    corpus : Corpus

    Returns
    -------
    pandas.DataFrame or None
        Columns language, direction, metric, value, low, high and n; None for a corpus that no built-in tower
        was trained on, or where it has seen everything. A language with fewer than two unseen captions has no
        interval and is left out.
    """
    import pandas as pd

    if corpus.drawn is None or result.frame["tower"].iloc[0] not in _trained_on_it():
        return None
    rows = []
    for language, cell in result.cells.items():
        unseen = np.array(corpus.drawn[language]) == 0
        if unseen.sum() < 2:
            continue
        _, owner = corpus.texts(language, result.settings.protocol)
        bootstrap = Bootstrap(int(unseen.sum()), result.settings.resamples, result.settings.seed)
        for direction in DIRECTIONS:
            own = np.arange(len(corpus)) if direction == "i2t" else owner
            for metric in METRICS:
                scores = scores_by_image(cell.clean(direction), metric, own, len(corpus))[unseen]
                low, high = bootstrap.mean_interval(scores)
                rows.append((language, direction, metric, float(scores.mean()), float(low), float(high), bootstrap.n))
    columns = ["language", "direction", "metric", "value", "low", "high", "n"]
    return pd.DataFrame(rows, columns=columns) if rows else None


def _trained_on_it() -> tuple[str, ...]:
    from workbench.builtin import TOWER_FOLDERS

    return tuple(TOWER_FOLDERS)
