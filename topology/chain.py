"""The chain of valid plans, and the records that carry it.

Rules
-----
* A record holds plans that follow one another, and the mark of the plan that its first one continues.
* A reader takes a record whole if it continues the last valid plan, else not at all. So of two schedulers'
  records that continue the same plan the first one read counts, and all that was published on top of the
  other one is void: round numbers alone would let it follow.
* A run's first plan continues nothing. But a log may have lost its beginning, so that the record that comes
  first may be void. Then the longest chain counts: a void one ends with the horizon of its scheduler, so
  whoever begins to read there knows the valid plans from two horizons on, and the log holds several.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from topology.plans import Plan

NOTHING = bytes(16)
"""The mark that a run's first plan continues."""


@dataclass(frozen=True, slots=True, eq=False)
class PlanRecord:
    """Plans in order, after the plan with the mark `continues`. Raises ValueError for what no chain takes."""

    continues: bytes
    plans: tuple[Plan, ...]

    def __post_init__(self) -> None:
        """Check that each plan follows the one before it."""
        if not self.plans:
            raise ValueError("a record without plans")
        for before, plan in zip(self.plans, self.plans[1:], strict=False):
            if plan.run != before.run or plan.follows != before.round or before.ended:
                raise ValueError(f"plan {plan.round} does not follow plan {before.round}")
        if len(self.continues) != len(NOTHING) or (self.continues == NOTHING) != (self.plans[0].follows == 0):
            raise ValueError(f"plan {self.plans[0].round} names no plan that it continues")

    @property
    def last(self) -> Plan:
        """The last plan."""
        return self.plans[-1]


def after(last: Plan | None, plans: tuple[Plan, ...]) -> PlanRecord:
    """Return the record of `plans` that continues `last` (None: the first of the run)."""
    return PlanRecord(NOTHING if last is None else last.mark, plans)


class Chain:
    """The valid plans read so far. The first record is taken as it is, unless the log is `whole`."""

    def __init__(self, *, whole: bool = True) -> None:
        self.last: Plan | None = None
        self._whole = whole

    def take(self, record: PlanRecord) -> bool:
        """Take the record if it continues the last valid plan, and return whether it does."""
        last = self.last
        if last is None:
            follows = record.continues == NOTHING or not self._whole
        else:
            follows = not last.ended and continues(record, last)
        if follows:
            self.last = record.last
        return follows


def continues(record: PlanRecord, last: Plan) -> bool:
    """Return whether the record names `last` as the plan that it continues."""
    return record.plans[0].follows == last.round and record.continues == last.mark


def chosen(records: Iterable[PlanRecord], *, whole: bool = True) -> list[PlanRecord]:
    """Return the valid records of a log, in order; `whole`: it has not lost its beginning."""
    if whole:
        read = Chain()
        return [record for record in records if read.take(record)]
    chains: list[list[PlanRecord]] = []
    ends: dict[bytes, list[list[PlanRecord]]] = {}  # of these chains, by the mark of their last plan
    for record in records:
        continued = ends.get(record.continues, [])
        if continued and continues(record, continued[0][-1].last):
            del ends[record.continues]
        else:
            chains.append([])
            continued = [chains[-1]]
        for chain in continued:
            chain.append(record)
        if not record.last.ended:
            ends.setdefault(record.last.mark, []).extend(continued)
    return max(chains, key=_length, default=[])


def _length(chain: list[PlanRecord]) -> int:
    return sum(len(record.plans) for record in chain)
