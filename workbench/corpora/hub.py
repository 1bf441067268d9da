"""Data sets of the ``datasets`` library: saved folders, folders of Parquet files, and ids on the Hugging Face hub.

What exists on disk is read from disk; only then is a name such as ``org/name`` taken for a hub id. Nothing that
a data set holds is executed, and pictures stay encoded until one is opened.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.corpora.records import ArrowRecords, Records
from workbench.errors import InputError, suggest

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_SAVED = ("state.json", "dataset_dict.json")


@dataclass(frozen=True)
class Tables:
    """The splits of a data set.

    Attributes
    ----------
    splits : mapping of str to Records
    origin : str
        Hub id and commit; empty for a folder.
    """

    splits: Mapping[str, Records]
    origin: str

    def only(self, prefer: tuple[str, ...] = ("test",)) -> Records:
        """Return the one split there is, or the preferred one among several."""
        for name in prefer:
            if name in self.splits:
                return self.splits[name]
        if len(self.splits) == 1:
            return next(iter(self.splits.values()))
        raise InputError(f"The data set has the splits {', '.join(self.splits)}. Name one: split=….")


def is_hub_id(place: str) -> bool:
    """Whether a name is no path here and has the form of a hub id."""
    return len(place) <= 200 and _HUB_ID.fullmatch(place) is not None and not Path(place).exists()


def is_saved(place: str | Path) -> bool:
    """Whether ``save_to_disk`` wrote this folder."""
    return any((Path(place) / name).is_file() for name in _SAVED)


def is_dataset(place: str | Path) -> bool:
    """Whether a place can only be read by the ``datasets`` library: a saved data set, Parquet shards or a hub id."""
    path = Path(place)
    if not path.is_dir():
        return is_hub_id(str(place))
    return is_saved(path) or any(parquet_files(path))


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder, of its ``data`` and of its other subfolders."""
    return sorted([*folder.glob("*.parquet"), *folder.glob("*/*.parquet")])


def open_tables(
    place: str | Path, *, config: str | None = None, split: str | None = None, revision: str | None = None
) -> Tables:
    """Open a data set.

    Parameters
    ----------
    place : str or Path
        A folder that ``save_to_disk`` wrote, a folder of Parquet files in the library's naming, or a hub id.
    config : str, optional
        Configuration of a data set that has several.
    split : str, optional
        Only this split.
    revision : str, optional
        Commit, tag or branch of a hub id.

    Raises
    ------
    InputError
        If the library is not installed, or there is no such data set, configuration or split.
    """
    datasets = _library()
    path, origin = Path(place), ""
    if path.exists() and revision:
        raise InputError(f"{str(place)!r} is a folder and has no revision. Leave the revision out.")
    if not path.exists() and not is_hub_id(str(place)):
        raise InputError(f"{str(place)!r} neither exists nor is a hub id such as 'org/name'.")
    try:
        if is_saved(path):
            found = datasets.load_from_disk(str(path))
        elif path.exists():
            found = datasets.load_dataset(str(path), config)
        else:
            commit = _commit(str(place), revision)
            origin = f"{place}@{commit or 'unknown revision'}"
            found = datasets.load_dataset(str(place), config, revision=commit)
    except Exception as error:
        # A damaged state.json leads anywhere in the library: AttributeError, IndexError, Arrow's own.
        raise InputError(
            f"The datasets library can't open {str(place)!r}{f' with the configuration {config!r}' if config else ''}: "
            f"{' '.join(str(error).split())[:400]}"
        ) from None
    splits = dict(found) if isinstance(found, dict) else {"all": found}
    if split is not None and split not in splits:
        raise InputError(f"{str(place)!r} has no split {split!r}.{suggest(split, splits)} It has: {', '.join(splits)}.")
    chosen = splits if split is None else {split: splits[split]}
    return Tables({name: _records(str(place), name, table) for name, table in chosen.items()}, origin)


def config_names(place: str | Path, revision: str | None = None) -> list[str]:
    """Return the configurations of a data set that is a folder of Parquet files or a hub id."""
    datasets = _library()
    try:
        return list(datasets.get_dataset_config_names(str(place), revision=revision))
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise InputError(
            f"The datasets library can't open {str(place)!r}: {' '.join(str(error).split())[:400]}"
        ) from None


def _library() -> Any:
    try:
        import datasets
    except ImportError:
        raise InputError(
            "This needs the datasets library. Install it with: pip install 'eos-workbench[hub]'."
        ) from None
    return datasets


def _commit(hub_id: str, revision: str | None) -> str | None:
    """Resolve a revision to its commit, so that a manifest names exactly what was read."""
    from huggingface_hub import HfApi

    try:
        return HfApi().dataset_info(hub_id, revision=revision).sha
    except Exception:
        # Each version of the hub's library has its own errors for a network that is not there. A cached copy may
        # still load, at the revision that was asked for; where there is none, the next call says what is wrong.
        return revision


def _records(place: str, split: str, table: Any) -> ArrowRecords:
    def load(column: str) -> Any:
        # The arrow format hands out the stored bytes, memory-mapped, and decodes no picture.
        try:
            found = table.select_columns([column]).with_format("arrow")[:][column]
            # Arrow believes a file what it says of its texts; whoever reads a wrong one then gets the error, or worse.
            found.validate(full=True)
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"The column {column!r} of {place!r} ({split}) can't be read: {reason}.") from None
        return found

    return ArrowRecords(f"{place} ({split})", table.column_names, table.num_rows, load)
