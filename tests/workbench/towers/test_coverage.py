"""The table of ``workbench towers`` says what the tests verified, and is not out of date."""

import pytest

from analyses.commands.listing import coverage, describe_tower
from tests.record import VERIFIES
from workbench.towers.registry import FAMILIES, adapters


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_record_has_every_family_and_all_that_applies_to_it(family):
    record = coverage().get(family)
    assert record, "run `make record-towers`"
    wanted = set(VERIFIES.values())
    if adapters()[family].multi_vector:
        # It has no single embedding: what stands for these has tests of its own.
        wanted = set(record["verified"]) | {"sweep = nnsight at every depth"}
    assert set(record["verified"]) >= wanted - {"truncation"}
    assert record["versions"]["torch"]


def test_a_check_says_what_was_found(get_tower):
    tower = get_tower("altclip")
    found = describe_tower(tower)
    assert found["blocks"] == "4 × 32, text_model.roberta.encoder.layers.0 … text_model.roberta.encoder.layers.3"
    assert found["pooled_row"] == tower.pool
    assert found["parameters"] == sum(p.numel() for p in tower.model.parameters())
    assert "GiB" in found["memory_for_1,000_captions"]
