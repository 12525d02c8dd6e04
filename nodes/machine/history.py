"""A node's state of its last H rounds: journal records, releases, and late releases to correct for."""

from collections import deque
from collections.abc import Callable, Iterable

from nodes.dynamics import Dynamics
from nodes.machine.events import Notice
from nodes.machine.journal import GivenUp, JournalRecord, ReleaseMessage
from nodes.values import FloatArray, Release

# The releases that a node has received. The first value of a round counts; a second value is evidence.
#
# Evidence isolates the instance that sent it. Where others may have written it, it is only counted. There is
# one `InEdge` per source. It keeps the first value by (round, instance), from H planned rounds back (for late
# corrections and evidence) to 2H ahead (for releases before their plan). After a restart the edge is read
# again from `position`, which is at or before the offset of every value kept. If it were after one of them,
# the reader would forget that value, and would accept a second value of its round, later in the log, as the
# first.

MOST_ACCUSED = 64
"""Instances of a source that evidence is remembered of: only the one in the plans matters."""
MOST_READ_AGAIN = 1000
"""Records that a restart reads again for the sake of values that lower rounds have overtaken."""


class InEdge:
    """The releases from one source. `isolates`: whether an instance with a second value counts as silent."""

    def __init__(self, source: str, position: int = 0, *, isolates: bool = True) -> None:
        self.source, self.isolates = source, isolates
        self._kept: dict[tuple[int, str], tuple[Release, int]] = {}
        self.accused: dict[str, int] = {}  # instances, with the newest round that has two values
        self.pardoned: dict[str, int] = {}  # instances, with the last round whose second values are forgiven
        self._next = position

    def receive(
        self,
        message: ReleaseMessage,
        offset: int,
        oldest: int,
        most: int,
        planned: Callable[[], frozenset[str]] = frozenset,
    ) -> Notice | None:
        """Keep the message's value if it is the first one. Return a notice about the message, if any.

        `oldest` is the first round whose values are needed, `most` the largest number of values to keep. If
        there are as many, values of `planned` instances have priority, as other instances may be invented.
        """
        if offset >= self._next:
            self._next = offset + 1
        if message.round < oldest:
            return Notice.STALE
        key = (message.round, message.instance)
        first = self._kept.get(key)
        if first is not None:
            if first[0].tobytes() == message.release.tobytes():
                return Notice.DUPLICATE
            if message.round <= self.pardoned.get(message.instance, 0):
                return Notice.DUPLICATE
            self.accuse(message.instance, message.round, planned())
            return Notice.EVIDENCE
        if len(self._kept) >= most and not self._make_room(message, oldest, planned()):
            return Notice.OVERFULL
        self._kept[key] = (message.release, offset)
        return None

    def release(self, round: int, instance: str) -> Release | None:
        """Return the source's release for that round, if it came and its instance is trusted."""
        if self.distrusts(instance):
            return None
        entry = self._kept.get((round, instance))
        return entry[0] if entry else None

    def first(self, round: int, instance: str) -> Release:
        """Return the first value for that round, trusted or not. Raises KeyError if none is kept."""
        return self._kept[round, instance][0]

    def distrusts(self, instance: str) -> bool:
        """Return whether that instance sent two values for a round, and so counts as silent."""
        return self.isolates and instance in self.accused

    def accuse(self, instance: str, round: int, planned: frozenset[str] = frozenset()) -> None:
        """Store that the instance has sent two values for that round.

        Beyond `MOST_ACCUSED` instances one is forgotten: first of those that are not `planned`, then of the
        oldest round. Otherwise a source could invent instances, accuse all of them, and be trusted again.
        """
        accused = self.accused
        accused[instance] = max(round, accused.get(instance, 0))
        if len(accused) > MOST_ACCUSED:
            del accused[min(accused, key=lambda known: (known in planned, accused[known]))]

    def drop_before(self, round: int) -> int:
        """Forget the values of rounds below `round`; return the offset from which a restart reads again.

        That is the offset of the first value kept. Sources send rounds in order, so this value usually has
        the lowest round. A value of a higher round that precedes it in the log is read again too, as it may
        be the first value of a later round. A value more than `MOST_READ_AGAIN` records before it is not: its
        round was not planned when it was sent, and one such record could make every restart read the whole
        edge.
        """
        releases = self._kept
        if self.pardoned:
            self.pardoned = {
                known_instance: last for known_instance, last in self.pardoned.items() if last >= round
            }
        if self.accused and not self.isolates:
            self.accused = {instance: last for instance, last in self.accused.items() if last >= round}
        for key in [key for key in releases if key[0] < round]:
            del releases[key]
        if not releases:
            return self._next
        earliest = releases[min(releases)][1] - MOST_READ_AGAIN
        return min([offset for _, offset in releases.values() if offset >= earliest])

    def _make_room(self, message: ReleaseMessage, oldest: int, planned: frozenset[str]) -> bool:
        """Forget values that are less important than the message; return whether there is room for it.

        These are values that are too old, then values of instances that no plan names, then a value of the
        furthest round above the message's.
        """
        count = len(self._kept)
        self._kept = {key: value for key, value in self._kept.items() if key[0] >= oldest}
        if message.instance in planned and len(self._kept) == count:
            self._kept = {key: value for key, value in self._kept.items() if key[1] in planned}
        if len(self._kept) < count:
            return True
        furthest = max(self._kept)
        if furthest[0] <= message.round or (planned and message.instance not in planned):
            return False
        del self._kept[furthest]
        return True


class History:
    """The last H rounds of one node, as in its journal, and its in-edges (`isolates`: see InEdge)."""

    def __init__(
        self,
        sources: Iterable[str],
        horizon: int,
        records: Iterable[JournalRecord] = (),
        *,
        isolates: bool = True,
    ) -> None:
        self.record: JournalRecord | None = None  # the newest: its release is sent, or will be
        self._own: dict[int, tuple[Release, int]] = {}  # by round, with the round in which it was made
        self._stepped: deque[int] = deque(maxlen=horizon)
        self.oldest = 1  # the first round whose releases still matter: H steps back
        self._lost: dict[tuple[int, str], GivenUp] = {}  # by (round, source)
        # Evidence of sources that the mesh file does not name now, as it may name them again later.
        self._absent_distrusted: tuple[tuple[str, str], ...] = ()
        self._absent_pardoned: tuple[tuple[str, str, int], ...] = ()
        for record in records:
            self.remember(record)
        newest: JournalRecord | None = self.record
        positions = dict(newest.edge_positions) if newest else {}
        self.edges = {
            source: InEdge(source, positions.get(source, 0), isolates=isolates) for source in sorted(sources)
        }
        if newest is not None:
            self._remember_evidence(newest, isolates=isolates)

    @property
    def stepped(self) -> int:
        """The last round stepped (0: none)."""
        return self.record.stepped if self.record else 0

    def late(self) -> list[tuple[int, str]]:
        """Return (round, source) of releases that were given up and have arrived since, in order."""
        if not self._lost:
            return []
        return [
            (round, source)
            for (round, source), gap in sorted(self._lost.items())
            if source in self.edges
            and round in self._own
            and self.edges[source].release(round, gap.instance) is not None
        ]

    def correction(self, round: int, source: str) -> FloatArray:
        """Return a_ij(t) (q_t^j - q_t^i), shape (d,): the source's missing part of round t's consensus."""
        gap = self._lost[round, source]
        release = self.edges[source].release(round, gap.instance)
        if release is None:
            raise KeyError(f"nothing has come from {source} for round {round}")
        return gap.weight * (release - self._own[round][0])

    def moves(self, dynamics: Dynamics, round: int, now: int) -> int:
        """Return how often F moved the consensus of `round` until that of round `now`.

        That is once a step. Where rounds are periods of a clock it is once a round, unplanned rounds before
        `round` included.
        """
        if dynamics.by_time:
            return now - round + dynamics.skipped(round, self._own[round][1])
        return sum(stepped >= round for stepped in self._stepped)

    def edge_positions(self) -> tuple[tuple[str, int], ...]:
        """Return (source, offset to read again from) of every in-edge; drop values of H rounds ago."""
        oldest = self.oldest
        return tuple([(source, edge.drop_before(oldest)) for source, edge in self.edges.items()])

    def distrusted(self) -> tuple[tuple[str, str], ...]:
        """Return (source, instance) of sources that count as silent, as they sent two values for a round."""
        accused_edges = [edge for edge in self.edges.values() if edge.accused and edge.isolates]
        accusations = [(edge.source, instance) for edge in accused_edges for instance in sorted(edge.accused)]
        return (*accusations, *self._absent_distrusted)

    def pardoned(self) -> tuple[tuple[str, str, int], ...]:
        """Return (source, instance, last round whose second values are no evidence any more)."""
        pardoned_edges = [edge for edge in self.edges.values() if edge.pardoned]
        pardons = [
            (edge.source, *instance) for edge in pardoned_edges for instance in sorted(edge.pardoned.items())
        ]
        return (*pardons, *self._absent_pardoned)

    def accused(self) -> tuple[str, ...]:
        """Return the instances of sources that have sent two values for a round, the newest first."""
        accusations = [
            (round, accused) for edge in self.edges.values() for accused, round in edge.accused.items()
        ]
        return tuple([instance for _, instance in sorted(accusations, reverse=True)])

    def join_from(self, round: int) -> None:
        """Forget rounds below `round`: the node joins in that round or later, from other nodes' releases."""
        if round > self.oldest or self._stepped:
            self._forget_rounds()
            self.oldest = round
            for edge in self.edges.values():
                edge.drop_before(round)

    def remember(self, record: JournalRecord) -> None:
        """Store the record of a transition; drop rounds more than H back."""
        if self.record is not None and record.stepped != self.record.round:
            self._forget_rounds()  # the node was away, and has joined again
        self.record = record
        self._own[record.round] = record.release, record.stepped
        if record.stepped:
            self._stepped.append(record.stepped)
            self.oldest = self._stepped[0]
        for gap in record.given_up:
            self._lost[record.stepped, gap.source] = gap
        for made_good in record.corrected:
            self._lost.pop(made_good, None)
        while (first := next(iter(self._own))) < self.oldest:
            del self._own[first]
        if self._lost:
            self._lost = {place: gap for place, gap in self._lost.items() if place[0] >= self.oldest}

    def _remember_evidence(self, newest: JournalRecord, *, isolates: bool) -> None:
        for source, instance in newest.distrusted:
            if source in self.edges:
                self.edges[source].accuse(instance, newest.round)
        for source, instance, last in newest.pardoned:
            if source in self.edges:
                self.edges[source].pardoned[instance] = last
        if isolates:
            self._absent_distrusted = tuple([pair for pair in newest.distrusted if pair[0] not in self.edges])
        self._absent_pardoned = tuple([pardon for pardon in newest.pardoned if pardon[0] not in self.edges])

    def _forget_rounds(self) -> None:
        self._stepped.clear()
        self._lost.clear()
