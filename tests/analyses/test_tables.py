import numpy as np
import pandas as pd

from analyses.tables import readable, table_html


def test_value_low_high_become_one_cell() -> None:
    table = pd.DataFrame({"value": [1.25, np.nan], "low": [1.0, np.nan], "high": [2.0, np.nan], "n": [3, 4]})
    assert readable(table).to_dict("list") == {"value": ["1.2 [1.0, 2.0]", "–"], "n": ["3", "4"]}


def test_columns_without_both_ends_stay() -> None:
    assert list(readable(pd.DataFrame({"a": [1.0], "a low": [0.0]})).columns) == ["a", "a low"]


def test_a_number_without_an_interval_shows_no_brackets() -> None:
    table = pd.DataFrame({"a": [1.0], "a low": [np.nan], "a high": [np.nan]})
    assert readable(table)["a"].tolist() == ["1.0"]


def test_html_is_escaped_and_numbers_are_aligned() -> None:
    page = table_html(
        pd.DataFrame({"<i>": ["<script>alert(1)</script>"], "x": [1.0], "depth": pd.array([None], "Int64")})
    )
    assert "<script>" not in page
    assert "&lt;i&gt;" in page
    assert '<td class="number">1.0</td>' in page
    assert '<td class="number">–</td>' in page
    assert page.count('scope="row"') == 1
