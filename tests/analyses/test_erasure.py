# pyright: reportIndexIssue=false, reportArgumentType=false, reportCallIssue=false, reportOptionalSubscript=false, reportAttributeAccessIssue=false
import dataclasses
from typing import Any

import numpy as np
import pytest

from analyses import Analysis
from analyses.erasure import ErasureAudit, audit_erasure, audit_tower, default_erasers
from analyses.erasure_figures import erasure_attacks, erasure_changes
from analyses.erasure_ranks import erasure_by_rank
from analyses.erasure_verdict import ErasureThresholds, judge_erasure
from analyses.image_scores import image_scores, unit_languages
from interventions.erasers import INLP, LEACE, AdversarialEraser, MeanDifference
from interventions.erasers.base import ErasureWarning
from workbench import load_corpus
from workbench.errors import InputError
from workbench.retrieval import DIFFERENCE, Bootstrap
from workbench.splits import image_folds, split_by_image

N, D = 200, 24
TIERS = {"en": "HRL", "de": "HRL", "sw": "LRL", "te": "LRL"}


def made(offset: float = 4.0, shared: float = 0.05) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Languages of one content, each moved along a feature of its own; ``shared`` is what images vary there."""
    generator = np.random.default_rng(0)
    images = generator.standard_normal((N, D))
    images[:, :4] *= shared
    languages = {}
    for k, (code, tier) in enumerate(TIERS.items()):
        blur = 0.8 if tier == "LRL" else 0.35
        languages[code] = images + blur * generator.standard_normal((N, D)) + offset * np.eye(D)[k]
    return languages, images


def audited(erasers: Any = None, **options: Any) -> ErasureAudit:
    embeddings, images = made()
    settings = {"tier_map": TIERS, "attackers": ["lda"], "resamples": 100, "tower": "toy", "corpus": "made"}
    return audit_erasure(embeddings, images, erasers or [LEACE()], **{**settings, **options})


@pytest.fixture(scope="module")
def audit() -> ErasureAudit:
    return audited([LEACE(), MeanDifference(), INLP(3), INLP(8)], attackers=["lda", "knn"])


def drawn(answer: Analysis) -> Any:
    assert answer.figure is not None
    return answer.figure


def test_erasers_are_fitted_on_training_images_and_judged_on_others(audit: ErasureAudit) -> None:
    embeddings, images = made()
    train, test = split_by_image(np.arange(N))
    assert (audit.train_images, audit.test_images) == (train.sum(), test.sum())
    unit = {code: rows / np.linalg.norm(rows, axis=1, keepdims=True) for code, rows in embeddings.items()}
    fitted = LEACE().fit(np.concatenate([rows[train] for rows in unit.values()]), np.repeat(list(TIERS), train.sum()))
    np.testing.assert_allclose(audit.fitted["LEACE"].transform(unit["sw"]), fitted.transform(unit["sw"]), atol=1e-6)
    gallery = images[test] / np.linalg.norm(images[test], axis=1, keepdims=True)
    erased = fitted.transform(unit["sw"][test])
    erased /= np.linalg.norm(erased, axis=1, keepdims=True)
    for direction, axis in (("t2i", 1), ("i2t", 0)):
        hits = [
            100.0 * ((rows @ gallery.T).argmax(axis) == np.arange(test.sum())) for rows in (unit["sw"][test], erased)
        ]
        frame = audit.retrieval
        own = frame[(frame["language"] == "sw") & (frame["direction"] == direction)].set_index(["eraser", "metric"])
        assert own.loc[("none", "R@1"), "value"] == pytest.approx(hits[0].mean())
        assert own.loc[("LEACE", "R@1"), "value"] == pytest.approx(hits[1].mean())
        change = own.loc[("LEACE", "change R@1")]
        bootstrap = Bootstrap(int(test.sum()), 100, 0)
        low, high = bootstrap.mean_interval(hits[1] - hits[0], DIFFERENCE)
        assert (change["value"], change["low"], change["high"]) == pytest.approx(
            ((hits[1] - hits[0]).mean(), float(low), float(high))
        )


def test_attackers_read_the_language_before_and_not_after_and_the_placebo_takes_nothing(audit: ErasureAudit) -> None:
    frame = audit.attacks
    lda = frame[frame["attacker"] == "lda"].groupby("eraser")["accuracy"].mean()
    assert lda["none"] > 95
    assert abs(lda["LEACE"] - 25) < 8
    assert lda["RandomAblation 3"] > 85
    assert set(frame["chance"]) == {25.0}
    assert set(frame[frame["attacker"] == "knn"]["eraser"]) == {"none", "LEACE", "MeanDifference", "INLP 3", "INLP 8"}
    assert sorted(frame[frame["eraser"] == "RandomAblation 8"]["draw"]) == [0, 1, 2, 3, 4]


def test_the_placebo_has_the_rank_of_the_eraser_and_a_mean_and_spread_over_draws(audit: ErasureAudit) -> None:
    assert audit.placebo_rank == {"LEACE": 3, "MeanDifference": 3, "INLP 3": 3, "INLP 8": 8}
    frame = audit.retrieval
    own = frame[
        (frame["eraser"] == "RandomAblation 8")
        & (frame["language"] == "te")
        & (frame["direction"] == "i2t")
        & (frame["metric"] == "change R@1")
    ]
    draws, mean = own[own["draw"].notna()]["value"], own[own["draw"].isna()].iloc[0]
    assert len(draws) == 5
    assert mean["value"] == pytest.approx(draws.mean())
    assert mean["sd"] == pytest.approx(draws.std(ddof=1))
    assert mean["sd"] > 0


def test_a_tier_is_the_mean_of_its_languages(audit: ErasureAudit) -> None:
    frame = audit.retrieval[(audit.retrieval["eraser"] == "LEACE") & (audit.retrieval["metric"] == "change R@1")]
    own = frame[frame["direction"] == "i2t"].set_index(["language", "tier"])["value"]
    assert own["mean", "LRL"] == pytest.approx((own["sw", "LRL"] + own["te", "LRL"]) / 2)


def test_one_inlp_fit_serves_all_its_ranks(audit: ErasureAudit) -> None:
    small, large = audit.fitted["INLP 3"], audit.fitted["INLP 8"]
    assert isinstance(small, INLP)
    assert isinstance(large, INLP)
    np.testing.assert_array_equal(small.right_, large.right_[:3])
    names = [eraser.label for eraser in default_erasers(13, 200)]
    assert names == ["LEACE", "MeanDifference", "INLP 12", "INLP 24", "INLP 48", "INLP 64", "INLP 128"]
    assert [eraser.label for eraser in default_erasers(11, 30)][2:] == ["INLP 10", "INLP 20"]


LOOSE = ErasureThresholds(chance_margin=10.0)
"""With 400 held-out captions an accuracy of chance is only known to some points."""


def test_a_language_that_pulls_captions_to_the_wrong_images_is_in_the_way() -> None:
    # Images vary along the language's feature, so every caption of it is pulled to those that have much there.
    audit = audit_erasure(*made(6.0, shared=1.0), [LEACE()], tier_map=TIERS, attackers=["lda"], resamples=100)
    found = judge_erasure(audit, direction="t2i", thresholds=LOOSE)
    assert found.kind == "contributes"
    assert found.tiers["LRL"]["change"] > found.tiers["LRL"]["allowed high"]
    assert "so the language was in its way" in found.sentence


def test_a_language_that_no_image_knows_of_is_a_symptom() -> None:
    audit = audit_erasure(*made(), [LEACE()], tier_map=TIERS, attackers=["lda"], resamples=100)
    found = judge_erasure(audit, direction="t2i", thresholds=LOOSE)
    assert found.kind == "symptom"
    assert found.attacks["lda"]["before"] > 95
    assert found.sentence.startswith(
        "Symptom: on these embeddings, LEACE (rank 3) takes a linear classifier of the language (lda)"
    )


def test_content_that_falls_with_the_language_is_in_use() -> None:
    """The language is written where the content is: erasing it takes the content along."""
    generator = np.random.default_rng(0)
    content = generator.standard_normal((N, 4))
    content = np.concatenate([3 * content[:, :3], 0.3 * generator.standard_normal((N, D - 3))], axis=1)
    embeddings = {
        code: content + 0.25 * generator.standard_normal((N, D)) + 12 * np.eye(D)[k % 3] * (k < 3)
        for k, code in enumerate(TIERS)
    }
    audit = audit_erasure(embeddings, content, [MeanDifference()], tier_map=TIERS, attackers=["lda"], resamples=100)
    found = judge_erasure(audit, "MeanDifference", direction="t2i", thresholds=LOOSE)
    assert found.kind == "in use"
    assert "retrieval uses what was erased" in found.sentence


def test_an_eraser_that_does_not_do_what_it_claims_proves_nothing() -> None:
    weak = audited([INLP(1)])
    found = judge_erasure(weak, "INLP 1")
    assert found.kind == "inconclusive"
    assert not found.attacks["lda"]["failed"]
    assert "still read (lda" in found.sentence
    # It claims to stop attackers that are not linear, and a fresh one reads on.
    adversarial = audited([AdversarialEraser(steps=5, hidden=8)], attackers=["lda", "knn"])
    assert judge_erasure(adversarial, "AdversarialEraser").kind == "inconclusive"
    # A linear eraser is not held to that.
    assert judge_erasure(audited([LEACE()], attackers=["lda", "knn"])).attacks["knn"]["linear"] is False


def test_thresholds_move_the_verdict(audit: ErasureAudit) -> None:
    wide = ErasureThresholds(chance_margin=20, lowest_tier=100, any_tier=100)
    assert judge_erasure(audit, thresholds=wide).kind == "symptom"
    strict = ErasureThresholds(chance_margin=0)
    assert judge_erasure(audit, "INLP 3", thresholds=strict).kind == "inconclusive"


def test_bad_input_is_named(audit: ErasureAudit) -> None:
    embeddings, images = made()
    options: dict[str, Any] = {"tier_map": TIERS, "attackers": ["lda"]}
    cases: list[tuple[Any, str]] = [
        (lambda: audit_erasure({"en": embeddings["en"]}, images, **options), "two languages or more; 1 came"),
        (lambda: audit_erasure(embeddings, images[:-1], **options), r"'en' have shape \(200, 24\) and the gallery"),
        (lambda: audit_erasure(embeddings, images, draws=4, **options), "5 or more"),
        (lambda: audit_erasure(embeddings, images, tier_map=TIERS, attackers=["knn"]), "linear attacker too"),
        (lambda: audit_erasure(embeddings, images, [LEACE(), LEACE()], **options), "'LEACE' came twice"),
        (lambda: audit_erasure(embeddings, images, [], **options), "No eraser"),
        (lambda: audit_erasure(embeddings, images, images=np.arange(5), **options), "5 image ids"),
        (lambda: audit_erasure({**embeddings, "sw": np.full((N, D), np.nan)}, images, **options), "NaN"),
        (lambda: judge_erasure(audit, "LEICE"), "Did you mean 'LEACE'"),
        (lambda: judge_erasure(audited(tier_map={"xx": "LRL"})), "None of en, de, sw, te has a tier"),
        (lambda: erasure_changes(audit, "LEICE"), "Did you mean 'LEACE'"),
        (lambda: erasure_by_rank(audited()), "INLP at two or more"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()


def test_the_changes_figure_shows_every_language_with_its_placebo(audit: ErasureAudit) -> None:
    answer = erasure_changes(audit)
    figure = drawn(answer)
    band, dots = (trace for trace in figure.data if trace.visible)
    frame = audit.retrieval
    own = frame[(frame["eraser"] == "LEACE") & (frame["metric"] == "change R@1") & (frame["direction"] == "i2t")]
    assert sorted(dots.x) == pytest.approx(sorted(own["value"]))
    assert len([x for x in band.x if x is None]) == len(dots.x) == 6
    assert figure.layout.yaxis.ticktext[0] == "<b>HRL mean</b>"
    assert "100 held-out images" in answer.title
    assert "5 draws of 3 random directions" in answer.caption
    assert len(set(dots.marker.symbol)) == 3


def test_the_attacks_figure_shows_every_attacker_and_chance(audit: ErasureAudit) -> None:
    answer = erasure_attacks(audit)
    figure = drawn(answer)
    lda, knn, chance = figure.data
    assert (lda.name, knn.name) == ("lda, linear", "knn, not linear")
    assert lda.marker.symbol != knn.marker.symbol
    assert set(chance.x) == {25.0}
    assert list(figure.layout.yaxis.ticktext) == [
        "before erasure", "LEACE (rank 3)", "MeanDifference (rank 3)", "INLP 3", "INLP 8", "3 random directions",
        "8 random directions",
    ]  # fmt: skip


def test_the_rank_figure_begins_before_erasure_and_ends_at_the_largest_rank(audit: ErasureAudit) -> None:
    answer = erasure_by_rank(audit)
    curve = next(trace for trace in drawn(answer).data if trace.name == "INLP" and trace.mode == "lines+markers")
    assert list(curve.x) == [0, 3, 8]
    attacks = audit.attacks[audit.attacks["attacker"] == "lda"].set_index("eraser")["accuracy"]
    assert list(curve.y) == [attacks["none"], attacks["INLP 3"], attacks["INLP 8"]]
    assert {"accuracy lda", "R@1"} <= set(answer.table["metric"])


def test_names_of_towers_are_escaped() -> None:
    evil = audited(tower="<b>tower</b>", corpus="<img src=x>")
    for answer in (erasure_attacks(evil), erasure_changes(evil)):
        assert "<img" not in str(drawn(answer).to_json())


def test_a_tower_is_audited_on_its_own_corpus(get_tower: Any) -> None:
    corpus = load_corpus("emoji-36", ["en", "de", "sw"], limit=120)
    audit = audit_tower(get_tower("emoji-causal"), corpus, [LEACE()], attackers=["lda"], resamples=20, progress=False)
    assert audit.retrieval["tower"].unique().tolist() == ["emoji-causal"]
    lda = audit.attacks.groupby("eraser")["accuracy"].mean()
    assert lda["none"] > 80
    assert abs(lda["LEACE"] - 100 / 3) < 10


def test_a_gain_whose_interval_holds_none_names_nothing() -> None:
    audit = audit_erasure(*made(6.0, shared=1.0), [LEACE()], tier_map=TIERS, attackers=["lda"], resamples=100)
    sure = judge_erasure(audit, direction="t2i", thresholds=LOOSE)
    assert sure.kind == "contributes"
    frame = audit.retrieval.copy()
    moved = (frame["eraser"] == "LEACE") & frame["metric"].str.startswith("change")
    frame.loc[moved, "low"] = frame.loc[moved, "value"] - 60
    frame.loc[moved, "high"] = frame.loc[moved, "value"] + 60
    found = judge_erasure(dataclasses.replace(audit, retrieval=frame), direction="t2i", thresholds=LOOSE)
    assert found.kind == "inconclusive"
    assert "does not exclude none. Take more images." in found.sentence


def test_a_rank_that_the_rows_do_not_hold_is_left_out_and_said() -> None:
    embeddings, gallery = made(3.0)
    few = {code: rows[:8] for code, rows in embeddings.items()}
    with pytest.warns(ErasureWarning, match="INLP 20 left out"):
        audit = audit_erasure(few, gallery[:8], [LEACE(), INLP(20)], tier_map=TIERS, attackers=["lda"], resamples=20)
    assert list(audit.fitted) == ["LEACE"]
    assert audit.notes[0].startswith("INLP 20 left out: on 4 images nothing can be read after rank ")
    with pytest.raises(InputError, match="INLP reached rank"):
        audit_erasure(few, gallery[:8], [INLP(20)], tier_map=TIERS, attackers=["lda"], resamples=20)


def test_folds_score_every_image_once_by_what_has_not_seen_it() -> None:
    found = audited([LEACE(), MeanDifference()], folds=4)
    assert (found.train_images, found.test_images) == (150, N)
    assert set(found.retrieval["n"]) == set(found.attacks["images"]) == {N}
    # By hand: each fold's rows through the eraser of the others, all of them ranked among all images.
    fold = image_folds(np.arange(N), 4, seed=0)
    embeddings, images = made()
    units, every = unit_languages(embeddings, images)
    texts = np.empty_like(units["sw"])
    for k in range(4):
        training = np.concatenate([own[fold != k] for own in units.values()])
        eraser = LEACE().fit(training, np.repeat(list(TIERS), (fold != k).sum()))
        texts[fold == k] = eraser.transform(units["sw"][fold == k])
    expected = {way: scores.mean() for way, scores in image_scores(texts, every, "texts", "R@1").items()}
    frame = found.retrieval
    own = frame[(frame["language"] == "sw") & (frame["eraser"] == "LEACE") & (frame["metric"] == "R@1")]
    assert dict(zip(own["direction"], own["value"], strict=True)) == pytest.approx(expected)
    frozen = frame[(frame["language"] == "sw") & (frame["eraser"] == "none") & (frame["direction"] == "t2i")]
    assert frozen["value"].item() == pytest.approx(image_scores(units["sw"], every, "t", "R@1")["t2i"].mean())
    attack = found.attacks[found.attacks["eraser"] == "LEACE"]["accuracy"].item()
    assert attack == pytest.approx(audited().attacks.set_index("eraser").loc["LEACE", "accuracy"], abs=10)
    with pytest.raises(InputError, match="1 folds came"):
        audited(folds=1)
