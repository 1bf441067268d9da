from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from workbench.errors import InputError
from workbench.estimates import COLUMNS, Estimates, estimates_of
from workbench.retrieval import Bootstrap

LABELS = {"pool": "language", "direction": "t2i", "protocol": "all", "ties": "expected", "metric": "R@1"}
TIERS = {"en": "HRL", "de": "HRL", "sw": "LRL"}


@dataclass(frozen=True)
class Images:
    """All that a table asks of a corpus."""

    name: str = "corpus"
    image_ids: tuple[str, ...] = tuple(f"image {k}" for k in range(60))


def table(tower: str = "tower", seed: int = 0, corpus: Images | None = None, resamples: int = 300) -> Estimates:
    return estimates_of(tower, corpus or Images(), "s3", resamples, seed)


def scores(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, 100, 60)


def filled(
    tower: str = "tower", shift: float = 0.0, seed: int = 0, corpus: Images | None = None, resamples: int = 300
) -> Estimates:
    found = table(tower, seed, corpus, resamples)
    members = {
        language: found.add({**LABELS, "language": language, "tier": TIERS[language]}, scores(k) + shift)
        for k, language in enumerate(TIERS)
    }
    found.add_tiers(LABELS, members, TIERS)
    return found


def records(frame: pd.DataFrame) -> dict[tuple[str, str], dict[str, Any]]:
    """Rows by language and tier."""
    return {(row["language"], row["tier"]): {str(k): v for k, v in row.items()} for row in frame.to_dict("records")}


def numbers(row: dict[str, Any]) -> tuple[float, float, float]:
    return row["value"], row["low"], row["high"]


def test_a_row_is_a_mean_with_the_interval_of_the_bootstrap():
    found = filled().frame
    assert found.columns.tolist() == list(COLUMNS)
    row = records(found)["en", "HRL"]
    bootstrap = Bootstrap(60, 300, 0)
    assert numbers(row) == pytest.approx((scores(0).mean(), *bootstrap.interval(bootstrap.means(scores(0)))))
    assert [row[name] for name in ("tower", "corpus", "tier_map", "n", "seed")] == ["tower", "corpus", "s3", 60, 0]


def test_tiers_are_means_of_languages_and_gaps_are_paired():
    rows = records(filled().frame)
    high, low = scores(0) / 2 + scores(1) / 2, scores(2)
    assert rows["mean", "HRL"]["value"] == pytest.approx(high.mean())
    assert rows["mean", "LRL"]["value"] == pytest.approx(low.mean())
    bootstrap = Bootstrap(60, 300, 0)
    ends = bootstrap.interval(bootstrap.means(high - low))
    assert numbers(rows["gap", "HRL − LRL"]) == pytest.approx(((high - low).mean(), *ends))


def test_a_ratio_weighs_an_image_by_what_it_has():
    """Three captions of one image weigh three times as much as one of another."""
    found = table()
    sums, counts = np.zeros(60), np.zeros(60)
    sums[:2], counts[:2] = [300, 0], [3, 1]
    row = found.add({**LABELS, "language": "en", "tier": ""}, sums, counts)
    assert row.value == 75
    assert row.n == 2
    drawn = Bootstrap(60, 300, 0).weights[:, :2] * 60
    expected = 300 * drawn[:, 0] / np.where(drawn.sum(1), 3 * drawn[:, 0] + drawn[:, 1], np.nan)
    assert np.allclose(row.resampled, expected, equal_nan=True)
    # A resample without either image says nothing, and the interval is that of the others.
    assert np.isnan(row.resampled).any()
    assert np.isfinite(found.frame[["low", "high"]].to_numpy()).all()


def test_two_towers_that_score_alike_differ_by_nothing_that_these_images_could_show():
    difference = filled("a").minus(filled("b"))
    assert (difference["value"] == 0).all()
    # About two of sixty images on either side may differ without one of the sixty saying so.
    assert difference["low"].between(-6, -1).all()
    assert difference["high"].between(1, 6).all()
    assert set(difference["tower"]) == {"a − b"}
    assert set(difference["corpus"]) == {"corpus"}


def test_a_constant_lift_lies_in_its_interval_however_much_images_differ():
    for (language, _), row in records(filled("b", shift=7).minus(filled("a"))).items():
        lift = 0 if language == "gap" else 7
        value, low, high = numbers(row)
        assert value == pytest.approx(lift, abs=1e-9)
        assert lift - 6 < low < lift < high < lift + 6


def test_rows_are_matched_by_what_they_are_and_not_by_their_place():
    one, two = table("a"), table("b")
    for language in ("en", "de"):
        one.add({**LABELS, "language": language, "tier": "HRL"}, scores(len(language)))
    for language, shift in (("de", 1), ("en", 2)):
        two.add({**LABELS, "language": language, "tier": "HRL"}, scores(len(language)) - shift)
    found = records(one.minus(two))
    assert found["en", "HRL"]["value"] == pytest.approx(2)
    assert found["de", "HRL"]["value"] == pytest.approx(1)


def test_scores_that_are_not_paired_are_not_subtracted():
    other = Images(image_ids=tuple(reversed(Images().image_ids)))
    for two in (filled("b", seed=1), filled("b", resamples=200), filled("b", corpus=other)):
        with pytest.raises(InputError, match="same images and the same resamples"):
            filled("a").minus(two)
    lacking = table("b")
    lacking.add({**LABELS, "language": "en", "tier": "HRL"}, scores(0))
    lacking.add({**LABELS, "language": "de", "tier": "HRL"}, scores(0))
    with pytest.raises(InputError, match=r"no row with .*'sw'"):
        filled("a").minus(lacking)


def test_further_columns_keep_their_type_where_a_row_lacks_them():
    found = estimates_of("tower", Images(), "s3", 100, 0, {"classes": "Int64", "chance": "float64"})
    first = found.add({**LABELS, "language": "en", "tier": "", "classes": 10, "chance": 10.0}, scores(0))
    found.add_mean({**LABELS, "language": "mean", "tier": "all"}, [first])
    frame = found.frame
    assert frame["classes"].tolist() == [10, pd.NA]
    assert str(frame["classes"].dtype) == "Int64"
    assert np.isnan(frame["chance"].to_numpy()[1])
    assert frame["value"].to_numpy()[0] == frame["value"].to_numpy()[1]


def test_the_same_seed_gives_the_same_bytes():
    pd.testing.assert_frame_equal(filled().frame, filled().frame, check_exact=True)
    assert (filled(seed=1).frame["low"].to_numpy() != filled().frame["low"].to_numpy()).all()
