"""What the built-in towers and their cards must hold."""

import json

import pytest
from safetensors import safe_open

from workbench.builtin import CORPUS_FOLDER, TOWER_FOLDERS
from workbench.builtin.write_cards import language_probe, language_row, tier_gap
from workbench.languages import XM3600_LANGUAGES

NAMES = sorted(TOWER_FOLDERS)


@pytest.mark.parametrize("name", NAMES)
def test_a_tower_is_a_small_float16_safetensors_file_with_twelve_blocks(get_tower, name):
    folder = TOWER_FOLDERS[name]
    assert (folder / "model.safetensors").stat().st_size <= 12e6
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        assert {file.get_slice(key).get_dtype() for key in file.keys()} <= {"F16", "I64"}  # noqa: SIM118
    tower = get_tower(name)
    assert tower.n_blocks == 12
    assert type(tower.model).__name__ == {"emoji-causal": "MetaClip2Model"}.get(name, "SiglipModel")


@pytest.mark.parametrize("name", NAMES)
def test_the_gap_between_languages_is_that_of_the_card(get_tower, name):
    found = tier_gap(get_tower(name))
    assert found["languages"]["en"] >= 75
    assert 25 <= found["gap"][0] <= 55
    card = (TOWER_FOLDERS[name] / "README.md").read_text("utf-8")
    assert f"HRL-6 mean {found['HRL-6']:.1f}, LRL-5 mean {found['LRL-5']:.1f}, gap {found['gap'][0]:.1f}" in card


@pytest.mark.parametrize("name", NAMES)
def test_the_language_is_linearly_readable_from_the_output(get_tower, name):
    found = language_probe(get_tower(name))
    assert found["accuracy"] >= 90
    assert f"{found['accuracy']:.1f} % of 13 languages" in (TOWER_FOLDERS[name] / "README.md").read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_the_card_holds_the_whole_table_and_its_numbers_are_measured(get_tower, name):
    card = (TOWER_FOLDERS[name] / "README.md").read_text("utf-8")
    rows = {line.split("|")[1].strip(): line for line in card.splitlines() if line.startswith("| ")}
    assert set(XM3600_LANGUAGES) <= set(rows)
    for language in ("en", "mi"):
        found = language_row(get_tower(name), language)
        assert f"| {found['i2t'][0]:.1f} [" in rows[language]
        assert f"| {found['n']:,} |" in rows[language]
        assert f"| {found['unseen']} |" in rows[language]
    assert get_tower(name).fingerprint in card


def test_both_towers_saw_the_same_draws_and_the_corpus_card_counts_the_unseen():
    recipes = [json.loads((folder / "recipe.json").read_text("utf-8")) for folder in TOWER_FOLDERS.values()]
    assert recipes[0] == recipes[1]
    card = (CORPUS_FOLDER / "README.md").read_text("utf-8")
    rows = {line.split("|")[1].strip() for line in card.splitlines() if line.startswith("| ")}
    assert set(XM3600_LANGUAGES) <= rows
