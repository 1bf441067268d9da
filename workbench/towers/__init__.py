"""Text towers, one adapter a family, and :func:`load_tower` that finds the right one."""

from typing import TYPE_CHECKING

from workbench._lazy import lazy_exports

if TYPE_CHECKING:
    from workbench.towers.base import Tower
    from workbench.towers.loading import load_tower
    from workbench.towers.tokens import Tokens

__all__ = ["Tokens", "Tower", "load_tower"]
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Tokens": "workbench.towers.tokens",
        "Tower": "workbench.towers.base",
        "load_tower": "workbench.towers.loading",
    },
)
