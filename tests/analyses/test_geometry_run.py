import warnings

import numpy as np
import pytest

from analyses.geometry_run import compare_geometry, four_measures, geometry_analyses, measure_geometry
from analyses.key_numbers import geometry_numbers
from probes._checks import UndefinedWarning
from probes.cka import cka_by_depth
from tests.analyses.geometry_factory import valid
from workbench import capture, load_corpus
from workbench.errors import InputError

LANGUAGES = ["en", "de", "es", "sw", "te", "bn"]


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("emoji-36", LANGUAGES, limit=24)


@pytest.fixture(scope="module")
def found(get_tower, corpus):
    return measure_geometry(get_tower("emoji-causal"), corpus, depth=4, permutations=10, directions=2, resamples=50)


def test_one_call_measures_what_the_probes_do(found, get_tower, corpus):
    rows = capture(get_tower("emoji-causal"), corpus, progress=False)
    np.testing.assert_allclose(found.cka.debiased, cka_by_depth(rows, permutations=0, groups=0).debiased, atol=1e-6)
    assert (found.depth, found.high, found.low, found.notes) == (4, "HRL", "LRL", ())
    assert set(found.residuals) == {"en", "mean of HRL"}
    assert set(found.jaccard) == set(LANGUAGES) - {"en"}
    assert found.prevalence is not None
    assert found.prevalence.n == 5
    assert found.bound is not None
    assert found.bound.depth == found.sensitivity.depth == 4


def test_every_figure_says_n_and_is_valid_json(found):
    answers = geometry_analyses(found, resamples=50)
    assert [answer.name for answer in answers] == [
        "cka-by-depth", "cka-gap", "cka-matrix", "divergence-cosine", "divergence-whitened", "residuals",
        "prevalence-scatter", "silhouette-by-depth", "sensitivity", "modality-gap", "centroid-cosine", "jaccard-at-k",
        "key-numbers",
    ]  # fmt: skip
    for answer in answers[:-1]:
        assert "n = " in answer.title
        assert answer.title.startswith("emoji-causal on emoji-36: ")
        assert answer.figure is not None
        valid(answer)
        assert len(answer.table)


def test_the_numbers_that_papers_print_stand_in_one_table(found):
    table = geometry_numbers(found, resamples=50).table
    value = table.set_index(["metric", "language"])["value"]
    low = [found.cka.languages.index(code) for code in ("sw", "te", "bn")]
    high = [found.cka.languages.index(code) for code in ("en", "de", "es")]
    last = table[table["metric"] == "CKA HRL–LRL"].iloc[0]
    assert last["value"] == pytest.approx(found.cka.biased[-1][np.ix_(high, low)].mean())
    assert (last["depth"], last["n"], last["languages"]) == (12, 24, "+".join(found.tiers))
    assert last["low"] <= last["value"] <= last["high"]
    distance = found.divergence["cosine"].means()[0][:, -1]
    mean = {tier: np.mean([d for code, d in zip(found.divergence["cosine"].languages, distance, strict=True)
                           if found.tiers[code] == tier]) for tier in ("HRL", "LRL")}  # fmt: skip
    gap = table[table["metric"] == "divergence gap LRL − HRL"].iloc[0]
    assert gap["value"] == pytest.approx(mean["LRL"] - mean["HRL"])
    assert value["sensitivity", "sw"] == pytest.approx(found.sensitivity.by_language()["sw"])
    centroid = table[(table["metric"] == "centroid minus mean cosine") & (table["tier"] == "LRL")].iloc[0]
    own = found.centroids["LRL"]
    assert centroid["value"] == pytest.approx((own.centroid - own.mean).mean())
    assert centroid["languages"] == "+".join(code for code, tier in found.tiers.items() if tier == "LRL")


def test_two_states_are_summed_up_in_four_measures(found, get_tower, corpus):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedWarning)  # its row at depth 0 is padding, the same for all
        other = measure_geometry(
            get_tower("emoji-bidirectional"), corpus, depth=4, permutations=0, directions=2, resamples=50
        )
    answers = compare_geometry(found, other, ("before", "after"))
    assert [answer.name for answer in answers] == [
        "four-measures", "cka-by-depth", "cka-gap", "divergence-cosine", "divergence-whitened", "sensitivity",
    ]  # fmt: skip
    table = answers[0].table.set_index(["measure", "state"])["value"]
    low = [found.cka.languages.index(code) for code in ("sw", "te", "bn")]
    high = [found.cka.languages.index(code) for code in ("en", "de", "es")]
    assert table["CKA HRL–LRL", "before"] == pytest.approx(found.cka.debiased[-1][np.ix_(high, low)].mean())
    assert table["residual", "after"] == pytest.approx(other.sensitivity.residual[low].mean())
    ratios = list(other.sensitivity.by_language().values())
    assert table["unequal sensitivity", "after"] == pytest.approx(np.std(ratios, ddof=1))
    assert len(four_measures({"only": found}).table) == 4
    same = measure_geometry(get_tower("emoji-causal"), corpus, depth=3, permutations=0, directions=0, resamples=5)
    with pytest.raises(InputError, match="differ in depth: 4 and 3"):
        compare_geometry(found, same)


@pytest.mark.filterwarnings("ignore::probes._checks.UndefinedWarning")
def test_what_can_not_be_measured_is_noted(get_tower, corpus):
    found = measure_geometry(
        get_tower("qwen2_vl"),
        corpus,
        ["en", "de", "sw", "te"],
        permutations=0,
        directions=0,
        resamples=5,
        distances=["l2"],
    )
    assert found.bound is None
    assert found.prevalence is None
    assert any("whose bound is not known" in note for note in found.notes)
    assert any("Fewer than 4 languages" in note for note in found.notes)
    assert "prevalence-scatter" not in [answer.name for answer in geometry_analyses(found, resamples=5)]


def test_bad_input_is_named(get_tower, corpus):
    tower = get_tower("emoji-causal")
    with pytest.raises(InputError, match="no language 'fr'"):
        measure_geometry(tower, corpus, reference="fr")
    with pytest.raises(InputError, match="have 1 tiers"):
        measure_geometry(tower, corpus, ["en", "de"])
    with pytest.raises(InputError, match="'HRL' has one language"):
        measure_geometry(tower, corpus, ["en", "sw", "te"])
    with pytest.raises(InputError, match="The tier map lacks te"):
        measure_geometry(tower, corpus, ["en", "te"], tiers={"en": "HRL", "sw": "LRL"})
