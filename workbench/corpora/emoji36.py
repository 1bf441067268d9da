"""``emoji-36``: the corpus that comes with the bench. Its card is ``builtin/emoji-36/README.md``.

An emoji's caption is its CLDR name. The gallery is the Twemoji drawing. An emoji without a name in one of
the languages that were asked for is left out, as the card says, and counted.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

import pyarrow.parquet as pq
from PIL.Image import Image

from workbench.builtin import CORPUS_FILE, DRAWS_FILE
from workbench.corpora.base import Corpus, choose_languages, keep_complete
from workbench.corpora.images import open_image
from workbench.errors import InputError
from workbench.languages import XM3600_LANGUAGES

DRAWINGS = ("twemoji", "noto")


def load_emoji36(
    languages: Iterable[str] | None = None, *, drawing: str = "twemoji", with_keywords: bool = False
) -> Corpus:
    """Load the built-in corpus.

    Parameters
    ----------
    languages : iterable of str, optional
        Of the 36 codes; all of them by default. The more languages, the fewer emoji have a name in each:
        1,911 in English, 1,301 in all 36.
    drawing : {"twemoji", "noto"}
        Whose drawings are the gallery. The built-in towers are scored on Twemoji.
    with_keywords : bool
        Give each emoji a second caption made of its keywords, where every language has some. The protocol
        "all" then ranks both.

    Returns
    -------
    Corpus
    """
    if drawing not in DRAWINGS:
        raise InputError(f"emoji-36 has no drawing {drawing!r}. Drawings: {', '.join(DRAWINGS)}.")
    wanted = XM3600_LANGUAGES
    if languages is not None:
        wanted = choose_languages("emoji-36", languages, XM3600_LANGUAGES, {})
    columns = ["id", drawing, *(f"name_{language}" for language in wanted)]
    columns += [f"keywords_{language}" for language in wanted] if with_keywords else []
    table = pq.read_table(CORPUS_FILE, columns=columns)
    ids = table["id"].to_pylist()
    captions: dict[str, list[tuple[str, ...]]] = {
        language: [(name,) if name else () for name in table[f"name_{language}"].to_pylist()] for language in wanted
    }
    rows, left_out = keep_complete("emoji-36", ids, captions, drop_incomplete=True)
    if with_keywords:
        keywords = {language: table[f"keywords_{language}"].to_pylist() for language in wanted}
        both = {row for row in rows if all(keywords[language][row] for language in wanted)}
        for language in wanted:
            for row in both:
                captions[language][row] += (", ".join(keywords[language][row]),)
    pictures = {ids[row]: table[drawing][row]["bytes"].as_py() for row in rows}

    def open_one(image_id: str) -> Image:
        return open_image(pictures[image_id], f"drawing of {image_id}")

    def hash_one(image_id: str) -> str:
        return hashlib.sha256(pictures[image_id]).hexdigest()

    drawn = _draws()
    return Corpus(
        name="emoji-36",
        image_ids=tuple(ids[row] for row in rows),
        captions={language: tuple(captions[language][row] for row in rows) for language in wanted},
        open_image=open_one,
        licence="names and keywords Unicode-3.0, Twemoji CC-BY-4.0, Noto Emoji Apache-2.0",
        description="Emoji named in 36 languages by Unicode CLDR, drawn by Twemoji and Noto",
        image_hash=hash_one,
        drawn={language: tuple(drawn[language][row] for row in rows) for language in wanted},
        left_out=left_out,
    )


@lru_cache(maxsize=1)
def _draws() -> dict[str, list[int]]:
    return pq.read_table(DRAWS_FILE).to_pydict()
