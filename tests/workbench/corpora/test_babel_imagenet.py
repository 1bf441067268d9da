import json

import numpy as np
import pytest

from tests.workbench.corpora.writing import write_image
from workbench.corpora.babel_imagenet import build_classification, open_babel_imagenet
from workbench.corpora.classification import ClassificationCorpus, size_group
from workbench.corpora.imagenet import wnids
from workbench.corpora.loading import corpus_languages, load_benchmark, recognise_place
from workbench.corpora.reading import Faults
from workbench.errors import InputError
from workbench.language_codes import Codes

TENCH, GOLDFISH, SHARK = wnids()[:3]
# "fish" stands for two classes of German; Breton has no templates.
NAMES = {
    "DE": [[0, 1, 2], ["Fisch", "Fisch", "Hai {}"]],
    "BR": [[0, 2], ["beg-hir", "rinkin"]],
    "TL": [[1, 2], ["isdang ginto", "pating"]],
    "EN": [[0, 1, 2], ["tench", "goldfish", "shark"]],
}
PROMPTS = {"DE": ["ein Foto von {}.", "{} im Wasser"], "TL": ["larawan ng {}", "{}"], "EN": ["a photo of a {}.", "{}!"]}


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "babel")


def write(folder, names=NAMES, prompts=PROMPTS, labels="babel_imagenet.json"):
    folder.mkdir(exist_ok=True)
    (folder / labels).write_text(json.dumps(names), "utf-8")
    (folder / "nllb_dist13b_prompts.json").write_text(json.dumps(prompts), "utf-8")
    for wnid in (TENCH, GOLDFISH, SHARK):
        for number in (1, 2):
            write_image(folder / "val" / wnid / f"ILSVRC2012_val_0000000{number}.JPEG")
    return folder


def load(folder, languages=None, *, open_options=None, **options) -> ClassificationCorpus:
    return build_classification(
        open_babel_imagenet(folder, Faults(), per_class=2, **open_options or {}), languages, **options
    )


def test_classes_are_numbered_by_the_whole_list():
    assert len(wnids()) == 1000
    assert list(wnids()) == sorted(set(wnids()))
    assert (wnids()[0], wnids()[999]) == ("n01440764", "n15075141")


def test_a_language_is_scored_on_the_images_of_its_own_classes(folder):
    corpus = load(folder)
    assert corpus.languages == ("de", "br", "fil", "en")
    assert len(corpus) == 6
    rows, target = corpus.task("br")
    assert [corpus.image_classes[row] for row in rows] == [0, 0, 2, 2]
    assert target.tolist() == [0, 0, 1, 1]
    assert corpus.task("de")[1].tolist() == [0, 0, 1, 1, 2, 2]
    assert len(corpus.images()) == 6
    assert all(image.mode == "RGB" for image in corpus.images())


def test_a_folder_of_some_classes_is_numbered_as_in_the_whole(folder):
    for path in (folder / "val" / TENCH).iterdir():
        path.unlink()
    (folder / "val" / TENCH).rmdir()
    corpus = load(folder, ["fil"])
    assert set(corpus.image_classes) == {1, 2}
    with pytest.raises(InputError, match=rf"1 classes .* the first is class 0 \({TENCH}\) with 0"):
        load(folder, ["fil", "de"])


def test_texts_are_a_name_in_every_template(folder):
    corpus = load(folder)
    assert corpus.texts("fil") == [["larawan ng isdang ginto", "isdang ginto"], ["larawan ng pating", "pating"]]
    assert corpus.texts("de")[2] == ["ein Foto von Hai {}.", "Hai {} im Wasser"], "a brace in a name is a letter"
    assert corpus.texts("br") == [["beg-hir"], ["rinkin"]], "without templates the bare name is scored"
    assert load(folder, prompts=False).texts("de") == [["Fisch"], ["Fisch"], ["Hai {}"]]


def test_other_braces_of_a_template_are_letters(folder):
    write(folder, prompts={"TL": ["{larawan} ng {} {0}"]})
    assert load(folder, ["fil"]).texts("fil")[1] == ["{larawan} ng pating {0}"]


def test_chance_and_the_ceiling_of_repeated_names(folder):
    corpus = load(folder)
    assert corpus.chance("de") == pytest.approx(1 / 3)
    assert corpus.chance("br") == pytest.approx(1 / 2)
    assert corpus.duplicates("de") == 1
    # Two classes have one text: the argmax takes the first, so the two images of the second are never right.
    assert corpus.ceiling("de") == pytest.approx(4 / 6)
    assert corpus.ceiling("br") == 1.0


def test_the_ceiling_is_what_a_perfect_image_tower_reaches(folder):
    """Give every text a direction of its own and each image that of its class: argmax then scores the ceiling."""
    # One image fewer of the second class of the repeated name, so that it matters which of the two wins.
    ids = [image for image in load(folder).image_ids if image != f"{GOLDFISH}/ILSVRC2012_val_00000002.JPEG"]
    for corpus in (load(folder), load(folder, subset=ids)):
        for language in corpus.languages:
            texts = [labels[0] for labels in corpus.texts(language)]
            distinct = sorted(set(texts))
            weights = np.eye(len(distinct))[[distinct.index(text) for text in texts]]
            _, target = corpus.task(language)
            predicted = (weights[target] @ weights.T).argmax(1)
            assert (predicted == target).mean() == pytest.approx(corpus.ceiling(language))
    assert load(folder, subset=ids).ceiling("de") == pytest.approx(4 / 5)


def test_languages_go_by_any_code(folder):
    assert load(folder, ["TL", "DE"]).languages == ("fil", "de")
    assert load(folder, ["tgl_Latn", "deu_Latn"]).languages == ("fil", "de")
    assert load(folder).codes["fil"] == Codes("TL", "tgl_Latn")
    with pytest.raises(InputError, match="no language 'te'"):
        load(folder, ["te"])


def test_albanian_is_not_taken_for_alemannic(tmp_path):
    folder = write(tmp_path / "b", {"ALS": [[0, 1], ["Schleie", "Goldfisch"]]}, {"ALS": ["{}"]})
    assert load(folder).languages == ("gsw",)
    with pytest.raises(InputError, match="no language 'als_Latn'"):
        load(folder, ["als_Latn"])


def test_the_long_list_is_preferred_and_either_can_be_named(folder):
    write(folder, {**NAMES, "WUU": [[0, 1], ["鱼", "金鱼"]]}, labels="babel_imagenet-298.json")
    assert "wuu" in load(folder).languages
    assert "wuu" not in load(folder, open_options={"release": "93"}).languages
    assert "wuu" in corpus_languages(f"babel-imagenet-298:{folder}")
    assert "wuu" not in corpus_languages(f"babel-imagenet-93:{folder}")
    with pytest.raises(InputError, match="no release '94'"):
        load(folder, open_options={"release": "94"})


def test_other_english_names_can_be_given_and_are_said(folder):
    path = folder / "openai.json"
    path.write_text(json.dumps({"labels": [f"class {n}" for n in range(1000)], "templates": ["a {}"]}))
    assert load(folder).describe()["english_labels"] == "Babel-ImageNet JSON"
    with pytest.raises(InputError, match="classes that these languages name do not have 2 images"):
        load(folder, ["en"], open_options={"english": path})
    corpus = load(folder, ["en"], open_options={"english": path}, subset="present")
    assert corpus.texts("en") == [["a class 0"], ["a class 1"], ["a class 2"]]
    assert corpus.english == "openai.json"
    path.write_text(json.dumps({"labels": ["one"]}))
    with pytest.raises(InputError, match="the names of all 1,000 classes"):
        load(folder, ["en"], open_options={"english": path})


def test_a_class_without_all_of_its_images_is_refused_unless_a_subset_is_named(folder):
    with pytest.raises(
        InputError, match=r"3 classes .* do not have 50 images; the first is class 0 \(n01440764\) with 2"
    ):
        load_benchmark(f"babel-imagenet:{folder}")
    corpus = load_benchmark(f"babel-imagenet:{folder}", subset="present")
    assert isinstance(corpus, ClassificationCorpus)
    assert len(corpus) == 6
    assert corpus.subset is not None
    assert corpus.name == f"babel-imagenet:present@{corpus.subset.sha256[:8]}"


def test_a_subset_keeps_only_the_classes_that_it_has_images_of(folder):
    ids = [f"{wnid}/ILSVRC2012_val_00000001.JPEG" for wnid in (TENCH, SHARK)]
    corpus = load(folder, ["de", "br"], subset=ids)
    assert corpus.classes["de"] == (0, 2)
    assert corpus.chance("de") == pytest.approx(1 / 2)
    assert corpus.task("de")[1].tolist() == [0, 1]


def test_names_alone_need_no_images(folder):
    corpus = load(folder, with_images=False)
    assert corpus.texts("br") == [["beg-hir"], ["rinkin"]]
    with pytest.raises(InputError, match="without images"):
        corpus.images()
    with pytest.raises(InputError, match="without images"):
        corpus.ceiling("br")


def test_select_keeps_languages_and_the_first_images_of_each_class(folder):
    corpus = load(folder).select(["br"], limit=1)
    assert corpus.languages == ("br",)
    assert corpus.image_classes == (0, 1, 2)
    with pytest.raises(InputError, match="at least 1"):
        corpus.select(limit=0)


def test_the_hash_follows_names_templates_images_and_policy(folder):
    corpus = load(folder)
    assert load(folder).hash == corpus.hash
    others = [load(folder, ["de"]), load(folder, prompts=False), load(folder, exif="apply"), corpus.select(limit=1)]
    assert len({corpus.hash, *(other.hash for other in others)}) == 5


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ({"DE": [[0, 1], ["a"]]}, "2 class numbers and 1 names"),
        ({"DE": [0, 1]}, "no pair of class numbers and names"),
        ({"DE": [[0, 1000], ["a", "b"]]}, "the class number 1000"),
        ({"DE": [[0, 0], ["a", "b"]]}, "the class number 0, which is wrong or there twice"),
        ({"DE": [[0, "1"], ["a", "b"]]}, "the class number '1'"),
        ({"DE": [[0, True], ["a", "b"]]}, "the class number True"),
        ({"DE": [[0, 1], ["a", None]]}, "a name that is no text"),
        ({"DE": [[0, 1], ["a", " "]]}, "an empty class name"),
        ({"DE": [[0], ["a"]]}, "two or more"),
        ([], "no filled JSON object"),
    ],
)
def test_a_broken_list_of_names_is_refused(folder, names, says):
    (folder / "babel_imagenet.json").write_text(json.dumps(names))
    with pytest.raises(InputError, match=says):
        load(folder)


@pytest.mark.parametrize(
    ("templates", "says"),
    [
        (["{} {}"], "needs '{}' once"),
        (["photo"], "needs '{}' once"),
        ([], "no list"),
        ([3], "template that is no text"),
    ],
)
def test_a_broken_template_is_refused(folder, templates, says):
    (folder / "nllb_dist13b_prompts.json").write_text(json.dumps({"DE": templates}))
    with pytest.raises(InputError, match=says):
        load(folder)


def test_an_error_page_and_a_truncated_file_are_refused(folder):
    path = folder / "babel_imagenet.json"
    path.write_text(path.read_text()[:-10])
    with pytest.raises(InputError, match=r"is not JSON.*truncated"):
        load(folder)
    path.write_text("<!DOCTYPE html>")
    with pytest.raises(InputError, match="error page"):
        load(folder)


def test_images_side_by_side_are_asked_to_be_sorted(folder, tmp_path):
    write_image(tmp_path / "flat" / "ILSVRC2012_val_00000001.JPEG")
    with pytest.raises(InputError, match="lie side by side"):
        load(folder, open_options={"images": tmp_path / "flat"})


def test_it_is_recognised_by_its_files(folder):
    assert recognise_place(folder).name == "babel-imagenet"


@pytest.mark.parametrize(
    ("n", "group"),
    [
        (1, "very low"),
        (100, "very low"),
        (101, "low"),
        (333, "low"),
        (334, "mid"),
        (666, "mid"),
        (667, "high"),
        (1000, "high"),
    ],
)
def test_groups_are_those_of_the_paper(n, group):
    assert size_group(n) == group


@pytest.mark.parametrize("n", [0, 1001])
def test_other_numbers_are_in_no_group(n):
    with pytest.raises(InputError, match="1 to 1,000"):
        size_group(n)
