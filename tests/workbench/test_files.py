import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from workbench.errors import InputError
from workbench.files import DiskError, check_writable, path_below, write_atomically

OLD, NEW = b"old " * 1000, b"new " * 250_000

# Writes in a process with a limit on the size of files: the write fails half way, as on a full disk.
LIMITED = """
import resource, signal, sys
from pathlib import Path
from workbench.errors import InputError
from workbench.files import DiskError, check_writable, write_atomically
signal.signal(signal.SIGXFSZ, getattr(signal, sys.argv[2]))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
write_atomically(Path(sys.argv[1]), b"new " * 250_000)
"""


@pytest.mark.parametrize(
    "name",
    ["", " ", ".", "..", "../x", "/x", "a/b", "a\\b", ".x", "x.", " x", "x ", "C:x", "~", "*", "x\0", "x\n", "\u202ex",
     "\ud83d", "\u2028", "nul", "CON.txt", "lpt1", "é" * 120 + "x" * 15, None, 3, b"x", ["x"]],
)  # fmt: skip
def test_a_name_that_could_leave_its_folder_or_be_no_file_is_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"A tower can't be called .*: .*Files are named after it"):
        path_below(tmp_path, name, ".json", "A tower")


@pytest.mark.parametrize("name", ["sw", "zh-Hans", "Egyptian Arabic", "한", "a.b", "+", "x" * 250, "é" * 125])
def test_any_other_name_is_a_file_of_its_folder(tmp_path, name):
    path = path_below(tmp_path, name, ".json")
    assert path.parent == tmp_path
    write_atomically(path, b"x")
    assert [found.name for found in tmp_path.iterdir()] == [f"{name}.json"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_with_limit(path: Path, on_limit: str) -> "subprocess.CompletedProcess[str]":
    pytest.importorskip("resource")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(
        [sys.executable, "-c", LIMITED, str(path), on_limit],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_file_is_written_whole_and_alone(tmp_path):
    path = tmp_path / "deep" / "er" / "a.bin"
    write_atomically(path, OLD)
    assert path.read_bytes() == OLD
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW
    write_atomically(path, b"")
    assert path.read_bytes() == b""
    assert names(path.parent) == ["a.bin"]


@pytest.mark.parametrize("before", [None, OLD])
def test_a_full_disk_leaves_the_old_file_or_none_and_no_half(tmp_path, before):
    path = tmp_path / "a.bin"
    if before is not None:
        path.write_bytes(before)
    done = write_with_limit(path, "SIG_IGN")
    assert "File too large" in done.stderr
    assert names(tmp_path) == ([] if before is None else ["a.bin"])
    assert before is None or path.read_bytes() == before


@pytest.mark.parametrize("before", [None, OLD])
def test_a_kill_half_way_leaves_the_old_file_or_none(tmp_path, before):
    path = tmp_path / "a.bin"
    if before is not None:
        path.write_bytes(before)
    done = write_with_limit(path, "SIG_DFL")
    assert done.returncode == -signal.SIGXFSZ
    assert path.read_bytes() == before if before is not None else not path.exists()
    # What a killed process was writing can only lie about under a hidden name, and is in nobody's way.
    assert all(name == "a.bin" or name.startswith(".a.bin.") for name in names(tmp_path))
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW


def test_content_that_can_not_be_written_leaves_no_trace(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(OLD)
    with pytest.raises(TypeError):
        write_atomically(path, "a text")  # pyright: ignore[reportArgumentType]
    assert path.read_bytes() == OLD
    assert names(tmp_path) == ["a.bin"]


def test_a_folder_in_the_way_is_not_replaced_and_no_trace_is_left(tmp_path):
    (tmp_path / "a.bin" / "inside").mkdir(parents=True)
    with pytest.raises(InputError, match=r"a\.bin' can't be written: Is a directory"):
        write_atomically(tmp_path / "a.bin", NEW)
    assert names(tmp_path) == ["a.bin"]
    assert names(tmp_path / "a.bin") == ["inside"]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions_follow_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "a.bin", OLD)
        assert os.umask(mask) == mask, "writing changed the umask"
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.bin").stat().st_mode) == 0o666 & ~mask


def test_a_reader_never_sees_a_half(tmp_path):
    path = tmp_path / "a.bin"
    write_atomically(path, OLD)
    stop = threading.Event()

    def write() -> None:
        for turn in range(60):
            write_atomically(path, (NEW, OLD)[turn % 2])
        stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while not stop.is_set():
            assert path.read_bytes() in (OLD, NEW)
    finally:
        writer.join()
    assert names(tmp_path) == ["a.bin"]


@pytest.mark.parametrize(
    ("errno_", "kind"),
    [(errno.ENOSPC, DiskError), (errno.EDQUOT, DiskError), (errno.EIO, DiskError), (errno.EROFS, InputError)],
)
def test_what_a_disk_says_becomes_one_sentence_and_no_trace_is_left(tmp_path, monkeypatch, errno_, kind):
    def fails(*_):
        raise OSError(errno_, os.strerror(errno_))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(kind, match=r"a\.bin' can't be written: .*\. .*(Make room|Choose another place)"):
        write_atomically(tmp_path / "a.bin", NEW)
    assert names(tmp_path) == []


def test_a_name_that_a_file_system_allows_is_written_and_a_longer_one_is_refused(tmp_path):
    write_atomically(tmp_path / ("n" * 255), NEW)
    with pytest.raises(InputError, match="File name too long"):
        write_atomically(tmp_path / ("n" * 256), NEW)


def test_asking_whether_a_folder_can_be_written_to_leaves_nothing_behind(tmp_path):
    check_writable(tmp_path / "a" / "b" / "c")
    check_writable(tmp_path)
    assert names(tmp_path) == []
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "a", tmp_path / ("n" * 300)):
        with pytest.raises(InputError, match="can't be written"):
            check_writable(place)
    assert names(tmp_path) == ["file"]
