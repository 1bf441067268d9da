import copy
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors import safe_open
from safetensors.numpy import save

from workbench.errors import InputError
from workbench.runs import SCHEMA, Run, check_table, default_folder, key_of, versions

VERSIONS = {f"version of {name}": version for name, version in versions().items()}
CONFIG = {
    "tower": {"name": "emoji-causal", "hash": "ab12"},
    "languages": ["en", "sw"],
    "seed": 0,
    "limit": None,
}
ARRAYS = {
    "better": np.arange(12, dtype=np.int32).reshape(3, 4),
    "rows": np.linspace(-1, 1, 10, dtype=np.float16).reshape(5, 2),
    "mean": np.array(0.25),
    "hit": np.array([True, False]),
    "empty": np.empty((0, 3), dtype=np.float32),
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def same(found: "dict[str, np.ndarray] | None", expected: dict[str, np.ndarray]) -> bool:
    return found is not None and found.keys() == expected.keys() and all(
        found[name].dtype == array.dtype and found[name].shape == array.shape and (found[name] == array).all()
        for name, array in expected.items()
    )  # fmt: skip


def test_a_cell_comes_back_as_it_was(tmp_path):
    run = Run(tmp_path / "run", CONFIG)
    assert run.read_cell("sw") is None
    run.write_cell("sw", ARRAYS)
    assert same(run.read_cell("sw"), ARRAYS)
    assert run.read_cell("en") is None


@settings(max_examples=30, deadline=None)
@given(
    arrays(
        np.float32,
        array_shapes(min_dims=0, max_dims=3, max_side=4),
        elements=st.floats(width=32, allow_nan=False),
    )
)
def test_any_shape_and_layout_comes_back(tmp_path_factory, array):
    run = Run(tmp_path_factory.mktemp("runs") / "run", CONFIG)
    run.write_cell("en", {"plain": array, "turned": array.T})
    assert same(run.read_cell("en"), {"plain": array, "turned": array.T})


def test_the_same_question_resumes(tmp_path):
    Run(tmp_path, CONFIG).write_cell("sw", ARRAYS)
    for again in (CONFIG, dict(reversed(CONFIG.items())), {**CONFIG, "languages": ("en", "sw")}):
        assert same(Run(tmp_path, again).read_cell("sw"), ARRAYS)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "seed"),
        ({"seed": 1, "languages": ["sw", "en"]}, "languages, seed"),
        ({"tower": {"name": "emoji-causal", "hash": "other"}}, "tower"),
        ({"batch": 8}, "batch"),
        ({"seed": False}, "seed"),
        ({"seed": 0.0}, "seed"),
        ({"batch": None}, "batch"),
    ],
)
def test_another_question_is_refused_and_what_differs_is_named(tmp_path, change, named):
    Run(tmp_path, CONFIG).write_cell("sw", ARRAYS)
    before = contents(tmp_path)
    with pytest.raises(InputError, match=f"differs in {named}\\. .*--out"):
        Run(tmp_path, {**CONFIG, **change})
    assert contents(tmp_path) == before


def test_a_question_with_one_part_less_is_another_question(tmp_path):
    Run(tmp_path, CONFIG)
    with pytest.raises(InputError, match=r"differs in limit\."):
        Run(tmp_path, {name: value for name, value in CONFIG.items() if name != "limit"})


def test_a_folder_that_is_no_run_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match=r"exists and is no run.*--out"):
        Run(tmp_path, CONFIG)
    assert contents(tmp_path) == {"thesis.tex": b"precious"}
    for place in (tmp_path / "thesis.tex", tmp_path / "thesis.tex" / "run"):
        with pytest.raises(InputError, match="is a file and no folder"):
            Run(place, CONFIG)
    assert contents(tmp_path) == {"thesis.tex": b"precious"}


def test_an_empty_folder_and_one_with_a_killed_first_write_are_taken(tmp_path):
    Run(tmp_path, CONFIG)
    (tmp_path / "manifest.json").rename(tmp_path / ".manifest.json.x1y2")
    Run(tmp_path, CONFIG)
    assert (tmp_path / "manifest.json").is_file()


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{",
        b"[]",
        b'"run"',
        b"null",
        b"{}",
        b'{"config": 3}',
        b'{"config": null}',
        b'{"config": "x"}',
        b"\xff",
    ],
)
def test_a_manifest_of_something_else_is_refused_and_left_alone(tmp_path, manifest):
    (tmp_path / "manifest.json").write_bytes(manifest)
    with pytest.raises(InputError, match="is not the manifest of a run"):
        Run(tmp_path, CONFIG)
    assert contents(tmp_path) == {"manifest.json": manifest}


def test_a_cell_of_other_inputs_is_not_reused(tmp_path):
    other = Run(tmp_path / "other", {**CONFIG, "seed": 1})
    other.write_cell("sw", ARRAYS)
    run = Run(tmp_path / "run", CONFIG)
    (run.folder / "cells").mkdir()
    (other.folder / "cells" / "sw.safetensors").rename(run.folder / "cells" / "sw.safetensors")
    assert run.read_cell("sw") is None


def test_a_cell_without_a_key_is_not_reused(tmp_path):
    from safetensors.numpy import save

    run = Run(tmp_path, CONFIG)
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "sw.safetensors").write_bytes(save({"x": np.zeros(2)}))
    assert run.read_cell("sw") is None


def test_a_cell_of_which_any_byte_was_changed_is_done_again_and_said(tmp_path, caplog):
    run = Run(tmp_path, CONFIG)
    run.write_cell("sw", ARRAYS)
    path = tmp_path / "cells" / "sw.safetensors"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place])
        assert run.read_cell("sw") is None, f"cut to {place} of {len(whole)} bytes"
        for bit in (0, 6):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            found = run.read_cell("sw")
            # A bit of the header may be one that means nothing, such as a space; the numbers are the same then.
            assert found is None or same(found, ARRAYS), f"bit {bit} of byte {place}"
    assert "it is done again" in caplog.text
    run.write_cell("sw", ARRAYS)
    assert path.read_bytes() == whole


def test_a_cell_with_an_array_less_or_another_number_is_done_again(tmp_path, caplog):
    run = Run(tmp_path, CONFIG)
    path = tmp_path / "cells" / "sw.safetensors"
    for changed in ({k: v for k, v in ARRAYS.items() if k != "hit"}, {**ARRAYS, "mean": np.array(np.nan)}):
        run.write_cell("sw", ARRAYS)
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata()
        path.write_bytes(save({k: np.asarray(v) for k, v in changed.items()}, metadata=metadata))
        assert run.read_cell("sw") is None
    assert "sw.safetensors is damaged" in caplog.text
    path.unlink()
    path.mkdir()
    assert run.read_cell("sw") is None


def test_a_table_that_was_edited_is_not_taken_for_the_runs_own(tmp_path):
    run = Run(tmp_path, CONFIG)
    (tmp_path / "figures").mkdir()
    for name in ("results.parquet", "figures/baseline.csv"):
        (tmp_path / name).write_text("language,value\nen,1\n")
    run.finish({}, ("results.parquet", "figures/baseline.csv"))
    for name in ("results.parquet", "figures/baseline.csv"):
        check_table(tmp_path / name)
        (tmp_path / name).write_text("language,value\nen,2\n")
        with pytest.raises(InputError, match="is not what its run wrote"):
            check_table(tmp_path / name)
    (tmp_path / "mine.csv").write_text("a,b")
    check_table(tmp_path / "mine.csv")


class Holder:
    """Says no more of itself than where it is."""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.arange(5000.0), np.r_[np.arange(2500.0), -1.0, np.arange(2501.0, 5000.0)]),
        (torch.arange(5000), torch.arange(5000).float()),
        (torch.zeros(3, dtype=torch.bfloat16), torch.ones(3, dtype=torch.bfloat16)),
        (np.float64(1), np.float64(2)),
        (lambda x: x + 1, lambda x: x + 2),
        ({1, 2}, {1, 3}),
        ([np.zeros((2, 3))], [np.zeros((3, 2))]),
    ],
)
def test_two_values_that_differ_give_two_keys_and_the_same_value_gives_one(one, other):
    assert key_of({"a": one}) == key_of({"a": copy.deepcopy(one)})
    assert key_of({"a": one}) != key_of({"a": other})


def test_what_only_an_address_tells_apart_is_refused(tmp_path):
    with pytest.raises(InputError, match="A Holder decides what this run finds and has no text"):
        Run(tmp_path / "run", {**CONFIG, "rule": Holder()})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "name", ["../sw", "..", ".", "", "/sw", "a/b", "a\\b", ".sw", "sw\0", "sw\n", "C:sw", "~", "*"]
)
def test_a_cell_can_not_lie_outside_the_run(tmp_path, name):
    run = Run(tmp_path / "run", CONFIG)
    before = contents(tmp_path)
    with pytest.raises(InputError, match="can't be called"):
        run.write_cell(name, ARRAYS)
    with pytest.raises(InputError, match="can't be called"):
        run.read_cell(name)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["sw", "zh-Hans", "pt_BR", "sw+noise", "quz.2", "हिन्दी"[:1]])
def test_codes_and_their_variants_name_cells(tmp_path, name):
    run = Run(tmp_path, CONFIG)
    run.write_cell(name, ARRAYS)
    assert same(run.read_cell(name), ARRAYS)


def test_the_manifest_traces_the_question_and_the_versions(tmp_path):
    run = Run(tmp_path, CONFIG)
    manifest = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    assert manifest["config"] == CONFIG
    assert manifest["key"] == run.key == key_of({**CONFIG, **VERSIONS, "schema": SCHEMA})
    assert manifest["versions"] == versions()
    assert versions()["numpy"] == np.__version__
    assert versions()["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "eos-workbench" in versions()
    for name in ("torch", "transformers", "tokenizers", "pillow"):
        assert re.match(r"\d+\.\d+", versions()[name]), name


def test_the_manifest_names_no_time_and_no_place(tmp_path):
    run = Run(tmp_path / "run", CONFIG)
    run.finish({"tokens": {"sw": 12}})
    text = (tmp_path / "run" / "manifest.json").read_text("utf-8")
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text
    assert not re.search(r"\b20\d\d-\d\d-\d\d\b|\d\d:\d\d:\d\d|\b1[6-9]\d{8}\b", text)
    assert not re.search(r'"(time|date|created|host\w*|user\w*)"', text)


def test_finish_adds_notes_that_a_resumed_run_finds_again(tmp_path):
    Run(tmp_path, CONFIG).finish({"left out": {"no caption": 3}, "name": "हाथी"})
    text = (tmp_path / "manifest.json").read_text("utf-8")
    assert json.loads(text)["left out"] == {"no caption": 3}
    assert "हाथी" in text
    Run(tmp_path, CONFIG).finish({"left out": {"no caption": 3}, "name": "हाथी"})
    assert (tmp_path / "manifest.json").read_text("utf-8") == text


ASK = """
import sys
import numpy as np
from workbench.runs import Run
config = {"languages": list(dict.fromkeys(["sw", "en"])), "tower": {"b": 1, "a": "हाथी"}, "seed": 0}
run = Run(sys.argv[1], config)
run.write_cell("sw", {"b": np.arange(6.0).reshape(2, 3).T, "a": np.arange(3, dtype=np.int32)})
run.write_text("report.html", "<p>हाथी</p>")
run.finish({"tokens": {"sw": 1}})
"""


def test_the_same_input_gives_the_same_bytes_in_any_process(tmp_path):
    found = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", ASK, str(tmp_path / seed)], env=environment, check=True, timeout=120)
        found.append(contents(tmp_path / seed))
    assert found[0].keys() == {"manifest.json", "report.html", str(Path("cells") / "sw.safetensors")}
    assert found[0] == found[1]


def test_the_key_ignores_order_and_nothing_else():
    assert key_of({"a": 1, "b": {"c": [1, 2]}}) == key_of({"b": {"c": [1, 2]}, "a": 1})
    keys = [key_of({"a": value}) for value in (1, 2, "1", None, [1], [1, 2], [2, 1], {"b": 1}, True, 1.5)]
    assert len(set(keys)) == len(keys)
    assert key_of({"a": 1}) == hashlib.sha256(b'{"a": 1}').hexdigest(), "yesterday's runs would be lost"


def test_work_of_other_library_versions_is_not_reused(tmp_path, monkeypatch):
    Run(tmp_path, CONFIG).write_cell("sw", ARRAYS)
    here = default_folder("diagnose", "x", "y", CONFIG)
    monkeypatch.setattr("workbench.runs.versions", lambda: {**versions(), "torch": "99.0"})
    with pytest.raises(InputError, match="differs in version of torch"):
        Run(tmp_path, CONFIG)
    assert default_folder("diagnose", "x", "y", CONFIG) != here


def test_the_notes_of_a_finished_run_survive_another_look_at_it(tmp_path):
    Run(tmp_path, CONFIG).finish({"notes": {"sw": 3}})
    before = (tmp_path / "manifest.json").read_bytes()
    Run(tmp_path, CONFIG)
    assert (tmp_path / "manifest.json").read_bytes() == before


def test_a_question_has_a_folder_of_its_own():
    folder = default_folder("diagnose", "google/siglip2-so400m", "my corpora/Kiswahili", CONFIG)
    assert (
        folder
        == Path("runs") / f"diagnose-siglip2-so400m-Kiswahili-{key_of({**CONFIG, **VERSIONS, 'schema': SCHEMA})[:8]}"
    )
    assert default_folder("diagnose", "x", "y", CONFIG) == default_folder("diagnose", "x", "y", dict(CONFIG))
    assert default_folder("diagnose", "x", "y", CONFIG) != default_folder("diagnose", "x", "y", {**CONFIG, "seed": 1})


@pytest.mark.parametrize("name", ["../../etc/x y", "a:b", "..", "C:\\models\\tower"])
def test_a_default_folder_stays_under_runs(name):
    folder = default_folder("sweep", name, name, CONFIG)
    assert folder.parent == Path("runs")
    assert re.fullmatch(r"[\w-]+", folder.name)
