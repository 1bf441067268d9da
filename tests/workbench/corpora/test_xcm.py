import csv
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workbench.corpora.writing import jpeg, write_image, write_jsonl
from workbench.corpora.loading import corpus_languages, load_benchmark, load_corpus, recognise_place
from workbench.corpora.reading import Faults
from workbench.corpora.triplets import Item, Triplet, TripletCorpus, check_triplets
from workbench.corpora.xcm import COUNTRY_LANGUAGE, build_triplets, open_3xcm
from workbench.errors import InputError

ROLES = ("query", "semantically_relevant_candidate", "culturally_relevant_candidate", "non_relevant_candidate")
# Image id, concept, country. The index counts the rows of a longer table of images.
ITEMS = {
    "kenya-0-1-eng": ("bus", "Kenya"),
    "thailand-0-2-nav": ("bus", "Thailand"),
    "kenya-5-1-nav": ("bread", "Kenya"),
    "saudi arabia-9-1-eng": ("mosque", "Saudi Arabia"),
    "thailand-5-4-eng": ("bread", "Thailand"),
}
NATIVE = {
    ("bus", "Kenya"): "basi",
    ("bus", "Thailand"): "รถบัส",
    ("bread", "Kenya"): "mkate",
    ("mosque", "Saudi Arabia"): "مسجد",
    ("bread", "Thailand"): "ขนมปัง",
}
ROWS = [
    ("kenya-0-1-eng", "thailand-0-2-nav", "kenya-5-1-nav", "saudi arabia-9-1-eng"),
    ("thailand-0-2-nav", "kenya-0-1-eng", "thailand-5-4-eng", "saudi arabia-9-1-eng"),
]


def write(folder, rows=ROWS, place="", items=ITEMS):
    """The sixteen columns, with indices that are no rows of anything here."""
    path = folder / place / "xcm-bench.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([f"{role}_{part}" for role in ROLES for part in ("index", "image_id", "concept", "country")])
        for number, row in enumerate(rows):
            writer.writerow([cell for image in row for cell in (9000 + number, image, *items[image])])
    return folder


def metadata(items=ITEMS) -> list[dict]:
    # In another order than the triplets: only the id may join them.
    return [
        {
            "concept_id": 0, "image_id": image, "concept": concept, "concept_in_native": NATIVE[concept, country],
            "concept_country": f"{concept}_{country}", "country": country, "title": "a title",
        }
        for image, (concept, country) in reversed(items.items())
    ]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    folder = write(tmp_path / "xcm")
    write_jsonl(folder / "image_metadata.jsonl", metadata())
    for number, image in enumerate(ITEMS):
        write_image(folder / "images" / f"{image}.jpg", colour=(40 * number, 9, 9))
    return folder


def load(folder, languages=None, *, images=None, **options) -> TripletCorpus:
    return build_triplets(open_3xcm(folder, Faults(), images=images, published=2), languages, **options)


def test_triplets_are_joined_to_their_images_by_id_and_not_by_row(folder):
    corpus = load(folder)
    assert corpus.texts() == ["basi", "รถบัส"]
    assert corpus.languages == ("sw", "th")
    assert corpus.countries == ("Kenya", "Thailand")
    ids = [[corpus.image_ids[row] for row in rows] for rows in corpus.rows()]
    assert ids == [list(row) for row in ROWS]
    assert len(corpus.images()) == len(corpus.image_ids) == 5
    assert recognise_place(folder).name == "3xcm"


def test_without_the_table_of_images_there_is_no_text_query(folder):
    (folder / "image_metadata.jsonl").unlink()
    corpus = load(folder)
    assert corpus.native is None
    assert corpus.rows().shape == (2, 4)
    with pytest.raises(InputError, match="without the table of images"):
        corpus.texts()
    assert corpus.hash != load(write(folder, ROWS[:1]), subset="present").hash


def test_triplets_alone_can_be_scored_with_other_embeddings(folder):
    for path in (folder / "images").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="None of the 5 images of 3xcm is here"):
        load(folder)
    corpus = load(folder, with_images=False)
    assert corpus.text_only
    assert corpus.rows().tolist() == [[0, 1, 2, 3], [1, 0, 4, 3]]
    with pytest.raises(InputError, match="without images"):
        corpus.images()


def test_the_authors_folders_and_any_suffix_are_found(tmp_path):
    folder = write(tmp_path / "repo", place="rq2_eval/benchmarks")
    for image in ITEMS:
        write_image(folder / "images" / f"{image}.PNG")
    assert len(load(folder).images()) == 5
    (folder / "images").rename(tmp_path / "photos")
    assert len(load(folder, images=tmp_path / "photos").images()) == 5
    assert load(folder / "rq2_eval" / "benchmarks" / "xcm-bench.csv", with_images=False).languages == ("sw", "th")


def test_pictures_may_stand_in_the_table(folder):
    for path in (folder / "images").iterdir():
        path.unlink()
    (folder / "image_metadata.jsonl").unlink()
    rows = metadata()
    table = {name: [row[name] for row in rows] for name in rows[0]}
    table["image"] = [{"bytes": jpeg((10 * n, 0, 0)), "path": None} for n in range(5)]
    pq.write_table(pa.table(table), folder / "image_metadata.parquet")
    corpus = load(folder)
    assert len({image.tobytes() for image in corpus.images()}) == 5
    assert corpus.texts() == ["basi", "รถบัส"]


def test_the_three_constraints_are_checked_on_every_row(tmp_path):
    for wrong, says in (
        (("kenya-0-1-eng", "kenya-5-1-nav", "kenya-5-1-nav", "saudi arabia-9-1-eng"), "semantic candidate"),
        (("kenya-0-1-eng", "thailand-0-2-nav", "thailand-5-4-eng", "saudi arabia-9-1-eng"), "cultural candidate"),
        (("kenya-0-1-eng", "thailand-0-2-nav", "kenya-5-1-nav", "thailand-0-2-nav"), "unrelated candidate"),
    ):
        folder = write(tmp_path / says.split()[0], [ROWS[0], wrong])
        with pytest.raises(InputError, match=rf"Line 3 of .*is no triplet: the {says}"):
            load(folder, with_images=False)


COUNTRIES = st.sampled_from(["Kenya", "Japan", "Spain"])
CONCEPTS = st.sampled_from(["bus", "bread", "hat"])
ITEM = st.builds(Item, st.text("ab", min_size=1), CONCEPTS, COUNTRIES)


@settings(deadline=None)
@given(st.builds(Triplet, ITEM, ITEM, ITEM, ITEM))
def test_a_triplet_is_legal_exactly_when_all_three_constraints_hold(triplet):
    q, s, c, u = triplet.items
    legal = (
        (s.concept == q.concept and s.country != q.country)
        and (c.country == q.country and c.concept != q.concept)
        and (u.concept != q.concept and u.country != q.country)
    )
    assert (triplet.fault() is None) == legal
    if not legal:
        with pytest.raises(InputError, match="Triplet 1"):
            check_triplets([triplet])


def test_a_missing_image_is_refused_unless_a_subset_is_named(folder):
    (folder / "images" / "thailand-5-4-eng.jpg").unlink()
    with pytest.raises(InputError, match="1 of the 5 images of 3xcm are not here; the first is 'thailand-5-4-eng'"):
        load(folder)
    assert load(folder, ["sw"]).languages == ("sw",), "Swahili does not need it"
    corpus = load(folder, subset="present")
    assert len(corpus) == 1
    assert corpus.name.startswith("3xcm:present@")


def test_a_file_that_is_not_whole_is_refused(folder):
    with pytest.raises(InputError, match="3xcm has 11,723 triplets, and 2 are here"):
        load_benchmark(folder)


def test_a_table_that_lacks_an_image_belongs_to_another_version(folder):
    write_jsonl(folder / "image_metadata.jsonl", metadata()[:-1])
    with pytest.raises(InputError, match="lacks 1 images that the triplets name; the first is 'kenya-0-1-eng'"):
        load(folder)


def test_an_image_twice_in_the_table_is_refused(folder):
    write_jsonl(folder / "image_metadata.jsonl", [*metadata(), metadata()[0]])
    with pytest.raises(InputError, match=r"has the image 'thailand-5-4-eng', as .* has"):
        load(folder)


def test_an_unknown_country_and_a_missing_column_are_named(tmp_path):
    items = {**ITEMS, "kenya-0-1-eng": ("bus", "Atlantis"), "kenya-5-1-nav": ("bread", "Atlantis")}
    with pytest.raises(InputError, match=r"the country 'Atlantis'. 3XCM has USA"):
        load(write(tmp_path / "a", items=items), with_images=False)
    path = tmp_path / "b" / "xcm-bench.csv"
    path.parent.mkdir()
    path.write_text("query_image_id,query_concept\nx,y\n")
    with pytest.raises(InputError, match="no column 'query_country'"):
        load(path.parent, with_images=False)


def test_select_keeps_languages_and_the_first(folder):
    corpus = load(folder)
    assert corpus.select(["th"]).countries == ("Thailand",)
    assert corpus.select(["Thai".lower()[:2]], limit=1).image_ids == ROWS[1]
    with pytest.raises(InputError, match="at least 1"):
        corpus.select(limit=0)
    with pytest.raises(InputError, match="no language 'yo'"):
        corpus.select(["yo"])


def test_sixteen_countries_speak_twelve_languages():
    assert len(COUNTRY_LANGUAGE) == 16
    assert set(COUNTRY_LANGUAGE.values()) == {"en", "de", "zh", "ja", "es", "fr", "pt", "ar", "th", "hi", "sw", "yo"}


def test_a_corpus_of_ones_own_is_checked_too(folder):
    corpus = load(folder)
    broken = replace(corpus.triplets[0], cultural=corpus.triplets[0].unrelated)
    with pytest.raises(InputError, match=r"Triplet 1 .*cultural candidate"):
        replace(corpus, triplets=(broken,))
    with pytest.raises(InputError, match="no language is given for it"):
        replace(corpus, languages_of={"Kenya": "sw"})
    with pytest.raises(InputError, match="no native name for the query"):
        replace(corpus, native={})
    with pytest.raises(InputError, match="no triplet left"):
        replace(corpus, triplets=())


def test_the_hash_follows_triplets_texts_and_images(folder):
    before = load(folder).hash
    assert load(folder).hash == before
    (folder / "images" / "kenya-0-1-eng.jpg").write_bytes(jpeg((1, 2, 3)))
    after = load(folder).hash
    assert after != before
    lines = metadata()
    lines[-1]["concept_in_native"] = "gari"
    write_jsonl(folder / "image_metadata.jsonl", lines)
    assert load(folder).hash != after


def test_it_is_no_corpus_of_captions(folder):
    assert corpus_languages(folder) == ("sw", "th")
    with pytest.raises(InputError, match="forced choice between three images"):
        load_corpus(folder)
