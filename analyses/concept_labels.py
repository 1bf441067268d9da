"""Several concepts an image, imported: which trials have a wrong answer that shows what was asked for (S0-35).

A picture of a necklace may show a mask too. The published set was screened by a model that listed every concept of an
image, the main one first. Such lists come as JSON, ``{"image id": ["necklace", "mask"]}``; the names are those of the
triplets, in any case.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from workbench.corpora.reading import parse_json
from workbench.corpora.triplets import TripletCorpus
from workbench.errors import InputError, suggest

Labels = Mapping[str, Sequence[str]]


def read_labels(path: str | Path) -> dict[str, list[str]]:
    """Read concepts by image from a JSON file.

    Raises
    ------
    InputError
        If it is no JSON object of lists of texts.
    """
    place = Path(path)
    legal = 'It must map image ids to lists of concepts, such as {"a.jpg": ["necklace", "mask"]}.'
    try:
        content = parse_json(place.read_bytes(), place)
    except OSError:
        raise InputError(f"There are no labels in {str(place)!r}. {legal}") from None
    except InputError as error:
        raise InputError(f"{error} {legal}") from None
    if not isinstance(content, dict) or not content:
        raise InputError(f"The labels {str(place)!r} are no filled JSON object. {legal}")
    for image_id, concepts in content.items():
        if not isinstance(concepts, list) or not all(isinstance(one, str) and one.strip() for one in concepts):
            raise InputError(f"The labels {str(place)!r} give {image_id!r} {str(concepts)[:60]!r}. {legal}")
    return content


def without_shared_concepts(corpus: TripletCorpus, labels: Labels) -> TripletCorpus:
    """Leave out the trials of which a wrong answer shows the query's concept too.

    Parameters
    ----------
    corpus : TripletCorpus
    labels : mapping of str to sequence of str
        By image; an image without an entry shows its own concept alone.

    Returns
    -------
    TripletCorpus
        The rest; ``left_out`` counts the trials that went.

    Raises
    ------
    InputError
        If no image of the trials has a label, or no trial would be left.
    """
    if not set(labels) & set(corpus.image_ids):
        wrong = next(iter(labels), "")
        raise InputError(
            f"No image of {corpus.name!r} has a label: the labels name {wrong!r}, the images are called such as "
            f"{corpus.image_ids[0]!r}.{suggest(str(wrong), corpus.image_ids)}"
        )
    shows = {image_id: {one.strip().casefold() for one in concepts} for image_id, concepts in labels.items()}
    kept = tuple(
        triplet
        for triplet in corpus.triplets
        if not any(
            triplet.query.concept.strip().casefold() in shows.get(wrong.image_id, set())
            for wrong in (triplet.cultural, triplet.unrelated)
        )
    )
    if not kept:
        raise InputError("By these labels every trial has a wrong answer that shows the query's concept; none is left.")
    gone = len(corpus.triplets) - len(kept)
    left_out = {**corpus.left_out, "a wrong answer shows the query's concept too": gone} if gone else corpus.left_out
    return replace(corpus, triplets=kept, left_out=left_out)
