import numpy as np
import pytest

from analyses.geometry_output import (
    centroid_cosines,
    jaccard_curves,
    modality_gap_by_language,
    subspace_angles,
)
from probes.modality_gap import centroid_cosine, measure_modality_gap
from probes.neighbours import topk_jaccard
from probes.subspaces import principal_angles
from tests.analyses.geometry_factory import TIERS, D, N, drawn, rows, trace
from workbench.errors import InputError


def embeddings():
    images = np.random.default_rng(9).standard_normal((N, D)) + 1
    return images, {code: own[:, 2] for code, own in rows().items()}


def test_both_gaps_with_their_intervals():
    images, texts = embeddings()
    found = measure_modality_gap(images, texts, resamples=50)
    answer = modality_gap_by_language(found, TIERS, subject="toy")
    raw, relative = drawn(answer).data
    assert list(raw.x) == pytest.approx(found.raw.value)
    assert list(relative.x) == pytest.approx(found.relative.value)
    assert list(raw.error_x.arrayminus) == pytest.approx(found.raw.value - found.raw.low)
    row = answer.table.set_index("language").loc["te"]
    assert (row["relative high"], row["tier"], row["n"], row["d"]) == (found.relative.high[4], "LRL", N, D)
    for words in ("n = 40 images, d = 6", "‖mean v − mean z‖", "raw / ((s_v + s_z) / 2)", "bootstrap"):
        assert words in answer.caption


def test_centroid_and_mean_cosine_stand_side_by_side():
    images, texts = embeddings()
    sets = {
        tier: centroid_cosine(images, {code: texts[code] for code in texts if TIERS[code] == tier})
        for tier in ("HRL", "LRL")
    }
    answer = centroid_cosines(sets, resamples=50)
    centroid, mean = (trace(answer, f"{kind} cosine") for kind in ("centroid", "mean"))
    assert list(centroid.x) == pytest.approx([own.centroid.mean() for own in sets.values()])
    assert list(mean.x) == pytest.approx([own.mean.mean() for own in sets.values()])
    table = answer.table.set_index("set")
    np.testing.assert_allclose(table["difference"], table["centroid"] - table["mean"])
    assert table.loc["HRL", "languages"] == "en+de+fr"
    assert "HRL: en, de, fr; LRL: sw, te" in answer.caption
    with pytest.raises(InputError, match="No set"):
        centroid_cosines({})


def test_jaccard_lines_stand_above_chance():
    images, texts = embeddings()
    found = {code: topk_jaccard(texts[code], texts["en"], images, (1, 5, 10)) for code in ("de", "sw")}
    answer = jaccard_curves(found, resamples=50)
    assert list(trace(answer, "German (de)").y) == pytest.approx(found["de"].by_query.mean(axis=1))
    assert list(trace(answer, "chance").y) == pytest.approx(found["de"].chance)
    expected = (found["de"].unrelated + found["sw"].unrelated) / 2
    assert list(trace(answer, "unrelated captions").y) == pytest.approx(expected)
    assert list(drawn(answer).layout.xaxis.ticktext) == ["1", "5", "10"]
    assert len(answer.table) == 6
    assert "n = 40 captions against 40 images" in answer.caption
    with pytest.raises(InputError, match="differ in cutoffs"):
        jaccard_curves({**found, "te": topk_jaccard(texts["te"], texts["en"], images, (1, 5))})
    with pytest.raises(InputError, match="No language"):
        jaccard_curves({})


def test_angles_with_overlap_beside_chance():
    pairs = {"erased and averaged": principal_angles(np.eye(D)[:2], np.eye(D)[1:4])}
    answer = subspace_angles(pairs)
    assert list(trace(answer, "erased and averaged").y) == pytest.approx([0, 90])
    assert "overlap 0.500, by chance 0.500" in answer.caption
    assert list(answer.table["degrees"]) == pytest.approx([0, 90])
    with pytest.raises(InputError, match="0 pairs"):
        subspace_angles({})
