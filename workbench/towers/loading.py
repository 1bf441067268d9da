"""Find and load a tower: a built-in name, a local folder, or a hub id.

The bench loads what the checkpoint's own ``config.json`` says, with the class that it names, and refuses
what it can't prove: weights that are missing and would come up random, a family without an adapter, a tower
that fails its self-check. No code from a checkpoint runs unless ``remote_code=True`` says that it may.
"""

import dataclasses
from pathlib import Path
from typing import Any

import torch

from workbench.builtin import TOWER_FOLDERS
from workbench.errors import InputError, TowerError, suggest
from workbench.files import as_path
from workbench.towers.base import Tower
from workbench.towers.described import DescribedTower
from workbench.towers.description import shipped
from workbench.towers.planted import PREFIX, parse_planted, plant
from workbench.towers.precomputed import SUFFIXES, PrecomputedTower
from workbench.towers.registry import FAMILIES, families
from workbench.towers.source import Source, said_of
from workbench.towers.text_only import TextEncoderTower

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_tower(
    name: str | Path,
    *,
    revision: str | None = None,
    dtype: torch.dtype | str = torch.float32,
    device: torch.device | str = "cpu",
    device_map: str | None = None,
    remote_code: bool = False,
    **options: Any,
) -> Tower:
    """Load a tower and prove that its adapter reads it rightly.

    Parameters
    ----------
    name : str or Path
        ``"emoji-causal"`` or ``"emoji-bidirectional"``, a folder that ``save_pretrained`` wrote, a hub id
        such as ``"facebook/metaclip-2-worldwide-huge-quickgelu"``, a description file (``.toml``), or the name
        of one that comes with the bench, such as ``"e5-v"``.
    revision : str, optional
        Commit, tag or branch of a hub id. Name a commit for a number that you publish.
    dtype : torch.dtype or str
        Precision of the weights. float32 by default, whatever the checkpoint is stored in: half precision
        has a noise floor of one to two percent of a row.
    device : torch.device or str
    device_map : str, optional
        ``"auto"`` lets ``accelerate`` spread a large model over the devices; ``device`` is not read then.
    remote_code : bool
        Run the Python code that comes with the checkpoint. Whoever can write to that repository can then do
        on this machine whatever you can: read the code, and name a commit as ``revision``.
    **options
        What only some families take, such as ``pooling`` and ``prefix`` of a text-only encoder.

    Returns
    -------
    Tower

    Raises
    ------
    InputError
        If there is no such tower, the device or dtype is not to be had, or the family takes no such option.
    TowerError
        If the folder holds no model, its family has no adapter, weights are missing, or the self-check of
        :meth:`~workbench.towers.base.Tower.check` fails.
    """
    name = str(name)
    if name.startswith(PREFIX):
        base, fault = parse_planted(name)
        options |= {"revision": revision, "dtype": dtype, "device": device, "device_map": device_map}
        tower = plant(load_tower(base, remote_code=remote_code, **options), fault)
        tower.check()
        return tower
    location, local = _locate(name)
    source = Source(name, location, local, revision, _dtype(dtype), _device(device), remote_code, device_map)
    source, adapter = recognise(source)
    unknown = sorted(set(options) - set(adapter.options))
    if unknown:
        legal = f"It takes {', '.join(adapter.options)}." if adapter.options else "It takes none."
        raise InputError(f"The {adapter.family} adapter has no option {unknown[0]!r}. {legal}")
    with said_of(name, "be loaded"):
        tower = adapter.from_source(source, **options)
    with said_of(name, "read a caption"):
        tower.check()
    return tower


def recognise(source: Source) -> tuple[Source, type[Tower]]:
    """Read what a checkpoint says of itself; return the source with its config, and the adapter for it."""
    if Path(source.location).suffix in SUFFIXES and Path(source.location).is_file():
        return source, PrecomputedTower
    if Path(source.location).suffix == ".toml":
        return source, DescribedTower
    config = source.read_json("config.json")
    if config is None or str(config.get("model_type")) not in FAMILIES:
        # Beside an open_clip config, config.json is that of the text encoder alone.
        whole = source.read_json("open_clip_config.json")
        if whole is not None:
            return dataclasses.replace(source, config=whole), FAMILIES["open_clip"].adapter_class
    if config is None:
        adapter = source.read_json("adapter_config.json")
        if adapter is not None:
            raise TowerError(
                f"{source.name!r} is an adapter (LoRA) and no model. Merge it into its base, "
                f"{adapter.get('base_model_name_or_path')!r}, with `merge_and_unload` of peft, save that, and load the "
                "folder."
            )
        raise TowerError(
            f"The folder {source.name!r} holds no model: it has no config.json. A model folder has config.json, "
            "model.safetensors and the tokeniser's files, as save_pretrained writes them, or open_clip_config.json "
            "beside open_clip's weights."
        )
    source = dataclasses.replace(source, config=config)
    said = config.get("model_type")
    model_type = said if said is None or isinstance(said, str) else repr(said)
    if model_type not in FAMILIES and _is_text_encoder(model_type):
        return source, TextEncoderTower
    if model_type not in FAMILIES:
        raise TowerError(
            f"{source.name!r} is a model of type {model_type!r}, for which there is no adapter. "
            f"Types with one: {', '.join(families())}. Any other can be described in a .toml file; "
            f"{', '.join(shipped())} are."
        )
    return source, FAMILIES[model_type].adapter_class


def _is_text_encoder(model_type: Any) -> bool:
    """Whether ``AutoModel`` loads this type and it reads text alone."""
    from transformers.models.auto import modeling_auto

    tables = ("MODEL_FOR_MASKED_LM_MAPPING_NAMES", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")
    return any(model_type in getattr(modeling_auto, table) for table in tables)


def _device(device: torch.device | str) -> torch.device:
    try:
        found = torch.device(device)
        # Reads a number back: the device "meta" holds shapes alone.
        torch.zeros(1, device=found).item()
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
    path = as_path(name, "The tower")
    if name and path.is_dir():
        return str(path), True
    if path.is_file() and path.suffix in (*SUFFIXES, ".toml"):
        return str(path), True
    if name in (described := shipped()):
        return str(described[name]), True
    if path.is_file():
        raise TowerError(
            f"{name!r} is a file. Give the folder that holds config.json and model.safetensors, a description (.toml) "
            f"or a file of embeddings ({', '.join(SUFFIXES)})."
        )
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return name, False
    raise InputError(
        f"No tower is called {name!r}.{suggest(name, [*TOWER_FOLDERS, *shipped()])} Give a built-in name "
        f"({', '.join(TOWER_FOLDERS)}), an existing folder, a description (.toml), or a hub id such as 'org/model'."
    )
