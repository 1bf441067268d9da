"""The panels of a diagnosis beside the sweep's own: CKA and divergence by depth, and erasure with its placebo."""

import logging
from typing import TYPE_CHECKING, Any

from analyses.base import Analysis
from analyses.diagnosis.verdict import Verdict
from analyses.geometry import cka_curves
from analyses.geometry_divergence import divergence_curves
from analyses.theme import TEMPLATE, intervention_styles
from probes.cka import cka_by_depth
from probes.divergence import divergence_by_depth
from workbench.corpora.base import Corpus
from workbench.sweep_frame import SweepSettings
from workbench.towers.base import Tower
from workbench.trajectory import capture_language

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger("workbench")

PERMUTATIONS = 20


def geometry_panels(
    tower: Tower, corpus: Corpus, settings: SweepSettings, source: str, tiers: tuple[str, str]
) -> list[Analysis]:
    """Capture the languages that have a tier and show CKA and divergence by depth (S3-80, S3-06).

    Parameters
    ----------
    tower : Tower
    corpus : Corpus
    settings : SweepSettings
        Of the sweep: languages, tiers and seed.
    source : str
        Language that divergence is taken from.
    tiers : (str, str)
        The better and the worse one.
    """
    depths = list(range(tower.n_blocks + 1))
    rows: dict[str, np.ndarray] = {}
    for language in settings.tiers:
        tokens = tower.tokenize(corpus.texts(language, "first")[0], language)
        rows[language] = capture_language(tower, tokens, depths).rows.numpy()
    subject = f"{tower.name} on {corpus.name}"
    cka = cka_by_depth(rows, depths=depths, permutations=PERMUTATIONS, seed=settings.seed)
    panels = [cka_curves(cka, settings.tiers, subject=subject)]
    measured = {tier for language, tier in settings.tiers.items() if language != source}
    if measured >= set(tiers):
        divergence = divergence_by_depth(rows, source, depths=depths, distance="cosine", seed=settings.seed)
        panels.append(divergence_curves(divergence, settings.tiers, high=tiers[0], low=tiers[1], subject=subject))
    else:
        log.info("divergence is left out: %s is the only language of its tier, and it is measured from it", source)
    return panels


def erasure_panel(verdict: Verdict) -> Analysis | None:
    """Show what erasure at the output closes of the gap, beside random directions (S3-35, S3-36)."""
    import pandas as pd
    import plotly.graph_objects as go

    erased: dict[str, Any] = verdict.numbers["erasure"]
    if not erased:
        return None
    names = {"lift": "LEACE", "placebo": "random directions, mean of 5"}
    rows = [
        {"direction": direction, "eraser": name, "rank": found["rank"], **{f"change{k}": found[key][part] for k, part in
         (("", "value"), (" low", "low"), (" high", "high"))}}
        for direction, found in erased.items()
        for key, name in names.items()
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    styles = intervention_styles(["parallel", "random"])
    figure = go.Figure()
    for name, style, pattern in zip(names.values(), styles.values(), ("", "/"), strict=True):
        own = table[table["eraser"] == name]
        figure.add_trace(
            go.Bar(
                x=own["direction"], y=own["change"], name=name,
                marker={"color": style.colour, "pattern": {"shape": pattern}},
                error_y={
                    "type": "data", "symmetric": False, "array": own["change high"] - own["change"],
                    "arrayminus": own["change"] - own["change low"],
                },
            )
        )  # fmt: skip
    figure.update_layout(template=TEMPLATE, barmode="group", height=380, legend={"orientation": "h", "y": 1.12})
    figure.update_yaxes(title="change of R@1, points")
    figure.update_xaxes(title="direction")
    n, languages = verdict.numbers["n"], ", ".join(verdict.languages)
    gaps = "; ".join(
        f"{direction}: {verdict.numbers['gap'][direction]['value']:.1f} points, of which LEACE closes "
        f"{100 * found['share']:.0f} %"
        for direction, found in erased.items()
    )
    return Analysis(
        "erasure",
        f"The language erased at the output, {n:,} images",
        table,
        figure,
        f"Mean over the languages that trail ({languages}), fitted on one half of the images and scored on the other, "
        f"both ways; the gallery is the scored half. Gap {gaps}. Bars are 95 % bootstrap intervals over images.",
    )
