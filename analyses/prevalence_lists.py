"""Figures of the lists themselves: which languages stand where, over all images and for one (S0-04, S0-56, S0-57)."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analyses.base import Analysis
from analyses.mixed_pool import MixedRanking
from analyses.prevalence import TierMap, low_group
from analyses.prevalence_figure import CHANCE, LEGEND
from analyses.theme import FAINT, INK, TEMPLATE, label, language_name, language_style, tier_style
from workbench.corpora.base import Corpus
from workbench.errors import InputError
from workbench.languages import COMMON_CRAWL_SHARE
from workbench.languages import tier_map as resolve_tier_map
from workbench.retrieval import Bootstrap

_LOW, _REST = tier_style("Low"), tier_style("High")
_LOW_NAME, _REST_NAME = "low-resource languages", "other languages"


def rank_frequency(
    ranking: MixedRanking, *, tier_map: TierMap = "s0", low_tiers: Iterable[str] | None = None
) -> Analysis:
    """Count, for every rank, the images whose caption there is in a low-resource language (S0-56).

    Parameters
    ----------
    ranking : MixedRanking
    tier_map, low_tiers
        Which languages are low-resource.
    """
    name, low = low_group(ranking, tier_map, low_tiers)
    counts = low[ranking.top_languages].sum(0)
    ranks = np.arange(1, ranking.depth + 1)
    pool = float(low[ranking.language].mean())
    table = pd.DataFrame(
        {"tower": ranking.tower, "rank": ranks, "low": counts, "rest": ranking.n - counts, "n": ranking.n}
    )
    figure = go.Figure()
    for values, style, text, pattern in (
        (counts, _LOW, _LOW_NAME, "/"),
        (ranking.n - counts, _REST, _REST_NAME, ""),
    ):
        figure.add_bar(
            x=ranks, y=values, name=text, marker=_bar(style.colour, pattern),
            hovertemplate=f"rank %{{x}}<br>{text}: %{{y:,}} of {ranking.n:,} images<extra></extra>",
        )  # fmt: skip
    figure.add_scatter(
        x=[0.5, ranking.depth + 0.5], y=[pool * ranking.n] * 2, mode="lines", name="share of the pool",
        line={"color": "#000000", "dash": "dash", "width": 2}, hoverinfo="skip",
    )  # fmt: skip
    title = f"Languages by rank, {ranking.tower} (n = {ranking.n:,} images)"
    _lay_out(figure, title, barmode="stack", bargap=0)
    figure.update_xaxes(title_text="rank in the list", range=[0.5, ranking.depth + 0.5])
    figure.update_yaxes(title_text="images", range=[0, ranking.n])
    caption = (
        f"{ranking.tower} on {ranking.corpus}: for each rank, the images whose caption there is in a low-resource "
        f"language (tier map {name!r}), from below, and in another one. A tower blind to languages would follow the "
        f"dashed line, the {100 * pool:.1f} % of the pool, at every rank."
    )
    return Analysis("rank-frequency", title, table, figure, caption)


def language_frequency(
    ranking: MixedRanking, *, tier_map: TierMap = "s0", low_tiers: Iterable[str] | None = None
) -> Analysis:
    """Count the images by how many captions of their list are in low-resource languages (S0-57).

    Parameters
    ----------
    ranking : MixedRanking
    tier_map, low_tiers
        Which languages are low-resource.
    """
    from scipy.stats import binom

    name, low = low_group(ranking, tier_map, low_tiers)
    captions = np.arange(ranking.depth + 1)
    counts = np.bincount(low[ranking.top_languages].sum(1), minlength=len(captions))
    pool = float(low[ranking.language].mean())
    chance = ranking.n * binom.pmf(captions, ranking.depth, pool)
    table = pd.DataFrame(
        {
            "tower": ranking.tower, "captions": captions, "images low": counts, "images rest": counts[::-1],
            "chance low": chance, "n": ranking.n,
        }
    )  # fmt: skip
    figure = go.Figure()
    for values, style, text, pattern in (
        (counts, _LOW, f"in {_LOW_NAME}", "/"),
        (counts[::-1], _REST, f"in {_REST_NAME}", ""),
    ):
        figure.add_bar(
            x=captions, y=values, name=text, marker=_bar(style.colour, pattern), opacity=0.72,
            hovertemplate=f"%{{x}} captions {text}<br>%{{y:,}} images<extra></extra>",
        )  # fmt: skip
    figure.add_scatter(
        x=captions, y=chance, mode="lines", name=f"chance, {_LOW_NAME}",
        line={"color": "#000000", "dash": "dash", "width": 2}, hoverinfo="skip",
    )  # fmt: skip
    title = f"Captions of each group among the first {ranking.depth}, {ranking.tower} (n = {ranking.n:,} images)"
    _lay_out(figure, title, barmode="overlay", bargap=0)
    figure.update_xaxes(title_text=f"captions among the first {ranking.depth}", range=[-0.5, ranking.depth + 0.5])
    figure.update_yaxes(title_text="images", rangemode="tozero")
    caption = (
        f"{ranking.tower} on {ranking.corpus}: how many of an image's first {ranking.depth} captions are in "
        f"low-resource languages (tier map {name!r}) and in others; the two are mirror images of each other. The "
        f"dashed line is what {ranking.depth} captions drawn blindly from the pool ({100 * pool:.1f} % low-resource) "
        "would give. Lists far to the sides of it hold one group almost alone."
    )
    return Analysis("language-frequency", title, table, figure, caption)


def language_shares(
    ranking: MixedRanking, *, k: int = 10, tier_map: TierMap = "s0", seed: int = 0, resamples: int = 1000
) -> Analysis:
    """Set each language's share of the first ``k`` captions against its share of the pool.

    Two groups hide which language gains; here each is a dot, in the order of web resources.

    Parameters
    ----------
    ranking : MixedRanking
    k : int
    tier_map : str, Path or mapping
        For the marks.
    seed, resamples : int
        Of the bootstrap over images.
    """
    if not 1 <= k <= ranking.depth:
        raise InputError(f"k={k} came for lists of {ranking.depth} captions; use 1 to {ranking.depth}.")
    name, tiers = resolve_tier_map(tier_map)
    first, bootstrap = ranking.top_languages[:, :k], Bootstrap(ranking.n, resamples, seed)
    expected = ranking.pool_counts / len(ranking.language)
    order = sorted(
        range(len(ranking.languages)), key=lambda place: -COMMON_CRAWL_SHARE.get(ranking.languages[place], 0.0)
    )
    rows = []
    for place in order:
        ratio = (first == place).mean(1) / expected[place]
        low, high = bootstrap.interval(bootstrap.means(ratio))
        rows.append(
            {
                "tower": ranking.tower, "language": ranking.languages[place],
                "tier": tiers.get(ranking.languages[place], ""), "share": 100 * float((first == place).mean()),
                "share of the pool": 100 * float(expected[place]), "ratio": float(ratio.mean()),
                "ratio low": float(low), "ratio high": float(high), "k": k, "n": ranking.n,
            }
        )  # fmt: skip
    figure = go.Figure()
    for tier in dict.fromkeys(row["tier"] for row in rows):
        own, style = [(y, row) for y, row in enumerate(rows) if row["tier"] == tier], tier_style(tier)
        values = [row["ratio"] for _, row in own]
        figure.add_scatter(
            x=values, y=[y for y, _ in own], mode="markers", name=label(tier or "no tier"),
            marker={"symbol": style.symbol, "size": 9, "color": style.colour},
            error_x={
                "type": "data", "symmetric": False, "color": style.colour, "thickness": 1.5, "width": 3,
                "array": [row["ratio high"] - row["ratio"] for _, row in own],
                "arrayminus": [row["ratio"] - row["ratio low"] for _, row in own],
            },
            hovertext=[
                f"<b>{label(language_name(row['language']))}</b><br>{row['share']:.2f} % of the first {k}, "
                f"{row['share of the pool']:.2f} % of the pool<br>ratio {row['ratio']:.2f} "
                f"[{row['ratio low']:.2f}, {row['ratio high']:.2f}]"
                for _, row in own
            ],
            hovertemplate="%{hovertext}<extra></extra>",
        )  # fmt: skip
    figure.add_shape(
        type="line", x0=1, x1=1, y0=-0.6, y1=len(rows) - 0.4, layer="below",
        line={"color": CHANCE.colour, "dash": CHANCE.dash, "width": CHANCE.width},
    )  # fmt: skip
    title = f"Share of each language among the first {k}, {ranking.tower} (n = {ranking.n:,} images)"
    _lay_out(figure, title, height=170 + 20 * len(rows))
    top = max(max(row["ratio high"] for row in rows), 1.2)
    figure.update_xaxes(
        title_text=f"share among the first {k}, as a multiple of the share of the pool", range=[0, 1.06 * top]
    )
    figure.update_yaxes(
        tickvals=list(range(len(rows))), ticktext=[label(language_name(row["language"])) for row in rows],
        range=[len(rows) - 0.4, -0.6], ticks="", showgrid=False,
    )  # fmt: skip
    figure.update_layout(margin={"l": 160})
    caption = (
        f"{ranking.tower} on {ranking.corpus}, languages in the order of their share of Common Crawl: a language at 1 "
        f"stands among the first {k} captions as often as in the pool. Bars are 95 % intervals of a bootstrap over "
        f"images; marks are tiers of the map {name!r}."
    )
    return Analysis("language-shares", title, pd.DataFrame(rows), figure, caption)


def ranked_list(
    ranking: MixedRanking,
    query: str | None = None,
    *,
    k: int = 20,
    corpus: Corpus | None = None,
    tier_map: TierMap = "s0",
    low_tiers: Iterable[str] | None = None,
) -> Analysis:
    """Show the captions nearest to one image, each in the colour and mark of its language (S0-04).

    Parameters
    ----------
    ranking : MixedRanking
    query : str, optional
        Id of the image; the first of those with fewest low-resource captions among their first ten by default.
    k : int
        Captions to show.
    corpus : Corpus, optional
        To show the image itself.
    tier_map, low_tiers
        Which languages are low-resource.

    Raises
    ------
    InputError
        If the ranking has no such image.
    """
    name, low = low_group(ranking, tier_map, low_tiers)
    if query is None:
        place = int(low[ranking.top_languages[:, :10]].sum(1).argmin())
        query = ranking.images[place]
    elif query in ranking.images:
        place = ranking.images.index(query)
    else:
        from workbench.errors import suggest

        raise InputError(f"The ranking has no image {query!r}.{suggest(query, ranking.images)} It has {ranking.n:,}.")
    k = min(k, ranking.depth)
    rows = []
    for rank, caption in enumerate(ranking.top[place, :k].tolist()):
        language = ranking.language[caption]
        rows.append(
            {
                "tower": ranking.tower, "image": query, "rank": rank + 1,
                "language": ranking.languages[language], "group": "low" if low[language] else "rest",
                "caption": ranking.texts[caption], "similarity": float(ranking.scores[place, rank]),
                "describes the image": bool(ranking.relevant[place, rank]),
            }
        )  # fmt: skip
    table = pd.DataFrame(rows)
    title = f"The {k} captions nearest to the image {query}, {ranking.tower} (n = 1 image)"
    figure = _list_figure(rows, title)
    if corpus is not None:
        figure.add_layout_image(
            source=corpus.open_image(query), xref="paper", yref="paper", x=1, y=1, xanchor="right", yanchor="top",
            sizex=0.16, sizey=0.2,
        )  # fmt: skip
    found = sum(row["group"] == "low" for row in rows)
    caption = (
        f"{found} of the {k} captions are in low-resource languages (tier map {name!r}), marked L. Filled marks are "
        "captions of this image, hollow ones of another. One image's list says nothing about the others."
    )
    return Analysis("ranked-list", title, table, figure, caption)


def _list_figure(rows: list[dict[str, Any]], title: str) -> go.Figure:
    figure = go.Figure()
    values = [row["similarity"] for row in rows]
    span = max(max(values) - min(values), 1e-6)
    for language in dict.fromkeys(row["language"] for row in rows):
        own, style = [row for row in rows if row["language"] == language], language_style(language)
        solid = style.symbol.removesuffix("-open")
        figure.add_scatter(
            x=[row["similarity"] for row in own],
            y=[row["rank"] for row in own],
            mode="markers+text",
            name=label(language_name(language)),
            text=[f"  {label(_short(row['caption']))}" for row in own],
            textposition="middle right",
            textfont={"color": INK, "size": 12},
            marker={
                "symbol": [solid if row["describes the image"] else f"{solid}-open" for row in own],
                "size": 11, "color": style.colour, "line": {"width": 2, "color": style.colour},
            },
            hovertext=[
                f"<b>{row['rank']}. {label(language_name(language))}</b><br>{label(row['caption'])}<br>"
                f"cosine {row['similarity']:.4f}<br>"
                f"{'describes the image' if row['describes the image'] else 'of another image'}"
                for row in own
            ],
            hovertemplate="%{hovertext}<extra></extra>",
        )  # fmt: skip
    _lay_out(figure, title, height=150 + 24 * len(rows), showlegend=False)
    figure.update_layout(margin={"l": 190, "b": 56})
    figure.update_xaxes(
        title_text="cosine similarity with the image", range=[min(values) - 0.05 * span, max(values) + 1.1 * span]
    )
    figure.update_yaxes(
        tickvals=[row["rank"] for row in rows],
        ticktext=[
            f"{label(language_name(row['language']))}{' <b>L</b>' if row['group'] == 'low' else ''}  {row['rank']}"
            for row in rows
        ],
        range=[len(rows) + 0.6, 0.4], ticks="",
    )  # fmt: skip
    return figure


def _short(text: str, longest: int = 60) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _bar(colour: str, pattern: str) -> dict[str, Any]:
    return {
        "color": colour, "line": {"width": 0},
        "pattern": {"shape": pattern, "size": 6, "fgcolor": "#ffffff", "solidity": 0.2, "fillmode": "overlay"},
    }  # fmt: skip


def _lay_out(figure: go.Figure, title: str, height: int = 460, **more: Any) -> None:
    figure.update_layout(
        template=TEMPLATE, title={"text": label(title)}, height=height, hovermode="closest",
        margin={"l": 64, "r": 24, "t": 64, "b": 110}, legend=LEGEND, **more,
    )  # fmt: skip
    figure.update_xaxes(tickfont={"color": FAINT})
