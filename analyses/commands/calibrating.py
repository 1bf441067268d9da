"""``workbench calibrate``: the calibration study, tower by tower, and its figures."""

import json
import logging
import re
from pathlib import Path

import pandas as pd
import typer
from tqdm.auto import tqdm

from analyses.commands.common import as_text, print_json
from analyses.diagnosis.calibration import Study, Trial, confusion, design, summary
from analyses.diagnosis.study_figures import study_analyses
from workbench.errors import InputError
from workbench.files import write_atomically
from workbench.parsing import loads
from workbench.runs import versions

log = logging.getLogger("workbench")


def run_calibrate(towers: int, sizes: str, weak: bool, seed: int, out: Path, as_json: bool) -> None:
    """Run or go on with a study; finished towers are kept in ``trials.jsonl``."""
    numbers = parse_sizes(sizes)
    trials = design(towers, seed=seed, sizes=numbers, strengths=(0.0, 0.5) if weak else None)
    table = _go_on(trials, out)
    numbers_found = {**summary(table), "seed": seed}
    for analysis in study_analyses(table):
        analysis.save(out / "figures")
    record = {"towers": len(table), "images": numbers, "weak": weak, "seed": seed, "versions": versions()}
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
    path = out / "trials.jsonl"
    done: dict[str, dict] = {}
    if path.is_file():
        for line in path.read_text("utf-8").splitlines():
            try:
                entry = loads(line, f"A line of {path}", finite=False)
                done[entry["trial"]] = entry["row"]
            except (ValueError, KeyError, TypeError):
                log.warning("a line of %s is cut off; its tower is diagnosed again", path)
    out.mkdir(parents=True, exist_ok=True)
    study = Study()
    with path.open("a", encoding="utf-8") as file:
        for trial in tqdm(trials, desc="planted towers"):
            if str(trial) not in done:
                done[str(trial)] = next(study.rows([trial]))
                file.write(json.dumps({"trial": str(trial), "row": done[str(trial)]}) + "\n")
                file.flush()
    return pd.DataFrame([done[str(trial)] for trial in trials])
