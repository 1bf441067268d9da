"""Find and load a tower: a built-in name, a local folder, or a hub id.

The bench loads what the checkpoint's own ``config.json`` says, with the class that it names, and refuses
what it can't prove: weights that are not safetensors, weights that are missing and would come up random, a
family without an adapter, a tower that fails its self-check. No code from a checkpoint ever runs.
"""

import contextlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from workbench.builtin import TOWER_FOLDERS
from workbench.errors import InputError, TowerError, suggest
from workbench.towers.base import Provenance, Tower

log = logging.getLogger(__name__)

# model_type in config.json -> (model class in transformers, adapter)
_FAMILIES: dict[str, tuple[str, str]] = {
    "clip": ("CLIPModel", "ClipTower"),
    "metaclip_2": ("MetaClip2Model", "MetaClip2Tower"),
    "siglip": ("SiglipModel", "SiglipTower"),
}

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def families() -> list[str]:
    """Return the model types that have an adapter."""
    return sorted(_FAMILIES)


def adapters() -> dict[str, type[Tower]]:
    """Return the adapter of each model type."""
    from workbench.towers import transformers_dual

    return {kind: getattr(transformers_dual, adapter) for kind, (_, adapter) in sorted(_FAMILIES.items())}


def load_tower(
    name: str | Path,
    *,
    revision: str | None = None,
    dtype: torch.dtype | str = torch.float32,
    device: torch.device | str = "cpu",
) -> Tower:
    """Load a tower and prove that its adapter reads it rightly.

    Parameters
    ----------
    name : str or Path
        ``"emoji-causal"`` or ``"emoji-bidirectional"``, a folder that ``save_pretrained`` wrote, or a hub id
        such as ``"facebook/metaclip-2-worldwide-huge-quickgelu"``.
    revision : str, optional
        Commit, tag or branch of a hub id. Name a commit for a number that you publish.
    dtype : torch.dtype or str
        Precision of the weights. float32 by default, whatever the checkpoint is stored in: half precision
        has a noise floor of one to two percent of a row.
    device : torch.device or str

    Returns
    -------
    Tower

    Raises
    ------
    InputError
        If there is no such tower, or the device or dtype is not to be had.
    TowerError
        If the folder holds no model, its family has no adapter, weights are missing, or the self-check of
        :meth:`~workbench.towers.base.Tower.check` fails.
    """
    name = str(name)
    device, dtype = _device(device), _dtype(dtype)
    source, local = _locate(name)
    config = _read_config(name, source, local, revision)
    model_type = config.get("model_type")
    if model_type not in _FAMILIES:
        raise TowerError(
            f"{name!r} is a model of type {model_type!r}, for which there is no adapter. "
            f"Types with one: {', '.join(families())}."
        )
    model_class, _ = _FAMILIES[model_type]
    model, tokenizer, image_processor, commit = _load_parts(
        name, source, None if local else revision, local, model_class, dtype
    )
    provenance = Provenance(name, commit, model_class, str(dtype).removeprefix("torch."))
    tower = adapters()[model_type](_short(name), model.to(device), tokenizer, image_processor, provenance)
    tower.check()
    return tower


def _short(name: str) -> str:
    return Path(name).name if Path(name).is_dir() else name


def _device(device: torch.device | str) -> torch.device:
    try:
        found = torch.device(device)
        torch.empty(1, device=found)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(
            f"The device {str(device)!r} can't be used here: {str(error).splitlines()[0]} Use 'cpu', 'cuda', "
            "'cuda:0' or 'mps'."
        ) from None
    return found


def _dtype(dtype: torch.dtype | str) -> torch.dtype:
    if isinstance(dtype, torch.dtype) and dtype in DTYPES.values():
        return dtype
    if str(dtype) in DTYPES:
        return DTYPES[str(dtype)]
    raise InputError(f"The dtype {dtype!r} is not supported. Use one of {', '.join(DTYPES)}.")


def _locate(name: str) -> tuple[str, bool]:
    if name in TOWER_FOLDERS:
        return str(TOWER_FOLDERS[name]), True
    path = Path(name).expanduser()
    if name and path.is_dir():
        return str(path), True
    if path.is_file():
        raise TowerError(f"{name!r} is a file. Give the folder that holds config.json and model.safetensors.")
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return name, False
    raise InputError(
        f"No tower is called {name!r}.{suggest(name, TOWER_FOLDERS)} Give a built-in name "
        f"({', '.join(TOWER_FOLDERS)}), an existing folder, or a hub id such as 'org/model'."
    )


def _read_config(name: str, source: str, local: bool, revision: str | None) -> dict[str, Any]:
    if local:
        path = Path(source) / "config.json"
        if not path.is_file():
            raise TowerError(
                f"The folder {name!r} holds no model: it has no config.json. A model folder has config.json, "
                "model.safetensors and the tokeniser's files, as save_pretrained writes them."
            )
    else:
        from huggingface_hub import hf_hub_download

        try:
            path = Path(hf_hub_download(source, "config.json", revision=revision))
        except Exception as error:
            raise InputError(
                f"The hub has no tower {name!r} at revision {revision or 'main'!r} that can be reached from here: "
                f"{_first_line(error)} Check the name and the network, or give a local folder."
                f"{suggest(name, TOWER_FOLDERS)}"
            ) from None
    try:
        config = json.loads(path.read_text("utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise TowerError(f"The config.json of {name!r} is not JSON: {error}.") from None
    if not isinstance(config, dict):
        raise TowerError(f"The config.json of {name!r} is not a JSON object.")
    return config


def _load_parts(
    name: str, source: str, revision: str | None, local: bool, model_class: str, dtype: torch.dtype
) -> tuple[Any, Any, Any, str | None]:
    options = {"revision": revision, "trust_remote_code": False, "local_files_only": local}
    with quiet_transformers():
        return _from_pretrained(name, source, model_class, dtype, options)


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


def _from_pretrained(
    name: str, source: str, model_class: str, dtype: torch.dtype, options: dict[str, Any]
) -> tuple[Any, Any, Any, str | None]:
    import transformers

    try:
        model, report = getattr(transformers, model_class).from_pretrained(
            source, dtype=dtype, use_safetensors=True, output_loading_info=True, **options
        )
    except Exception as error:
        raise TowerError(
            f"The weights of {name!r} can't be loaded as {model_class}: {_first_line(error)} They must be "
            "complete safetensors files beside config.json."
        ) from None
    missing = sorted(report["missing_keys"])
    if missing:
        raise TowerError(
            f"The checkpoint {name!r} lacks {len(missing)} of the weights of a {model_class}, the first "
            f"{missing[0]!r}; they would come up random. Give a checkpoint of the whole dual model."
        )
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **options)
        images = transformers.AutoImageProcessor.from_pretrained(source, backend="pil", **options)
    except Exception as error:
        raise TowerError(
            f"The tokeniser or image processor of {name!r} can't be loaded: {_first_line(error)} The folder "
            "needs tokenizer.json (or its parts) and preprocessor_config.json or processor_config.json."
        ) from None
    return model, tokenizer, images, getattr(model.config, "_commit_hash", None)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if text.endswith((".", "!", "?")) else text + "."
