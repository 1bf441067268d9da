"""The sweep: every language, intervention and depth of one tower on one corpus, scored on one gallery.

The result is a tidy frame, one row a number, and the ranks that it was made from. A sweep can be given a
:class:`~workbench.runs.Run`, in which each finished language is kept; it then survives being killed.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from workbench.corpora.base import Corpus, Protocol
from workbench.engine import strategy, sweep_batch_size, sweep_pass
from workbench.errors import InputError
from workbench.gallery import check_gallery, embed_gallery, gallery_name
from workbench.hooks import present
from workbench.intervention import Context, Intervention, Site, check_interventions
from workbench.languages import say_tiers
from workbench.languages import tier_map as resolve_tier_map
from workbench.retrieval import first_places, rank, settle, top_images, unit
from workbench.runs import Run
from workbench.splits import check_seed
from workbench.sweep_frame import LanguageCell, SweepSettings, tidy_frame
from workbench.towers.base import Tower, describe_tower
from workbench.towers.tokens import Tokens
from workbench.trajectory import DEFAULT_BATCH, LanguageRows, batches, capture_language, check_depths

log = logging.getLogger(__name__)

TOP = 5


@dataclass(frozen=True)
class SweepResult:
    """What a sweep gives back.

    Attributes
    ----------
    frame : pandas.DataFrame
        One row a number (:func:`workbench.sweep_frame.tidy_frame` lists the columns).
    cells : dict of str to LanguageCell
        By language.
    settings : SweepSettings
        What was asked for.
    notes : dict
        What was found on the way, for the manifest: tokens a caption, truncated captions, images left out,
        rows touched.
    """

    frame: Any = field(repr=False)
    cells: dict[str, LanguageCell] = field(repr=False)
    settings: SweepSettings
    notes: dict[str, Any] = field(repr=False)


def sweep_config(tower: Tower, corpus: Corpus, settings: SweepSettings) -> dict[str, Any]:
    """Everything that decides the results of a sweep, for the manifest and the run's key."""
    return {
        "tower": describe_tower(tower),
        "corpus": corpus.describe(),
        **settings.describe(),
    }


def sweep(
    tower: Tower,
    corpus: Corpus,
    interventions: Sequence[Intervention],
    *,
    languages: Iterable[str] | None = None,
    depths: Iterable[int] | None = None,
    tier_map: str | Mapping[str, str] = "s3",
    protocol: Protocol = "first",
    pivot: str | None = None,
    seed: int = 0,
    resamples: int = 1000,
    batch_size: int | None = None,
    run: Run | None = None,
    progress: bool = True,
) -> SweepResult:
    """Patch every caption of every language at every depth and score it (S3-50, S3-51).

    Parameters
    ----------
    tower : Tower
    corpus : Corpus
        Its images are the gallery. It must hold the source languages too.
    interventions : sequence of Intervention
        Ours or your own.
    languages : iterable of str, optional
        Languages to patch; all of the corpus by default.
    depths : iterable of int, optional
        All of 0 to N by default.
    tier_map : str or mapping
        A published map, a JSON file, or ``{language: tier}``.
    protocol : {"first", "all"}
    pivot : str, optional
        Language whose captions are the gallery instead of the images (:mod:`workbench.gallery`); a text-only
        encoder needs one.
    seed : int
        Decides derangements, noise and bootstrap.
    resamples : int
        Of the bootstrap.
    batch_size : int, optional
        Captions a pass; chosen from the size of the tower by default. Results are equal to about 1e-6 for
        any size, and to the bit for the same size.
    run : Run, optional
        Where to keep finished languages.
    progress : bool
        Show a bar on stderr.

    Returns
    -------
    SweepResult
    """
    settings = make_settings(
        tower, corpus, interventions, languages, depths, tier_map, protocol, pivot, seed, resamples, batch_size
    )
    wanted, chosen = settings.languages, settings.interventions
    for intervention in chosen:
        _check_touches(tower, corpus, intervention, settings)
    steps = len(wanted) + len(_sources(chosen)) + 1
    with tqdm(total=steps, desc="gallery", disable=not progress) as bar:
        gallery: Tensor | None = None
        sources = _Sources(tower, corpus, settings)
        cells, notes = {}, {}
        for language in wanted:
            bar.set_description(f"sweep {language}")
            arrays = run.read_cell(language) if run else None
            if arrays is None:
                if gallery is None:
                    # Only now: a run that resumes with every language finished has no use for the images.
                    gallery = embed_gallery(tower, corpus, settings.gallery)
                    bar.update()
                arrays = _language_cell(tower, corpus, language, settings, sources.get(bar), gallery)
                if run:
                    run.write_cell(language, arrays)
            cells[language] = LanguageCell(arrays)
            bar.update()
        bar.update(steps - bar.n)
    for language, cell in cells.items():
        notes[language] = _notes(cell, settings)
    frame = tidy_frame(tower, corpus, cells, settings)
    found: dict[str, Any] = {"languages": notes}
    if tower.self_check:
        # Of a pooled row alone and in a padded batch: no difference below this is one.
        found["noise_floor"] = float(f"{tower.self_check.padding:.1e}")
    return SweepResult(frame, cells, settings, found)


def make_settings(
    tower: Tower,
    corpus: Corpus,
    interventions: Sequence[Intervention],
    languages: Iterable[str] | None = None,
    depths: Iterable[int] | None = None,
    tier_map: str | Mapping[str, str] = "s3",
    protocol: Protocol = "first",
    pivot: str | None = None,
    seed: int = 0,
    resamples: int = 1000,
    batch_size: int | None = None,
) -> SweepSettings:
    """Check everything that a sweep is asked for, before any work is done."""
    if not tower.n_blocks:
        raise InputError(
            f"{tower.name!r} has no blocks, so there is no depth to sweep. Scores, biases, erasure and averaging work "
            "on its embeddings; for a sweep give the model itself."
        )
    if tower.multi_vector:
        raise InputError(
            f"{tower.name!r} has a vector for each token, and a sweep scores one vector a caption. Capture "
            "it, or score it without a patch."
        )
    wanted = corpus.languages if languages is None else corpus.check_languages(languages)
    if not interventions:
        raise InputError("No intervention was chosen. `interventions` has ParallelEOS and its controls.")
    chosen = check_interventions(list(interventions), corpus.languages)
    sources = [source for source, _ in _sources(chosen)]
    corpus.check_parallel(list(dict.fromkeys([*wanted, *sources])), protocol)
    map_name, tiers = resolve_tier_map(tier_map)
    say_tiers(map_name, tiers, wanted)
    gallery = gallery_name(tower, corpus, pivot)
    check_gallery(gallery, wanted, chosen)
    if batch_size is not None and batch_size < 1:
        raise InputError(f"A batch size of {batch_size} came; it must be at least 1.")
    return SweepSettings(
        interventions=chosen,
        languages=wanted,
        depths=check_depths(depths, tower.n_blocks),
        n_blocks=tower.n_blocks,
        tier_map=map_name,
        tiers={language: tiers[language] for language in wanted if language in tiers},
        protocol=protocol,
        gallery=gallery,
        seed=check_seed(seed),
        resamples=resamples,
        batch_size=batch_size,
    )


def _check_touches(tower: Tower, corpus: Corpus, intervention: Intervention, settings: SweepSettings) -> None:
    """Refuse an intervention whose row no caption has: the frozen tower's curve would look like a finding."""
    if intervention.site == "pooled":
        return
    longest = 0
    for language in dict.fromkeys((*intervention.sources, *settings.languages)):
        tokens = tower.tokenize(corpus.texts(language, settings.protocol)[0], language)
        longest = max(longest, int(tokens.content.sum(-1).max()))
        has = bool(present(tokens.where(intervention.site)).any())
        if language in intervention.sources and not has:
            break
        if language in settings.languages and has:
            return
    raise InputError(
        f"{intervention.name!r} would patch nothing: no caption has the row {intervention.site!r}. The longest of "
        f"those looked at has {longest} content tokens, numbered from 0."
    )


def _sources(interventions: Sequence[Intervention]) -> list[tuple[str, Site]]:
    return list(dict.fromkeys((source, i.site) for i in interventions for source in i.sources))


class _Sources:
    """Trajectories of the source languages, captured when the first language needs them."""

    def __init__(self, tower: Tower, corpus: Corpus, settings: SweepSettings) -> None:
        self.tower, self.corpus, self.settings = tower, corpus, settings
        self._found: dict[tuple[str, Site], LanguageRows] | None = None

    def get(self, bar: tqdm) -> dict[tuple[str, Site], LanguageRows]:
        if self._found is None:
            self._found = {}
            depths = range(self.tower.n_blocks + 1)
            label = bar.desc
            for language, site in _sources(self.settings.interventions):
                bar.set_description(f"capture {language}")
                texts, _ = self.corpus.texts(language, self.settings.protocol)
                tokens = self.tower.tokenize(texts, language)
                size = self.settings.batch_size or DEFAULT_BATCH
                self._found[language, site] = capture_language(self.tower, tokens, depths, site, size)
                bar.update()
            bar.set_description(label)
        return self._found


def _language_cell(
    tower: Tower,
    corpus: Corpus,
    language: str,
    settings: SweepSettings,
    sources: Mapping[tuple[str, Site], LanguageRows],
    gallery: Float[Tensor, "image d"],
) -> dict[str, np.ndarray]:
    texts, owner = corpus.texts(language, settings.protocol)
    tokens = tower.tokenize(texts, language)
    clean, patched, change, moved, touched = _embed(tower, tokens, language, settings, sources)
    # Captions that the tower reads alike would not tie, since two batches differ in the last bits. Under a patch they
    # tie where they differ by no more than that: their sources may say other things.
    first = first_places(tokens.keys())
    clean = clean[first]
    for each in patched:
        each.copy_(settle(each, first))
    owners = torch.from_numpy(owner)
    frozen = unit(clean, f"{language} embeddings")
    arrays: dict[str, np.ndarray] = {
        "change": change,
        "moved": moved,
        "touched": touched,
        "tokens": np.array(int(tokens.content.sum())),
        "truncated": np.array(int(tokens.truncated.sum())),
        "characters": np.array(sum(map(len, texts))),
        "clean_top": top_images(frozen, gallery, TOP),
    }
    for direction, ranks in rank(frozen, gallery, owners).items():
        arrays |= {f"clean_{direction}_better": ranks.better, f"clean_{direction}_tied": ranks.tied}
    shape = patched.shape[:2]
    tops = np.empty((*shape, len(texts), arrays["clean_top"].shape[-1]), dtype=np.int32)
    for k in range(shape[0]):
        for d in range(shape[1]):
            embeddings = unit(patched[k, d], f"patched {language} embeddings")
            tops[k, d] = top_images(embeddings, gallery, TOP)
            for direction, ranks in rank(embeddings, gallery, owners).items():
                for name, counts in (("better", ranks.better), ("tied", ranks.tied)):
                    slot = f"patched_{direction}_{name}"
                    arrays.setdefault(slot, np.empty((*shape, len(counts)), dtype=np.int32))[k, d] = counts
    arrays["patched_top"] = tops
    return {name: _narrow(array) for name, array in arrays.items()}


def _narrow(array: np.ndarray) -> np.ndarray:
    """Store counts in the smallest unsigned type that holds them; a cell is mostly counts."""
    if array.dtype.kind != "i" or array.size == 0:
        return array
    return array.astype(np.min_scalar_type(int(array.max())))


def _embed(
    tower: Tower,
    tokens: Tokens,
    language: str,
    settings: SweepSettings,
    sources: Mapping[tuple[str, Site], LanguageRows],
) -> tuple[Tensor, Tensor, np.ndarray, np.ndarray, np.ndarray]:
    """Run all passes of one language: clean and patched embeddings, mean change, what moved, rows touched."""
    n, depths, chosen = len(tokens), settings.depths, settings.interventions
    clean: Tensor | None = None
    patched: Tensor | None = None
    change = torch.zeros(len(chosen), len(depths), n)
    unchanged = torch.zeros(len(chosen), len(depths), n, dtype=torch.bool)
    touched = torch.zeros(len(chosen), n, dtype=torch.bool)
    for kind in dict.fromkeys(strategy(tower, intervention) for intervention in chosen):
        group = [k for k, intervention in enumerate(chosen) if strategy(tower, intervention) == kind]
        contexts = [_context(chosen[k], language, n, settings.seed, sources) for k in group]
        longest = int(tokens.length.max())
        size = settings.batch_size or sweep_batch_size(tower, len(group) * len(depths), kind, longest)
        for part, batch in batches(tower, tokens, size):
            result = sweep_pass(
                tower, batch, [chosen[k] for k in group], [context.at(part) for context in contexts], depths
            )
            if clean is None or patched is None:
                clean = torch.empty(n, result.clean.shape[-1])
                patched = torch.empty(len(chosen), len(depths), n, result.clean.shape[-1])
            if group[0] == 0:
                clean[part] = result.clean
            for place, k in enumerate(group):
                patched[k, :, part] = result.patched[place]
                change[k, :, part] = result.change[place]
                unchanged[k, :, part] = result.unchanged[place]
                touched[k, part] = result.touched[place]
    if clean is None or patched is None:
        raise InputError(f"There is no caption in {language!r}.")
    # Two strategies give two clean embeddings that differ in the last bits; one of them is the reference.
    for k in range(len(chosen)):
        patched[k] = torch.where(unchanged[k][..., None], clean, patched[k])
    moved = (~unchanged).any(-1)
    return clean, patched, change.double().mean(-1).numpy(), moved.numpy(), touched.sum(-1).numpy()


def _context(
    intervention: Intervention,
    language: str,
    n: int,
    seed: int,
    sources: Mapping[tuple[str, Site], LanguageRows],
) -> Context:
    found = {source: sources[source, intervention.site] for source in intervention.sources}
    return Context(
        language=language,
        captions=torch.arange(n),
        n_captions=n,
        site=intervention.site,
        trajectories={source: rows.rows for source, rows in found.items()},
        available={source: rows.available for source, rows in found.items()},
        seed=seed,
    )


def _notes(cell: LanguageCell, settings: SweepSettings) -> dict[str, Any]:
    captions = cell.arrays["clean_t2i_better"].shape[-1]
    return {
        "captions": captions,
        "content_tokens_per_caption": round(float(cell.arrays["tokens"]) / captions, 3),
        "content_tokens_per_character": round(float(cell.arrays["tokens"]) / float(cell.arrays["characters"]), 3),
        "truncated_captions": int(cell.arrays["truncated"]),
        "rows_touched": {
            intervention.name: int(count)
            for intervention, count in zip(settings.interventions, cell.arrays["touched"], strict=True)
        },
    }
