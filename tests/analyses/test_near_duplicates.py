"""Images that may be one, for a person to judge; and several concepts an image."""

import json
from typing import Any

import numpy as np
import pytest
from PIL import Image

from analyses.concept_labels import read_labels, without_shared_concepts
from analyses.emoji_triplets import emoji_triplets
from analyses.near_duplicates import near_duplicates, write_review
from workbench.errors import InputError


def test_pairs_are_those_of_the_whole_matrix_closest_first(monkeypatch):
    monkeypatch.setattr("analyses.near_duplicates._BLOCK", 7)
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((30, 5))
    rows[20] = 3 * rows[4]
    ids = [f"i{k}" for k in range(30)]
    found = near_duplicates(rows, ids, threshold=0.8)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = units @ units.T
    wanted = {(ids[a], ids[b]): cosines[a, b] for a in range(30) for b in range(a + 1, 30) if cosines[a, b] >= 0.8}
    table = found.table
    assert dict(zip(zip(table["first"], table["second"], strict=True), table["cosine"], strict=True)) == pytest.approx(
        wanted
    )
    assert table["cosine"].is_monotonic_decreasing
    assert tuple(table.iloc[0][["first", "second"]]) == ("i4", "i20")
    assert near_duplicates(rows, ids, threshold=1).table["second"].tolist() == ["i20"]
    least = near_duplicates(rows, ids, threshold=-0.9, most=3)
    assert len(least.table) == 3
    assert least.table["cosine"].tolist() == table["cosine"].tolist()[:3]
    bad: Any
    for bad in ({"threshold": 2.0}, {"most": 0}):
        with pytest.raises(InputError):
            near_duplicates(rows, ids, **bad)
    with pytest.raises(InputError, match="29 ids came for 30 images"):
        near_duplicates(rows, ids[1:])


def test_the_page_shows_both_and_escapes_ids(tmp_path):
    names = ['<script>alert("x")</script>', "a'b&c"]
    pairs = near_duplicates(np.ones((2, 3)), names)
    page = write_review(pairs, lambda _: Image.new("RGBA", (900, 30), "red"), tmp_path / "p.html").read_text("utf-8")
    assert "<script" not in page
    assert page.count("<img ") == 2
    assert "&lt;script&gt;" in page
    assert "a&#x27;b&amp;c" in page
    assert len(page) < 20_000


def test_a_wrong_answer_that_shows_what_was_asked_for_takes_its_trial_out(tmp_path):
    corpus = emoji_triplets(["de", "sw"], limit=3, seed=0)
    first = corpus.triplets[0]
    path = tmp_path / "labels.json"
    path.write_text(json.dumps({first.cultural.image_id: ["other", f" {first.query.concept.upper()}"]}))
    kept = without_shared_concepts(corpus, read_labels(path))
    gone = [one for one in corpus.triplets if one not in kept.triplets]
    assert first in gone
    assert all(first.cultural.image_id in (one.cultural.image_id, one.unrelated.image_id) for one in gone)
    assert all(one.query.concept == first.query.concept for one in gone)
    assert sum(kept.left_out.values()) == len(gone)
    assert kept.hash != corpus.hash
    with pytest.raises(InputError, match=r"No image of .* has a label: the labels name 'nowhere'"):
        without_shared_concepts(corpus, {"nowhere": ["x"]})


@pytest.mark.parametrize(
    "text", ["[]", "{}", "{", '{"a": "b"}', '{"a": [1]}', '{"a": [" "]}', '{"a": ["b"], "a": ["c"]}', "[" * 100_000]
)
def test_labels_that_are_none_teach(tmp_path, text):
    path = tmp_path / "labels.json"
    path.write_text(text)
    with pytest.raises(InputError, match="It must map image ids to lists of concepts"):
        read_labels(path)
    with pytest.raises(InputError, match="There are no labels"):
        read_labels(tmp_path)


def test_nothing_shared_leaves_the_corpus_as_it_is():
    corpus: Any = emoji_triplets(["de", "sw"], limit=2, seed=0)
    own = {triplet.query.image_id: [triplet.query.concept] for triplet in corpus.triplets}
    assert without_shared_concepts(corpus, own).triplets == corpus.triplets
