"""``workbench calibrate``: the calibration study, tower by tower, and its figures."""

import json
import logging
import re
from pathlib import Path

import pandas as pd
import typer
from tqdm.auto import tqdm

from analyses.commands.common import as_text, print_json
from analyses.diagnosis.calibration import Study, Trial, confusion, design, rule_hash, summary
from analyses.diagnosis.study_figures import study_analyses
from workbench.corpora.reading import read_lines
from workbench.errors import InputError
from workbench.files import check_writable, write_atomically, writing
from workbench.parsing import loads
from workbench.runs import key_of, versions

log = logging.getLogger("workbench")


def run_calibrate(towers: int, sizes: str, weak: bool, seed: int, out: Path, as_json: bool) -> None:
    """Run or go on with a study; finished towers are kept in ``trials.jsonl``."""
    check_writable(out)
    numbers = parse_sizes(sizes)
    trials = design(towers, seed=seed, sizes=numbers, strengths=(0.0, 0.5) if weak else None)
    table = _go_on(trials, out)
    numbers_found = {**summary(table), "seed": seed}
    for analysis in study_analyses(table):
        analysis.save(out / "figures")
    record = {
        "towers": len(table),
        "images": numbers,
        "weak": weak,
        "seed": seed,
        "rule": rule_hash(),
        "versions": versions(),
    }
    write_atomically(out / "manifest.json", (json.dumps(record, indent=2) + "\n").encode())
    write_atomically(out / "trials.csv", table.to_csv(index=False, lineterminator="\n").encode())
    if as_json:
        print_json({**numbers_found, "out": str(out)})
        return
    typer.echo(f"{as_text(confusion(table).reset_index())}\n")
    typer.echo(
        f"{len(table)} towers: right {numbers_found['right']:.1f} %, onset within one block "
        f"{numbers_found['onset_within_one']:.1f} % of planted-block, false alarms "
        f"{numbers_found['false_alarms']:.1f} %, wrong names {numbers_found['wrong_name']:.1f} %\n"
        f"Towers: {out / 'trials.csv'}"
    )


def parse_sizes(text: str) -> list[int]:
    """Read the option ``--images``: numbers with commas between."""
    words = [word.strip() for word in text.split(",")]
    if not all(re.fullmatch("[0-9]{1,6}", word) and int(word) > 1 for word in words):
        raise InputError(f"--images is {text[:80]!r}. Give numbers from 2 on with commas between, such as 100,500.")
    return [int(word) for word in words]


def _go_on(trials: list[Trial], out: Path) -> pd.DataFrame:
    """Diagnose what is not done yet; a row counts as done if this rule and these libraries made it."""
    path, key = out / "trials.jsonl", key_of({"rule": rule_hash(), "versions": versions()})
    done = _finished(path, key)
    study = Study()
    with writing(path):
        out.mkdir(parents=True, exist_ok=True)
        # Written whole before anything is added: a line that was cut off would swallow the next one.
        lines = [_line(key, trial, row) for trial, row in done.items()]
        write_atomically(path, "".join(lines).encode())
        with path.open("a", encoding="utf-8") as file:
            for trial in tqdm(trials, desc="planted towers"):
                if str(trial) not in done:
                    done[str(trial)] = next(study.rows([trial]))
                    file.write(_line(key, str(trial), done[str(trial)]))
                    file.flush()
    return pd.DataFrame([done[str(trial)] for trial in trials])


def _finished(path: Path, key: str) -> dict[str, dict]:
    if not path.exists():
        return {}
    done: dict[str, dict] = {}
    broken = other = 0
    for line in read_lines(path):
        try:
            entry = loads(line, f"A line of {path}", finite=False)
            if entry["key"] == key and isinstance(entry["row"], dict):
                done[str(entry["trial"])] = entry["row"]
            else:
                other += 1
        except (ValueError, KeyError, TypeError):
            broken += 1
    if broken:
        log.warning("%d lines of %s are cut off; their towers are diagnosed again", broken, path)
    if other:
        log.warning("%d towers in %s were diagnosed by another rule or other versions, and are again", other, path)
    return done


def _line(key: str, trial: str, row: dict) -> str:
    return json.dumps({"key": key, "trial": trial, "row": row}) + "\n"
