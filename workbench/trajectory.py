"""Trajectories: the pooled row at every depth, for every caption and language.

:func:`capture` returns one labelled array with dimensions (language, caption, depth, feature). Depth 0 is
the embedding layer and depth N the last block's output, so block b gives depth b+1; both are coordinates.
The array holds rows of the residual stream as the blocks pass them on, before the final norm.

On disk a language is one safetensors file with a tensor a depth and a checksum. What is not asked for is not
read: :func:`open_trajectory`, and :func:`capture` with ``out``, give an array whose values are read when they are used.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError, safe_open
from torch import Tensor
from tqdm.auto import tqdm

from workbench.corpora.base import Corpus, Protocol
from workbench.errors import InputError, TowerError
from workbench.files import path_below, write_atomically
from workbench.hooks import HookManager, present, within
from workbench.intervention import Site
from workbench.parsing import load_file
from workbench.retrieval import first_places
from workbench.runs import checksum, key_of, read_header, sealed
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


def _stored(
    rows: Float[Tensor, "batch width"], dtype: torch.dtype, tower: str, depth: int, captions: Int[Tensor, " batch"]
) -> Float[Tensor, "batch width"]:
    """Return rows in the precision in which they are stored; refuse what is or would become infinite."""
    bad = ~torch.isfinite(rows).all(-1)
    if bad.any():
        raise TowerError(
            f"{tower!r} gives NaN or infinity at depth {depth} for {int(bad.sum())} captions, the first number "
            f"{int(captions[bad.nonzero()[0, 0]])}. Look for damaged weights, or load it in float32."
        )
    stored = rows.to(dtype)
    if not torch.isfinite(stored).all():
        raise InputError(
            f"{tower!r} has a coordinate of {float(rows.abs().max()):.0f} at depth {depth}, and float16 ends at "
            "65,504. Store the trajectory in float32."
        )
    return stored


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
                own = torch.where(has[:, None], found[depth].cpu(), 0)
                rows[part, k] = _stored(own, dtype, tower.name, depth, part)
    if embeddings is None:
        raise InputError("There is no caption to capture.")
    # Captions that the tower reads alike have one trajectory, to the bit.
    first = first_places(tokens.keys())
    again = [place for place, same in enumerate(first) if same != place]
    for values in (rows, embeddings):
        values[again] = values[[first[place] for place in again]]
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
    entry: dict[str, Any] = {
        "tower": tower.name, "weights": tower.fingerprint, "identity": tower.identity, "site": site,
        "corpus": corpus.select(wanted).hash, "protocol": protocol, "depths": chosen, "languages": list(wanted),
        "dtype": str(dtype).removeprefix("torch."),
    }  # fmt: skip
    ids = caption_ids(corpus, wanted[0], protocol)
    entry["captions"] = key_of({"captions": ids})
    entry["key"] = key_of(entry)
    folder = None if out is None else _open_folder(Path(out), entry, corpus, wanted, protocol)
    stacks = []
    for language in tqdm(wanted, desc="capture", disable=not progress):
        path = None if folder is None else _language_file(folder, language)
        if path is not None and _is_whole(path, language, chosen, (len(ids), tower.width), entry["key"]):
            continue
        texts, _ = corpus.texts(language, protocol)
        found = capture_language(tower, tower.tokenize(texts, language), chosen, site, batch_size, dtype)
        if path is None:
            stacks.append(found.rows.numpy())
            continue
        tensors = {_tensor_name(depth): found.rows[:, k].numpy() for k, depth in enumerate(chosen)}
        # A sum a depth too, so that reading a part can check it.
        header = {"key": entry["key"], "depths": {name: checksum({name: rows}) for name, rows in tensors.items()}}
        write_atomically(path, sealed(tensors, {"language": language, **header}))
    if folder is not None:
        # What is written is not held: memory does not grow with the number of languages.
        return open_trajectory(folder, wanted)
    return _labelled(np.stack(stacks), wanted, ids, chosen, entry)


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
    folder = Path(folder)
    if not (folder / "trajectory.json").is_file():
        raise InputError(f"{str(folder)!r} holds no trajectory: it has no trajectory.json. `capture` writes one.")
    key = _entry(folder)
    try:
        ids = _caption_names(folder / "captions.parquet")
    except InputError as error:
        raise InputError(
            f"The trajectory {str(folder)!r} lacks the names of its captions (captions.parquet: "
            f"{str(error).splitlines()[0]}). Capture it again into the same folder: finished languages are kept."
        ) from None
    if key.get("captions") != key_of({"captions": ids}):
        raise InputError(
            f"The trajectory {str(folder)!r} has the names of other captions (captions.parquet). Capture it again into "
            "the same folder: finished languages are kept."
        )
    present = [language for language in key["languages"] if _language_file(folder, language).is_file()]
    if not present:
        raise InputError(f"The trajectory {str(folder)!r} has no finished language. Capture it again.")
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
    files = [_language_file(folder, language) for language in wanted]
    whole = _labelled(_lazy(files, len(ids), key["depths"], key["dtype"]), wanted, ids, key["depths"], key)
    part = whole if depths is None else whole.sel(depth=chosen)
    return part if rows is None else part.isel(caption=rows)


def caption_ids(corpus: Corpus, language: str, protocol: Protocol) -> list[str]:
    """Name the captions: the image's id, with ``#k`` from its second caption on."""
    _, owner = corpus.texts(language, protocol)
    names, seen = [], {}
    for row in owner:
        k = seen[row] = seen.get(row, -1) + 1
        names.append(corpus.image_ids[row] + (f"#{k}" if k else ""))
    return names


def _caption_names(path: Path) -> list[str]:
    from workbench.corpora.records import read_table

    table = read_table(path)
    table.need(["caption"])
    names = table.values("caption")
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise InputError("it does not name each caption once, by a text")
    return names


def _language_file(folder: Path, language: object) -> Path:
    return path_below(folder, language, ".safetensors", "A language of a trajectory")


def _tensor_name(depth: int) -> str:
    return f"depth_{depth:03d}"


def _open_folder(folder: Path, entry: dict, corpus: Corpus, languages: tuple[str, ...], protocol: Protocol) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "trajectory.json"
    if path.is_file():
        old = _entry(folder)
        differs = [name for name in entry if old.get(name) != entry[name] and name != "key"]
        if differs:
            raise InputError(
                f"{str(folder)!r} holds a trajectory that differs in {', '.join(differs)}. Choose another folder."
            )
    _, owner = corpus.texts(languages[0], protocol)
    sink = pa.BufferOutputStream()
    names, images = caption_ids(corpus, languages[0], protocol), [corpus.image_ids[k] for k in owner]
    pq.write_table(pa.table({"caption": names, "image": images}), sink)
    content = sink.getvalue().to_pybytes()
    # Written anew where it is gone or damaged: without it no row has a name.
    for name, whole in (("captions.parquet", content), (path.name, (json.dumps(entry, indent=2) + "\n").encode())):
        if not (folder / name).is_file() or (folder / name).read_bytes() != whole:
            write_atomically(folder / name, whole)
    return folder


def _entry(folder: Path) -> dict[str, Any]:
    """Read what a folder says of its trajectory."""
    path = folder / "trajectory.json"
    try:
        found = load_file(path)
        depths, languages = found["depths"], found["languages"]
        fits = all(isinstance(found[name], str) for name in ("tower", "weights", "corpus", "site", "protocol", "key"))
        fits &= isinstance(depths, list) and all(type(depth) is int and 0 <= depth < 10_000 for depth in depths)
        fits &= isinstance(languages, list) and all(isinstance(language, str) for language in languages)
        if fits and found["dtype"] in ("float32", "float16") and depths and sorted(set(depths)) == depths:
            return found
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise InputError(f"{str(path)!r} is damaged: it does not describe a trajectory. Capture it again.")


def _is_whole(path: Path, language: str, depths: Sequence[int], shape: tuple[int, int], key: str) -> bool:
    """Whether a language is finished: there, of this trajectory, and as it was written."""
    if not path.is_file():
        return False
    try:
        with safe_open(path, framework="numpy") as file:
            said = read_header(file)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dict
    except (SafetensorError, OSError) as error:
        log.warning("%s can't be read (%s); the language is captured again", path.name, error)
        return False
    fits = set(tensors) == {_tensor_name(depth) for depth in depths}
    fits = fits and all(tensor.shape == shape for tensor in tensors.values())
    if fits and (said.get("language"), said.get("key"), said.get("sha256")) == (language, key, checksum(tensors)):
        return True
    log.warning("%s is damaged or of another trajectory; the language is captured again", path.name)
    return False


def _lazy(files: Sequence[Path], captions: int, depths: Sequence[int], dtype: str) -> Any:
    """Return an array of dimensions (language, caption, depth, feature) whose values are read when they are used."""
    from xarray.backends import BackendArray
    from xarray.core import indexing

    width = _read(files[0], depths[:1], captions, None).shape[-1]

    class OnDisk(BackendArray):
        shape = (len(files), captions, len(depths), width)

        def __init__(self) -> None:
            self.dtype = np.dtype(dtype)

        def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
            return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._values)

        def _values(self, key: tuple[Any, ...]) -> np.ndarray:
            picked = [np.arange(size)[part] for part, size in zip(key, self.shape, strict=True)]
            language, caption, depth, feature = (np.atleast_1d(places) for places in picked)
            wanted = [depths[place] for place in depth]
            stack = [_read(files[place], wanted, captions, width)[caption][..., feature] for place in language]
            # A dimension that was indexed with a number is dropped.
            return np.stack(stack)[tuple(slice(None) if np.ndim(places) else 0 for places in picked)]

    return indexing.LazilyIndexedArray(OnDisk())


def _read(path: Path, depths: Sequence[int], captions: int, width: int | None) -> np.ndarray:
    """Read some depths of a language, (caption, depth, feature)."""
    try:
        with safe_open(path, framework="numpy") as file:
            said = read_header(file)
            names = [_tensor_name(depth) for depth in depths]
            parts = [file.get_tensor(name) for name in names]
        sums = {name: checksum({name: part}) for name, part in zip(names, parts, strict=True)}
        if said.get("language") != path.stem or any(said["depths"].get(name) != sums[name] for name in names):
            raise ValueError("it does not hold what was captured")
        shape = (captions, width or parts[0].shape[-1])
        if any(part.shape != shape or part.dtype not in (np.float32, np.float16) for part in parts):
            raise ValueError(f"it should hold rows of shape {shape} at each depth")
    except (SafetensorError, OSError, ValueError, IndexError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{str(path)!r} can't be read ({error}); it is truncated or no trajectory. Delete it and capture again."
        ) from None
    return np.stack(parts, axis=1)


def _labelled(
    values: Any, languages: Sequence[str], ids: Sequence[str], depths: Sequence[int], key: dict
) -> "xarray.DataArray":
    import xarray

    return xarray.DataArray(
        xarray.Variable(("language", "caption", "depth", "feature"), values),
        coords={
            "language": list(languages),
            "caption": list(ids),
            "depth": list(depths),
            "block": ("depth", [depth - 1 for depth in depths]),
        },
        name="trajectory",
        attrs={name: key[name] for name in ("tower", "weights", "corpus", "site", "protocol")},
    )
