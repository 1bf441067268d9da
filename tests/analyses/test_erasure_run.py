from typing import Any

import pytest

from analyses.erasure_run import erasure_analyses, measure_erasure
from interventions.erasers import INLP, LEACE
from workbench import load_corpus
from workbench.errors import InputError

LANGUAGES = ["en", "de", "sw", "te"]


@pytest.mark.parametrize("name", ["emoji-causal", "emoji-bidirectional"])
def test_a_tower_is_read_erased_judged_and_averaged(name: str, get_tower: Any) -> None:
    corpus = load_corpus("emoji-36", LANGUAGES, limit=120)
    study = measure_erasure(
        get_tower(name), corpus, erasers=[LEACE(), INLP(3), INLP(6)], classifiers=["lda", "logistic"], resamples=50,
        progress=False,
    )  # fmt: skip
    assert study.classifiers["lda"].accuracy > 80
    assert 25 <= study.classifiers.token_count < 70
    assert set(study.verdicts) == {(e, d) for e in ("LEACE", "INLP 3", "INLP 6") for d in ("i2t", "t2i")}
    assert study.gains is not None
    assert study.gains.pools == {"HRL": ("en", "de"), "LRL": ("sw", "te")}
    assert study.angles is not None
    assert study.angles.ranks == (3, 3)
    assert study.depths is not None
    depths = study.depths.table.set_index(["depth", "rows"])["accuracy"]
    # A tower that pools a padding position has the same row for every caption at depth 0.
    assert (depths[0, "before"] == 25) == (name == "emoji-bidirectional")
    assert depths[12, "before"] > 80
    assert abs(depths[12, "LEACE"] - 25) < 12
    assert [answer.name for answer in erasure_analyses(study)] == [
        "language-classifiers", "language-confusion-logistic", "erasure-attacks", "erasure-LEACE", "erasure-ranks",
        "language-by-depth", "averaging", "principal-angles", "key-numbers",
    ]  # fmt: skip
    for answer in erasure_analyses(study):
        assert any(character.isdigit() for character in answer.finding), answer.name
    attacks = next(answer for answer in erasure_analyses(study) if answer.name == "erasure-attacks")
    own = study.audit.attacks.set_index(["attacker", "eraser"])["accuracy"]
    assert (
        f"logistic {own['logistic', 'none']:.1f} before, {own['logistic', 'LEACE']:.1f} after LEACE" in attacks.finding
    )


def test_parts_can_be_left_out_and_the_pivot_is_no_language(get_tower: Any) -> None:
    corpus = load_corpus("emoji-36", ["en", "sw"], limit=60)
    tower = get_tower("emoji-causal")
    options: dict[str, Any] = {"classifiers": ["lda"], "resamples": 20, "progress": False}
    study = measure_erasure(tower, corpus, erasers=[LEACE()], by_depth=False, **options)
    assert study.depths is None
    assert study.gains is None
    names = [answer.name for answer in erasure_analyses(study)]
    assert names == ["language-classifiers", "erasure-attacks", "erasure-LEACE", "principal-angles", "key-numbers"]
    assert study.notes[0].startswith("LEACE was fitted on 60 rows of 128 features.")
    assert study.notes[1:] == ("Nothing was averaged: no tier has two of the languages.",)
    asked = measure_erasure(tower, corpus, erasers=[LEACE()], by_depth=False, pools={"both": ["en", "sw"]}, **options)
    assert asked.gains is not None
    assert asked.gains.pools == {"both": ("en", "sw")}
    with pytest.raises(InputError, match="captions of 'en' are the gallery"):
        measure_erasure(tower, corpus, pivot="en", **options)
