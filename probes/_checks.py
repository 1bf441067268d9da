"""What probes of parallel captions check before they count anything.

Most measures of geometry compare languages at a depth, caption by caption. :func:`parallel_rows` turns
whatever holds such rows (the trajectory that :func:`workbench.trajectory.capture` returns, a part of it, or a
dict of plain arrays) into one view that hands out float64 rows a depth at a time, so that a trajectory of
many gigabytes is never upcast as a whole.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from workbench.arrays import ArrayLike, as_array, caller_level, say_upcast
from workbench.errors import InputError, suggest

Rows: TypeAlias = Float[np.ndarray, "language caption feature"]
Parallel: TypeAlias = "ArrayLike | Mapping[str, ArrayLike]"
"""A trajectory, or ``{language: rows}``."""

_DIMS = ("language", "caption", "depth", "feature")


class UndefinedWarning(UserWarning):
    """A measure has no value somewhere, and NaN stands there."""


@dataclass(frozen=True)
class ParallelRows:
    """Rows of parallel captions: row i is the same image in every language.

    Attributes
    ----------
    languages : tuple of str
    depths : tuple of int
    n, d : int
        Captions of each language, and features of a row.
    """

    languages: tuple[str, ...]
    depths: tuple[int, ...]
    n: int
    d: int
    _stacks: tuple[np.ndarray, ...] = field(repr=False)

    def at(self, place: int) -> Rows:
        """Return the rows of one depth, in float64, of shape (language, caption, feature).

        Raises
        ------
        InputError
            If a value is NaN or infinite, or a row is zero: that is how a trajectory holds a row that a caption does
            not have, and no row of a tower is.
        """
        found = np.empty((len(self.languages), self.n, self.d))
        for k, (language, stack) in enumerate(zip(self.languages, self._stacks, strict=True)):
            where = f"{language!r} at depth {self.depths[place]}"
            found[k] = as_array(np.asarray(stack[:, place], dtype=np.float64), where)
            zero = np.flatnonzero(~found[k].any(axis=1))
            if len(zero):
                raise InputError(
                    f"{len(zero)} of {self.n} rows of {where} are zero, the first is caption {zero[0]}. A zero row "
                    "stands for a caption without such a row, such as a middle token. Leave these captions out."
                )
        return found

    def only(self) -> Rows:
        """Return the rows where there is one depth, and refuse several."""
        if len(self.depths) != 1:
            raise InputError(f"Rows of {len(self.depths)} depths came. Give those of one, or embeddings.")
        return self.at(0)

    def each_depth(self) -> Iterator[tuple[int, Rows]]:
        """Yield the place of each depth and its rows."""
        for place in range(len(self.depths)):
            yield place, self.at(place)

    def place(self, language: str) -> int:
        """Return which language of the first axis this is."""
        _known(language, self.languages)
        return self.languages.index(language)


def parallel_rows(
    rows: Parallel,
    languages: Iterable[str] | None = None,
    depths: Sequence[int] | None = None,
    *,
    minimum_rows: int = 2,
    minimum_languages: int = 1,
) -> ParallelRows:
    """Check rows of parallel captions.

    Parameters
    ----------
    rows : DataArray, or mapping of str to array
        A trajectory with dimensions (language, caption, depth, feature), without ``depth`` for one depth; or
        by language an array of shape (caption, feature) or (caption, depth, feature).
    languages : iterable of str, optional
        Those to use, in this order; all by default.
    depths : sequence of int, optional
        Of a trajectory, those to use. Of plain arrays, what their depths are called; 0, 1, 2, ... by default.
    minimum_rows, minimum_languages : int
        Fewest captions and languages that the measure makes sense for.

    Raises
    ------
    InputError
        If a language or depth is missing, shapes differ or are of the wrong kind, or too little is there.
    """
    if isinstance(rows, Mapping):
        stacks, names = _of_mapping(rows, languages)
        called = tuple(range(stacks[0].shape[1])) if depths is None else tuple(depths)
        if len(called) != stacks[0].shape[1]:
            raise InputError(f"{len(called)} depths are named for arrays of {stacks[0].shape[1]}. Name each once.")
    else:
        stacks, names, called = _of_trajectory(rows, languages, depths)
    if len(set(names)) < len(names):
        raise InputError(f"A language came twice: {', '.join(names)}. Each may come once.")
    if len(names) < minimum_languages:
        raise InputError(f"{len(names)} language came; this needs {minimum_languages} or more.")
    n, _, d = stacks[0].shape
    if n < minimum_rows:
        raise InputError(f"{n} captions a language came; this needs {minimum_rows} or more.")
    if d == 0 or not called:
        raise InputError("The rows have no features, or there is no depth.")
    say_upcast(stacks[0].dtype, "The trajectory")
    return ParallelRows(tuple(names), called, n, d, tuple(stacks))


def _of_mapping(rows: Mapping[str, ArrayLike], languages: Iterable[str] | None) -> tuple[list[np.ndarray], list[str]]:
    names = [str(name) for name in (rows if languages is None else languages)]
    if not names:
        raise InputError("No language came. Give a dict of language to rows.")
    stacks = []
    for name in names:
        _known(name, rows)
        # Half precision is spoken of once, by the caller of this.
        stack: Any = rows[name]
        stack = stack.detach().cpu().numpy() if hasattr(stack, "detach") else np.asarray(stack)
        if stack.ndim not in (2, 3):
            raise InputError(
                f"The rows of {name!r} have shape {stack.shape}; give (caption, feature) or (caption, depth, feature)."
            )
        stacks.append(stack[:, None] if stack.ndim == 2 else stack)
        if stacks[-1].shape != stacks[0].shape:
            raise InputError(
                f"The rows of {name!r} have shape {stack.shape} and those of {names[0]!r} "
                f"{np.shape(rows[names[0]])}. Row i must be the same image in every language."
            )
    return stacks, names


def _of_trajectory(
    rows: Any, languages: Iterable[str] | None, depths: Sequence[int] | None
) -> tuple[list[np.ndarray], list[str], tuple[int, ...]]:
    legal = (
        "Give what `capture` returns, a DataArray with dimensions (language, caption, depth, feature), or a dict of "
        "language to rows."
    )
    if not hasattr(rows, "dims"):
        shape = getattr(rows, "shape", None)
        what = f"An array of shape {tuple(shape)}" if shape is not None else f"A {type(rows).__name__}"
        raise InputError(f"{what} came, which does not say what its languages are. {legal}")
    if set(rows.dims) not in (set(_DIMS), set(_DIMS) - {"depth"}):
        raise InputError(f"A DataArray with dimensions {tuple(rows.dims)} came. {legal}")
    if "language" not in rows.coords:
        raise InputError(f"The DataArray does not name its languages. {legal}")
    known = [str(name) for name in rows.coords["language"].values]
    names = known if languages is None else [str(name) for name in languages]
    for name in names:
        _known(name, known)
    if "depth" not in rows.dims:
        rows = rows.expand_dims(depth=[int(rows.coords["depth"]) if "depth" in rows.coords else 0])
    there = [int(depth) for depth in rows.coords["depth"].values] if "depth" in rows.coords else None
    there = list(range(rows.sizes["depth"])) if there is None else there
    wanted = there if depths is None else [int(depth) for depth in depths]
    for depth in wanted:
        if depth not in there:
            raise InputError(f"The trajectory has no depth {depth}. It has: {', '.join(map(str, there))}.")
    values = rows.transpose(*_DIMS).values
    places = [there.index(depth) for depth in wanted]
    kept = values if wanted == there else values[:, :, places]
    return [kept[known.index(name)] for name in names], names, tuple(wanted)


def _known(name: str, names: Iterable[str]) -> None:
    names = list(names)
    if name not in names:
        raise InputError(f"There is no language {name!r}.{suggest(name, names)} There are: {', '.join(names)}.")


def check_tiers(languages: Sequence[str], tiers: Mapping[str, str]) -> list[str]:
    """Return the tier of each language, and refuse a language without one.

    Raises
    ------
    InputError
        If the map lacks a language.
    """
    missing = [language for language in languages if not tiers.get(language)]
    if missing:
        raise InputError(
            f"The tier map lacks {', '.join(missing)}. Leave these languages out with `languages=`, or give a map "
            "that has them."
        )
    return [tiers[language] for language in languages]


def say_undefined(what: str, why: str) -> None:
    """Warn that NaN stands where a measure has no value."""
    warnings.warn(f"{what} is undefined, and NaN stands there: {why}.", UndefinedWarning, stacklevel=caller_level())


def spread(rows: Float[np.ndarray, "... caption feature"]) -> np.ndarray:
    """Return the root mean square distance of rows from their mean, 0 where all rows are the same.

    Rounding leaves a mean of equal rows a last bit beside them; what is below 1e-12 of the rows' size is 0.
    """
    centred = rows - rows.mean(axis=-2, keepdims=True)
    size = np.sqrt(np.square(centred).sum(axis=-1).mean(axis=-1))
    whole = np.sqrt(np.square(rows).sum(axis=-1).mean(axis=-1))
    return np.where(size <= 1e-12 * whole, 0.0, size)


def named(names: Iterable[str], at_most: int = 4) -> str:
    """Return ``"a, b, c, d and 3 more"``."""
    names = list(names)
    more = len(names) - at_most
    return ", ".join(names[:at_most]) + (f" and {more} more" if more > 0 else "")
