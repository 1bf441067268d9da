"""Erasure inside the forward pass: take the language out of the pooled row at a depth, and go on (S3-35).

Erasing language from the output shows what retrieval makes of it there. Erasing it at a depth asks more: do
the blocks after that depth need to know the language? The sweep calls this rule beside the patches, at any
depth, with rows of all captions of all languages at hand to fit on.

An eraser must not be judged on images that it was fitted on. So images are dealt into folds, and the row of
each caption is erased by an eraser that was fitted on the images of the *other* folds, whatever their
language. With the usual two folds that is the 50/50 split by image (AMB-15), used both ways: every image of
the sweep is held out, and scores stand beside those of the patches on the same images. An image is then ranked
among captions of two erasers; on emoji-causal that moves a tier's mean by 0.3 points or less from one eraser on
its held-out half, while images that an eraser was fitted on score 0.3 to 1.6 points too high.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool

from interventions.erasers.base import Eraser
from workbench.errors import InputError
from workbench.hooks import Rows
from workbench.intervention import Context, Intervention
from workbench.splits import image_folds

if TYPE_CHECKING:
    import xarray

log = logging.getLogger(__name__)


class Erase(Intervention):
    """Replace the pooled row by its erased version.

    Parameters
    ----------
    eraser : Eraser, or mapping of int to fitted Eraser
        What is fitted at each depth, or erasers by depth that are fitted already, such as those of
        :func:`fit_at_depths` or :func:`~interventions.erasers.store.load_eraser`. Which images those were
        fitted on is yours to know.
    languages : sequence of str
        Languages whose rows the eraser is fitted on; two or more. Not read where erasers are fitted already.
    folds : int
        Folds of images. 1 fits on all images and scores the same ones (AMB-15's "fit-all").
    name : str, optional
        The eraser's own by default.

    Notes
    -----
    Where every language has the very same rows, as at depth 0 of a tower that pools a padding position, there
    is nothing to erase: rows stay as they are, the sweep records a change of 0, and a log line says so.
    """

    def __init__(
        self,
        eraser: Eraser | Mapping[int, Eraser],
        languages: Sequence[str] = (),
        *,
        folds: int = 2,
        name: str | None = None,
    ) -> None:
        if isinstance(eraser, Mapping):
            if not eraser:
                raise InputError("Erase got no fitted eraser. Give {depth: eraser}.")
            for depth, one in eraser.items():
                if not hasattr(one, "classes_"):
                    raise InputError(
                        f"The eraser at depth {depth} is not fitted. Fit it, or give one eraser to be fitted."
                    )
            self.sources = ()
        elif isinstance(languages, str) or len(set(languages)) < 2:
            raise InputError(
                f"Erase is fitted on the rows of two languages or more; {languages!r} came. Name them as a list."
            )
        else:
            self.sources = tuple(dict.fromkeys(languages))
        if folds < 1:
            raise InputError(f"folds={folds} came; use 2 or more, or 1 to fit on the images that are scored.")
        self.eraser = eraser
        self.folds = folds
        first = next(iter(eraser.values())) if isinstance(eraser, Mapping) else eraser
        self.name = first.label if name is None else name
        self._fits: dict[int, list[Eraser | None]] = {}
        self._fitted_on: tuple[Any, int] | None = None

    def rows(self, rows: Rows, depth: int, context: Context) -> Rows:
        """Return the erased rows."""
        if isinstance(self.eraser, Mapping):
            if depth not in self.eraser:
                raise InputError(
                    f"{self.name!r} has no eraser for depth {depth}; it has erasers for "
                    f"{', '.join(map(str, sorted(self.eraser)))}."
                )
            return _erased(self.eraser[depth], rows)
        new = rows.clone()
        fold = self._fold(context)[context.captions.cpu().numpy()]
        for k, eraser in enumerate(self._fitted(self.eraser, depth, context)):
            mine = torch.from_numpy(fold == k).to(rows.device)
            if eraser is not None and mine.any():
                new[mine] = _erased(eraser, rows[mine])
        return new

    def describe(self) -> dict[str, object]:
        """Everything that decides what the rule does; fitted erasers by a hash of their numbers."""
        if isinstance(self.eraser, Mapping):
            what: Any = {str(depth): _hash(one) for depth, one in sorted(self.eraser.items())}
        else:
            what = {"class": type(self.eraser).__name__, **self.eraser.get_params(deep=False)}
        return {**super().describe(), "eraser": what}

    def _fold(self, context: Context) -> np.ndarray:
        if self.folds == 1:
            return np.zeros(context.n_captions, dtype=np.int64)
        return image_folds(context.images, self.folds, seed=context.seed)

    def _fitted(self, eraser: Eraser, depth: int, context: Context) -> list[Eraser | None]:
        """Return an eraser a fold, fitted once for all languages of a sweep."""
        origin = context.trajectories.origin(self.sources[0])
        known = self._fitted_on
        if known is None or known[0]() is not origin() or known[1] != context.seed:
            # Another sweep. A weak reference, so that the rows of the last one are not kept.
            self._fits, self._fitted_on = {}, (origin, context.seed)
        if depth not in self._fits:
            self._fits[depth] = self._fit_folds(eraser, depth, context)
        return self._fits[depth]

    def _fit_folds(self, eraser: Eraser, depth: int, context: Context) -> list[Eraser | None]:
        parts = [context.trajectories.at(source, slice(None), depth) for source in self.sources]
        if all(torch.equal(part, parts[0]) for part in parts[1:]):
            log.warning(
                "%s: at depth %d every language has the very same rows, so there is nothing to erase and rows are left "
                "as they are.", self.name, depth
            )  # fmt: skip
            return [None] * self.folds
        fold = self._fold(context)
        return [
            self._fit(eraser, depth, context, fold != k if self.folds > 1 else fold == k) for k in range(self.folds)
        ]

    def _fit(self, eraser: Eraser, depth: int, context: Context, train: Bool[np.ndarray, " caption"]) -> Eraser:
        keep = torch.from_numpy(train)
        rows = [context.trajectories.at(source, keep, depth).double().cpu().numpy() for source in self.sources]
        languages = np.repeat(np.array(self.sources), int(train.sum()))
        return eraser.unfitted().fit(np.concatenate(rows), languages)

    def __getstate__(self) -> dict[str, Any]:
        # Fits belong to the rows of one process.
        return {**vars(self), "_fits": {}, "_fitted_on": None}


def fit_at_depths(
    eraser: Eraser,
    trajectory: "xarray.DataArray",
    *,
    depths: Iterable[int] | None = None,
    train: Bool[np.ndarray, " caption"] | None = None,
) -> dict[int, Eraser]:
    """Fit an eraser at each depth of a captured trajectory (:func:`workbench.capture`).

    Parameters
    ----------
    eraser : Eraser
        Cloned for each depth.
    trajectory : DataArray of dimensions (language, caption, depth, feature)
    depths : iterable of int, optional
        All of the trajectory by default.
    train : bool array of shape (caption,), optional
        Captions to fit on, such as one side of :func:`workbench.splits.split_by_image`. All by default, and
        then no image is held out.

    Returns
    -------
    dict of int to Eraser
    """
    known = [int(depth) for depth in trajectory["depth"].values]
    chosen = known if depths is None else list(depths)
    n = trajectory.sizes["caption"]
    keep = np.ones(n, dtype=bool) if train is None else np.asarray(train)
    if keep.dtype != bool or keep.shape != (n,):
        raise InputError(f"train has shape {keep.shape} and dtype {keep.dtype}; give a bool for each of {n} captions.")
    languages = np.repeat(trajectory["language"].values.astype(str), int(keep.sum()))
    fitted = {}
    for depth in chosen:
        if depth not in known:
            raise InputError(f"The trajectory has no depth {depth}. It has: {', '.join(map(str, known))}.")
        rows = trajectory.sel(depth=depth).transpose("language", "caption", "feature").values[:, keep]
        fitted[depth] = eraser.unfitted().fit(rows.reshape(-1, rows.shape[-1]), languages)
    return fitted


def _erased(eraser: Eraser, rows: Rows) -> Rows:
    return torch.from_numpy(eraser.transform(rows.detach().double().cpu().numpy())).to(rows)


def _hash(eraser: Eraser) -> str:
    digest = sha256(type(eraser).__name__.encode())
    for name in eraser.fitted_names():
        value = getattr(eraser, name, None)
        if value is not None:
            digest.update(name.encode() + np.asarray(value).tobytes())
    return digest.hexdigest()
