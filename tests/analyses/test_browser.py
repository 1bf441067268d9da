import base64
import io

import numpy as np
import pytest
from PIL import Image

from analyses import browser as module
from analyses import patch_browser
from interventions import ParallelEOS
from tests.analyses.factory import make_corpus, make_result
from workbench.errors import InputError


def test_the_sample_is_seeded_sorted_and_the_same_for_every_language() -> None:
    corpus = make_corpus(40)
    result = make_result(corpus)
    content = patch_browser(result, corpus, captions=7, seed=1).content
    rows = content["image_rows"]
    assert len(rows) == len(set(rows)) == 7
    assert rows == sorted(rows) != list(range(7))
    assert rows == patch_browser(result, corpus, captions=7, seed=1).content["image_rows"]
    assert rows != patch_browser(result, corpus, captions=7, seed=2).content["image_rows"]
    for code in corpus.languages:
        assert content["captions"][code] == [corpus.captions[code][row][0] for row in rows]


def test_the_sample_does_not_look_at_ranks() -> None:
    corpus = make_corpus(40)
    result = make_result(corpus)
    rows = patch_browser(result, corpus, captions=7).content["image_rows"]
    for cell in result.cells.values():
        cell.arrays["clean_t2i_better"][:] = 0
    assert patch_browser(result, corpus, captions=7).content["image_rows"] == rows


def test_nearest_images_and_ranks_are_those_of_the_cells() -> None:
    corpus = make_corpus(12)
    result = make_result(corpus)
    content = patch_browser(result, corpus, captions=5).content
    arrays, shown = result.cells["sw"].arrays, content["languages"]["sw"]
    for c, row in enumerate(content["image_rows"]):
        assert shown["clean_top"][c] == arrays["clean_top"][row].tolist()
        assert shown["patched_top"][2][1][c] == arrays["patched_top"][2, 1, row].tolist()
        assert shown["ranks"]["t2i"]["clean"][c] == row + 1
        assert shown["ranks"]["t2i"]["patched"][2][1][c] == (row + 3) % 12 + 1
        assert shown["ranks"]["i2t"]["patched"][0][2][c] == (row + 2) % 12 + 1


def test_tied_ranks_are_a_range() -> None:
    corpus = make_corpus(12)
    result = make_result(corpus)
    result.cells["sw"].arrays["clean_t2i_tied"][:] = 2
    shown = patch_browser(result, corpus).content["languages"]["sw"]
    assert shown["ranks"]["t2i"]["clean"][0] == "1–3"


def test_with_all_captions_the_first_of_each_image_is_shown() -> None:
    corpus = make_corpus(12, each=2)
    result = make_result(corpus)
    content = patch_browser(result, corpus, captions=4).content
    assert content["captions"]["sw"] == [f"sw {row}" for row in content["image_rows"]]
    arrays = result.cells["sw"].arrays
    for c, row in enumerate(content["image_rows"]):
        assert content["languages"]["sw"]["clean_top"][c] == arrays["clean_top"][2 * row].tolist()
    assert content["languages"]["sw"]["captions_ranked"] == 24


def test_thumbnails_are_small_and_each_is_there_once() -> None:
    corpus = make_corpus(12)
    data = patch_browser(make_result(corpus), corpus, captions=3)
    used = {row for shown in data.content["languages"].values() for row in np.ravel(shown["patched_top"])}
    assert used <= set(data.thumbnails)
    picture = Image.open(io.BytesIO(base64.b64decode(data.thumbnails[0].removeprefix("data:image/png;base64,"))))
    assert picture.format == "PNG"
    assert picture.size == (64, 32)


def test_thumbnails_shrink_to_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = make_corpus(12)
    whole = sum(map(len, patch_browser(make_result(corpus), corpus).thumbnails.values()))
    monkeypatch.setattr(module, "BUDGET", whole // 3)
    assert sum(map(len, patch_browser(make_result(corpus), corpus).thumbnails.values())) < whole


def test_a_large_sweep_shows_fewer_captions(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = make_corpus(12)
    # 3 languages, 3 interventions, 3 depths, 5 images.
    monkeypatch.setattr(module, "_MOST_ENTRIES", 3 * 3 * 3 * 5 * 2)
    data = patch_browser(make_result(corpus), corpus)
    assert len(data.content["image_rows"]) == 2
    assert data.note.startswith("2 of 12 images, drawn blindly with seed 0")


def test_a_rule_says_what_it_does() -> None:
    class Mine(ParallelEOS):
        pass

    corpus = make_corpus(12)
    content = patch_browser(make_result(corpus, interventions=[ParallelEOS("en"), Mine("sw")]), corpus).content
    assert [rule["does"] for rule in content["interventions"]] == [
        "Replace the pooled row by that of the same caption in another language.",
        "",
    ]
    assert content["interventions"][1]["sources"] == ["sw"]


def test_it_opens_at_the_checkpoint_on_a_language_that_is_no_source() -> None:
    corpus = make_corpus(12)
    content = patch_browser(make_result(corpus, depths=(0, 8, 9, 12)), corpus).content
    assert content["depths"][content["first"]["depth"]]["name"] == "depth 9 (block 8)"
    assert list(content["languages"])[content["first"]["language"]] == "sw"


def test_another_corpus_is_refused() -> None:
    corpus = make_corpus(12)
    result = make_result(corpus)
    with pytest.raises(InputError, match="ranked 12 images in 'en', and 'toy-corpus' has 6"):
        patch_browser(result, corpus.select(limit=6))
    with pytest.raises(InputError, match="no captions in 'ar', which was swept"):
        patch_browser(result, corpus.select(languages=["en", "sw"]))
    with pytest.raises(InputError, match="captions=0"):
        patch_browser(result, corpus, captions=0)
