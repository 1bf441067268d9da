"""Depths as they are typed: ours, and blocks as papers number them."""

import pytest

from analyses.commands.common import parse_depths
from workbench.errors import InputError


@pytest.mark.parametrize(
    ("text", "depths"),
    [
        ("all", list(range(25))), ("N-4", [20]), ("block:N-4", [21]), ("l=N-4", [21]), ("ℓ=N-4", [21]),
        ("L = 20", [21]),
        ("block N-1", [24]), ("block:0", [1]), ("block=0-2", [1, 2, 3]), ("block:N-3-N-1", [22, 23, 24]),
        ("0,block:N-4,N", [0, 21, 24]), ("BLOCK : n-4", [21]), ("4-8,N-3", [4, 5, 6, 7, 8, 21]),
    ],
)  # fmt: skip
def test_blocks_of_the_papers_and_depths_of_the_bench_stand_side_by_side(text, depths):
    assert parse_depths(text, 24) == depths


@pytest.mark.parametrize(
    "text", ["block:N", "block:24", "block:-1", "l=N-25", "block:", "l", "block:x", "25", "N-25", "²", "1" * 5000, ""]
)
def test_what_is_no_depth_or_block_says_which_is_which(text):
    with pytest.raises(
        InputError, match=r"block:N-4 .or l=N-4. is the output of block N-4, which is depth N-3"
    ) as found:
        parse_depths(text, 24)
    assert len(str(found.value)) < 400
