"""One round of a full member or a listener: which releases it waits for, and the consensus they make."""

from collections.abc import Mapping
from operator import itemgetter

from nodes.consensus import mixed, own_weight
from nodes.inbox import Edge
from nodes.journal import GivenUp
from nodes.values import FloatArray, Release
from topology.plans import Plan


class OpenRound:
    """The round a node is in, from its plan until the step."""

    def __init__(self, name: str, plan: Plan, edges: Mapping[str, Edge]) -> None:
        member = plan.member(name)
        if member is None:
            raise ValueError(f"plan {plan.round} does not name {name!r}")
        self.name = name
        self.plan = plan
        self.round = plan.round
        self.listening = not member.full
        self.row = tuple((source, weight, _instance(plan, source)) for source, weight in plan.incoming(name))
        self._edges = edges
        self.given_up: tuple[GivenUp, ...] = ()
        self._awaited = {
            source
            for source, _, instance in self.row
            if source in edges and edges[source].release(plan.round, instance) is None
        }
        self.deadline_started = False
        self.asked_at_once = False

    def hear(self, source: str, instance: str) -> None:
        """Take note that a release of this round has come from that instance of the source."""
        for known, _, its in self.row:
            if known == source and its == instance:
                self._awaited.discard(source)

    def missing(self) -> list[str]:
        """Return the sources that are neither heard, nor distrusted, nor given up."""
        if not self._awaited:
            return []
        return [
            source
            for source, _, instance in self.row
            if source in self._awaited and not self._edges[source].distrusts(instance)
        ]

    def give_up(self, sources: list[str]) -> None:
        """Count the sources as silent in this round: their weights go to the own release."""
        self.given_up += tuple(
            GivenUp(source, instance, weight) for source, weight, instance in self.row if source in sources
        )
        self._awaited.difference_update(sources)

    def heard(self) -> list[tuple[str, float, Release]]:
        """Return (source, weight, release) of the sources that count, in bytes order."""
        given_up = {lost.source for lost in self.given_up}
        found = []
        for source, weight, instance in self.row:
            edge = self._edges.get(source)  # none: not provisioned, so never heard
            release = edge.release(self.round, instance) if edge else None
            if release is not None and source not in given_up:
                found.append((source, weight, release))
        return found

    def consensus(self, own: Release, heard: list[tuple[str, float, Release]]) -> FloatArray:
        """Return sum_j a_ij q_j, shape (d,); the weights of sources not heard go to the own release."""
        weight_of_own = own_weight([weight for _, weight, _ in self.row])
        if len(heard) < len(self.row):
            present = {source for source, _, _ in heard}
            for source, weight, _ in self.row:
                weight_of_own += 0.0 if source in present else weight
        terms = sorted([*heard, (self.name, weight_of_own, own)], key=itemgetter(0))
        return mixed([(weight, release) for _, weight, release in terms])

    def average(self, heard: list[tuple[str, float, Release]]) -> FloatArray:
        """Return the equal-weight average of the releases heard (a listener's consensus), shape (d,)."""
        return mixed([(1.0 / len(heard), release) for _, _, release in heard])


def _instance(plan: Plan, source: str) -> str:
    member = plan.member(source)
    return member.instance if member else ""
