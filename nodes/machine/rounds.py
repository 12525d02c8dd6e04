"""One round of a full member or listener: the releases that it waits for, and their consensus."""

from collections.abc import Mapping

from nodes.machine.events import SlotClosed
from nodes.machine.inbox import InEdge
from nodes.machine.journal import GivenUp, ReleaseMessage
from nodes.mixing import mixed
from nodes.values import Consensus, Decision, FloatArray, Release
from topology.plans import Plan

Heard = tuple[str, float, Release]
"""A source that counts, its weight, its release."""


class OpenRound:
    """A node's current round, from plan to step; `settled` once consensus and decision are fixed."""

    def __init__(self, name: str, plan: Plan, edges: Mapping[str, InEdge]) -> None:
        place = plan.place(name)
        if place is None:
            raise ValueError(f"plan {plan.round} does not name {name!r}")
        self.plan = plan
        self.place = place
        self.round = plan.round
        self.listening = not place.member.full
        self.slot: SlotClosed | None = None
        self.settled: tuple[Consensus, Decision] | None = None
        self.corrected: tuple[tuple[int, str], ...] = ()
        self.given_up: tuple[GivenUp, ...] = ()
        self.deadline_started = False
        self.asked_at_once = False
        self._counted = {  # the instances to hear, in bytes order: provisioned, trusted, not given up
            source: instance
            for (source, instance, _), _ in place.row
            if source in edges and not edges[source].distrusts(instance)
        }
        self._releases: dict[str, Release] = {}
        for source, instance in self._counted.items():
            release = edges[source].release(plan.round, instance)
            if release is not None:
                self._releases[source] = release

    def hear(self, message: ReleaseMessage) -> None:
        """Take the first release of a source for this round."""
        if self._counted.get(message.source) == message.instance:
            self._releases[message.source] = message.release

    def distrust(self, message: ReleaseMessage) -> None:
        """Count the sender's instance as silent, as it has sent two values for a round."""
        if self._counted.get(message.source) == message.instance:
            del self._counted[message.source]
            self._releases.pop(message.source, None)

    def is_waiting(self) -> bool:
        """Return whether a source is missing."""
        return len(self._releases) < len(self._counted)

    def waits_for_few(self) -> bool:
        """Return whether sources are missing, and at least as many are heard."""
        return self.is_waiting() and 2 * len(self._releases) >= len(self._counted)

    def missing(self) -> list[str]:
        """Return the sources that are neither heard, nor distrusted, nor given up."""
        return [source for source in self._counted if source not in self._releases]

    def give_up(self, sources: list[str]) -> None:
        """Count the sources as silent in this round: their weights go to the own release."""
        for source, weight in self.place.row:
            if source.name in sources:
                self.given_up += (GivenUp(source.name, source.instance, weight),)
                del self._counted[source.name]

    def heard(self) -> list[Heard]:
        """Return (source, weight, release) of the sources that count, in bytes order."""
        releases = self._releases
        return [
            (source, weight, releases[source])
            for (source, _, _), weight in self.place.row
            if source in releases
        ]

    def consensus(self, own: Release, heard: list[Heard]) -> FloatArray:
        """Return sum_j a_ij q_j, shape (d,); the weights of sources not heard go to the own release."""
        place = self.place
        weight_of_own = place.own_weight
        if len(heard) < len(place.row):
            present = {source for source, _, _ in heard}
            for source, weight in place.row:
                weight_of_own += 0.0 if source.name in present else weight
        return mixed([*heard, (place.member.name, weight_of_own, own)])

    def average(self, heard: list[Heard]) -> FloatArray:
        """Return the equal-weight average of the releases heard (a listener's consensus), shape (d,)."""
        return mixed([(source, 1.0 / len(heard), release) for source, _, release in heard])
