"""Sampler and validator: the three constraints, one fault at a time."""

import numpy as np
import pandas as pd
import pytest

from probes.triplets import COLUMNS, ROLES, check_triplets, sample_triplets, triplet_faults
from workbench.errors import InputError

COUNTRIES = ("Kenya", "Japan", "USA", "NA")  # "NA" is a legal name, not a hole
CONCEPTS = ("necklace", "mask", "train")


@pytest.fixture
def images() -> pd.DataFrame:
    """Two images of each concept from each country."""
    rows = [
        (f"{country}-{concept}-{k}", concept, country) for country in COUNTRIES for concept in CONCEPTS for k in (1, 2)
    ]
    return pd.DataFrame(rows, columns=["image_id", "concept", "country"])


@pytest.fixture
def triplets(images: pd.DataFrame) -> pd.DataFrame:
    return sample_triplets(images, seed=3).table


def test_a_draw_keeps_the_constraints(images, triplets):
    assert list(triplets.columns) == list(COLUMNS)
    semantic, cultural, non = ROLES[1:]
    assert (triplets[f"{semantic}_concept"] == triplets["query_concept"]).all()
    assert (triplets[f"{semantic}_country"] != triplets["query_country"]).all()
    assert (triplets[f"{cultural}_concept"] != triplets["query_concept"]).all()
    assert (triplets[f"{cultural}_country"] == triplets["query_country"]).all()
    assert (triplets[f"{non}_concept"] != triplets["query_concept"]).all()
    assert (triplets[f"{non}_country"] != triplets["query_country"]).all()
    assert triplets["query_image_id"].tolist() == images["image_id"].tolist()
    report = check_triplets(triplets, images)
    assert report.n == 24
    assert report.by_country == dict.fromkeys(sorted(COUNTRIES), 6)
    assert (report.concepts, report.repeated_queries) == (3, 0)
    assert report.shared_country == int((triplets[f"{semantic}_country"] == triplets[f"{non}_country"]).sum())


def test_the_same_seed_draws_the_same_and_another_seed_does_not(images):
    first = sample_triplets(images, seed=1).table
    assert first.equals(sample_triplets(images, seed=1).table)
    assert not first.equals(sample_triplets(images, seed=2).table)
    # Each query has its own stream: leaving later ones out changes nothing.
    assert sample_triplets(images, images.iloc[:5], seed=1).table.equals(first.iloc[:5])


def test_every_possible_candidate_is_drawn_equally_often(images):
    same = images.iloc[np.zeros(3000, dtype=int)]  # a Kenyan necklace, again and again
    found = sample_triplets(images, same).table
    for role, possible in zip(ROLES[1:], (6, 4, 12), strict=True):
        counts = found[f"{role}_image_id"].value_counts()
        assert len(counts) == possible
        # Chi-square with at most 11 degrees of freedom: 35 is beyond one in ten thousand.
        assert float(((counts - 3000 / possible) ** 2 / (3000 / possible)).sum()) < 35


def test_a_query_that_nobody_can_answer_is_counted(images):
    odd = pd.DataFrame({"image_id": ["x", "y"], "concept": ["ghost", "mask"], "country": ["Japan", "Chile"]})
    both = pd.concat([images, odd], ignore_index=True)
    sample = sample_triplets(both)
    assert sample.left_out == {ROLES[1]: 1, ROLES[2]: 1}
    assert len(sample.table) == 24
    with pytest.raises(InputError, match="None of 1 queries has all three"):
        sample_triplets(images, odd.iloc[[0]])


# What is written into row 5, which role then breaks which rule.
BREAKS = [
    (ROLES[1], "concept", "ghost", "has another concept than the query"),
    (ROLES[1], "country", None, "has the country of the query"),
    (ROLES[2], "concept", None, "has the concept of the query"),
    (ROLES[2], "country", "Chile", "has another country than the query"),
    (ROLES[3], "concept", None, "has the concept of the query"),
    (ROLES[3], "country", None, "has the country of the query"),
]


@pytest.mark.parametrize(("role", "field", "value", "words"), BREAKS)
def test_each_broken_constraint_is_found_and_named(triplets, role, field, value, words):
    row = 5
    # A fresh id, so that nothing but the constraint is wrong.
    triplets.loc[row, f"{role}_image_id"] = "fresh"
    triplets.loc[row, f"{role}_{field}"] = triplets.loc[row, f"query_{field}"] if value is None else value
    faults = triplet_faults(triplets)
    assert faults.to_dict("records") == [{"row": row, "role": role, "fault": words}]
    with pytest.raises(InputError, match=f"1 faults in 1 of 24 triplets.*row 5.*{words}"):
        check_triplets(triplets)


def test_an_image_must_be_the_same_everywhere(images, triplets):
    other = images.assign(country=images["country"].where(images["image_id"] != "Kenya-mask-1", "Chile"))
    uses = sum(int((triplets[f"{role}_image_id"] == "Kenya-mask-1").sum()) for role in ROLES)
    faults = triplet_faults(triplets, other)
    assert len(faults) == uses > 0
    assert set(faults["fault"]) == {"is mask of Kenya here and mask of Chile in the table of images"}
    assert len(triplet_faults(triplets, images[images["image_id"] != "Kenya-mask-1"])) == uses
    triplets.loc[0, f"{ROLES[1]}_country"] = "Chile"
    assert "elsewhere in the table" in triplet_faults(triplets)["fault"].iloc[0]


def test_columns_of_the_published_file_do_no_harm(triplets):
    more = triplets.assign(**{f"{role}_index": 99_999 for role in ROLES})
    assert check_triplets(more[list(reversed(more.columns))]).n == 24
    shuffled = more.sample(frac=1, random_state=0)  # row labels are no row numbers either
    assert check_triplets(shuffled).by_country == check_triplets(triplets).by_country


def test_repeated_queries_are_counted_not_refused(triplets):
    twice = pd.concat([triplets, triplets.iloc[:2]])
    assert check_triplets(twice).repeated_queries == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop(columns="query_concept"), "lacks the column 'query_concept'"),
        (lambda t: t.rename(columns={"query_country": "query_county"}), "Did you mean 'query_county'"),
        (lambda t: t.assign(query_country=np.nan), "empty cell: query_country of row 0"),
        (lambda t: t.assign(non_relevant_candidate_concept=" "), "empty cell"),
        (lambda t: t.iloc[:0], "is empty"),
    ],
)
def test_errors_teach(triplets, change, words):
    with pytest.raises(InputError, match=words):
        triplet_faults(change(triplets))


def test_ids_of_images_are_unique(images):
    with pytest.raises(InputError, match="'Kenya-necklace-1' twice"):
        sample_triplets(pd.concat([images, images.iloc[[0]]]))
