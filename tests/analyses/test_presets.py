"""What ``--preset`` fills in, and what it leaves as it was typed."""

import json

import pytest
import typer.main

from analyses.cli import app
from analyses.cli.presets import PRESETS, fill
from tests.analyses.test_identity import key_of_command  # noqa: F401  # pyright: ignore[reportUnusedImport]
from workbench.errors import InputError

BASE = {"tower": "emoji-causal", "corpus": "emoji-36", "limit": None, "subset": None, "preset": "s3"}


def commands() -> dict[str, set[str]]:
    found = {}
    groups = [typer.main.get_command(app)]
    while groups:
        for name, command in getattr(groups.pop(), "commands", {}).items():
            found[name] = {parameter.name for parameter in command.params}
            groups.append(command)
    return found


def test_every_option_of_a_preset_is_one_of_its_command():
    known = commands()
    for name, preset in PRESETS.items():
        for command, options in preset.items():
            assert set(options) <= known[command], (name, command)
            assert "preset" in known[command]


def test_what_was_typed_wins_and_the_rest_is_filled():
    asked = {**BASE, "tier_map": "s0", "source": "fr", "depth": None}
    found = fill("geometry", asked, {"tier_map"})
    assert (found["tier_map"], found["source"], found["limit"], found["depth"]) == ("s0", "en", 1000, None)
    assert fill("geometry", {**asked, "preset": None}, set())["source"] == "fr"


@pytest.mark.parametrize(
    ("tower", "depth"),
    [("facebook/metaclip-2-worldwide-huge-quickgelu", "4"), ("google/siglip2-so400m-patch16-256", "3"),
     ("google/siglip-base-patch16-256-multilingual", "4"), ("BAAI/AltCLIP", "5"), ("emoji-causal", None)],
)  # fmt: skip
def test_the_trunk_depth_is_that_of_the_papers_tower(tower, depth):
    assert fill("geometry", {**BASE, "tower": tower, "depth": None}, set())["depth"] == depth


def test_the_images_are_the_papers_subset_of_its_benchmark_and_a_thousand_elsewhere():
    of_benchmark = fill("erase", {**BASE, "corpus": "xm3600:data"}, set())
    assert (of_benchmark["subset"], of_benchmark["limit"]) == ("xm3600-1k", None)
    assert fill("erase", BASE, set())["limit"] == 1000
    assert fill("erase", {**BASE, "limit": 50}, {"limit"})["limit"] == 50
    short = fill("erase", {**BASE, "corpus": "xm3600:data", "limit": 50}, {"limit"})
    assert (short["subset"], short["limit"]) == (None, 50)


def test_an_unknown_preset_gets_a_guess_and_one_without_values_says_so():
    with pytest.raises(InputError, match=r"no preset 's33'\. Did you mean 's3'"):
        fill("sweep", {**BASE, "preset": "s33"}, set())
    with pytest.raises(InputError, match=r"preset 's3' has nothing for 'association'.*values for diagnose, sweep"):
        fill("association", BASE, set())


def test_the_manifest_holds_the_presets_name_and_what_it_stood_for(key_of_command):  # noqa: F811
    run = key_of_command("erase", "--preset", "s3", "--limit", "30", "--languages", "en,sw")
    config = json.loads((run.folder / "manifest.json").read_text("utf-8"))["config"]
    assert (config["preset"], config["cross_fit"], config["ranks"], config["limit"]) == ("s3", 5, None, 30)
    # An option that is typed wins even where it is the default.
    typed = key_of_command("bias", "prevalence", "--preset", "s0", "--protocol", "first", "--limit", "12")
    config = json.loads((typed.folder / "manifest.json").read_text("utf-8"))["config"]
    assert (config["protocol"], config["tier_map"]["name"], config["prior"]) == ("first", "s0", "half")
    whole = key_of_command("bias", "prevalence", "--preset", "s0", "--limit", "12")
    assert json.loads((whole.folder / "manifest.json").read_text("utf-8"))["config"]["protocol"] == "all"
    swept = key_of_command("sweep", "--preset", "s3", "--limit", "12", "--languages", "sw")
    config = json.loads((swept.folder / "manifest.json").read_text("utf-8"))["config"]
    assert [one["name"] for one in config["interventions"]][:3] == ["parallel en", "mean of 6", "parallel fr"]
    assert len([one for one in config["interventions"] if one["name"].startswith("random en")]) == 5


def test_a_planted_tower_brings_the_labels_that_its_fault_strikes(key_of_command):  # noqa: F811
    run = key_of_command("diagnose", "--tower", "planted-block-5", "--limit", "12")
    config = json.loads((run.folder / "manifest.json").read_text("utf-8"))["config"]
    assert config["tier_map"]["name"] == "pseudo"
    assert {"lo1", "lo2", "lo3"} <= set(config["tier_map"]["tiers"])
    real = ("--corpus", "emoji-36", "--tier-map", "s3", "--languages", "en,sw", "--limit", "12")
    for command in (("diagnose",), ("score",), ("geometry",), ("erase",), ("bias", "prevalence")):
        with pytest.raises(InputError, match="strikes lo1, lo2, lo3 and none of the languages asked for"):
            key_of_command(*command, "--tower", "planted-block-5", *real)
    with pytest.raises(InputError, match="none of the languages asked for"):
        key_of_command("bias", "association", "--tower", "planted-output", "--limit", "12")
    assert key_of_command("score", "--tower", "planted-none", *real)
    assert key_of_command("score", "--tower", "planted-block-5:labels=sw", "--languages", "en,sw", "--limit", "12")
