"""Reading a sweep's tidy frame.

Analyses ask a frame the same few things: which languages, tiers, interventions and depths it holds, and what
one number of it is. :class:`SweepView` checks the frame once and then answers. Nothing is assumed about
names: languages, tiers, interventions and their sources are those of the frame, in its order.
"""

import math
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import pandas as pd

from analyses.published_match import Mark, MarkKey, sweep_marks
from analyses.theme import language_name
from workbench.errors import InputError, suggest
from workbench.sweep_frame import COLUMNS

FROZEN = "none"
MEAN = "mean"
DIRECTIONS = {"i2t": "image to text (i2t)", "t2i": "text to image (t2i)"}

# A frame is one sweep: in these columns it has one value.
_FIXED = ("tower", "corpus", "tier_map", "protocol", "seed")


class Number(NamedTuple):
    """A value, the ends of its 95 % interval, and the number of images behind it."""

    value: float
    low: float
    high: float
    n: int


class Group(NamedTuple):
    """A language, or the mean over a tier."""

    language: str
    tier: str

    @property
    def is_mean(self) -> bool:
        """Whether this is a tier's mean."""
        return self.language == MEAN

    @property
    def name(self) -> str:
        """For a reader: ``"Swahili (sw)"`` or ``"mean of LRL"``."""
        return f"mean of {self.tier or 'all'}" if self.is_mean else language_name(self.language)


class SweepView:
    """A checked frame that can be asked for numbers.

    Parameters
    ----------
    frame : pandas.DataFrame
        As a sweep gives it, or rows of it.

    Attributes
    ----------
    frame : pandas.DataFrame
    groups : list of Group
        Languages and tier means, in the order of the frame.
    sources : dict of str to str
        Interventions, in the order of the frame, to the languages that they read, joined by ``+``.
    depths : list of int
        Depths that were patched.
    directions, metrics : list of str
        Directions and plain metrics (without ``lift`` and ``rescue``).

    Raises
    ------
    InputError
        If the frame is empty, lacks columns or the frozen tower, or mixes several sweeps.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        _check(frame)
        self._numbers: dict[tuple, Number] = {}
        groups: dict[tuple, Group] = {}
        sources: dict[str, str] = {}
        columns = (
            "language",
            "tier",
            "intervention",
            "source",
            "depth",
            "direction",
            "metric",
            "value",
            "low",
            "high",
            "n",
        )
        for row in zip(*(frame[name].tolist() for name in columns), strict=True):
            language, tier, intervention, source, depth, direction, metric, value, low, high, n = row
            group = groups.get((language, tier))
            if group is None:
                group = groups[language, tier] = Group(str(language), _text(tier))
            if intervention != FROZEN and intervention not in sources:
                sources[intervention] = _text(source)
            key = (group, intervention, None if _is_missing(depth) else int(depth), direction, metric)
            if key in self._numbers:
                raise InputError(
                    f"The frame has two rows of {group.name}, {intervention!r}, depth {key[2]}, {direction}, {metric}. "
                    "Give the frame of one sweep, each row once."
                )
            self._numbers[key] = Number(float(value), float(low), float(high), int(n))
        self.groups, self.sources = list(groups.values()), sources
        self.metrics = [str(metric) for metric in frame["metric"].unique() if " " not in metric]
        self.directions = [name for name in DIRECTIONS if name in set(frame["direction"])]
        self.depths = sorted({int(depth) for depth in frame["depth"].dropna()})
        self.tower, self.corpus = str(frame["tower"].iloc[0]), str(frame["corpus"].iloc[0])
        self.tier_map, self.protocol = str(frame["tier_map"].iloc[0]), str(frame["protocol"].iloc[0])
        self._counts = sorted({number.n for number in self._numbers.values()})
        self.frame = frame
        self._check_frozen()

    def _check_frozen(self) -> None:
        if all(key[1] != FROZEN for key in self._numbers):
            raise InputError(
                "The frame has no row of the frozen tower (intervention 'none'), and nothing can be compared "
                "without it. Keep these rows when you filter a sweep's frame."
            )

    # -- what is there ---------------------------------------------------------------------------

    @property
    def interventions(self) -> list[str]:
        """Names of the interventions; at least one."""
        if not self.sources or not self.depths:
            raise InputError(
                "The frame has the frozen tower alone. Run a sweep with an intervention, such as ParallelEOS."
            )
        return list(self.sources)

    @property
    def deepest(self) -> int:
        """The deepest depth that was patched."""
        return self.depths[-1] if self.interventions else 0

    @property
    def tiers(self) -> list[str]:
        """Named tiers, in the order of the frame."""
        return list(dict.fromkeys(group.tier for group in self.groups if group.tier))

    @property
    def images(self) -> str:
        """``"n = 300 images"``."""
        few, many = self._counts[0], self._counts[-1]
        return f"n = {many:,} images" if few == many else f"n = {few:,} to {many:,} images"

    @property
    def subject(self) -> str:
        """Which tower, on which corpus."""
        return f"{self.tower} on {self.corpus}"

    def check(self, direction: str, metric: str) -> None:
        """Refuse a direction or a metric that the frame does not hold."""
        _known("direction", direction, self.directions)
        _known("metric", metric, self.metrics)

    def group(self, language: str, tier: str | None = None) -> Group:
        """Find a language, or with ``"mean"`` the mean over a tier."""
        found = [g for g in self.groups if g.language == language and tier in (None, g.tier)]
        if len(found) == 1:
            return found[0]
        if language != MEAN:
            _known("language", language, [g.language for g in self.groups if not g.is_mean])
        tiers = ", ".join(repr(g.tier) for g in self.groups if g.is_mean) or "none"
        raise InputError(f"The mean of the tier {tier!r} was asked for; the frame has means of these tiers: {tiers}.")

    # -- numbers ---------------------------------------------------------------------------------

    def frozen(self, group: Group, direction: str, metric: str) -> Number | None:
        """Return a score without a patch, or None if the frame lacks it."""
        return self._numbers.get((group, FROZEN, None, direction, metric))

    def patched(self, group: Group, intervention: str, depth: int, direction: str, metric: str) -> Number | None:
        """Return a score, a ``lift`` or a ``rescue``, or None if the frame lacks it."""
        return self._numbers.get((group, intervention, depth, direction, metric))

    @cached_property
    def published(self) -> dict[MarkKey, Mark]:
        """What papers print of this tower and benchmark; empty for most."""
        return sweep_marks(self.frame)

    def mark(self, group: Group, intervention: str, depth: int | None, direction: str, metric: str) -> Mark | None:
        """Return the published value of a number, or None."""
        return self.published.get((group.language, group.tier, intervention, depth, direction, metric))

    def source_groups(self) -> list[Group]:
        """Languages that an intervention takes its rows from, alone, and that the frame scored too."""
        alone = dict.fromkeys(source for source in self.sources.values() if source and "+" not in source)
        return [group for source in alone for group in self.groups if group.language == source]

    def by_tier(self, direction: str, metric: str) -> list[tuple[str, Group | None, list[Group]]]:
        """Return (tier, its mean, its languages), best tier first and best language first."""

        def score(group: Group) -> float:
            number = self.frozen(group, direction, metric)
            return -math.inf if number is None or math.isnan(number.value) else number.value

        found = []
        for tier in dict.fromkeys(group.tier for group in self.groups):
            own = [group for group in self.groups if group.tier == tier]
            members = sorted((g for g in own if not g.is_mean), key=score, reverse=True)
            mean = next((g for g in own if g.is_mean), None)
            level = score(mean) if mean else sum(map(score, members)) / max(len(members), 1)
            found.append((tier == "", -level, tier, mean, members))
        return [(tier, mean, members) for _, _, tier, mean, members in sorted(found, key=lambda row: row[:3])]

    def top(self, metric: str) -> float:
        """Return where a score axis ends: at the next ten above all intervals, 100 at most."""
        plain = [k for k in self._numbers if k[-1] == metric]
        highest = max((max(self._numbers[k].value, _finite(self._numbers[k].high)) for k in plain), default=100.0)
        return min(100.0, 10.0 * math.ceil((highest + 1.0) / 10.0)) + 2.0


def interval(number: Number | None) -> str:
    """Return ``"73.4 [70.1, 76.5]"``, or a dash."""
    if number is None or math.isnan(number.value):
        return "–"
    ends = "" if math.isnan(number.low) else f" [{number.low:.1f}, {number.high:.1f}]"
    return f"{number.value:.1f}{ends}"


def finite(values: Iterable[float | None]) -> list[float | None]:
    """Return numbers for a figure or a table, with None where there is none."""
    return [None if value is None or not math.isfinite(value) else float(value) for value in values]


def _is_missing(value: object) -> bool:
    return value is None or value is pd.NA or value != value


def _text(value: object) -> str:
    return "" if _is_missing(value) else str(value)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else -math.inf


def _known(what: str, given: str, known: list[str]) -> None:
    if given not in known:
        raise InputError(
            f"The frame has no {what} {given!r}.{suggest(given, known)} It has: {', '.join(known) or 'none'}."
        )


def _check(frame: pd.DataFrame) -> None:
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"A pandas frame is needed, and a {type(frame).__name__} came. Pass the `frame` of a sweep.")
    lacking = [name for name in COLUMNS if name not in frame.columns]
    if lacking:
        raise InputError(
            f"The frame lacks the columns {', '.join(lacking)}. Pass the `frame` of a sweep, or its results.parquet."
        )
    if frame.empty:
        raise InputError("The frame has no rows. Pass the `frame` of a finished sweep.")
    for name in _FIXED:
        values = list(dict.fromkeys(map(str, frame[name])))
        if len(values) > 1:
            raise InputError(
                f"The frame mixes several sweeps: {name} is {', '.join(values[:5])}. Filter it to one, such "
                f"as frame[frame[{name!r}] == {values[0]!r}]."
            )
