"""Corpora: images with parallel captions, one loader a benchmark."""

from typing import TYPE_CHECKING

from workbench._lazy import lazy_exports

if TYPE_CHECKING:
    from workbench.corpora.base import Corpus
    from workbench.corpora.loading import load_corpus

__all__ = ["Corpus", "load_corpus"]
__getattr__, __dir__ = lazy_exports(
    __name__, {"Corpus": "workbench.corpora.base", "load_corpus": "workbench.corpora.loading"}
)
