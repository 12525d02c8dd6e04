"""The known runs over one reader's data: their total spending, and the sentence about it.

Only `streams.ledger`, which knows all of them, may make these values; import-linter checks that.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from nodes.accounting.spends import TIME, Span, Spend
from nodes.checks import as_text, rounded_up, up_to_digits


class Total(NamedTuple):
    """The spending of all lives; an epsilon is None if it is not known, or if a life protected nothing.

    The stream's cost is not known for a life whose end was not recorded, and whose journal is gone.
    """

    epsilon: Fraction | None
    delta: float
    stream_epsilon: Fraction | None
    stream_delta: float


def total(spends: Iterable[Spend], unit: str = "") -> Total:
    """Return the total spending of the runs, at both levels.

    `unit`: what is protected; empty: a record. A unit has records anywhere, so all lives add up for it,
    whatever they read. Lives that protected records, or other units, are not known to protect it.
    """
    paid = [spend for spend in spends if spend.charged or spend.open]
    if unit:
        paid = [
            spend._replace(spans=(), epsilon=spend.epsilon if spend.unit == unit else None) for spend in paid
        ]
    bare = any(spend.epsilon is None for spend in paid)
    is_unbounded = any(spend.open or math.isinf(spend.stream_epsilon) for spend in paid)
    return Total(
        None if bare else _worst(paid, lambda spend: spend.epsilon or Fraction(0)),
        rounded_up(_worst(paid, lambda spend: Fraction(spend.delta))),
        None if is_unbounded else sum((Fraction(spend.stream_epsilon) for spend in paid), Fraction(0)),
        rounded_up(sum((Fraction(spend.stream_delta) for spend in paid), Fraction(0))),
    )


_Cost = Callable[[Spend], Fraction]


def _worst(paid: list[Spend], cost: _Cost) -> Fraction:
    """Return the largest cost that one record may have in all runs.

    Records identified by time may be the same as records identified by offset. A run without spans may have
    learnt from any record.
    """
    places: dict[str, list[tuple[Span, Fraction]]] = {}
    for spend in paid:
        for span in spend.spans:
            places.setdefault(span.where, []).append((span, cost(spend)))
    anywhere = _in_all_sets([spend for spend in paid if not spend.spans], cost)
    by_time = _most(places.pop(TIME, []))
    return anywhere + by_time + max((_most(spans) for spans in places.values()), default=Fraction(0))


def _in_all_sets(paid: list[Spend], cost: _Cost) -> Fraction:
    """Return the cost of a record that is in the sets of all these spends.

    An owner's epsilon holds for a record in up to `sharing` sets of one run: one owner's answers spend
    1/sharing of it. For a record in more sets than that the shares add up.
    """
    runs: dict[tuple[str, str], dict[str, list[Spend]]] = {}
    for spend in paid:
        runs.setdefault((spend.mesh, spend.run), {}).setdefault(spend.node, []).append(spend)
    total_cost = Fraction(0)
    for readers in runs.values():
        costs = [sum(map(cost, lives), Fraction(0)) for lives in readers.values()]
        shares = min(spend.sharing for lives in readers.values() for spend in lives)
        total_cost += max(*costs, sum(costs, Fraction(0)) / shares)
    return total_cost


def _most(spans: list[tuple[Span, Fraction]]) -> Fraction:
    """Return the largest sum over spans that share a record. It is reached where some span begins."""
    return max(
        (
            sum((cost for span, cost in spans if span.first <= start.first < span.end), Fraction(0))
            for start, _ in spans
        ),
        default=Fraction(0),
    )


@dataclass(frozen=True, slots=True)
class Reuse:
    """All known lives over the data that one life reads.

    Attributes
    ----------
    earlier : tuple of Spend
        The known spends that may be on the same records: those of other runs, of earlier lives in this run,
        and of other readers.
    own : Spend
        This life's spend.
    by : str
        The source of the known spends: by default the state folder.
    member : {"node", "owner"}
        The kind of reader.
    """

    earlier: tuple[Spend, ...]
    own: Spend
    by: str = "this folder"
    member: str = "node"

    def sentence(self) -> str:
        """Return the addition to the guarantee; empty if nothing else is known of the data."""
        spends = self._known()
        beside = [spend for spend in spends if _is_beside(spend, self.own)]
        if len(beside) < len(spends):
            sentences = [_of_runs(spends, self.own, self.by)]
        else:  # this run alone, in which a record may be in several sets (`sharing`)
            sentences = [_of_shared(self.member, beside, self.own)] if len(beside) >= self.own.sharing else []
        sentences += [_of_reuse(spend, self.own) for spend in [*spends, self.own] if spend.reuse is not None]
        if self.own.by_plans:
            sentences.append("The scheduler counted what this run had charged before its journal begins.")
        if self.own.apart:
            sentences.append("As its operator states, these are other data than those of earlier runs.")
        return " ".join(sentences)

    @property
    def total(self) -> Total:
        """The total of all, at both levels. The epsilon is also None if unknown runs may add more."""
        known_total = total([*self._known(), self.own], self.own.unit)
        may_grow = any(_adds(spend, self.own) for spend in [*self._known(), self.own])
        return known_total._replace(epsilon=None) if may_grow else known_total

    def label(self, spend: Spend) -> str:
        """Return the name of a life's run, and the difference of that life from this one."""
        return _named(spend, self.own, {self.own.node, spend.node})

    def _known(self) -> list[Spend]:
        return [spend for spend in self.earlier if spend.charged or spend.open]


def _adds(spend: Spend, own: Spend) -> bool:
    """Return whether records of unknown runs may be read again."""
    return spend.reuse is not None and not spend.reuse == own.reuse == "end"


_MOST = 12
"""The most readers of one run that are named."""


def _is_beside(spend: Spend, own: Spend) -> bool:
    """Return whether the spend is that of another reader in the same run."""
    return (spend.mesh, spend.run) == (own.mesh, own.run) and spend.node != own.node


def _listed(readers: set[str]) -> str:
    names = sorted(readers)
    if len(names) <= _MOST:
        return ", ".join(names)
    return f"{', '.join(names[: _MOST - 1])} and {len(names) - _MOST + 1:,} more"


def _of_shared(member: str, beside: list[Spend], own: Spend) -> str:
    readers = {own.node, *(spend.node for spend in beside)}
    of, shared = ("a record", "the same records")
    if own.unit:
        of = f"one {own.unit}"
        shared = f"records of {of}"
    may = (
        f"{member.capitalize()}s {_listed(readers)} may hold {shared} (they read one file, or files of equal "
        f"content): "
    )
    every_reader = "both" if len(readers) == 2 else f"all {len(readers)}"
    joint_total = total([*beside, own], own.unit)
    if joint_total.epsilon is None or joint_total.delta >= 1:
        return f"{may}nothing is known to be protected of {of} in {every_reader}."
    strength = f"delta = {up_to_digits(joint_total.delta)!r}" if joint_total.delta else "pure"
    paid = as_text(joint_total.epsilon)
    return f"{may}{of} in {every_reader} is protected with epsilon = {paid} ({strength}) over them."


def _named(spend: Spend, own: Spend, readers: set[str]) -> str:
    """Return the run of a life, and how it differs from this one.

    `readers`: those of this run that may share.
    """
    run = spend.run or "of an unknown name"
    if _is_beside(spend, own):
        return f"{run} (this one, as {_listed(readers)})"
    one_mesh = spend.mesh == own.mesh or not (spend.mesh and own.mesh)
    if one_mesh and spend.run == own.run and spend.node in {"", own.node}:
        return f"{run} (an earlier life)"
    mesh = f"of {spend.mesh}" if spend.mesh and own.mesh and spend.mesh != own.mesh else ""
    reader = f"as {spend.node}" if spend.node and own.node and spend.node != own.node else ""
    details = ", ".join(filter(None, (mesh, reader)))
    return f"{run} ({details})" if details else run


def _of_runs(known: list[Spend], own: Spend, by: str) -> str:
    this_run = (own.mesh, own.run)
    readers = {own.node, *(spend.node for spend in known if (spend.mesh, spend.run) == this_run)}
    names = list(dict.fromkeys(_named(spend, own, readers) for spend in known))
    runs = f"{'Run' if len(names) == 1 else 'Runs'} {', '.join(names)}"
    over_all = total([*known, own], own.unit)
    idle = not (own.charged or own.open)
    if over_all.epsilon is None:
        return (
            f"{runs} may have read the same records, and one of them is not known to protect anything: "
            f"over all runs nothing is known to be protected."
        )
    if over_all.delta >= 1:
        return f"{runs} may have read the same records: over all runs nothing is known to be protected."
    delta = f"delta = {up_to_digits(over_all.delta)!r}" if over_all.delta else "pure"
    of = own.unit or "record"
    promise = f"over all runs each {of} is protected with epsilon = {as_text(over_all.epsilon)} ({delta})"
    if idle:
        return f"{runs} learnt from the data, and this life from nothing: {promise}, by {by}."
    all_placed = not own.unit and all(spend.spans for spend in [*known, own])
    if all_placed and over_all.epsilon == max(spend.epsilon or 0 for spend in [*known, own]):
        return f"{runs} learnt from other records: {promise}, by {by}."
    subject = f"records of any {own.unit}" if own.unit else "some of the same records"
    return f"{runs} learnt from {subject}: {promise}, by {by}."


def _of_reuse(spend: Spend, own: Spend) -> str:
    earlier_runs = "in earlier runs" if spend is own else f"before run {spend.run}"
    before = f"As its operator states, {spend.before} rounds were charged {earlier_runs}"
    if not _adds(spend, own):
        return f"{before}, and none of their records is read again."
    verb = "are" if spend is own else "may be"
    return (
        f"{before}, and their records {verb} read again: what those runs cost a record adds to its epsilon."
    )
