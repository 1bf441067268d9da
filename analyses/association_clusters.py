"""Self-preference beside how far languages and countries stand apart: TSC and ISC (S0-50 to S0-53, S0-58).

The published reading is that self-preference follows the text silhouette. Over sixteen countries one country can
carry that, so the figure and the table give Pearson's r and Spearman's rho with each country left out in turn.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from torch import Tensor

from analyses.association import TripletEmbeddings, country_order
from analyses.base import Analysis
from analyses.emoji_triplets import NAME as STAND_IN
from analyses.prevalence_figure import LEGEND
from analyses.published_values import country_languages, load_published, tower_name
from analyses.theme import FAINT, TEMPLATE, Style, label, language_name, language_style
from probes.clusters import Clusters, by_country, cluster_labels, distinct_texts, most_influential
from probes.correlation import Correlation, correlate
from workbench.corpora.triplets import TripletCorpus
from workbench.errors import InputError

_SP = Style("#000000", "solid", "circle", 2.2)
_LINES = {
    "TS": ("text silhouette of the language", Style("#0256a9", "dash", "diamond", 2.0)),
    "IS": ("image silhouette of the country", Style("#b55508", "dot", "square", 2.0)),
}
_COLUMNS = ["tower", "corpus", "country", "language", "metric", "value", "n", "note"]


def text_clusters(corpus: TripletCorpus, embeddings: TripletEmbeddings) -> tuple[Clusters, list[tuple[str, str]]]:
    """Measure how the distinct native names of concepts cluster by language, in Euclidean distance (S0-50).

    A name that two languages share counts once, for the language that has it first.

    Returns
    -------
    Clusters
    list of (language, name)
        The points, in the order of their embeddings.
    """
    points, rows = distinct_names(corpus)
    return cluster_labels(embeddings.texts[rows].numpy(), [language for language, _ in points]), points


def distinct_names(corpus: TripletCorpus) -> tuple[list[tuple[str, str]], list[int]]:
    """Return each distinct native name with its language, and the trial that has it first."""
    texts = corpus.texts()
    rows = distinct_texts(texts).tolist()
    return [(corpus.languages_of[corpus.countries[row]], texts[row]) for row in rows], rows


def image_clusters(corpus: TripletCorpus, images: Tensor) -> Clusters:
    """Measure how images cluster by country, in Euclidean distance (S0-51).

    Raises
    ------
    InputError
        If a country has one image only, or the set is the stand-in, whose pictures are the same for every country.
    """
    if corpus.name == STAND_IN:
        raise InputError(
            f"{corpus.name!r} shows the same pictures for every country, and one flag of each, so countries have no "
            "clusters of images. Image silhouettes need a set such as 3XCM."
        )
    country = {item.image_id: item.country for triplet in corpus.triplets for item in triplet.items}
    labels = [country[image_id] for image_id in corpus.image_ids]
    alone = [name for name in dict.fromkeys(labels) if labels.count(name) == 1]
    if alone:
        raise InputError(
            f"{corpus.name!r} has one image of {alone[0]!r} only, and one point has no silhouette. Image silhouettes "
            "by country need several images of each, as in 3XCM."
        )
    return cluster_labels(images.numpy(), labels)


def cluster_table(found: Clusters, what: str, tower: str, corpus: str) -> Analysis:
    """Show the silhouettes of languages, or of countries, with their compactness.

    Parameters
    ----------
    found : Clusters
    what : {"language", "country"}
    tower, corpus : str
    """
    names = sorted(found.silhouettes, key=lambda name: -found.silhouettes[name])
    table = pd.DataFrame(
        {
            "tower": tower, "corpus": corpus, what: names, "silhouette": [found.silhouettes[name] for name in names],
            "distance to the centre": [found.compactness[name] for name in names],
            "n": [found.counts[name] for name in names],
        }
    )  # fmt: skip
    styles = [language_style(name) if what == "language" else _SP for name in names]
    shown = [label(language_name(name) if what == "language" else name) for name in names]
    figure = go.Figure(
        go.Scatter(
            x=table["silhouette"], y=list(range(len(names))), mode="markers",
            marker={
                "size": 10, "color": [style.colour for style in styles], "symbol": [style.symbol for style in styles],
            },
            hovertext=[
                f"<b>{name}</b><br>silhouette {row['silhouette']:.3f}<br>mean distance to its centre "
                f"{row['distance to the centre']:.3f}<br>n = {row['n']:,} points"
                for name, row in zip(shown, table.to_dict("records"), strict=True)
            ],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    )  # fmt: skip
    for x, dash, text in ((0, "solid", ""), (found.silhouette, "dot", f"mean {found.silhouette:.3f}")):
        figure.add_vline(
            x=x, line={"color": FAINT, "dash": dash, "width": 1.2}, annotation={"text": text, "font": {"size": 11}}
        )
    points = "names of concepts" if what == "language" else "images"
    title = f"Silhouette by {what}, {tower} (n = {found.n:,} {points})"
    figure.update_layout(
        template=TEMPLATE, title={"text": label(title)}, height=150 + 24 * len(names), showlegend=False,
        margin={"l": 150, "r": 24, "t": 70, "b": 60},
    )  # fmt: skip
    figure.update_xaxes(title_text="silhouette (Euclidean, embeddings as they come)")
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=shown, range=[len(names) - 0.4, -0.6], ticks="", showgrid=False
    )
    caption = (
        f"{tower}: mean silhouette {found.silhouette:.3f}, from {table['silhouette'].iloc[-1]:.3f} ({names[-1]}) to "
        f"{table['silhouette'].iloc[0]:.3f} ({names[0]}). {corpus}: at 1 the {points} of a {what} lie together, far "
        "from the others; at 0 among them, below 0 nearer "
        "to another's. No interval: the points are not a sample of anything."
    )
    return Analysis(f"clusters-by-{what}", title, table, figure, caption)


def preference_and_clusters(
    preference: Mapping[str, float],
    text: Mapping[str, float] | None,
    image: Mapping[str, float] | None,
    languages: Mapping[str, str],
    *,
    tower: str,
    corpus: str,
    published: bool = False,
) -> Analysis:
    """Set self-preference by country beside silhouettes, with their correlations and each country left out.

    Parameters
    ----------
    preference : mapping of str to float
        SP by country.
    text : mapping of str to float, optional
        Text silhouette by language, or by country.
    image : mapping of str to float, optional
        Image silhouette by country.
    languages : mapping of str to str
        Country to language.
    tower, corpus : str
    published : bool
        Whether these are published values.

    Returns
    -------
    Analysis
        Its table has SP, TS and IS by country, ``TSC`` and ``ISC`` (Pearson) and ``TSC Spearman`` and so on
        over all countries, and ``TSC without`` and so on with one country left out.

    Raises
    ------
    InputError
        If a country lacks a value, or SP is infinite for one.
    """
    countries = country_order({country: languages[country] for country in preference})
    infinite = [country for country in countries if not np.isfinite(preference[country])]
    if infinite:
        raise InputError(
            f"Self-preference of {infinite[0]!r} is {preference[infinite[0]]}, since no trial was won by the image of "
            "the concept; it can't be correlated. Leave this country out, or use its log SP."
        )
    values: dict[str, dict[str, float]] = {}
    if text is not None:
        values["TS"] = dict(text) if set(countries) <= set(text) else by_country(text, languages)
    if image is not None:
        values["IS"] = dict(image)
    if not values:
        raise InputError("No silhouette came. Give those of texts, of images, or both.")
    for name, own in values.items():
        lacking = [country for country in countries if country not in own]
        if lacking:
            raise InputError(f"{_LINES[name][0]}: there is none for {', '.join(lacking)}.")
    x = [preference[country] for country in countries]
    ordered = {country: preference[country] for country in countries}
    found = {name: correlate(ordered, {c: own[c] for c in countries}) for name, own in values.items()}
    table = _table(countries, preference, values, found, languages, {"tower": tower, "corpus": corpus})
    title = f"Self-preference and silhouettes by country, {tower} (n = {len(countries)} countries)"
    source = "Published values (s0 table 8, rounded to two places)" if published else f"{tower} on {corpus}"
    caption = (
        f"{' '.join(_sentence(name, one) for name, one in found.items())} {source}. Left axis: self-preference SP; "
        "right axis: silhouettes. Countries in the order of their language's share of Common Crawl, so that those on "
        "the right have least; countries of one language share its text "
        "silhouette. Some countries "
        "share a value, so that a p value would mean nothing; read the correlation as a description."
    )
    figure = _figure(countries, x, values, found, title)
    return Analysis("preference-and-clusters", title, table, figure, caption)


_NAMES = {"TS": "TSC", "IS": "ISC"}


def _sentence(name: str, one: Correlation) -> str:
    low, high = one.pearson_range
    outlier = most_influential(one)
    return (
        f"{_NAMES[name]}: Pearson {one.pearson:.2f}, Spearman {one.spearman:.2f}; with one country left out Pearson is "
        f"between {low:.2f} and {high:.2f}, and without {outlier} it is {one.without[outlier][0]:.2f}."
    )


def _table(
    countries: list[str],
    preference: Mapping[str, float],
    values: Mapping[str, Mapping[str, float]],
    found: Mapping[str, Correlation],
    languages: Mapping[str, str],
    fixed: Mapping[str, str],
) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for country in countries:
        head = {**fixed, "country": country, "language": languages[country], "n": 1, "note": ""}
        rows.append({**head, "metric": "SP", "value": preference[country]})
        rows += [{**head, "metric": name, "value": own[country]} for name, own in values.items()]
    for name, one in found.items():
        head = {**fixed, "country": "all", "language": "all", "n": one.n}
        note = f"without {most_influential(one)}: {one.without[most_influential(one)][0]:.3f}"
        rows.append({**head, "metric": _NAMES[name], "value": one.pearson, "note": note})
        rows.append({**head, "metric": f"{_NAMES[name]} Spearman", "value": one.spearman, "note": ""})
        for country, (pearson, spearman) in one.without.items():
            head = {**fixed, "country": country, "language": languages[country], "n": one.n - 1, "note": ""}
            rows.append({**head, "metric": f"{_NAMES[name]} without", "value": pearson})
            rows.append({**head, "metric": f"{_NAMES[name]} Spearman without", "value": spearman})
    return pd.DataFrame(rows)[_COLUMNS]


def _figure(
    countries: list[str],
    preference: list[float],
    values: Mapping[str, Mapping[str, float]],
    found: Mapping[str, Correlation],
    title: str,
) -> go.Figure:
    figure = go.Figure()
    names = [label(country) for country in countries]
    figure.add_scatter(
        x=names, y=preference, mode="lines+markers", name="self-preference SP (left axis)",
        line={"color": _SP.colour, "dash": _SP.dash, "width": _SP.width}, marker={"symbol": _SP.symbol, "size": 8},
        hovertemplate="%{x}<br>SP %{y:.3f}<extra></extra>",
    )  # fmt: skip
    for name, own in values.items():
        text, style = _LINES[name]
        figure.add_scatter(
            x=names, y=[own[country] for country in countries], mode="lines+markers", yaxis="y2",
            name=f"{text} (right axis)", line={"color": style.colour, "dash": style.dash, "width": style.width},
            marker={"symbol": style.symbol, "size": 8},
            hovertemplate=f"%{{x}}<br>{text} %{{y:.3f}}<extra></extra>",
        )  # fmt: skip
    lines = []
    for name, one in found.items():
        outlier = most_influential(one)
        lines.append(
            f"<b>{_NAMES[name]}</b> r = {one.pearson:.2f}, ρ = {one.spearman:.2f};  "
            f"without {label(outlier)} r = {one.without[outlier][0]:.2f}"
        )
    figure.add_annotation(
        x=0, y=1, xref="paper", yref="paper", xanchor="left", yanchor="bottom", align="left", showarrow=False,
        text="<br>".join(lines), font={"size": 12},
    )  # fmt: skip
    figure.update_layout(
        template=TEMPLATE, title={"text": label(title), "y": 0.97, "yanchor": "top"}, height=500, legend=LEGEND,
        margin={"l": 64, "r": 64, "t": 100, "b": 170}, hovermode="x",
        yaxis={"title_text": "self-preference SP", "rangemode": "tozero"},
        yaxis2={
            "title_text": "silhouette", "overlaying": "y", "side": "right", "showgrid": False, "ticks": "outside",
            "tickmode": "auto",
        },
    )  # fmt: skip
    figure.update_xaxes(tickangle=-40, showgrid=False)
    return figure


def published_preference_and_clusters(tower: str) -> Analysis:
    """Return the same of a published tower: s0 table 8, whose correlations are s0 table 7.

    Raises
    ------
    InputError
        If the table has no such tower.
    """
    frame = load_published("s0", 8)
    name = tower_name(tower)
    own = frame[frame["tower"] == name]
    if not len(own):
        known = ", ".join(dict.fromkeys(frame["tower"]))
        raise InputError(f"Table 8 of s0 has no tower {tower!r}. It has: {known}.")
    cells: dict[str, dict[str, float]] = {}
    for row in own.to_dict("records"):
        cells.setdefault(row["metric"], {})[row["country"]] = row["value"]
    languages = country_languages()
    return preference_and_clusters(
        cells["SP"], cells["TS"], cells["IS"], languages, tower=name, corpus="3xcm", published=True
    )
