"""What several runs over one node's data have spent together: event-level epsilons add where records overlap.

A record that k runs have learnt from entered k releases, so its epsilons (and deltas) add up; a record of
one run pays that run's alone. At stream level every run counts (Dwork, Roth 2014, theorem 3.16).
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Literal, NamedTuple

from nodes.decimals import rounded_up

TIME = "time"
"""Where records are told apart by their time; else by partition and offset."""


Word = Literal["end", "reused"]
"""What an operator says of records that unknown runs have read: none is read again, or some are."""


class Span(NamedTuple):
    """Records that a run may have learnt from: `first` to below `end`, in a partition or of the time."""

    where: str
    first: float = -math.inf
    end: float = math.inf


class Spend(NamedTuple):
    """What one run has spent on one node's data.

    `epsilon`, `delta` are of a record (None: nothing was protected), `stream_epsilon`, `stream_delta` of the
    whole stream; `charged` is the number of releases. No spans: it may have learnt from any record. `open`:
    it was not seen to end, so it may have charged more. `before`: of the charged, those of runs that nobody
    here knows of, and `word` what is read again of their records; `by_plans`: a journal of the run was begun
    with the charges that plans count. Both are what others say.
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
    word: Word | None = None
    by_plans: bool = False


class Total(NamedTuple):
    """What all runs have spent; epsilons are None where one of them protected nothing."""

    epsilon: Fraction | None
    delta: float
    stream_epsilon: Fraction | None
    stream_delta: float


def total(spends: Iterable[Spend]) -> Total:
    """Return what the runs have spent together, at both levels."""
    paid = [spend for spend in spends if spend.charged or spend.open]
    bare = any(spend.epsilon is None for spend in paid)
    whole = any(math.isinf(spend.stream_epsilon) for spend in paid)
    return Total(
        None if bare else _worst([(spend.spans, spend.epsilon or Fraction(0)) for spend in paid]),
        rounded_up(_worst([(spend.spans, Fraction(spend.delta)) for spend in paid])),
        None if whole else sum((Fraction(spend.stream_epsilon) for spend in paid), Fraction(0)),
        rounded_up(sum((Fraction(spend.stream_delta) for spend in paid), Fraction(0))),
    )


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
