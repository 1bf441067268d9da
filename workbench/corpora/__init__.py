"""Corpora: images with parallel captions, one loader a benchmark."""

from typing import TYPE_CHECKING

from workbench._lazy import lazy_exports

if TYPE_CHECKING:
    from workbench.corpora.base import Corpus
    from workbench.corpora.check import CorpusReport, check_corpus, render_report
    from workbench.corpora.choices import ChoiceCorpus
    from workbench.corpora.classification import ClassificationCorpus
    from workbench.corpora.loading import corpus_languages, load_benchmark, load_corpus
    from workbench.corpora.subsets import Subset
    from workbench.corpora.triplets import Triplet, TripletCorpus

_EXPORTS = {
    "ChoiceCorpus": "workbench.corpora.choices",
    "ClassificationCorpus": "workbench.corpora.classification",
    "Corpus": "workbench.corpora.base",
    "CorpusReport": "workbench.corpora.check",
    "Subset": "workbench.corpora.subsets",
    "Triplet": "workbench.corpora.triplets",
    "TripletCorpus": "workbench.corpora.triplets",
    "check_corpus": "workbench.corpora.check",
    "corpus_languages": "workbench.corpora.loading",
    "load_benchmark": "workbench.corpora.loading",
    "load_corpus": "workbench.corpora.loading",
    "render_report": "workbench.corpora.check",
}
__all__ = [
    "ChoiceCorpus",
    "ClassificationCorpus",
    "Corpus",
    "CorpusReport",
    "Subset",
    "Triplet",
    "TripletCorpus",
    "check_corpus",
    "corpus_languages",
    "load_benchmark",
    "load_corpus",
    "render_report",
]
__getattr__, __dir__ = lazy_exports(__name__, _EXPORTS)
