"""A patch beside calibrated front blocks."""

from typing import Any

import pandas as pd
import pytest

from analyses.ceiling import patch_ceiling
from tests.analyses.factory import make_frame
from workbench.errors import InputError


def calibrated(gain: float = 6.0, **changes: Any) -> pd.DataFrame:
    """The same tower with every unpatched score higher by ``gain``."""
    frame = make_frame()
    plain = (frame["intervention"] == "none") & ~frame["metric"].str.contains(" ")
    for name in ("value", "low", "high"):
        frame.loc[plain, name] += gain
    return frame.assign(tower="calibrated", **changes)


def test_three_scores_stand_side_by_side_with_the_share_of_the_ceiling() -> None:
    frame = make_frame()
    answer = patch_ceiling(frame, calibrated())
    table: Any = {(r["language"], r["tier"], r["direction"]): r for r in answer.table.to_dict("records")}
    row = table["sw", "LRL", "i2t"]
    own = frame[(frame["language"] == "sw") & (frame["direction"] == "i2t") & (frame["metric"] == "R@1")]
    start = float(own[own["intervention"] == "none"]["value"].iloc[0])
    most = float(own[(own["intervention"] == "parallel en") & (own["depth"] == 9)]["value"].iloc[0])
    assert (row["frozen"], row["calibrated"], row["patched"]) == pytest.approx((start, start + 6, most))
    assert row["share %"] == pytest.approx(100 * 6 / (most - start))
    # The source has no lift, so no share of it.
    assert pd.isna(table["en", "HRL", "i2t"]["share %"])
    assert answer.figure is not None
    bars: Any = answer.figure.data
    assert [bar.name for bar in bars[:3]] == ["frozen", "calibrated", "patched"]
    assert "depth 9 (block 8)" in answer.caption
    mean = table["mean", "LRL", "i2t"]
    assert f"mean of LRL {mean['frozen']:.1f} frozen, {mean['calibrated']:.1f} calibrated" in answer.finding


@pytest.mark.parametrize(
    ("other", "options", "message"),
    [
        (calibrated(corpus="another"), {}, "differ in corpus: "),
        (calibrated(protocol="all"), {}, "differ in protocol"),
        (calibrated()[lambda frame: frame["language"] != "te"], {}, "Not both sweeps have Telugu"),
        (calibrated(), {"intervention": "parallel fr"}, "has no intervention 'parallel fr'"),
        (calibrated(), {"depth": 30}, "no depth 30"),
        (calibrated(), {"metric": "R@7"}, "R@7"),
    ],
)
def test_sweeps_that_do_not_belong_together_are_refused(
    other: pd.DataFrame, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        patch_ceiling(make_frame(), other, **options)
