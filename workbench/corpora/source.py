"""A benchmark that was found, before it is a corpus: what it has, and how to read one language of it.

Every parallel benchmark ends here, whatever its files look like. Counting images, choosing a subset, leaving
out what was asked to be left out and recording it is then done once, for all.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.corpora.base import Corpus, choose_languages, keep_complete
from workbench.corpora.images import Exif
from workbench.corpora.reading import Faults
from workbench.corpora.stores import Opener, Store, no_image
from workbench.corpora.subsets import RECIPES, Subset, resolve_subset
from workbench.errors import InputError
from workbench.language_codes import Codes

Captions = Sequence[tuple[str, ...]]
"""For each image, its captions in one language; an empty tuple where there is none."""


@dataclass(frozen=True)
class Source:
    """A parallel benchmark in its distributed form.

    Attributes
    ----------
    benchmark : str
        ``"xm3600"``; a user's own corpus goes by its name.
    layout : str
        What was recognised, for a check to say.
    image_ids : tuple of str
        The full list, in the benchmark's order.
    codes : mapping of str to Codes
        Every language, by the bench's code, in the benchmark's order.
    read : callable
        Reads the captions of one language, given the bench's code and where to report faults.
    store : Store, optional
        None for texts without images.
    missing : mapping of str to str
        Ids whose image is not there, and what is wrong where more can be said.
    published : int, optional
        Images that the benchmark has.
    licence, description : str
    exif : {"apply", "ignore"}
        What the benchmark is scored with, unless the caller says otherwise.
    caption_rule : str
    origin : str
        Hub id and revision, if it came from one.
    notes : tuple of str
        What a check should mention and is no fault.
    """

    benchmark: str
    layout: str
    image_ids: tuple[str, ...]
    codes: Mapping[str, Codes]
    read: Callable[[str, Faults], Captions] = field(repr=False)
    store: Store | None = field(repr=False)
    missing: Mapping[str, str] = field(default_factory=dict, repr=False)
    published: int | None = None
    licence: str = "the user's own"
    description: str = ""
    exif: Exif = "apply"
    caption_rule: str = "as stored"
    origin: str = ""
    notes: tuple[str, ...] = ()

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages by the bench's codes."""
        return tuple(self.codes)

    @property
    def noun(self) -> str:
        """What the ids stand for."""
        return "images" if self.store else "texts"


def build_corpus(
    source: Source,
    languages: Iterable[str] | None = None,
    *,
    subset: "str | Iterable[str] | Subset | None" = None,
    drop_incomplete: bool = False,
    exif: Exif | None = None,
    with_images: bool = True,
) -> Corpus:
    """Make the corpus.

    Parameters
    ----------
    source : Source
    languages : iterable of str, optional
        By the bench's, the benchmark's or an alias code; all by default.
    subset : str, iterable of str or Subset, optional
        See :func:`workbench.corpora.subsets.resolve_subset`. Without one, every image of the benchmark must be
        here.
    drop_incomplete : bool
        Leave out images that lack a caption in one of the languages.
    exif : {"apply", "ignore"}, optional
        The benchmark's own by default.
    with_images : bool
        False for a corpus of captions alone, which can be captured and probed where no image is to be had.

    Raises
    ------
    InputError
        If a language is unknown, images are missing and no subset was named, or a caption can't be used.
    """
    wanted = source.languages
    if languages is not None:
        wanted = choose_languages(source.benchmark, languages, source.languages, source.codes)
    missing = source.missing if with_images else {}
    ids, chosen = source.image_ids, None
    if subset is not None:
        chosen = resolve_subset(subset, source.benchmark, ids, [i for i in ids if i not in missing])
        ids = chosen.ids
    elif source.published is not None and len(ids) != source.published:
        raise InputError(
            f"{source.benchmark} has {source.published:,} {source.noun}, and {len(ids):,} are listed here. A smaller "
            "pool inflates every score, so name the subset that you mean: subset='present' (--subset present), or a "
            "file of ids."
        )
    place = {image_id: row for row, image_id in enumerate(source.image_ids)}
    captions = {}
    for language in wanted:
        texts = source.read(language, Faults())
        captions[language] = [texts[place[image_id]] for image_id in ids]
    name = source.benchmark if chosen is None else _name(source.benchmark, chosen)
    rows, left_out = keep_complete(name, ids, captions, drop_incomplete)
    refuse_missing(name, [ids[row] for row in rows], missing)
    store = source.store if with_images else None
    opener = None if store is None else Opener(store, exif or source.exif)
    return Corpus(
        name=name,
        image_ids=tuple(ids[row] for row in rows),
        captions={language: tuple(captions[language][row] for row in rows) for language in wanted},
        open_image=opener.open if opener else no_image,
        licence=source.licence,
        description=source.description,
        image_hash=opener.hash if opener else lambda _: "",
        left_out=left_out,
        codes={language: source.codes[language] for language in wanted},
        subset=chosen,
        exif=(exif or source.exif) if store else "apply",
        text_only=store is None,
        caption_rule=source.caption_rule,
        origin=source.origin,
    )


def _name(benchmark: str, subset: Subset) -> str:
    return subset.label if subset.name in RECIPES else f"{benchmark}:{subset.label}"


def refuse_missing(name: str, ids: Sequence[str], missing: Mapping[str, str]) -> None:
    """Refuse a pool with holes: evaluators that skip an absent image with a warning report a higher score."""
    absent = [image_id for image_id in ids if image_id in missing]
    if not absent:
        return
    if len(absent) == len(ids) > 1:
        raise InputError(
            f"None of the {len(ids):,} images of {name} is here; the first is {absent[0]!r}. {missing[absent[0]]} Put "
            "them where the loader looks, or load the texts alone with with_images=False (--no-images)."
        )
    raise InputError(
        f"{len(absent):,} of the {len(ids):,} images of {name} are not here; the first is {absent[0]!r}. "
        f"{missing[absent[0]]} A smaller pool inflates every score, so complete the folder, or name the subset that "
        "you mean: subset='present' (--subset present), or a file of ids."
    )
