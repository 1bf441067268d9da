"""The rule on measurements of known answer, and on towers with a planted fault."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analyses.diagnosis import Measurements, Thresholds, judge
from analyses.diagnosis.calibration import Study, Trial
from analyses.diagnosis.measurements import LanguageOutputs
from workbench.errors import InputError
from workbench.towers.planted import Fault

N, BLOCKS = 200, 6
TIERS = {"en": "high", "de": "high", "sw": "low", "te": "low"}
CONTROLS = ("random en", "noise")


def hits(share, seed=0):
    """So many percent of N images found, the same ones for any seed."""
    order = np.random.default_rng(seed).permutation(N)
    return np.where(order < share / 100 * N, 100.0, 0.0)


def made(frozen, curve, control=0.0, outputs=None, **changes):
    """Measurements in which languages, the patch by depth and the controls find so many percent."""
    depths = list(range(BLOCKS + 1))
    scores: dict[Any, np.ndarray] = {(language, d): hits(s) for language, s in frozen.items() for d in ("i2t", "t2i")}
    patched: dict[Any, np.ndarray] = {}
    for language in ("sw", "te"):
        for d in ("i2t", "t2i"):
            patched[language, d, "parallel en"] = np.stack([hits(share) for share in curve])
            for name in CONTROLS:
                patched[language, d, name] = np.stack([hits(frozen[language] + control)] * len(depths))
    plain = Measurements(
        tower="a tower", corpus="a corpus", n_blocks=BLOCKS, depths=depths, tiers=TIERS, source="en",
        patch="parallel en", frozen=scores, patched=patched, controls=CONTROLS, outputs=outputs or {},
        gallery=np.zeros((N, 0)),
    )  # fmt: skip
    return replace(plain, **changes)


def spoken(lost=0.0):
    """Outputs and a gallery: tokens say what the image is, and the low languages lose some of them."""
    generator = np.random.default_rng(5)
    meaning = generator.standard_normal((60, 16))
    ids = generator.integers(1, 60, size=(N, 4))
    gallery = np.stack([meaning[row].sum(0) for row in ids]).astype(np.float32)
    gallery /= np.linalg.norm(gallery, axis=1, keepdims=True)
    outputs = {}
    for language, tier in TIERS.items():
        content = np.ones(ids.shape, dtype=bool)
        if tier == "low":
            content[:, 1:] = generator.random((N, 3)) >= lost
        noise = 0.02 * generator.standard_normal(gallery.shape)
        rows = gallery + noise
        rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        outputs[language] = LanguageOutputs(rows, ids, content)
    return {"outputs": outputs, "gallery": gallery}


GOOD = {"en": 80, "de": 80, "sw": 80, "te": 80}
BAD = {"en": 80, "de": 80, "sw": 40, "te": 40}
LATE = [40, 40, 40, 42, 75, 78, 80]
NEVER = [40] * (BLOCKS + 1)


def test_a_gap_that_so_few_images_may_hide_is_not_called_absent():
    """Eight images: 75 against 50 percent is one image in four, and the interval reaches far beyond."""
    few = {"en": 75, "de": 75, "sw": 50, "te": 50}
    scores = {
        (language, d): np.roll(np.where(np.arange(8) < share * 8 / 100, 100.0, 0.0), k)
        for k, (language, share) in enumerate(few.items())
        for d in ("i2t", "t2i")
    }
    patched = {key: rows[..., :8] for key, rows in made(few, [50] * 7).patched.items()}
    whole = replace(made(few, [50] * 7), frozen=scores, patched=patched, gallery=np.zeros((8, 0)))
    verdict = judge(whole)
    assert verdict.kind == "inconclusive"
    assert "8 images do not exclude a gap of" in verdict.sentence
    assert verdict.languages == ()
    # The line is the user's to draw.
    assert judge(whole, Thresholds(hidden_gap=100.0)).kind == "no_gap"


def test_no_gap():
    verdict = judge(made(GOOD, [80] * 7))
    assert verdict.kind == "no_gap"
    assert verdict.languages == ()
    assert verdict.numbers["onset_depth"] is None


def test_a_gap_under_the_threshold_is_none_and_the_threshold_can_be_set():
    small = {"en": 80, "de": 80, "sw": 77, "te": 77}
    assert judge(made(small, [78] * 7)).kind == "no_gap"
    found = judge(made(small, [77, 77, 77, 77, 80, 80, 80]), Thresholds(smallest_gap=1.0))
    assert found.kind != "no_gap"
    assert found.languages == ("sw", "te")


def test_a_trajectory_with_its_onset():
    verdict = judge(made(BAD, LATE, **spoken()))
    assert verdict.kind == "trajectory"
    assert verdict.languages == ("sw", "te")
    assert verdict.onset == (4, 4, 4)
    assert verdict.numbers["onset_depth"] == {"value": 4, "low": 4, "high": 4}
    assert "before depth 4" in verdict.sentence


def test_only_the_language_that_trails_is_named():
    verdict = judge(made({**BAD, "te": 80}, LATE, **spoken()))
    assert verdict.languages == ("sw",)


def test_the_same_with_lost_tokens_is_the_input():
    verdict = judge(made(BAD, LATE, **spoken(lost=0.9)))
    assert verdict.kind == "input"
    assert verdict.onset is None
    assert verdict.numbers["input"]["ratio"]["low"] > 0


def test_few_images_name_neither_input_nor_path():
    few = Thresholds(fewest_images=N + 1)
    for lost in (0.0, 0.9):
        verdict = judge(made(BAD, LATE, **spoken(lost)), few)
        assert verdict.kind == "inconclusive"
        assert "too few to tell input and path apart" in verdict.sentence


def test_without_tokens_to_look_at_the_place_stays_open():
    verdict = judge(made(BAD, LATE))
    assert verdict.kind == "inconclusive"
    assert "the tokens were not looked at" in verdict.sentence


@pytest.mark.parametrize(
    ("measurements", "reason"),
    [
        (made(BAD, NEVER, **spoken()), "closes too little"),
        (made(BAD, [40, 40, 40, 42, 50, 52, 52], **spoken()), "closes too little"),
        (made(BAD, LATE, control=35, **spoken()), "a control does what the patch does"),
        (made(BAD, LATE, controls=(), **spoken()), "no control was swept"),
    ],
)
def test_what_is_missing_is_said_and_no_place_in_the_path_is_named(measurements, reason):
    verdict = judge(measurements)
    assert verdict.kind in ("inconclusive", "output_direction")
    assert "trajectory" not in verdict.faults
    if verdict.kind == "inconclusive":
        assert reason in verdict.sentence


def test_what_the_sources_own_row_leaves_after_the_last_block_is_added_by_the_head():
    verdict = judge(made(BAD, [40, 40, 40, 40, 60, 60, 60], **spoken()))
    assert "output_direction" in verdict.faults
    assert verdict.numbers["patch"]["i2t"]["remainder"]["low"] > 0


def test_evidence_holds_every_number_that_the_rule_read():
    numbers = judge(made(BAD, LATE, **spoken())).numbers
    assert numbers["gap"]["i2t"]["value"] == pytest.approx(40)
    assert numbers["patch"]["i2t"]["share"] == pytest.approx(0.95)  # at N, all is closed by construction
    assert numbers["patch"]["i2t"]["controls"]["noise"]["value"] == pytest.approx(0.0)
    assert numbers["erasure"]["i2t"]["rank"] == 3
    assert numbers["thresholds"]["rescued_share"] == 0.5
    assert set(numbers["patch"]["t2i"]["shares_by_depth"]) == {str(depth) for depth in range(7)}


def test_the_same_measurements_give_the_same_verdict():
    one, two = (judge(made(BAD, LATE, **spoken())) for _ in range(2))
    assert one == two


# -- towers with a planted fault: one of each kind; the study has hundreds ------------------------------


@pytest.fixture(scope="module")
def study():
    return Study()


@pytest.mark.parametrize("base", ["emoji-causal", "emoji-bidirectional"])
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault("none"), "no_gap"),
        (Fault("output", strength=1.0, labels=("lo1", "lo2")), "output_direction"),
        (Fault("block", 5, 0.7, ("lo2",)), "trajectory"),
        (Fault("tokenizer", strength=0.6, labels=("lo1", "lo2", "lo3")), "input"),
        (Fault("mixed", 8, 0.55, ("lo1",)), "mixed"),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_a_planted_fault_is_named(study, base, fault, kind):
    verdict = study.diagnose(Trial(base, fault, 400, 3))
    assert verdict.kind == kind, verdict.sentence
    assert set(verdict.languages) == (set() if kind == "no_gap" else set(fault.labels))
    if fault.block is not None:
        assert verdict.onset is not None
        assert abs(verdict.onset[0] - fault.onset) <= 1


def test_content_rows_that_are_corrupted_are_a_trajectory_that_drifts_afterwards(study):
    verdict = study.diagnose(Trial("emoji-causal", Fault("tokens", 2, 1.0, ("lo1",)), 400, 3))
    assert verdict.kind == "trajectory"
    assert verdict.onset is not None
    assert verdict.onset[0] > 2


def test_a_study_says_what_is_wrong_with_a_request(study):
    from analyses.diagnosis.calibration import design

    with pytest.raises(InputError, match="at least 1"):
        design(0)
    with pytest.raises(InputError, match="5000 images"):
        study.diagnose(Trial("emoji-causal", Fault("none"), 5000, 0))


def test_a_design_covers_kinds_bases_blocks_strengths_labels_and_sizes():
    from analyses.diagnosis.calibration import EXPECTED, design

    trials = design(240, sizes=(100, 500))
    assert trials == design(240, sizes=(100, 500))
    for base in ("emoji-causal", "emoji-bidirectional"):
        for kind in EXPECTED:
            for n in (100, 500):
                assert sum((t.base, t.fault.kind, t.n) == (base, kind, n) for t in trials) == 10
    blocks = {t.fault.block for t in trials if t.fault.kind == "block"}
    assert len(blocks) > 8
    assert {len(t.fault.labels) for t in trials} == {1, 2, 3}


def test_summary_and_confusion_count_what_they_say():
    import pandas as pd

    from analyses.diagnosis.calibration import confusion, summary

    rows = [("none", "no_gap", None), ("none", "input", None), ("block", "trajectory", 1), ("block", "trajectory", 3),
            ("block", "inconclusive", None), ("output", "output_direction", None)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["fault", "verdict", "onset_error"])
    table["onset"] = table["onset_error"]
    table["right"] = [True, False, True, True, False, True]
    found = summary(table)
    assert found["right"] == pytest.approx(100 * 4 / 6)
    assert found["false_alarms"] == 50
    assert found["onset_within_one"] == pytest.approx(100 / 3)
    assert found["wrong_name"] == pytest.approx(100 / 6)
    assert confusion(table).loc["block", "trajectory"] == 2
