import json
import math

import pytest

from workbench.corpora.quality import filter_languages, read_scores
from workbench.errors import InputError


def test_scores_come_from_json_or_a_table_and_go_by_the_codes_of_the_bench(tmp_path):
    (tmp_path / "q.json").write_text(json.dumps({"swh_Latn": 0.8, "tl": 0.9, "klingon": 0.1}))
    assert read_scores(tmp_path / "q.json") == {"sw": 0.8, "fil": 0.9, "klingon": 0.1}
    (tmp_path / "q.csv").write_text("language,score\nsw,0.5\nsw,0.9\nte,1\n")
    found = read_scores(tmp_path / "q.csv")
    assert found["sw"] == pytest.approx(0.7)
    assert found["te"] == 1.0


def test_languages_below_the_threshold_and_without_a_score_do_not_pass():
    chosen = filter_languages({"sw": 0.8, "te": 0.6, "bn": 0.7}, 0.7, ["te", "sw", "bn", "hi", "sw"])
    assert chosen.kept == {"sw": 0.8, "bn": 0.7}
    assert chosen.dropped == {"te": 0.6}
    assert chosen.unscored == ("hi",)


@pytest.mark.parametrize("score", ["high", "", None, True, math.nan, math.inf])
def test_a_score_that_is_no_number_is_named(tmp_path, score):
    (tmp_path / "q.json").write_text(json.dumps({"sw": score}))
    with pytest.raises(InputError, match=r"'sw' in .*a score is a finite number"):
        read_scores(tmp_path / "q.json")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("q.json", "[]", "no JSON object"),
        ("q.json", "{}", "holds no score"),
        ("q.csv", "language,comet\nsw,1\n", "no column 'score'"),
        ("q.csv", "language,score\n,1\n", "names no language"),
        ("q.txt", "sw 1", "no table that can be read"),
    ],
)
def test_other_files_are_refused(tmp_path, name, content, says):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=says):
        read_scores(tmp_path / name)


def test_a_threshold_is_a_number():
    with pytest.raises(InputError, match="The threshold"):
        filter_languages({"sw": 1.0}, math.nan, ["sw"])
