"""Embeddings on a plane, coloured by language or country (S0-54, S0-55).

A map of high-dimensional points always loses something, and UMAP and t-SNE make clusters look clearer and
distances more meaningful than they are. So every map carries its *trustworthiness* (Venna and Kaski 2001): how
far the neighbours on the map are neighbours in the space, 1 for all, about 0.5 for points strewn at random.
Read from a map which points lie together; read no distance between clusters, and no size of one.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from jaxtyping import Float

from analyses.base import Analysis
from analyses.prevalence_figure import LEGEND
from analyses.theme import TEMPLATE, Style, label, language_name, language_style, tier_style
from workbench.arrays import ArrayLike, as_labels, as_matrix
from workbench.errors import InputError
from workbench.splits import generator as seeded

MapMethod = Literal["umap", "pca", "tsne"]

_NAMES = {"umap": "UMAP", "pca": "PCA", "tsne": "t-SNE"}
NEIGHBOURS, SEED = 15, 42
"""As published: 15 neighbours, minimal distance 0.1, seed 42, Euclidean."""
_MIN_DIST = 0.1

# Trustworthiness sorts all distances; above this many points it is taken on a sample of them.
_TRUST_SAMPLE = 4000


def project(
    embeddings: ArrayLike, method: MapMethod = "umap", *, neighbours: int = NEIGHBOURS, seed: int = SEED
) -> Float[np.ndarray, "n 2"]:
    """Lay points on a plane; the same points and seed give the same map on the same machine.

    Parameters
    ----------
    embeddings : array of shape (n, d)
    method : {"umap", "pca", "tsne"}
        UMAP with the published settings; it needs the optional package ``umap-learn``. PCA is linear: its
        distances mean something. t-SNE has a perplexity of ``neighbours``.
    neighbours : int
        Fewer than n.
    seed : int

    Returns
    -------
    float64 array of shape (n, 2)

    Raises
    ------
    InputError
        If there are too few points, a value is not finite, the method is unknown or its package missing.
    """
    points = as_matrix(embeddings, "embeddings", minimum_rows=4)
    if method not in _NAMES:
        raise InputError(f"method={method!r} came; it is {', '.join(map(repr, _NAMES))}.")
    if not 2 <= neighbours < len(points):
        raise InputError(f"{neighbours} neighbours came for {len(points)} points; use 2 to {len(points) - 1}.")
    if np.ptp(points, axis=0).max() == 0:
        raise InputError("All points are the same; there is nothing to lay out.")
    if method == "pca":
        from sklearn.decomposition import PCA

        found = PCA(2, svd_solver="full").fit_transform(points)
        # The sign of an axis is arbitrary; fixed, so that two libraries draw the same map.
        return found * np.where(found[np.abs(found).argmax(0), [0, 1]] < 0, -1.0, 1.0)
    if method == "tsne":
        from sklearn.manifold import TSNE

        largest = max(2.0, (len(points) - 1) / 3)
        found = TSNE(perplexity=min(neighbours, largest), init="pca", random_state=seed).fit_transform(points)
        return np.asarray(found, dtype=np.float64)
    return _umap(points, neighbours, seed)


def default_method() -> MapMethod:
    """Return ``"umap"`` where umap-learn is installed, ``"pca"`` otherwise."""
    from importlib.util import find_spec

    return "umap" if find_spec("umap") else "pca"


def _umap(points: np.ndarray, neighbours: int, seed: int) -> np.ndarray:
    try:
        import umap
    except ImportError:
        raise InputError(
            "UMAP needs the package umap-learn, which is not installed. Install it with "
            '`pip install "eos-workbench[maps]"`, or use method="pca" or method="tsne".'
        ) from None
    # One thread, since several make a map that differs from run to run whatever the seed.
    model = umap.UMAP(
        n_neighbors=neighbours, min_dist=_MIN_DIST, metric="euclidean", random_state=seed, n_jobs=1
    )  # fmt: skip
    return np.asarray(model.fit_transform(points.astype(np.float32)), dtype=np.float64)


def trust(
    embeddings: ArrayLike, plane: Float[np.ndarray, "n 2"], *, neighbours: int = NEIGHBOURS, seed: int = SEED
) -> float:
    """Trustworthiness of a map, by scikit-learn.

    Of 4,000 points drawn by the seed where there are more, and with at most a third of the points as neighbours,
    up to where the measure is defined.
    """
    from sklearn.manifold import trustworthiness

    points = as_matrix(embeddings, "embeddings", minimum_rows=4)
    if plane.shape != (len(points), 2):
        raise InputError(f"A map of shape {plane.shape} came for {len(points)} points; give two columns.")
    rows = np.arange(len(points))
    if len(points) > _TRUST_SAMPLE:
        rows = np.sort(seeded(seed, 54).permutation(len(points))[:_TRUST_SAMPLE])
    k = max(1, min(neighbours, (len(rows) - 1) // 3))
    return float(trustworthiness(points[rows], plane[rows], n_neighbors=k))


def embedding_map(
    embeddings: ArrayLike,
    labels: Sequence[str],
    hover: Sequence[str],
    *,
    kind: Literal["language", "country", "group"] = "language",
    method: MapMethod = "umap",
    neighbours: int = NEIGHBOURS,
    seed: int = SEED,
    subject: str = "",
    name: str = "map",
) -> Analysis:
    """Draw a map of embeddings with what each point is under the pointer.

    Parameters
    ----------
    embeddings : array of shape (n, d)
        Late-interaction embeddings averaged over their tokens.
    labels : sequence of str
        Language or country of each point.
    hover : sequence of str
        Text of each point; escaped here.
    kind : {"language", "country", "group"}
        What the labels are.
    method, neighbours, seed
        As in :func:`project`.
    subject : str
        What the points are, for the title, such as ``"names of concepts, emoji-causal"``.
    name : str
        Of the analysis's files.

    Returns
    -------
    Analysis
        Table: x, y, label and text of each point, and the trustworthiness of the whole.
    """
    points = as_matrix(embeddings, "embeddings", minimum_rows=4)
    as_labels(np.asarray(labels), len(points), minimum_classes=1)
    if len(hover) != len(points):
        raise InputError(f"{len(hover)} texts came for {len(points)} points; give one each.")
    plane = project(points, method, neighbours=neighbours, seed=seed)
    found = trust(points, plane, neighbours=neighbours, seed=seed)
    table = pd.DataFrame(
        {
            "x": plane[:, 0], "y": plane[:, 1], kind: [str(one) for one in labels], "text": [str(one) for one in hover],
            "method": method, "trustworthiness": found, "seed": seed,
        }
    )  # fmt: skip
    figure = go.Figure()
    order = sorted(set(table[kind]))
    for place, one in enumerate(order):
        own, style = table[table[kind] == one], _style(one, kind, place)
        shown = label(language_name(one) if kind == "language" else one)
        figure.add_scatter(
            x=own["x"], y=own["y"], mode="markers", name=shown,
            marker={"color": style.colour, "symbol": style.symbol, "size": 6, "opacity": 0.75},
            hovertext=[f"<b>{label(text)}</b><br>{shown}" for text in own["text"]],
            hovertemplate="%{hovertext}<extra></extra>",
        )  # fmt: skip
    title = f"{_NAMES[method]} of {subject or 'embeddings'} (n = {len(points):,}; trustworthiness {found:.2f})"
    figure.update_layout(
        template=TEMPLATE, title={"text": label(title)}, height=640, legend={**LEGEND, "itemsizing": "constant"},
        margin={"l": 24, "r": 24, "t": 70, "b": 40 + 26 * -(-len(order) // 5)}, hovermode="closest",
    )  # fmt: skip
    # Equal scales, and no numbers: a coordinate of such a map means nothing.
    figure.update_xaxes(showticklabels=False, ticks="", showgrid=False, showline=False, scaleanchor="y")
    figure.update_yaxes(showticklabels=False, ticks="", showgrid=False, showline=False)
    caption = (
        f"{_NAMES[method]} of {len(points):,} points in {points.shape[1]} dimensions, seed {seed}"
        + (f", {neighbours} neighbours" if method != "pca" else "")
        + f". Trustworthiness {found:.3f}: 1 would mean that all neighbours on the map are neighbours in the space, "
        "and 0.5 is about what chance gives. Which points lie together can be read from it; distances between clusters "
        + ("can, as far as two dimensions show them." if method == "pca" else "and their sizes can't.")
    )
    return Analysis(name, title, table, figure, caption)


def _style(name: str, kind: str, place: int) -> Style:
    if kind == "language":
        return language_style(name)
    # Colours and marks of the languages, in order: as different as this many can be.
    from workbench.languages import XM3600_LANGUAGES

    spare = (
        "en",
        "fr",
        "de",
        "es",
        "zh",
        "ko",
        "bn",
        "fil",
        "hi",
        "sw",
        "te",
        "ru",
        "ja",
        "it",
        "pt",
        "pl",
        "nl",
        "id",
    )
    if place < len(spare) and spare[place] in XM3600_LANGUAGES:
        return language_style(spare[place])
    return tier_style(name)
