"""The patch browser: single captions, before and after.

A mean hides what happens to a caption. The browser shows, for a seeded sample of images that is the same in
every language, the five nearest images of the frozen tower and those after a patch, with the rank of the
right one. The sample is drawn blindly: nothing is picked because it looks good.
"""

import base64
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL.Image import Image, Quantize, Resampling

from analyses.theme import depth_name, language_name
from workbench.corpora.base import Corpus
from workbench.errors import InputError
from workbench.intervention import Intervention
from workbench.retrieval import Ranks
from workbench.splits import generator as seeded
from workbench.sweep_frame import LanguageCell, SweepSettings
from workbench.sweeps import TOP, SweepResult

# Of all thumbnails together, so that a report stays well below what mail carries; base64 adds a third.
BUDGET = 2_500_000
# Of entries in the lists of nearest images, for the same reason.
_MOST_ENTRIES = 300_000
# Tried in this order until the thumbnails fit: side in pixels, colours (0: all).
_SIZES = ((64, 0), (64, 64), (48, 64), (32, 32), (24, 16))


@dataclass(frozen=True)
class BrowserData:
    """Everything that the browser of a report shows.

    Attributes
    ----------
    content : mapping
        JSON-like; ``browser.js`` reads it.
    thumbnails : mapping of int to str
        Row of an image in the corpus to its picture, as a ``data:`` URL. Each picture is there once.
    note : str
        How the captions were chosen, in words.
    """

    content: Mapping[str, Any] = field(repr=False)
    thumbnails: Mapping[int, str] = field(repr=False)
    note: str

    def to_json(self) -> dict[str, Any]:
        """Return all of it as one JSON-like mapping."""
        return {**self.content, "thumbnails": {str(row): url for row, url in self.thumbnails.items()}}


def patch_browser(result: SweepResult, corpus: Corpus, *, captions: int = 24, seed: int = 0) -> BrowserData:
    """Gather what the browser shows.

    Parameters
    ----------
    result : SweepResult
    corpus : Corpus
        The corpus that was swept, the same images in the same order.
    captions : int
        How many images are drawn at most: fewer where the corpus has fewer, or where the sweep is so large
        that the page would be too heavy. Of each, its first caption is shown.
    seed : int
        Of the draw.

    Raises
    ------
    InputError
        If nothing is to be drawn, or the corpus is not the one that was swept.
    """
    if captions < 1:
        raise InputError(f"captions={captions} came; the browser needs at least 1.")
    if not result.cells:
        raise InputError("The sweep has no language, so there is nothing to browse.")
    settings, n = result.settings, len(corpus)
    for language, cell in result.cells.items():
        _check_cell(corpus, language, cell, settings)
    cells = len(result.cells) * len(settings.interventions) * len(settings.depths)
    captions = min(captions, n, max(1, _MOST_ENTRIES // (cells * TOP)))
    drawn = np.sort(seeded(seed, 5).permutation(n)[:captions])
    languages, used = {}, set(map(int, drawn))
    for language, cell in result.cells.items():
        languages[language], rows = _language(corpus, language, cell, settings, drawn)
        used |= rows
    sources = list(dict.fromkeys(source for i in settings.interventions for source in i.sources))
    naming = next((code for code in [*sources, *corpus.languages] if code in corpus.languages), "")
    first = _first_shown(settings)
    content = {
        "n_images": n,
        "image_rows": [int(row) for row in drawn],
        "image_ids": [corpus.image_ids[row] for row in drawn],
        "languages": languages,
        "captions": {
            code: [corpus.captions[code][row][0] for row in drawn]
            for code in dict.fromkeys([*result.cells, *sources])
            if code in corpus.languages
        },
        "language_names": {code: language_name(code) for code in dict.fromkeys([*result.cells, *sources])},
        "image_names": {str(row): _short(corpus.captions[naming][row][0]) for row in sorted(used)},
        "image_names_language": naming,
        "interventions": [
            {"name": i.name, "sources": list(i.sources), "does": _first_sentence(i)} for i in settings.interventions
        ],
        "depths": [{"depth": depth, "name": depth_name(depth)} for depth in settings.depths],
        "last_depth": settings.n_blocks,
        "first": first,
    }
    note = (
        f"{len(drawn)} of {n:,} images, drawn blindly with seed {seed} and the same in every language; no "
        "caption was picked for what it shows. Of each image, its first caption is shown."
    )
    return BrowserData(content, _thumbnails(corpus, sorted(used)), note)


def _language(
    corpus: Corpus, language: str, cell: LanguageCell, settings: SweepSettings, drawn: np.ndarray
) -> tuple[dict[str, Any], set[int]]:
    """Return what the browser shows of one language, and the rows of the images in it."""
    _, owner = corpus.texts(language, settings.protocol)
    # Row of each image's first caption among all captions.
    first = np.searchsorted(owner, drawn)
    clean_top = cell.arrays["clean_top"][first]
    patched_top = cell.arrays["patched_top"][:, :, first]
    ranks = {}
    for direction, own in (("t2i", first), ("i2t", drawn)):
        ranks[direction] = {
            "clean": _rank_texts(cell.clean(direction), own),
            "patched": _rank_texts(cell.patched(direction), own),
        }
    shown = {
        "clean_top": clean_top.tolist(),
        # Nested as intervention, depth, caption, place.
        "patched_top": patched_top.tolist(),
        "ranks": ranks,
        "captions_ranked": len(owner),
    }
    return shown, set(np.unique(clean_top).tolist()) | set(np.unique(patched_top).tolist())


def _rank_texts(ranks: Ranks, own: np.ndarray) -> list[Any]:
    """Return ranks as numbers, or as ``"3–5"`` where the target ties with others."""
    better, tied = ranks.better[..., own], ranks.tied[..., own]
    texts = np.empty(better.shape, dtype=object)
    for place in np.ndindex(better.shape):
        low, more = int(better[place]) + 1, int(tied[place])
        texts[place] = f"{low}–{low + more}" if more else low
    return texts.tolist()


def _check_cell(corpus: Corpus, language: str, cell: LanguageCell, settings: SweepSettings) -> None:
    if language not in corpus.languages:
        raise InputError(
            f"{corpus.name!r} has no captions in {language!r}, which was swept. Give the corpus of the sweep."
        )
    texts, _ = corpus.texts(language, settings.protocol)
    swept = {
        "images": (cell.arrays["clean_i2t_better"].shape[-1], len(corpus)),
        "captions": (cell.arrays["clean_t2i_better"].shape[-1], len(texts)),
    }
    for what, (there, here) in swept.items():
        if there != here:
            raise InputError(
                f"The sweep ranked {there} {what} in {language!r}, and {corpus.name!r} has {here}. Give the "
                "corpus of the sweep, with the same limit."
            )


def _first_shown(settings: SweepSettings) -> dict[str, int]:
    """Return where the browser opens: the first intervention, at the depth nearest to N-3, first image."""
    checkpoint = min(settings.depths, key=lambda depth: (abs(depth - settings.n_blocks + 3), depth))
    sources = {source for i in settings.interventions for source in i.sources}
    others = [place for place, code in enumerate(settings.languages) if code not in sources]
    return {
        "language": others[0] if others else 0,
        "intervention": 0,
        "depth": settings.depths.index(checkpoint),
        "caption": 0,
    }


def _first_sentence(intervention: Intervention) -> str:
    """Return what a rule says about itself, without the references in brackets."""
    text = (type(intervention).__doc__ or "").strip().split("\n")[0]
    return text.split(" (")[0].rstrip(".") + "." if text else ""


def _short(text: str, most: int = 90) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _thumbnails(corpus: Corpus, rows: Iterable[int]) -> dict[int, str]:
    """Return the pictures at the best quality whose sum fits the budget."""
    rows = list(rows)
    files: dict[int, bytes] = {}
    for side, colours in _SIZES:
        files, total = {}, 0
        for row in rows:
            files[row] = _png(corpus.open_image(corpus.image_ids[row]), side, colours)
            total += len(files[row])
            if total > BUDGET and (side, colours) != _SIZES[-1]:
                break
        if total <= BUDGET:
            break
    return {row: f"data:image/png;base64,{base64.b64encode(file).decode()}" for row, file in files.items()}


def _png(image: Image, side: int, colours: int) -> bytes:
    small = image.convert("RGB")
    small.thumbnail((side, side), Resampling.LANCZOS)
    if colours:
        small = small.quantize(colours, Quantize.MEDIANCUT)
    buffer = io.BytesIO()
    small.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()
