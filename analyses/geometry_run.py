"""All measures of geometry of one tower on one corpus, from one pass over its captions; and two towers compared.

:func:`measure_geometry` captures each language once and computes CKA, divergence, silhouettes, residuals and
their correlation with prevalence, sensitivity with its bound, the modality gap, cosines with centroids and shared
neighbours. :func:`geometry_analyses` shows them; :func:`compare_geometry` lays two states of a tower over each
other, such as before and after calibration of its trunk (S3-82, S3-88).
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import torch

from analyses.base import Analysis
from analyses.geometry import cka_curves, cka_gap, cka_matrix
from analyses.geometry_divergence import divergence_curves, prevalence_scatter, residuals_by_language
from analyses.geometry_output import centroid_cosines, jaccard_curves, modality_gap_by_language
from analyses.geometry_parts import Panels, number, span, table_of, titled
from analyses.geometry_sensitivity import sensitivity_by_language
from analyses.geometry_silhouette import silhouette_curves
from analyses.key_numbers import geometry_numbers
from analyses.theme import depth_name, label
from probes._resampling import mean_over_captions
from probes.cka import CKAResult, cka_by_depth, tier_means
from probes.correlation import Correlation
from probes.divergence import Divergence, divergence_by_depth, prevalence_correlation, residuals_at
from probes.modality_gap import CentroidCosine, ModalityGap, centroid_cosine, measure_modality_gap
from probes.neighbours import CUTOFFS, Jaccard, topk_jaccard
from probes.sensitivity import Sensitivity, back_half_sensitivity
from probes.silhouette import SilhouetteByDepth, silhouette_by_depth
from probes.spectral_bound import SpectralBound, back_half_bound
from workbench.corpora.base import Corpus
from workbench.errors import InputError
from workbench.languages import COMMON_CRAWL_SHARE, tier_map
from workbench.towers.base import Tower
from workbench.trajectory import capture_language, check_depths

log = logging.getLogger(__name__)

_FEWEST_FOR_CORRELATION = 4


@dataclass(frozen=True)
class Geometry:
    """What was measured.

    Attributes
    ----------
    tower, corpus : str
    tiers : dict of str to str
        Tier of each language.
    reference : str
        Language that divergence and sensitivity are taken from.
    high, low : str
        The tier of the reference, and the other one.
    depth : int
        M, where residuals and sensitivity are taken.
    cka, divergence, silhouettes, sensitivity
        Results of the probes; silhouettes by metric.
    residuals : dict of str to dict
        By the name of the reference, by language: value and interval.
    prevalence : Correlation, optional
    bound : SpectralBound, optional
    modality_gap, centroids, jaccard
        Absent where the tower or the corpus has no images.
    notes : tuple of str
        What was not measured, and why.
    """

    tower: str
    corpus: str
    tiers: dict[str, str]
    reference: str
    high: str
    low: str
    depth: int
    cka: CKAResult = field(repr=False)
    divergence: dict[str, Divergence] = field(repr=False)
    silhouettes: dict[str, SilhouetteByDepth] = field(repr=False)
    residuals: dict[str, dict[str, tuple[float, float, float]]] = field(repr=False)
    sensitivity: Sensitivity = field(repr=False)
    prevalence: Correlation | None = field(repr=False)
    bound: SpectralBound | None = field(repr=False)
    modality_gap: ModalityGap | None = field(repr=False)
    centroids: dict[str, CentroidCosine] = field(repr=False)
    jaccard: dict[str, Jaccard] = field(repr=False)
    notes: tuple[str, ...]

    @property
    def subject(self) -> str:
        """Which tower, on which corpus."""
        return f"{self.tower} on {self.corpus}"


def measure_geometry(
    tower: Tower,
    corpus: Corpus,
    languages: Iterable[str] | None = None,
    *,
    tiers: str | Path | Mapping[str, str] = "s3",
    reference: str = "en",
    depth: int | None = None,
    distances: Iterable[str] = ("cosine", "whitened"),
    permutations: int = 100,
    directions: int = 8,
    resamples: int = 1000,
    seed: int = 0,
) -> Geometry:
    """Measure everything of the geometry of a tower, with the first caption of each image.

    Parameters
    ----------
    tower : Tower
        In float32.
    corpus : Corpus
    languages : iterable of str, optional
        All of the corpus by default; each needs a tier.
    tiers : str, Path or mapping
        A tier map of two tiers.
    reference : str
    depth : int, optional
        M; by default a sixth of the blocks, rounded, which is where published trunks of 24 blocks end (AMB-31).
    distances : iterable of str
        Distances of divergence.
    permutations : int
        Draws of CKA's null.
    directions : int
        Random directions of the sensitivity.
    resamples, seed : int

    Returns
    -------
    Geometry

    Raises
    ------
    InputError
        If there are not exactly two tiers, a language has none, the reference is not among the languages, or it is
        the only one of its tier.
    """
    wanted = corpus.check_languages(languages) if languages is not None else corpus.languages
    reference = corpus.check_languages([reference])[0]
    _, known = tier_map(tiers)
    own = {code: known[code] for code in wanted if known.get(code)}
    missing = [code for code in wanted if code not in own]
    if missing:
        raise InputError(f"The tier map lacks {', '.join(missing)}. Leave these languages out, or give another map.")
    if reference not in wanted:
        raise InputError(f"The reference {reference!r} is not among the languages: {', '.join(wanted)}.")
    names = list(dict.fromkeys(own.values()))
    if len(names) != 2:
        raise InputError(f"The languages have {len(names)} tiers ({', '.join(names)}); geometry compares two.")
    high = own[reference]
    if list(own.values()).count(high) < 2:
        raise InputError(
            f"The reference's tier {high!r} has one language; a gap between tiers needs two or more there."
        )
    low = next(name for name in names if name != high)
    place = check_depths([max(1, round(tower.n_blocks / 6)) if depth is None else depth], tower.n_blocks)[0]
    depths = list(range(tower.n_blocks + 1))
    corpus.check_parallel(wanted, "first")
    tokens = {code: tower.tokenize(corpus.texts(code, "first")[0], code) for code in wanted}
    captured = {code: capture_language(tower, own_tokens, depths) for code, own_tokens in tokens.items()}
    rows = {code: found.rows.numpy() for code, found in captured.items()}
    notes: list[str] = []
    at_depth = {code: stack[:, place] for code, stack in rows.items()}
    members = [code for code in wanted if own[code] == high]
    residuals = {reference: residuals_at(_one(at_depth), 0, reference, resamples=resamples, seed=seed)}
    residuals[f"mean of {high}"] = residuals_at(_one(at_depth), 0, members, resamples=resamples, seed=seed)
    prevalence = _prevalence(residuals[reference], notes, seed)
    try:
        bound = back_half_bound(tower, place, tokens.values())
    except InputError as error:
        bound = None
        notes.append(str(error))
    modality, centroids, jaccard = None, {}, {}
    if tower.has_images and not corpus.text_only and not tower.multi_vector:
        images = tower.embed_images(corpus)
        texts = {code: found.embeddings for code, found in captured.items()}
        modality = measure_modality_gap(images, texts, resamples=resamples, seed=seed)
        for tier in (high, low):
            centroids[tier] = centroid_cosine(images, {code: texts[code] for code in wanted if own[code] == tier})
        cutoffs = [k for k in CUTOFFS if k < len(images)]
        for code in wanted:
            if code != reference:
                jaccard[code] = topk_jaccard(texts[code], texts[reference], images, cutoffs, seed=seed)
    else:
        notes.append("There is no single embedding of each image, so nothing was compared with images.")
    for note in notes:
        log.info("%s", note)
    return Geometry(
        tower=tower.name,
        corpus=corpus.name,
        tiers=own,
        reference=reference,
        high=high,
        low=low,
        depth=place,
        cka=cka_by_depth(rows, depths=depths, permutations=permutations, seed=seed),
        divergence={
            name: divergence_by_depth(rows, reference, depths=depths, distance=name, seed=seed)  # pyright: ignore[reportArgumentType]
            for name in distances
        },
        silhouettes={
            name: silhouette_by_depth(rows, depths=depths, metric=name, seed=seed)  # pyright: ignore[reportArgumentType]
            for name in ("cosine", "euclidean")
        },
        residuals=residuals,
        sensitivity=back_half_sensitivity(tower, corpus, place, reference, wanted, directions=directions, seed=seed),
        prevalence=prevalence,
        bound=bound,
        modality_gap=modality,
        centroids=centroids,
        jaccard=jaccard,
        notes=tuple(notes),
    )


def _one(rows: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {code: torch.from_numpy(own) for code, own in rows.items()}


def _prevalence(residual: Mapping[str, tuple[float, float, float]], notes: list[str], seed: int) -> Correlation | None:
    known = {code: value for code, (value, _, _) in residual.items() if COMMON_CRAWL_SHARE.get(code, 0) > 0}
    if len(known) < len(residual):
        notes.append(f"No prevalence is known of {', '.join(sorted(set(residual) - set(known)))}.")
    if len([code for code in known if code != "en"]) < _FEWEST_FOR_CORRELATION:
        notes.append("Fewer than 4 languages are left for a correlation with prevalence.")
        return None
    return prevalence_correlation(known, seed=seed)


def geometry_analyses(found: Geometry, *, resamples: int = 1000) -> list[Analysis]:
    """Show everything that was measured, in the order in which a reader would ask."""
    subject, n, d = found.subject, found.cka.n, found.cka.d
    shown = [
        cka_curves(found.cka, found.tiers, subject=subject),
        cka_gap(found.cka, found.tiers, high=found.high, low=found.low, subject=subject),
        cka_matrix(found.cka, found.tiers, subject=subject),
    ]
    shown += [
        divergence_curves(own, found.tiers, high=found.high, low=found.low, subject=subject, resamples=resamples)
        for own in found.divergence.values()
    ]
    shown.append(residuals_by_language(found.residuals, found.tiers, depth=found.depth, n=n, d=d, subject=subject))
    if found.prevalence is not None:
        what = f"residual at depth {found.depth} from {found.reference}"
        shown.append(prevalence_scatter(found.prevalence, found.tiers, what=what, subject=subject))
    shown.append(silhouette_curves(found.silhouettes, subject=subject))
    shown.append(
        sensitivity_by_language(found.sensitivity, found.tiers, found.bound, subject=subject, resamples=resamples)
    )
    if found.modality_gap is not None:
        shown.append(modality_gap_by_language(found.modality_gap, found.tiers, subject=subject))
        shown.append(centroid_cosines(found.centroids, subject=subject, resamples=resamples))
        shown.append(jaccard_curves(found.jaccard, reference=found.reference, subject=subject, resamples=resamples))
    return [*shown, geometry_numbers(found, resamples=resamples)]


def compare_geometry(
    before: Geometry, after: Geometry, names: tuple[str, str] = ("frozen", "calibrated")
) -> list[Analysis]:
    """Lay two states of a tower over each other, and sum them up in four measures (S3-82, S3-85, S3-88, S3-92).

    Parameters
    ----------
    before, after : Geometry
        Of the same corpus, languages, reference and depth.
    names : tuple of str
        What the states are called.

    Raises
    ------
    InputError
        If the two were not measured alike.
    """
    for name in ("corpus", "tiers", "reference", "depth"):
        if getattr(before, name) != getattr(after, name):
            raise InputError(
                f"The two sides differ in {name}: {getattr(before, name)} and {getattr(after, name)}. Measure both "
                "alike."
            )
    both = dict(zip(names, (before, after), strict=True))
    first = before
    tower = before.tower if before.tower == after.tower else f"{before.tower} and {after.tower}"
    subject = f"{tower} on {before.corpus}"
    shown = [four_measures(both, subject=subject)]
    shown.append(cka_curves({name: own.cka for name, own in both.items()}, first.tiers, subject=subject))
    shown.append(
        cka_gap({name: own.cka for name, own in both.items()}, first.tiers, high=first.high, low=first.low,
                subject=subject)
    )  # fmt: skip
    shown += [
        divergence_curves({name: own.divergence[distance] for name, own in both.items()}, first.tiers,
                          high=first.high, low=first.low, subject=subject)
        for distance in first.divergence
        if distance in after.divergence
    ]  # fmt: skip
    sensitivities = {name: own.sensitivity for name, own in both.items()}
    shown.append(sensitivity_by_language(sensitivities, first.tiers, first.bound, subject=subject))
    return shown


def four_measures(states: Mapping[str, Geometry], *, subject: str = "") -> Analysis:
    """Show the four measures that a cure of the low tier should move together (S3-88).

    CKA between the tiers at the last depth, the low tier's residual at depth M, how unequal the languages'
    sensitivities are, and the low tier's divergence, averaged over depths.

    Parameters
    ----------
    states : mapping of str to Geometry
        One state or more, in order.
    subject : str
        Which tower on which corpus, for the title.
    """
    first = next(iter(states.values()))
    rows: dict[str, list[tuple[float, float, float]]] = {}
    for found in states.values():
        for name, value in _four(found):
            rows.setdefault(name, []).append(value)
    figure, records = go.Figure(), []
    panels = Panels(list(rows), height=260, entries=0)
    y = []
    for place, (name, values) in enumerate(rows.items()):
        axis = panels.axis(place)
        triples = np.array(values)
        has = np.isfinite(triples[:, 1])
        figure.add_trace(
            go.Scatter(
                x=[label(state) for state in states], y=triples[:, 0], mode="lines+markers", showlegend=False,
                line={"color": "#0256a9", "dash": "dot", "width": 1.5}, marker={"size": 10, "color": "#0256a9"},
                error_y={"type": "data", "symmetric": False, "color": "#444444", "thickness": 1.5, "width": 4,
                         "array": np.where(has, triples[:, 2] - triples[:, 0], 0),
                         "arrayminus": np.where(has, triples[:, 0] - triples[:, 1], 0)},
                hovertext=[number(*row) for row in triples], hovertemplate="%{x}: %{hovertext}<extra></extra>",
                xaxis=f"x{axis}", yaxis=f"y{axis}",
            )
        )  # fmt: skip
        y.append({"range": span([triples], least=0.0), "nticks": 5})
        records += [
            {"measure": name, "state": state, "value": row[0], "low": row[1], "high": row[2], "n": first.cka.n}
            for state, row in zip(states, values, strict=True)
        ]
    title = titled(f"Four measures (n = {first.cka.n:,} images)", subject or first.subject)
    panels.lay_out(figure, title, [{"type": "category", "range": [-0.5, len(states) - 0.5]}] * len(rows), y)
    caption = (
        f"CKA {first.high}–{first.low} is debiased, at the last depth; the residual is the mean Euclidean distance "
        f"from {first.reference} at {depth_name(first.depth)} over {first.low}; unequal sensitivity is the standard "
        f"deviation of the languages' mean ratios towards {first.reference}; divergence is the mean cosine distance "
        f"from {first.reference} over {first.low} and all depths after the embedding. n = {first.cka.n:,} images; bars "
        "are 95 % intervals over images (jackknife for CKA, bootstrap for residual and divergence; the standard "
        "deviation has none)."
    )
    return Analysis("four-measures", title, table_of(records), figure, caption)


def _four(found: Geometry) -> list[tuple[str, tuple[float, float, float]]]:
    pairs = {mean.pair: mean for mean in tier_means(found.cka, found.tiers)}
    cka = pairs.get((found.high, found.low)) or pairs[found.low, found.high]
    low = [code for code, tier in found.tiers.items() if tier == found.low]
    places = [found.sensitivity.languages.index(code) for code in low]
    residual = mean_over_captions(found.sensitivity.residual[places].mean(axis=0), seed=found.cka.seed)
    ratios = list(found.sensitivity.by_language().values())
    distance = found.divergence["cosine"] if "cosine" in found.divergence else next(iter(found.divergence.values()))
    after = [k for k, depth in enumerate(distance.depths) if depth > 0]
    rows = [distance.languages.index(code) for code in low]
    drift = mean_over_captions(distance.by_caption[rows][:, after].mean(axis=(0, 1)), seed=found.cka.seed)
    return [
        (f"CKA {found.high}–{found.low}", (float(cka.value[-1]), float(cka.low[-1]), float(cka.high[-1]))),
        ("residual", _floats(residual)),
        ("unequal sensitivity", (float(np.std(ratios, ddof=1)), float("nan"), float("nan"))),
        ("divergence", _floats(drift)),
    ]


def _floats(found: tuple[np.ndarray, np.ndarray, np.ndarray]) -> tuple[float, float, float]:
    value, low, high = map(float, found)
    return value, low, high
