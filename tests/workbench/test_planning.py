"""What a sweep will need, against what it then holds."""

from interventions import MidToken, ParallelEOS
from workbench import load_corpus
from workbench.planning import sweep_memory, sweep_seconds
from workbench.trajectory import capture_language


def test_the_parts_are_the_sizes_of_the_tensors_that_a_sweep_makes(get_tower):
    tower, corpus = get_tower("emoji-causal"), load_corpus("emoji-36", ["en"], limit=30)
    tokens = tower.tokenize(corpus.texts("en")[0], "en")
    captured = capture_language(tower, tokens, range(tower.n_blocks + 1))
    found = sweep_memory(tower, 30, interventions=3, sources=2)
    assert found.source_rows == 2 * captured.rows.nbytes
    assert found.patched == 3 * (tower.n_blocks + 1) * captured.embeddings.nbytes
    assert found.total == found.held + found.source_rows + found.patched + found.one_pass + found.ranking
    assert found.held > 100 * 2**20  # the libraries alone
    low, high = (float(word) for word in found.range_gib.removesuffix(" GiB").split(" to "))
    assert low <= high
    assert abs(low - found.gib) < 0.06
    # Twice the captions, twice the rows; four times the similarities.
    twice = sweep_memory(tower, 60, interventions=3, sources=2)
    assert (twice.source_rows, twice.patched) == (2 * found.source_rows, 2 * found.patched)
    assert twice.ranking == 4 * found.ranking
    assert sweep_memory(tower, 60, interventions=3, sources=2, images=30).ranking == 2 * found.ranking


def test_time_is_measured_and_scaled_to_all_languages(get_tower):
    tower, corpus = get_tower("emoji-causal"), load_corpus("emoji-36", ["en"], limit=30)
    tokens = tower.tokenize(corpus.texts("en")[0], "en")
    chosen = [ParallelEOS("en"), MidToken("en")]
    one = sweep_seconds(tower, tokens, chosen, [0, 9, 12], 1)
    many = sweep_seconds(tower, tokens, chosen, [0, 9, 12], 1000)
    assert one > 0
    assert many > 10 * one
