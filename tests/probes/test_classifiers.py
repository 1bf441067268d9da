# pyright: reportOperatorIssue=false, reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false
import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import confusion_matrix
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from probes.classifiers import CLASSIFIERS, LINEAR, compare_classifiers, stack_languages, token_count_accuracy
from workbench.errors import InputError
from workbench.splits import split_by_image

N, D = 160, 10


def rows(shift=6.0, languages=("en", "sw", "te"), seed=0):
    generator = np.random.default_rng(seed)
    content = generator.standard_normal((N, D))
    return stack_languages(
        {
            language: content + 0.3 * generator.standard_normal((N, D)) + shift * np.eye(D)[k]
            for k, language in enumerate(languages)
        },
        np.arange(N),
    )


def test_every_classifier_reads_a_planted_language_and_none_reads_what_is_not_there():
    found = compare_classifiers(*rows())
    assert [score.classifier for score in found.scores] == list(CLASSIFIERS)
    for score in found.scores:
        assert score.accuracy > 97
        assert score.low <= score.accuracy <= score.high
        assert abs(score.control - 100 / 3) < 10
        assert score.selectivity == pytest.approx(score.accuracy - score.control)
        assert score.confusion.sum() == found.n_test == 3 * N // 2
        assert np.trace(score.confusion) / found.n_test == pytest.approx(score.accuracy / 100)
    for score in compare_classifiers(*rows(0.0), shuffled=False).scores:
        assert abs(score.accuracy - 100 / 3) < 12
        assert np.isnan(score.control)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("logistic", LogisticRegression(max_iter=1000)),
        ("svm", LinearSVC(max_iter=5000, random_state=0)),
        ("ridge", RidgeClassifier()),
        ("lda", LinearDiscriminantAnalysis()),
        ("knn", KNeighborsClassifier(5)),
    ],
)
def test_answers_are_scikit_learns(name, model):
    x, labels, images = rows(1.2)
    found = compare_classifiers(x, labels, images, classifiers=[name], shuffled=False)
    train, test = split_by_image(images)
    named = model.fit(x[train], labels[train]).predict(x[test])
    np.testing.assert_array_equal(found[name].confusion, confusion_matrix(labels[test], named))
    assert 50 < found[name].accuracy < 100


def test_parallel_captions_never_stand_on_both_sides():
    """Rows that give away the image and nothing of the language: a leaky split would let kNN remember them."""
    generator = np.random.default_rng(0)
    content = 5 * generator.standard_normal((N, D))
    parallel = {language: content + 0.01 * generator.standard_normal((N, D)) for language in ("en", "sw")}
    x, labels, images = stack_languages(parallel, np.arange(N))
    for name in ("knn", "lda"):
        assert abs(compare_classifiers(x, labels, images, classifiers=[name]).scores[0].accuracy - 50) < 12


def test_majority_is_that_of_the_training_side():
    x, labels, images = rows()
    labels = np.where(images % 4 > 0, "en", labels)
    found = compare_classifiers(x, labels, images, classifiers=["ridge"], shuffled=False)
    _, test = split_by_image(images)
    assert found.majority == pytest.approx(100 * (labels[test] == "en").mean())
    assert found.majority > 75
    assert found.chance == pytest.approx(100 / 3)


def test_the_token_count_baseline_is_the_best_table():
    x, labels, images = rows()
    tokens = np.where(labels == "en", 3, np.where(labels == "sw", 5, 4))
    assert compare_classifiers(x, labels, images, classifiers=["ridge"], tokens=tokens).token_count == 100
    same = compare_classifiers(x, labels, images, classifiers=["ridge"], tokens=np.full(len(x), 4))
    assert same.token_count == pytest.approx(100 / 3)
    # Not monotone: the middle count belongs to one class, both ends to the other.
    codes, counts = np.array([0, 1, 0, 0, 1, 0]), np.array([1.0, 2, 3, 1, 2, 9])
    train = np.array([True, True, True, False, False, False])
    assert token_count_accuracy(counts, codes, train, ~train) == 100


def test_memorising_shows_in_the_shuffled_labels():
    generator = np.random.default_rng(0)
    wide = generator.standard_normal((60, 200))
    labels = np.repeat(["en", "sw"], 30)
    found = compare_classifiers(wide, labels, np.tile(np.arange(30), 2), classifiers=["ridge", "knn"])
    assert found["ridge"].memorised == 100
    assert abs(found["ridge"].control - 50) < 30
    assert found["knn"].memorised < 100


def test_same_seed_same_numbers_and_the_frame_has_them():
    first, second = (compare_classifiers(*rows(1.0), classifiers=["lda", "mlp"], seed=3).frame() for _ in range(2))
    assert first.equals(second)
    assert first["classifier"].tolist() == ["lda", "mlp"]
    assert first["linear"].tolist() == [True, False]
    assert (first["n"] == 240).all()
    assert first.loc[0, "selectivity"] == first.loc[0, "accuracy"] - first.loc[0, "shuffled labels"]
    other = compare_classifiers(*rows(1.0), classifiers=["lda"], seed=4).frame()
    assert other.loc[0, "accuracy"] != first.loc[0, "accuracy"]


def test_rows_of_one_image_count_as_one_for_the_interval():
    """Copies of every row change no score and must not narrow its interval."""
    x, labels, images = rows(1.0)
    once = compare_classifiers(x, labels, images, classifiers=["lda"], shuffled=False)["lda"]
    many = compare_classifiers(
        np.tile(x, (4, 1)), np.tile(labels, 4), np.tile(images, 4), classifiers=["lda"], shuffled=False
    )["lda"]
    assert (many.low, many.accuracy, many.high) == pytest.approx((once.low, once.accuracy, once.high))


def test_bad_input_is_named():
    x, labels, images = rows()
    cases = [
        ({"rows": np.where(x == x[0, 0], np.nan, x)}, "rows holds NaN"),
        ({"labels": np.repeat("en", len(x))}, "names 1 class"),
        ({"labels": labels[:-1]}, "for 480 rows"),
        ({"images": images[:-1]}, "images has 479 rows where 480"),
        ({"tokens": np.ones(3)}, "tokens has 3 rows"),
        ({"images": np.zeros(len(x))}, "two images or more"),
        ({"rows": np.ones_like(x)}, "every feature is constant"),
        ({"labels": np.where(np.arange(len(x)) == 0, "zz", labels)}, "each class needs 2 or more"),
        ({"classifiers": ["tree"]}, "There is no classifier 'tree'"),
        ({"classifiers": []}, "Name classifiers"),
        ({"classifiers": "lda"}, "Name classifiers as a list"),
    ]
    for change, message in cases:
        with pytest.raises(InputError, match=message):
            compare_classifiers(**{"rows": x, "labels": labels, "images": images, "classifiers": ["lda"], **change})
    with pytest.raises(InputError, match=r"No score of 'svn' is here. Did you mean 'svm'"):
        compare_classifiers(x, labels, images, classifiers=["svm"], shuffled=False)["svn"]
    assert set(LINEAR) < set(CLASSIFIERS)
