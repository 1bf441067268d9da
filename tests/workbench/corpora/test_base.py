from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from workbench.corpora.base import Corpus, check_protocol, keep_complete
from workbench.corpora.subsets import Subset
from workbench.errors import InputError
from workbench.language_codes import Codes

IDS = ("a", "b", "c")
CAPTIONS = {
    "en": (("a cat",), ("two dogs", "dogs"), ("the moon",)),
    "sw": (("paka",), ("mbwa wawili", "mbwa"), ("mwezi",)),
}


def make(**changes) -> Corpus:
    """A corpus of three one-colour images, with some of its fields changed."""
    fields = {
        "name": "three",
        "image_ids": IDS,
        "captions": CAPTIONS,
        "open_image": lambda image_id: Image.new("RGB", (2, 2), (ord(image_id[0]), 0, 0)),
        "licence": "none",
        "description": "three squares",
        "image_hash": lambda image_id: f"hash of {image_id}",
        "drawn": {"en": (5, 0, 2), "sw": (0, 1, 0)},
    }
    return Corpus(**{**fields, **changes})


def with_caption(language: str, row: int, *texts: str) -> dict[str, tuple[tuple[str, ...], ...]]:
    lists: list[tuple[str, ...]] = list(CAPTIONS[language])
    lists[row] = texts
    return {**CAPTIONS, language: tuple(lists)}


def test_a_corpus_knows_its_size_its_languages_and_its_images_in_order():
    corpus = make()
    assert len(corpus) == 3
    assert corpus.languages == ("en", "sw")
    assert [image.getpixel((0, 0)) for image in corpus.images()] == [(ord(i), 0, 0) for i in IDS]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"image_ids": (), "captions": {"en": ()}}, "no image left"),
        ({"captions": {}}, "no language"),
        ({"image_ids": ("a", "b", "a")}, "'a' twice"),
        ({"captions": {**CAPTIONS, "sw": CAPTIONS["sw"][:2]}}, "2 caption lists in 'sw' for 3 images"),
        ({"captions": with_caption("sw", 2)}, "no caption in 'sw' for the image 'c'"),
        ({"captions": with_caption("en", 1, "")}, "empty caption in 'en' for the image 'b'"),
        ({"captions": with_caption("en", 1, "dogs", " \t\n")}, "empty caption in 'en' for the image 'b'"),
        ({"captions": with_caption("sw", 0, None)}, "empty caption in 'sw' for the image 'a'"),  # pyright: ignore[reportArgumentType]
        ({"captions": {"en": ("a cat", "two dogs", "the moon")}}, "a tuple of texts"),
    ],
)
def test_a_hole_is_refused_and_its_place_named(changes, says):
    with pytest.raises(InputError, match=says):
        make(**changes)


def test_an_emptied_corpus_says_why():
    with pytest.raises(InputError, match=r"no image left\. Left out: 7 \(no caption in every language: te lacks 7\)"):
        make(image_ids=(), captions={"te": ()}, left_out={"no caption in every language: te lacks 7": 7})


@pytest.mark.parametrize(
    ("unknown", "nearest"),
    [("swahili", "sw"), ("Swahili", "sw"), ("English", "en"), ("enn", "en"), ("EM", "en"), ("sv", "sw")],
)
def test_an_unknown_language_names_the_nearest_by_code_or_english_name(unknown, nearest):
    for use in (
        lambda: make().texts(unknown),
        lambda: make().select([unknown]),
        lambda: make().check_languages(["en", unknown]),
    ):
        with pytest.raises(InputError) as caught:
            use()
        assert f"no language {unknown!r}" in str(caught.value)
        assert f"Did you mean {nearest!r}?" in str(caught.value)
        assert "It has: en, sw." in str(caught.value)


def test_a_language_like_no_other_gets_the_list_alone():
    with pytest.raises(InputError) as caught:
        make().texts("quz")
    assert "Did you mean" not in str(caught.value)
    assert "It has: en, sw." in str(caught.value)


def test_no_language_is_refused():
    with pytest.raises(InputError, match="No language was chosen"):
        make().select([])


def test_select_cuts_captions_draws_and_images_alike():
    corpus = make().select(["sw", "en", "sw"], limit=2)
    assert corpus.languages == ("sw", "en")
    assert corpus.image_ids == ("a", "b")
    assert corpus.captions == {language: CAPTIONS[language][:2] for language in ("sw", "en")}
    assert corpus.drawn == {"sw": (0, 1), "en": (5, 0)}


def test_select_keeps_all_by_default_and_with_a_limit_beyond_the_end():
    for corpus in (make().select(), make().select(limit=99)):
        assert (corpus.image_ids, corpus.captions, corpus.drawn) == (IDS, CAPTIONS, make().drawn)
    assert make(drawn=None).select(["en"]).drawn is None


@pytest.mark.parametrize("limit", [1, 0, -3])
def test_a_limit_below_two_is_refused(limit):
    with pytest.raises(InputError, match="at least 2"):
        make().select(limit=limit)


def test_first_gives_one_caption_an_image():
    texts, owner = make().texts("sw")
    assert texts == ["paka", "mbwa wawili", "mwezi"]
    assert owner.tolist() == [0, 1, 2]


def test_all_gives_every_caption_with_its_owner():
    texts, owner = make().texts("en", "all")
    assert texts == ["a cat", "two dogs", "dogs", "the moon"]
    assert owner.tolist() == [0, 1, 1, 2]
    assert np.issubdtype(owner.dtype, np.integer)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.text("xyz", min_size=1), min_size=1, max_size=4), min_size=1, max_size=8))
def test_owner_leads_each_caption_back_to_its_image(lists):
    corpus = make(
        image_ids=tuple(str(row) for row in range(len(lists))),
        captions={"en": tuple(map(tuple, lists))},
        drawn=None,
    )
    texts, owner = corpus.texts("en", "all")
    assert [
        [text for text, row in zip(texts, owner, strict=True) if row == image] for image in range(len(lists))
    ] == lists
    first, rows = corpus.texts("en", "first")
    assert first == [texts[list(owner).index(row)] for row in rows]


@pytest.mark.parametrize("wrong", ["frist", "one", "", "All"])
def test_an_unknown_protocol_is_refused(wrong):
    with pytest.raises(InputError, match="'first' or 'all'"):
        check_protocol(wrong)
    with pytest.raises(InputError, match="'first' or 'all'"):
        make().texts("en", wrong)


def test_a_misspelt_protocol_gets_a_hint():
    with pytest.raises(InputError, match="Did you mean 'first'"):
        check_protocol("frist")


def test_unequal_counts_are_fine_for_first_and_refused_for_all():
    uneven = make(captions=with_caption("sw", 1, "mbwa wawili"))
    uneven.check_parallel(["en", "sw"], "first")
    with pytest.raises(InputError, match="'b' has 2 captions in 'en' and 1 in 'sw'"):
        uneven.check_parallel(["en", "sw"], "all")
    make().check_parallel(["en", "sw"], "all")


def test_the_hash_is_the_same_each_time_and_pinned():
    assert make().hash == make().hash
    # A run made yesterday must be found again today: change this only together with the runs' schema.
    assert make().hash == "184b300e81697e76a94f182d19fe5e7389270e268123d05ec39341574ed4a244"


def test_the_hash_does_not_depend_on_the_order_of_languages_or_on_names():
    assert make(captions=dict(reversed(CAPTIONS.items()))).hash == make().hash
    assert make(name="other", description="other", drawn=None).hash == make().hash


@pytest.mark.parametrize(
    "changes",
    [
        {"captions": with_caption("sw", 2, "mwezi.")},
        {"captions": with_caption("sw", 2, "mwezi", "mwezi")},
        {"captions": with_caption("en", 1, "dogs", "two dogs")},
        {"captions": {"en": CAPTIONS["en"]}},
        {"captions": {"en": CAPTIONS["en"], "te": CAPTIONS["sw"]}},
        {"captions": {"en": CAPTIONS["sw"], "sw": CAPTIONS["en"]}},
        {"image_ids": ("a", "b", "d")},
        {"image_ids": ("b", "a", "c")},
        {"image_hash": lambda image_id: f"hash of {image_id}" + "!" * (image_id == "c")},
    ],
)
def test_the_hash_changes_with_a_caption_an_image_a_language_and_an_order(changes):
    assert make(**changes).hash != make().hash


def test_a_changed_copy_does_not_keep_the_old_hash():
    corpus = make()
    before = corpus.hash
    assert replace(corpus, captions=with_caption("en", 0, "a dog")).hash != before
    assert corpus.select(limit=2).hash != before


def test_keep_complete_keeps_all_unless_asked():
    assert keep_complete("x", IDS, {"en": [("t",), (), ("t",)]}, drop_incomplete=False) == ([0, 1, 2], {})
    assert keep_complete("x", IDS, CAPTIONS, drop_incomplete=True) == ([0, 1, 2], {})


def test_keep_complete_counts_what_it_leaves_out_by_language():
    captions = {"en": [("t",), ("t",), ("t",)], "sw": [(), ("t",), ()], "te": [(), ("t",), ("t",)]}
    rows, left_out = keep_complete("x", IDS, captions, drop_incomplete=True)
    assert rows == [1]
    assert left_out == {"no caption in every language: sw lacks 2, te lacks 1": 2}


CODES = {"en": Codes("EN", "eng_Latn"), "sw": Codes("SW", "swh_Latn")}


def test_a_language_goes_by_the_benchmarks_code_too_and_the_benchs_comes_back():
    corpus = make(codes=CODES)
    assert corpus.check_languages(["SW", "eng_Latn", "sw"]) == ("sw", "en")
    assert corpus.texts("SW")[0] == corpus.texts("sw")[0]
    assert corpus.select(["SW"]).codes == {"sw": CODES["sw"]}
    assert make().check_languages(["SW", "swh_Latn", " en ", "en-GB"]) == ("sw", "en")


def test_the_nearest_relative_is_named_as_another_language():
    corpus = make(captions={"quy_Latn": CAPTIONS["en"]}, codes={"quy_Latn": Codes("quy_Latn", "quy_Latn")}, drawn=None)
    with pytest.raises(
        InputError, match=r"no language 'quz'. The nearest that it has is 'quy_Latn' \(Ayacucho Quechua\)"
    ):
        corpus.texts("quz")


def test_repeated_captions_are_counted_under_each_protocol():
    corpus = make(captions={"en": (("a cat", "a cat"), ("two dogs", "a cat"), ("a cat",))}, drawn=None)
    assert corpus.duplicates("en") == 3
    assert corpus.duplicates("en", "first") == 1


def test_images_are_opened_when_they_are_asked_for():
    opened = []

    def open_one(image_id: str) -> Image.Image:
        opened.append(image_id)
        return Image.new("RGB", (1, 1))

    images = make(open_image=open_one).lazy_images()
    assert (len(images), opened) == (3, [])
    assert images[1].size == (1, 1)
    assert len(images[:2]) == 2
    assert opened == ["b", "a", "b"]
    assert len(list(images)) == 3


def test_what_a_manifest_needs_is_described():
    subset = Subset("mine", IDS, "by hand")
    described = make(codes=CODES, subset=subset, exif="ignore", caption_rule="one a line", origin="org/x@1").describe()
    assert described["images"] == 3
    assert described["subset"] == {"name": "mine", "images": 3, "ids_sha256": subset.sha256, "rule": "by hand"}
    assert described["image_policy"] == {
        "exif_rotation": "ignored", "colour": "converted to RGB", "transparency": "flattened on white"
    }  # fmt: skip
    assert described["codes"]["sw"] == {"benchmark": "SW", "model": "swh_Latn"}
    assert (described["caption_rule"], described["origin"]) == ("one a line", "org/x@1")
    assert make().describe()["codes"]["sw"] == {"benchmark": "sw", "model": "swh_Latn"}
    assert make().describe()["sha256"] == make().hash


def test_another_policy_for_images_is_another_corpus():
    assert make(exif="ignore").hash != make().hash


def test_a_corpus_of_texts_is_not_ranked_against():
    corpus = make(text_only=True)
    for use in (corpus.images, corpus.lazy_images):
        with pytest.raises(InputError, match="texts and no images"):
            use()
