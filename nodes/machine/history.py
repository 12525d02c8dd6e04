"""A node's memory of its last H rounds: its records, its releases, and late releases to correct for."""

from collections import deque
from collections.abc import Iterable

from nodes.dynamics import Dynamics
from nodes.machine.inbox import InEdge
from nodes.machine.journal import GivenUp, JournalRecord
from nodes.values import FloatArray, Release


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
        for record in records:
            self.remember(record)
        newest: JournalRecord | None = self.record
        positions = dict(newest.edge_positions) if newest else {}
        self.edges = {
            source: InEdge(source, positions.get(source, 0), isolates=isolates) for source in sorted(sources)
        }
        if newest is not None:
            self._remember_evidence(newest)

    @property
    def stepped(self) -> int:
        """The last round stepped (0: none)."""
        return self.record.stepped if self.record else 0

    def late(self) -> list[tuple[int, str]]:
        """Return (round, source) of releases that were given up and have come since, in order."""
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

        Once a step; with rounds of a clock once a round, and before `round` where no plan was.
        """
        if dynamics.by_time:
            return now - round + dynamics.skipped(round, self._own[round][1])
        return sum(stepped >= round for stepped in self._stepped)

    def edge_positions(self) -> tuple[tuple[str, int], ...]:
        """Return (source, offset to read again from) of every in-edge; drop what is H rounds old."""
        oldest = self.oldest
        return tuple([(source, edge.drop_before(oldest)) for source, edge in self.edges.items()])

    def distrusted(self) -> tuple[tuple[str, str], ...]:
        """Return (source, instance) of sources that count as silent, as they sent two values for a round."""
        accused_edges = [edge for edge in self.edges.values() if edge.accused and edge.isolates]
        return tuple([(edge.source, instance) for edge in accused_edges for instance in sorted(edge.accused)])

    def pardoned(self) -> tuple[tuple[str, str, int], ...]:
        """Return (source, instance, last round whose second values are no evidence any more)."""
        pardoned_edges = [edge for edge in self.edges.values() if edge.pardoned]
        return tuple(
            [
                (edge.source, *instance)
                for edge in pardoned_edges
                for instance in sorted(edge.pardoned.items())
            ]
        )

    def accused(self) -> tuple[str, ...]:
        """Return the instances of sources that two values for a round are known of, the newest first."""
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
        """Take the record of a transition; forget rounds more than H back."""
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

    def _remember_evidence(self, newest: JournalRecord) -> None:
        for source, instance in newest.distrusted:
            if source in self.edges:
                self.edges[source].accuse(instance, newest.round)
        for source, instance, last in newest.pardoned:
            if source in self.edges:
                self.edges[source].pardoned[instance] = last

    def _forget_rounds(self) -> None:
        self._stepped.clear()
        self._lost.clear()
