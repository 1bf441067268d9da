"""The command as a user calls it: a process of its own, its two streams and its exit code."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

FAST = ("--limit", "60", "--languages", "en,de,sw,te", "--depths", "0,N-3,N")


def workbench(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    code = "from analyses.cli import main; main()"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, capture_output=True, text=True, env=environment
    )


@pytest.fixture(scope="module")
def diagnosis(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diagnosis")
    done = workbench("diagnose", *FAST, "--out", "run", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run", done


def test_diagnose_prints_one_json_object_and_writes_the_run(diagnosis):
    run, done = diagnosis
    summary = json.loads(done.stdout)
    # 60 images show the gap, and are too few to say where it sits.
    assert summary["verdict"] == "inconclusive"
    assert summary["languages"] == ["sw", "te"]
    assert summary["onset_depth"] is None
    assert summary["evidence"]["patch"]["i2t"]["depth"] == 9
    assert set(summary["truncated"]) == {"en", "de", "sw", "te"}
    for name in ("manifest.json", "results.parquet", "report.html", "cells/sw.safetensors", "figures/rescue.html"):
        assert (run / name).is_file(), name
    manifest = json.loads((run / "manifest.json").read_text("utf-8"))
    assert manifest["config"]["corpus"]["images"] == 60
    assert len(manifest["config"]["tower"]["weights_sha256"]) == 64
    assert manifest["versions"]["torch"]
    frame = pd.read_parquet(run / "results.parquet")
    assert sorted(frame["depth"].dropna().unique()) == [0, 9, 12]
    assert set(frame["intervention"]) == {"none", "parallel en", "mean of 6", "random en", "noise", "mid-token en"}


def test_the_same_command_resumes_and_leaves_the_same_bytes(diagnosis):
    run, _ = diagnosis
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    (run / "cells" / "sw.safetensors").unlink()
    (run / "report.html").unlink()
    done = workbench("diagnose", *FAST, "--out", "run", "--json", cwd=run.parent)
    assert done.returncode == 0, done.stderr
    after = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert before.keys() == after.keys()
    assert [str(path) for path in before if before[path] != after[path]] == []


def test_another_question_in_the_same_folder_is_refused(diagnosis):
    run, _ = diagnosis
    before = (run / "manifest.json").read_bytes()
    done = workbench("diagnose", *FAST, "--seed", "7", "--out", "run", cwd=run.parent)
    assert done.returncode == 2
    assert "differs in seed" in done.stderr
    assert (run / "manifest.json").read_bytes() == before


def test_the_plain_output_ends_with_the_verdict_its_evidence_and_the_report(tmp_path):
    done = workbench("diagnose", *FAST, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Control, random en" in done.stdout
    report = Path(done.stdout.strip().rsplit("Report: ", 1)[1])
    assert (tmp_path / report).is_file()
    assert report.parts[0] == "runs"


def test_sweep_writes_numbers_for_scripts(tmp_path):
    done = workbench(
        "sweep", "--limit", "40", "--languages", "sw", "--depths", "N-3", "--interventions", "parallel:fr,random:fr",
        "--tower", "emoji-bidirectional", "--out", "s", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == len(pd.read_parquet(tmp_path / "s" / "results.parquet"))


def test_capture_writes_a_trajectory_that_opens(tmp_path):
    from workbench.trajectory import open_trajectory

    done = workbench("capture", "--limit", "20", "--languages", "en,sw", "--out", "rows", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["depth"] == 13
    assert open_trajectory(tmp_path / "rows").sizes == {"language": 2, "caption": 20, "depth": 13, "feature": 96}


def test_towers_and_corpora_list_what_there_is(tmp_path):
    towers = json.loads(workbench("towers", "--json", cwd=tmp_path).stdout)
    assert [tower["name"] for tower in towers["built_in"]] == ["emoji-causal", "emoji-bidirectional"]
    assert {"clip", "altclip", "open_clip", "qwen2_vl"} <= {family["model_type"] for family in towers["families"]}
    assert all(family["verified"] for family in towers["families"])
    assert "emoji-causal" in workbench("towers", cwd=tmp_path).stdout
    corpora = json.loads(workbench("corpora", "--json", cwd=tmp_path).stdout)
    assert corpora["built_in"][0]["images"] == 1911
    assert "captions.jsonl" in workbench("corpora", cwd=tmp_path).stdout


@pytest.mark.parametrize("command", ["diagnose", "sweep", "capture", "towers", "corpora"])
def test_every_help_shows_an_example(tmp_path, command):
    done = workbench(command, "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert f"Example: workbench {command}" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--languages", "en,sww"), "has no language 'sww'. Did you mean 'sw'?"),
        (("--languages", "en,swahili"), "Did you mean 'sw'?"),
        (("--languages", ","), "--languages is empty"),
        (("--tower", "emoji-casual"), "Did you mean 'emoji-causal'?"),
        (("--tower", "."), "holds no model"),
        (("--corpus", "emoji36"), "Did you mean 'emoji-36'?"),
        (("--depths", "99"), "There is no depth 99 in a tower of 12 blocks"),
        (("--depths", "N-13"), "There is no depth N-13"),
        (("--depths", "4-2"), "runs backwards"),
        (("--depths", "deep"), "'deep' is no depth"),
        (("--interventions", "paralel:en"), "Did you mean 'parallel'?"),
        (("--interventions", "parallel:xx"), "has no language 'xx'"),
        (("--tier-map", "s4"), "No tier map is called 's4'"),
        (("--protocol", "second"), "There is no protocol 'second'"),
        (("--limit", "1"), "at least 2"),
        (("--batch-size", "0"), "at least 1"),
        (("--device", "gpu"), "can't be used here"),
        (("--limit", "many"), "Invalid value for '--limit'"),
        (("--no-such-option",), "There is no option '--no-such-option'. See workbench diagnose --help."),
    ],
)
def test_a_mistake_is_one_line_exit_code_2_and_nothing_half_written(tmp_path, arguments, message):
    done = (
        workbench("diagnose", *arguments, "--limit", "20", "--out", "run", cwd=tmp_path)
        if "--limit" not in (arguments)
        else workbench("diagnose", *arguments, "--out", "run", cwd=tmp_path)
    )
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("arguments", [("diagnos",), ("capture",), ("diagnose", "--seed"), ("towers", "x")])
def test_a_command_or_value_that_is_missing_is_one_line_too(tmp_path, arguments):
    done = workbench(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "--help" in done.stderr


def test_without_a_command_the_help_is_shown(tmp_path):
    done = workbench(cwd=tmp_path)
    assert "diagnose" in done.stdout
    assert workbench("--version", cwd=tmp_path).stdout.startswith("eos-workbench ")


def test_a_mistake_under_json_is_an_object_too(tmp_path):
    done = workbench("diagnose", "--tower", "emoji-casual", "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert json.loads(done.stdout)["exit_code"] == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"image": "b.png", "captions": {"en": "a cat"}}', "has no caption in 'sw' for the image 'b.png'"),
        ('{"image": "b.png", "captions": {"en": "a cat", "sw": " "}}', "empty caption in 'sw'"),
        ('{"image": "c.png", "captions": {"en": "a cat", "sw": "paka"}}', "does not exist"),
        ('{"image": "b.png", "captions": {"en": "a c', "may be truncated"),
    ],
)
def test_a_broken_corpus_of_ones_own_names_the_place(tmp_path, line, message):
    from PIL import Image

    corpus = tmp_path / "mine"
    corpus.mkdir()
    for name in "ab":
        Image.new("RGB", (40, 40), "red").save(corpus / f"{name}.png")
    good = '{"image": "a.png", "captions": {"en": "a dog", "sw": "mbwa"}}'
    (corpus / "captions.jsonl").write_text(f"{good}\n{line}\n", "utf-8")
    done = workbench("diagnose", "--corpus", "mine", "--languages", "en,sw", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_corpus_of_ones_own_runs(tmp_path):
    from PIL import Image, ImageDraw

    corpus = tmp_path / "mine"
    corpus.mkdir()
    lines = []
    for k in range(6):
        picture = Image.new("RGB", (64, 64), "white")
        ImageDraw.Draw(picture).ellipse((8, 8, 20 + 7 * k, 50), fill=(40 * k, 0, 255 - 40 * k))
        picture.save(corpus / f"{k}.png")
        captions = {"en": f"circle number {k}", "sw": f"duara <b>{k}</b> & </script>"}
        lines.append(json.dumps({"image": f"{k}.png", "captions": captions}))
    (corpus / "captions.jsonl").write_text("\n".join(lines), "utf-8")
    done = workbench("diagnose", "--corpus", "mine", "--interventions", "parallel:en,noise", "--depths", "N-3,N",
                     "--out", "run", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "duara" in page
    assert "<b>0</b>" not in page


def interrupted(
    *arguments: str, cwd: Path, once: Path | None = None, seconds: float = 0.05
) -> subprocess.CompletedProcess[str]:
    """Start a command, and press Ctrl-C as soon as a file is there, or after some seconds."""
    code = "from analyses.cli import main; main()"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "120"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], cwd=cwd, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=seconds)
        if once is None or once.exists():
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def test_an_interrupted_command_says_what_is_kept_and_keeps_it(tmp_path):
    asked = ("sweep", "--limit", "200", "--languages", "en,sw,te,hi", "--out", "run")
    cell = tmp_path / "run" / "cells" / "en.safetensors"
    done = interrupted(*asked, cwd=tmp_path, once=cell)
    assert done.returncode == 130
    assert "Interrupted. What is finished is kept; the same command goes on from there." in done.stderr
    kept = cell.stat().st_mtime_ns
    assert workbench(*asked, cwd=tmp_path).returncode == 0
    assert cell.stat().st_mtime_ns == kept
    # Long enough to be at work and short enough not to be done: all images in eleven languages.
    done = interrupted("score", "--out", "score", cwd=tmp_path, seconds=8)
    assert done.returncode == 130
    assert "This command keeps nothing before it ends" in done.stderr


@pytest.mark.parametrize("command", ["sweep", "capture", "score", "geometry", "erase", "bias prevalence", "calibrate"])
def test_a_place_that_can_not_be_written_to_is_told_before_any_work(command, tmp_path):
    (tmp_path / "file").write_text("precious")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    for out in ("file", "file/run", "n" * 300, *(["mine"] if command != "calibrate" else [])):
        done = workbench(*command.split(), "--out", out, "--json", cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert json.loads(done.stdout)["exit_code"] == 2
        assert "Traceback" not in done.stderr
        assert "--out" in done.stderr
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "mine", "thesis.tex"]


def test_an_unknown_option_or_command_gets_a_guess_and_help_is_whole(tmp_path):
    for asked, guess in (
        (("sweep", "--langauges", "en"), "Did you mean '--languages'?"),
        (("geometry", "--depth", "3"), "Did you mean '--depths'?"),
        (("bias", "prevalence", "--tiermap", "s0"), "Did you mean '--tier-map'?"),
        (("swep",), "Did you mean 'sweep'?"),
    ):
        done = workbench(*asked, cwd=tmp_path)
        assert done.returncode == 2
        assert guess in done.stderr
    for words in ((), ("bias",), ("towers",), ("sweep",)):
        text = workbench(*words, "--help", cwd=tmp_path).stdout.split("Options:")[1]
        assert "..." not in text
        assert not re.search(r"\w…$", text, re.MULTILINE)
