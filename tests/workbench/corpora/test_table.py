import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workbench.corpora.writing import jpeg, write_image, write_jsonl
from workbench.corpora.base import Corpus
from workbench.corpora.loading import corpus_languages, load_corpus
from workbench.corpora.reading import Faults
from workbench.corpora.source import build_corpus
from workbench.corpora.table import open_table
from workbench.errors import InputError
from workbench.language_codes import Codes
from workbench.texts import is_blank

IMAGES = ["p/1.jpg", "p/2.jpg"]
CAPTIONS = {
    "en": (("a hat", 'one, "big" hat'), ("two cups",)),
    "sw": (("kofia",), ("vikombe viwili",)),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in IMAGES:
        write_image(tmp_path / "mine" / name)
    return tmp_path / "mine"


def write_csv(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".tsv":
            file.writelines("\t".join(row) + "\n" for row in rows)
        else:
            csv.writer(file).writerows(rows)
    return path


def long_rows() -> list[list[str]]:
    return [
        [image, language, text]
        for language, lists in CAPTIONS.items()
        for image, texts in zip(IMAGES, lists, strict=True)
        for text in texts
    ]


def load(path: Path, **options) -> Corpus:
    return build_corpus(open_table(path, Faults()), **options)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_the_long_form_gives_several_captions_an_image_from_any_kind_of_file(folder, suffix):
    path, rows = folder / f"photos{suffix}", long_rows()
    columns = ["image", "language", "caption"]
    if suffix in (".csv", ".tsv"):
        write_csv(path, [columns, *rows])
    elif suffix == ".jsonl":
        write_jsonl(path, [dict(zip(columns, row, strict=True)) for row in rows])
    else:
        pq.write_table(pa.table(dict(zip(columns, zip(*rows, strict=True), strict=True))), path)
    corpus = load(path)
    assert corpus.name == "photos"
    assert corpus.image_ids == tuple(IMAGES)
    assert corpus.captions == CAPTIONS
    assert [image.size for image in corpus.images()] == [(16, 8), (16, 8)]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("head", ["{}", "caption_{}"])
def test_the_wide_form_has_a_column_a_language(folder, suffix, head):
    path = folder / f"captions{suffix}"
    columns = ["image", head.format("en"), head.format("sw")]
    rows = [[image, *(CAPTIONS[language][row][0] for language in CAPTIONS)] for row, image in enumerate(IMAGES)]
    if suffix in (".csv", ".tsv"):
        write_csv(path, [columns, *rows])
    elif suffix == ".jsonl":
        write_jsonl(path, [dict(zip(columns, row, strict=True)) for row in rows])
    else:
        pq.write_table(pa.table(dict(zip(columns, zip(*rows, strict=True), strict=True))), path)
    corpus = load(folder)
    assert corpus.name == "mine", "a file called captions is named after its folder"
    assert corpus.captions == {language: tuple(texts[:1] for texts in lists) for language, lists in CAPTIONS.items()}


def test_lists_of_captions_may_stand_in_wide_parquet_and_jsonl(folder):
    write_jsonl(folder / "x.jsonl", [{"image": i, "en": list(CAPTIONS["en"][row])} for row, i in enumerate(IMAGES)])
    assert load(folder / "x.jsonl").captions["en"] == CAPTIONS["en"]
    pq.write_table(pa.table({"image": IMAGES, "en": [list(texts) for texts in CAPTIONS["en"]]}), folder / "y.parquet")
    assert load(folder / "y.parquet").captions["en"] == CAPTIONS["en"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.lists(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1).filter(
                lambda text: not is_blank(text)
            ),
            min_size=2,
            max_size=2,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_long_and_wide_csv_say_the_same(tmp_path, rows):
    names = [f"{number}.jpg" for number in range(len(rows))]
    for name in names:
        write_image(tmp_path / name)
    write_csv(tmp_path / "w.csv", [["image", "en", "fil"], *([n, *row] for n, row in zip(names, rows, strict=True))])
    long = [
        [n, lang, t] for n, row in zip(names, rows, strict=True) for lang, t in zip(("en", "fil"), row, strict=True)
    ]
    write_csv(tmp_path / "l.csv", [["image", "language", "caption"], *long])
    wide = load(tmp_path / "w.csv")
    assert wide.hash == load(tmp_path / "l.csv").hash
    assert [list(texts) for texts in zip(*(wide.texts(lang)[0] for lang in ("en", "fil")), strict=True)] == rows


def test_an_id_names_the_image_and_may_be_a_number(folder):
    lines = [
        {"image_id": 7, "image": IMAGES[0], "language": "en", "caption": "a hat"},
        {"image_id": "7", "image": IMAGES[0], "language": "sw", "caption": "kofia"},
    ]
    corpus = load(write_jsonl(folder / "t.jsonl", lines))
    assert corpus.image_ids == ("7",)
    assert corpus.captions == {"en": (("a hat",),), "sw": (("kofia",),)}


def test_one_id_with_two_pictures_is_refused(folder):
    lines = [
        {"image_id": "a", "image": IMAGES[0], "language": "en", "caption": "a hat"},
        {"image_id": "a", "image": IMAGES[1], "language": "sw", "caption": "kofia"},
    ]
    with pytest.raises(InputError, match=r"Line 2 of .*gives the id 'a' the image 'p/2\.jpg', and Line 1"):
        load(write_jsonl(folder / "t.jsonl", lines))


def test_leading_zeros_of_an_id_in_csv_are_kept(folder):
    write_csv(folder / "t.csv", [["image_id", "image", "en"], ["007", IMAGES[0], "x"], ["7", IMAGES[1], "y"]])
    assert load(folder / "t.csv").image_ids == ("007", "7")


def test_a_column_id_may_be_indonesian_and_is_asked_about(folder):
    write_csv(folder / "t.csv", [["image", "en", "id"], [IMAGES[0], "a hat", "topi"]])
    with pytest.raises(InputError, match=r"'id', which may be the image's id or Indonesian.*caption_id"):
        load(folder / "t.csv")
    write_csv(folder / "t.csv", [["image", "caption_en", "caption_id"], [IMAGES[0], "a hat", "topi"]])
    assert load(folder / "t.csv").captions["id"] == (("topi",),)


def test_a_column_that_is_no_language_is_refused_unless_languages_are_marked(folder):
    rows = [[IMAGES[0], "a hat", "http://x"]]
    write_csv(folder / "t.csv", [["image", "en", "url"], *rows])
    with pytest.raises(InputError, match="the column 'url', which is no language code"):
        load(folder / "t.csv")
    write_csv(folder / "t.csv", [["image", "caption_en", "url"], *rows])
    source = open_table(folder / "t.csv", Faults())
    assert source.languages == ("en",)
    assert source.notes == ("columns that are not read: url",)


def test_languages_go_by_the_benchs_codes_however_a_table_spells_them(folder):
    write_csv(folder / "t.csv", [["image", "swh_Latn", "caption"], [IMAGES[0], "kofia", "x"]])
    with pytest.raises(InputError, match="no language code"):
        load(folder / "t.csv")
    write_csv(folder / "t.csv", [["image", "swh_Latn", "iw"], [IMAGES[0], "kofia", "כובע"]])
    corpus = load(folder / "t.csv")
    assert corpus.languages == ("sw", "he")
    assert corpus.codes == {"sw": Codes("swh_Latn", "swh_Latn"), "he": Codes("iw", "heb_Hebr")}


def test_a_made_up_language_is_fine_where_it_is_marked(folder):
    write_csv(folder / "t.csv", [["image", "caption_en", "caption_klingon"], [IMAGES[0], "a hat", "mIv"]])
    corpus = load(folder / "t.csv")
    assert corpus.languages == ("en", "klingon")
    assert corpus.codes["klingon"].model is None


def test_an_empty_cell_is_a_missing_caption(folder):
    write_csv(folder / "t.csv", [["image", "en", "sw"], [IMAGES[0], "a hat", ""], [IMAGES[1], "cups", "vikombe"]])
    with pytest.raises(InputError, match=r"no caption in 'sw' for the image 'p/1\.jpg'"):
        load(folder / "t.csv")
    corpus = load(folder / "t.csv", drop_incomplete=True)
    assert corpus.image_ids == ("p/2.jpg",)
    assert corpus.left_out == {"no caption in every language: sw lacks 1": 1}


def test_a_missing_image_is_refused_unless_a_subset_is_named(folder):
    write_csv(folder / "t.csv", [["image", "en"], [IMAGES[0], "a hat"], ["p/9.jpg", "cups"]])
    with pytest.raises(InputError, match=r"1 of the 2 images of t are not here.*'p/9\.jpg', which does not exist"):
        load(folder / "t.csv")
    corpus = load(folder / "t.csv", subset="present")
    assert corpus.image_ids == ("p/1.jpg",)
    assert corpus.subset is not None
    assert corpus.name == f"t:present@{corpus.subset.sha256[:8]}"


def test_an_image_outside_the_folder_of_the_table_is_refused(folder):
    write_image(folder.parent / "outside.jpg")
    for name in ("../outside.jpg", str(folder.parent / "outside.jpg")):
        write_csv(folder / "t.csv", [["image", "en"], [name, "x"], [IMAGES[0], "y"]])
        with pytest.raises(InputError, match="outside the corpus folder"):
            load(folder / "t.csv")


def test_parquet_may_hold_the_pictures(folder):
    cells = [{"bytes": jpeg((9, 9, 9)), "path": "one.jpg"}, {"bytes": jpeg((200, 200, 9)), "path": "two.jpg"}]
    pq.write_table(pa.table({"image": cells, "en": ["a hat", "cups"]}), folder / "t.parquet")
    corpus = load(folder / "t.parquet")
    assert corpus.image_ids == ("one.jpg", "two.jpg")
    assert corpus.image_hash("one.jpg") != corpus.image_hash("two.jpg")
    assert corpus.images()[0].getpixel((1, 1)) != corpus.images()[1].getpixel((1, 1))
    plain = {"image": [jpeg(), jpeg()], "en": ["a hat", "cups"]}
    pq.write_table(pa.table(plain), folder / "b.parquet")
    with pytest.raises(InputError, match=r"Row 1 of .*has no id for its image"):
        load(folder / "b.parquet")
    pq.write_table(pa.table({"key": [1, 2], **plain}), folder / "b.parquet")
    assert load(folder / "b.parquet").image_ids == ("1", "2")


def test_a_null_picture_is_missing(folder):
    cells = [{"bytes": jpeg(), "path": "one.jpg"}, {"bytes": None, "path": None}]
    pq.write_table(pa.table({"image_id": ["a", "b"], "image": cells, "en": ["x", "y"]}), folder / "t.parquet")
    with pytest.raises(InputError, match="1 of the 2 images of t are not here; the first is 'b'"):
        load(folder / "t.parquet")


def test_a_table_without_images_is_a_corpus_of_texts(folder):
    write_jsonl(folder / "parallel.jsonl", [{"en": "a hat", "sw": "kofia"}, {"en": "cups", "sw": "vikombe"}])
    corpus = load(folder / "parallel.jsonl")
    assert corpus.text_only
    assert corpus.image_ids == ("1", "2")
    assert len(corpus.hash) == 64
    with pytest.raises(InputError, match="has texts and no images"):
        corpus.images()
    with pytest.raises(InputError, match="without images"):
        corpus.open_image("1")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"image": "p/1.jpg", "language": None, "caption": "x"}], "names no language but None"),
        ([{"image": "p/1.jpg", "language": "en", "caption": 3}], "a caption in 'en' that is no text"),
        ([{"image": None, "language": "en", "caption": "x"}], "Line 1 of .* has no id for its image"),
        ([{"image": "p/1.jpg", "en": "x"}, {"image": "p/1.jpg", "en": "y"}], "describes the image 'p/1.jpg' a second"),
        ([{"image": "p/1.jpg", "en": "x\ud83d"}], "half a character"),
        ([["p/1.jpg"]], "Line 1 of .* is no object"),
        ([{"image": "p/1.jpg"}], "has no captions; its columns are image"),
    ],
)
def test_a_broken_row_is_named(folder, rows, says):
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=says):
        load(folder / "t.jsonl")


@pytest.mark.parametrize("cut", [10, 100, 300])
def test_a_truncated_parquet_file_is_named(folder, cut):
    path = folder / "t.parquet"
    buffer = io.BytesIO()
    pq.write_table(pa.table({"image": IMAGES, "en": ["x", "y"]}), buffer)
    path.write_bytes(buffer.getvalue()[:-cut])
    with pytest.raises(InputError, match="is no Parquet file that can be read"):
        load(path)


def test_two_tables_in_a_folder_are_asked_about(folder):
    write_csv(folder / "captions.csv", [["image", "en"], [IMAGES[0], "x"]])
    write_csv(folder / "captions.tsv", [["image", "en"], [IMAGES[0], "x"]])
    with pytest.raises(InputError, match=r"has captions\.csv and captions\.tsv"):
        load_corpus(folder)


def test_a_table_is_found_by_its_path_and_by_its_folder(folder):
    write_csv(folder / "captions.csv", [["image", "en"], [IMAGES[0], "a hat"], [IMAGES[1], "cups"]])
    expected = load_corpus(folder / "captions.csv").hash
    for name in (folder, str(folder), f"table:{folder}", f"table:{folder / 'captions.csv'}"):
        assert load_corpus(name).hash == expected
        assert corpus_languages(name) == ("en",)
