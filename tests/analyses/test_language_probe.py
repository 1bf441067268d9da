from typing import Any

import numpy as np
import pytest

from analyses.language_probe import classifier_accuracies, confusion_figure
from probes.classifiers import ClassifierComparison, compare_classifiers
from workbench.errors import InputError

N = 80


@pytest.fixture(scope="module")
def found() -> ClassifierComparison:
    generator = np.random.default_rng(0)
    content = generator.standard_normal((N, 6))
    rows = np.concatenate([content + 0.5 * generator.standard_normal((N, 6)) + 2 * np.eye(6)[k] for k in (0, 1, 1)])
    labels = np.repeat(["en", "<b>", "te"], N)
    return compare_classifiers(
        rows, labels, np.tile(np.arange(N), 3), classifiers=["logistic", "knn"], tokens=np.repeat([3, 4, 4], N)
    )


def test_accuracies_stand_beside_shuffled_labels_and_baselines(found: ClassifierComparison) -> None:
    answer = classifier_accuracies(found, subject="toy on made")
    figure: Any = answer.figure
    accuracy, shuffled, *levels = figure.data
    assert list(accuracy.x) == [score.accuracy for score in found.scores]
    assert list(shuffled.x) == [score.control for score in found.scores]
    assert [(trace.x[0], trace.line.dash) for trace in levels] == [
        (found.chance, "dash"), (found.token_count, "dot"),
    ]  # fmt: skip
    assert list(figure.layout.yaxis.ticktext) == ["logistic regression", "5 nearest neighbours *"]
    assert "40 held-out images, 3 languages" in answer.title
    assert "toy on made" in answer.caption


def test_rows_of_the_confusion_are_shares_of_a_language(found: ClassifierComparison) -> None:
    answer = confusion_figure(found)
    figure: Any = answer.figure
    np.testing.assert_allclose(np.sum(figure.data[0].z, axis=1), 100)
    assert list(figure.data[0].y) == ["&lt;b&gt;", "en", "te"]
    assert answer.table["captions"].sum() == found.n_test
    own = answer.table[(answer.table["language"] == "te") & (answer.table["named"] == "en")]
    assert own["captions"].item() == found["logistic"].confusion[2, 1]
    with pytest.raises(InputError, match="No score of 'svm'"):
        confusion_figure(found, "svm")
