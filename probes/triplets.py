"""Triplets for the forced choice: drawn from a table of images, and checked (S0-36).

A triplet is a query image and three candidates. With the query's concept and country as the measure:

    candidate       concept   country
    semantic        same      other
    cultural        other     same
    non-relevant    other     other

Nothing is asked of the candidates among each other; in the published set the non-relevant image and the
semantic one are of the same country in 820 of 11,723 rows.

Tables have the column names of the published set, ``query_image_id``, ``query_concept``, ``query_country`` and
so on for each candidate, so that its file and one's own can be used alike. Its ``*_index`` columns are kept
and never read: they are no row numbers of that table.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import InputError, suggest
from workbench.splits import generator as seeded

if TYPE_CHECKING:
    import pandas as pd

ROLES = (
    "query",
    "semantically_relevant_candidate",
    "culturally_relevant_candidate",
    "non_relevant_candidate",
)
FIELDS = ("image_id", "concept", "country")
COLUMNS = tuple(f"{role}_{field}" for role in ROLES for field in FIELDS)

# Role, and whether its concept and its country are to be those of the query.
_RULES = ((ROLES[1], True, False), (ROLES[2], False, True), (ROLES[3], False, False))


@dataclass(frozen=True)
class TripletReport:
    """What a check of triplets found besides faults.

    Attributes
    ----------
    n : int
    by_country : dict of str to int
        Trials by the country of the query, in alphabetical order.
    concepts : int
        Different concepts of queries.
    repeated_queries : int
        Query images that stand in more than one trial.
    shared_country : int
        Trials whose non-relevant candidate is of the semantic one's country.
    """

    n: int
    by_country: dict[str, int]
    concepts: int
    repeated_queries: int
    shared_country: int


def triplet_faults(triplets: "pd.DataFrame", images: "pd.DataFrame | None" = None) -> "pd.DataFrame":
    """List every fault of a table of triplets.

    Parameters
    ----------
    triplets : pandas.DataFrame
        With the columns :data:`COLUMNS`.
    images : pandas.DataFrame, optional
        With ``image_id``, ``concept`` and ``country``: every image must be in it, with the same concept and
        country. Without it, each image must at least be the same wherever it stands.

    Returns
    -------
    pandas.DataFrame
        Columns ``row`` (place in the table, from 0), ``role`` and ``fault``; empty if there is none.

    Raises
    ------
    InputError
        If a column is lacking or a cell is empty: then there is nothing to check.
    """
    import pandas as pd

    table = _texts(triplets, COLUMNS, "The table of triplets")
    faults: list[tuple[int, str, str]] = []
    for role, same_concept, same_country in _RULES:
        for field, same in (("concept", same_concept), ("country", same_country)):
            equal = (table[f"{role}_{field}"] == table[f"query_{field}"]).to_numpy()
            word = f"has another {field} than the query" if same else f"has the {field} of the query"
            faults += [(int(row), role, word) for row in np.flatnonzero(equal != same)]
    known = _descriptions(table) if images is None else _described(images)
    for role in ROLES:
        for row, cells in enumerate(table[[f"{role}_{field}" for field in FIELDS]].itertuples(index=False, name=None)):
            described = known.get(cells[0])
            if described is None:
                faults.append((row, role, f"is the image {cells[0]!r}, which the table of images lacks"))
            elif described != cells[1:]:
                where = "elsewhere in the table" if images is None else "in the table of images"
                faults.append((row, role, f"is {' of '.join(cells[1:])} here and {' of '.join(described)} {where}"))
    return pd.DataFrame(sorted(faults, key=lambda fault: fault[0]), columns=["row", "role", "fault"])


def check_triplets(triplets: "pd.DataFrame", images: "pd.DataFrame | None" = None) -> TripletReport:
    """Check the constraints and describe the set; arguments as in :func:`triplet_faults`.

    Raises
    ------
    InputError
        If a triplet breaks a constraint, with the first fault and their number.
    """
    faults = triplet_faults(triplets, images)
    if len(faults):
        row, role, fault = faults.iloc[0]
        raise InputError(
            f"{len(faults)} faults in {faults['row'].nunique()} of {len(triplets)} triplets. The first: in row {row}, "
            f"the {role.replace('_', ' ')} {fault}. triplet_faults lists them all."
        )
    counts = triplets["query_country"].astype(str).value_counts().sort_index()
    semantic, non = (triplets[f"{role}_country"].astype(str) for role in (ROLES[1], ROLES[3]))
    return TripletReport(
        n=len(triplets),
        by_country={str(country): int(count) for country, count in counts.items()},
        concepts=int(triplets["query_concept"].nunique()),
        repeated_queries=int((triplets["query_image_id"].value_counts() > 1).sum()),
        shared_country=int((semantic == non).sum()),
    )


@dataclass(frozen=True)
class TripletSample:
    """Triplets that were drawn.

    Attributes
    ----------
    table : pandas.DataFrame
        Columns :data:`COLUMNS`, one row a query, in the order of the images.
    left_out : dict of str to int
        Queries without a possible candidate, by the role that nobody can fill.
    """

    table: "pd.DataFrame"
    left_out: dict[str, int]


def sample_triplets(images: "pd.DataFrame", queries: "pd.DataFrame | None" = None, *, seed: int = 0) -> TripletSample:
    """Draw one triplet for each query, each candidate with equal chance among those that are possible.

    Parameters
    ----------
    images : pandas.DataFrame
        With ``image_id``, ``concept`` and ``country``; candidates are taken from here. Ids are unique.
    queries : pandas.DataFrame, optional
        With the same columns; all images by default. A query need not be one of the images.
    seed : int

    Returns
    -------
    TripletSample
        The draw of a query depends on the seed and its place, not on the other queries.

    Raises
    ------
    InputError
        If a column is lacking, a cell is empty, an id stands twice, or no query has all three candidates.
    """
    import pandas as pd

    table = _texts(images, FIELDS, "The table of images")
    twice = table["image_id"][table["image_id"].duplicated()]
    if len(twice):
        raise InputError(f"The table of images has {twice.iloc[0]!r} twice. Ids must be unique.")
    asked = table if queries is None else _texts(queries, FIELDS, "The table of queries")
    concepts, countries = ({name: k for k, name in enumerate(table[field].unique())} for field in FIELDS[1:])
    own_concept, own_country = table["concept"].map(concepts).to_numpy(), table["country"].map(countries).to_numpy()
    pools: dict[tuple[Hashable, Hashable], list[np.ndarray]] = {}
    rows: list[list[Any]] = []
    left_out: dict[str, int] = {}
    records = list(table.itertuples(index=False, name=None))
    for place, query in enumerate(asked[list(FIELDS)].itertuples(index=False, name=None)):
        _, concept, country = query
        if (concept, country) not in pools:
            same_concept = own_concept == concepts.get(concept, -1)
            same_country = own_country == countries.get(country, -1)
            pools[concept, country] = [
                np.flatnonzero((same_concept == wants_concept) & (same_country == wants_country))
                for _, wants_concept, wants_country in _RULES
            ]
        choices = pools[concept, country]
        empty = [role for (role, *_), pool in zip(_RULES, choices, strict=True) if not len(pool)]
        if empty:
            left_out[empty[0]] = left_out.get(empty[0], 0) + 1
            continue
        generator = seeded(seed, place)
        drawn = [records[int(pool[generator.integers(len(pool))])] for pool in choices]
        rows.append([cell for cells in (query, *drawn) for cell in cells])
    if not rows:
        raise InputError(
            f"None of {len(asked)} queries has all three candidates ({_lacking(left_out)}). A triplet needs images of "
            "the same concept from another country, and of other concepts from the same and from another country."
        )
    return TripletSample(pd.DataFrame(rows, columns=list(COLUMNS)), left_out)


def _lacking(left_out: dict[str, int]) -> str:
    return ", ".join(f"{count} lack a {role.replace('_', ' ')}" for role, count in left_out.items()) or "none came"


def _texts(table: "pd.DataFrame", columns: tuple[str, ...], what: str) -> "pd.DataFrame":
    """Return the columns as texts; a country called ``NA`` is no missing value, an empty cell is."""
    names = [str(name) for name in table.columns]
    for column in columns:
        if column not in names:
            raise InputError(f"{what} lacks the column {column!r}.{suggest(column, names)} It has: {', '.join(names)}.")
    if not len(table):
        raise InputError(f"{what} is empty.")
    found = table[list(columns)].reset_index(drop=True)
    empty = found.isna() | found.astype(str).apply(lambda column: column.str.strip() == "")
    if empty.to_numpy().any():
        row, column = (int(place) for place in np.argwhere(empty.to_numpy())[0])
        raise InputError(f"{what} has an empty cell: {columns[column]} of row {row}.")
    return found.astype(str)


def _described(images: "pd.DataFrame") -> dict[str, tuple[str, ...]]:
    table = _texts(images, FIELDS, "The table of images")
    return {image: (concept, country) for image, concept, country in table.itertuples(index=False, name=None)}


def _descriptions(table: "pd.DataFrame") -> dict[str, tuple[str, ...]]:
    """Concept and country of each image where it stands first."""
    found: dict[str, tuple[str, ...]] = {}
    for role in ROLES:
        for image, *rest in table[[f"{role}_{field}" for field in FIELDS]].itertuples(index=False, name=None):
            found.setdefault(image, tuple(rest))
    return found
