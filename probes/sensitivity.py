"""How much the back half of a tower stretches a change of the pooled row (S3-91, S3-92, S3-94, S3-95).

F is the map from the pooled row at depth M to the embedding, with every other row at depth M held at what the
caption made it (AMB-26); the model's own blocks compute it. For a caption x of a language and the row h_ref of
the same caption in a reference,

    s(x) = ||F(h_M(x)) - F(h_ref)|| / ||h_M(x) - h_ref||

is the ratio *towards the reference*: a large step, in the one direction that matters. Beside it stand small
steps in random directions, of a share of the row's norm. Mean and maximum tell different stories and are both
given: a mean is what happens to captions, a maximum is what a Lipschitz constant has to bear.

A sampled ratio is a lower bound of that constant, never an upper one, and it speaks of the pooled row alone:
captions of two languages differ in their other rows too, and F may send different rows to one embedding. The
upper bound is :mod:`probes.spectral_bound`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from probes._resampling import Estimates, check_count
from probes.correlation import Correlation, correlate
from workbench.corpora.base import Corpus, Protocol
from workbench.engine import sweep_batch_size, sweep_pass
from workbench.errors import InputError
from workbench.hooks import Rows
from workbench.intervention import Context, Intervention
from workbench.retrieval import Bootstrap
from workbench.towers.base import Tower
from workbench.trajectory import batches, capture_language, check_depths

Output = Literal["embedding", "unit"]

# Below this share of the row's norm a step drowns in float32 rounding; the caption then has no ratio.
_SMALLEST = 1e-4


@dataclass(frozen=True)
class SensitivitySummary:
    """Ratios of one kind by language.

    Attributes
    ----------
    mean : Estimates of arrays of shape (language,)
        With 95 % bootstrap intervals over captions; NaN where a language has no ratio of this kind.
    maximum : array of shape (language,)
    captions : int array of shape (language,)
        How many captions have a ratio.
    """

    mean: Estimates
    maximum: Float[np.ndarray, " language"]
    captions: np.ndarray


@dataclass(frozen=True)
class Sensitivity:
    """Sampled ratios of the back half.

    Attributes
    ----------
    tower : str
    languages : tuple of str
    depth : int
        M.
    n_blocks : int
        N.
    reference : tuple of str
        One language, or those whose mean row is the reference.
    to_reference : array of shape (language, caption)
        NaN where row and reference are the same, as for the reference itself.
    random : array of shape (language, caption, direction)
    residual : array of shape (language, caption)
        ||h_M(x) - h_ref||, the denominators.
    step : float
        Length of a random step, as a share of the row's norm.
    output : {"embedding", "unit"}
        Whether embeddings are as the tower gives them, or normalised.
    n, d : int
        Captions of each language, and width of a row.
    seed : int
    """

    tower: str
    languages: tuple[str, ...]
    depth: int
    n_blocks: int
    reference: tuple[str, ...]
    to_reference: Float[np.ndarray, "language caption"] = field(repr=False)
    random: Float[np.ndarray, "language caption direction"] = field(repr=False)
    residual: Float[np.ndarray, "language caption"] = field(repr=False)
    step: float
    output: Output
    n: int
    d: int
    seed: int

    def summary(
        self, kind: Literal["reference", "random"] = "reference", *, resamples: int = 1000
    ) -> SensitivitySummary:
        """Return mean and maximum by language; random directions of a caption are averaged for the mean."""
        if kind not in ("reference", "random"):
            raise InputError(f"kind={kind!r} came; it is 'reference' or 'random'.")
        each = self.to_reference[..., None] if kind == "reference" else self.random
        if each.shape[-1] == 0:
            each = np.full((*each.shape[:2], 1), math.nan)
        values, highest = each.mean(axis=-1), each.max(axis=-1)
        has = ~np.isnan(values)
        mean = np.full((3, len(self.languages)), math.nan)
        maximum = np.full(len(self.languages), math.nan)
        for k, used in enumerate(has):
            if used.any():
                maximum[k] = highest[k, used].max()
            if used.sum() >= 2:
                bootstrap = Bootstrap(int(used.sum()), resamples, self.seed)
                mean[:, k] = values[k, used].mean(), *bootstrap.interval(bootstrap.means(values[k, used]))
        return SensitivitySummary(Estimates(*mean), maximum, has.sum(axis=1))

    def by_language(self, kind: Literal["reference", "random"] = "reference") -> dict[str, float]:
        """Return the mean ratio of each language that has one."""
        mean = self.summary(kind, resamples=1).mean.value
        return {name: float(value) for name, value in zip(self.languages, mean, strict=True) if not math.isnan(value)}

    def residuals(self) -> dict[str, float]:
        """Return the mean residual of each language but the sole reference."""
        means = self.residual.mean(axis=1)
        return {
            name: float(value) for name, value in zip(self.languages, means, strict=True) if (name,) != self.reference
        }


@dataclass(frozen=True)
class SensitivityChange:
    """What a change of the tower did to its sensitivity (S3-92).

    Attributes
    ----------
    mean_before, mean_after, max_before, max_after : float
        Over all captions of the shared languages.
    mean_percent : float
        Change of the mean in percent; negative where it fell.
    max_factor : float
        By how much the maximum fell: before divided by after.
    """

    mean_before: float
    mean_after: float
    max_before: float
    max_after: float

    @property
    def mean_percent(self) -> float:
        """Change of the mean in percent."""
        return 100.0 * (self.mean_after / self.mean_before - 1.0)

    @property
    def max_factor(self) -> float:
        """The maximum before, divided by the maximum after."""
        return self.max_before / self.max_after


class _Towards(Intervention):
    """Put a given row in."""

    name = "towards the reference"

    def __init__(self, targets: Float[Tensor, "caption width"]) -> None:
        self.targets = targets

    def rows(self, rows: Rows, depth: int, context: Context) -> Rows:
        return self.targets[context.captions].to(rows)


class _Step(Intervention):
    """Take a small step in a random direction."""

    def __init__(self, place: int, size: float) -> None:
        self.name = f"random direction {place}"
        self.place, self.size = place, size

    def rows(self, rows: Rows, depth: int, context: Context) -> Rows:
        direction = context.normal(rows.shape[-1], "sensitivity", self.place).to(rows)
        length = self.size * torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
        return rows + length * direction / torch.linalg.vector_norm(direction, dim=-1, keepdim=True)


def back_half_sensitivity(
    tower: Tower,
    corpus: Corpus,
    depth: int,
    reference: str | Sequence[str] = "en",
    languages: Iterable[str] | None = None,
    *,
    directions: int = 8,
    step: float = 0.01,
    output: Output = "embedding",
    protocol: Protocol = "first",
    batch_size: int | None = None,
    seed: int = 0,
) -> Sensitivity:
    """Sample how the blocks from depth M on stretch changes of the pooled row.

    Parameters
    ----------
    tower : Tower
        In float32: a small step drowns in the rounding of half precision.
    corpus : Corpus
    depth : int
        M, 0 to N; negative ones count from N.
    reference : str or sequence of str
        Language that ratios are taken towards, or several for their mean row; a language that is one of several
        is measured against the others.
    languages : iterable of str, optional
        All of the corpus by default.
    directions : int
        Random directions for each caption; the same for every language.
    step : float
        Length of a random step, as a share of the row's norm.
    output : {"embedding", "unit"}
        The embedding as the tower gives it, to which the spectral bound applies; or normalised, as retrieval
        sees it.
    protocol : {"first", "all"}
    batch_size : int, optional
    seed : int

    Returns
    -------
    Sensitivity

    Raises
    ------
    InputError
        If the tower is in half precision, a language or depth is missing, or fewer than two captions came.
    """
    if tower.dtype not in (torch.float32, torch.float64):
        raise InputError(
            f"{tower.name!r} is in {str(tower.dtype).removeprefix('torch.')}; a step of {step:.2%} drowns in its "
            "rounding. Load it with dtype='float32'."
        )
    if output not in get_args(Output):
        raise InputError(f"output={output!r} came; it is 'embedding' or 'unit'.")
    if not _SMALLEST <= step <= 1:
        raise InputError(f"step={step} came; a step is a share of the row's norm, from {_SMALLEST} to 1.")
    count = check_count("directions", directions)
    place = check_depths([depth], tower.n_blocks)[0]
    sources = (reference,) if isinstance(reference, str) else tuple(dict.fromkeys(reference))
    chosen = corpus.check_languages(languages) if languages is not None else corpus.languages
    if not sources or (chosen == sources and not count):
        raise InputError("Nothing is to be measured: give a reference, and a language beside it.")
    everyone = tuple(dict.fromkeys((*chosen, *corpus.check_languages(sources))))
    corpus.check_parallel(everyone, protocol)
    tokens = {name: tower.tokenize(corpus.texts(name, protocol)[0], name) for name in everyone}
    rows = {name: capture_language(tower, own, [place]).rows[:, 0] for name, own in tokens.items()}
    n = len(rows[everyone[0]])
    if n < 2:
        raise InputError(f"{n} caption a language came; this needs 2 or more.")
    to_reference, residual = np.full((2, len(chosen), n), math.nan)
    random = np.full((len(chosen), n, count), math.nan)
    steps: list[Intervention] = [_Step(k, step) for k in range(count)]
    for k, name in enumerate(chosen):
        others = [source for source in sources if source != name]
        moves = list(steps)
        if others:
            target = torch.stack([rows[source] for source in others]).mean(0)
            moves.insert(0, _Towards(target))
            residual[k] = _norm(target.double() - rows[name].double())
        else:
            residual[k] = 0.0
        if not moves:
            continue
        size = batch_size or sweep_batch_size(tower, len(moves), tower.strategy, int(tokens[name].length.max()))
        whole = Context(name, torch.arange(n), n, "pooled", {}, {}, seed)
        for part, batch in batches(tower, tokens[name], size):
            found = sweep_pass(tower, batch, moves, [whole.at(part)] * len(moves), [place])
            moved = _norm(_as(output, found.patched[:, 0]) - _as(output, found.clean))
            if others:
                to_reference[k, part] = moved[0]
            random[k, part] = moved[len(moves) - count :].T
        length = _norm(rows[name].double())
        to_reference[k] /= np.where(residual[k] >= _SMALLEST * length, residual[k], math.nan)
        random[k] /= step * length[:, None]
    return Sensitivity(
        tower.name, tuple(chosen), place, tower.n_blocks, sources, to_reference, random, residual, step, output, n,
        tower.width, seed,
    )  # fmt: skip


def _as(output: Output, embeddings: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
    embeddings = embeddings.double()
    if output == "unit":
        return embeddings / torch.linalg.vector_norm(embeddings, dim=-1, keepdim=True)
    return embeddings


def _norm(difference: Float[Tensor, "... d"]) -> np.ndarray:
    return torch.linalg.vector_norm(difference, dim=-1).numpy()


def residual_weighted_correlation(
    sensitivity: Mapping[str, float],
    residual: Mapping[str, float],
    lift: Mapping[str, float],
    *,
    permutations: int = 10_000,
    seed: int = 0,
) -> Correlation:
    """Correlate sensitivity times residual with a lift over languages (S3-94). A diagnostic, no cause.

    Parameters
    ----------
    sensitivity, residual, lift : mapping of str to float
        By language, the same in all three. To pool encoders, name the keys by encoder and language.
    permutations, seed : int

    Returns
    -------
    Correlation
        x is the product, y the lift.
    """
    if not set(sensitivity) == set(residual) == set(lift):
        odd = (set(sensitivity) | set(residual) | set(lift)) - (set(sensitivity) & set(residual) & set(lift))
        raise InputError(
            f"Sensitivity, residual and lift need the same languages; not all have {', '.join(sorted(odd))}."
        )
    product = {name: sensitivity[name] * residual[name] for name in sensitivity}
    return correlate(product, lift, permutations=permutations, seed=seed)


def sensitivity_change(
    before: Sensitivity, after: Sensitivity, kind: Literal["reference", "random"] = "reference"
) -> SensitivityChange:
    """Compare the ratios of a tower before and after a change, such as trunk calibration (S3-92).

    Raises
    ------
    InputError
        If the two differ in languages, depth, reference, output or step, or have no ratio.
    """
    for name in ("languages", "depth", "reference", "output", "step", "n"):
        if getattr(before, name) != getattr(after, name):
            raise InputError(
                f"The two sides differ in {name}: {getattr(before, name)} and {getattr(after, name)}. Measure both "
                "alike."
            )
    sides = [own.to_reference if kind == "reference" else own.random for own in (before, after)]
    both = ~np.isnan(sides[0]) & ~np.isnan(sides[1])
    if not both.any():
        raise InputError(f"No caption has a ratio of the kind {kind!r} on both sides.")
    first, second = sides[0][both], sides[1][both]
    return SensitivityChange(float(first.mean()), float(second.mean()), float(first.max()), float(second.max()))
