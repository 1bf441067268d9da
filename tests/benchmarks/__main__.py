"""Measure the speed claims of the README and print them as a table.

The peer is nnsight, patching one depth at a time over the same captions, with the padding that the model's
own processor gives. Peer and bench take turns inside one run, and a row shows the ratio of their medians over
at least five turns: on a shared machine a ratio means something, a time does not.

    make bench
    make bench ARGS="--rounds 9 --only causal"
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from interventions import ParallelEOS
from tests.benchmarks import inlp, pool, silhouette
from tests.benchmarks.timing import alternate, row
from workbench.corpora import load_corpus
from workbench.engine import sweep_batch_size, sweep_pass
from workbench.hooks import HookManager
from workbench.intervention import Context
from workbench.oracle import patch_depths
from workbench.towers import Tower, load_tower
from workbench.towers.provenance import Provenance
from workbench.towers.tokens import Tokens
from workbench.towers.transformers_dual import MetaClip2Tower
from workbench.trajectory import batches, capture_language

PEER_BATCH = 64


def full_padding(tower: Tower, tokens: Tokens) -> Tokens:
    """Pad to the tower's own length, as its processor does with padding='max_length'."""
    missing = tower.max_positions - tokens.input_ids.shape[1]
    if missing <= 0:
        return tokens
    pad = tower.model.config.text_config.pad_token_id
    ids = torch.nn.functional.pad(tokens.input_ids, (0, missing), value=pad)
    content = torch.nn.functional.pad(tokens.content, (0, missing), value=False)
    return Tokens(ids, tokens.pooled, content, tokens.truncated)


def plain(tower: Tower, tokens: Tokens, size: int = PEER_BATCH) -> None:
    """One padded forward pass over all captions."""
    with torch.no_grad():
        for part in torch.arange(len(tokens)).split(size):
            tower.forward(tokens.take(part))


def measure_tower(tower: Tower, sw: Tokens, en: Tokens, rounds: int, label: str, targets: dict) -> list[dict]:
    """Compare one intervention at every depth, capture and a plain pass on one tower."""
    depths = list(range(tower.n_blocks + 1))
    patch = ParallelEOS("en")
    donors = capture_language(tower, en, depths)
    context = Context("sw", torch.arange(len(sw)), len(sw), "pooled", {"en": donors.rows}, {"en": donors.available}, 0)
    padded = full_padding(tower, sw)
    size = sweep_batch_size(tower, len(depths), tower.strategy, int(sw.pooled.max()) + 1)

    def peer() -> None:
        for part in torch.arange(len(padded)).split(PEER_BATCH):
            patch_depths(tower, padded.take(part), patch, context.at(part), depths)

    def ours() -> None:
        for part, batch in batches(tower, sw, size):
            sweep_pass(tower, batch, [patch], [context.at(part)], depths)

    def bare() -> None:
        plain(tower, padded)

    def captured() -> None:
        with torch.no_grad():
            for part in torch.arange(len(padded)).split(PEER_BATCH):
                batch = padded.take(part)
                with HookManager(tower.blocks) as hooks:
                    hooks.capture(depths, batch.pooled)
                    tower.forward(batch)

    peer_s, ours_s, bare_s, captured_s = alternate(rounds, peer, ours, bare, captured)
    rows = [
        row(
            f"{label}: every depth of one intervention, times faster than nnsight",
            targets["sweep"],
            peer_s,
            ours_s,
        )
    ]
    if "pass" in targets:
        rows.append(
            row(
                f"{label}: the same, in plain padded forward passes",
                targets["pass"],
                bare_s,
                ours_s,
                inverse=True,
            )
        )
    rows.append(
        row(
            f"{label}: capture of all depths, in plain forward passes",
            "≤ 1.10",
            bare_s,
            captured_s,
            inverse=True,
        )
    )
    return rows


def built_in(name: str, rounds: int, captions: int, targets: dict) -> list[dict]:
    """Measure a built-in tower on its own corpus."""
    tower = load_tower(name)
    corpus = load_corpus("emoji-36", ["en", "sw"], limit=captions)
    tokens = {language: tower.tokenize(corpus.texts(language)[0], language) for language in ("en", "sw")}
    return measure_tower(tower, tokens["sw"], tokens["en"], rounds, name, targets)


def wide(rounds: int) -> list[dict]:
    """Measure a random MetaCLIP-2 tower of 12 blocks, 512 wide, 77 positions, captions of 12 to 24 tokens."""
    from transformers import MetaClip2Config, MetaClip2Model

    torch.manual_seed(0)
    vocabulary = 1000
    text = {
        "vocab_size": vocabulary, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12,
        "num_attention_heads": 8, "max_position_embeddings": 77, "projection_dim": 512,
        "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    vision = {
        "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
        "image_size": 32, "patch_size": 16, "projection_dim": 512,
    }  # fmt: skip
    model = MetaClip2Model(MetaClip2Config(text_config=text, vision_config=vision, projection_dim=512))
    tower = MetaClip2Tower("random-512", model, None, None, Provenance("random", None, "MetaClip2Model", "float32"))
    generator = torch.Generator().manual_seed(1)

    def captions(n: int) -> Tokens:
        lengths = torch.randint(12, 25, (n,), generator=generator)
        ids = torch.randint(4, vocabulary, (n, 24), generator=generator)
        places = torch.arange(24)
        end = lengths[:, None] - 1
        ids = torch.where(places < end, ids, torch.where(places == end, 2, 1))
        ids[:, 0] = 0
        return Tokens(ids, lengths - 1, (places > 0) & (places < end), torch.zeros(n, dtype=torch.bool))

    targets = {"sweep": "≥ 20", "pass": "≤ 1.0"}
    return measure_tower(tower, captions(64), captions(64), rounds, "random 12 × 512, 77 positions", targets)


def demo(rounds: int) -> list[dict]:
    """Time `workbench diagnose` as `make demo` runs it, in a process of its own."""
    code = (
        "import resource, sys\nfrom analyses.cli import main\n"
        "sys.argv = ['workbench', 'diagnose', '--out', sys.argv[1]]\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code, stop.code\n"
        "print('PEAK', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"
    )
    seconds, peaks = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-c", code, str(Path(folder) / "run")],
                capture_output=True,
                text=True,
                check=True,
            )
            seconds.append(time.perf_counter() - start)
            peaks.append(int(done.stderr.rsplit("PEAK", 1)[1]) / 1024**2)
    return [
        {
            "what": "workbench diagnose as make demo runs it: seconds",
            "target": "< 180",
            "ratio": statistics.median(seconds),
            "range": f"{min(seconds):.0f}–{max(seconds):.0f}",
        },
        {
            "what": "the same: peak memory in GiB",
            "target": "< 2",
            "ratio": max(peaks),
            "range": f"{min(peaks):.2f}–{max(peaks):.2f}",
        },
    ]


def main() -> None:
    """Run the benchmarks and print the table."""
    parser = argparse.ArgumentParser(description="Speed, as ratios against a peer in the same run.")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each arm")
    parser.add_argument("--captions", type=int, default=256, help="captions of the built-in towers")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    names = ["causal", "bidirectional", "wide", "demo", "silhouette", "inlp", "pool"]
    parser.add_argument("--only", choices=names, help="one part")
    arguments = parser.parse_args()
    parts: dict[str, Callable[[], list[dict]]] = {
        "causal": lambda: built_in("emoji-causal", arguments.rounds, arguments.captions, {"sweep": "≥ 6"}),
        "bidirectional": lambda: built_in(
            "emoji-bidirectional", arguments.rounds, arguments.captions, {"sweep": "≥ 1.8"}
        ),
        "wide": lambda: wide(arguments.rounds),
        "demo": lambda: demo(min(arguments.rounds, 3)),
        "silhouette": lambda: silhouette.measure(arguments.rounds),
        "inlp": lambda: inlp.measure(arguments.rounds),
        "pool": lambda: pool.measure(arguments.rounds),
    }
    rows = [line for name, part in parts.items() if arguments.only in (None, name) for line in part()]
    if arguments.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    where = f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    print(f"{where}, {arguments.rounds} rounds\n")
    print("| what | target | measured | range |\n|---|---|---|---|")
    for line in rows:
        print(f"| {line['what']} | {line['target']} | {line['ratio']:.2f} | {line['range']} |")


if __name__ == "__main__":
    main()
