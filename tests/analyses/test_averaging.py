from typing import Any

import numpy as np
import pytest

from analyses.averaging import AveragingGains, average_languages, average_tower
from analyses.averaging_figures import averaging_figure, averaging_matrix
from analyses.averaging_pairs import averaging_pairs
from interventions.averaging import leave_one_out, pool_average
from workbench import load_corpus
from workbench.errors import InputError
from workbench.retrieval import Bootstrap

N, D = 150, 16
POOLS = {"HRL": ("en", "de", "fr"), "LRL": ("sw", "te")}


def made() -> tuple[dict[str, np.ndarray], np.ndarray]:
    generator = np.random.default_rng(0)
    images = generator.standard_normal((N, D))
    blur = {"en": 1.0, "de": 1.4, "fr": 1.2, "sw": 2.2, "te": 2.6}
    return {code: images + size * generator.standard_normal((N, D)) for code, size in blur.items()}, images


@pytest.fixture(scope="module")
def gains() -> AveragingGains:
    return average_languages(*made(), POOLS, resamples=100, tower="toy", corpus="made")


def hits(texts: np.ndarray, images: np.ndarray, direction: str) -> np.ndarray:
    texts = texts / np.linalg.norm(texts, axis=1, keepdims=True)
    images = images / np.linalg.norm(images, axis=1, keepdims=True)
    return 100.0 * ((texts @ images.T).argmax(1 if direction == "t2i" else 0) == np.arange(N))


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
@pytest.mark.parametrize("pool", POOLS)
def test_every_number_is_what_a_loop_gives(gains: AveragingGains, pool: str, direction: str) -> None:
    embeddings, images = made()
    own = gains.frame[(gains.frame["pool"] == pool) & (gains.frame["direction"] == direction)]
    found = own.set_index(["text", "metric"])
    single = {code: hits(embeddings[code], images, direction) for code in POOLS[pool]}
    pooled = hits(pool_average(embeddings, POOLS[pool]), images, direction)
    best = max(single, key=lambda code: single[code].mean())
    mean = np.mean(list(single.values()), axis=0)
    assert gains.best[pool, direction] == best
    bootstrap = Bootstrap(N, 100, 0)
    wanted = {
        (best, "R@1"): single[best],
        ("average", "R@1"): pooled,
        ("mean of languages", "R@1"): mean,
        ("average", "gain over mean R@1"): pooled - mean,
        ("average", "gain over best R@1"): pooled - single[best],
    }
    for code, texts in leave_one_out(embeddings, POOLS[pool]).items():
        without = hits(texts, images, direction)
        wanted[f"average without {code}", "R@1"] = without
        wanted[f"average without {code}", "gain over own R@1"] = without - single[code]
    for key, by_image in wanted.items():
        low, high = bootstrap.interval(bootstrap.means(by_image))
        row = found.loc[key]
        assert (row["value"], row["low"], row["high"]) == pytest.approx((by_image.mean(), float(low), float(high)))


def test_errors_that_languages_do_not_share_cancel(gains: AveragingGains) -> None:
    over_best = gains.frame[gains.frame["metric"] == "gain over best R@1"]
    assert (over_best["low"] > 0).all()


def test_a_pool_of_equal_languages_gains_nothing_that_these_images_could_show() -> None:
    embeddings, images = made()
    same = {"en": embeddings["en"], "de": embeddings["en"]}
    frame = average_languages(same, images, {"pair": ("en", "de")}, resamples=50).frame
    gained = frame[frame["metric"].str.startswith("gain")]
    assert (gained["value"] == 0).all()
    assert ((gained["low"] < 0) & (gained["high"] > 0)).all()
    assert (gained["high"] - gained["low"]).max() < 1000 / len(images)


def test_weights_reach_the_average() -> None:
    embeddings, images = made()
    only = average_languages(
        embeddings, images, POOLS, weights={"en": 1, "de": 1e-12, "fr": 1e-12, "sw": 1, "te": 1}, resamples=20
    )
    own = only.frame[
        (only.frame["pool"] == "HRL") & (only.frame["metric"] == "R@1") & (only.frame["direction"] == "i2t")
    ].set_index("text")["value"]
    assert own["average"] == own["en"]


def test_the_figure_and_its_caption(gains: AveragingGains) -> None:
    answer = averaging_figure(gains)
    figure: Any = answer.figure
    pooled, single, without = (trace for trace in figure.data if trace.visible)
    assert (len(pooled.x), len(single.x), len(without.x)) == (4, 5, 5)
    frame = gains.frame[(gains.frame["direction"] == "i2t") & (gains.frame["metric"] == "R@1")]
    assert sorted(single.x) == pytest.approx(sorted(frame[frame["text"].str.len() == 2]["value"]))
    assert "150 images" in answer.title
    assert "over the best, en." in answer.caption
    with pytest.raises(InputError, match="no metric 'R@7'"):
        averaging_figure(gains, metric="R@7")


def test_the_matrix_has_a_cell_a_tower_and_corpus_and_a_panel_a_pool(gains: AveragingGains) -> None:
    other = average_languages(*made(), POOLS, resamples=20, tower="<b>other", corpus="second")
    figure: Any = averaging_matrix([gains, other]).figure
    high, low = figure.data
    found = gains.frame[(gains.frame["metric"] == "gain over mean R@1") & (gains.frame["direction"] == "i2t")]
    value = found[found["pool"] == "LRL"]["value"].item()
    assert list(low.z[0]) == [pytest.approx(value), None]
    assert high.text[0][1] == ""
    assert list(high.y) == ["toy", "&lt;b&gt;other"]
    over_best: Any = averaging_matrix([gains], against="best").figure
    assert over_best.data[1].z[0][0] < value
    with pytest.raises(InputError, match="came twice"):
        averaging_matrix([gains, gains])
    with pytest.raises(InputError, match="'mean' or 'best'"):
        averaging_matrix([gains], against="worst")


def test_bad_input_is_named() -> None:
    embeddings, images = made()
    cases: list[tuple[Any, str]] = [
        (lambda: average_languages(embeddings, images, {}), "at least one pool"),
        (lambda: average_languages(embeddings, images, {"one": ["en"]}), "'one' has 1 language"),
        (lambda: average_languages(embeddings, images, {"x": ["en", "ko"]}), "no embeddings in 'ko'"),
        (lambda: average_languages(embeddings, images[:-1], POOLS), "and the gallery"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()


def test_a_tower_is_averaged_on_its_own_corpus(get_tower: Any) -> None:
    corpus = load_corpus("emoji-36", ["en", "de", "sw", "te"], limit=100)
    found = average_tower(get_tower("emoji-causal"), corpus, {"LRL": ["sw", "te"]}, resamples=20, progress=False)
    gain = found.frame[(found.frame["metric"] == "gain over mean R@1") & (found.frame["direction"] == "i2t")]
    assert gain["value"].item() > 5


def test_pairs_are_the_plain_average_of_two_against_the_target_alone() -> None:
    generator = np.random.default_rng(0)
    images = generator.standard_normal((40, 12))
    noise = {"en": 0.3, "sw": 1.5, "te": 3.0}
    texts = {code: images + scale * generator.standard_normal((40, 12)) for code, scale in noise.items()}
    answer = averaging_pairs(texts, images, resamples=50)
    assert len(answer.table) == 3 * 2 * 2
    unit = {code: rows / np.linalg.norm(rows, axis=1, keepdims=True) for code, rows in {**texts, "v": images}.items()}
    (row,) = answer.table.query("source == 'en' and target == 'te' and direction == 't2i'").to_dict("records")
    both = unit["en"] + unit["te"]
    hits = [100 * ((rows @ unit["v"].T).argmax(1) == np.arange(40)).mean() for rows in (both, unit["te"])]
    assert (row["average"], row["own"]) == pytest.approx(tuple(hits))
    assert row["value"] == pytest.approx(hits[0] - hits[1])
    assert row["low"] <= row["value"] <= row["high"]
    assert answer.name == "averaging-matrix"
    with pytest.raises(InputError, match="a pair needs two"):
        averaging_pairs({"en": texts["en"]}, images)
