"""Every option of every command: a change changes the run's key, or is refused; nothing is taken and ignored."""

import json
from pathlib import Path

import pytest
import typer.main

from analyses.cli import app
from analyses.commands import common
from tests.checkpoints import clip_checkpoint
from workbench.errors import InputError
from workbench.runs import Run
from workbench.towers import load_tower

PLAIN = ("--limit", "12", "--languages", "en,sw")
COMMANDS = {
    "diagnose": PLAIN,
    "sweep": PLAIN,
    "capture": (*PLAIN, "--out", "run"),
    "score": PLAIN,
    "geometry": PLAIN,
    "erase": PLAIN,
    "bias prevalence": PLAIN,
    "bias association": ("--limit", "12"),
}
# Where a run lies, how it is told, and whether it is run at all: none of them decides a number.
WITHOUT_NUMBERS = {"--out", "--json", "--plan", "--help"}
# Another value than the default, for each option that any of the commands takes.
OTHER = {
    "--adversarial": None,
    "--average": "en+sw",
    "--average-pairs": None,
    "--batch-size": "3",
    "--corpus": "emoji-pseudo",
    "--cross-fit": "3",
    "--depths": "3",
    "--device": "meta",
    "--device-map": "auto",
    "--drop-incomplete": None,
    "--dtype": "bfloat16",
    "--float16": None,
    "--images": "elsewhere",
    "--interventions": "parallel:sw",
    "--labels": "elsewhere.json",
    "--languages": "en,te",
    "--limit": "11",
    "--metrics": "R@5",
    "--no-images": None,
    "--pivot": "de",
    "--pools": "mixed",
    "--pooling": "mean",
    "--prefix": "query: ",
    "--preset": "s3",
    "--prior": "pool",
    "--protocol": "all",
    "--query": "2708",
    "--ranks": "4",
    "--remote-code": None,
    "--revision": "abc",
    "--review": "0.9",
    "--seed": "1",
    "--site": "middle",
    "--source": "sw",
    "--subset": "present",
    "--tier-map": "s0",
    "--tower": "emoji-bidirectional",
}


class Started(Exception):
    """A command got as far as its run: everything that decides its numbers is known."""


@pytest.fixture
def key_of_command(monkeypatch, tmp_path):
    """Run a command up to the point where its run is opened, and return the run's key and configuration."""
    towers = {}

    def load(name, **options):
        asked = json.dumps([str(name), options], sort_keys=True, default=str)
        if asked not in towers or Path(name).exists():
            towers[asked] = load_tower(name, **options)
        return towers[asked]

    def opened(folder, config, begin):
        assert not begin, "nothing is written before anything is kept"
        raise Started(Run(Path(folder), config))

    monkeypatch.setattr(common, "load_tower", load)
    monkeypatch.setattr(common, "Run", opened)

    def run(*arguments: str) -> Run:
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        place.mkdir()
        monkeypatch.chdir(place)
        with pytest.raises(Started) as started:
            typer.main.get_command(app)(list(arguments), standalone_mode=False)
        return started.value.args[0]

    return run


def options_of(command: str) -> set[str]:
    found = typer.main.get_command(app)
    for word in command.split():
        found = found.commands[word]  # pyright: ignore[reportAttributeAccessIssue]
    return {option for parameter in found.params for option in parameter.opts if option.startswith("--")}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_option_is_part_of_what_a_run_is_or_refused(command, key_of_command):
    base = [*command.split(), *COMMANDS[command]]
    key = key_of_command(*base).key
    assert key_of_command(*base).key == key
    options = options_of(command) - WITHOUT_NUMBERS
    assert options <= OTHER.keys(), "a new option needs another value here"
    refused = set()
    for option in sorted(options):
        value = () if OTHER[option] is None else (OTHER[option],)
        try:
            assert key_of_command(*base, option, *value).key != key, f"{command} takes {option} and ignores it"
        except InputError:
            refused.add(option)
    # What can be answered is answered: these alone may be refused with the built-in tower and corpus.
    assert refused <= {
        "--device", "--device-map", "--images", "--preset", "--labels",
        "--pivot", "--pooling", "--prefix", "--protocol", "--revision",
        "--subset", "--no-images", "--corpus",
    }  # fmt: skip


def test_a_changed_file_of_a_tower_or_corpus_is_another_run(key_of_command, tmp_path):
    tower = clip_checkpoint(tmp_path / "a" / "tower")
    folder = tmp_path / "b" / "corpus"
    folder.mkdir(parents=True)
    captions = folder / "captions.csv"
    captions.write_text("image_id,en,sw\n" + "".join(f"{k},a cat {k},paka {k}\n" for k in range(9)))
    tiers = tmp_path / "b" / "tiers.json"
    tiers.write_text('{"en": "HRL", "sw": "LRL"}')
    base = ["capture", "--tower", str(tower), "--corpus", str(captions), "--tier-map", str(tiers), "--out", "run"]
    keys = [key_of_command(*base).key]
    for path, old, new in (
        (tower / "config.json", '"hidden_act": "quick_gelu"', '"hidden_act": "relu"'),
        (tower / "tokenizer_config.json", "{", '{"note": 1,'),
        (tower / "preprocessor_config.json", 'do_resize": true', 'do_resize": false'),
        (captions, "paka 3", "paka 33"),
        (tiers, "LRL", "low"),
    ):
        text = path.read_text("utf-8")
        assert old in text, path
        path.write_text(text.replace(old, new), "utf-8")
        keys.append(key_of_command(*base).key)
    assert len(set(keys)) == len(keys)


def test_where_things_lie_is_no_part_of_what_a_run_is(key_of_command, tmp_path):
    keys = set()
    for place in ("here", "there"):
        tower = clip_checkpoint(tmp_path / place / "tower")
        run = key_of_command("score", "--tower", str(tower), *PLAIN)
        keys.add(run.key)
        assert str(tmp_path) not in (run.folder / "manifest.json").read_text("utf-8")
    assert len(keys) == 1
