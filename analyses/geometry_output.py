"""Geometry of the embeddings themselves: images beside captions, and captions beside captions.

The modality gap by language (S3-90), what averaging over languages does to cosines (S3-34), how many of the nearest
images two languages share (S3-89), and whether two subspaces meet (S3-39).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from analyses.base import Analysis
from analyses.geometry_parts import (
    CHANCE,
    Panels,
    check_same,
    curve,
    extremes,
    level_line,
    number,
    span,
    table_of,
    titled,
)
from analyses.theme import INK, Style, label, language_name, language_style
from probes._checks import check_tiers
from probes._resampling import Estimates
from probes.modality_gap import CentroidCosine, ModalityGap
from probes.neighbours import Jaccard
from probes.subspaces import PrincipalAngles
from workbench.errors import InputError

_PALETTE = (
    Style("#0256a9", "solid", "circle"),
    Style("#b55508", "dash", "diamond"),
    Style("#0e8c41", "dot", "square"),
    Style("#8e2873", "dashdot", "cross"),
    Style("#01858a", "12px,3px", "x"),
    Style("#6d0218", "8px,3px", "triangle-up"),
)


def modality_gap_by_language(result: ModalityGap, tiers: Mapping[str, str], *, subject: str = "") -> Analysis:
    """Show the raw and the relative modality gap of every language (S3-90).

    Parameters
    ----------
    result : ModalityGap
    tiers : mapping of str to str
        Languages stand by tier.
    subject : str

    Returns
    -------
    Analysis
        A row a language.
    """
    own = check_tiers(result.languages, tiers)
    order = [k for tier in dict.fromkeys(own) for k, mine in enumerate(own) if mine == tier]
    codes = [result.languages[k] for k in order]
    panels = Panels(["raw", "relative to the spread within"], height=60 + 26 * len(order), entries=0, left=124)
    figure, x = go.Figure(), []
    for place, (found, name) in enumerate(((result.raw, "raw gap"), (result.relative, "gap / spread"))):
        figure.add_trace(_by_language(found, order, codes, panels.axis(place)))
        x.append({"range": [0, span(list(found), least=0.0)[1]], "title": {"text": name}})
    names = [label(language_name(code)) for code in codes]
    y: dict[str, Any] = {
        "type": "category", "categoryorder": "array", "categoryarray": codes, "autorange": "reversed",
        "tickvals": codes,
    }  # fmt: skip
    title = titled(f"Modality gap by language (n = {result.n:,} images, d = {result.d:,})", subject)
    panels.lay_out(figure, title, x, [{**y, "ticktext": names}, {**y, "ticktext": codes}])
    caption = (
        f"Distance between the mean image and the mean caption of unit embeddings, raw = ‖mean v − mean z‖; relative = "
        f"raw / ((s_v + s_z) / 2) with s the mean distance of a modality's points to its own mean (images: "
        f"{result.image_spread:.3f}). n = {result.n:,} images, d = {result.d:,}; bars are 95 % intervals of a "
        "bootstrap over images, the same for every language. Languages by tier."
    )
    records = [
        {
            "language": result.languages[k], "tier": own[k],
            "raw": result.raw.value[k], "raw low": result.raw.low[k], "raw high": result.raw.high[k],
            "relative": result.relative.value[k], "relative low": result.relative.low[k],
            "relative high": result.relative.high[k], "text spread": result.text_spread[k],
            "image spread": result.image_spread, "n": result.n, "d": result.d,
        }
        for k in order
    ]  # fmt: skip
    rows = [{"language": row["language"], "value": row["raw"]} for row in records]
    return Analysis("modality-gap", title, table_of(records), figure, caption, f"Raw gap: {extremes(rows)}.")


def _by_language(found: Estimates, order: Sequence[int], codes: Sequence[str], axis: str) -> go.Scatter:
    styles = [language_style(code) for code in codes]
    value, low, high = (own[list(order)] for own in found)
    return go.Scatter(
        x=value, y=list(codes), mode="markers", showlegend=False,
        error_x={"type": "data", "symmetric": False, "array": high - value, "arrayminus": value - low,
                 "color": "#444444", "thickness": 1.5, "width": 4},
        marker={"color": [s.colour for s in styles], "symbol": [s.symbol for s in styles], "size": 10},
        hovertext=[
            f"<b>{label(language_name(code))}</b><br>{number(*numbers)}"
            for code, *numbers in zip(codes, value, low, high, strict=True)
        ],
        hovertemplate="%{hovertext}<extra></extra>", xaxis=f"x{axis}", yaxis=f"y{axis}",
    )  # fmt: skip


def centroid_cosines(sets: Mapping[str, CentroidCosine], *, subject: str = "", resamples: int = 1000) -> Analysis:
    """Show centroid and mean cosine of images with each set of languages (S3-34).

    Parameters
    ----------
    sets : mapping of str to CentroidCosine
        By the name of the set, such as ``"HRL"``.
    subject : str
    resamples : int

    Returns
    -------
    Analysis
        A row a set: both values, their difference, and the norm of the centroid.
    """
    if not sets:
        raise InputError("No set of languages came.")
    check_same(sets, "n", "d")
    first = next(iter(sets.values()))
    averages = {name: own.estimates(resamples=resamples) for name, own in sets.items()}
    kinds = (("mean", _PALETTE[0]), ("centroid", _PALETTE[1]))
    panels = Panels(
        ["cosine with the image", "norm of the mean caption"], height=80 + 54 * len(sets), entries=2, left=90
    )
    figure = go.Figure()
    names = list(sets)
    for place, (kind, style) in enumerate((*kinds, ("length", Style(INK, "solid", "square")))):
        rows = [averages[name][kind] for name in names]
        value, low, high = (np.array([float(row[k]) for row in rows]) for k in range(3))
        axis = panels.axis(place == 2)
        aside = 0.0 if place == 2 else 0.12 * (2 * place - 1)
        figure.add_trace(
            go.Scatter(
                x=value, y=[k + aside for k in range(len(names))], mode="markers", name=f"{kind} cosine",
                showlegend=place < 2, marker={"color": style.colour, "symbol": style.symbol, "size": 10},
                error_x={"type": "data", "symmetric": False, "array": high - value, "arrayminus": value - low,
                         "color": style.colour, "thickness": 1.5, "width": 4},
                hovertext=[
                    f"{label(name)}: {number(*row)}" for name, *row in zip(names, value, low, high, strict=True)
                ],
                hovertemplate="%{hovertext}<extra></extra>", xaxis=f"x{axis}", yaxis=f"y{axis}",
            )
        )  # fmt: skip
    title = titled(f"Averaging captions over languages (n = {first.n:,} images, d = {first.d:,})", subject)
    both = [averages[name][kind] for name in names for kind in ("mean", "centroid")]
    ends = span([np.array(own) for own in both], least=0.0)
    y: dict[str, Any] = {"range": [len(names) - 0.5, -0.5], "tickvals": list(range(len(names)))}
    panels.lay_out(
        figure,
        title,
        [{"range": [min(0.0, ends[0]), ends[1]]}, {"range": [0, 1.02]}],
        [{**y, "ticktext": [label(name) for name in names]}, {**y, "ticktext": [""] * len(names)}],
    )
    members = "; ".join(f"{name}: {', '.join(own.languages)}" for name, own in sets.items())
    caption = (
        "Cosine of an image with the normalised mean of its unit captions (centroid) and mean of their cosines. For "
        "each image the centroid's cosine times the norm of the mean caption is the mean cosine, exactly: the two "
        "differ by how much the captions agree among themselves, and by nothing that concerns the image. n = "
        f"{first.n:,} images, d = {first.d:,}; bars are 95 % intervals of a bootstrap over images. Sets: {members}."
    )
    records = []
    for name, own in sets.items():
        record: dict[str, Any] = {"set": name, "languages": "+".join(own.languages)}
        for kind, found in averages[name].items():
            record |= dict(zip((kind, f"{kind} low", f"{kind} high"), map(float, found), strict=True))
        records.append({**record, "n": own.n, "d": own.d})
    finding = "; ".join(
        f"{row['set']}: centroid {row['centroid']:.3f}, mean of cosines {row['mean']:.3f}" for row in records
    )
    return Analysis("centroid-cosine", title, table_of(records), figure, caption, f"{finding}.")


def jaccard_curves(
    results: Mapping[str, Jaccard], *, reference: str = "en", subject: str = "", resamples: int = 1000
) -> Analysis:
    """Show how many of the K nearest images each language shares with a reference (S3-89).

    Parameters
    ----------
    results : mapping of str to Jaccard
        By language (or by any name).
    reference : str
        What the languages were compared with.
    subject : str
    resamples : int

    Returns
    -------
    Analysis
        A row a language and K.
    """
    if not results:
        raise InputError("No language came.")
    check_same(results, "cutoffs", "n", "gallery")
    first = next(iter(results.values()))
    panels = Panels([""], height=380, entries=len(results) + 2)
    figure, records = go.Figure(), []
    x = list(range(len(first.cutoffs)))
    rows = [
        ("chance", first.chance),
        ("unrelated captions", np.mean([own.unrelated for own in results.values()], axis=0)),
    ]
    for place, (name, values) in enumerate(rows):
        style = CHANCE if place else Style("#000000", "dash", "line-ew-open", 1.8)
        texts = [f"{name}, K = {k}: {number(float(v))}" for k, v in zip(first.cutoffs, values, strict=True)]
        figure.add_traces(curve(x, values, None, None, style, name, texts=texts))
    for code, own in results.items():
        found, name = own.means(resamples=resamples), language_name(code)
        texts = [
            f"<b>{label(name)}</b>, K = {k}<br>{number(*numbers)}"
            for k, *numbers in zip(first.cutoffs, *found, strict=True)
        ]
        value, low, high = found
        figure.add_traces(curve(x, value, low, high, language_style(code), name, alpha=0.08, texts=texts))
        records += [
            {
                "language": code, "reference": reference, "K": k, "value": found.value[at], "low": found.low[at],
                "high": found.high[at], "unrelated": own.unrelated[at], "chance": own.chance[at], "n": own.n,
                "gallery": own.gallery,
            }
            for at, k in enumerate(first.cutoffs)
        ]  # fmt: skip
    title = titled(f"Shared nearest images by K (n = {first.n:,} captions, {first.gallery:,} images)", subject)
    panels.lay_out(
        figure,
        title,
        [{"tickvals": x, "ticktext": [str(k) for k in first.cutoffs], "title": {"text": "K nearest images"},
          "range": [-0.25, len(x) - 0.75]}],
        [{"range": [0, 1.02], "title": {"text": f"Jaccard index with {label(language_name(reference))}"}}],
    )  # fmt: skip
    caption = (
        f"Mean Jaccard index, #(A∩B) / #(A∪B), of the K nearest images of a caption and of its counterpart in "
        f"{language_name(reference)}; n = {first.n:,} captions against {first.gallery:,} images. Bands are 95 % "
        "intervals of a bootstrap over images. Dotted: the counterpart of another image (a derangement, seed "
        f"{first.seed}). Dashed: two random sets."
    )
    last = first.cutoffs[len(first.cutoffs) // 2]
    finding = f"At K = {last}: {extremes([row for row in records if row['K'] == last])}."
    return Analysis("jaccard-at-k", title, table_of(records), figure, caption, finding)


def subspace_angles(pairs: Mapping[str, PrincipalAngles], *, subject: str = "") -> Analysis:
    """Show the principal angles of pairs of subspaces (S3-39).

    Parameters
    ----------
    pairs : mapping of str to PrincipalAngles
        By the name of the pair, such as ``"erased and averaged"``.
    subject : str

    Returns
    -------
    Analysis
        A row a pair and angle, with the pair's overlap and what two random subspaces have.
    """
    if not 1 <= len(pairs) <= len(_PALETTE):
        raise InputError(f"{len(pairs)} pairs of subspaces came; a figure shows 1 to {len(_PALETTE)}.")
    check_same(pairs, "d")
    first = next(iter(pairs.values()))
    panels = Panels([""], height=340, entries=len(pairs))
    figure, records, words = go.Figure(), [], []
    for (name, own), style in zip(pairs.items(), _PALETTE, strict=False):
        x = np.arange(1, len(own.degrees) + 1)
        texts = [
            f"<b>{label(name)}</b><br>angle {k}: {degrees:.1f}°" for k, degrees in zip(x, own.degrees, strict=True)
        ]
        figure.add_traces(curve(x.tolist(), own.degrees, None, None, style, name, texts=texts))
        words.append(
            f"{name} (ranks {own.ranks[0]} and {own.ranks[1]}): overlap {own.overlap:.3f}, by chance {own.chance:.3f}"
        )
        records += [
            {
                "pair": name, "angle": int(k), "degrees": float(degrees), "overlap": own.overlap, "chance": own.chance,
                "rank": own.ranks[0], "other rank": own.ranks[1], "d": own.d,
            }
            for k, degrees in zip(x, own.degrees, strict=True)
        ]  # fmt: skip
    title = titled(f"Principal angles between subspaces (d = {first.d:,})", subject)
    panels.lay_out(
        figure, title, [{"title": {"text": "angle, from the smallest"}, "rangemode": "tozero"}],
        [{"range": [0, 93], "title": {"text": "degrees"}, "dtick": 15}],
    )  # fmt: skip
    figure.update_layout(shapes=[level_line(90.0)])
    caption = (
        "0° is a shared direction, 90° none. Overlap is the mean squared cosine: the share of the smaller subspace "
        f"that lies in the larger; two random subspaces share max(rank)/d of it. d = {first.d:,}. {'; '.join(words)}."
    )
    return Analysis("principal-angles", title, table_of(records), figure, caption, f"{'; '.join(words)}.")
