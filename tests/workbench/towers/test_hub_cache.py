"""A checkpoint in the hub's local cache, without a network: what a compute node sees."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoints import CHECKPOINTS
from workbench.towers import load_tower

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LOAD = """
import json, sys
from workbench import load_tower
tower = load_tower(sys.argv[1])
print(json.dumps([tower.family, tower.provenance.revision, tower.fingerprint]))
"""


def cached(folder: Path, cache: Path, name: str) -> None:
    """Lay a checkpoint out as the hub's client keeps what it has fetched of a repository."""
    repository = cache / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT, "utf-8")
    shutil.copytree(folder, repository / "snapshots" / COMMIT)


def load(name: str, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-c", LOAD, name], capture_output=True, text=True, env=environment, timeout=300
    )


@pytest.mark.parametrize("family", ["metaclip_2", "siglip", "altclip", "M-CLIP"])
def test_a_cached_checkpoint_loads_without_a_network(tmp_path: Path, family: str) -> None:
    folder = CHECKPOINTS[family](tmp_path / "model")
    cached(folder, tmp_path / "cache", "org/tiny")
    done = load("org/tiny", tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [family, COMMIT, load_tower(folder).fingerprint]


def test_one_that_is_not_cached_is_one_clear_line(tmp_path: Path) -> None:
    done = load("org/other", tmp_path / "cache")
    assert done.returncode != 0
    assert "The hub has no tower 'org/other'" in done.stderr
