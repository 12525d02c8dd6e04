"""One round of a mesh, as its public topics tell it: who sent when, and for whom each node waited.

A full member of round t sends its release of t, and hears those of its in-neighbours. It then decides, steps,
and sends its release of the next round, so it waited for the last release that came before that. A release
that came later, or never, was given up: its weight went to the node's own release, and where it came within
the horizon the error was corrected in a later round. Nothing here is private: anyone on the mesh broker may
read it.
"""

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import NamedTuple

from streams.bus.logs import reached
from streams.bus.mesh_log import MeshLog, valid
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile
from topology.plans import Plan

Sent = Mapping[tuple[str, str, int], float]
"""When a release was first sent, by (source, target, round): seconds since 1970 by the source's clock."""


class Neighbour(NamedTuple):
    """An in-neighbour, and when it sent its release of the round; None: that is not in the log."""

    source: str
    sent: float | None


class NodeRound(NamedTuple):
    """A member's round. `sent`: its own release; `went_on`: that of the next round; None: not in the log.

    `last`: no round follows, so nothing tells when the node went on.
    """

    node: str
    full: bool
    heard: tuple[Neighbour, ...]
    sent: float | None
    went_on: float | None
    last: bool

    @property
    def given_up(self) -> tuple[Neighbour, ...]:
        """The in-neighbours whose release had not come when the node went on."""
        if self.went_on is None:
            return ()
        return tuple(
            neighbour for neighbour in self.heard if neighbour.sent is None or neighbour.sent > self.went_on
        )

    @property
    def awaited(self) -> tuple[str, ...]:
        """The in-neighbours whose release it still waits for."""
        if self.went_on is not None or self.last:
            return ()
        return tuple(neighbour.source for neighbour in self.heard if neighbour.sent is None)

    @property
    def waited_for(self) -> Neighbour | None:
        """The in-neighbour whose release came last of those that the node heard."""
        given_up = {neighbour.source for neighbour in self.given_up}
        in_time = [
            neighbour
            for neighbour in self.heard
            if neighbour.sent is not None and neighbour.source not in given_up
        ]
        return max(in_time, key=lambda neighbour: neighbour.sent or 0.0, default=None)


class OneRound(NamedTuple):
    """A round: its plan, when the broker appended that (seconds since 1970), and its members."""

    plan: Plan
    planned: float
    nodes: tuple[NodeRound, ...]

    @property
    def first(self) -> float | None:
        """When the first release of the round was sent."""
        return min((node.sent for node in self.nodes if node.sent is not None), default=None)


def read_round(file: MeshFile, number: int) -> OneRound:
    """Read a round from the topics of a mesh. Raises BusError, and UsageError for a round without a plan."""
    with closing(reached(file.mesh_broker)) as logs:
        return round_of(file, MeshLog.of(file, logs), number)


def round_of(file: MeshFile, log: MeshLog, number: int) -> OneRound:
    """Return a round as a mesh's log tells it. Raises BusError, UsageError."""
    nodes = {name: file.resolved.node(name).expected for name in file.resolved.graph.nodes}
    times: dict[tuple[str, str, int], float] = {}
    for name, expected in nodes.items():
        _, targets = file.resolved.graph.neighbours(name)
        for target, _, release, at in log.timed_releases(expected, targets):
            key = name, target, release.round
            times[key] = min(at, times.get(key, at))
    # after the releases, as a plan is in its log before the releases of its round
    planned = {
        plan.round: (plan, entry.record.appended)
        for entry in valid(log.plans())
        if entry.message is not None
        for plan in entry.message.plans
    }
    if number not in planned:
        content = f"has the plans of rounds {min(planned)} to {max(planned)}" if planned else "has no plan"
        raise UsageError(f"--round {number}: must be a round of a plan; the log {content}")
    plan, appended = planned[number]
    following = next((later for later, _ in planned.values() if later.follows == number), None)
    return OneRound(plan, appended, tuple(members(plan, following, times)))


def members(plan: Plan, following: Plan | None, sent: Sent) -> Iterable[NodeRound]:
    """Yield each member of a plan. `following`: the next plan, if there is one."""
    names = [member.name for member in plan.members]
    into: dict[str, list[str]] = {name: [] for name in names}
    for source, target in zip(plan.sources.tolist(), plan.targets.tolist(), strict=True):
        into[names[target]].append(names[source])
    first: dict[tuple[str, int], float] = {}
    for (source, _, number), at in sent.items():
        first[source, number] = min(at, first.get((source, number), at))
    for member in plan.members:
        name = member.name
        yield NodeRound(
            name,
            member.full,
            tuple(Neighbour(source, sent.get((source, name, plan.round))) for source in into[name]),
            first.get((name, plan.round)),
            None if following is None else first.get((name, following.round)),
            following is None or following.member(name) is None,
        )
