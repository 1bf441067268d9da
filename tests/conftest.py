"""Towers that many tests share: loaded once, never changed."""

import os

# Before any library reads them: no test may reach a hub.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from collections.abc import Callable, Generator

import pytest

from tests.checkpoints import CHECKPOINTS, MORE
from workbench.towers import Tower, load_tower

TINY = sorted({**CHECKPOINTS, **MORE})
BUILT_IN = ["emoji-bidirectional", "emoji-causal"]

CAPTIONS = {
    "en": ["a cat", "two dogs in a small hut", "x", "the moon", "a man, a cat", "some tea"],
    "hi": ["हथ", "न थ ह", "थ", "ह न ह न ह न", "नथ थन", "थ न"],
    "sw": ["paka", "mbwa wawili na nyumba", "y", "mwezi", "mtu na paka", "chai ya moto"],
}
"""Parallel captions of very different lengths."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run whose point is that its tests run refuse to skip any."""
    parser.addoption("--no-skips", action="store_true", help="a skipped test is a failed one")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return _failed_if_skipped(report, item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    return _failed_if_skipped(report, collector.config)


def _failed_if_skipped(report, config: pytest.Config):
    if report.skipped and config.getoption("--no-skips"):
        report.outcome = "failed"
        report.longrepr = f"skipped, and --no-skips was given: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def get_tower(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tower]:
    """Load a built-in tower, or a tiny random checkpoint of a family, once a session."""
    loaded: dict[str, Tower] = {}

    def get(name: str) -> Tower:
        if name not in loaded:
            make = {**CHECKPOINTS, **MORE}.get(name)
            if make is not None:
                folder = make(tmp_path_factory.mktemp(name))
                images = folder / "images"
                loaded[name] = load_tower(folder, images=images) if images.is_dir() else load_tower(folder)
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
