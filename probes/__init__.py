"""Numbers read off rows or embeddings; they change nothing. One file a measure."""

from typing import TYPE_CHECKING

from workbench._lazy import lazy_exports

if TYPE_CHECKING:
    from probes.language_classifier import LanguageProbe, probe_language

__all__ = ["LanguageProbe", "probe_language"]
__getattr__, __dir__ = lazy_exports(
    __name__,
    {"LanguageProbe": "probes.language_classifier", "probe_language": "probes.language_classifier"},
)
