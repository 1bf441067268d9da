"""The calibration study: how often the diagnosis is right on towers whose fault is known.

Many towers are planted (:mod:`workbench.towers.planted`), with faults drawn over kind, block, strength, number
of faulty labels, sample size and both attention kinds, and each is diagnosed by the same rule as any tower. What
comes out is a table, one row a tower, and from it the confusion of true and named fault, the error of the onset
in blocks, and the rate of false alarms on sound towers.

Labels that are not struck give the same numbers in every tower, so they are embedded once for each sample, and
only languages with a gap are swept: the rule reads no patched row of the others.
"""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tqdm.auto import tqdm

from analyses.diagnosis.evidence import Examiner, Thresholds
from analyses.diagnosis.measurements import LanguageOutputs, Measurements, language_outputs
from analyses.diagnosis.verdict import Verdict, judge
from interventions import MidToken, NormMatchedNoise, ParallelEOS, RandomEOS
from workbench.corpora.base import Corpus
from workbench.corpora.pseudo import PSEUDO_TIERS, load_pseudo
from workbench.errors import InputError
from workbench.gallery import IMAGES, embed_gallery
from workbench.intervention import Intervention
from workbench.retrieval import Direction, rank
from workbench.sweep_frame import DIRECTIONS, scores_by_image
from workbench.sweeps import sweep
from workbench.towers import load_tower
from workbench.towers.base import Tower
from workbench.towers.planted import LABELS, Fault, plant

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("workbench")

BASES = ("emoji-causal", "emoji-bidirectional")
EXPECTED = {
    "none": "no_gap", "output": "output_direction", "block": "trajectory", "tokens": "trajectory",
    "tokenizer": "input", "mixed": "mixed",
}  # fmt: skip


_PATCH, _CONTROLS, _MIDDLE = ParallelEOS("en"), (RandomEOS("en"), NormMatchedNoise()), MidToken("en")


@dataclass(frozen=True)
class Trial:
    """One tower of the study.

    Attributes
    ----------
    base : str
        Built-in tower that it was made from.
    fault : Fault
    n : int
        Images.
    seed : int
        Which images, and every draw of the diagnosis.
    """

    base: str
    fault: Fault
    n: int
    seed: int


def rule_hash() -> str:
    """Hash the code of the diagnosis: a row of a study counts for the rule that made it and no other."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def design(
    towers: int,
    *,
    seed: int = 0,
    sizes: Sequence[int] = (500,),
    kinds: Sequence[str] = tuple(EXPECTED),
    strengths: tuple[float, float] | None = None,
    n_blocks: int = 12,
) -> list[Trial]:
    """Draw the towers of a study: kinds and bases in turn, the rest at random.

    Parameters
    ----------
    towers : int
    seed : int
    sizes : sequence of int
        Numbers of images, in turn.
    kinds : sequence of str
    strengths : (float, float), optional
        Range of the strengths; by default that of a fault that is there to be found (:func:`strength_range`).
    n_blocks : int
        Of the base towers.
    """
    if towers < 1:
        raise InputError(f"A study of {towers} towers came; give at least 1.")
    generator = np.random.default_rng([seed, 96])
    trials = []
    for k in range(towers):
        kind = kinds[k % len(kinds)]
        low, high = strengths or strength_range(kind)
        struck = tuple(LABELS[: 1 + int(generator.integers(len(LABELS)))])
        # A content row has to have blocks left to be read by.
        last = n_blocks // 2 if kind == "tokens" else n_blocks
        block = int(generator.integers(last)) if kind in ("block", "tokens", "mixed") else None
        strength = float(np.round(generator.uniform(low, high), 3))
        fault = Fault(kind, block, strength, struck, int(generator.integers(2**31)))  # pyright: ignore[reportArgumentType]
        base = BASES[(k // len(kinds)) % len(BASES)]
        trials.append(Trial(base, fault, int(sizes[(k // (len(kinds) * len(BASES))) % len(sizes)]), seed + k))
    return trials


def strength_range(kind: str) -> tuple[float, float]:
    """Return strengths at which a fault of this kind costs some ten points of R@1 or more."""
    return {
        "none": (0.0, 0.0), "output": (0.5, 1.5), "block": (0.45, 1.0), "tokens": (0.8, 1.0),
        "tokenizer": (0.25, 0.7), "mixed": (0.45, 0.65),
    }[kind]  # fmt: skip


class Study:
    """Plants, measures and judges; what is the same for several towers is kept."""

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        self.limits = thresholds or Thresholds()
        self._bases: dict[str, Tower] = {}
        self._corpus: Corpus | None = None
        self._sound: dict[tuple, tuple[np.ndarray, dict[str, LanguageOutputs]]] = {}

    def run(self, trials: Sequence[Trial], *, progress: bool = True) -> "pd.DataFrame":
        """Diagnose every tower; one row each."""
        import pandas as pd

        return pd.DataFrame(list(self.rows(tqdm(trials, desc="planted towers", disable=not progress))))

    def rows(self, trials: Any) -> Iterator[dict[str, Any]]:
        """Diagnose one tower after the other."""
        for trial in trials:
            verdict = self.diagnose(trial)
            fault = trial.fault
            onset = verdict.onset
            error = None if onset is None or fault.onset is None else onset[0] - fault.onset
            gaps = verdict.numbers["gap_by_language"]
            yield {
                "base": trial.base, "fault": fault.kind, "block": fault.block, "strength": fault.strength,
                "labels": len(fault.labels) if fault.kind != "none" else 0, "n": trial.n, "seed": trial.seed,
                "expected": EXPECTED[fault.kind], "verdict": verdict.kind,
                "right": verdict.kind == EXPECTED[fault.kind],
                "onset": None if onset is None else onset[0], "onset_low": None if onset is None else onset[1],
                "onset_high": None if onset is None else onset[2], "onset_error": error,
                "named_labels": "+".join(verdict.languages),
                "labels_right": set(verdict.languages) == (set(fault.labels) if fault.kind != "none" else set()),
                "largest_gap": max(gap["value"] for gap in gaps.values()),
            }  # fmt: skip

    def diagnose(self, trial: Trial) -> Verdict:
        """Plant one tower and judge it."""
        return judge(self.measure(trial), self.limits)

    def measure(self, trial: Trial) -> Measurements:
        """Plant one tower and make the measurements that the rule looks at."""
        base = self._base(trial.base)
        corpus = self._images(trial)
        tower = plant(base, trial.fault)
        gallery, sound = self._unharmed(base, trial, corpus)
        struck = trial.fault.labels if trial.fault.kind != "none" else ()
        outputs = {
            label: language_outputs(tower, corpus, label) if label in struck else sound[label] for label in PSEUDO_TIERS
        }
        frozen: dict[tuple[str, Direction], np.ndarray] = {}
        images, owner = torch.from_numpy(gallery), torch.arange(trial.n)
        for label, out in outputs.items():
            for direction, ranks in rank(torch.from_numpy(out.embeddings), images, owner).items():
                frozen[label, direction] = 100 * ranks.hits(1)
        plain = Measurements(
            tower=tower.name, corpus=corpus.name, n_blocks=tower.n_blocks, depths=list(range(tower.n_blocks + 1)),
            tiers=PSEUDO_TIERS, source="en", patch=_PATCH.name, frozen=frozen, patched={}, controls=(),
            outputs=outputs, gallery=gallery, seed=trial.seed,
        )  # fmt: skip
        trailing = Examiner(plain, self.limits).gaps.languages
        if not trailing:
            return plain
        patched = _patched(tower, corpus, trailing, [_PATCH, *_CONTROLS], plain.depths, trial)
        swept = replace(plain, patched=patched, controls=tuple(i.name for i in _CONTROLS))
        # The rule reads the middle token at the depth of the patch alone, and it costs more than all the others.
        chosen = sorted({found.depth for found in Examiner(swept, self.limits).patching.values()})
        patched |= _patched(tower, corpus, trailing, [_MIDDLE], chosen, trial)
        return replace(swept, patched=patched, controls=(*swept.controls, _MIDDLE.name))

    def _base(self, name: str) -> Tower:
        if name not in self._bases:
            self._bases[name] = load_tower(name)
        return self._bases[name]

    def _images(self, trial: Trial) -> Corpus:
        if self._corpus is None:
            self._corpus = load_pseudo()
        if trial.n > len(self._corpus):
            raise InputError(f"{trial.n} images were asked for; {self._corpus.name} has {len(self._corpus)}.")
        # An eighth of the samples repeats, so that what is not struck need not be embedded for every tower.
        chosen = np.sort(np.random.default_rng([trial.seed % 8, trial.n]).permutation(len(self._corpus))[: trial.n])
        ids = [self._corpus.image_ids[k] for k in chosen]
        captions = {label: tuple(texts[k] for k in chosen) for label, texts in self._corpus.captions.items()}
        return replace(self._corpus, image_ids=tuple(ids), captions=captions)

    def _unharmed(self, base: Tower, trial: Trial, corpus: Corpus) -> tuple[np.ndarray, dict[str, LanguageOutputs]]:
        key = (base.name, trial.n, trial.seed % 8)
        if key not in self._sound:
            gallery = embed_gallery(base, corpus, IMAGES).numpy()
            self._sound[key] = gallery, {label: language_outputs(base, corpus, label) for label in PSEUDO_TIERS}
        return self._sound[key]


def _patched(
    tower: Tower,
    corpus: Corpus,
    languages: Sequence[str],
    interventions: Sequence[Intervention],
    depths: Sequence[int],
    trial: Trial,
) -> dict[tuple[str, Direction, str], np.ndarray]:
    """Sweep some languages; hits by depth and image, not a number at depths that were not swept."""
    result = sweep(
        tower, corpus, interventions, languages=languages, depths=depths, tier_map=PSEUDO_TIERS, seed=trial.seed,
        resamples=1, progress=False,
    )  # fmt: skip
    found = {}
    for language, cell in result.cells.items():
        for direction in DIRECTIONS:
            scores = scores_by_image(cell.patched(direction), "R@1", np.arange(trial.n), trial.n)
            for k, intervention in enumerate(interventions):
                whole = np.full((tower.n_blocks + 1, trial.n), np.nan)
                whole[list(depths)] = scores[k]
                found[language, direction, intervention.name] = whole
    return found


def confusion(table: "pd.DataFrame") -> "pd.DataFrame":
    """Count named against planted faults."""
    import pandas as pd

    from analyses.diagnosis.rule import KINDS

    counts = pd.crosstab(table["fault"], table["verdict"])
    rows = [kind for kind in EXPECTED if kind in counts.index]
    return counts.reindex(index=rows, columns=list(KINDS), fill_value=0)


def summary(table: "pd.DataFrame") -> dict[str, float]:
    """Return the shares that the study is about, in percent, over the towers of a table."""
    found = table[table["fault"] == "block"]
    named = found[found["onset"].notna()]
    sound = table[table["fault"] == "none"]
    wrong = table[~table["right"] & ~table["verdict"].isin(["no_gap", "inconclusive"])]
    return {
        "towers": float(len(table)),
        "right": 100 * float(table["right"].mean()),
        "onset_within_one": 100 * float((named["onset_error"].abs() <= 1).sum() / max(len(found), 1)),
        "false_alarms": 100 * float((sound["verdict"] != "no_gap").mean()) if len(sound) else float("nan"),
        "wrong_name": 100 * len(wrong) / len(table),
    }
