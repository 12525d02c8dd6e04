"""What a node remembers of its last H rounds: its records, its own releases, what it may still make good."""

from collections import deque
from collections.abc import Iterable

from nodes.inbox import Edge
from nodes.journal import GivenUp, JournalRecord
from nodes.values import FloatArray, Release


class Past:
    """The last H rounds of one node, as its journal holds them; and its in-edges, which are read along."""

    def __init__(self, sources: Iterable[str], horizon: int, records: Iterable[JournalRecord] = ()) -> None:
        self.record: JournalRecord | None = None  # the newest: the release that is out, or will be
        self._own: dict[int, Release] = {}
        self._stepped: deque[int] = deque(maxlen=horizon)
        self._first = 1  # while none is stepped: the first round that matters
        self._lost: dict[tuple[int, str], GivenUp] = {}  # by (round, source)
        for record in records:
            self.remember(record)
        newest: JournalRecord | None = self.record
        positions = dict(newest.edge_positions) if newest else {}
        self.edges = {source: Edge(source, positions.get(source, 0)) for source in sorted(sources)}
        for source, instance in newest.distrusted if newest else ():
            if source in self.edges:
                self.edges[source].distrusted.add(instance)

    @property
    def oldest(self) -> int:
        """The first round whose releases still matter: H steps back."""
        return self._stepped[0] if self._stepped else self._first

    @property
    def stepped(self) -> int:
        """The last round stepped (0: none)."""
        return self.record.stepped if self.record else 0

    def late(self) -> list[tuple[int, str]]:
        """Return (round, source) of what was given up and has come since, in order."""
        if not self._lost:
            return []
        return [
            (round, source)
            for (round, source), lost in sorted(self._lost.items())
            if source in self.edges
            and round in self._own
            and self.edges[source].release(round, lost.instance) is not None
        ]

    def correction(self, round: int, source: str) -> FloatArray:
        """Return a_ij(t) (q_t^j - q_t^i), shape (d,): what the consensus of round t lacked of the source."""
        lost = self._lost[round, source]
        release = self.edges[source].release(round, lost.instance)
        if release is None:
            raise KeyError(f"nothing has come from {source} for round {round}")
        return lost.weight * (release - self._own[round])

    def edge_positions(self) -> tuple[tuple[str, int], ...]:
        """Return (source, offset to read again from) of every in-edge; what is H rounds old is forgotten."""
        oldest = self.oldest
        for edge in self.edges.values():
            edge.drop_before(oldest)
        return tuple((source, edge.position) for source, edge in self.edges.items())

    def distrusted(self) -> tuple[tuple[str, str], ...]:
        """Return (source, instance) of those who have sent two values for a round."""
        found = [(source, edge.distrusted) for source, edge in self.edges.items() if edge.distrusted]
        return tuple((source, instance) for source, instances in found for instance in sorted(instances))

    def join_from(self, round: int) -> None:
        """Forget what is below `round`: the node joins in that round or later, from what others say."""
        if round > self._first or self._stepped:
            self._forget_rounds()
            self._first = round
            for edge in self.edges.values():
                edge.drop_before(round)

    def remember(self, record: JournalRecord) -> None:
        """Take the record of one transition; forget what is more than H rounds old."""
        if self.record is not None and record.stepped != self.record.round:
            self._forget_rounds()  # the node was away, and has joined again
        self.record = record
        self._own[record.round] = record.release
        if record.stepped:
            self._stepped.append(record.stepped)
        self._lost.update({(record.stepped, lost.source): lost for lost in record.given_up})
        for made_good in record.corrected:
            self._lost.pop(made_good, None)
        oldest = self.oldest
        while (first := next(iter(self._own))) < oldest:
            del self._own[first]
        for lost in [lost for lost in self._lost if lost[0] < oldest]:
            del self._lost[lost]

    def _forget_rounds(self) -> None:
        self._stepped.clear()
        self._lost.clear()
