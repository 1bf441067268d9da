"""Where a checkpoint lies, and how its parts are read.

Whatever adapter a checkpoint gets, its files are read here, by the same rules:

- Weights come from safetensors; where a checkpoint has only pickles, they are read with ``weights_only=True``
  and that is said. Weights that are missing would come up random, so they are refused.
- Code from a repository runs only with ``remote_code=True``.
- Weights come in float32 unless another precision is asked for, whatever they are stored in.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from workbench.errors import InputError, TowerError, WorkbenchError, suggest
from workbench.parsing import load_file
from workbench.towers.identity import file_hashes
from workbench.towers.provenance import Provenance

log = logging.getLogger(__name__)


@contextlib.contextmanager
def said_of(name: str, what: str) -> Iterator[None]:
    """Turn what the libraries under a tower raise into one sentence about its checkpoint.

    Configs, tokenisers and processors are read by code that believes them. What a wrong value in one of them leads to,
    somewhere deep inside, is any kind of error. The first one is kept as the cause.

    Parameters
    ----------
    name : str
        Of the tower.
    what : str
        What it can't do.
    """
    try:
        yield
    except (WorkbenchError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise TowerError(
            f"{name!r} can't {what}: {type(error).__name__}, {first_line(error)} Its config, tokeniser and processor "
            "files may be damaged, or of different models."
        ) from error


@dataclass(frozen=True)
class Source:
    """A checkpoint that is about to be loaded.

    Attributes
    ----------
    name : str
        As the user gave it.
    location : str
        Folder, file or hub id.
    local : bool
    revision : str, optional
        Commit, tag or branch of a hub id.
    dtype : torch.dtype
    device : torch.device or str
    remote_code : bool
        Whether code from the repository may run.
    device_map : str, optional
        How ``accelerate`` spreads the weights over devices.
    config : mapping
        Content of ``config.json``; empty where there is none.
    """

    name: str
    location: str
    local: bool
    revision: str | None = None
    dtype: torch.dtype = torch.float32
    device: torch.device | str = "cpu"
    remote_code: bool = False
    device_map: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def short(self) -> str:
        """A name for tables: the folder's own, or the hub id."""
        return Path(self.name).name if self.local and Path(self.name).exists() else self.name

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments that every ``from_pretrained`` gets."""
        return {
            "revision": None if self.local else self.revision,
            "trust_remote_code": self.remote_code,
            "local_files_only": self.local,
        }

    @property
    def commit(self) -> str | None:
        """Commit that files of a hub id come from, whatever branch was asked for; None for a local folder or file."""
        # The hub's client keeps files in a folder that is named after their commit.
        cached = None if self.local else self._cached("config.json")
        return None if cached is None else cached.parent.name

    def _cached(self, filename: str) -> Path | None:
        """Return the path of a file of a hub id that was fetched before, without asking the hub."""
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(self.location, filename, revision=self.revision)
        return Path(found) if isinstance(found, str) else None

    def find(self, filename: str) -> Path | None:
        """Return the path of a file of the checkpoint, fetched where it lies on the hub; None where it has none."""
        if self.local:
            path = Path(self.location) / filename
            # The name may come from a file of the checkpoint. Not resolve(): a link in the folder is its owner's.
            inside = not Path(filename).is_absolute() and ".." not in Path(filename).parts and "\0" not in filename
            return path if inside and path.is_file() else None
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        try:
            return Path(hf_hub_download(self.location, filename, revision=self.revision))
        except Exception as error:
            if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
                return None
            # Without a network, a file that is not in the local cache may be on the hub all the same.
            absent = isinstance(error, LocalEntryNotFoundError) and filename != "config.json"
            if absent and self._cached("config.json"):
                log.warning(
                    "%s: %s is not in the local cache and the hub can't be reached, so it is taken as absent. If there "
                    "is one, load this tower once with a network.", self.name, filename
                )  # fmt: skip
                return None
            raise InputError(
                f"The hub has no tower {self.name!r} at revision {self.revision or 'main'!r} that can be reached from "
                f"here: {first_line(error)} Check the name and the network, or give a local folder."
                f"{suggest_built_in(self.name)}"
            ) from None

    def read_json(self, filename: str) -> dict[str, Any] | None:
        """Return a JSON object of the checkpoint, None where it has no such file."""
        path = self.find(filename)
        if path is None:
            return None
        try:
            content = load_file(path, f"The {filename} of {self.name!r}")
        except InputError as error:
            raise TowerError(str(error)) from None
        if not isinstance(content, dict):
            raise TowerError(f"The {filename} of {self.name!r} is not a JSON object.")
        return content

    def model(self, model_class: str, **options: Any) -> Any:
        """Load the weights with a class of ``transformers``, every one of them, onto the device.

        Raises
        ------
        TowerError
            If they can't be read, or some are missing.
        """
        import transformers

        placed = {} if self.device_map is None else {"device_map": self.device_map}
        try:
            with quiet_transformers():
                model, report = getattr(transformers, model_class).from_pretrained(
                    self.location, dtype=self.dtype, weights_only=True, output_loading_info=True,
                    **self.options, **placed, **options,
                )  # fmt: skip
        except Exception as error:
            raise TowerError(
                f"The weights of {self.name!r} can't be loaded as {model_class}: {first_line(error)} They must be "
                "complete safetensors files beside config.json."
            ) from None
        self.refuse_missing(model_class, report["missing_keys"])
        return model if self.device_map else model.to(self.device)

    def refuse_missing(self, model_class: str, missing: Any) -> None:
        """Raise if a checkpoint lacks weights of the class that it was loaded with."""
        missing = sorted(missing)
        if missing:
            raise TowerError(
                f"The checkpoint {self.name!r} lacks {len(missing)} of the weights of a {model_class}, the first "
                f"{missing[0]!r}; they would come up random. Give a checkpoint of the whole dual model."
            )

    def tokenizer(self, location: str | None = None, **options: Any) -> Any:
        """Load the tokeniser."""
        import transformers

        try:
            with quiet_transformers():
                return transformers.AutoTokenizer.from_pretrained(location or self.location, **self.options, **options)
        except Exception as error:
            raise TowerError(
                f"The tokeniser of {self.name!r} can't be loaded: {first_line(error)} The folder needs "
                "tokenizer.json (or its parts)."
            ) from None

    def image_processor(self, **options: Any) -> Any:
        """Load the image processor, the one that works on PIL images."""
        import transformers

        try:
            with quiet_transformers():
                # Torchvision resizes a little differently, and would be the default wherever it is installed.
                return transformers.AutoImageProcessor.from_pretrained(
                    self.location, backend="pil", **self.options, **options
                )
        except Exception as error:
            raise TowerError(
                f"The image processor of {self.name!r} can't be loaded: {first_line(error)} The folder needs "
                "preprocessor_config.json or processor_config.json."
            ) from None

    def provenance(self, model: Any, **notes: str) -> Provenance:
        """Return where the weights came from."""
        return Provenance(
            source=self.name,
            revision=self.commit,
            model_class=type(model).__name__,
            dtype=str(self.dtype).removeprefix("torch."),
            remote_code=self.remote_code,
            notes={**notes, **self._weights_note()},
            files=self.files(),
        )

    def files(self) -> dict[str, str]:
        """Return the SHA-256 of each file but the weights; none of a hub id, whose commit names them all."""
        return file_hashes(Path(self.location)) if self.local else {}

    def _weights_note(self) -> dict[str, str]:
        folder = Path(self.location)
        if self.local and folder.is_dir() and not list(folder.glob("*.safetensors")):
            log.warning("%s holds no safetensors: its pickled weights were read with weights_only=True", self.name)
            return {"weights": "pickle, read with weights_only=True"}
        return {}


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Hold back the bars and the advice of ``transformers``, which are not about what the user asked for."""
    from transformers.utils import logging as hub_logging

    level, bars = hub_logging.get_verbosity(), hub_logging.is_progress_bar_enabled()
    hub_logging.set_verbosity_error()
    hub_logging.disable_progress_bar()
    try:
        yield
    finally:
        hub_logging.set_verbosity(level)
        if bars:
            hub_logging.enable_progress_bar()


def suggest_built_in(name: str) -> str:
    """Return a sentence that names the built-in tower with the nearest name, or nothing."""
    from workbench.builtin import TOWER_FOLDERS

    return suggest(name, TOWER_FOLDERS)


def first_line(error: Exception) -> str:
    """Return the first line of an error's message as a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if text.endswith((".", "!", "?")) else text + "."
