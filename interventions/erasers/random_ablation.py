"""Random ablation: project off as many random directions as an eraser removes (S3-36).

Whatever an eraser does to retrieval, part of it is the price of losing r dimensions at all. A subspace drawn
uniformly at random costs the same number of dimensions and knows nothing of language. One draw says little;
take five or more and report their mean and spread.
"""

from interventions.erasers.base import Codes, LinearEraser, Matrix, check_rank, orthonormal
from workbench.errors import InputError
from workbench.splits import generator as seeded


class RandomAblation(LinearEraser):
    """Project orthogonally off a random subspace (AMB-19).

    Parameters
    ----------
    rank : int, optional
        Directions to remove; one less than there are classes by default, which is LEACE's rank.
    seed : int
        Of the draw. A smaller rank of the same seed is a part of a larger one.
    affine : bool
        Keep the mean row where it is, as LEACE does; otherwise the origin.
    """

    guards = "nothing"

    def __init__(self, rank: int | None = None, *, seed: int = 0, affine: bool = True) -> None:
        self.rank = rank
        self.seed = seed
        self.affine = affine

    @property
    def label(self) -> str:
        """``"RandomAblation 12 #0"``: rank and seed."""
        return " ".join(["RandomAblation", *([] if self.rank is None else [str(self.rank)]), f"#{self.seed}"])

    def _fit(self, rows: Matrix, codes: Codes) -> None:
        d = rows.shape[1]
        rank = check_rank(len(self.classes_) - 1 if self.rank is None else self.rank, d, "RandomAblation")
        # The span of Gaussian rows is uniform over subspaces (Haar), whatever basis of it is taken.
        gaussian = seeded(self.seed, 36).standard_normal((rank, d))
        self._orthogonal(orthonormal(gaussian), rows, self.affine)


def random_ablations(rank: int, seeds: int = 5, *, affine: bool = True) -> list[RandomAblation]:
    """Return the placebo: several random ablations of one rank, unfitted.

    Raises
    ------
    InputError
        If fewer than two seeds were asked for, which would have no spread.
    """
    if seeds < 2:
        raise InputError(f"{seeds} random ablation came; a spread needs 2 or more, and 5 is the least to report.")
    return [RandomAblation(rank, seed=seed, affine=affine) for seed in range(seeds)]
