"""Patches of the pooled row with parallel content (S3 section 5).

If a Swahili caption fails because its pooled row goes astray somewhere in the blocks, then putting in the
row of the *same* caption in a language that works should cure it from that depth on. That is
:class:`ParallelEOS`. :class:`MeanEOS` puts in the mean over several languages.
"""

import torch

from workbench.errors import InputError
from workbench.hooks import Rows
from workbench.intervention import Context, Intervention


class ParallelEOS(Intervention):
    """Replace the pooled row by that of the same caption in another language (S3-50, S3-56).

    Parameters
    ----------
    source : str
        Language that the rows come from.
    """

    def __init__(self, source: str = "en") -> None:
        self.name = f"parallel {source}"
        self.sources = (source,)

    def rows(self, rows: Rows, depth: int, context: Context) -> Rows:
        """Return the source's rows at this depth."""
        return context.donor(self.sources[0], depth)


class MeanEOS(Intervention):
    """Replace the pooled row by the mean over several languages of the same caption (S3-57).

    Parameters
    ----------
    languages : sequence of str
        Languages to average over.
    exclude_target : bool
        Leave the caption's own language out of the mean, where it is among them (AMB-22).
    keep_norm : bool
        Rescale the mean to the mean norm of its members; averaging shortens rows.
    """

    def __init__(
        self, languages: tuple[str, ...] | list[str], exclude_target: bool = False, keep_norm: bool = False
    ) -> None:
        if not languages:
            raise InputError("MeanEOS got no language to average over.")
        self.sources = tuple(languages)
        self.name = f"mean of {len(self.sources)}"
        self.exclude_target = exclude_target
        self.keep_norm = keep_norm

    def rows(self, rows: Rows, depth: int, context: Context) -> Rows:
        """Return the mean of the sources' rows at this depth."""
        chosen = [s for s in self.sources if not (self.exclude_target and s == context.language)]
        if not chosen:
            raise InputError(f"{self.name!r} excludes {context.language!r}, its only language.")
        stack = torch.stack([context.donor(source, depth) for source in chosen])
        mean = stack.mean(0)
        if self.keep_norm:
            norm = torch.linalg.vector_norm(stack, dim=-1).mean(0)
            mean = mean * (norm / torch.linalg.vector_norm(mean, dim=-1).clamp_min(1e-30))[:, None]
        return mean
