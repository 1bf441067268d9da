"""A few of the inputs of ``make fuzz``, in every run of the tests."""

import logging
import pickle

import pytest

from tests.fuzz.options import OPTIONS
from tests.fuzz.readers import READERS, Reader
from tests.fuzz.runner import Failure, fuzz_option, fuzz_reader

COUNT = 40
# A model takes half a second to load; the others are for `make fuzz`.
SHORT = [
    name for name in READERS if not name.startswith("model") or name in ("model clip", "model e5", "model weights")
]


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def shown(failures: list[Failure]) -> str:
    return "\n".join(f"{failure.number}: {failure.place} {failure.what}" for failure in failures)


@pytest.mark.parametrize("name", SHORT)
def test_a_damaged_file_is_read_or_refused_in_a_sentence(name, tmp_path):
    reader = READERS[name]
    failures = fuzz_reader(reader, tmp_path / "here", max(1, COUNT // reader.cost), seed=1)
    assert not failures, shown(failures)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_understood_or_refused_in_a_sentence(name):
    failures = fuzz_option(name, *OPTIONS[name], 300, seed=1)
    assert not failures, shown(failures)


def raising(error: BaseException):
    def read() -> None:
        raise error

    return read


def writing_outside(tmp_path):
    return lambda: (tmp_path / "evil").write_text("x")


def unpickling():
    return pickle.loads(pickle.dumps(Reader))


def forever() -> None:
    while True:
        pass


def test_the_runner_notices_what_must_not_happen(tmp_path, monkeypatch):
    """Else no failure would mean nothing."""
    monkeypatch.setattr("tests.fuzz.runner.LONGEST", 0.2)
    for wrong, says in (
        (raising(KeyError("x")), "KeyError"),
        (raising(RecursionError("x")), "RecursionError"),
        (raising(SystemExit(1)), "SystemExit"),
        (writing_outside(tmp_path), "wrote"),
        (unpickling, "pickle.find_class"),
        (forever, "took over"),
    ):
        calls = iter([lambda: None])

        def make(folder, calls=calls, wrong=wrong):
            (folder / "x.json").write_text("{}")
            return lambda: next(calls, wrong)()

        (failure,) = fuzz_reader(Reader("mine", make), tmp_path / says, 1)
        assert says in failure.what
