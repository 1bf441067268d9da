import io
import time
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from workbench.corpora.images import open_image
from workbench.errors import InputError, TowerError
from workbench.packed import parquet_columns, read_npz, read_parquet
from workbench.towers import load_tower


def bomb(path, n=400_000_000):
    """An npz of zeros, written without ever holding them."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (n // 4, 1)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("sw.npy", "w") as entry:
        entry.write(header.getvalue())
        for _ in range(n // 4_000_000):
            entry.write(bytes(4_000_000))
    return path


def test_an_npz_that_unpacks_to_a_thousand_times_its_size_is_refused_unread(tmp_path):
    path = bomb(tmp_path / "bomb.npz")
    assert path.stat().st_size < 1_000_000
    for read in (read_npz, load_tower):
        with pytest.raises(InputError, match=r"bomb\.npz.* unpacks to 381 MiB; more than 256 MiB"):
            read(path)


def test_a_parquet_of_more_cells_than_anything_holds_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.packed.CELLS", 500_000)
    path, rows = tmp_path / "bomb.parquet", 30_000
    batch = pa.table({name: pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), ["x"]) for name in "ab"})
    with pq.ParquetWriter(path, batch.schema) as writer:
        for _ in range(9):
            writer.write_table(batch)
    with pytest.raises(InputError, match=r"says that it has 270,000 rows of 2 columns"):
        parquet_columns(path)


def test_an_image_of_more_pixels_than_are_opened_is_refused_unread(tmp_path):
    buffer = io.BytesIO()
    Image.new("1", (10_000, 10_000)).save(buffer, "PNG")
    with pytest.raises(InputError, match=r"At most 89,478,485 are opened"):
        open_image(buffer.getvalue())


def test_what_compresses_as_embeddings_do_is_read(tmp_path):
    values = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    np.savez_compressed(tmp_path / "x.npz", sw=values)
    assert np.array_equal(read_npz(tmp_path / "x.npz")["sw"], values)
    table = pa.table({"a": ["x"] * 1000})
    pq.write_table(table, tmp_path / "x.parquet")
    assert read_parquet(tmp_path / "x.parquet") == table


def test_texts_that_are_no_utf_8_and_columns_of_one_name_are_refused(tmp_path):
    broken = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"a\xff"))
    pq.write_table(pa.table({"a": broken}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="is no Parquet file that can be read"):
        read_parquet(tmp_path / "x.parquet")
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "y.parquet")
    with pytest.raises(InputError, match="has the column 'a' twice"):
        read_parquet(tmp_path / "y.parquet")


def test_one_double_among_many_ids_is_found_at_once(tmp_path):
    ids = [f"image {k}" for k in range(60_000)]
    np.savez(tmp_path / "x.npz", ids=np.array([*ids, ids[0]]), sw=np.ones((60_001, 2), np.float32))
    start = time.perf_counter()
    with pytest.raises(TowerError, match="names the id 'image 0' twice"):
        load_tower(tmp_path / "x.npz")
    assert time.perf_counter() - start < 5
