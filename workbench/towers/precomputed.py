"""Embeddings that were made elsewhere: a tower without blocks.

Everything that looks at outputs works on it: retrieval, language classifiers, erasure, averaging, biases.
What looks inside does not, and says so. Three formats hold the same, one row an image in each array:

``.npz``
    ``ids`` (texts), ``images`` where there are any, and an array for each language, named by its code.
``.safetensors``
    The same arrays; the ids as a JSON list under ``ids`` in the metadata.
``.parquet``
    A row an embedding: ``id``, ``language`` (null for the image itself) and ``embedding``, a list of numbers.

The ids are those of the corpus, in any order, and may be more.
"""

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from jaxtyping import Float
from PIL.Image import Image
from torch import Tensor, nn

from workbench.corpora.base import Corpus, Protocol
from workbench.errors import InputError, TowerError
from workbench.language_codes import own_codes
from workbench.packed import read_frame, read_npz
from workbench.parsing import loads
from workbench.towers.base import Tower
from workbench.towers.provenance import SelfCheck
from workbench.towers.tokens import Tokens

if TYPE_CHECKING:
    from workbench.towers.source import Source

SUFFIXES = (".npz", ".safetensors", ".parquet")
IMAGES = "images"


@dataclass(frozen=True)
class Embeddings:
    """What a file of embeddings holds.

    Attributes
    ----------
    ids : tuple of str
        Of the images.
    arrays : mapping of str to array of shape (image, embedding)
        By language code, and ``"images"``; float32.
    """

    ids: tuple[str, ...]
    arrays: Mapping[str, np.ndarray]


class PrecomputedTower(Tower):
    """A file of embeddings in place of a model."""

    family = "precomputed"
    causal = False
    pool = "none: embeddings only"
    strategy = "widen"
    shared_padding = False
    model_classes = ("Module",)

    def __init__(self, name: str, embeddings: Embeddings, provenance: Any) -> None:
        super().__init__(name, nn.Module(), None, None, provenance)
        self.embeddings = embeddings
        self._place = {image_id: k for k, image_id in enumerate(embeddings.ids)}

    @classmethod
    def from_source(cls, source: "Source", **options: Any) -> Self:
        """Read a file of embeddings."""
        embeddings = read_embeddings(Path(source.location))
        return cls(source.short, embeddings, source.provenance(nn.Module(), file=Path(source.location).name))

    @property
    def blocks(self) -> list[nn.Module]:
        """None."""
        return []

    @property
    def max_positions(self) -> int:
        """Zero: there are no tokens."""
        return 0

    @property
    def width(self) -> int:
        """Width of an embedding."""
        return next(iter(self.embeddings.arrays.values())).shape[-1]

    @property
    def device(self) -> torch.device:
        """Always the CPU."""
        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        """Always float32."""
        return torch.float32

    @property
    def has_images(self) -> bool:
        """Whether the file holds embeddings of images."""
        return IMAGES in self.embeddings.arrays

    def tokenize(self, captions: Sequence[str], language: str | None = None) -> Tokens:
        """Refuse: there is no text side."""
        raise self._no_model("tokens or blocks, so that nothing inside can be captured, patched or traced")

    def head(self, rows: Float[Tensor, "... width"]) -> Float[Tensor, "... embedding"]:
        """Refuse: there are no rows."""
        raise self._no_model("rows")

    def encode_text(
        self, captions: Sequence[str], language: str | None = None, batch_size: int = 256
    ) -> Float[Tensor, "caption embedding"]:
        """Refuse: embeddings are found by the image's id, with :meth:`embed_captions`."""
        raise self._no_model("a text encoder for new captions")

    def caption_keys(self, captions: Sequence[str], language: str | None = None) -> list[Hashable]:
        """Return the texts: what the model that made the file read of them isn't known."""
        return list(captions)

    def encode_images(self, images: Sequence[Image], batch_size: int = 256) -> Float[Tensor, "image embedding"]:
        """Refuse: embeddings are found by the image's id, with :meth:`embed_images`."""
        raise self._no_model("an image encoder for new images")

    def embed_captions(
        self, corpus: Corpus, language: str, protocol: Protocol = "first"
    ) -> Float[Tensor, "caption embedding"]:
        """Return the stored embeddings of a language in the order of the corpus."""
        if protocol != "first":
            raise InputError(
                f"{self.name!r} holds one caption an image: protocol 'first' is the only one it can score."
            )
        return self.find(language, corpus.image_ids, corpus.name)

    def embed_images(self, corpus: Corpus) -> Float[Tensor, "image embedding"]:
        """Return the stored embeddings of the images in the order of the corpus."""
        return self.find(IMAGES, corpus.image_ids, corpus.name)

    def check(self, captions: Sequence[str] = ()) -> SelfCheck:
        """Nothing to prove: the file was checked when it was read."""
        self.self_check = SelfCheck(0.0, 0.0)
        return self.self_check

    @property
    def fingerprint(self) -> str:
        """SHA-256 of ids and embeddings."""
        digest = hashlib.sha256("\0".join(self.embeddings.ids).encode())
        for name, values in sorted(self.embeddings.arrays.items()):
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()

    def _weights(self) -> Iterator[tuple[str, Tensor]]:
        yield from ((name, torch.from_numpy(values)) for name, values in self.embeddings.arrays.items())

    def find(self, name: str, ids: Sequence[str], of: str) -> Float[Tensor, "image embedding"]:
        """Return the rows of some ids: of a language, or ``"images"``.

        Parameters
        ----------
        name : str
        ids : sequence of str
            Of images.
        of : str
            Name of the corpus that they are of, for messages.

        Raises
        ------
        InputError
            If the file has no such array or lacks an id.
        """
        arrays = self.embeddings.arrays
        if name not in arrays:
            raise InputError(f"{self.name!r} has no embeddings of {name!r}. It has: {', '.join(sorted(arrays))}.")
        absent = [image_id for image_id in ids if image_id not in self._place]
        if absent:
            raise InputError(
                f"{self.name!r} lacks {len(absent)} of the {len(ids)} images of {of!r}, the first "
                f"{absent[0]!r}. Its ids must be those of the corpus, such as {ids[0]!r}."
            )
        return torch.from_numpy(arrays[name][[self._place[image_id] for image_id in ids]])

    def _no_model(self, what: str) -> InputError:
        return InputError(
            f"{self.name!r} is a file of embeddings and has no {what}. Scores, biases, erasure and averaging work on "
            "it; for anything inside give the model itself."
        )


def read_embeddings(path: Path) -> Embeddings:
    """Read a file of embeddings.

    Raises
    ------
    TowerError
        If it is truncated, has no ids, or its arrays are not of one width, one row an id, and finite.
    """
    readers = {".npz": _read_npz, ".safetensors": _read_safetensors, ".parquet": _read_parquet}
    try:
        ids, arrays = readers[path.suffix](path)
    except TowerError:
        raise
    except InputError as error:
        raise TowerError(str(error)) from None
    except Exception as error:
        raise TowerError(
            f"{path.name!r} can't be read as embeddings ({' '.join(str(error).split())[:200]}). It is truncated or in "
            "another layout; the README shows the layouts of .npz, .safetensors and .parquet."
        ) from None
    if not arrays or set(arrays) == {IMAGES}:
        raise TowerError(f"{path.name!r} holds no language: name an array by its code, such as 'sw'.")
    twice = [image_id for image_id, count in Counter(ids).items() if count > 1] if len(set(ids)) < len(ids) else []
    if twice:
        raise TowerError(f"{path.name!r} names the id {min(twice)!r} twice.")
    for name, values in arrays.items():
        if np.asarray(values).dtype.kind not in "fiu":
            raise TowerError(f"{path.name!r} holds {np.asarray(values).dtype} values in {name!r}, not real numbers.")
        if (np.abs(values[np.isfinite(values)]) > np.finfo(np.float32).max).any():
            raise TowerError(f"{path.name!r} holds a number beyond float32 in {name!r}. Scale the embeddings.")
    width = next(iter(arrays.values())).shape[-1]
    own = own_codes((name for name in arrays if name != IMAGES), repr(path.name))
    arrays = {own.get(name, name): values for name, values in arrays.items()}
    for name, values in arrays.items():
        if values.ndim != 2 or values.shape != (len(ids), width):
            raise TowerError(
                f"{path.name!r} holds {name!r} of shape {tuple(values.shape)}; each array must be "
                f"({len(ids)}, {width}), a row for each of its ids and one width for all."
            )
        if not np.isfinite(values).all():
            raise TowerError(f"{path.name!r} holds NaN or infinity in {name!r}.")
    return Embeddings(tuple(ids), {name: np.asarray(values, np.float32) for name, values in sorted(arrays.items())})


def _read_npz(path: Path) -> tuple[list[str], dict[str, np.ndarray]]:
    arrays = read_npz(path)
    if "ids" not in arrays:
        raise TowerError(f"{path.name!r} has no array 'ids' that names the image of each row.")
    ids = arrays.pop("ids")
    if ids.ndim != 1:
        raise TowerError(f"{path.name!r} has 'ids' of shape {ids.shape}; it must be a list of texts, one a row.")
    return [str(image_id) for image_id in ids], arrays


def _read_safetensors(path: Path) -> tuple[list[str], dict[str, np.ndarray]]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        said = (file.metadata() or {}).get("ids")
        if said is None:
            raise TowerError(
                f"{path.name!r} has no 'ids' in its metadata, a JSON list of the image of each row. "
                "If these are the weights of a model, give the folder that they lie in."
            )
        # Through torch, which knows bfloat16.
        names = list(file.keys())
        arrays = {name: file.get_tensor(name).float().numpy() for name in names}
    return _listed(loads(said, f"The ids of {path.name!r}"), path), arrays


def _listed(ids: object, path: Path) -> list[str]:
    if not isinstance(ids, list) or not all(isinstance(name, str | int) for name in ids):
        raise TowerError(f"The 'ids' of {path.name!r} are no list of texts.")
    return [str(name) for name in ids]


def _read_parquet(path: Path) -> tuple[list[str], dict[str, np.ndarray]]:
    table = read_frame(path)
    missing = sorted({"id", "language", "embedding"} - set(table.columns))
    if missing:
        raise TowerError(f"{path.name!r} has no column {missing[0]!r}. It needs id, language and embedding.")
    language = table["language"].fillna(IMAGES)
    ids = list(dict.fromkeys(table["id"].astype(str)))
    arrays = {}
    for name, part in table.groupby(language, sort=True):
        rows = dict(zip(part["id"].astype(str), part["embedding"], strict=True))
        if len(rows) < len(part) or set(rows) != set(ids):
            raise TowerError(
                f"{path.name!r} has {len(part)} rows of {str(name)!r} for {len(ids)} ids; it needs one an id."
            )
        arrays[str(name)] = np.stack([np.asarray(rows[image_id], np.float32) for image_id in ids])
    return ids, arrays
