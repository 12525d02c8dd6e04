"""Adds up what several runs over one node's data have spent: event-level epsilons add where records overlap.

A record that k runs have learnt from entered k releases, so its epsilons (and deltas) add up; a record of
one run costs only that run's. At stream level every run counts (Dwork, Roth 2014, theorem 3.16).
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from nodes.accounting.price import Price
from nodes.decimals import as_text, rounded_up, up_to_digits

TIME = "time"
"""The `where` of records identified by their time; others by partition and offset."""


DataReuse = Literal["end", "reused"]
"""The operator's statement on records that unknown runs have read: none is read again, or some are."""


class Span(NamedTuple):
    """Records that a run may have learnt from: from `first` to below `end`, in a partition or by time."""

    where: str
    first: float = -math.inf
    end: float = math.inf


class Spend(NamedTuple):
    """The spending of one journal life on one node's data in one run.

    `epsilon`, `delta`: those of a record (None: nothing was protected). `stream_epsilon`, `stream_delta`:
    those of the whole stream. `charged`: the number of releases. No spans: it may have learnt from any
    record. `open`: its end was not recorded, so it may have charged more. `before`: the charges among
    `charged` of unknown runs, as the operator states, and `reuse` whether their records are read again.
    `by_plans`: a journal of the run began with the charges that plans count. The last three are not checked.

    `mesh`, `run`, `folder` and `life` identify it: `folder` is the random id of the state folder, `life` the
    journal's random instance. Different lives add up; `charged` counts only a life's own releases. Lines
    from before lives had ids have `life` "", one per run. `settings` make the price (`Price`), if recorded.
    """

    run: str
    charged: int
    epsilon: Fraction | None
    delta: float
    stream_epsilon: float
    stream_delta: float
    spans: tuple[Span, ...] = ()
    open: bool = False
    before: int = 0
    reuse: DataReuse | None = None
    by_plans: bool = False
    mesh: str = ""
    folder: str = ""
    life: str = ""
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def price(self) -> Price:
        """The price of its releases."""
        return Price(self.epsilon, self.delta, self.stream_delta, self.settings)

    @property
    def identity(self) -> tuple[str, str, str]:
        """The identity that lines of one life share, in all folders."""
        return ("" if self.life else self.folder, self.run, self.life)

    @property
    def key(self) -> str:
        """The key of its line among those of all folders."""
        return f"{self.mesh}/{self.run}/{self.folder}/{self.life}"


class Total(NamedTuple):
    """The spending of all lives; an epsilon is None if one of them protected nothing, or it is not known.

    The stream's cost is not known for a life whose end was not recorded, and whose journal is gone.
    """

    epsilon: Fraction | None
    delta: float
    stream_epsilon: Fraction | None
    stream_delta: float


def total(spends: Iterable[Spend]) -> Total:
    """Return the total spending of the runs, at both levels."""
    paid = [spend for spend in spends if spend.charged or spend.open]
    bare = any(spend.epsilon is None for spend in paid)
    whole = any(spend.open or math.isinf(spend.stream_epsilon) for spend in paid)
    return Total(
        None if bare else _worst([(spend.spans, spend.epsilon or Fraction(0)) for spend in paid]),
        rounded_up(_worst([(spend.spans, Fraction(spend.delta)) for spend in paid])),
        None if whole else sum((Fraction(spend.stream_epsilon) for spend in paid), Fraction(0)),
        rounded_up(sum((Fraction(spend.stream_delta) for spend in paid), Fraction(0))),
    )


def merged(known: Spend, newer: Spend) -> Spend:
    """Merge two lines of one life: the larger value counts, and unknown means unprotected.

    The spans are those of `newer` where it names their place, and begin where either does.
    """
    bare = known.epsilon is None or newer.epsilon is None
    spans = {span.where: span for span in known.spans}  # a new journal may not have them
    spans |= {
        where: Span(where, min(begun, spans[where].first) if where in spans else begun, end)
        for where, begun, end in newer.spans
    }
    return newer._replace(
        charged=max(known.charged, newer.charged),
        epsilon=None if bare else max(known.epsilon or Fraction(0), newer.epsilon or Fraction(0)),
        delta=max(known.delta, newer.delta),
        stream_epsilon=max(known.stream_epsilon, newer.stream_epsilon),
        stream_delta=max(known.stream_delta, newer.stream_delta),
        spans=tuple(spans.values()),
        before=max(known.before, newer.before),
        reuse="reused" if "reused" in (known.reuse, newer.reuse) else newer.reuse or known.reuse,
        by_plans=known.by_plans or newer.by_plans,
        mesh=known.mesh or newer.mesh,
        folder=known.folder or newer.folder,
        settings=newer.settings or known.settings,
    )


def added(before: float, after: float) -> float:
    """Return the difference of a stream's epsilons, rounded up; infinite if one is unknown."""
    if not (math.isfinite(before) and math.isfinite(after)):
        return math.inf
    return max(0.0, rounded_up(Fraction(after) - Fraction(before)))


def together(before: float, more: float) -> float:
    """Return the sum of two epsilons, rounded up; infinite if one is unknown."""
    if not (math.isfinite(before) and math.isfinite(more)):
        return math.inf
    return rounded_up(Fraction(before) + Fraction(more))


def _worst(paid: list[tuple[tuple[Span, ...], Fraction]]) -> Fraction:
    """Return the largest cost of one record.

    Records identified by time may be the same as those by offset; those of a run without spans may be any.
    """
    places: dict[str, list[tuple[Span, Fraction]]] = {}
    for spans, cost in paid:
        for span in spans:
            places.setdefault(span.where, []).append((span, cost))
    anywhere = sum((cost for spans, cost in paid if not spans), Fraction(0))
    by_time = _most(places.pop(TIME, []))
    return anywhere + by_time + max((_most(found) for found in places.values()), default=Fraction(0))


def _most(spans: list[tuple[Span, Fraction]]) -> Fraction:
    """Return the largest sum over spans that share a record: it is reached where one of them begins."""
    return max(
        (
            sum((cost for span, cost in spans if span.first <= begun.first < span.end), Fraction(0))
            for begun, _ in spans
        ),
        default=Fraction(0),
    )


@dataclass(frozen=True, slots=True)
class Reuse:
    """Earlier lives and runs over one node's data.

    Attributes
    ----------
    earlier : tuple of Spend
        The known spends of other runs, and of earlier lives in this one.
    own : Spend
        This life's spend.
    by : str
        The source of this knowledge: by default the state folder.
    """

    earlier: tuple[Spend, ...]
    own: Spend
    by: str = "this folder"

    def sentence(self) -> str:
        """Return the addition to the guarantee; empty if this is the first run."""
        known = self._known()
        said = [_of_runs(known, self.own, self.by)] if known else []
        said += [_of_reuse(spend, self.own) for spend in [*known, self.own] if spend.reuse is not None]
        if self.own.by_plans:
            said.append("The scheduler counted what this run had charged before its journal begins.")
        return " ".join(said)

    @property
    def total(self) -> Total:
        """The total of all, at both levels; None also if unknown runs may add more, as operators state."""
        found = total([*self._known(), self.own])
        more = any(_adds(spend, self.own) for spend in [*self._known(), self.own])
        return found._replace(epsilon=None) if more else found

    def _known(self) -> list[Spend]:
        return [spend for spend in self.earlier if spend.charged or spend.open]


def reuse_of(spends: Collection[Spend], run: str, by: str = "this folder") -> Reuse | None:
    """Return the reuse seen by the newest life of `run`; None if it has no life here."""
    own = next((spend for spend in reversed([*spends]) if spend.run == run), None)
    return own and Reuse(tuple(spend for spend in spends if spend is not own), own, by)


def _adds(spend: Spend, own: Spend) -> bool:
    """Return whether records of unknown runs may be read again."""
    return spend.reuse is not None and not spend.reuse == own.reuse == "end"


def _of_runs(known: list[Spend], own: Spend, by: str) -> str:
    names = [f"{spend.run} (an earlier life)" if spend.run == own.run else spend.run for spend in known]
    names = list(dict.fromkeys(names))
    runs = f"{'Run' if len(names) == 1 else 'Runs'} {', '.join(names)}"
    over_all = total([*known, own])
    idle = not (own.charged or own.open)
    if over_all.epsilon is None:
        return (
            f"{runs} may have read the same records, and one of them is not known to protect anything: "
            f"over all runs nothing is known to be protected."
        )
    delta = f"delta = {up_to_digits(over_all.delta)!r}" if over_all.delta else "pure"
    epsilon = as_text(over_all.epsilon)
    promise = f"over all runs each record is protected with epsilon = {epsilon} ({delta}), by {by}"
    if idle:
        return f"{runs} learnt from the data, and this life from nothing: {promise}."
    if over_all.epsilon == max(spend.epsilon or 0 for spend in [*known, own]):
        return f"{runs} learnt from other records: {promise}."
    return f"{runs} learnt from some of the same records: {promise}."


def _of_reuse(spend: Spend, own: Spend) -> str:
    when = "in earlier runs" if spend is own else f"before run {spend.run}"
    before = f"As its operator states, {spend.before} rounds were charged {when}"
    if not _adds(spend, own):
        return f"{before}, and none of their records is read again."
    again = "are" if spend is own else "may be"
    return (
        f"{before}, and their records {again} read again: what those runs cost a record adds to its epsilon."
    )
