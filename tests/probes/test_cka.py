import numpy as np
import pytest
import torch
import xarray

from probes import _gram
from probes._checks import UndefinedWarning
from probes._resampling import circle_turns
from probes.cka import cka_by_depth, linear_cka, tier_difference, tier_means
from workbench.arrays import PrecisionWarning
from workbench.errors import InputError

TIERS = {"en": "HRL", "de": "HRL", "fr": "HRL", "sw": "LRL", "te": "LRL"}


def gaussians(n, d, seed=0, count=2):
    return np.random.default_rng(seed).standard_normal((count, n, d))


def trajectory(n=60, d=8, depths=3, seed=0):
    """HRL rows share their content, LRL rows drown it in noise of their own, more so as depth grows."""
    generator = np.random.default_rng(seed)
    content = generator.standard_normal((n, d))
    noise = generator.standard_normal((len(TIERS), n, depths, d))
    size = np.array([[0.2 * (k + 1) if tier == "HRL" else k + 1 for k in range(depths)] for tier in TIERS.values()])
    values = content[None, :, None] + size[:, None, :, None] * noise
    coords = {"language": list(TIERS), "depth": [0, 2, 4][:depths]}
    return xarray.DataArray(values, dims=("language", "caption", "depth", "feature"), coords=coords)


def naive(x, y, debiased):
    """The textbook: centred Gram matrices, or U-centred ones (Székely & Rizzo 2014)."""
    k, m = x @ x.T, y @ y.T
    n = len(k)
    if not debiased:
        centring = np.eye(n) - 1 / n
        k, m = centring @ k @ centring, centring @ m @ centring
    else:
        for gram in (k, m):
            np.fill_diagonal(gram, 0)
            rows, columns, total = gram.sum(1, keepdims=True), gram.sum(0, keepdims=True), gram.sum()
            gram += total / ((n - 1) * (n - 2)) - rows / (n - 2) - columns / (n - 2)
            np.fill_diagonal(gram, 0)
    return (k * m).sum() / np.sqrt((k * k).sum() * (m * m).sum())


@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize(("n", "d", "e"), [(12, 40, 40), (80, 5, 5), (30, 9, 17)])
def test_it_is_the_textbook_formula_on_both_routes(n, d, e, debiased):
    x = gaussians(n, d, 1, 1)[0] + 3.0
    y = x @ gaussians(d, e, 2, 1)[0] + gaussians(n, e, 3, 1)[0]
    assert linear_cka(x, y, debiased=debiased) == pytest.approx(naive(x, y, debiased), abs=1e-12)


@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize(("n", "d"), [(40, 90), (90, 12)])
def test_rotation_scale_and_shift_change_nothing(n, d, debiased):
    x = gaussians(n, d, count=1)[0]
    rotation, _ = np.linalg.qr(gaussians(d, d, 5, 1)[0])
    assert linear_cka(x, x, debiased=debiased) == pytest.approx(1, abs=1e-12)
    assert linear_cka(x, 7.5 * x @ rotation + 100, debiased=debiased) == pytest.approx(1, abs=1e-9)
    y = x + gaussians(n, d, 6, 1)[0]
    turned = linear_cka(-3 * x @ rotation - 5, y, debiased=debiased)
    assert turned == pytest.approx(linear_cka(x, y, debiased=debiased), abs=1e-9)
    assert turned == pytest.approx(linear_cka(y, x, debiased=debiased), abs=1e-9)
    # A linear map that is no rotation does change it, so the above can fail.
    assert linear_cka(x, x * np.geomspace(1, 1000, d), debiased=debiased) < 0.9


def test_independent_rows_are_alike_for_the_biased_form_only():
    """At n = 50 and d = 768 one debiased value scatters with sd sqrt(2)/n = 0.03, so the mean of 40 is tested."""
    pairs = [gaussians(50, 768, seed) for seed in range(40)]
    biased = np.array([linear_cka(x, y) for x, y in pairs])
    debiased = np.array([linear_cka(x, y, debiased=True) for x, y in pairs])
    assert biased.min() > 0.9
    assert abs(debiased.mean()) < 0.015
    assert debiased.std() == pytest.approx(np.sqrt(2) / 50, rel=0.3)
    assert (abs(debiased) < 0.05).mean() > 0.85


@pytest.mark.parametrize(("n", "d", "published"), [(1000, 1024, 0.507), (1000, 1152, 0.536)])
def test_the_bias_is_that_of_the_papers_sizes(n, d, published):
    x, y = gaussians(n, d)
    assert linear_cka(x, y) == pytest.approx(published, abs=0.003)
    assert linear_cka(x, y, debiased=True) == pytest.approx(0, abs=0.01)


def test_debiased_values_may_be_negative_and_are_no_nan():
    values = [linear_cka(*gaussians(10, 30, seed), debiased=True) for seed in range(20)]
    assert np.isfinite(values).all()
    assert min(values) < 0


def test_every_pair_and_depth_is_that_of_the_plain_function():
    rows = trajectory()
    result = cka_by_depth(rows, permutations=3, groups=4)
    assert result.languages == tuple(TIERS)
    assert (result.depths, result.n, result.d) == ((0, 2, 4), 60, 8)
    for k in range(3):
        for a in range(5):
            for b in range(5):
                x, y = rows.values[a, :, k], rows.values[b, :, k]
                assert result.biased[k, a, b] == pytest.approx(linear_cka(x, y), abs=1e-12)
                assert result.debiased[k, a, b] == pytest.approx(linear_cka(x, y, debiased=True), abs=1e-12)


@pytest.mark.parametrize("n", [20, 21])
@pytest.mark.parametrize("small", [False, True])
def test_all_turns_at_once_are_the_turns_one_by_one(n, small, monkeypatch):
    if small:  # many blocks of diagonals, many bands
        monkeypatch.setattr(_gram, "_STRIP", 1)
        monkeypatch.setattr(_gram, "_BAND", 3)
    rows = gaussians(n, 7, count=3)
    found = _gram.turned_products(rows)
    for turn in range(n):
        for a in range(3):
            for b in range(3):
                x, y = rows[a] - rows[a].mean(0), np.roll(rows[b] - rows[b].mean(0), -turn, axis=0)
                assert found[turn, a, b] == pytest.approx(np.square(x.T @ y).sum(), rel=1e-10)


@pytest.mark.parametrize("route", ["_by_grams", "_by_covariances"])
def test_taking_a_group_away_is_computing_without_it(route, monkeypatch):
    monkeypatch.setattr(_gram, "_STRIP", 500)  # several strips a group
    monkeypatch.setattr(_gram, "covariances_are_cheaper", lambda *shape: route == "_by_covariances")
    rows = gaussians(23, 6, count=3) + 2
    groups = np.array_split(np.random.default_rng(1).permutation(23), 5)
    whole, without = _gram.products(rows, groups)
    for group, part in zip(groups, without, strict=True):
        kept, _ = _gram.products(np.delete(rows, group, axis=1))
        np.testing.assert_allclose(part.cross, kept.cross, rtol=1e-10)
        np.testing.assert_allclose(part.sizes, kept.sizes, rtol=1e-10)
    centred = rows - rows.mean(1, keepdims=True)
    expected = [[np.square(x.T @ y).sum() for y in centred] for x in centred]
    np.testing.assert_allclose(whole.cross, expected, rtol=1e-10)


def test_the_cheaper_route_is_taken():
    assert _gram.covariances_are_cheaper(2, 1000, 64)
    assert not _gram.covariances_are_cheaper(2, 64, 1000)
    # With many languages there are many more pairs than Gram matrices.
    assert not _gram.covariances_are_cheaper(36, 1000, 512)


def test_the_null_is_chance_and_real_agreement_is_far_above_it():
    result = cka_by_depth(trajectory(), permutations=99)
    for mean in tier_means(result, TIERS, "debiased"):
        assert abs(mean.null).max() < 0.02
    biased = tier_means(result, TIERS, "biased")
    assert min(mean.null.min() for mean in biased) > 0.05
    first = biased[0]
    assert first.pair == ("HRL", "HRL")
    assert (first.value > first.null_high).all()
    assert (first.p == 1 / 100).all()
    # Shuffling once more what is shuffled: p is no longer small everywhere.
    generator = np.random.default_rng(5)
    lone = {code: generator.standard_normal((60, 8)) for code in TIERS}
    assert tier_means(cka_by_depth(lone, permutations=99), TIERS)[1].p[0] > 0.05


@pytest.mark.parametrize("debiased", [False, True])
def test_a_draw_of_the_null_is_cka_of_turned_captions(debiased):
    rows = trajectory(n=21, depths=1)
    result = cka_by_depth(rows, permutations=4, groups=0, seed=2)
    order, turns = circle_turns(21, 4, len(TIERS), 2)
    null = result.null_debiased if debiased else result.null_biased
    assert (turns[:, 0] != turns[:, 3]).all()
    for draw, turn in enumerate(turns):
        x, y = (np.roll(rows.values[k, order, 0], -turn[k], axis=0) for k in (0, 3))
        assert null[draw, 0, 0, 3] == pytest.approx(linear_cka(x, y, debiased=debiased), abs=1e-12)


def test_the_null_of_the_biased_form_is_its_permutation_mean():
    """Over all permutations, the mean of ||XᵀY||² is tr K tr L / (n - 1)."""
    rows = {"en": gaussians(60, 8, 1, 1)[0] * np.arange(1, 9), "sw": gaussians(60, 8, 2, 1)[0]}
    result = cka_by_depth(rows, permutations=400, groups=0)
    x, y = (own - own.mean(0) for own in rows.values())
    k, m = x @ x.T, y @ y.T
    expected = np.trace(k) * np.trace(m) / 59 / np.sqrt((k * k).sum() * (m * m).sum())
    null = result.null_biased[:, 0, 0, 1]
    assert null.mean() == pytest.approx(expected, abs=4 * null.std() / np.sqrt(59))
    assert np.isnan(result.null_biased[:, 0, 0, 0]).all()


def test_tier_means_are_means_over_unordered_pairs():
    result = cka_by_depth(trajectory(), permutations=2)
    means = {mean.pair: mean for mean in tier_means(result, TIERS, "biased")}
    assert [(pair, mean.n_pairs) for pair, mean in means.items()] == [
        (("HRL", "HRL"), 3), (("HRL", "LRL"), 6), (("LRL", "LRL"), 1),
    ]  # fmt: skip
    matrix = result.biased[1]
    assert means["HRL", "HRL"].value[1] == pytest.approx((matrix[0, 1] + matrix[0, 2] + matrix[1, 2]) / 3)
    assert means["HRL", "LRL"].value[1] == pytest.approx(matrix[:3, 3:].mean())
    assert means["LRL", "LRL"].value[1] == pytest.approx(matrix[3, 4])
    value, low, high = tier_difference(result, TIERS, ("HRL", "HRL"), ("HRL", "LRL"), "biased")
    np.testing.assert_allclose(value, means["HRL", "HRL"].value - means["HRL", "LRL"].value)
    assert (low < value).all()
    assert (value < high).all()
    assert (low > 0).all()


def test_the_jackknife_interval_covers_what_a_large_sample_says():
    """An interval of 95 % that covers the truth in 30 samples less than 24 times is too narrow."""
    truth = cka_by_depth(trajectory(8000, depths=1, seed=99), permutations=0, groups=0).debiased[0, 0, 3]
    hits, widths = 0, []
    for seed in range(30):
        result = cka_by_depth(trajectory(100, depths=1, seed=seed), ["en", "sw"], permutations=0)
        mean = tier_means(result, TIERS)[0]
        hits += mean.low[0] <= truth <= mean.high[0]
        widths.append(mean.high[0] - mean.low[0])
    assert hits >= 24
    assert np.mean(widths) < 0.5


def test_the_same_seed_gives_the_same_bytes_and_another_one_another_null():
    first, again, other = (cka_by_depth(trajectory(), permutations=5, seed=seed) for seed in (3, 3, 4))
    assert first.null_biased.tobytes() == again.null_biased.tobytes()
    assert first.without_debiased.tobytes() == again.without_debiased.tobytes()
    assert first.null_biased.tobytes() != other.null_biased.tobytes()
    assert first.biased.tobytes() == other.biased.tobytes()


def test_parts_of_a_trajectory_and_plain_arrays_give_the_same():
    rows = trajectory()
    part = cka_by_depth(rows, ["sw", "en"], depths=[4, 0], permutations=0)
    plain = {code: torch.tensor(rows.sel(language=code).values) for code in TIERS}
    named = cka_by_depth(plain, ["sw", "en"], depths=[0, 2, 4], permutations=0)
    assert part.depths == (4, 0)
    np.testing.assert_array_equal(part.biased[0], named.biased[2])
    one = cka_by_depth(rows.sel(depth=2).transpose("feature", "language", "caption"), permutations=0)
    assert one.depths == (2,)
    np.testing.assert_array_equal(one.biased[0], cka_by_depth(rows, permutations=0).biased[1])


def test_a_depth_where_a_language_has_one_row_only_is_nan_and_said_so():
    rows = trajectory()
    rows.values[1, :, 0] = rows.values[1, 0, 0]
    with pytest.warns(UndefinedWarning, match="CKA of 'de' at depth 0 is undefined"):
        result = cka_by_depth(rows, permutations=2)
    assert np.isnan(result.biased[0, 1]).all()
    assert np.isnan(result.debiased[0, :, 1]).all()
    assert np.isfinite(result.biased[0, 0, 2:]).all()
    assert np.isfinite(result.biased[1:]).all()
    means = tier_means(result, TIERS)
    assert np.isnan(means[0].value[0])
    assert np.isnan(means[0].p[0])
    assert np.isfinite(means[2].value[0])


def test_half_precision_is_said_once():
    with pytest.warns(PrecisionWarning, match="float16") as seen:
        cka_by_depth(trajectory().astype(np.float16), permutations=0)
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.values, r"An array of shape \(5, 60, 3, 8\) came, which does not say"),
        (lambda rows: rows.rename(caption="row"), "A DataArray with dimensions"),
        (lambda rows: rows.sel(language=["en"]), "1 language came; this needs 2"),
        (lambda rows: rows.isel(caption=slice(3)), "3 captions a language came; this needs 4"),
        (lambda rows: rows.where(rows.depth != 2), r"'en' at depth 2 holds NaN or infinity: 480 of 480"),
        (lambda rows: {"en": np.ones((5, 2)), "sw": np.ones((4, 2))}, r"'sw' have shape \(4, 2\) and those of 'en'"),
        (lambda rows: {"en": np.ones(5), "sw": np.ones(5)}, r"'en' have shape \(5,\)"),
        (lambda rows: {}, "No language came"),
    ],
)
def test_bad_input_is_named(change, message):
    with pytest.raises(InputError, match=message):
        cka_by_depth(change(trajectory()))


def test_unknown_names_are_named():
    rows = trajectory()
    with pytest.raises(InputError, match=r"no language 'swa'. Did you mean 'sw'\?"):
        cka_by_depth(rows, ["en", "swa"])
    with pytest.raises(InputError, match=r"no depth 3\. It has: 0, 2, 4"):
        cka_by_depth(rows, depths=[3])
    with pytest.raises(InputError, match="came twice"):
        cka_by_depth(rows, ["en", "en"])
    with pytest.raises(InputError, match="permutations=-1"):
        cka_by_depth(rows, permutations=-1)
    result = cka_by_depth(rows, permutations=0)
    with pytest.raises(InputError, match="The tier map lacks sw, te"):
        tier_means(result, {"en": "HRL", "de": "HRL", "fr": "HRL"})
    with pytest.raises(InputError, match="'biased' or 'debiased'"):
        tier_means(result, TIERS, "unbiased")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="no pair of languages of the tiers 'HRL' and 'MRL'"):
        tier_difference(result, TIERS, ("HRL", "MRL"), ("HRL", "LRL"))
    with pytest.raises(InputError, match="x has 5 rows and y 6"):
        linear_cka(np.eye(5), np.eye(6))
    with pytest.raises(InputError, match="All rows of y are the same"):
        linear_cka(np.eye(5), np.ones((5, 5)))


def test_rows_that_are_all_equally_far_apart_have_no_debiased_cka():
    """Its own HSIC is 0 there, and a share of rounding errors would be any number."""
    corners = np.eye(12)
    other = np.random.default_rng(0).standard_normal((12, 12))
    with pytest.warns(UndefinedWarning, match="Debiased CKA of 'a' at depth 0"):
        found = cka_by_depth({"a": corners, "b": other}, permutations=0, groups=0)
    assert np.isnan(found.debiased[0, 0]).all()
    assert found.debiased[0, 1, 1] == 1
    assert np.isfinite(found.biased).all()
