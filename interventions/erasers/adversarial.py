"""An eraser trained against an adversary that is not linear (S3-38).

A residual network rewrites rows as ``row + g(row)``, while a second network learns to name the language of
what comes out. The two take turns: the adversary lowers its cross-entropy, the eraser makes its answers guesses
and keeps the row as much as it can.

An eraser that beats the adversary it was trained with has shown nothing: adversaries are easily beaten by a
trick that the next one sees through. So this class makes no claim of its own. The audit trains a *fresh*
attacker on erased rows, and the result is inconclusive unless that attacker fails (AMB-20).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from interventions.erasers.base import Codes, Eraser, Matrix
from workbench.errors import InputError
from workbench.splits import check_seed

if TYPE_CHECKING:
    from torch import Tensor


class AdversarialEraser(Eraser):
    """Rewrite rows so that a non-linear adversary can't name their language (AMB-20).

    The eraser minimises ``|g(row)|^2 / variance + weight * KL(uniform || adversary)``, the second of which is zero
    where the adversary's answer is a guess among the classes. The negative cross-entropy that is often written
    there has no slope where the adversary is sure, which is where one is needed, and rewards making it name wrong
    languages on purpose, which the next attacker would read.

    Parameters
    ----------
    hidden : int
        Width of the one hidden layer of g and of the two of the adversary.
    weight : float
        Of the adversary's loss against that of the change of rows.
    steps : int
        Updates of the eraser.
    adversary_steps : int
        Updates of the adversary to one of the eraser.
    learning_rate : float
    batch_size : int
    seed : int

    Attributes
    ----------
    adversary_accuracy_ : float
        Percent of the fitted rows whose language the eraser's own adversary names in the end.
    change_ : float
        Mean squared change of a row as a share of the variance of rows.
    """

    guards = "nonlinear"

    adversary_accuracy_: float
    change_: float
    offset_: np.ndarray
    scale_: float
    inner_weight_: np.ndarray
    inner_bias_: np.ndarray
    outer_weight_: np.ndarray
    outer_bias_: np.ndarray

    def __init__(
        self,
        *,
        hidden: int = 256,
        weight: float = 1.0,
        steps: int = 2000,
        adversary_steps: int = 3,
        learning_rate: float = 1e-3,
        batch_size: int = 256,
        seed: int = 0,
    ) -> None:
        self.hidden = hidden
        self.weight = weight
        self.steps = steps
        self.adversary_steps = adversary_steps
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.seed = seed

    def _fit(self, rows: Matrix, codes: Codes) -> None:
        import torch

        for name in ("hidden", "steps", "adversary_steps", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} came; use a whole number from 1 on.")
        self.offset_ = rows.mean(axis=0)
        # One scale for all coordinates, so that distances keep their meaning.
        self.scale_ = float(np.sqrt(np.mean((rows - self.offset_) ** 2)))
        x = torch.from_numpy((rows - self.offset_) / self.scale_).float()
        y = torch.from_numpy(codes)
        # The caller's random state is not touched.
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(check_seed(self.seed))
            change, adversary = _networks(rows.shape[1], self.hidden, len(self.classes_))
            self._train(x, y, change, adversary)
        with torch.no_grad():
            moved = change(x)
            named = adversary(x + moved).argmax(-1)
        self.adversary_accuracy_ = 100.0 * float((named == y).double().mean())
        self.change_ = float(moved.double().square().mean())
        for layer, name in ((change.inner, "inner"), (change.outer, "outer")):
            setattr(self, f"{name}_weight_", layer.weight.detach().double().numpy().copy())
            setattr(self, f"{name}_bias_", layer.bias.detach().double().numpy().copy())

    def _train(self, x: "Tensor", y: "Tensor", change: Any, adversary: Any) -> None:
        import torch
        from torch.nn.functional import cross_entropy, log_softmax

        guess = float(np.log(len(self.classes_)))
        eraser_step = torch.optim.Adam(change.parameters(), lr=self.learning_rate)
        adversary_step = torch.optim.Adam(adversary.parameters(), lr=self.learning_rate)
        parts = _batches(len(x), self.batch_size)
        for _ in range(self.steps):
            for _ in range(self.adversary_steps):
                part = next(parts)
                with torch.no_grad():
                    erased = x[part] + change(x[part])
                loss = cross_entropy(adversary(erased), y[part])
                adversary_step.zero_grad()
                loss.backward()
                adversary_step.step()
            part = next(parts)
            moved = change(x[part])
            surprise = -log_softmax(adversary(x[part] + moved), dim=-1).mean() - guess
            loss = moved.square().mean() + self.weight * surprise
            eraser_step.zero_grad()
            loss.backward()
            eraser_step.step()

    def _transform(self, rows: Matrix) -> Matrix:
        from scipy.special import erf

        inner = (rows - self.offset_) / self.scale_ @ self.inner_weight_.T + self.inner_bias_
        active = 0.5 * inner * (1 + erf(inner / np.sqrt(2)))  # GELU
        return rows + self.scale_ * (active @ self.outer_weight_.T + self.outer_bias_)

    def _check_state(self) -> None:
        d, h = self.n_features_in_, len(self.inner_bias_)
        shapes = {"offset_": (d,), "inner_weight_": (h, d), "inner_bias_": (h,)}
        shapes |= {"outer_weight_": (d, h), "outer_bias_": (d,)}
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} has shape {getattr(self, name).shape} where {shape} is needed")


def _batches(n: int, size: int) -> Iterator["Tensor"]:
    """Shuffle the rows over and over, and cut them into batches."""
    import torch

    while True:
        yield from torch.randperm(n).split(size)


def _networks(d: int, hidden: int, classes: int) -> tuple[Any, Any]:
    """Return the change of a row, which begins as none, and the adversary."""
    from collections import OrderedDict

    from torch import nn

    outer = nn.Linear(hidden, d)
    nn.init.zeros_(outer.weight)
    nn.init.zeros_(outer.bias)
    change = nn.Sequential(OrderedDict(inner=nn.Linear(d, hidden), active=nn.GELU(), outer=outer))
    adversary = nn.Sequential(
        nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, classes)
    )
    return change, adversary
