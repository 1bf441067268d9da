"""Damage to sound files: to their bytes, to the values inside them, and to the types of those."""

import io
import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Change = Callable[[random.Random, bytes], bytes]

NASTY_TEXTS = [
    "",
    " ",
    "\t",
    "\n",
    "\0",
    ".",
    "..",
    "../../../evil",
    "/etc/passwd",
    "C:\\x",
    "a/b",
    "~",
    "-1",
    "1e999",
    "NaN",
    "²",
    "٣",
    "9" * 5000,
    "x" * 300,
    "x" * 70_000,
    "\u200b",
    "\ufeff",
    "\u202e",
    "en ",
    "EN",
    "iw",
    "zh-hans",
    "sww",
    "{}",
    "{option}",
    "{text}",
    "%s",
    "</s>",
    "<|endoftext|>",
    "𝒳",
    "é" * 130,
    '"',
    "'",
    "a\tb",
    "a,b",
    "a\nb",
    "NUL",
    "null",
    "None",
    "True",
    "\ud83d",
    "__class__",
    "( , )",
    "[" * 2000,
    "{" * 300,
    "(((((((",
    "0x10",
    "1_000",
    "+1",
    "-0",
    "N-99999",
]
NASTY_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64 + 1,
    10**30,
    -(2**70),
    0.5,
    -1.5,
    1e300,
    [],
    {},
    [[]],
    [None],
    [1, 1],
    {"": ""},
    {"en": 1},
    ["en", "en"],
    [{}],
    [True],
    {"bytes": None, "path": None},
    {"path": "../../x"},
    [[[[[]]]]],
]
RAW = [
    "NaN", "-Infinity", "9" * 5000, "1e999", "[" * 5000, "{", "}", '"', "\\ud83d", "\\u0000", "nul", "tru", ",,", "0x1",
    '{"en":1,"en":2}', "[" * 90 + "]" * 90, "inf", "nan", "1979-05-27", "'''", "\n\n", "=", "#",
]  # fmt: skip


def text(rng: random.Random) -> str:
    """A text that somebody might not have thought of."""
    if rng.random() < 0.8:
        return rng.choice(NASTY_TEXTS)
    return "".join(
        chr(rng.choice([rng.randrange(128), rng.randrange(0x3000), rng.randrange(0x1F000, 0x1FAFF)]))
        for _ in range(rng.randrange(12))
    )


def value(rng: random.Random) -> Any:
    """A value of JSON of any type."""
    return rng.choice(NASTY_VALUES) if rng.random() < 0.6 else text(rng)


# -- bytes -------------------------------------------------------------------------------------------


def flip(rng: random.Random, content: bytes) -> bytes:
    """Flip a few bits."""
    if not content:
        return b"\xff"
    found = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 3, 20])):
        # Headers and ends decide most.
        place = (
            rng.randrange(len(found))
            if rng.random() < 0.5
            else rng.choice([0, -1]) * 1 + rng.choice([1, -1]) * rng.randrange(min(64, len(found)))
        )
        found[place % len(found)] ^= 1 << rng.randrange(8)
    return bytes(found)


def cut(rng: random.Random, content: bytes) -> bytes:
    """Lose a part, at the end or in the middle."""
    if len(content) < 2:
        return b""
    first, last = sorted(rng.randrange(len(content)) for _ in range(2))
    return content[:first] if rng.random() < 0.5 else content[:first] + content[last:]


def insert(rng: random.Random, content: bytes) -> bytes:
    """Gain a part: random bytes, a text, or what stands elsewhere in the file."""
    place = rng.randrange(len(content) + 1)
    kind = rng.randrange(4)
    if kind == 0:
        part = rng.randbytes(rng.randrange(1, 9))
    elif kind == 1:
        part = text(rng).encode("utf-8", "surrogatepass")
    elif kind == 2:
        part = rng.choice(RAW).encode()
    else:
        first = rng.randrange(len(content) + 1)
        part = content[first : first + rng.randrange(1, 200)]
    return content[:place] + part + content[place:]


def numbers(rng: random.Random, content: bytes) -> bytes:
    """Overwrite four or eight bytes with an extreme number, as sizes and offsets in headers are."""
    if len(content) < 8:
        return content + b"\0"
    place = rng.randrange(len(content) - 7)
    number = rng.choice([0, 1, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1])
    packed = struct.pack("<Q", number)[: rng.choice([1, 2, 4, 8])]
    return content[:place] + packed + content[place + len(packed) :]


def instead(rng: random.Random, content: bytes) -> bytes:
    """Be another file altogether."""
    return rng.choice(
        [
            b"",
            b"\0" * 100,
            b"\xef\xbb\xbf",
            b"<!DOCTYPE html><html>",
            b"404: Not Found",
            b"null",
            b"[]",
            b"{}",
            b"0",
            b'""',
            b"version https://git-lfs.github.com/spec/v1\n",
            b"PK\x03\x04",
            b"PAR1PAR1",
            b"\x80\x04cos\nsystem\n",
            content * 2,
            b"\xef\xbb\xbf" + content,
            content.replace(b"\n", b"\r\n"),
            content.replace(b"\n", b"\r"),
            content.upper(),
            content.decode("latin-1").encode("utf-16"),
            b"\x1f\x8b" + content,
        ]
    )


BYTES: tuple[Change, ...] = (flip, flip, cut, insert, numbers, instead)


# -- JSON, TOML, tables of text ------------------------------------------------------------------------


def _nodes(found: Any) -> list[tuple[Any, Any]]:
    """Every place of a JSON value, as (container, key)."""
    places: list[tuple[Any, Any]] = []
    todo = [found]
    while todo:
        part = todo.pop()
        keys = list(part) if isinstance(part, dict) else list(range(len(part))) if isinstance(part, list) else []
        for key in keys:
            places.append((part, key))
            todo.append(part[key])
    return places


def _changed(rng: random.Random, found: Any) -> str:
    for _ in range(rng.choice([1, 1, 2])):
        places = _nodes(found)
        if not places:
            return json.dumps(value(rng))
        container, key = rng.choice(places)
        action = rng.randrange(6)
        if action == 0 and isinstance(container, dict):
            container[text(rng)] = container.pop(key)
        elif action == 1:
            del container[key]
        elif action == 2:
            container[key] = [container[key]]
        elif action == 3 and isinstance(container, dict):
            container[text(rng)] = value(rng)
        else:
            container[key] = value(rng)
    written = json.dumps(found)
    if rng.random() < 0.15:
        place = rng.randrange(len(written) + 1)
        return written[:place] + rng.choice(RAW) + written[place:]
    if rng.random() < 0.1 and isinstance(found, dict) and found:
        key = rng.choice(list(found))
        return written[:-1] + f", {json.dumps(key)}: {json.dumps(value(rng))}}}"
    return written


def in_json(rng: random.Random, content: bytes) -> bytes:
    """Change values, keys and nesting of a JSON file."""
    return _changed(rng, json.loads(content)).encode("utf-8", "surrogatepass")


def in_json_lines(rng: random.Random, content: bytes) -> bytes:
    """Change a line of a file of JSON lines, repeat one or lose one."""
    lines = content.decode().splitlines()
    place = rng.randrange(len(lines))
    action = rng.random()
    if action < 0.75:
        lines[place] = _changed(rng, json.loads(lines[place]))
    elif action < 0.85:
        lines.insert(rng.randrange(len(lines) + 1), lines[place])
    else:
        del lines[place]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def in_lines(rng: random.Random, content: bytes) -> bytes:
    """Change, repeat, swap or lose a line of a text file."""
    lines = content.decode().splitlines() or [""]
    place = rng.randrange(len(lines))
    action = rng.randrange(4)
    if action == 0:
        lines[place] = text(rng)
    elif action == 1:
        lines.insert(place, rng.choice(lines))
    elif action == 2:
        del lines[place]
    else:
        lines[place] += text(rng)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def in_cells(separator: str) -> Change:
    """Change a cell of a table of text."""

    def change(rng: random.Random, content: bytes) -> bytes:
        rows = [line.split(separator) for line in content.decode().splitlines()]
        row = rng.choice(rows)
        action = rng.randrange(4)
        if action == 0:
            row.append(text(rng))
        elif action == 1:
            del row[rng.randrange(len(row))]
        else:
            row[rng.randrange(len(row))] = text(rng)
        return "\n".join(separator.join(row) for row in rows).encode("utf-8", "surrogatepass")

    return change


def in_toml(rng: random.Random, content: bytes) -> bytes:
    """Give a key of a TOML file another value or another name."""
    lines = content.decode().splitlines()
    place = rng.randrange(len(lines))
    key, equals, _ = lines[place].partition("=")
    if equals and rng.random() < 0.8:
        new = json.dumps(value(rng)) if rng.random() < 0.6 else rng.choice(RAW)
        lines[place] = f"{key}= {new}" if rng.random() < 0.8 else f"{text(rng)} = {new}"
    else:
        lines.insert(place, f"{text(rng)} = {json.dumps(value(rng))}")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


# -- Parquet, npz, safetensors -------------------------------------------------------------------------


def _column(rng: random.Random, column: pa.ChunkedArray) -> pa.Array:
    n = len(column)
    words = [text(rng).encode("utf-8", "replace").decode() for _ in range(n)]
    broken = pa.StringArray.from_buffers(
        n, pa.py_buffer(np.arange(n + 1, dtype=np.int32).tobytes()), pa.py_buffer(b"\xff" * n)
    )
    kinds: list[Callable[[], pa.Array]] = [
        lambda: pa.array(words),
        lambda: pa.array([None] * n, pa.string()),
        lambda: pa.nulls(n),
        lambda: pa.array(range(n)),
        lambda: pa.array([rng.choice([0.0, -1.0, np.nan, np.inf, 1e308]) for _ in range(n)]),
        lambda: pa.array([True] * n),
        lambda: pa.array([b"\xff\xd8"] * n),
        lambda: pa.array([[1.0, 2.0]] * n),
        lambda: pa.array([["a"]] * n),
        lambda: pa.array([{"bytes": b"x", "path": None}] * n),
        lambda: pa.array([{"path": "../x"}] * n),
        lambda: pa.array(range(n), pa.timestamp("ns")),
        lambda: pa.array([10**12] * n, pa.decimal128(38, 2)),
        lambda: pa.array(words).dictionary_encode(),
        lambda: broken,
        lambda: pa.array([[("en", "a")]] * n, pa.map_(pa.string(), pa.string())),
        lambda: pa.array([2**63 - 1] * n, pa.duration("s")),
    ]
    return rng.choice(kinds)()


def in_parquet(rng: random.Random, content: bytes) -> bytes:
    """Give a column of a Parquet file another type, name or values."""
    table = pq.read_table(pa.BufferReader(content))
    place = rng.randrange(table.num_columns)
    action = rng.randrange(8)
    names = list(table.column_names)
    if action == 0:
        names[place] = rng.choice(
            ["", "en", "id", "en ", names[0], "image", text(rng).encode("utf-8", "replace").decode()]
        )
        table = table.rename_columns(names)
    elif action == 1:
        table = table.remove_column(place) if table.num_columns > 1 else table.slice(0, 0)
    elif action == 2:
        table = table.slice(0, rng.randrange(table.num_rows + 1))
    elif action == 3:
        table = pa.concat_tables([table, table.slice(0, 1)])
    else:
        table = table.set_column(place, names[place], _column(rng, table.column(place)))
    sink = pa.BufferOutputStream()
    metadata = rng.choice(
        [None, {b"pandas": b"{"}, {b"pandas": b"[1]"}, {b"ARROW:schema": b"x"}, table.schema.metadata]
    )
    pq.write_table(table.replace_schema_metadata(metadata), sink)
    return sink.getvalue().to_pybytes()


def _array(rng: random.Random, array: np.ndarray) -> np.ndarray:
    kinds: list[Callable[[], np.ndarray]] = [
        lambda: np.array(3.0),
        lambda: np.array("x"),
        lambda: np.zeros((2, 2, 2), np.float32),
        lambda: np.array([["a", "b"]]),
        lambda: array[:0],
        lambda: array[..., None],
        lambda: array.reshape(-1),
        lambda: np.full(array.shape, np.nan),
        lambda: np.zeros(array.shape, np.complex64),
        lambda: np.zeros(array.shape, bool),
        lambda: np.zeros(array.shape, np.int64),
        lambda: np.zeros(array.shape, "datetime64[s]"),
        lambda: np.zeros(array.shape, [("a", np.float32)]),
        lambda: np.full(array.shape, 1e300),
        lambda: np.array([text(rng).replace("\ud83d", "") for _ in range(len(array))]) if array.ndim else np.array("y"),
        lambda: np.concatenate([array, array]) if array.ndim else array,
        lambda: np.zeros(array.shape, np.float16),
    ]
    return rng.choice(kinds)()


def in_npz(rng: random.Random, content: bytes) -> bytes:
    """Give an array of an npz file another shape, type or name."""
    with np.load(io.BytesIO(content)) as file:
        arrays = {name: file[name] for name in file.files}
    name = rng.choice(list(arrays))
    action = rng.randrange(4)
    if action == 0:
        arrays[text(rng).replace("\ud83d", "").replace("\0", "") or "x"] = arrays.pop(name)
    elif action == 1:
        del arrays[name]
    else:
        arrays[name] = _array(rng, arrays[name])
    sink = io.BytesIO()
    np.savez(sink, **{key[:200].replace("file", "f"): array for key, array in arrays.items()})
    return sink.getvalue()


def in_safetensors(rng: random.Random, content: bytes) -> bytes:
    """Change the header of a safetensors file; its length is made to fit, so that the rest is read."""
    (length,) = struct.unpack("<Q", content[:8])
    header = content[8 : 8 + length]
    found = json.loads(header)
    if "__metadata__" in found and rng.random() < 0.5:
        meta = found["__metadata__"]
        key = rng.choice(list(meta))
        try:
            meta[key] = _changed(rng, json.loads(meta[key]))
        except ValueError:
            meta[key] = text(rng)
        new = json.dumps(found).encode()
    else:
        new = _changed(rng, found).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(new)) + new + content[8 + length :]


def changes(path: Path) -> tuple[Change, ...]:
    """Return what can be done to a file, by its suffix."""
    special: dict[str, tuple[Change, ...]] = {
        ".json": (in_json, in_json, in_json),
        ".jsonl": (in_json_lines, in_json_lines, in_json_lines),
        ".csv": (in_cells(","), in_cells(","), in_lines),
        ".tsv": (in_cells("\t"), in_cells("\t"), in_lines),
        ".txt": (in_lines, in_lines),
        ".toml": (in_toml, in_toml, in_toml),
        ".parquet": (in_parquet, in_parquet, in_parquet, in_parquet),
        ".npz": (in_npz, in_npz, in_npz),
        ".safetensors": (in_safetensors, in_safetensors, in_safetensors),
    }
    own = special.get(path.suffix, ())
    return own + tuple(BYTES[k] for k in ((0, 2, 3, 4, 5) if own else range(len(BYTES))))


def mutate(rng: random.Random, path: Path, sound: bytes) -> None:
    """Write a damaged copy of a file, put a folder in its place, or take it away."""
    if rng.random() < 0.01:
        path.unlink(missing_ok=True)
        if rng.random() < 0.5:
            path.mkdir()
        return
    change = rng.choice(changes(path))
    try:
        content = change(rng, sound)
    except (ValueError, KeyError, TypeError, IndexError, pa.ArrowException, RecursionError, OverflowError):
        # What this change would make can't be written in this format.
        content = flip(rng, sound)
    path.write_bytes(content)
