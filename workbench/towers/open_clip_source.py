"""Build an open_clip model from a checkpoint folder, and read its weights and its tokeniser.

open_clip's own loader is not used whole, for four reasons. It takes no revision of a hub repository. It builds
a Hugging Face text encoder in the precision that the encoder's config names, so that weights can be rounded on
their way in. It builds and fills a whole translation model to keep its encoder. And it fails on tables that
older versions of ``transformers`` stored and newer ones compute. The classes, the reading of weights and the
image transform are open_clip's.

A checkpoint is ``open_clip_config.json``, the weights, and the tokeniser's files. A text tower from Hugging
Face needs one more file, its encoder's ``config.json``: taken from beside the others where it lies there, else
fetched from the hub by the name in ``open_clip_config.json``.
"""

import contextlib
import importlib
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from workbench.errors import InputError, TowerError
from workbench.towers.provenance import Provenance

if TYPE_CHECKING:
    from workbench.towers.source import Source

CONFIG = "open_clip_config.json"
ENCODERS = ("bert", "m2m_100", "roberta", "xlm-roberta")
"""Types of Hugging Face text encoders with an adapter."""

_WEIGHTS = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "model.safetensors",
    "open_clip_pytorch_model.bin",
    "pytorch_model.bin",
)
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "sentencepiece.bpe.model", "vocab.txt", "vocab.json")
# Stored by older versions of transformers, computed by newer ones; the values have not changed.
_COMPUTED = (".position_ids", ".token_type_ids", ".embed_positions.weights")
# Ways of shortening a caption that draw its words at random.
_RANDOM_MASKS = ("random", "shuffle", "simple")


@dataclass(frozen=True)
class Parts:
    """What a checkpoint holds."""

    model: Any
    tokenizer: Any
    image_transform: Any
    provenance: Provenance


def open_clip() -> Any:
    """Import open_clip, or say what to install.

    Raises
    ------
    InputError
        If it is not installed, or can't be imported beside this torch.
    """
    try:
        return importlib.import_module("open_clip")
    except (ImportError, RuntimeError, OSError) as error:
        # RuntimeError and OSError come from a torchvision that was built for another torch.
        raise InputError(
            f"open_clip can't be imported here: {_reason(error)} Install it with pip install "
            "'eos-workbench[open-clip]', and torch and torchvision of one release and from one index, such as torch "
            "2.14.1 with torchvision 0.29.1."
        ) from None


def read(source: "Source") -> Parts:
    """Read everything that a checkpoint holds; float32 while it is read, then the precision asked for."""
    open_clip()
    if source.device_map is not None:
        raise InputError("An open_clip tower lies on one device: use device= instead of device_map=.")
    text = text_config(source)
    tokenizer = _tokenizer(source, text)
    model = _build(source, text)
    weights = _load_weights(source, model)
    transform = importlib.import_module("open_clip.transform")
    images = transform.image_transform_v2(transform.PreprocessCfg(**model.visual.preprocess_cfg), is_train=False)
    return Parts(model.to(source.device, source.dtype), tokenizer, images, _provenance(source, model, weights))


def text_config(source: "Source") -> dict[str, Any]:
    """Return the part of the config that describes the text tower.

    Raises
    ------
    TowerError
        If the config has none.
    """
    model = source.config.get("model_cfg")
    text, vision = (model.get(key) for key in ("text_cfg", "vision_cfg")) if isinstance(model, dict) else (None, None)
    if not isinstance(text, dict) or not isinstance(vision, dict):
        raise TowerError(
            f"The {CONFIG} of {source.name!r} describes no model: it needs model_cfg with text_cfg and vision_cfg."
        )
    return text


def _build(source: "Source", text: dict[str, Any]) -> Any:
    config = source.find(CONFIG)
    if config is None:
        raise TowerError(f"The folder {source.name!r} has no {CONFIG}.")
    try:
        with tempfile.TemporaryDirectory() as scratch, _quiet_root_logger():
            if text.get("hf_model_name"):
                encoder = _encoder_config(source, str(text["hf_model_name"]))
                encoder.save_pretrained(scratch)
                text = {**text, "hf_model_name": scratch, "hf_model_pretrained": False}
            model = open_clip().create_model(
                f"local-dir:{config.parent}", load_weights=False, pretrained_text=False, text_cfg=text
            )
    except (InputError, TowerError):
        raise
    except Exception as error:
        raise TowerError(
            f"open_clip can't build the model that the {CONFIG} of {source.name!r} describes: {_reason(error)}"
        ) from None
    return model


def _encoder_config(source: "Source", name: str) -> Any:
    from transformers import AutoConfig

    beside = source.read_json("config.json") or {}
    location, options = name, {"trust_remote_code": False}
    if beside.get("model_type") in ENCODERS:
        location, options = source.location, {**source.options, "trust_remote_code": False}
    try:
        config = AutoConfig.from_pretrained(location, **options)
    except Exception as error:
        raise TowerError(
            f"The text tower of {source.name!r} is a {name!r}, whose config can't be read: {_reason(error)} Put the "
            f"config.json of {name!r} beside {CONFIG}."
        ) from None
    if config.model_type not in ENCODERS:
        raise TowerError(
            f"The text tower of {source.name!r} is a {config.model_type!r}, for which there is no adapter. Types with "
            f"one: {', '.join(ENCODERS)}."
        )
    # Else it is built in the precision of its own checkpoint, and weights and position tables rounded to that.
    config.dtype = torch.float32
    if config.is_encoder_decoder:
        config.decoder_layers = 0  # built, filled and thrown away otherwise
    return config


def _load_weights(source: "Source", model: nn.Module) -> Path:
    path = next((found for name in _WEIGHTS if (found := source.find(name)) is not None), None)
    if path is None:
        raise TowerError(f"{source.name!r} holds no weights: it has none of {', '.join(_WEIGHTS)}.")

    known = set(model.state_dict())

    def without_computed(module: nn.Module, state: dict[str, Any], *_: Any) -> None:
        for name in [name for name in state if name.endswith(_COMPUTED) and name not in known]:
            del state[name]

    handle = model.register_load_state_dict_pre_hook(without_computed)
    try:
        with _quiet_root_logger():
            importlib.import_module("open_clip.factory").load_checkpoint(model, str(path), weights_only=True)
    except Exception as error:
        raise TowerError(
            f"The weights of {source.name!r} ({path.name}) can't be loaded into a {type(model).__name__}: "
            f"{_reason(error)} They must be those of the model that {CONFIG} describes, complete, as safetensors or "
            "as a pickle of plain tensors."
        ) from None
    finally:
        handle.remove()
    return path


def _tokenizer(source: "Source", text: dict[str, Any]) -> Any:
    module = importlib.import_module("open_clip.tokenizer")
    length = int(text.get("context_length") or module.DEFAULT_CONTEXT_LENGTH)
    options = dict(text.get("tokenizer_kwargs") or {})
    if options.get("reduction_mask") in _RANDOM_MASKS:
        raise TowerError(
            f"The tokeniser of {source.name!r} drops words at random (reduction_mask={options['reduction_mask']!r}), "
            "so that a caption has no embedding of its own."
        )
    name = text.get("hf_tokenizer_name")
    try:
        if not name:
            return module.SimpleTokenizer(context_length=length, **options)
        beside = any(source.find(file) is not None for file in _TOKENIZER_FILES)
        # What the checkpoint says comes first, so that it can't allow its own code to run.
        options |= source.options if beside else {"trust_remote_code": False}
        return module.HFTokenizer(
            source.location if beside else name,
            context_length=length,
            tokenizer_mode=text.get("tokenizer_mode"),
            **options,
        )
    except Exception as error:
        raise TowerError(
            f"The tokeniser of {source.name!r} can't be loaded: {_reason(error)} Put the files of {name!r} "
            f"beside {CONFIG}."
        ) from None


def _provenance(source: "Source", model: nn.Module, weights: Path) -> Provenance:
    notes = {}
    if weights.suffix != ".safetensors":
        notes["weights"] = "pickle, read with weights_only=True"
    found = source.provenance(model, **notes)
    # A file from the hub lies in a folder that is named after its commit.
    return found if source.local else replace(found, revision=weights.parent.name)


@contextlib.contextmanager
def _quiet_root_logger() -> Iterator[None]:
    """Hold back what open_clip logs; it logs to the root, which gives a root without a handler one for good."""
    root, handler = logging.getLogger(), logging.NullHandler()
    disabled = root.disabled
    root.addHandler(handler)
    root.disabled = True
    try:
        yield
    finally:
        root.disabled = disabled
        root.removeHandler(handler)


def _reason(error: Exception) -> str:
    """Return an error in one line: its first, and the next where the first only announces it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    text = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    text = text if len(text) <= 300 else text[:300] + " …"
    return text if text.endswith((".", "!", "?")) else text + "."
