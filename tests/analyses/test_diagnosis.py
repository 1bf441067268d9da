from dataclasses import replace

import numpy as np
import pytest

from analyses.diagnosis import Thresholds, diagnose
from analyses.page import unseen_scores
from interventions import MidToken, NormMatchedNoise, ParallelEOS, RandomEOS
from tests.workbench.test_trajectory import corpus_of
from workbench.errors import InputError
from workbench.sweep_frame import LanguageCell, SweepSettings, tidy_frame
from workbench.sweeps import SweepResult

N, BLOCKS = 40, 4
LANGUAGES = {"en": "HRL", "de": "HRL", "sw": "LRL", "te": "LRL"}
ALL = [ParallelEOS("en"), RandomEOS("en"), NormMatchedNoise(), MidToken("en")]


class _Named:
    name = "tower"


def result_of(frozen: dict[str, int], patched: dict[str, int], interventions=ALL, depths=tuple(range(BLOCKS + 1))):
    """Build a sweep in which so many of 40 images are found: frozen by language, patched by intervention."""
    captions = {language: [f"{language} {k}" for k in range(N)] for language in LANGUAGES}
    corpus = corpus_of(captions)
    settings = SweepSettings(
        list(interventions), tuple(LANGUAGES), list(depths), BLOCKS, "test", LANGUAGES, "first", 0, 200, None
    )

    def better(found: int) -> np.ndarray:
        return np.where(np.arange(N) < found, 0, 7).astype(np.int32)

    cells = {}
    for language, count in frozen.items():
        shape = (len(settings.interventions), len(settings.depths), N)
        rows = np.empty(shape, dtype=np.int32)
        for k, intervention in enumerate(settings.interventions):
            rows[k] = better(patched.get(intervention.name, count))
        arrays = {}
        for direction in ("i2t", "t2i"):
            arrays |= {f"clean_{direction}_better": better(count), f"patched_{direction}_better": rows}
            arrays |= {f"clean_{direction}_tied": np.zeros(N, int), f"patched_{direction}_tied": np.zeros(shape, int)}
        cells[language] = LanguageCell(arrays)
    frame = tidy_frame(_Named(), corpus, cells, settings)  # pyright: ignore[reportArgumentType]
    return SweepResult(frame, cells, settings, {}), corpus


FAILING = {"en": 36, "de": 34, "sw": 8, "te": 6}
CURED = {"parallel en": 34, "random en": 0, "noise": 0}


def test_a_gap_that_the_parallel_row_closes_and_controls_do_not_is_in_the_forward_path():
    verdict = diagnose(*result_of(FAILING, CURED))
    assert verdict.kind == "trajectory"
    assert verdict.numbers["depth"] == 1
    assert verdict.numbers["gap"]["value"] == pytest.approx(100 * (35 - 7) / N)
    assert verdict.numbers["lift"]["value"] == pytest.approx(100 * (34 - 7) / N)
    assert verdict.numbers["rescued_share"] == pytest.approx((34 - 7) / (36 - 7))
    assert verdict.numbers["controls"]["mid-token en"]["value"] == 0
    for word in ("tower", "LRL", "HRL", "depth 1 (block 0 of 0…3)", "93 %", "random en, noise, mid-token en"):
        assert word in verdict.sentence
    assert [label for label, _ in verdict.evidence][:2] == ["Gap", "Patch, parallel en"]
    assert len(verdict.evidence) == 5


def test_no_gap_is_said_to_be_none():
    verdict = diagnose(*result_of({"en": 20, "de": 20, "sw": 20, "te": 19}, CURED))
    assert verdict.kind == "no_gap"
    assert diagnose(*result_of(FAILING, CURED), thresholds=Thresholds(smallest_gap=90)).kind == "no_gap"


@pytest.mark.parametrize(
    ("patched", "interventions", "why"),
    [
        ({**CURED, "parallel en": 12}, ALL, "closes too little"),
        ({**CURED, "random en": 30}, ALL, r"so does a control \(random en\)"),
        (CURED, ALL[:1], "no control was swept"),
    ],
)
def test_what_is_missing_is_said_and_the_verdict_stays_open(patched, interventions, why):
    verdict = diagnose(*result_of(FAILING, patched, interventions))
    assert verdict.kind == "inconclusive"
    assert verdict.sentence.startswith("Inconclusive: on tower")
    import re

    assert re.search(why, verdict.sentence)


def test_the_nearest_swept_depth_stands_in_for_the_checkpoint():
    result, corpus = result_of(FAILING, CURED, depths=(0, 3, 4))
    assert diagnose(result, corpus).numbers["depth"] == 0
    assert diagnose(result, corpus, depth=3).numbers["depth"] == 3
    with pytest.raises(InputError, match="Depth 2 was not swept"):
        diagnose(result, corpus, depth=2)


def test_one_tier_or_no_patch_is_refused():
    result, corpus = result_of(FAILING, CURED, ALL[1:])
    with pytest.raises(InputError, match="needs a parallel patch"):
        diagnose(result, corpus)
    result, corpus = result_of(FAILING, CURED)
    one = replace(result.settings, tiers=dict.fromkeys(LANGUAGES, "HRL"))
    with pytest.raises(InputError, match="compares two tiers"):
        diagnose(replace(result, settings=one), corpus)


def test_unseen_captions_are_scored_apart():
    result, corpus = result_of(FAILING, CURED)
    assert unseen_scores(result, corpus) is None
    drawn = {language: tuple(0 if k in (1, 2, 39) else 5 for k in range(N)) for language in LANGUAGES}
    result.frame["tower"] = "emoji-causal"
    found = unseen_scores(result, replace(corpus, drawn=drawn))
    assert found is not None
    sw = found[(found.language == "sw") & (found.direction == "i2t") & (found.metric == "R@1")].iloc[0]
    assert sw["value"] == pytest.approx(100 * 2 / 3)
    assert sw["n"] == 3
    all_seen = dict.fromkeys(LANGUAGES, (5,) * N)
    assert unseen_scores(result, replace(corpus, drawn=all_seen)) is None
