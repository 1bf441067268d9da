"""The commands that patch nothing, as a user calls them: what they print, what they write, what they refuse."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.analyses.factory import make_frame
from tests.analyses.test_ceiling import calibrated
from tests.analyses.test_cli import workbench
from tests.analyses.test_comparison import sweep

SMALL = ("--limit", "60", "--languages", "en,de,sw,te")


def answered(*arguments: str, cwd: Path) -> dict:
    done = workbench(*arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_score_gives_every_metric_in_both_pools(tmp_path):
    options = ("--metrics", "R@1,MRR@10", "--pools", "language,mixed", "--out", "run")
    found = pd.DataFrame(answered("score", *SMALL, *options, cwd=tmp_path)["scores"])
    assert set(found["metric"]) == {"R@1", "MRR@10"}
    assert set(found["pool"]) == {"language", "mixed"}
    own = found[(found["pool"] == "language") & (found["direction"] == "i2t") & (found["metric"] == "R@1")]
    value = own.set_index("language")["value"]
    assert value["en"] > value["te"]
    frame = pd.read_parquet(tmp_path / "run" / "results.parquet")
    assert frame["value"].tolist() == pytest.approx(found["value"].tolist())
    assert (tmp_path / "run" / "manifest.json").is_file()


def test_geometry_says_where_languages_part_and_writes_a_page(tmp_path):
    done = workbench("geometry", *SMALL, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "debiased CKA at depth 12 (block 11) is HRL–HRL" in done.stdout
    assert (tmp_path / "run" / "report.html").is_file()
    table = pd.read_csv(tmp_path / "run" / "figures" / "cka-by-depth.csv")
    assert sorted(table["depth"].unique()) == list(range(13))


def test_erase_prints_the_verdict_and_averages_the_sets_that_were_asked_for(tmp_path):
    options = ("--ranks", "3,6", "--average", "en+sw", "--out", "run")
    done = workbench("erase", *SMALL, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "LEACE (rank 3) takes a linear classifier" in " ".join(done.stdout.split())
    attacks = pd.read_csv(tmp_path / "run" / "figures" / "erasure-attacks.csv")
    assert {"none", "LEACE", "MeanDifference", "INLP 3", "INLP 6", "RandomAblation 3"} <= set(attacks["eraser"])
    assert set(pd.read_csv(tmp_path / "run" / "figures" / "averaging.csv")["pool"]) == {"en+sw"}
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert page.count("LEACE (rank 3) takes a linear classifier") == 1


def test_erase_leaves_out_ranks_that_a_small_sample_does_not_hold_and_says_so(tmp_path):
    done = workbench("erase", "--limit", "40", "--languages", "en,sw", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "INLP 128" not in pd.read_csv(tmp_path / "run" / "figures" / "erasure-attacks.csv")["eraser"].to_list()
    assert "INLP 64 left out: on 20 images nothing can be read after rank" in page
    # A warning is told once, as a line, and stands in the report.
    assert done.stderr.count("LEACE was fitted on 40 rows of 128 features") == 1
    assert "UserWarning" not in done.stderr
    assert ".py:" not in done.stderr
    assert "LEACE was fitted on 40 rows of 128 features" in page


def test_prevalence_and_association_run_on_the_built_in_corpus(tmp_path):
    options = ("--limit", "60", "--languages", "en,de,sw,te,hi,bn,mi,quz", "--tier-map", "s0", "--out", "p")
    tables = answered("bias", "prevalence", *options, cwd=tmp_path)["tables"]
    bias = pd.DataFrame(tables["prevalence-bias"])
    assert {"LBKL@10", "DLBKL@10"} <= set(bias["metric"])
    assert (tmp_path / "p" / "report.html").is_file()
    tables = answered("bias", "association", "--limit", "20", "--out", "a", cwd=tmp_path)["tables"]
    trials = pd.DataFrame(tables["association-t2i"])
    assert {"SP"} <= set(trials["metric"])
    assert "stand-in made of emoji" in (tmp_path / "a" / "report.html").read_text("utf-8")


def test_compare_lays_published_values_beside_a_run(tmp_path):
    sweep().to_parquet(tmp_path / "results.parquet")
    rows = pd.DataFrame(answered("compare", "results.parquet", "--published", cwd=tmp_path)["rows"])
    own = rows[(rows["language"] == "sw") & (rows["intervention"] == "parallel en")].iloc[0]
    assert own["published"] == 69.1
    assert own["difference"] == pytest.approx(own["value"] - 69.1)


def test_compare_lays_a_patch_beside_calibrated_front_blocks(tmp_path):
    make_frame().to_parquet(tmp_path / "frozen.parquet")
    calibrated().to_parquet(tmp_path / "calibrated.parquet")
    rows = pd.DataFrame(
        answered("compare", "frozen.parquet", "--calibrated", "calibrated.parquet", cwd=tmp_path)["rows"]
    )
    assert {"frozen", "calibrated", "patched", "share %"} <= set(rows.columns)


def test_corpora_check_says_what_is_there_and_what_is_wrong(tmp_path):
    (tmp_path / "own").mkdir()
    lines = [{"image": "a.png", "captions": {"en": "a"}}, {"image": "b.png", "captions": {"en": "b"}}]
    (tmp_path / "own" / "captions.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", "utf-8")
    done = workbench("corpora", "check", "own", cwd=tmp_path)
    assert done.returncode != 0
    assert "a.png" in done.stdout + done.stderr


def test_a_file_of_embeddings_is_erased_and_averaged_and_has_no_depths(tmp_path):
    from workbench import load_corpus

    ids = load_corpus("emoji-36", ["en", "sw"], limit=60).image_ids
    generator = np.random.default_rng(0)
    images = generator.standard_normal((60, 16), dtype=np.float32)
    noise = generator.standard_normal((2, 60, 16), dtype=np.float32)
    rows = {code: images + k + noise[k] for k, code in enumerate(("en", "sw"))}
    np.savez(tmp_path / "mine.npz", ids=np.array(ids), images=images, **rows)
    options = ("--tower", "mine.npz", "--limit", "60", "--languages", "en,sw", "--ranks", "1", "--average", "en+sw")
    tables = answered("erase", *options, "--out", "run", cwd=tmp_path)["tables"]
    assert "language-by-depth" not in tables
    assert "averaging" in tables


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("score", "--metrics", "R@1,F1"), "F1"),
        (("score", "--pools", "world"), "world"),
        (("erase", *SMALL, "--ranks", "3,many"), "--ranks holds 'many'"),
        (("erase", *SMALL, "--average", "en+xx"), "xx"),
        (("erase", *SMALL, "--ranks", "500"), "500"),
        (("geometry", *SMALL, "--depths", "40"), "There is no depth 40"),
        (("bias", "prevalence", *SMALL, "--prior", "most"), "--prior is 'most'"),
        (("bias", "association", "--corpus", "emoji-pseudo"), "no triplets"),
        (("compare", "nowhere", "--published"), "no table in 'nowhere'"),
        (("compare", "nowhere"), "--published"),
        (("compare", "nowhere", "--calibrated", "elsewhere"), "no table in 'nowhere'"),
        (("compare", "nowhere", "--calibrated", "elsewhere", "--paper", "s3"), "leave it out with --calibrated"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(tmp_path, arguments, message):
    done = workbench(*arguments, *(() if arguments[0] == "compare" else ("--out", "run")), cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_plan_says_what_the_sample_shows_and_what_the_run_will_take(tmp_path):
    found = answered("diagnose", "--plan", "--limit", "60", "--languages", "en,de,sw,te", cwd=tmp_path)
    assert found["images"] == 60
    assert found["images_needed"]["5"] > found["images_needed"]["20"] > 0
    assert found["smallest_gap_seen"] > 0
    assert found["seconds"] > 0
    assert found["memory_gib"] > 0.2
    assert not list(tmp_path.iterdir())
