"""A run: a directory that holds everything that one sweep made, and enough to trace each number.

::

    manifest.json     what was asked for, and of what: tower, weights hash, corpus hash, seeds, versions
    cells/            finished work, one file a language; each is whole or absent
    results.parquet   the tidy frame
    figures/          one HTML and one JSON file a figure
    report.html       the page

A killed run is started again with the same command: it reads the finished cells, does the rest, and ends
with the same bytes. A cell carries the hash of everything that it depends on, so a changed input never
reuses an old one, and a checksum of what is in it, so that a damaged one is done again. Nothing in a run names
the time or the machine's paths.
"""

import hashlib
import importlib.metadata
import json
import logging
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from workbench.errors import InputError
from workbench.files import check_writable, path_below, write_atomically
from workbench.parsing import load_file, loads

log = logging.getLogger(__name__)

SCHEMA = 2
"""Of manifests, cells and ``--json``; a run of another schema is not gone on with."""
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
    """Hash a mapping; equal content gives an equal key, in any order.

    Raises
    ------
    InputError
        If it holds what has no text that tells it apart.
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=as_json).encode()).hexdigest()


def as_json(value: Any) -> Any:
    """Write what JSON doesn't know so that two values that differ differ here too: arrays by a hash of their bytes.

    Raises
    ------
    InputError
        If only an address or a shortened text would tell it apart.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu().float().numpy() if value.dtype.is_floating_point else value.cpu().numpy()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"shape": list(value.shape), "dtype": str(value.dtype), "sha256": digest}
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return value.name
    if callable(getattr(value, "describe", None)):
        return value.describe()
    if hasattr(value, "__code__"):
        return {"function": value.__qualname__, "code": code_hash(value)}
    raise InputError(
        f"A {type(value).__name__} decides what this run finds and has no text that tells one from another. Keep "
        "numbers, texts or arrays in the attributes of an intervention, or give its class a method describe()."
    )


def code_hash(function: Any) -> str:
    """Return a hash of what a Python function does: its instructions, constants, names and defaults."""

    def told(code: Any) -> str:
        constants = [told(one) if hasattr(one, "co_code") else repr(one) for one in code.co_consts]
        return repr((code.co_code, constants, code.co_names, code.co_varnames))

    defaults = (function.__defaults__, function.__kwdefaults__)
    return hashlib.sha256(f"{told(function.__code__)} {defaults!r}".encode()).hexdigest()[:16]


class Run:
    """One run directory.

    Parameters
    ----------
    folder : str or Path
        Made if it is absent. If it holds a run already, that run must have asked for the same.
    config : mapping
        Everything that decides the results. It goes into the manifest, and its hash into every cell.
    begin : bool
        Whether the manifest is written at once, or with the first thing that is kept: a request that turns out to
        be a mistake then leaves nothing behind.

    Raises
    ------
    InputError
        If the folder holds another run, or something that is no run.
    """

    def __init__(self, folder: str | Path, config: Mapping[str, Any], begin: bool = True) -> None:
        self.folder = Path(folder)
        self.config = json.loads(json.dumps(config, default=as_json))
        self.key = key_of(_with_versions(self.config, versions()))
        check_folder(self.folder)
        path = self.folder / "manifest.json"
        if path.is_file():
            self._check_same(path)
        elif begin:
            self.begin()

    def begin(self) -> None:
        """Write the manifest, if there is none yet."""
        if not (self.folder / "manifest.json").is_file():
            self._write_manifest({})

    def _check_same(self, path: Path) -> None:
        try:
            manifest = load_file(path)
            old = _with_versions(dict(manifest["config"]), dict(manifest["versions"]), manifest["schema"])
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
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        write_atomically(self.folder / "manifest.json", text.encode())

    def finish(self, notes: Mapping[str, Any], tables: Iterable[str] = ("results.parquet",)) -> None:
        """Add what was found on the way (token counts, images left out) and checksums of the tables to the manifest."""
        sums = {name: _sha256(self.folder / name) for name in tables if (self.folder / name).is_file()}
        self._write_manifest({"tables": sums, **notes})

    def write_text(self, name: str, text: str) -> Path:
        """Write a text file of the run, whole or not at all."""
        return self.write_bytes(name, text.encode())

    def write_bytes(self, name: str, content: bytes) -> Path:
        """Write a binary file of the run, whole or not at all."""
        path = path_below(self.folder, name, what="A file of a run")
        self.begin()
        write_atomically(path, content)
        return path

    # -- cells -----------------------------------------------------------------------------------

    def _cell_path(self, name: str) -> Path:
        return path_below(self.folder / "cells", name, ".safetensors", "A language or cell")

    def read_cell(self, name: str) -> dict[str, np.ndarray] | None:
        """Return a finished cell; None if it is absent, belongs to other inputs, or is damaged, which is said."""
        path = self._cell_path(name)
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="numpy") as file:
                said = read_header(file)
                if said.get("key") != self.key:
                    return None
                arrays = {tensor: file.get_tensor(tensor) for tensor in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            # A truncated cell can't come from this code, which writes atomically; a full disk can do it.
            log.warning("%s can't be read (%s); it is done again", path.name, error)
            return None
        if said.get("sha256") != checksum(arrays):
            log.warning("%s is damaged: it does not hold what was written; it is done again", path.name)
            return None
        return arrays

    def write_cell(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a finished cell, with the run's key and a checksum."""
        path = self._cell_path(name)
        self.begin()
        write_atomically(path, sealed(arrays, {"key": self.key, "schema": SCHEMA}))


def check_table(path: Path) -> None:
    """Refuse a table of a run that is no longer what the run wrote; one that no manifest knows is let through.

    Raises
    ------
    InputError
        If its checksum is another than the one in the manifest.
    """
    for folder in (path.parent, path.parent.parent):
        if not (folder / "manifest.json").is_file():
            continue
        # A manifest that is there and broken is refused: it may have said that the table is not whole.
        manifest = load_file(folder / "manifest.json", finite=False)
        known = manifest.get("tables") if isinstance(manifest, dict) else None
        said = known.get(path.relative_to(folder).as_posix()) if isinstance(known, dict) else None
        if said is not None and said != _sha256(path):
            raise InputError(
                f"{str(path)!r} is not what its run wrote: it was damaged or edited since. Give the command of the run "
                "again, or copy the table out of the run to use it as it is."
            )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_HEADER = "workbench"


def sealed(arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> bytes:
    """Return arrays as a safetensors file with a header and a checksum; equal input gives equal bytes."""
    # Not ascontiguousarray: it gives a single number a dimension.
    tensors = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    # One entry: the library writes several in an order that changes from process to process.
    said = json.dumps({**header, "sha256": checksum(tensors)}, sort_keys=True)
    return save(tensors, metadata={_HEADER: said})


def read_header(file: Any) -> dict[str, Any]:
    """Return the header of an open safetensors file that :func:`sealed` made; empty where there is none."""
    try:
        found = loads((file.metadata() or {}).get(_HEADER, "{}"), "The header of a cell")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def checksum(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of named arrays: names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _with_versions(config: Mapping[str, Any], found: Mapping[str, str], schema: int = SCHEMA) -> dict[str, Any]:
    """Return everything that a cell depends on: another version of a library may give another number."""
    return {**config, "schema": schema, **{f"version of {name}": version for name, version in found.items()}}


def check_folder(folder: Path) -> None:
    """Refuse a place that can hold no run, before any work is done for one.

    Raises
    ------
    InputError
        If it is a file or below one, can't be written to, or holds something that is no run.
    """
    check_writable(folder)
    if folder.exists() and not (folder / "manifest.json").is_file() and not _is_fresh(folder):
        raise InputError(
            f"{str(folder)!r} exists and is no run (it has no manifest.json). Choose an empty or a new folder with "
            "--out."
        )


def _is_fresh(folder: Path) -> bool:
    """Whether a run may start here: nothing is in the folder but, maybe, half of a killed first write."""
    return folder.is_dir() and all(path.name.startswith(".manifest.json.") for path in folder.iterdir())


def default_folder(command: str, tower: str, corpus: str, config: Mapping[str, Any]) -> Path:
    """Name a run after what it is: the same question gets the same folder, so asking again resumes."""
    names = (Path(word).name[:40] for word in (command, tower, corpus))
    words = "-".join("".join(c if c.isalnum() else "-" for c in name) for name in names)
    return Path("runs") / f"{words}-{key_of(_with_versions(config, versions()))[:8]}"
