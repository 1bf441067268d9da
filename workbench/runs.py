"""A run: a directory that holds everything that one sweep made, and enough to trace each number.

::

    manifest.json     what was asked for, and of what: tower, weights hash, corpus hash, seeds, versions
    cells/            finished work, one file a language; each is whole or absent
    results.parquet   the tidy frame
    figures/          one HTML and one JSON file a figure
    report.html       the page

A killed run is started again with the same command: it reads the finished cells, does the rest, and ends
with the same bytes. A cell carries the hash of everything that it depends on, so a changed input never
reuses an old one. Nothing in a run names the time or the machine's paths.
"""

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from workbench.errors import InputError
from workbench.files import write_atomically

SCHEMA = 1
_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "pandas", "pyarrow", "safetensors", "pillow")


def versions() -> dict[str, str]:
    """Versions of everything that a number may depend on."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("eos-workbench", *_LIBRARIES):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


def key_of(content: Mapping[str, Any]) -> str:
    """Hash a JSON-like mapping; equal content gives an equal key, in any order."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


class Run:
    """One run directory.

    Parameters
    ----------
    folder : str or Path
        Made if it is absent. If it holds a run already, that run must have asked for the same.
    config : mapping
        Everything that decides the results. It goes into the manifest, and its hash into every cell.

    Raises
    ------
    InputError
        If the folder holds another run, or something that is no run.
    """

    def __init__(self, folder: str | Path, config: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.config = json.loads(json.dumps(config, default=str))
        self.key = key_of(_with_versions(self.config, versions()))
        path = self.folder / "manifest.json"
        if path.is_file():
            self._check_same(path)
            return
        if self.folder.exists() and not _is_fresh(self.folder):
            raise InputError(
                f"{str(self.folder)!r} exists and is no run (it has no manifest.json). Choose an empty or a new "
                "folder with --out."
            )
        self._write_manifest({})

    def _check_same(self, path: Path) -> None:
        try:
            manifest = json.loads(path.read_text("utf-8"))
            old = _with_versions(dict(manifest["config"]), dict(manifest["versions"]))
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{str(path)!r} is not the manifest of a run. Choose another folder with --out.") from None
        if key_of(old) != self.key:
            # Compared as text: 1, 1.0 and true are equal in Python and not in a manifest.
            new = _with_versions(self.config, versions())
            there, here = ({name: json.dumps(value) for name, value in c.items()} for c in (old, new))
            differs = sorted(name for name in {*there, *here} if there.get(name) != here.get(name))
            raise InputError(
                f"{str(self.folder)!r} holds a run that differs in {', '.join(differs)}. Choose another folder with "
                "--out, or delete that one."
            )

    def _write_manifest(self, notes: Mapping[str, Any]) -> None:
        manifest = {"schema": SCHEMA, "key": self.key, "config": self.config, "versions": versions(), **notes}
        self.write_text("manifest.json", json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")

    def finish(self, notes: Mapping[str, Any]) -> None:
        """Add what was found on the way (token counts, images left out) to the manifest."""
        self._write_manifest(notes)

    def write_text(self, name: str, text: str) -> Path:
        """Write a text file of the run, whole or not at all."""
        write_atomically(self.folder / name, text.encode())
        return self.folder / name

    def write_bytes(self, name: str, content: bytes) -> Path:
        """Write a binary file of the run, whole or not at all."""
        write_atomically(self.folder / name, content)
        return self.folder / name

    # -- cells -----------------------------------------------------------------------------------

    def _cell_path(self, name: str) -> Path:
        if not name or not all(letter.isalnum() or letter in "-_.+" for letter in name) or name[0] == ".":
            raise InputError(f"A language or cell can't be called {name!r}; use letters, digits, '-' and '_'.")
        return self.folder / "cells" / f"{name}.safetensors"

    def read_cell(self, name: str) -> dict[str, np.ndarray] | None:
        """Return a finished cell, or None if it is absent, broken or belongs to other inputs."""
        path = self._cell_path(name)
        if not path.is_file():
            return None
        try:
            with safe_open(path, framework="numpy") as file:
                if (file.metadata() or {}).get("key") != self.key:
                    return None
                return {tensor: file.get_tensor(tensor) for tensor in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError):
            # A truncated cell can't come from this code, which writes atomically; a full disk can do it.
            return None

    def write_cell(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a finished cell."""
        # Not ascontiguousarray: it gives a single number a dimension.
        tensors = {key: np.asarray(array, order="C") for key, array in arrays.items()}
        write_atomically(self._cell_path(name), save(tensors, metadata={"key": self.key}))


def _with_versions(config: Mapping[str, Any], found: Mapping[str, str]) -> dict[str, Any]:
    """Return everything that a cell depends on: another version of a library may give another number."""
    return {**config, **{f"version of {name}": version for name, version in found.items()}}


def _is_fresh(folder: Path) -> bool:
    """Whether a run may start here: nothing is in the folder but, maybe, half of a killed first write."""
    return folder.is_dir() and all(path.name.startswith(".manifest.json.") for path in folder.iterdir())


def default_folder(command: str, tower: str, corpus: str, config: Mapping[str, Any]) -> Path:
    """Name a run after what it is: the same question gets the same folder, so asking again resumes."""
    words = "-".join("".join(c if c.isalnum() else "-" for c in Path(word).name) for word in (command, tower, corpus))
    return Path("runs") / f"{words}-{key_of(_with_versions(config, versions()))[:8]}"
