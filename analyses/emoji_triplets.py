"""A stand-in for 3XCM that needs no download: triplets made of emoji categories and flags.

3XCM asks for a concept in a country's language and offers photographs from 16 countries. emoji-36 has no such
photographs, but it has categories, and it has flags. A trial here:

- the query is an emoji's name in the language of a country, such as *ndovu* in Swahili, for Kenya;
- the *semantic* candidate is another emoji of its category (another mammal), tied to no country;
- the *cultural* candidate is the flag of the country;
- the *non-relevant* candidate is the flag of a country with another language.

So the three constraints hold as in 3XCM, with the category as the concept, and both wrong answers are flags. For
each emoji every flag is the wrong answer of either kind once (unless one language has more than half of the
countries), so over all trials a tower without association bias has M_cul = M_non. For one country that does not
hold, since some flags attract everything; there M_cul is to be read against M_abroad, how often the same flag wins
trials of other countries.

It is a stand-in all the same: a flag is not a culture, an emoji is no photograph, and none of its values can be laid
beside published ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq

from analyses.published_values import published_rows
from workbench.builtin import CORPUS_FILE
from workbench.corpora.emoji36 import load_emoji36
from workbench.corpora.triplets import Item, Triplet, TripletCorpus
from workbench.errors import InputError, suggest
from workbench.splits import generator as seeded

NAME = "emoji-36-triplets"
NO_COUNTRY = "no country"
FLAGS = "country-flag"

# Where 3XCM has no country for a language of emoji-36: the one that most of its speakers live in.
_OTHER_COUNTRIES: dict[str, tuple[str, str]] = {
    "bn": ("Bangladesh", "BD"), "cs": ("Czechia", "CZ"), "da": ("Denmark", "DK"), "el": ("Greece", "GR"),
    "fa": ("Iran", "IR"), "fi": ("Finland", "FI"), "fil": ("Philippines", "PH"), "he": ("Israel", "IL"),
    "hr": ("Croatia", "HR"), "hu": ("Hungary", "HU"), "id": ("Indonesia", "ID"), "it": ("Italy", "IT"),
    "ko": ("South Korea", "KR"), "mi": ("New Zealand", "NZ"), "nl": ("Netherlands", "NL"), "no": ("Norway", "NO"),
    "pl": ("Poland", "PL"), "quz": ("Peru", "PE"), "ro": ("Romania", "RO"), "ru": ("Russia", "RU"),
    "sv": ("Sweden", "SE"), "tr": ("Türkiye", "TR"), "uk": ("Ukraine", "UA"), "vi": ("Vietnam", "VN"),
}  # fmt: skip
# Telugu and Hindi share India's flag, so Telugu can be asked for only where Hindi is not.
_SHARED = {"te": ("India", "IN")}


@dataclass(frozen=True)
class _Country:
    name: str
    flag: str
    language: str


def emoji_triplets(languages: Iterable[str] | None = None, *, limit: int | None = None, seed: int = 0) -> TripletCorpus:
    """Make the stand-in triplets.

    Parameters
    ----------
    languages : iterable of str, optional
        Of the queries. By default the eleven that 3XCM and emoji-36 share, with the fifteen countries that
        3XCM asks for in them; further ones get one country each.
    limit : int, optional
        Emoji to ask for, drawn by the seed; all that have a name in every language by default.
    seed : int
        Of the draw of emoji, and of the candidates.

    Returns
    -------
    TripletCorpus
        One trial for each emoji and country. ``image_ids`` of queries are such as ``1f418@Kenya``, with the
        picture of the emoji.

    Raises
    ------
    InputError
        If a language is not in emoji-36, its flag is another language's too, or the limit is below 1.
    """
    countries = _countries(languages)
    wanted = tuple(dict.fromkeys(country.language for country in countries))
    if len(wanted) < 2:
        raise InputError(
            f"Triplets need countries of two languages or more, and {', '.join(wanted) or 'none'} came. Name another."
        )
    corpus = load_emoji36(wanted)
    table = pq.read_table(CORPUS_FILE, columns=["id", "subcategory"])
    category = dict(zip(table["id"].to_pylist(), table["subcategory"].to_pylist(), strict=True))
    asked = [k for k, image_id in enumerate(corpus.image_ids) if not category[image_id].endswith("flag")]
    members: dict[str, list[str]] = {}
    for k in asked:
        members.setdefault(category[corpus.image_ids[k]], []).append(corpus.image_ids[k])
    asked = [k for k in asked if len(members[category[corpus.image_ids[k]]]) > 1]
    if limit is not None:
        if limit < 1:
            raise InputError(f"A limit of {limit} emoji came; at least 1 is needed.")
        chosen = seeded(seed, 36).permutation(len(asked))[:limit]
        asked = [asked[k] for k in sorted(chosen)]
    triplets: list[Triplet] = []
    native: dict[str, str] = {}
    for k in asked:
        image_id, generator = corpus.image_ids[k], seeded(seed, k)
        concept = category[image_id]
        others = [other for other in members[concept] if other != image_id]
        for country, stranger in zip(countries, _strangers(countries, generator), strict=True):
            query = Item(f"{image_id}@{country.name}", concept, country.name)
            triplets.append(
                Triplet(
                    query,
                    Item(others[generator.integers(len(others))], concept, NO_COUNTRY),
                    Item(country.flag, FLAGS, country.name),
                    Item(stranger.flag, FLAGS, stranger.name),
                )
            )
            native[query.image_id] = corpus.captions[country.language][k][0]

    def picture(image_id: str) -> str:
        return image_id.split("@")[0]

    return TripletCorpus(
        name=NAME,
        triplets=tuple(triplets),
        languages_of={country.name: country.language for country in countries},
        open_image=lambda image_id: corpus.open_image(picture(image_id)),
        image_hash=lambda image_id: corpus.image_hash(picture(image_id)),
        licence=corpus.licence,
        description="a stand-in for 3XCM made of emoji categories and flags; not comparable with published values",
        native=native,
        exif="apply",
    )


def _strangers(countries: list[_Country], generator: np.random.Generator) -> list[_Country]:
    """Give each country one with another language: each once, where no language has more than half of them."""
    languages = [country.language for country in countries]
    if max(languages.count(language) for language in languages) * 2 > len(countries):
        return [
            (strange := [other for other in countries if other.language != country.language])[
                generator.integers(len(strange))
            ]
            for country in countries
        ]
    while True:
        order = generator.permutation(len(countries))
        if all(languages[k] != languages[other] for k, other in enumerate(order.tolist())):
            return [countries[k] for k in order]


def emoji_categories() -> dict[str, str]:
    """Return the category of each emoji of emoji-36, such as ``"Food & Drink"``, by its id."""
    table = pq.read_table(CORPUS_FILE, columns=["id", "category"])
    return dict(zip(table["id"].to_pylist(), table["category"].to_pylist(), strict=True))


def flag_id(iso: str) -> str:
    """Return the emoji id of a country's flag: its two letters as regional indicators."""
    return "-".join(f"{0x1F1E6 + ord(letter) - ord('A'):x}" for letter in iso)


def _countries(languages: Iterable[str] | None) -> list[_Country]:
    from workbench.languages import XM3600_LANGUAGES

    published = [
        _Country(row["country"], flag_id(row["iso"]), row["language"]) for row in published_rows("countries.csv")
    ]
    if languages is None:
        return [country for country in published if country.language in XM3600_LANGUAGES]
    wanted = tuple(dict.fromkeys(languages))
    found: list[_Country] = []
    for language in wanted:
        if language not in XM3600_LANGUAGES:
            raise InputError(
                f"emoji-36 has no language {language!r}.{suggest(language, XM3600_LANGUAGES)} It has: "
                f"{', '.join(XM3600_LANGUAGES)}."
            )
        own = [country for country in published if country.language == language]
        if not own:
            name, iso = {**_OTHER_COUNTRIES, **_SHARED}[language]
            own = [_Country(name, flag_id(iso), language)]
        found += own
    names = [country.name for country in found]
    twice = next((country for country in found if names.count(country.name) > 1), None)
    if twice:
        both = " and ".join(country.language for country in found if country.name == twice.name)
        raise InputError(f"{both} share the flag of {twice.name}, so it can't stand for one of them. Leave one out.")
    return found
