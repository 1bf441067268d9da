"""Write down what the tests verified of each family, for ``workbench towers``.

    make record-towers

runs the tests below with this plugin, which keeps a phrase for each that passed for every parameter. The
record is a file of the package, and ``test_coverage.py`` fails when a family or a phrase is missing from it.
"""

import json
import re
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

RECORD = Path(__file__).parent.parent / "workbench" / "towers" / "coverage.json"

VERIFIES = {
    "test_the_head_of_a_depth_n_row_is_the_models_own_feature": "pooled row",
    "test_a_caption_alone_and_in_a_padded_batch_agree": "padding",
    "test_captions_over_the_limit_are_truncated_marked_and_keep_their_end": "truncation",
    "test_image_features_equal_the_models_own_in_any_batch": "image features",
    "test_capture_equals_an_independent_forward": "capture",
    "test_a_self_patch_is_bit_identical": "self-patch to the bit",
    "test_a_patch_after_the_last_block_gives_the_source": "full patch",
    "test_the_engine_equals_the_oracle_at_every_depth": "sweep = nnsight at every depth",
}
_PACKAGES = ("torch", "transformers", "nnsight", "open_clip_torch")

_outcomes: dict[tuple[str, str], list[bool]] = defaultdict(list)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the outcome of a test for the family in its brackets."""
    name, _, parameters = report.nodeid.rpartition("::")[2].partition("[")
    if name in VERIFIES and (report.when == "call" or report.outcome != "passed"):
        from workbench.towers.registry import families

        for family in families():
            # A name may hold a hyphen itself, as M-CLIP does.
            if re.search(rf"(^|-){re.escape(family)}(-|$)", parameters.rstrip("]")):
                _outcomes[family, VERIFIES[name]].append(report.outcome == "passed")


def pytest_sessionfinish() -> None:
    """Merge what passed into the record."""
    record = json.loads(RECORD.read_text("utf-8")) if RECORD.is_file() else {}
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    for family in sorted({family for family, _ in _outcomes}):
        verified = [
            phrase for phrase in VERIFIES.values() if _outcomes.get((family, phrase)) and all(_outcomes[family, phrase])
        ]
        record[family] = {"verified": verified, "versions": versions}
    RECORD.write_text(json.dumps(dict(sorted(record.items())), indent=2) + "\n", "utf-8")
