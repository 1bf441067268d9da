"""What a tower is: every file that it was loaded from, and what its parts say of themselves once loaded.

Weights alone are not a tower. The same ones under another activation, another epsilon, another tokeniser or
another picture size give other numbers, and nothing looks wrong. So a manifest holds a hash of the weights
(:attr:`Tower.fingerprint`), of each small file of a local checkpoint (:func:`file_hashes`), and of the
configuration, the tokeniser and the image processor as they stand in memory (:func:`settings_hash`), which
covers parts that came from another repository. Files of the hub are named by their commit.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Weights are hashed as they were loaded, and a text for people decides nothing.
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf", ".npz", ".parquet")
_FOR_PEOPLE = ("readme.md", "license", "license.txt", "notice")
# Where a file lay and which version wrote it; neither changes a number.
_PLACES = ("name_or_path", "_name_or_path", "_commit_hash", "transformers_version", "dtype", "torch_dtype")


def file_hashes(place: Path) -> dict[str, str]:
    """Return the SHA-256 of a file, or of each file in a checkpoint's folder and its subfolders but the weights.

    Parameters
    ----------
    place : Path

    Returns
    -------
    dict of str to str
        By name below the folder, sorted; empty where there is nothing.
    """
    if place.is_file():
        return {} if place.suffix.lower() in _WEIGHTS else {place.name: _sha256(place)}
    found = [path for pattern in ("*", "*/*") for path in place.glob(pattern) if path.is_file()]
    return {
        path.relative_to(place).as_posix(): _sha256(path)
        for path in sorted(found)
        if path.suffix.lower() not in _WEIGHTS
        and path.name.lower() not in _FOR_PEOPLE
        and not any(part.startswith(".") for part in path.relative_to(place).parts)
    }


def settings_hash(model: Any, tokenizer: Any, image_processor: Any) -> str:
    """Return the SHA-256 of what a model's configuration, its tokeniser and its image processor say of themselves."""
    parts = [_plain(getattr(model, "config", None)), _tokenizer(tokenizer), _plain(image_processor)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=_by_name).encode()).hexdigest()


def _tokenizer(tokenizer: Any) -> Any:
    if tokenizer is None:
        return None
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        # Truncation and padding are those of the last call, and not the tokeniser's own.
        whole = json.loads(backend.to_str()) | {"truncation": None, "padding": None}
    elif hasattr(tokenizer, "get_vocab"):
        whole = tokenizer.get_vocab()
    else:
        whole = {name: value for name, value in sorted(vars(tokenizer).items()) if isinstance(value, (str, int, bool))}
    return [type(tokenizer).__name__, whole, _plain(getattr(tokenizer, "init_kwargs", None))]


def _plain(part: Any) -> Any:
    """Return a configuration as JSON-like values, without where it lay."""
    content = part.to_dict() if hasattr(part, "to_dict") else part
    if not isinstance(content, Mapping):
        return content if content is None or isinstance(content, (str, int, float, bool)) else _by_name(content)
    return {
        str(name): _plain(value) if isinstance(value, Mapping) else value
        for name, value in content.items()
        if name not in _PLACES and not str(name).endswith("_file")
    }


def _by_name(value: Any) -> str:
    """Write what is no JSON; an object that has no text of its own counts by its class, never by its address."""
    own = type(value).__repr__ is not object.__repr__
    return repr(value) if own and " at 0x" not in repr(value) else type(value).__qualname__


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
