"""The gallery: the fixed embeddings that captions are ranked against.

For a tower with an image side these are the images. A text-only encoder has none; its gallery is the
captions of one *pivot* language, and "image-to-text" then reads pivot-to-text. Two things follow, and both
are refused rather than scored:

- the pivot's own captions are in the gallery, so that the pivot finds itself;
- a patch that puts the pivot's rows into another language turns its captions into the gallery, by
  construction and not by any property of the encoder.
"""

from collections.abc import Iterable, Sequence

from jaxtyping import Float
from torch import Tensor

from workbench.corpora.base import Corpus
from workbench.errors import InputError
from workbench.intervention import Intervention
from workbench.retrieval import unit
from workbench.towers.base import Tower

IMAGES = "images"


def gallery_name(tower: Tower, corpus: Corpus, pivot: str | None = None) -> str:
    """Return what captions are ranked against: ``"images"``, or such as ``"captions:en"``.

    Parameters
    ----------
    tower : Tower
    corpus : Corpus
    pivot : str, optional
        Language whose captions are the gallery. Needed where the tower or the corpus has no images.

    Raises
    ------
    InputError
        If there are no images and no pivot is named, or the corpus has no such language.
    """
    if pivot is not None:
        return f"captions:{corpus.check_languages([pivot])[0]}"
    if tower.has_images and not corpus.text_only:
        return IMAGES
    without = f"{tower.name!r} is a text-only encoder" if not tower.has_images else f"{corpus.name!r} has no images"
    raise InputError(
        f"{without}, so captions can't be ranked against images. Name a pivot language whose captions are the "
        f"gallery, such as pivot={corpus.languages[0]!r} (--pivot {corpus.languages[0]})."
    )


def pivot_of(gallery: str) -> str | None:
    """Return the language of a gallery of captions, None for one of images."""
    return gallery.partition(":")[2] or None


def check_gallery(gallery: str, languages: Iterable[str], interventions: Sequence[Intervention]) -> None:
    """Refuse what is true by construction where the gallery is a language's captions.

    Raises
    ------
    InputError
        If the pivot is among the languages, or among the sources of an intervention.
    """
    pivot = pivot_of(gallery)
    if pivot is None:
        return
    if pivot in languages:
        raise InputError(
            f"The captions of {pivot!r} are the gallery, so {pivot!r} would be scored against itself. Leave it out of "
            "the languages, or choose another pivot."
        )
    for intervention in interventions:
        if pivot in intervention.sources:
            raise InputError(
                f"{intervention.name!r} puts in rows of {pivot!r}, whose captions are the gallery: the patched caption "
                "becomes its own target, whatever the encoder does. Take the rows from another language "
                "(--source), or choose another pivot (--pivot)."
            )


def embed_gallery(tower: Tower, corpus: Corpus, gallery: str) -> Float[Tensor, "image embedding"]:
    """Embed the gallery, one unit row an image: the image, or its first caption in the pivot language."""
    pivot = pivot_of(gallery)
    if pivot is None:
        return unit(tower.embed_images(corpus), "image embeddings")
    return unit(tower.embed_captions(corpus, pivot), f"{pivot} embeddings")
