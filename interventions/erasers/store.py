"""Fitted erasers on disk: one safetensors file, whose header says what it is and where it belongs.

An eraser knows the rows of one tower at one depth. On any other tower of the same width it would run without
complaint and remove nonsense; so a file names the tower by the hash of its weights, and the depth, and is
refused anywhere else. Nothing in a file is executed: arrays are read as numbers, and the class is one of those
that are already imported.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from interventions.erasers.base import Eraser
from workbench.errors import InputError, suggest
from workbench.files import write_atomically
from workbench.parsing import loads
from workbench.runs import checksum
from workbench.towers.base import Tower

Place: TypeAlias = int | Literal["output"]
"""Where an eraser works: a depth, or ``"output"`` for unit embeddings."""

_FORMAT = 1
_KEY = "eos-workbench eraser"


def save_eraser(eraser: Eraser, path: str | Path, tower: Tower, place: Place) -> Path:
    """Write a fitted eraser.

    Parameters
    ----------
    eraser : Eraser
        Fitted on rows of this tower.
    path : str or Path
        Ends in ``.safetensors``.
    tower : Tower
    place : int or "output"
        Depth of the rows that it was fitted on, or "output" for unit embeddings.

    Raises
    ------
    InputError
        If the eraser is not fitted, or the place is none of this tower.
    """
    from safetensors.numpy import save
    from sklearn.utils.validation import NotFittedError, check_is_fitted

    path = Path(path)
    if path.suffix != ".safetensors":
        raise InputError(f"An eraser is saved as a .safetensors file, not as {path.name!r}.")
    try:
        check_is_fitted(eraser)
    except NotFittedError:
        raise InputError(f"This {type(eraser).__name__} is not fitted yet. Call fit, then save it.") from None
    check_place(place, tower)
    fitted = {name: getattr(eraser, name) for name in eraser.fitted_names() if hasattr(eraser, name)}
    arrays = {
        name: np.ascontiguousarray(value)
        for name, value in fitted.items()
        if isinstance(value, np.ndarray) and name != "classes_"
    }
    header = {
        "format": _FORMAT,
        "class": type(eraser).__name__,
        "parameters": eraser.get_params(deep=False),
        "classes": eraser.classes_.tolist(),
        "numbers": {k: v for k, v in fitted.items() if not isinstance(v, np.ndarray)},
        "tower": tower.name,
        "weights_sha256": tower.fingerprint,
        "settings_sha256": tower.settings,
        "place": place,
        "sha256": checksum(arrays),
    }
    write_atomically(path, save(arrays, metadata={_KEY: json.dumps(header, sort_keys=True)}))
    return path


def load_eraser(path: str | Path, tower: Tower, place: Place) -> Eraser:
    """Read a fitted eraser for a tower and a place.

    Parameters
    ----------
    path : str or Path
    tower : Tower
        The tower that it will be used on.
    place : int or "output"
        Where it will be used.

    Raises
    ------
    InputError
        If the file is absent, truncated or no eraser, or if it belongs to another tower or place.
    """
    path = Path(path)
    header, arrays = _read(path)
    check_place(place, tower)
    if header.get("sha256") != checksum(arrays):
        raise InputError(f"The eraser {str(path)!r} is damaged: it does not hold what was written. Fit it again.")
    if header.get("weights_sha256") != tower.fingerprint:
        raise InputError(
            f"The eraser {str(path)!r} was fitted on rows of {header.get('tower')!r} (weights "
            f"{str(header.get('weights_sha256'))[:12]}…), and this tower is {tower.name!r} (weights "
            f"{tower.fingerprint[:12]}…). Fit one on this tower."
        )
    if header.get("settings_sha256") != tower.settings:
        raise InputError(
            f"The eraser {str(path)!r} was fitted on rows of these weights under another configuration, tokeniser or "
            f"image processor than {tower.name!r} has now. Fit one on this tower."
        )
    if header.get("place") != place:
        raise InputError(
            f"The eraser {str(path)!r} was fitted on {_place_name(header.get('place'))}, not on {_place_name(place)}. "
            "Rows of two depths don't share their directions; fit one there."
        )
    known = {cls.__name__: cls for cls in _subclasses(Eraser)}
    name = str(header.get("class"))
    if name not in known:
        raise InputError(
            f"The eraser {str(path)!r} is a {name!r}, which is not imported.{suggest(name, known)} Import the module "
            "that defines it first."
        )
    cls = known[name]
    try:
        eraser = cls(**header["parameters"])
        allowed = set(cls.fitted_names())
        state: dict[str, Any] = {**header["numbers"], **arrays}
        if not set(state) <= allowed:
            raise ValueError(f"unknown attributes {sorted(set(state) - allowed)}")
        eraser.classes_ = np.asarray(header["classes"])
        for attribute, value in state.items():
            setattr(eraser, attribute, value)
        if any(not np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("a number is NaN or infinite")
        eraser._check_state()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"The eraser {str(path)!r} is damaged: {error}. Fit it again.") from None
    return eraser


def check_place(place: Place, tower: Tower) -> None:
    """Refuse a place that a tower does not have."""
    if place == "output":
        return
    if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place <= tower.n_blocks:
        raise InputError(
            f"place={place!r} came; {tower.name!r} has the depths 0 to {tower.n_blocks}, and 'output' for embeddings."
        )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError(f"There is no eraser {str(path)!r}.")
    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(_KEY)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dict
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{str(path)!r} can't be read ({error}); it is truncated or no eraser. Fit it again."
        ) from None
    try:
        header = loads(text, f"The header of {str(path)!r}") if text else None
    except InputError:
        header = None
    if not isinstance(header, dict):
        raise InputError(f"{str(path)!r} is no eraser: its header does not say so. `save_eraser` writes one.")
    if header.get("format") != _FORMAT:
        raise InputError(
            f"The eraser {str(path)!r} has format {header.get('format')!r}, and this version reads {_FORMAT}. Fit it "
            "again."
        )
    return header, arrays


def _subclasses(cls: type[Eraser]) -> Iterator[type[Eraser]]:
    from interventions.erasers import adversarial, inlp, leace, mean_difference, random_ablation  # noqa: F401

    for child in cls.__subclasses__():
        yield child
        yield from _subclasses(child)


def _place_name(place: object) -> str:
    return "embeddings at the output" if place == "output" else f"rows of depth {place}"
