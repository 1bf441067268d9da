"""Trajectories: the pooled row at every depth, for every caption and language.

:func:`capture` returns one labelled array with dimensions (language, caption, depth, feature). Depth 0 is
the embedding layer and depth N the last block's output, so block b gives depth b+1; both are coordinates.
The array holds rows of the residual stream as the blocks pass them on, before the final norm.

On disk a language is one safetensors file with a tensor a depth. What is not asked for is not read.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from tqdm.auto import tqdm

from workbench.corpora.base import Corpus, Protocol
from workbench.errors import InputError
from workbench.files import write_atomically
from workbench.hooks import HookManager, present, within
from workbench.intervention import Site
from workbench.towers.base import Tower
from workbench.towers.tokens import Tokens, check_site

if TYPE_CHECKING:
    import xarray

log = logging.getLogger(__name__)

DEFAULT_BATCH = 256


@dataclass(frozen=True)
class LanguageRows:
    """What one pass over the captions of one language gives.

    Attributes
    ----------
    rows : Tensor of shape (caption, depth, width)
    available : bool Tensor of shape (caption,)
        False where a caption has no such row (a middle token); its rows are zero.
    embeddings : Tensor of shape (caption, embedding)
        The model's own text features from the same pass, unnormalised.
    """

    rows: Float[Tensor, "caption depth width"]
    available: Bool[Tensor, " caption"]
    embeddings: Float[Tensor, "caption embedding"]


def check_depths(depths: Iterable[int] | None, n_blocks: int) -> list[int]:
    """Return sorted depths between 0 and N; negative ones count from N, as in ``-3`` for N-3."""
    if depths is None:
        return list(range(n_blocks + 1))
    found = []
    for depth in depths:
        if not -n_blocks - 1 <= depth <= n_blocks:
            raise InputError(
                f"There is no depth {depth}: this tower has {n_blocks} blocks, so depths run from 0 (the embedding "
                f"layer) to {n_blocks} (after the last block)."
            )
        found.append(depth if depth >= 0 else n_blocks + 1 + depth)
    if not found:
        raise InputError(f"No depth was chosen. Depths run from 0 to {n_blocks}.")
    return sorted(set(found))


def batches(tower: Tower, tokens: Tokens, batch_size: int) -> Iterator[tuple[Int[Tensor, " batch"], Tokens]]:
    """Split captions into batches: of like length and without needless padding where the tower allows it."""
    if batch_size < 1:
        raise InputError(f"A batch size of {batch_size} came; it must be at least 1.")
    if not tower.shared_padding:
        for part in torch.arange(len(tokens)).split(batch_size):
            yield part, tokens.take(part)
        return
    for part in torch.argsort(tokens.length, stable=True).split(batch_size):
        batch = tokens.take(part)
        yield part, batch.cut(int(batch.length.max()))


@torch.no_grad()
def capture_language(
    tower: Tower,
    tokens: Tokens,
    depths: Sequence[int],
    site: Site = "pooled",
    batch_size: int = DEFAULT_BATCH,
    dtype: torch.dtype = torch.float32,
) -> LanguageRows:
    """Capture one language; rows and embeddings come back on the CPU, in the order of the captions."""
    n = len(tokens)
    rows = torch.zeros(n, len(depths), tower.width, dtype=dtype)
    available = torch.ones(n, dtype=torch.bool)
    embeddings: Tensor | None = None
    with tower.evaluating():
        for part, batch in batches(tower, tokens, batch_size):
            where = batch.where(site)
            has = present(where)
            with HookManager(tower.blocks) as hooks:
                found = hooks.capture(depths, within(where))
                features = tower.forward(batch).float().cpu()
            if embeddings is None:
                embeddings = torch.empty(n, features.shape[-1])
            embeddings[part] = features
            available[part] = has
            for k, depth in enumerate(depths):
                rows[part, k] = torch.where(has[:, None], found[depth].cpu(), 0).to(dtype)
    if embeddings is None:
        raise InputError("There is no caption to capture.")
    return LanguageRows(rows, available, embeddings)


def capture(
    tower: Tower,
    corpus: Corpus,
    languages: Iterable[str] | None = None,
    *,
    depths: Iterable[int] | None = None,
    site: Site = "pooled",
    protocol: Protocol = "first",
    batch_size: int = DEFAULT_BATCH,
    dtype: torch.dtype = torch.float32,
    out: str | Path | None = None,
    progress: bool = True,
) -> "xarray.DataArray":
    """Capture the trajectory of every caption (S3-05).

    Parameters
    ----------
    tower : Tower
    corpus : Corpus
    languages : iterable of str, optional
        All of the corpus by default.
    depths : iterable of int, optional
        All of 0 to N by default; negative ones count from N.
    site : str
        Which row of each caption: ``"pooled"``, ``"middle"``, ``"random"`` or ``"token K"``.
    protocol : {"first", "all"}
    batch_size : int
    dtype : torch.dtype
        float32, or float16 to halve the size; a row is rounded, not the pass that makes it.
    out : str or Path, optional
        Folder to write to. Languages that it holds already, of the same tower and captions, are not run
        again.
    progress : bool

    Returns
    -------
    xarray.DataArray
        Dimensions (language, caption, depth, feature).
    """
    check_site(site)
    wanted = corpus.languages if languages is None else corpus.check_languages(languages)
    corpus.check_parallel(wanted, protocol)
    chosen = check_depths(depths, tower.n_blocks)
    if dtype not in (torch.float32, torch.float16):
        raise InputError(f"A trajectory is stored in float32 or float16, not {dtype}.")
    key = {
        "tower": tower.name, "weights": tower.fingerprint, "corpus": corpus.select(wanted).hash, "site": site,
        "protocol": protocol, "depths": chosen, "dtype": str(dtype).removeprefix("torch."),
    }  # fmt: skip
    folder = None if out is None else _open_folder(Path(out), key, corpus, wanted, protocol)
    stacks = []
    for language in tqdm(wanted, desc="capture", disable=not progress):
        path = None if folder is None else folder / f"{language}.safetensors"
        if path is not None and path.is_file():
            stacks.append(_read(path, chosen, None))
            continue
        texts, _ = corpus.texts(language, protocol)
        found = capture_language(tower, tower.tokenize(texts, language), chosen, site, batch_size, dtype)
        if path is not None:
            tensors = {_tensor_name(depth): found.rows[:, k].contiguous() for k, depth in enumerate(chosen)}
            write_atomically(path, save(tensors, metadata={"language": language}))
        stacks.append(found.rows.numpy())
    return _labelled(np.stack(stacks), wanted, caption_ids(corpus, wanted[0], protocol), chosen, key)


def open_trajectory(
    folder: str | Path,
    languages: Iterable[str] | None = None,
    depths: Iterable[int] | None = None,
    captions: Iterable[str] | None = None,
) -> "xarray.DataArray":
    """Read a captured trajectory, or only some languages, depths and captions of it.

    Raises
    ------
    InputError
        If the folder holds no trajectory, a file of it is truncated, or something asked for is not there.
    """
    import pyarrow.parquet as pq

    folder = Path(folder)
    if not (folder / "trajectory.json").is_file():
        raise InputError(f"{str(folder)!r} holds no trajectory: it has no trajectory.json. `capture` writes one.")
    key = json.loads((folder / "trajectory.json").read_text("utf-8"))
    ids = pq.read_table(folder / "captions.parquet")["caption"].to_pylist()
    present = [language for language in key["languages"] if (folder / f"{language}.safetensors").is_file()]
    wanted = list(present if languages is None else languages)
    for language in wanted:
        if language not in present:
            raise InputError(
                f"The trajectory {str(folder)!r} has no language {language!r}. It has: {', '.join(present)}."
            )
    chosen = key["depths"] if depths is None else sorted(set(depths))
    for depth in chosen:
        if depth not in key["depths"]:
            raise InputError(f"The trajectory {str(folder)!r} has no depth {depth}. It has: {key['depths']}.")
    rows = None
    if captions is not None:
        place = {name: k for k, name in enumerate(ids)}
        absent = [name for name in captions if name not in place]
        if absent:
            raise InputError(f"The trajectory {str(folder)!r} has no caption {absent[0]!r}.")
        rows = [place[name] for name in captions]
        ids = [ids[row] for row in rows]
    stack = np.stack([_read(folder / f"{language}.safetensors", chosen, rows) for language in wanted])
    return _labelled(stack, wanted, ids, chosen, key)


def caption_ids(corpus: Corpus, language: str, protocol: Protocol) -> list[str]:
    """Name the captions: the image's id, with ``#k`` from its second caption on."""
    _, owner = corpus.texts(language, protocol)
    names, seen = [], {}
    for row in owner:
        k = seen[row] = seen.get(row, -1) + 1
        names.append(corpus.image_ids[row] + (f"#{k}" if k else ""))
    return names


def _tensor_name(depth: int) -> str:
    return f"depth_{depth:03d}"


def _open_folder(folder: Path, key: dict, corpus: Corpus, languages: tuple[str, ...], protocol: Protocol) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "trajectory.json"
    entry = {**key, "languages": list(languages)}
    if path.is_file():
        old = json.loads(path.read_text("utf-8"))
        differs = [name for name in entry if old.get(name) != entry[name]]
        if differs:
            raise InputError(
                f"{str(folder)!r} holds a trajectory that differs in {', '.join(differs)}. Choose another folder."
            )
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    _, owner = corpus.texts(languages[0], protocol)
    sink = pa.BufferOutputStream()
    table = {
        "caption": caption_ids(corpus, languages[0], protocol),
        "image": [corpus.image_ids[k] for k in owner],
    }
    pq.write_table(pa.table(table), sink)
    write_atomically(folder / "captions.parquet", sink.getvalue().to_pybytes())
    write_atomically(path, (json.dumps(entry, indent=2) + "\n").encode())
    return folder


def _read(path: Path, depths: Sequence[int], rows: list[int] | None) -> np.ndarray:
    try:
        with safe_open(path, framework="numpy") as file:
            parts = []
            for depth in depths:
                tensor = file.get_tensor(_tensor_name(depth))
                parts.append(tensor if rows is None else tensor[rows])
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{str(path)!r} can't be read ({error}); it is truncated or no trajectory. Delete it and capture again."
        ) from None
    return np.stack(parts, axis=1)


def _labelled(
    values: np.ndarray, languages: Sequence[str], ids: Sequence[str], depths: Sequence[int], key: dict
) -> "xarray.DataArray":
    import xarray

    return xarray.DataArray(
        values,
        dims=("language", "caption", "depth", "feature"),
        coords={
            "language": list(languages),
            "caption": list(ids),
            "depth": list(depths),
            "block": ("depth", [depth - 1 for depth in depths]),
        },
        name="trajectory",
        attrs={name: key[name] for name in ("tower", "weights", "corpus", "site", "protocol")},
    )
