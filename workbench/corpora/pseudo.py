"""``emoji-pseudo``: English captions under other labels, on which every sound tower is equally good.

A diagnosis is calibrated on towers with a planted fault (:mod:`workbench.towers.planted`). For that, the
languages must differ in nothing but the fault. So each *pseudo-language* has English captions of the emoji of
emoji-36: the name and up to two keywords, in an order of its own. The labels are ``en``, ``ok1`` to ``ok3``
(tier HRL) and ``lo1`` to ``lo3`` (tier LRL); the tier map that fits is ``pseudo``.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace

import pyarrow.parquet as pq

from workbench.builtin import CORPUS_FILE
from workbench.corpora.base import Corpus
from workbench.corpora.emoji36 import load_emoji36
from workbench.languages import tiers

PSEUDO_TIERS = tiers("pseudo")


def load_pseudo(labels: Iterable[str] | None = None, *, keywords: int = 2) -> Corpus:
    """Load the pseudo-languages.

    Parameters
    ----------
    labels : iterable of str, optional
        All seven by default.
    keywords : int
        At most so many beside the name.
    """
    corpus = load_emoji36(["en"])
    table = pq.read_table(CORPUS_FILE, columns=["id", "name_en", "keywords_en"])
    words = dict(zip(table["id"].to_pylist(), table["keywords_en"].to_pylist(), strict=True))
    names = {image_id: corpus.captions["en"][row][0] for row, image_id in enumerate(corpus.image_ids)}

    def caption(image_id: str, label: str) -> str:
        name = names[image_id]
        others = [word for word in words[image_id] or () if word.lower() not in name.lower()]
        chosen = sorted(others, key=lambda word: _draw(image_id, word))[:keywords]
        # The same parts for every label, in an order of its own.
        return ", ".join(sorted([name, *chosen], key=lambda part: _draw(label, image_id, part)))

    captions = {label: tuple((caption(image_id, label),) for image_id in corpus.image_ids) for label in PSEUDO_TIERS}
    whole = replace(
        corpus,
        name="emoji-pseudo",
        captions=captions,
        drawn=None,
        description="English names and keywords of emoji under seven labels, for towers with a planted fault",
    )
    return whole if labels is None else whole.select(labels)


def _draw(*words: str) -> bytes:
    return hashlib.sha256("\0".join(words).encode()).digest()
