"""What several runs over one node's data have spent together: event-level epsilons add where records overlap.

A record that k runs have learnt from entered k releases, so its epsilons (and deltas) add up; a record of
one run pays that run's alone. At stream level every run counts (Dwork, Roth 2014, theorem 3.16).
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from nodes.accounting.price import Price
from nodes.decimals import as_text, rounded_up, up_to_digits

TIME = "time"
"""Where records are told apart by their time; else by partition and offset."""


DataReuse = Literal["end", "reused"]
"""What an operator says of records that unknown runs have read: none is read again, or some are."""


class Span(NamedTuple):
    """Records that a run may have learnt from: `first` to below `end`, in a partition or of the time."""

    where: str
    first: float = -math.inf
    end: float = math.inf


class Spend(NamedTuple):
    """What one life of a journal has spent on one node's data in one run.

    `epsilon`, `delta` are of a record (None: nothing was protected), `stream_epsilon`, `stream_delta` of the
    whole stream; `charged` is the number of releases. No spans: it may have learnt from any record. `open`:
    it was not seen to end, so it may have charged more. `before`: of the charged, those of runs that nobody
    here knows of, and `reuse` what is read again of their records; `by_plans`: a journal of the run was begun
    with the charges that plans count. Both are what others say.

    `mesh`, `run`, `folder` and `life` say whose it is: `folder` is the id of the state folder, `life` the
    journal's instance, random both. Lives that are not the same add up; `charged` counts a life's own
    releases, not those of lives before it. A `life` of "" is that of a line from before they were told
    apart: one for each run. `settings` make the price (`Price`); none: nobody wrote them down.
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
        """What a release of it costs."""
        return Price(self.epsilon, self.delta, self.stream_delta, self.settings)

    @property
    def identity(self) -> tuple[str, str, str]:
        """What two lines of the same life share, in whatever folder they stand."""
        return ("" if self.life else self.folder, self.run, self.life)

    @property
    def key(self) -> str:
        """A name for the line where those of all folders stand together."""
        return f"{self.mesh}/{self.run}/{self.folder}/{self.life}"


class Total(NamedTuple):
    """What all lives have spent; epsilons are None where one of them protected nothing, or nobody knows.

    Of a life that was not seen to end, and whose journal is gone, nobody knows what the stream paid.
    """

    epsilon: Fraction | None
    delta: float
    stream_epsilon: Fraction | None
    stream_delta: float


def total(spends: Iterable[Spend]) -> Total:
    """Return what the runs have spent together, at both levels."""
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
    """Return what two lines of one life say together: the larger wins, and what is not known is unprotected.

    The spans are those of `newer` where it names their place, and begin where either does.
    """
    bare = known.epsilon is None or newer.epsilon is None
    spans = {span.where: span for span in known.spans}  # of which a new journal may be silent
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
    """Return what a life has added to a stream's epsilon, rounded up; infinite where nobody knows."""
    if not (math.isfinite(before) and math.isfinite(after)):
        return math.inf
    return max(0.0, rounded_up(Fraction(after) - Fraction(before)))


def together(before: float, more: float) -> float:
    """Return the sum of two epsilons, rounded up; infinite where nobody knows one."""
    if not (math.isfinite(before) and math.isfinite(more)):
        return math.inf
    return rounded_up(Fraction(before) + Fraction(more))


def _worst(paid: list[tuple[tuple[Span, ...], Fraction]]) -> Fraction:
    """Return the most that is paid for one record.

    Records told apart by time may be those told apart by offset, and those of a run without spans any.
    """
    places: dict[str, list[tuple[Span, Fraction]]] = {}
    for spans, cost in paid:
        for span in spans:
            places.setdefault(span.where, []).append((span, cost))
    anywhere = sum((cost for spans, cost in paid if not spans), Fraction(0))
    by_time = _most(places.pop(TIME, []))
    return anywhere + by_time + max((_most(found) for found in places.values()), default=Fraction(0))


def _most(spans: list[tuple[Span, Fraction]]) -> Fraction:
    """Return the largest sum over spans that share a record: one of them begins where it is reached."""
    return max(
        (
            sum((cost for span, cost in spans if span.first <= begun.first < span.end), Fraction(0))
            for begun, _ in spans
        ),
        default=Fraction(0),
    )


@dataclass(frozen=True, slots=True)
class Reuse:
    """Earlier lives and runs over one node's data, and what others say of the rest.

    Attributes
    ----------
    earlier : tuple of Spend
        What is known of other runs, and of earlier lives in this one.
    own : Spend
        This life's.
    by : str
        Who knows: the state folder, unless another is named.
    """

    earlier: tuple[Spend, ...]
    own: Spend
    by: str = "this folder"

    def sentence(self) -> str:
        """Return what is to be added to the guarantee; nothing where this is the first run."""
        known = self._known()
        said = [_of_runs(known, self.own, self.by)] if known else []
        said += [_of_reuse(spend, self.own) for spend in [*known, self.own] if spend.reuse is not None]
        if self.own.by_plans:
            said.append("What this run had charged before its journal begins is the scheduler's count.")
        return " ".join(said)

    @property
    def total(self) -> Total:
        """What all have spent together, at both levels; None also where more is added by somebody's word."""
        found = total([*self._known(), self.own])
        more = any(_adds(spend, self.own) for spend in [*self._known(), self.own])
        return found._replace(epsilon=None) if more else found

    def _known(self) -> list[Spend]:
        return [spend for spend in self.earlier if spend.charged or spend.open]


def reuse_of(spends: Collection[Spend], run: str, by: str = "this folder") -> Reuse | None:
    """Return what others than the newest life of `run` do to its guarantee; None where it has none here."""
    own = next((spend for spend in reversed([*spends]) if spend.run == run), None)
    return own and Reuse(tuple(spend for spend in spends if spend is not own), own, by)


def _adds(spend: Spend, own: Spend) -> bool:
    """Whether the records of runs that nobody here knows of may be read again."""
    return spend.reuse is not None and not spend.reuse == own.reuse == "end"


def _of_runs(known: list[Spend], own: Spend, by: str) -> str:
    names = [f"{spend.run} (an earlier life)" if spend.run == own.run else spend.run for spend in known]
    names = list(dict.fromkeys(names))
    runs = f"{'Run' if len(names) == 1 else 'Runs'} {', '.join(names)}"
    over_all = total([*known, own])
    idle = not (own.charged or own.open)
    if over_all.epsilon is None:
        return (
            f"{runs} may have read the same records, and one of them protects nothing that is known here: "
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
    before = f"By its operator's word {spend.before} rounds were charged {when}"
    if not _adds(spend, own):
        return f"{before}, and none of their records is read again."
    again = "are" if spend is own else "may be"
    return (
        f"{before}, and their records {again} read again: what those runs cost a record adds to its epsilon."
    )
