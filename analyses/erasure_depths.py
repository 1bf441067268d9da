"""Where in the tower the language can be read: a classifier at every depth, before and after LEACE (S3-30).

Rows of the residual stream grow with depth and differ in scale from feature to feature, which slows a
logistic regression and changes what its penalty means. The classifier here is LDA, whose answers do not depend
on scale; any other of the six can be asked for.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analyses.base import Analysis
from analyses.erasure_figures import title_above
from analyses.theme import DEPTH_TITLE, TEMPLATE, Style, depth_name, depth_ticks, label
from interventions.erasers import LEACE, Eraser
from probes.classifiers import LINEAR, check_classifiers, compare_classifiers
from workbench.arrays import ArrayLike
from workbench.errors import InputError
from workbench.splits import split_by_image

if TYPE_CHECKING:
    import xarray

_LEGEND: dict[str, Any] = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0}
_BEFORE = Style("#0256a9", "solid", "circle", 2.6)
_AFTER = Style("#b55508", "dash", "diamond-open", 2.2)


def language_by_depth(
    trajectory: "xarray.DataArray",
    *,
    tokens: "ArrayLike | None" = None,
    eraser: Eraser | None = None,
    classifier: str = "lda",
    depths: Iterable[int] | None = None,
    test_share: float = 0.5,
    seed: int = 0,
    resamples: int = 1000,
) -> Analysis:
    """Show how well the language is read off the pooled row at each depth, and what an eraser leaves.

    Parameters
    ----------
    trajectory : DataArray of dimensions (language, caption, depth, feature)
        Of :func:`workbench.capture`.
    tokens : int array of shape (language, caption), optional
        Tokens of each caption, for the baseline that sees nothing else.
    eraser : Eraser, optional
        LEACE by default; fitted at each depth on the training images.
    classifier : str
        One of :data:`probes.classifiers.CLASSIFIERS`.
    depths : iterable of int, optional
        All of the trajectory by default.
    test_share, seed, resamples
        Of the split by image and the bootstrap.

    Raises
    ------
    InputError
        If a depth is not there, or token counts don't match.
    """
    check_classifiers([classifier])
    one = LEACE() if eraser is None else eraser
    known = [int(depth) for depth in trajectory["depth"].values]
    chosen = known if depths is None else sorted(set(depths))
    unknown = [depth for depth in chosen if depth not in known]
    if unknown:
        raise InputError(f"The trajectory has no depth {unknown[0]}. It has: {', '.join(map(str, known))}.")
    languages = trajectory["language"].values.astype(str)
    # "image#2" is a second caption of the same image.
    images = np.tile([str(name).split("#")[0] for name in trajectory["caption"].values], len(languages))
    labels = np.repeat(languages, trajectory.sizes["caption"])
    counts = None if tokens is None else np.asarray(tokens)
    if counts is not None and counts.shape != (len(languages), trajectory.sizes["caption"]):
        raise InputError(
            f"tokens has shape {counts.shape}; give one count for each of {len(languages)} languages and "
            f"{trajectory.sizes['caption']} captions."
        )
    train, test = split_by_image(images, test_share=test_share, seed=seed)
    held_out = len(np.unique(images[test]))
    options: dict[str, Any] = {
        "classifiers": [classifier], "test_share": test_share, "seed": seed, "resamples": resamples,
        "tokens": None if counts is None else counts.reshape(-1),
    }  # fmt: skip
    records = []
    for depth in chosen:
        rows = trajectory.sel(depth=depth).transpose("language", "caption", "feature").values
        flat = rows.reshape(-1, rows.shape[-1]).astype(np.float64)
        # Then no classifier can do better than guess, and an eraser has nothing to find.
        same = all(np.array_equal(part, rows[0]) for part in rows[1:])
        for name in ("before", one.label):
            head = {"depth": depth, "block": depth - 1, "rows": name, "classifier": classifier}
            tail = {"n": int(test.sum()), "images": held_out, "seed": seed}
            if same:
                records.append({**head, **_at_chance(100.0 / len(languages)), **tail})
                continue
            erased = flat if name == "before" else one.unfitted().fit(flat[train], labels[train]).transform(flat)
            found = compare_classifiers(erased, labels, images, shuffled=name == "before", **options)
            score = found[classifier]
            numbers = {
                "accuracy": score.accuracy, "accuracy low": score.low, "accuracy high": score.high,
                "selectivity": score.selectivity, "chance": found.chance, "majority": found.majority,
                "token count": found.token_count,
            }  # fmt: skip
            records.append({**head, **numbers, **tail})
    table = pd.DataFrame(records)
    title = f"Language read off the pooled row at each depth ({held_out:,} held-out images, {len(languages)} languages)"
    kind = "linear" if classifier in LINEAR else "not linear"
    caption = (
        f"Percent of held-out captions whose language {classifier} ({kind}) names{_of(trajectory)}, before and "
        f"after {one.label} fitted at that depth; both are fitted on training images alone. Bands are 95 % intervals "
        f"of a bootstrap over {held_out:,} images. Where every language has the very same rows, there is nothing to "
        "read and chance stands."
    )
    before, after = (table[table["rows"] == name] for name in ("before", one.label))
    best = max(before.to_dict("records"), key=lambda row: row["accuracy"])
    finding = (
        f"Named right: {before['accuracy'].iloc[0]:.1f} % at {depth_name(chosen[0])}, at most {best['accuracy']:.1f} % "
        f"at {depth_name(int(best['depth']))}; after {one.label} at most {after['accuracy'].max():.1f} % at any "
        f"(chance {best['chance']:.1f} %)."
    )
    return Analysis("language-by-depth", title, table, _figure(table, one.label, title), caption, finding)


def _of(trajectory: "xarray.DataArray") -> str:
    tower = trajectory.attrs.get("tower")
    return f", {tower}" if tower else ""


def _at_chance(chance: float) -> dict[str, float]:
    numbers = dict.fromkeys(("accuracy", "accuracy low", "accuracy high", "chance", "majority"), chance)
    return {**numbers, "selectivity": 0.0, "token count": np.nan}


def _figure(table: pd.DataFrame, eraser: str, title: str) -> go.Figure:
    figure = go.Figure()
    for name, style, legend in (("before", _BEFORE, "before erasure"), (eraser, _AFTER, f"after {eraser}")):
        own = table[table["rows"] == name]
        x = own["depth"].tolist()
        figure.add_scatter(
            x=[*x, *reversed(x)], y=[*own["accuracy high"], *reversed(own["accuracy low"].tolist())], fill="toself",
            fillcolor=style.rgba(0.16), line={"width": 0}, mode="lines", hoverinfo="skip", showlegend=False,
            legendgroup=legend,
        )  # fmt: skip
        figure.add_scatter(
            x=x, y=own["accuracy"].tolist(), mode="lines+markers", name=label(legend), legendgroup=legend,
            line={"color": style.colour, "dash": style.dash, "width": style.width},
            marker={"symbol": style.symbol, "size": 8, "color": style.colour},
            hovertext=[
                f"{label(legend)}, depth {row['depth']}<br>{row['accuracy']:.1f} [{row['accuracy low']:.1f}, "
                f"{row['accuracy high']:.1f}]<br>n = {row['n']:,}"
                for row in own.to_dict("records")
            ],
            hovertemplate="%{hovertext}<extra></extra>",
        )  # fmt: skip
    depths = sorted({int(depth) for depth in table["depth"]})
    ends = [depths[0], depths[-1]]
    chance = float(table["chance"].iloc[0])
    levels = [(f"chance, {chance:.1f} %", chance, "dash", "#000000")]
    counted = table["token count"].dropna()
    if len(counted):
        levels.append((f"token count alone, {counted.iloc[0]:.1f} %", float(counted.iloc[0]), "dot", "#747474"))
    for name, level, dash, colour in levels:
        figure.add_scatter(
            x=ends, y=[level, level], mode="lines", name=name, hoverinfo="skip",
            line={"color": colour, "dash": dash, "width": 1.6},
        )  # fmt: skip
    figure.update_layout(
        template=TEMPLATE, title=title_above(title), height=480, legend=_LEGEND, hovermode="closest",
        margin={"l": 64, "r": 16, "t": 64, "b": 126},
    )  # fmt: skip
    ticks: dict[str, Any] = depth_ticks(depths, 15)
    figure.update_xaxes(title_text=DEPTH_TITLE, **ticks)
    figure.update_yaxes(title_text="captions whose language is named right, %", range=[0, 102])
    return figure
