"""The building's own rules: imports run one way, modules stay small, the root costs nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("workbench", "interventions", "probes", "analyses")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MAY_IMPORT = {
    "workbench": {"workbench"},
    "interventions": {"interventions", "workbench"},
    "probes": {"probes", "workbench"},
    "analyses": {"analyses", "probes", "interventions", "workbench"},
}


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    found = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    found |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) if node.module}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_downwards(path):
    room = path.relative_to(ROOT).parts[0]
    roots = {name.split(".")[0] for name in imports(path)} & {*PACKAGES, "tests"}
    assert roots <= MAY_IMPORT[room]


def test_inside_the_workbench_imports_run_one_way():
    order = ["errors", "hooks", "corpora", "towers", "trajectory", "engine", "sweeps"]
    for path in MODULES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] != "workbench" or parts[1] not in order:
            continue
        for name in imports(path):
            room = name.split(".")[1] if name.startswith("workbench.") else ""
            if room in order:
                assert order.index(room) <= order.index(parts[1]), f"{path} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_are_small_teach_first_and_validate_without_assert(path):
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    assert len(text.splitlines()) <= 430
    assert ast.get_docstring(tree), "a module begins with what it is about"
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]


def test_the_roots_import_lazily():
    code = (
        "import sys, workbench, interventions, probes, analyses, workbench.towers, workbench.corpora\n"
        "print([m for m in ('torch', 'transformers', 'pandas', 'plotly', 'nnsight') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.strip() == "[]"


def test_help_does_not_import_the_heavy_libraries():
    code = (
        "import sys\nsys.argv = ['workbench', 'diagnose', '--help']\n"
        "from analyses.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('torch', 'transformers', 'pandas', 'numpy', 'plotly') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.strip().endswith("[]")


def test_every_package_folder_is_in_the_wheel():
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"])
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in MODULES if path.name == "__init__.py"}
    assert listed == found


def test_nothing_reads_outside_the_project():
    """The project must stand alone: no path of anybody's machine, no folder beside it."""
    for path in [*MODULES, *(ROOT / "tests").rglob("*.py")]:
        if path == Path(__file__):
            continue
        text = path.read_text("utf-8")
        for word in ("../shared", "/root/", "/home/", "/work/"):
            assert word not in text, f"{path} names {word}"


def test_no_module_has_the_name_of_something_that_its_package_offers():
    """Importing the module would hide the function: `from workbench import sweep` would give the module."""
    import importlib

    for package in (*PACKAGES, "workbench.towers", "workbench.corpora"):
        module = importlib.import_module(package)
        folder = ROOT.joinpath(*package.split("."))
        modules = {path.stem for path in folder.glob("*.py")} | {path.name for path in folder.iterdir()}
        assert not modules & set(module.__all__), package
