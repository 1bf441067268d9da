import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from interventions.erasers import AdversarialEraser
from tests.interventions.erasers.rows import planted
from workbench.errors import InputError


def test_it_takes_a_planted_language_from_its_own_adversary_at_a_price():
    rows, labels = planted(3, each=300, d=8, shift=1.5)
    assert LogisticRegression(max_iter=500).fit(rows, labels).score(rows, labels) > 0.95
    eraser = AdversarialEraser(hidden=64, weight=10.0, steps=600).fit(rows, labels)
    assert eraser.adversary_accuracy_ < 75
    erased = eraser.transform(rows)
    change = np.square(erased - rows).mean() / np.square(rows - rows.mean(axis=0)).mean()
    assert eraser.change_ == pytest.approx(change, rel=1e-4)
    assert 0.05 < change < 2


def test_without_weight_it_leaves_rows_as_they_are():
    rows, labels = planted(3, each=100, d=8)
    eraser = AdversarialEraser(hidden=16, weight=0.0, steps=20).fit(rows, labels)
    np.testing.assert_array_equal(eraser.transform(rows), rows)
    assert eraser.change_ == 0


def test_it_claims_more_than_a_linear_guard():
    assert AdversarialEraser.guards == "nonlinear"
    with pytest.raises(InputError, match="steps=0"):
        AdversarialEraser(steps=0).fit(*planted())
