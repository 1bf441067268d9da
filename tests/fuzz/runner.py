"""Try a reader on damaged files, or a parser on options, and keep what should not have come out."""

import argparse
import faulthandler
import logging
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from tests.fuzz.mutate import mutate, text
from tests.fuzz.readers import READERS, Reader
from workbench.errors import WorkbenchError

LONGEST = 5.0
"""Seconds of work that any input may take; twelve times that where it waits, or others use the machine."""


class TooLongError(BaseException):
    """An input took longer than :data:`LONGEST`. No reader may catch it."""


@dataclass
class Watch:
    """What the audit hook has seen; it can't be taken away again, so it is switched."""

    root: Path | None = None
    seen: list[str] = field(default_factory=list)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.root is None:
            return
        if event in ("pickle.find_class", "subprocess.Popen", "os.system"):
            self.seen.append(f"{event} {arguments!r:.200}")
        elif event == "open":
            path, mode, flags = arguments
            writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & 0b11)
            if writes and isinstance(path, str) and not _below(path, self.root):
                self.seen.append(f"wrote {path!r}")


def _below(path: str, root: Path) -> bool:
    return path.startswith("/dev/") or Path(path).absolute().resolve().is_relative_to(root)


_WATCH = Watch()
sys.addaudithook(_WATCH)


@contextmanager
def watched(root: Path) -> Iterator[list[str]]:
    """Keep what is unpickled, started or written outside a folder."""
    _WATCH.root, _WATCH.seen = root.resolve(), []
    try:
        yield _WATCH.seen
    finally:
        _WATCH.root = None


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Stop what takes longer."""

    def stop(*_: object) -> None:
        raise TooLongError

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, seconds), signal.SIGALRM: (signal.ITIMER_REAL, 12 * seconds)}
    before = {number: signal.signal(number, stop) for number in timers}
    for timer, limit in timers.values():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for number, (timer, _) in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])


@dataclass(frozen=True)
class Failure:
    """An input that something else came of than a result or a sentence."""

    reader: str
    number: int
    place: str
    what: str


def _try(name: str, number: int, root: Path, call: Callable[[], object]) -> Failure | None:
    with warnings.catch_warnings(), watched(root) as seen:
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        try:
            with at_most(LONGEST):
                call()
        except (WorkbenchError, typer.Exit):
            pass
        except TooLongError:
            return Failure(name, number, _place(sys.exc_info()[2]), f"took over {time.perf_counter() - start:.0f} s")
        except (Exception, SystemExit) as error:
            return Failure(name, number, _place(error.__traceback__), f"{type(error).__name__}: {error!s:.150}")
    return Failure(name, number, "-", seen[0]) if seen else None


def _place(trace: Any) -> str:
    own = [f for f in traceback.extract_tb(trace) if "/tests/" not in f.filename and "site-packages" not in f.filename]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "-"


def fuzz_reader(reader: Reader, folder: Path, count: int, seed: int = 0) -> list[Failure]:
    """Read a sound copy, then ``count`` damaged ones, each with one or two files damaged."""
    folder.mkdir(parents=True, exist_ok=True)
    read = reader.make(folder)
    sound = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and reader.takes(path)}
    assert sound, f"nothing to damage for {reader.name}"
    read()
    failures = []
    for number in range(count):
        rng = random.Random(f"{reader.name} {seed} {number}")
        paths = rng.sample(list(sound), min(len(sound), rng.choice([1, 1, 1, 2])))
        for path in paths:
            mutate(rng, path, sound[path])
        failure = _try(reader.name, number, folder, read)
        if failure:
            failures.append(failure)
        for path in paths:
            if path.is_dir():
                path.rmdir()
            path.write_bytes(sound[path])
    return failures


def fuzz_option(
    name: str, parse: Callable[[str], object], examples: list[str], count: int, seed: int = 0
) -> list[Failure]:
    """Parse sound texts of an option, then damaged and unheard-of ones."""
    for example in examples:
        parse(example)
    failures = []
    for number in range(count):
        rng = random.Random(f"{name} {seed} {number}")
        given = option_text(rng, examples)
        failure = _try(name, number, Path("/nowhere"), lambda given=given: parse(given))
        if failure:
            failures.append(Failure(name, number, failure.place, f"{given[:60]!r} → {failure.what}"))
    return failures


def option_text(rng: random.Random, examples: list[str]) -> str:
    """Damage an example, or make up another."""
    words = list(rng.choice(examples))
    for _ in range(rng.choice([1, 1, 2, 4])):
        place = rng.randrange(len(words) + 1)
        action = rng.randrange(5)
        if action == 0:
            words[place:place] = rng.choice(
                [",", "-", ":", "+", "N", "@", ".", "²", "9" * 5000, "-1", " ", "e9", "_", "inf"]
            )
        elif action == 1 and words:
            del words[rng.randrange(len(words))]
        elif action == 2:
            words[place:place] = text(rng)[:6000]
        elif action == 3 and words:
            words[rng.randrange(len(words))] = rng.choice("0123456789,:;-+@NRabz½٣")
        elif rng.random() < 0.2:
            words = list(text(rng))
        else:
            words = [*words, ",", *rng.choice(examples)]
    return "".join(words)


def main(arguments: list[str]) -> int:
    """Run everything, or what is named: ``python -m tests.fuzz [--count N] [--seed N] [NAME …]``."""
    import tempfile

    from tests.fuzz.options import OPTIONS

    faulthandler.enable()
    logging.getLogger("workbench").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--count", type=int, default=2000, help="inputs for each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("names", nargs="*", help="of readers and options; all by default")
    asked = parser.parse_args(arguments)
    count, seed, wrong = asked.count, asked.seed, 0
    for name in asked.names or [*READERS, *OPTIONS]:
        start = time.perf_counter()
        if name in OPTIONS:
            failures = fuzz_option(name, *OPTIONS[name], count, seed)
        else:
            reader = READERS[name]
            with tempfile.TemporaryDirectory() as folder:
                failures = fuzz_reader(reader, Path(folder) / name, max(1, count // reader.cost), seed)
        wrong += len(failures)
        print(f"{name}: {len(failures)} of {count if name in OPTIONS else max(1, count // READERS[name].cost)} "
              f"({time.perf_counter() - start:.0f} s)", flush=True)  # fmt: skip
        for place in dict.fromkeys(failure.place for failure in failures):
            here = [failure for failure in failures if failure.place == place]
            print(f"  {place}: {len(here)}, such as number {here[0].number}: {here[0].what}")
    return 1 if wrong else 0
