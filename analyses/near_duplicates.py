"""Images that may be one image: pairs by the cosine of their embeddings, side by side for a person to judge (S0-34).

A triplet whose wrong answers show the right picture counts against a tower for nothing. An embedding finds candidates;
whether "another moment of the same scene" is a duplicate only a person can say, so the page has both pictures of a
pair, their ids and their cosine, closest first, and decides nothing.
"""

import base64
import html
import io
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from PIL.Image import Image

from analyses.base import Analysis
from probes.modality_gap import unit_rows
from workbench.arrays import ArrayLike, as_matrix
from workbench.errors import InputError
from workbench.files import write_atomically

THRESHOLD = 0.95
MOST = 200
_SIDE = 224  # pixels of the longer side of a picture on the page
_BLOCK = 1024  # rows whose similarities are held at once


def near_duplicates(
    embeddings: ArrayLike, ids: Sequence[str], *, threshold: float = THRESHOLD, most: int = MOST
) -> Analysis:
    """List the pairs of images whose embeddings have a cosine at or above a threshold, closest first.

    Parameters
    ----------
    embeddings : array of shape (image, d)
        Of any length.
    ids : sequence of str
    threshold : float
        Above -1 and at most 1.
    most : int
        Pairs to keep; the caption says how many there are.

    Raises
    ------
    InputError
        If ids do not match, a row is zero or not finite, or the threshold is out of range.
    """
    rows = as_matrix(embeddings, "embeddings", minimum_rows=2)
    if len(ids) != len(rows):
        raise InputError(f"{len(ids)} ids came for {len(rows)} images; give one an image.")
    if not -1 < threshold <= 1:
        raise InputError(f"A threshold of {threshold} came; a cosine above -1 and at most 1 is needed.")
    if most < 1:
        raise InputError(f"most={most} came; keep one pair or more.")
    units = unit_rows(rows, "images")
    found: list[tuple[float, int, int]] = []
    total = 0
    for start in range(0, len(units), _BLOCK):
        cosines = units[start : start + _BLOCK] @ units.T
        # Equal rows pair at a threshold of 1, where rounding leaves their cosine a little short of it.
        above = np.argwhere(cosines >= threshold - 1e-12)
        pairs = [(int(start + row), int(other)) for row, other in above if start + row < other]
        total += len(pairs)
        found += [(min(float(cosines[one - start, other]), 1.0), one, other) for one, other in pairs]
        found = sorted(found, key=lambda pair: (-pair[0], pair[1:]))[:most]
    records = [{"first": ids[one], "second": ids[other], "cosine": cosine} for cosine, one, other in found]
    table = pd.DataFrame(records, columns=["first", "second", "cosine"])
    finding = f"{total:,} pairs of {len(rows):,} images have a cosine of {threshold:g} or more."
    caption = (
        f"{finding} The {len(table):,} closest are in the table and on the page near-duplicates.html, side by side. "
        "A high cosine is no proof: only a person can say whether two pictures are one."
    )
    return Analysis(
        "near-duplicates", f"Near-duplicate images (n = {len(rows):,} images)", table, None, caption, finding
    )


def write_review(pairs: Analysis, open_image: Callable[[str], Image], path: Path) -> Path:
    """Write the page on which a person looks at each pair.

    Parameters
    ----------
    pairs : Analysis
        Of :func:`near_duplicates`.
    open_image : callable
        From an id to its picture.
    path : Path
    """
    shown: dict[str, str] = {}

    def picture(image_id: str) -> str:
        if image_id not in shown:
            small = open_image(image_id).convert("RGB")
            small.thumbnail((_SIDE, _SIDE))
            buffer = io.BytesIO()
            small.save(buffer, "JPEG", quality=80)
            shown[image_id] = base64.b64encode(buffer.getvalue()).decode()
        name, source = html.escape(image_id), f"data:image/jpeg;base64,{shown[image_id]}"
        return f'<figure><img alt="{name}" src="{source}"><figcaption>{name}</figcaption></figure>'

    parts = [
        f"<li>{picture(str(row['first']))}{picture(str(row['second']))}<p>cosine {row['cosine']:.4f}</p></li>"
        for row in pairs.table.to_dict("records")
    ]
    style = (
        "body{font:16px/1.5 sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}li{display:flex;gap:1rem;"
        "align-items:center;margin:1rem 0;flex-wrap:wrap}figure{margin:0;max-width:14rem;overflow-wrap:anywhere}"
        "img{max-width:100%}"
    )
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(pairs.title)}</title>'
        f"<style>{style}</style><h1>{html.escape(pairs.title)}</h1><p>{html.escape(pairs.caption)}</p>"
        f"<ol>{''.join(parts)}</ol></html>\n"
    )
    write_atomically(path, page.encode())
    return path
