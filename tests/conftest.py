"""Towers that many tests share: loaded once, never changed."""

import os

# Before any library reads them: no test may reach a hub.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from collections.abc import Callable

import pytest

from tests.checkpoints import CHECKPOINTS
from workbench.towers import Tower, load_tower

TINY = sorted(CHECKPOINTS)
BUILT_IN = ["emoji-bidirectional", "emoji-causal"]

CAPTIONS = {
    "en": ["a cat", "two dogs in a small hut", "x", "the moon", "a man, a cat", "some tea"],
    "hi": ["हथ", "न थ ह", "थ", "ह न ह न ह न", "नथ थन", "थ न"],
    "sw": ["paka", "mbwa wawili na nyumba", "y", "mwezi", "mtu na paka", "chai ya moto"],
}
"""Parallel captions of very different lengths."""


@pytest.fixture(scope="session")
def get_tower(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tower]:
    """Load a built-in tower, or a tiny random checkpoint of a family, once a session."""
    loaded: dict[str, Tower] = {}

    def get(name: str) -> Tower:
        if name not in loaded:
            if name in CHECKPOINTS:
                folder = CHECKPOINTS[name](tmp_path_factory.mktemp(name))
                loaded[name] = load_tower(folder)
            else:
                loaded[name] = load_tower(name)
        return loaded[name]

    return get


@pytest.fixture(params=TINY)
def tiny(request: pytest.FixtureRequest, get_tower: Callable[[str], Tower]) -> Tower:
    """Each tiny random tower in turn."""
    return get_tower(request.param)


@pytest.fixture(params=[*BUILT_IN, *TINY])
def tower(request: pytest.FixtureRequest, get_tower: Callable[[str], Tower]) -> Tower:
    """Each built-in and each tiny tower in turn."""
    return get_tower(request.param)
