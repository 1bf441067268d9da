"""A named part of a benchmark, and the hash of its ids that goes with every number.

A subset of a paper is a *recipe*: a rule that picks ids of the full list. Where a paper publishes no ids, the
rule here stands in for its draw and says so; a file of ids, one a line, replaces it. Whatever picked them, the
hash of the ids tells two subsets apart, whatever they are called.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench.corpora.reading import read_lines
from workbench.errors import InputError, suggest
from workbench.files import as_path

PRESENT = "present"
"""The subset of all images that are on disk: what to name for an incomplete download."""


@dataclass(frozen=True)
class Subset:
    """Some ids of a benchmark.

    Attributes
    ----------
    name : str
    ids : tuple of str
        In the benchmark's order.
    rule : str
        How they were picked.
    """

    name: str
    ids: tuple[str, ...]
    rule: str

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the sorted ids, one a line."""
        return hashlib.sha256("\n".join(sorted(self.ids)).encode()).hexdigest()

    @property
    def label(self) -> str:
        """Name and the first eight digits of the hash, for the ``corpus`` column of every row."""
        return f"{self.name}@{self.sha256[:8]}"

    def describe(self) -> dict[str, Any]:
        """Return the subset as JSON-like values, for a manifest."""
        return {"name": self.name, "images": len(self.ids), "ids_sha256": self.sha256, "rule": self.rule}


@dataclass(frozen=True)
class Recipe:
    """A rule for a subset of a paper: the ids whose SHA-256 comes first.

    It needs no random generator, and no order of the file: the same ids give the same subset anywhere.

    Attributes
    ----------
    name : str
        ``"xm3600-1k"``.
    benchmark : str
    size : int
        Images to keep.
    full_size : int
        Images that the full list must have, or the rule would pick others.
    source : str
        Which paper uses a subset of that size, and whether it says which ids.
    """

    name: str
    benchmark: str
    size: int
    full_size: int
    source: str

    def pick(self, ids: Sequence[str]) -> Subset:
        """Pick from the full list.

        Raises
        ------
        InputError
            If the list is not the full one.
        """
        if len(ids) != self.full_size:
            raise InputError(
                f"The recipe {self.name!r} picks {self.size:,} of the {self.full_size:,} images of {self.benchmark}, "
                f"and {len(ids):,} are listed here. Complete the captions, or give a file of ids as the subset."
            )
        chosen = set(sorted(ids, key=lambda i: hashlib.sha256(i.encode()).digest())[: self.size])
        rule = f"the {self.size} of {self.full_size} ids whose SHA-256 comes first; {self.source}"
        return Subset(self.name, tuple(i for i in ids if i in chosen), rule)


RECIPES: dict[str, Recipe] = {
    "xm3600-1k": Recipe(
        "xm3600-1k", "xm3600", 1000, 3600, "S3 scores 1,000 images and publishes no ids (S3-17), so it is not its draw"
    ),
}
"""By name. Give ``subset`` a file of ids to replace one."""


def resolve_subset(
    wanted: "str | Path | Iterable[str] | Subset",
    benchmark: str,
    ids: Sequence[str],
    present: Iterable[str] | None = None,
) -> Subset:
    """Find the ids of a subset in the full list.

    Parameters
    ----------
    wanted : str, Path, iterable of str or Subset
        ``"present"``, a recipe's name, a text file of ids, the ids themselves, or a subset.
    benchmark : str
    ids : sequence of str
        The full list.
    present : iterable of str, optional
        Ids whose image is on disk; all by default.

    Raises
    ------
    InputError
        If there is no such recipe or file, or it names an id that the benchmark lacks.
    """
    if isinstance(wanted, Subset):
        return _of_list(wanted.name, wanted.ids, wanted.rule, benchmark, ids)
    if not isinstance(wanted, str | Path):
        return _of_list("custom", [str(i) for i in wanted], "ids given by the user", benchmark, ids)
    if str(wanted) == PRESENT:
        on_disk = set(ids if present is None else present)
        found = tuple(i for i in ids if i in on_disk)
        if not found:
            raise InputError(f"Not one image of {benchmark} is here, so the subset 'present' is empty.")
        return Subset(PRESENT, found, f"the {len(found)} of {len(ids)} images that were on disk")
    if str(wanted) in RECIPES and RECIPES[str(wanted)].benchmark == benchmark:
        return RECIPES[str(wanted)].pick(ids)
    path = as_path(wanted, "The subset")
    if not path.is_file():
        names = [PRESENT, *(name for name, recipe in RECIPES.items() if recipe.benchmark == benchmark)]
        raise InputError(
            f"There is no subset {str(wanted)!r} of {benchmark}.{suggest(str(wanted), names)} Subsets: "
            f"{', '.join(names)}, or a text file with one id a line."
        )
    listed = [line.strip() for line in read_lines(path) if line.strip()]
    return _of_list(path.stem, listed, f"ids of the file {path.name}", benchmark, ids)


def _of_list(name: str, listed: Sequence[str], rule: str, benchmark: str, ids: Sequence[str]) -> Subset:
    if not ids:
        raise InputError(f"{benchmark} lists nothing here, so there is no subset of it.")
    known = set(ids)
    unknown = [i for i in listed if i not in known]
    if unknown:
        raise InputError(
            f"The subset {name!r} names {len(unknown)} ids that {benchmark} lacks; the first is {unknown[0]!r}."
            f"{suggest(unknown[0], ids[:5000])} An id of {benchmark} looks like {ids[0]!r}."
        )
    if len(set(listed)) != len(listed):
        seen: set[str] = set()
        twice = next(i for i in listed if i in seen or seen.add(i))
        raise InputError(f"The subset {name!r} names the id {twice!r} twice.")
    if not listed:
        raise InputError(f"The subset {name!r} names no id.")
    wanted = set(listed)
    return Subset(name, tuple(i for i in ids if i in wanted), rule)
