"""Association bias: whether a text in a country's language draws images of that country (S0-36 to S0-43).

Trials are forced choices between three images; :mod:`probes.self_preference` says what they are. One table
holds the win rates and self-preference SP over all trials, by country, by language and by concept, and one
figure the win rates by country, in the order of how much the web holds of its language.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import torch
from jaxtyping import Float
from torch import Tensor

from analyses.base import Analysis
from analyses.emoji_triplets import NAME as STAND_IN
from analyses.prevalence_figure import LEGEND
from analyses.published_values import country_languages
from analyses.theme import INK, TEMPLATE, label
from probes.self_preference import count_ties, triplet_similarity, win_intervals, win_rates, z_pooled
from workbench.corpora.images import LazyImages
from workbench.corpora.triplets import TripletCorpus
from workbench.errors import InputError
from workbench.languages import COMMON_CRAWL_SHARE
from workbench.late_interaction import MultiVectors, listed_scores, mean_pooled
from workbench.metrics import wins as who_won
from workbench.towers.base import Tower
from workbench.towers.multi_vectors import joined
from workbench.towers.precomputed import IMAGES, PrecomputedTower

ChoiceDirection = Literal["t2i", "i2i"]
ChoiceTies = Literal["first", "shared"]

COLUMNS = [
    "tower", "corpus", "by", "country", "language", "concept", "direction", "metric", "value", "low", "high", "n",
    "seed", "note",
]  # fmt: skip

_KINDS = ("sem", "cul", "non")
_LOOKS = (("same concept", "#0256a9", ""), ("same country", "#b55508", "/"), ("neither", "#929292", "x"))


@dataclass(frozen=True)
class Trials:
    """Forced choices of one tower.

    Attributes
    ----------
    tower, corpus : str
    direction : {"t2i", "i2i"}
        Whether the query was a text or an image.
    similarity : float array of shape (trial, 3)
        With the semantic, the cultural and the non-relevant candidate.
    country, language, concept : arrays of shape (trial,)
        Of the query.
    abroad : array of shape (trial,)
        Country of the non-relevant candidate.
    query : array of shape (trial,)
        What was asked; trials that share it are drawn together in intervals.
    """

    tower: str
    corpus: str
    direction: ChoiceDirection
    similarity: Float[np.ndarray, "trial 3"] = field(repr=False)
    country: np.ndarray = field(repr=False)
    language: np.ndarray = field(repr=False)
    concept: np.ndarray = field(repr=False)
    abroad: np.ndarray = field(repr=False)
    query: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return len(self.similarity)


@dataclass(frozen=True)
class TripletEmbeddings:
    """Embeddings of a set of triplets.

    Attributes
    ----------
    texts : Tensor of shape (trial, d), or MultiVectors
        Of the text query of each trial.
    images : Tensor of shape (image, d), or MultiVectors
        In the order of ``corpus.image_ids``.
    """

    texts: Any
    images: Any

    @property
    def single(self) -> "TripletEmbeddings":
        """One vector an item, for maps and clusters: the mean of its tokens where there are several, as published."""
        if not isinstance(self.texts, MultiVectors):
            return self
        return TripletEmbeddings(mean_pooled(self.texts), mean_pooled(self.images))


def embed_triplets(tower: Tower, corpus: TripletCorpus) -> TripletEmbeddings:
    """Embed each distinct text query of a language once, and each distinct picture.

    A file of embeddings has them already: under a language, in the row of an image, stands the text that asks for
    that image.
    """
    if isinstance(tower, PrecomputedTower):
        return _stored_triplets(tower, corpus)
    languages = [corpus.languages_of[country] for country in corpus.countries]
    asked = list(zip(languages, corpus.texts(), strict=True))
    distinct = list(dict.fromkeys(asked))
    place = {query: row for row, query in enumerate(distinct)}
    parts, order = [], []
    for language in dict.fromkeys(languages):
        own = [query for query in distinct if query[0] == language]
        parts.append(tower.encode_text([text for _, text in own], language))
        order += [place[query] for query in own]
    texts = joined(parts) if isinstance(parts[0], MultiVectors) else torch.cat(parts)
    back = np.argsort(order)
    corpus.images()  # refuses a set without images
    pictures: dict[str, str] = {}
    of_image = [corpus.image_hash(image_id) for image_id in corpus.image_ids]
    for image_id, picture in zip(corpus.image_ids, of_image, strict=True):
        pictures.setdefault(picture, image_id)
    images = tower.encode_images(LazyImages(list(pictures.values()), corpus.open_image))
    rows = {picture: row for row, picture in enumerate(pictures)}
    wanted = back[[place[query] for query in asked]], np.array([rows[picture] for picture in of_image])
    return TripletEmbeddings(_pick(texts, wanted[0]), _pick(images, wanted[1]))


def _pick(items: Any, rows: np.ndarray) -> Any:
    return items.pick(rows) if isinstance(items, MultiVectors) else items[torch.from_numpy(rows)]


def _stored_triplets(tower: PrecomputedTower, corpus: TripletCorpus) -> TripletEmbeddings:
    texts: list[Tensor] = []
    of_language: dict[str, list[int]] = {}
    for row, country in enumerate(corpus.countries):
        of_language.setdefault(corpus.languages_of[country], []).append(row)
    for language, rows in of_language.items():
        texts.append(tower.find(language, [corpus.triplets[row].query.image_id for row in rows], corpus.name))
    back = np.argsort([row for rows in of_language.values() for row in rows])
    return TripletEmbeddings(
        torch.cat(texts)[torch.from_numpy(back)], tower.find(IMAGES, corpus.image_ids, corpus.name)
    )


def run_trials(
    tower: str, corpus: TripletCorpus, embeddings: TripletEmbeddings, direction: ChoiceDirection = "t2i"
) -> Trials:
    """Let every query choose among its three images.

    Parameters
    ----------
    tower : str
        Its name.
    corpus : TripletCorpus
    embeddings : TripletEmbeddings
    direction : {"t2i", "i2i"}
        Text queries, or the query's image (S0-40).
    """
    rows = corpus.rows()
    if direction not in ("t2i", "i2i"):
        raise InputError(f"direction={direction!r} came; it is 't2i' or 'i2i'.")
    if len(embeddings.texts) != len(corpus) or len(embeddings.images) != len(corpus.image_ids):
        raise InputError(
            f"{len(embeddings.texts)} texts and {len(embeddings.images)} images are embedded; {corpus.name!r} has "
            f"{len(corpus)} trials and {len(corpus.image_ids)} images."
        )
    queries = embeddings.texts if direction == "t2i" else _pick(embeddings.images, rows[:, 0])
    languages = [corpus.languages_of[country] for country in corpus.countries]
    if direction == "t2i":
        asked = [f"{language}\0{text}" for language, text in zip(languages, corpus.texts(), strict=True)]
    else:
        asked = [triplet.query.image_id for triplet in corpus.triplets]
    return Trials(
        tower=tower,
        corpus=corpus.name,
        direction=direction,
        # Of many vectors an item, MaxSim of the query's tokens; a trial compares candidates of one query alone.
        similarity=listed_scores(queries, embeddings.images, rows[:, 1:])
        if isinstance(queries, MultiVectors)
        else triplet_similarity(queries.numpy(), embeddings.images.numpy(), rows[:, 1:]),
        country=np.array(corpus.countries),
        language=np.array(languages),
        concept=np.array([triplet.query.concept for triplet in corpus.triplets]),
        abroad=np.array([triplet.unrelated.country for triplet in corpus.triplets]),
        query=np.array(asked),
    )


def association_bias(
    trials: Sequence[Trials], *, ties: ChoiceTies = "first", seed: int = 0, resamples: int = 1000
) -> Analysis:
    """Win rates and self-preference of some towers, over all trials and by country, language and concept.

    Parameters
    ----------
    trials : sequence of Trials
        Of one set of triplets and one direction, one a tower.
    ties : {"first", "shared"}
        The semantic image wins a tie, as published, or shares it.
    seed, resamples : int
        Of the bootstrap over distinct queries.

    Returns
    -------
    Analysis
        A row a number. ``by`` says what is told apart; metrics are ``M_sem``, ``M_cul`` and ``M_non`` in
        percent, ``SP``, ``log SP`` (finite where SP is not), ``z sem`` and so on (standardised similarity, over
        all trials only), and ``M_abroad``: percent of other countries' trials that this country's image won as
        the non-relevant candidate.
    """
    if not trials:
        raise InputError("No trials came. run_trials makes them of a tower and a set of triplets.")
    if len({(one.corpus, one.direction, len(one)) for one in trials}) > 1:
        raise InputError("The trials are of different sets of triplets or directions; only one set can be compared.")
    if len({one.tower for one in trials}) < len(trials):
        raise InputError("Two sets of trials are of one tower; each may come once.")
    rows = [row for one in trials for row in _rows(one, ties, seed, resamples)]
    table = pd.DataFrame(rows)[COLUMNS]
    first = trials[0]
    title = f"Forced choice by country, {_DIRECTIONS[first.direction]} (n = {len(first):,} trials)"
    tied = ", ".join(f"{one.tower} {count_ties(one.similarity):,}" for one in trials)
    caption = "".join(_finding(table, one.tower) for one in trials) + (
        f"{first.corpus}: how often the image of the query's concept, of its country or of neither was most similar to "
        f"the query. Countries stand in the order of their language's share of Common Crawl; the number above is "
        "SP = M_cul / M_sem, which is 0 for a tower that goes by meaning alone. The table has the rates by language "
        f"and concept too, with 95 % intervals of a bootstrap over distinct queries. Tied trials: {tied}; "
        + ("the image of the concept wins them, as published." if ties == "first" else "the tied share them.")
    )
    if first.corpus == STAND_IN:
        caption += (
            " This set is a stand-in made of emoji: the concept is a category, the country a flag, and both wrong "
            "answers are flags, so that without association bias M_cul equals M_non over all trials. A single "
            "country's M_cul is to be read against its M_abroad in the table, since some flags attract every query. "
            "No value can be laid beside published ones."
        )
    return Analysis(f"association-{first.direction}", title, table, _figure(table, trials, title), caption)


CAVEATS = (
    "A country stands for a culture and a language for a country here; both are coarse, and so are the concepts.",
    "An equal share of wins is no proof of right answers: read SP beside M_sem.",
    "A word with several meanings is one query; which meaning a picture shows is not looked at.",
    "SP divides by M_sem: where few trials are won by meaning it is large for that alone; log SP has no such pole.",
    "Countries, languages and concepts are few; each value has its number of trials, and intervals are over distinct "
    "queries.",
)
"""What a report of association bias says beside its numbers (S0-75)."""


def _finding(table: pd.DataFrame, tower: str) -> str:
    own = table[(table["tower"] == tower) & (table["by"] == "all")]
    rows = {row["metric"]: row for row in own.to_dict("records")}
    shares = ", ".join(
        f"{name} {rows[f'M_{kind}']['value']:.1f} %" for kind, (name, *_) in zip(_KINDS, _LOOKS, strict=True)
    )
    ratio = rows["SP"]
    return (
        f"{tower} chose: {shares}; self-preference SP {_ratio(ratio['value'])} [{_ratio(ratio['low'])}, "
        f"{_ratio(ratio['high'])}]. "
    )


_DIRECTIONS = {"t2i": "text query", "i2i": "image query"}


def _rows(one: Trials, ties: ChoiceTies, seed: int, resamples: int) -> Iterable[dict[str, Any]]:
    won = who_won(one.similarity, ties)
    fixed = {"tower": one.tower, "corpus": one.corpus, "direction": one.direction, "seed": seed, "note": ""}
    nowhere = {"country": "all", "language": "all", "concept": "all"}

    def numbers(by: str, place: Mapping[str, str], chosen: np.ndarray) -> Iterable[dict[str, Any]]:
        head = {**fixed, "by": by, **nowhere, **place}
        rates = win_rates(won[chosen])
        ends = win_intervals(won[chosen], one.query[chosen], seed=seed, resamples=resamples)
        n = int(chosen.sum())
        for kind, percent in zip(_KINDS, rates.percent, strict=True):
            low, high = ends[f"M_{kind}"]
            yield {**head, "metric": f"M_{kind}", "value": percent, "low": low, "high": high, "n": n}
        low, high = ends["SP"]
        note = "" if np.isfinite(rates.sp) else "no trial was won by the image of the concept"
        yield {**head, "metric": "SP", "value": rates.sp, "low": low, "high": high, "n": n, "note": note}
        yield {**head, "metric": "log SP", "value": rates.log_ratio, "low": None, "high": None, "n": n}

    yield from numbers("all", {}, np.ones(len(one), dtype=bool))
    for kind, score in zip(_KINDS, z_pooled(one.similarity), strict=True):
        head = {**fixed, "by": "all", **nowhere, "n": len(one)}
        yield {**head, "metric": f"z {kind}", "value": float(score), "low": None, "high": None}
    languages = dict(zip(one.country.tolist(), one.language.tolist(), strict=True))
    for country in country_order(languages):
        place = {"country": country, "language": languages[country]}
        yield from numbers("country", place, one.country == country)
        guests = one.abroad == country
        if guests.any():
            low, high = win_intervals(won[guests], one.query[guests], seed=seed, resamples=resamples)["M_non"]
            yield {
                **fixed, "by": "country", **nowhere, **place, "metric": "M_abroad",
                "value": win_rates(won[guests]).percent[2], "low": low, "high": high, "n": int(guests.sum()),
            }  # fmt: skip
    for language in dict.fromkeys(languages[country] for country in country_order(languages)):
        yield from numbers("language", {"language": language}, one.language == language)
    for concept in sorted(set(one.concept.tolist())):
        yield from numbers("concept", {"concept": concept}, one.concept == concept)


def country_order(languages: Mapping[str, str]) -> list[str]:
    """Return countries in the order of how much the web holds of their language; the published order where it is one.

    Parameters
    ----------
    languages : mapping of str to str
        Country to language.
    """
    published = list(country_languages())

    def key(country: str) -> tuple[float, int, str]:
        # Yoruba is not among the 36 languages; its published share is 0.001 %.
        share = COMMON_CRAWL_SHARE.get(languages[country], 0.001)
        place = published.index(country) if country in published else len(published)
        return -share, place, country

    return sorted(languages, key=key)


def _figure(table: pd.DataFrame, trials: Sequence[Trials], title: str) -> go.Figure:
    from plotly.subplots import make_subplots

    own = table[table["by"] == "country"]
    countries = list(dict.fromkeys(own["country"]))
    cells = {
        (row["tower"], row["country"], row["metric"]): row for row in own.to_dict("records")
    }  # fmt: skip
    figure = make_subplots(
        rows=len(trials), cols=1, shared_xaxes=True, vertical_spacing=0.16 / max(len(trials), 1),
        subplot_titles=[f"<b>{label(one.tower)}</b>" for one in trials],
    )  # fmt: skip
    for row, one in enumerate(trials, 1):
        for kind, (name, colour, pattern) in zip(_KINDS, _LOOKS, strict=True):
            found = [cells[one.tower, country, f"M_{kind}"] for country in countries]
            figure.add_bar(
                x=[label(country) for country in countries], y=[cell["value"] for cell in found],
                name=name, legendgroup=name, showlegend=row == 1, row=row, col=1,
                marker={
                    "color": colour, "line": {"width": 0},
                    "pattern": {"shape": pattern, "size": 6, "fgcolor": "#fff", "solidity": 0.2, "fillmode": "overlay"},
                },
                hovertext=[
                    f"<b>{label(cell['country'])}</b> ({label(cell['language'])}), {name}<br>{cell['value']:.1f} % "
                    f"[{cell['low']:.1f}, {cell['high']:.1f}]<br>n = {cell['n']:,} trials"
                    for cell in found
                ],
                hovertemplate="%{hovertext}<extra></extra>",
            )  # fmt: skip
        ratios = [cells[one.tower, country, "SP"]["value"] for country in countries]
        figure.add_scatter(
            x=[label(country) for country in countries], y=[101] * len(countries), mode="text",
            text=[_ratio(value) for value in ratios], textposition="top center", showlegend=False,
            textfont={"size": 11, "color": INK}, hoverinfo="skip", row=row, col=1,
        )  # fmt: skip
        figure.update_yaxes(title_text="trials won, %", range=[0, 113], tickvals=[0, 25, 50, 75, 100], row=row, col=1)
    figure.update_layout(
        template=TEMPLATE, title={"text": label(title)}, barmode="stack", bargap=0.25, legend=LEGEND,
        height=180 + 240 * len(trials), margin={"l": 64, "r": 24, "t": 90, "b": 150},
    )  # fmt: skip
    figure.update_xaxes(tickangle=-40, showgrid=False, ticks="")
    return figure


def _ratio(value: float) -> str:
    if np.isnan(value):
        return "–"
    return "∞" if np.isinf(value) else f"{value:.2f}"


def country_self_preference(table: pd.DataFrame, tower: str) -> dict[str, float]:
    """Return SP by country out of the table of :func:`association_bias`.

    Raises
    ------
    InputError
        If the table has no such tower.
    """
    own = table[(table["tower"] == tower) & (table["by"] == "country") & (table["metric"] == "SP")]
    if not len(own):
        raise InputError(f"The table has no trials of {tower!r}. It has: {', '.join(dict.fromkeys(table['tower']))}.")
    return {str(country): float(value) for country, value in zip(own["country"], own["value"], strict=True)}
