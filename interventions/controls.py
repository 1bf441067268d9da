"""What a patch must be compared with before it means anything (S3 section 5, S3-53 to S3-55).

A patch changes three things at once: which content the row carries, that it comes from a good language, and
that it is a different vector at all. Each control keeps some of that and drops the rest:

- :class:`RandomEOS` keeps the language and drops the content: another caption's row.
- :class:`NormMatchedNoise` keeps only the size of the row.
- :class:`MidToken` keeps content and language but edits a token that is not pooled.
"""

from typing import Literal

import torch
from torch import Tensor

from workbench.errors import InputError
from workbench.hooks import Rows
from workbench.intervention import Context, Intervention
from workbench.towers.tokens import check_site


class RandomEOS(Intervention):
    """Replace the pooled row by that of another caption of the source language (S3-54).

    The other caption comes from a seeded derangement: each caption is used once, never for itself. The same
    one is used at every depth.

    Parameters
    ----------
    source : str
        Language that the rows come from.
    draw : int
        Which of several derangements (AMB-11).
    draws : int
        How many a sweep holds, :func:`random_draws`; it then has rows for the mean of their scores too.
    """

    def __init__(self, source: str = "en", draw: int = 0, draws: int = 1) -> None:
        if not 0 <= draw < 1_000_000 or not 1 <= draws <= 1000:
            raise InputError(f"draw={draw} of {draws} came; use up to 1,000 draws, counted from 0.")
        self.sources = (source,)
        self.draw = draw
        if draws > 1:
            self.mean_of = f"random {source}, mean of {draws}"
        self.name = f"random {source}" + (f" #{draw}" if draw else "")

    def rows(self, rows: Rows, depth: int, context: Context) -> Rows:
        """Return rows of other captions at this depth."""
        return context.donor(self.sources[0], depth, context.derangement("random eos", self.draw))


def random_draws(source: str = "en", draws: int = 5) -> list[RandomEOS]:
    """Return several derangements, for the mean of their scores with its spread (the paper's five, S3-54).

    Parameters
    ----------
    source : str
    draws : int
        Two or more.
    """
    if not 2 <= draws <= 1000:
        raise InputError(f"draws={draws} came; a mean over random draws needs 2 to 1,000 of them.")
    return [RandomEOS(source, draw, draws) for draw in range(draws)]


class NormMatchedNoise(Intervention):
    """Replace the pooled row by Gaussian noise of the replaced row's norm (S3-55).

    Parameters
    ----------
    covariance : {"isotropic", "matched"}
        Noise without direction, or noise with the covariance of the source's rows at the same depth, which
        looks more like a row that the tower could have made. Where these rows are all the same, as at depth 0
        of a tower that pools a padding position, there is no covariance and the noise is isotropic.
    norm : {"replaced", "source"}
        Whose norm the noise gets: that of the row it replaces, or that of the source's parallel row
        (AMB-10).
    source : str
        Language whose covariance or norm is taken; not read when neither is asked for.
    """

    def __init__(
        self,
        covariance: Literal["isotropic", "matched"] = "isotropic",
        norm: Literal["replaced", "source"] = "replaced",
        source: str = "en",
    ) -> None:
        if covariance not in ("isotropic", "matched"):
            raise InputError(f"covariance={covariance!r} came; it is 'isotropic' or 'matched'.")
        if norm not in ("replaced", "source"):
            raise InputError(f"norm={norm!r} came; it is 'replaced' or 'source'.")
        self.covariance = covariance
        self.norm = norm
        self.sources = (source,) if "matched" in covariance or norm == "source" else ()
        self.name = "noise" if covariance == "isotropic" else "noise, matched covariance"

    def rows(self, rows: Rows, depth: int, context: Context) -> Rows:
        """Return noise of the right norm."""
        noise = context.normal(rows.shape[-1], "noise", context.language, depth).to(rows.device)
        if self.covariance == "matched":
            noise = noise @ self._root(depth, context).to(noise)
        like = rows if self.norm == "replaced" else context.donor(self.sources[0], depth)
        size = torch.linalg.vector_norm(like.float(), dim=-1, keepdim=True).to(noise.device)
        return noise * (size / torch.linalg.vector_norm(noise, dim=-1, keepdim=True))

    def _root(self, depth: int, context: Context) -> Tensor:
        """Return a square root of the covariance of the source's rows; float64, since it is a statistic."""

        def make() -> Tensor:
            rows = context.trajectories.at(self.sources[0], slice(None), depth).double()
            centred = rows - rows.mean(0)
            covariance = centred.T @ centred / max(len(rows) - 1, 1)
            if covariance.trace() <= 1e-12 * rows.square().sum(-1).mean():
                return torch.eye(rows.shape[-1], dtype=torch.float64)
            values, vectors = torch.linalg.eigh(covariance)
            return (vectors * values.clamp_min(0).sqrt()) @ vectors.T

        return context.cached(("covariance root", self.sources[0], depth), make)


class ContentToken(Intervention):
    """Replace one content token by that of the source, and leave the pooled row as it is (S3-53).

    A caption that has no such token, or whose source has none, is left as it is; the results count how many rows
    were touched.

    Parameters
    ----------
    source : str
        Language that the rows come from.
    place : {"middle", "random"} or int
        The middle of each caption, a token drawn once for each, or a number counted from 0; negative ones count
        from the last.

    Raises
    ------
    InputError
        If there is no such place.
    """

    def __init__(self, source: str = "en", place: str | int = "random") -> None:
        self.site = f"token {place}" if isinstance(place, int) else place
        kind, _ = check_site(self.site)
        if kind == "pooled":
            raise InputError("place='pooled' came; a content token is 'middle', 'random' or a number.")
        short = {"middle": "mid-token", "random": "random-token"}.get(kind, self.site)
        self.name = f"{short} {source}"
        self.sources = (source,)

    def rows(self, rows: Rows, depth: int, context: Context) -> Rows:
        """Return the source's rows where it has one, and the clean row elsewhere."""
        donor = context.donor(self.sources[0], depth).to(rows)
        has = context.available.at(self.sources[0], context.captions).to(rows.device)
        return torch.where(has[:, None], donor, rows)


class MidToken(ContentToken):
    """Replace the middle content token by the source's (S3-53, AMB-12).

    The middle is halfway between the first and the last content token of each caption.

    Parameters
    ----------
    source : str
        Language that the rows come from.
    """

    def __init__(self, source: str = "en") -> None:
        super().__init__(source, "middle")
