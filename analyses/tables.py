"""Tables for reading: a number and the two ends of its interval in one cell, ``73.4 [70.1, 76.5]``."""

import html
import math
from collections.abc import Sequence
from typing import Any

import pandas as pd


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of texts for a terminal or a page.

    Columns ``x``, ``x low`` and ``x high``, or ``value``, ``low`` and ``high``, become one. Numbers are
    rounded to one decimal, and a missing one is a dash.
    """
    return pd.DataFrame(
        {
            name: [_cell(parts) for parts in zip(*(table[part].tolist() for part in columns), strict=True)]
            for name, columns in interval_columns(table).items()
        },
        dtype=object,
    )


def table_html(table: pd.DataFrame) -> str:
    """Return a readable table as HTML, every text escaped; the first column heads its row."""
    texts = readable(table)
    classes = [' class="number"' if pd.api.types.is_numeric_dtype(table[name]) else "" for name in texts.columns]
    names = zip(texts.columns, classes, strict=True)
    head = "".join(f'<th scope="col"{kind}>{html.escape(str(name))}</th>' for name, kind in names)
    rows = []
    for row in texts.itertuples(index=False):
        cells = [f"<td{kind}>{html.escape(text)}</td>" for text, kind in zip(row, classes, strict=True)]
        first = f'<th scope="row"{classes[0]}>{html.escape(row[0])}</th>'
        rows.append(f"<tr>{first}{''.join(cells[1:])}</tr>\n")
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{''.join(rows)}</tbody>\n</table>"


def interval_columns(table: pd.DataFrame) -> dict[str, list[str]]:
    """Return the columns to show, each with those that it is made of."""
    names = [str(name) for name in table.columns]
    ends = {name: ["low", "high"] if name == "value" else [f"{name} low", f"{name} high"] for name in names}
    whole = [name for name in names if set(ends[name]) <= set(names)]
    swallowed = {end for name in whole for end in ends[name]}
    return {name: [name, *(ends[name] if name in whole else [])] for name in names if name not in swallowed}


def _cell(parts: Sequence[Any]) -> str:
    texts = [_text(part) for part in parts]
    if len(texts) == 3 and "–" not in texts:
        return f"{texts[0]} [{texts[1]}, {texts[2]}]"
    return texts[0]


def _text(value: Any) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:.1f}" if isinstance(value, float) else str(value)
