"""Babel-ImageNet: the classes of ImageNet named in 93, or 298, languages, by BabelNet (S3-20).

As distributed: ``babel_imagenet.json`` (93 languages) and ``babel_imagenet-298.json``, each ``{CODE: [[class
numbers], [names]]}``, and ``nllb_dist13b_prompts.json``, 80 machine-translated templates in each of 90 languages;
BR, FY and LA have none and are scored with the bare name, as is every language of the long list that lacks
them. Codes are BabelNet's (``TL`` is Filipino, ``ALS`` Alemannic).

The images are the 50,000 of ImageNet's validation set (:mod:`workbench.corpora.imagenet`).

English: the names in the JSON are not OpenAI's, which the paper's own code puts in their place; 470 differ. This
loader takes those of the JSON unless a file with others is given, and the corpus says which.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.corpora.base import choose_languages
from workbench.corpora.classification import BARE, ClassificationCorpus
from workbench.corpora.imagenet import find_imagenet, wnids
from workbench.corpora.images import Exif
from workbench.corpora.reading import Faults, checked_text, parse_json, parse_once
from workbench.corpora.stores import Opener, Store, no_image
from workbench.corpora.subsets import resolve_subset
from workbench.errors import InputError
from workbench.language_codes import Codes, bench_code, codes_of

NAME = "babel-imagenet"
PER_CLASS = 50
LICENCE = "names from BabelNet (non-commercial); images on the terms of ImageNet"
DESCRIPTION = "ImageNet's validation images, their classes named in up to 298 languages"
LABEL_FILES = {"298": "babel_imagenet-298.json", "93": "babel_imagenet.json"}
PROMPT_FILE = "nllb_dist13b_prompts.json"


@dataclass(frozen=True)
class BabelSource:
    """What was found of Babel-ImageNet.

    Attributes
    ----------
    layout : str
    names : mapping of str to (tuple of int, tuple of str)
        Language, by the bench's code, to classes and names.
    prompts : mapping of str to tuple of str
        Language to templates; a language without any is absent.
    codes : mapping of str to Codes
    images : mapping of str to int
        Id to class number.
    store : Store, optional
    per_class : int
        Images that a whole copy has of each class.
    english, origin : str
    """

    layout: str
    names: Mapping[str, tuple[tuple[int, ...], tuple[str, ...]]]
    prompts: Mapping[str, tuple[str, ...]]
    codes: Mapping[str, Codes]
    images: Mapping[str, int] = field(repr=False)
    store: Store | None = field(repr=False)
    per_class: int = PER_CLASS
    english: str = "Babel-ImageNet JSON"
    origin: str = ""

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages by the bench's codes."""
        return tuple(self.codes)

    def short_classes(self, languages: Iterable[str]) -> dict[int, int]:
        """Classes that some languages name and that have too few images, with what they have."""
        counts: dict[int, int] = {}
        for number in self.images.values():
            counts[number] = counts.get(number, 0) + 1
        needed = sorted({number for language in languages for number in self.names[language][0]})
        return {number: counts.get(number, 0) for number in needed if counts.get(number, 0) != self.per_class}


def recognises(place: Path) -> bool:
    """Whether a folder has one of the two lists of names."""
    return any((place / name).is_file() for name in LABEL_FILES.values())


def open_babel_imagenet(
    place: Path | str,
    faults: Faults,
    *,
    release: str | None = None,
    images: str | Path | None = None,
    english: str | Path | None = None,
    split: str | None = None,
    revision: str | None = None,
    per_class: int = PER_CLASS,
) -> BabelSource:
    """Find names, templates and images.

    Parameters
    ----------
    place : Path or str
        Folder with the JSON files.
    faults : Faults
    release : {"93", "298"}, optional
        Which list of names; the long one where both are there, as the paper's own code reads.
    images : str or Path, optional
        ImageNet's validation images: a folder, a data set, or a hub id. Looked for below ``place`` by default.
    english : str or Path, optional
        JSON file ``{"labels": [1,000 names], "templates": [...]}`` to use for English.
    split, revision : str, optional
        Of a data set with the images; ``"validation"`` by default.
    per_class : int
        Images that a whole copy has of each class.
    """
    root = Path(place)
    path = _label_file(root, release)
    names, codes, wrong = parse_once(path, _names)
    faults.extend(wrong)
    prompts: dict[str, tuple[str, ...]] = {}
    if (root / PROMPT_FILE).is_file():
        prompts, wrong = parse_once(root / PROMPT_FILE, _prompts)
        faults.extend(wrong)
    label = "Babel-ImageNet JSON"
    if english is not None:
        own_names, own_prompts = _english(Path(english))
        names, prompts = {**names, "en": own_names}, {**prompts, "en": own_prompts}
        label = Path(english).name
    found, store, origin = find_imagenet(root, images, split, revision)
    return BabelSource(
        f"Babel-ImageNet folder with {path.name}", names, prompts, codes, found, store, per_class, label, origin
    )


def build_classification(
    source: BabelSource,
    languages: Iterable[str] | None = None,
    *,
    prompts: bool = True,
    subset: "str | Iterable[str] | None" = None,
    exif: Exif | None = None,
    with_images: bool = True,
) -> ClassificationCorpus:
    """Make the corpus of some languages.

    Parameters
    ----------
    source : BabelSource
    languages : iterable of str, optional
        All by default.
    prompts : bool
        Use the templates where a language has them; without, the bare name everywhere (AMB-32).
    subset : str or iterable of str, optional
        ``"present"``, a file of ids, or ids. Without one, each class must have all of its images.
    exif : {"apply", "ignore"}, optional
    with_images : bool
        False for the texts alone.
    """
    wanted = source.languages
    if languages is not None:
        wanted = choose_languages(NAME, languages, source.languages, source.codes)
    chosen, ids = None, tuple(source.images) if with_images else ()
    classes = {lang: source.names[lang][0] for lang in wanted}
    labels = {lang: source.names[lang][1] for lang in wanted}
    if with_images and subset is not None:
        if not ids:
            raise InputError(f"Not one image of {NAME} is here, so there is no subset of them.")
        chosen = resolve_subset(subset, NAME, ids)
        ids = chosen.ids
        # Only classes that the subset has images of can be scored, against each other.
        there = {source.images[image_id] for image_id in ids}
        kept = {lang: [k for k, number in enumerate(classes[lang]) if number in there] for lang in wanted}
        classes = {lang: tuple(classes[lang][k] for k in kept[lang]) for lang in wanted}
        labels = {lang: tuple(labels[lang][k] for k in kept[lang]) for lang in wanted}
    elif with_images:
        _refuse_short(source, wanted)
    opener = Opener(source.store, exif or "ignore") if source.store and with_images else None
    return ClassificationCorpus(
        name=NAME if chosen is None else f"{NAME}:{chosen.label}",
        image_ids=ids,
        image_classes=tuple(source.images[image_id] for image_id in ids),
        classes=classes,
        labels=labels,
        templates={lang: source.prompts.get(lang, BARE) if prompts else BARE for lang in wanted},
        open_image=opener.open if opener else no_image,
        image_hash=opener.hash if opener else lambda _: "",
        licence=LICENCE,
        description=DESCRIPTION,
        codes={lang: source.codes[lang] for lang in wanted},
        subset=chosen,
        exif=exif or "ignore",
        english=source.english if "en" in wanted else "",
        text_only=not with_images,
        origin=source.origin,
    )


def _refuse_short(source: BabelSource, wanted: Sequence[str]) -> None:
    if not source.images:
        raise InputError(
            f"No image of ImageNet's validation set is here. Put the folders of the classes, such as val/{wnids()[0]}, "
            "beside the JSON files, name them with images=…, or load the texts alone with with_images=False "
            "(--no-images)."
        )
    short = source.short_classes(wanted)
    if short:
        number, count = next(iter(short.items()))
        raise InputError(
            f"{len(short)} classes that these languages name do not have {source.per_class} images; the first is class "
            f"{number} ({wnids()[number]}) with {count}. Complete the folder, or name the subset that you mean: "
            "subset='present' (--subset present), or a file of ids."
        )


def _label_file(root: Path, release: str | None) -> Path:
    if release is not None and release not in LABEL_FILES:
        raise InputError(f"Babel-ImageNet has no release {release!r}. Use '298' or '93'.")
    names = LABEL_FILES.values() if release is None else [LABEL_FILES[release]]
    path = next((root / name for name in names if (root / name).is_file()), None)
    if path is None:
        raise InputError(f"{str(root)!r} is no copy of Babel-ImageNet: it has no {' or '.join(names)}.")
    return path


def _names(content: bytes, path: Path) -> tuple[dict, dict[str, Codes], list[str]]:
    faults, names, codes = Faults(strict=False), {}, {}
    for code, entry in _mapping(content, path, "{CODE: [[class numbers], [names]]}").items():
        where = f"The language {code!r} of {str(path)!r}"
        if not (isinstance(entry, list) and len(entry) == 2 and all(isinstance(part, list) for part in entry)):
            faults.add(f"{where} is no pair of class numbers and names.")
            continue
        numbers, labels = entry
        if len(numbers) != len(labels):
            faults.add(f"{where} has {len(numbers)} class numbers and {len(labels)} names; they belong together.")
            continue
        wrong = [n for n in numbers if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n < len(wnids())]
        seen: set[int] = set()
        repeated = [] if wrong else [n for n in numbers if n in seen or seen.add(n)]
        if wrong or repeated:
            faults.add(
                f"{where} has the class number {(wrong or repeated)[0]!r}, which is wrong or there twice; they run "
                "from 0 to 999."
            )
            continue
        checked = [checked_text(label, where, "a name", faults) for label in labels]
        own = bench_code(code, "babel_imagenet")
        names[own] = (tuple(numbers), tuple(label for label in checked if label is not None))
        codes[own] = Codes(code, codes_of(own).model)
    return names, codes, faults.found


def _prompts(content: bytes, path: Path) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    faults, prompts = Faults(strict=False), {}
    for code, templates in _mapping(content, path, "{CODE: [templates]}").items():
        where = f"The language {code!r} of {str(path)!r}"
        if not isinstance(templates, list) or not templates:
            faults.add(f"{where} has no list of templates.")
            continue
        checked = [checked_text(template, where, "a template", faults) for template in templates]
        kept = tuple(template for template in checked if template is not None)
        for template in kept:
            if template.count("{}") != 1:
                faults.add(f"{where} has the template {template!r}; it needs '{{}}' once.")
        prompts[bench_code(code, "babel_imagenet")] = kept
    return prompts, faults.found


def _mapping(content: bytes, path: Path, shape: str) -> dict[str, Any]:
    found = parse_json(content, path)
    if not isinstance(found, dict) or not found:
        raise InputError(f"{str(path)!r} is no filled JSON object {shape}.")
    return found


def _english(path: Path) -> tuple[tuple[tuple[int, ...], tuple[str, ...]], tuple[str, ...]]:
    found = _mapping(path.read_bytes() if path.is_file() else b"", path, '{"labels": […], "templates": […]}')
    labels, templates = found.get("labels"), found.get("templates", list(BARE))
    if not (isinstance(labels, list) and len(labels) == len(wnids()) and all(isinstance(x, str) for x in labels)):
        raise InputError(f"{str(path)!r} needs 'labels': the names of all {len(wnids()):,} classes, in order.")
    if not (isinstance(templates, list) and all(isinstance(x, str) for x in templates)):
        raise InputError(f"{str(path)!r} needs 'templates': a list of texts, each with '{{}}' once.")
    return (tuple(range(len(labels))), tuple(labels)), tuple(templates)
