import ast
import json
from pathlib import Path

import pytest

from workbench.errors import InputError
from workbench.parsing import load_file, load_toml, loads

ROOT = Path(__file__).parents[2]

DAMAGE = {
    "twice": ('{"a": {"en": 1, "en": 2}}', "has the key 'en' twice"),
    "nested": ("[" * 100_000 + "]" * 100_000, "nested more than 100 levels"),
    "nested within Python's limit": ("[" * 200 + "]" * 200, "nested more than 100 levels"),
    "objects": ('{"a":' * 3000 + "1" + "}" * 3000, "nested more than 100 levels"),
    "digits": ("[" + "9" * 5000 + "]", "a number of 5000 digits"),
    "digits that Python takes": ("[" + "9" * 400 + "]", "a number of 400 digits"),
    "large": ("[1e999]", "the number 1e999 is too large"),
    "nan": ('{"x": NaN}', "NaN is no number of JSON"),
    "infinity": ("[-Infinity]", "-Infinity is no number of JSON"),
    "half": ('["nice \\ud83d"]', "half a character"),
    "half a key": ('{"\\udc00": 1}', "half a character"),
    "cut": ('{"a": 1', "may be truncated"),
    "empty": ("", "may be truncated"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_no_sound_json_is_refused_by_name(kind, tmp_path):
    text, says = DAMAGE[kind]
    with pytest.raises(InputError, match="The map") as caught:
        loads(text, "The map")
    assert says in str(caught.value)
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match=r"x\.json"):
        load_file(tmp_path / "x.json")


def test_sound_json_is_read_as_python_reads_it():
    text = json.dumps({"a": [1, -2.5, None, True, "😀 한\u200d", {"b": {}}], "n": 10**30, "": 1e-300})
    assert loads(text, "x") == json.loads(text)
    assert loads(text.encode(), "x") == json.loads(text)
    assert loads("[NaN]", "x", finite=False)[0] != 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = " + "[" * 5000 + "]" * 5000, "nested"),
        ("a = " + "9" * 5000, "TOML"),
        ("a = " + "9" * 400, "digits"),
        ("a = nan", "no finite number"),
        ("a = 1\na = 2", "TOML"),
        ("a = ", "TOML"),
    ],
)
def test_toml_is_held_to_the_same(tmp_path, text, says):
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(InputError, match=says):
        load_toml(tmp_path / "x.toml")


def test_a_folder_and_an_absent_file_are_said(tmp_path):
    for path in (tmp_path, tmp_path / "none", tmp_path / ("x" * 300)):
        with pytest.raises(InputError, match="can't be read"):
            load_file(path)
        with pytest.raises(InputError, match="can't be read"):
            load_toml(path)


def test_nothing_else_in_the_bench_parses_what_somebody_wrote():
    """What the bench itself has just made (`to_json`, `dumps`, an answer of the browser) is no file."""
    own = ("to_json", "to_str", "dumps", "answer")
    found = []
    for package in ("workbench", "probes", "interventions", "analyses"):
        for path in (ROOT / package).rglob("*.py"):
            if path.name == "parsing.py" or "builtin" in path.parts:
                continue
            text = path.read_text("utf-8")
            for node in ast.walk(ast.parse(text)):
                if not isinstance(node, ast.Call):
                    continue
                parses = ast.unparse(node.func) in ("json.loads", "json.load", "tomllib.load", "tomllib.loads")
                call = str(ast.get_source_segment(text, node))
                if parses and not any(word in call for word in own):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno} {call}")
    assert not found
