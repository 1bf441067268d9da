"""What a diagnosis may look at: plain arrays, read off a sweep and the tower's outputs.

The rule sees nothing else. So the calibration study, which makes the same arrays in a cheaper way, tries the
very rule that a user's tower is judged by.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from interventions import MidToken, NormMatchedNoise, ParallelEOS, RandomEOS
from workbench.corpora.base import Corpus
from workbench.gallery import embed_gallery
from workbench.retrieval import Direction, unit
from workbench.sweep_frame import DIRECTIONS, scores_by_image
from workbench.sweeps import SweepResult
from workbench.towers.base import Tower

CONTROLS = (RandomEOS, NormMatchedNoise, MidToken)


@dataclass(frozen=True)
class LanguageOutputs:
    """What one language gives without a patch, a row an image.

    Attributes
    ----------
    embeddings : array of shape (n, embedding)
        Of the first caption of each image; unit rows, float32.
    input_ids, content : arrays of shape (n, position)
        Its tokens, and which of them are text.
    """

    embeddings: Float[np.ndarray, "n embedding"]
    input_ids: Int[np.ndarray, "n position"]
    content: Bool[np.ndarray, "n position"]


@dataclass(frozen=True)
class Measurements:
    """Everything that the rule looks at. Scores are R@1 in percent, one an image.

    Attributes
    ----------
    tower, corpus : str
    n_blocks : int
    depths : list of int
        Swept, in order.
    tiers : mapping of str to str
        Tier of each language that is judged.
    source, patch : str
        Language that donor rows came from, and the name of the patch.
    frozen : mapping of (language, direction) to array of shape (n,)
    patched : mapping of (language, direction, intervention) to array of shape (depth, n)
        The patch and its controls; not needed for languages without a gap.
    controls : tuple of str
        Names of the controls.
    outputs : mapping of str to LanguageOutputs
        Empty where there is no embedding to look at; erasure and input are then not judged.
    gallery : array of shape (n, embedding)
        Unit rows.
    resamples, seed : int
    """

    tower: str
    corpus: str
    n_blocks: int
    depths: list[int]
    tiers: Mapping[str, str]
    source: str
    patch: str
    frozen: Mapping[tuple[str, Direction], Float[np.ndarray, " n"]]
    patched: Mapping[tuple[str, Direction, str], Float[np.ndarray, "depth n"]]
    controls: tuple[str, ...]
    outputs: Mapping[str, LanguageOutputs]
    gallery: Float[np.ndarray, "n embedding"]
    resamples: int = 1000
    seed: int = 0

    @property
    def n(self) -> int:
        """Number of images."""
        return len(next(iter(self.frozen.values())))

    def members(self, tier: str) -> list[str]:
        """Languages of a tier."""
        return [language for language, own in self.tiers.items() if own == tier]


def language_outputs(tower: Tower, corpus: Corpus, language: str) -> LanguageOutputs:
    """Embed the first captions of a language and keep their tokens."""
    texts, _ = corpus.texts(language, "first")
    tokens = tower.tokenize(texts, language)
    return LanguageOutputs(
        unit(tower.embed_captions(corpus, language), f"{language} embeddings").numpy(),
        tokens.input_ids.cpu().numpy(),
        tokens.content.cpu().numpy(),
    )


@torch.no_grad()
def measurements_of(result: SweepResult, corpus: Corpus, tower: Tower | None = None) -> Measurements:
    """Read the measurements off a sweep.

    Parameters
    ----------
    result : SweepResult
        With a parallel patch, and its controls.
    corpus : Corpus
        The corpus of the sweep.
    tower : Tower, optional
        The tower of the sweep. Without it, erasure and input are not judged.
    """
    settings = result.settings
    patch = next(i for i in settings.interventions if isinstance(i, ParallelEOS))
    controls = tuple(i.name for i in settings.interventions if isinstance(i, CONTROLS))
    names = [i.name for i in settings.interventions]
    frozen, patched = {}, {}
    for language, cell in result.cells.items():
        _, owner = corpus.texts(language, settings.protocol)
        for direction in DIRECTIONS:
            own = np.arange(len(corpus)) if direction == "i2t" else owner
            frozen[language, direction] = scores_by_image(cell.clean(direction), "R@1", own, len(corpus))
            scores = scores_by_image(cell.patched(direction), "R@1", own, len(corpus))
            for name in (patch.name, *controls):
                patched[language, direction, name] = scores[names.index(name)]
    tiers = {language: settings.tiers[language] for language in result.cells if language in settings.tiers}
    outputs = {} if tower is None else {language: language_outputs(tower, corpus, language) for language in tiers}
    gallery = np.zeros((len(corpus), 0)) if tower is None else embed_gallery(tower, corpus, settings.gallery).numpy()
    return Measurements(
        tower=str(result.frame["tower"].iloc[0]),
        corpus=corpus.name,
        n_blocks=settings.n_blocks,
        depths=list(settings.depths),
        tiers=tiers,
        source=patch.sources[0],
        patch=patch.name,
        frozen=frozen,
        patched=patched,
        controls=controls,
        outputs=outputs,
        gallery=gallery,
        resamples=settings.resamples,
        seed=settings.seed,
    )
