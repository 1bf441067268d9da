"""Find a corpus by name or folder."""

from collections.abc import Iterable
from pathlib import Path

from workbench.corpora.base import Corpus, Protocol, check_protocol
from workbench.errors import InputError, suggest
from workbench.languages import XM3600_LANGUAGES

BUILT_IN = ("emoji-36",)


def corpus_languages(name: str | Path) -> tuple[str, ...]:
    """Return the languages that a corpus has a caption in, without opening its images."""
    if str(name) == "emoji-36":
        return XM3600_LANGUAGES
    if Path(name).exists():
        from workbench.corpora.folder import folder_languages

        return folder_languages(name)
    raise InputError(_unknown(name))


def _unknown(name: str | Path) -> str:
    return (
        f"No corpus is called {str(name)!r}.{suggest(str(name), BUILT_IN)} Give a built-in name "
        f"({', '.join(BUILT_IN)}) or a folder with captions.jsonl."
    )


def load_corpus(
    name: str | Path,
    languages: Iterable[str] | None = None,
    *,
    protocol: Protocol = "first",
    limit: int | None = None,
    drop_incomplete: bool = False,
) -> Corpus:
    """Load a corpus.

    Parameters
    ----------
    name : str or Path
        ``"emoji-36"``, or a folder with ``captions.jsonl`` (:mod:`workbench.corpora.folder`).
    languages : iterable of str, optional
        All languages of the corpus by default.
    protocol : {"first", "all"}
        Whether one caption an image or all of them will be ranked.
    limit : int, optional
        Keep the first ``limit`` images.
    drop_incomplete : bool
        Leave out images that lack a caption in one of the languages.

    Raises
    ------
    InputError
        If there is no such corpus, or something in it can't be used.
    """
    check_protocol(protocol)
    if isinstance(languages, str):
        raise InputError(f"The languages came as one text, {languages!r}. Give a list, such as ['en', 'sw'].")
    wanted = None if languages is None else list(languages)
    if wanted is not None and not wanted:
        raise InputError("No language was chosen. Name at least one, or leave the languages out to take all.")
    if str(name) == "emoji-36":
        from workbench.corpora.emoji36 import load_emoji36

        corpus = load_emoji36(wanted, with_keywords=protocol == "all")
    elif Path(name).exists():
        from workbench.corpora.folder import load_folder

        corpus = load_folder(name, wanted, drop_incomplete=drop_incomplete)
    else:
        raise InputError(_unknown(name))
    return corpus.select(limit=limit)
