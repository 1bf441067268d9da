from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workbench.corpora.writing import jpeg
from workbench.corpora.choices import OPTION_ONLY, ChoiceCorpus, check_template, fill
from workbench.corpora.cvqa import _pair, build_choices, open_cvqa
from workbench.corpora.loading import corpus_languages, load_benchmark, load_corpus, recognise_place
from workbench.corpora.reading import Faults
from workbench.errors import InputError
from workbench.language_codes import Codes

ROWS = [
    {
        "ID": "5919991144272485961_0", "Subset": "('Filipino', 'Philippines')",
        "Question": "Ano ang nasa mesa?", "Translated Question": "What is on the table?",
        "Options": ["kanin", " tinapay", "isda", "mangga"],
        "Translated Options": ["rice", " bread", "fish", "mango"], "Label": 2,
    },
    {
        "ID": "5919991144272485961_1", "Subset": "('Chinese', 'Singapore')",
        "Question": "这是什么？", "Translated Question": "What is this?",
        "Options": ["船", "山", "桥", "塔"], "Translated Options": ["boat", "hill", "bridge", "tower"], "Label": 0,
    },
    {
        "ID": "7", "Subset": "('Egyptian_Arabic', 'Egypt')",
        "Question": "اللون ___؟ {option}", "Translated Question": "The colour is ___ {option}",
        "Options": ["أحمر", "أزرق", "أخضر", "أصفر"], "Label": 3,
        "Translated Options": ["red", "blue", "green", "yellow"],
    },
]  # fmt: skip
EXTRA = {"Category": "Cooking and Food", "Image Type": "Self", "Image Source": "own", "License": "CC BY-SA"}


def write(path: Path, rows: list[dict] = ROWS, **columns) -> Path:
    """The twelve columns of the data set."""
    table = {name: [row[name] for row in rows] for name in ROWS[0]}
    table |= {name: [value] * len(rows) for name, value in EXTRA.items()}
    table["image"] = [{"bytes": jpeg((90 * row, 80, 80)), "path": None} for row in range(len(rows))]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({**table, **columns}), path)
    return path


def changed(row: int, **values) -> list[dict]:
    return [{**given, **values} if place == row else given for place, given in enumerate(ROWS)]


def load(path, languages=None, **options) -> ChoiceCorpus:
    return build_choices(open_cvqa(path, Faults(), published=3), languages, **options)


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "cvqa.parquet")


def test_questions_options_answers_and_pictures_are_read(path):
    corpus = load(path)
    assert corpus.image_ids == ("5919991144272485961_0", "5919991144272485961_1", "7")
    assert corpus.languages == ("fil", "zh", "arz_Arab")
    assert corpus.answers.tolist() == [2, 0, 3]
    assert corpus.chance() == 0.25
    assert corpus.codes["arz_Arab"] == Codes("Egyptian Arabic", "arz_Arab")
    assert len({image.tobytes() for image in corpus.images()}) == 3
    assert corpus.questions[0].category == "Cooking and Food"


def test_a_subset_that_looks_like_a_tuple_is_read_as_one(path):
    groups = load(path).groups
    assert {group: rows.tolist() for group, rows in groups.items()} == {
        ("fil", "Philippines"): [0], ("zh", "Singapore"): [1], ("arz_Arab", "Egypt"): [2]
    }  # fmt: skip


def test_the_text_of_a_candidate_is_the_question_and_the_option_without_stray_blanks(path):
    corpus = load(path)
    assert corpus.texts()[0] == [
        "Ano ang nasa mesa? kanin",
        "Ano ang nasa mesa? tinapay",
        "Ano ang nasa mesa? isda",
        "Ano ang nasa mesa? mangga",
    ]
    assert corpus.asked(template=OPTION_ONLY).texts()[1] == ["船", "山", "桥", "塔"]
    english = corpus.asked(variant="translated")
    assert english.texts()[0][1] == "What is on the table? bread"
    assert [english.text_language(question) for question in english.questions] == ["en"] * 3
    assert corpus.text_language(corpus.questions[2]) == "arz_Arab"


def test_template_and_variant_go_with_the_corpus(path):
    corpus = load(path, template="{option}", variant="translated")
    described = corpus.describe()
    assert (described["template"], described["variant"]) == ("{option}", "translated")
    hashes = {
        load(path, template=t, variant=v).hash
        for t in ("{option}", "{question} {option}")
        for v in ("native", "translated")
    }
    assert len(hashes) == 4


def test_what_a_question_holds_is_not_taken_for_the_template(path):
    assert load(path).texts()[2][0] == "اللون ___؟ {option} أحمر"


@settings(deadline=None)
@given(st.text(), st.text(), st.text(st.characters(exclude_characters="{}")))
def test_a_template_is_filled_once(question, option, between):
    filled = fill(f"{{question}}{between}{{option}}", question, option)
    assert filled == question + between + option


@pytest.mark.parametrize("template", ["", "{question}", "{option} {option}", "{question} {question} {option}"])
def test_a_template_needs_the_option_once(template):
    with pytest.raises(InputError, match=r"needs '{option}' once"):
        check_template(template)


@pytest.mark.parametrize("label", [-1, "-1"])
def test_hidden_answers_are_refused(tmp_path, label):
    rows = [{**row, "Label": str(row["Label"])} for row in ROWS] if isinstance(label, str) else ROWS
    rows = [{**row, "Label": label} if place == 1 else row for place, row in enumerate(rows)]
    with pytest.raises(InputError, match=r"Row 2 of .*Label '?-1'?; it should be 0, 1, 2 or 3. The answers are hidden"):
        load(write(tmp_path / "c.parquet", rows))


def test_options_that_are_one_text_are_read(tmp_path):
    rows = [{**row, "Options": str(row["Options"])} for row in ROWS]
    corpus = load(write(tmp_path / "c.parquet", rows))
    assert corpus.questions[0].options == ("kanin", "tinapay", "isda", "mangga")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"Options": ["a", "b", "c"]}, r"Row 1 of .*the Options \['a', 'b', 'c'\]; it should be a list of 4"),
        ({"Options": ["a", "b", " ", "d"]}, "an empty text among its Options"),
        ({"Subset": "Filipino"}, "the Subset 'Filipino'; it should be a language and a country"),
        ({"Subset": "(' ', 'Philippines')"}, "it should be a language and a country"),
        ({"Subset": "('Filipino',)"}, "it should be a language and a country"),
        ({"Subset": "__import__('os').getcwd()"}, "it should be a language and a country"),
        ({"Label": 4}, "the Label 4"),
        ({"Question": None}, "Question that is no text"),
        ({"ID": "7"}, "has the ID '7', as .* has"),
    ],
)
def test_a_broken_row_is_named(tmp_path, values, says):
    with pytest.raises(InputError, match=says):
        load(write(tmp_path / "c.parquet", changed(0, **values)))


@settings(deadline=None)
@given(st.tuples(st.text().filter(str.strip), st.text().filter(str.strip)))
def test_the_text_of_any_pair_comes_back(pair):
    stripped = tuple(part.strip().replace("_", " ") for part in pair)
    assert _pair(str(pair)) == stripped
    assert _pair(pair) == stripped


@settings(deadline=None)
@given(st.text())
def test_no_text_breaks_the_reading_of_a_pair(text):
    found = _pair(text)
    assert found is None or len(found) == 2


def test_integer_ids_are_read_as_text(tmp_path):
    rows = [{**row, "ID": number} for number, row in enumerate(ROWS)]
    assert load(write(tmp_path / "c.parquet", rows)).image_ids == ("0", "1", "2")


def test_a_revision_of_another_size_is_refused_unless_a_subset_is_named(path):
    with pytest.raises(InputError, match="cvqa has 10,374 questions, and 3 are here; revisions differ"):
        load_benchmark(path)
    corpus = load_benchmark(path, subset="present")
    assert isinstance(corpus, ChoiceCorpus)
    assert corpus.name.startswith("cvqa:present@")


def test_a_missing_picture_is_refused(tmp_path):
    cells = [{"bytes": jpeg(), "path": None}, {"bytes": None, "path": None}, {"bytes": jpeg(), "path": None}]
    path = write(tmp_path / "c.parquet", image=cells)
    with pytest.raises(
        InputError, match="1 of the 3 images of cvqa are not here; the first is '5919991144272485961_1'"
    ):
        load(path)
    assert len(load(path, subset="present")) == 2
    assert load(path, ["fil"]).image_ids == ("5919991144272485961_0",)
    assert len(load(path, with_images=False)) == 3


def test_languages_are_chosen_by_any_code_or_the_name_in_the_data_set(path):
    for name in ("fil", "tgl_Latn", "Filipino"):
        assert load(path, [name]).languages == ("fil",)
    assert load(path).select(["zh"]).image_ids == ("5919991144272485961_1",)
    assert corpus_languages(f"cvqa:{path}") == ("fil", "zh", "arz_Arab")


def test_it_is_recognised_by_its_columns_and_is_no_corpus_of_captions(path):
    assert recognise_place(path).name == "cvqa"
    with pytest.raises(InputError, match="is for questions with four answers and has no parallel captions"):
        load_corpus(f"cvqa:{path}")


def test_a_missing_column_is_named(tmp_path):
    pq.write_table(pa.table({"ID": ["1"], "Subset": ["x"]}), tmp_path / "c.parquet")
    with pytest.raises(InputError, match="no column 'Question'"):
        load(tmp_path / "c.parquet")
