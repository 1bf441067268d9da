import warnings

import numpy as np
import pytest
import torch
import xarray

from workbench.arrays import (
    PrecisionWarning,
    as_array,
    as_labels,
    as_matrix,
    check_rows,
    constant_columns,
)
from workbench.errors import InputError

ROWS = [[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]]


@pytest.mark.parametrize(
    "values",
    [
        np.array(ROWS, dtype=np.float32),
        np.array(ROWS, dtype=np.int64),
        torch.tensor(ROWS, requires_grad=True),
        xarray.DataArray(np.array(ROWS), dims=("caption", "feature")),
        ROWS,
    ],
    ids=["float32", "integers", "tensor that needs a gradient", "DataArray", "lists"],
)
def test_whatever_comes_leaves_as_float64(values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matrix = as_matrix(values, "rows")
    assert type(matrix) is np.ndarray
    assert matrix.dtype == np.float64
    assert matrix.tolist() == ROWS


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.array(ROWS, dtype=np.float16), "float16"),
        (torch.tensor(ROWS, dtype=torch.float16), "float16"),
        (torch.tensor(ROWS, dtype=torch.bfloat16), "bfloat16"),
    ],
)
def test_half_precision_is_upcast_and_said_so_where_the_caller_is(values, kind):
    with pytest.warns(PrecisionWarning, match=f"rows came in {kind}.*upcast to float64") as seen:
        assert as_matrix(values, "rows").tolist() == ROWS
    assert seen[0].filename == __file__


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, np.nan], [np.inf, 2.0]], r"rows holds NaN or infinity: 2 of 4 values, the first at \[0, 1\]"),
        ([1.0, 2.0], r"rows has shape \(2,\)"),
        ([[1.0, 2.0]], "rows has 1 rows; 2 or more"),
        (np.ones((3, 0)), "rows has no columns"),
        ([["a", "b"], ["c", "d"]], "not real numbers"),
        (np.ones((2, 2), dtype=complex), "complex128 values, not real numbers"),
        ([[1.0, 2.0], [3.0]], "rows is no array"),
        (np.ones((3, 2)), "rows has 2 columns where 5 are needed"),
    ],
)
def test_what_can_not_be_used_is_named(values, message):
    with pytest.raises(InputError, match=message):
        as_matrix(values, "rows", columns=5 if "5" in message else None)


def test_an_array_of_any_shape_is_checked_too():
    assert as_array(np.ones((2, 3, 4)), "cube").shape == (2, 3, 4)
    with pytest.raises(InputError, match=r"first at \[1, 0, 2\]"):
        as_array(np.where(np.arange(24).reshape(2, 3, 4) == 14, np.nan, 0.0), "cube")


@pytest.mark.parametrize(
    ("labels", "classes", "codes"),
    [
        (["sw", "en", "sw"], ["en", "sw"], [1, 0, 1]),
        (np.array([7, 3, 7]), [3, 7], [1, 0, 1]),
        (torch.tensor([7, 3, 7]), [3, 7], [1, 0, 1]),
        (np.array(["sw", "en", "sw"], dtype=object), ["en", "sw"], [1, 0, 1]),
        (np.array([2.0, 1.0, 2.0]), [1.0, 2.0], [1, 0, 1]),
        ([True, False, True], [False, True], [1, 0, 1]),
    ],
)
def test_labels_become_integers_from_zero(labels, classes, codes):
    found, names = as_labels(labels, 3)
    assert found.tolist() == codes
    assert names.tolist() == classes


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["en", "sw"], {}, r"labels has shape \(2,\) for 3 rows"),
        ([["en"], ["sw"], ["sw"]], {}, "for 3 rows"),
        (["en", None, "sw"], {}, "missing values"),
        (["en", float("nan"), "sw"], {}, "missing values"),
        ([0.5, 1.0, 1.0], {}, "fractions"),
        (["en", "en", "en"], {}, r"1 class \(all are en\); 2 or more"),
        (["en", "sw", "te"], {"minimum_each": 2}, "class en has 1 of 3 rows; each class needs 2"),
    ],
)
def test_bad_labels_are_named(labels, options, message):
    with pytest.raises(InputError, match=message):
        as_labels(labels, 3, **options)


def test_rows_that_do_not_match_are_named():
    check_rows(3, {"rows": np.ones((3, 2)), "images": np.ones((3, 5))})
    with pytest.raises(InputError, match="images has 2 rows where 3 are needed"):
        check_rows(3, {"rows": np.ones((3, 2)), "images": np.ones((2, 5))})


def test_constant_columns_are_found():
    assert constant_columns(np.array([[1.0, 2.0, 3.0], [1.0, 5.0, 3.0]])).tolist() == [0, 2]
