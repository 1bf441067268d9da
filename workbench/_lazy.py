"""Names that a package offers, imported when they are first used.

``import workbench`` must cost nothing: the command line shows its help in a fraction of the time that
torch alone takes to import.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_exports(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package that offers ``{name: module}``."""

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name]), name)

    return load, lambda: sorted(modules)
