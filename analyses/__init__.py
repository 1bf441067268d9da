"""Questions asked of a sweep, each answered by a table, a figure and a caption; and the page of them all."""

# No module has the name of a function offered here: importing the module would hide the function.
from typing import TYPE_CHECKING

from workbench._lazy import lazy_exports

if TYPE_CHECKING:
    from analyses.base import Analysis
    from analyses.baselines import baseline
    from analyses.browser import BrowserData, patch_browser
    from analyses.checkpoint import checkpoint_table
    from analyses.report import write_report
    from analyses.rescue import rescue_curves, rescue_figure, rescue_grid

__all__ = [
    "Analysis",
    "BrowserData",
    "baseline",
    "checkpoint_table",
    "patch_browser",
    "rescue_curves",
    "rescue_figure",
    "rescue_grid",
    "write_report",
]
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Analysis": "analyses.base",
        "BrowserData": "analyses.browser",
        "baseline": "analyses.baselines",
        "checkpoint_table": "analyses.checkpoint",
        "patch_browser": "analyses.browser",
        "rescue_curves": "analyses.rescue",
        "rescue_figure": "analyses.rescue",
        "rescue_grid": "analyses.rescue",
        "write_report": "analyses.report",
    },
)
