"""What a sweep asks of an intervention.

An intervention is a rule that says, for the row of a caption at a depth, which row should stand there
instead. It is a small class with a name and one method, so that one fits in a notebook cell::

    class Halfway(Intervention):
        name = "halfway to English"
        sources = ("en",)

        def rows(self, rows, depth, context):
            return (rows + context.donor("en", depth)) / 2

The sweep calls ``rows`` with a batch of clean rows at each depth. What the rule may know beside them is in
the :class:`Context`: which captions these are, the trajectories of the languages that it named as
``sources``, and random numbers that do not depend on how captions were batched.
"""

import hashlib
import inspect
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from workbench.errors import InputError
from workbench.hooks import Rows, checked_rows
from workbench.runs import code_hash

Site: TypeAlias = str
"""Which row of a caption: see :func:`workbench.towers.tokens.check_site`."""


class Lent(Mapping[str, Tensor]):
    """Tensors of a sweep that a rule may look at: what is handed out is a copy, so that nothing it does reaches others.

    Parameters
    ----------
    tensors : mapping of str to Tensor
        By language; captions are the first dimension, depths the second.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = dict(tensors)

    def __getitem__(self, language: str) -> Tensor:
        return self._tensors[language].clone()

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def at(self, language: str, *places: Any) -> Tensor:
        """Return a copy of a part: such as ``at("en", captions, depth)``."""
        return self._tensors[language][places].clone()

    def origin(self, language: str) -> "weakref.ref[Tensor]":
        """Return a weak reference to the tensor itself, to tell whether another context lends the same."""
        return weakref.ref(self._tensors[language])


@dataclass
class Context:
    """What an intervention may know about the batch that it is called for.

    Attributes
    ----------
    language : str
        Language of the captions.
    captions : int Tensor of shape (batch,)
        Rows of the corpus that the batch holds.
    n_captions : int
        How many captions the corpus has.
    site : str
        Which row of each caption is replaced.
    trajectories : mapping of str to Tensor of shape (n_captions, depth, width)
        Rows of the source languages at this site, every depth from 0 to N. What it gives are copies (:class:`Lent`);
        ``trajectories.at("en", slice(None), depth)`` copies one depth alone.
    available : mapping of str to bool Tensor of shape (n_captions,)
        Where a source caption has such a row; a caption of one word may have no middle token.
    seed : int
        Seed of the run.
    clean : Tensor of shape (batch, width), optional
        The rows that are about to be replaced, set before each call. They stand in for the captions' own
        trajectory, so that a row patched with itself is itself to the last bit.
    owner : int Tensor of shape (n_captions,), optional
        Which image each caption of the corpus describes; one caption an image where it is not given.
    """

    language: str
    captions: Int[Tensor, " batch"]
    n_captions: int
    site: Site
    trajectories: Any
    available: Any
    seed: int
    clean: Rows | None = field(default=None, repr=False)
    _cache: dict = field(default_factory=dict, repr=False)
    owner: Int[Tensor, " n_captions"] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.trajectories = _lent(self.trajectories)
        self.available = _lent(self.available)

    @property
    def images(self) -> np.ndarray:
        """Which image each caption of the corpus describes, for splits by image."""
        return np.arange(self.n_captions) if self.owner is None else self.owner.cpu().numpy()

    def donor(self, language: str, depth: int, captions: Int[Tensor, " batch"] | None = None) -> Rows:
        """Return a copy of the rows of a source language at a depth, for the batch or for other captions."""
        if language not in self.trajectories:
            raise InputError(
                f"An intervention asked for rows of {language!r}, which is none of its sources "
                f"({', '.join(self.trajectories) or 'it names none'}). Add it to `sources`."
            )
        if language == self.language and captions is None and self.clean is not None:
            return self.clean.clone()
        return self.trajectories.at(language, self.captions if captions is None else captions, depth)

    def generator(self, *key: int | str) -> np.random.Generator:
        """Return a generator that depends on the run's seed and the key, not on the batch."""
        words = hashlib.sha256("\0".join(map(str, key)).encode()).digest()[:8]
        return np.random.default_rng([self.seed, int.from_bytes(words, "little")])

    def normal(self, width: int, *key: int | str) -> Rows:
        """Return standard normal rows for the batch; caption i gets the same row in any batch."""
        whole = self.cached(
            ("normal", width, *key),
            lambda: torch.from_numpy(self.generator(*key).standard_normal((self.n_captions, width), dtype=np.float32)),
        )
        return whole[self.captions]

    def derangement(self, *key: int | str) -> Int[Tensor, " batch"]:
        """Return for each caption of the batch another caption, each one once, never itself."""
        if self.n_captions < 2:
            raise InputError("A random other caption needs at least two captions.")
        whole = self.cached(
            ("derangement", *key),
            lambda: torch.from_numpy(derangement(self.n_captions, self.generator(*key))),
        )
        return whole[self.captions]

    def cached(self, key: tuple, make: Callable[[], Tensor]) -> Tensor:
        """Return a copy of ``make()``, computed once for this language and sweep; for what is costly and fixed."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key].clone()

    def at(self, captions: Int[Tensor, " batch"]) -> "Context":
        """Return the same context for another batch of captions."""
        return Context(
            self.language, captions.clone(), self.n_captions, self.site, self.trajectories, self.available, self.seed,
            None, self._cache, self.owner,
        )  # fmt: skip


def _lent(tensors: Mapping[str, Tensor]) -> Lent:
    return tensors if isinstance(tensors, Lent) else Lent(tensors)


class Intervention(ABC):
    """A rule that replaces one row of a caption.

    Attributes
    ----------
    name : str
        How tables, legends and run directories call it. One run can't hold two of the same name.
    site : str
        Which row is replaced: ``"pooled"``, ``"middle"`` (the token in the middle of the content), ``"random"`` or
        ``"token K"``.
    sources : tuple of str
        Languages whose trajectories the rule reads.
    mean_of : str
        Where several interventions of one sweep are draws of one, the name under which the mean of their scores
        stands in the table; empty for all others.
    """

    name: str
    site: Site = "pooled"
    sources: tuple[str, ...] = ()
    mean_of: str = ""

    @abstractmethod
    def rows(self, rows: Rows, depth: int, context: Context) -> Rows:
        """Return the new rows.

        Parameters
        ----------
        rows : Tensor of shape (batch, width)
            The clean rows of this batch at this depth, in float32 or the tower's dtype.
        depth : int
            How many blocks have run: 0 to N.
        context : Context

        Returns
        -------
        Tensor of shape (batch, width)
        """

    def new_rows(self, clean: Rows, depth: int, context: Context) -> Rows:
        """Call :meth:`rows` for clean rows and check what it returns."""
        # Copies, so that a rule may work in place: else the clean rows would change too, and nothing seem patched.
        own = context.at(context.captions)
        own.clean = clean
        return checked_rows(self.rows(clean.clone(), depth, own), clean, depth)

    def describe(self) -> dict[str, object]:
        """Everything that decides what the rule does, for the manifest and for telling two runs apart.

        Attributes whose name begins with an underscore are taken for caches and left out; the code of the class is in.
        """
        public = {key: value for key, value in vars(self).items() if not key.startswith("_")}
        return {
            "class": type(self).__qualname__,
            "name": self.name,
            "site": self.site,
            "sources": list(self.sources),
            "code": _code_of(type(self)),
            **{key: list(v) if isinstance(v, tuple) else v for key, v in public.items()},
        }

    @property
    def source(self) -> str:
        """The sources as one word for the results table: ``"en"``, ``"en+fr+de"``, or empty."""
        return "+".join(self.sources)


def _code_of(cls: type) -> str:
    """Hash what a class and its bases up to :class:`Intervention` do: a rule of the same name may say another thing."""
    own = cls.__mro__[: cls.__mro__.index(Intervention)]
    told = [
        f"{base.__qualname__}.{name} {code_hash(inspect.unwrap(value))}"
        for base in own
        for name, value in sorted(vars(base).items())
        if inspect.isfunction(value)
    ]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def derangement(n: int, generator: np.random.Generator) -> np.ndarray:
    """Draw a uniform random permutation of ``n`` items that moves every item.

    Permutations are drawn until one has no fixed point, which takes e tries on average and keeps the draw
    uniform; repairing a permutation would not.
    """
    items = np.arange(n)
    while True:
        permutation = generator.permutation(n)
        if not (permutation == items).any():
            return permutation


def check_interventions(interventions: list[Intervention], languages: tuple[str, ...]) -> list[Intervention]:
    """Refuse two interventions of one name, and a source that the corpus does not hold."""
    for intervention in interventions:
        if not isinstance(getattr(intervention, "name", None), str):
            raise InputError(
                f"The intervention {type(intervention).__name__} has no name. Give its class one: name = 'halfway'."
            )
    names = [intervention.name for intervention in interventions]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"Two interventions are called {name!r}. Give each its own name.")
    for intervention in interventions:
        for source in intervention.sources:
            if source not in languages:
                raise InputError(
                    f"The intervention {intervention.name!r} reads rows of {source!r}, which is not among the "
                    f"languages of the corpus: {', '.join(languages)}."
                )
    return interventions
