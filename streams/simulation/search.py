"""Runs the histories of seeds.

It shortens the schedule of faults of a history that fails as far as it can.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from traceback import extract_tb
from typing import Any, Protocol

from streams.simulation.adversary import Adversary
from streams.simulation.faults import InjectedFault, ScheduledFault
from streams.simulation.history import Reached, SimulatedHistory, Violation
from streams.simulation.node import SimulatedNode
from streams.simulation.oracle.oracle import GRACE
from streams.simulation.oracle.wire import ReadMember, ReadPlan
from streams.simulation.stage import EVENTS, Scene, Stage
from streams.simulation.world import World

# Tells when a history is over, and whether a mesh that makes no progress does so by the rules.
#
# The rules are those of `topology.scheduler`, written a second time. They are applied to the processes'
# journals and to the topology, not to a scheduler's own state.


def is_done(world: World, broken: set[str]) -> bool:
    """Return whether every node that is not broken and does not lie has reached the end of the run."""
    ended = {node.name for node in world.processes if node.halted}
    return ended | broken | world.excuses.liars >= set(world.nodes)


def check_connected(world: World, broken: set[str]) -> None:
    """Raise Violation if a process thinks long after the end of the faults that the broker is away."""
    if world.broker.now < world.excuses.calm_at + GRACE:
        return
    for node in world.processes:
        runner = None if node.halted or node.name in broken else node.runner
        if runner is not None and node.process.link.whole and not runner.clock.going:
            raise Violation(f"{node.name} takes the broker to be away, although it is there")


def may_wait(world: World, broken: set[str]) -> bool:
    """Return whether the mesh may wait for a node that never comes, after the faults have stopped.

    The mesh waits for the first plan's members. It also waits for a full member of the last plan that is only
    silent, if no other node has a place in that plan. If all full members have begun anew, the nodes that
    have stepped begin again. If no node has stepped, the mesh waits for nodes that may have stepped, as
    silence ends no run.
    """
    settings = world.scene.parts.scheduler
    last = world.watch.oracle.last_plan
    present = [node for node in world.processes if node.wanted and node.name not in broken]
    staying = [node for node in present if last is None or not _leaves(node, last.round + 1)]
    if len(staying) < len(present) and {node.name for node in present} >= set(world.nodes):
        return False  # the others leave, and no node is away
    names = {node.name for node in staying}
    if len(names) < (settings.min_members or (len(world.nodes) if last is None else 1)):
        return True
    if last is None or last.ended or any(_carries_on(node, last) for node in staying):
        return False
    if any(_is_silent(world, member) for member in last.members if member.name not in names):
        return True
    return (
        not any(_stepped(node) for node in staying) and not names >= world.watch.oracle.topology.named.keys()
    )


def _leaves(node: SimulatedNode, round: int) -> bool:
    """Return whether a process's heartbeat says that it leaves by that round."""
    leave_from = None if node.role is None else node.role.machine.heartbeat.leave_from
    return leave_from is not None and leave_from <= round


def _carries_on(node: SimulatedNode, last: ReadPlan) -> bool:
    """Return whether the node has a place in this plan, or had one and may begin again."""
    member = last.member(node.name)
    if member is None or member.instance != node.journal.instance:
        return False
    asks = node.role is not None and node.role.machine.heartbeat.join_after is not None
    return not asks or (member.full and _stepped(node) > 0)


def _is_silent(world: World, member: ReadMember) -> bool:
    """Return whether a full member that is away has sent no heartbeat of another life since."""
    beat = world.watch.oracle.last_beat(member.name)
    return member.full and (beat is None or beat.instance == member.instance)


def _stepped(node: SimulatedNode) -> int:
    records = node.journal.records()
    return records[-1].stepped if records else 0


TOGETHER = 8
"""The number of events between two checks whether a history is over."""


class Play(Protocol):
    """One history."""

    @property
    def history(self) -> SimulatedHistory:
        """The events so far."""

    def to_the_end(self) -> None:
        """Run the phase with faults, then the phase in which the others must continue. Raises Violation."""

    def finish(self) -> None:
        """Check what can only be checked at the end. Raises Violation."""

    def close(self) -> None:
        """Remove the history's files."""


class SimulatedStage(Protocol):
    """Makes the histories of one mesh file."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the processes that the faults strike."""

    @property
    def reachable(self) -> tuple[Reached, ...]:
        """What a set of many histories must reach."""

    def begin(self, seed: int, keep: tuple[int, ...] | None) -> tuple[Play, tuple[ScheduledFault[Any], ...]]:
        """Return the history of a seed before its first event, and its faults: those at the indices `keep`,
        if given.
        """


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The result of one history. `violation`: the invariant that did not hold, if any.

    `keep`: the faults it had.
    """

    seed: int
    faults: tuple[ScheduledFault[Any], ...]
    keep: tuple[int, ...]
    history: SimulatedHistory
    violation: str | None


def run(stage: SimulatedStage, seed: int, keep: tuple[int, ...] | None = None) -> SearchOutcome:
    """Run the history of a seed. Of its faults it has only those at the indices `keep`, if given."""
    play, faults = stage.begin(seed, keep)
    history, violation = play.history, None
    try:
        play.to_the_end()
        play.finish()
    except Violation as broken:
        violation = str(broken)
    except Exception as error:  # noqa: BLE001 # whatever the code under test raises is what is looked for
        place = extract_tb(error.__traceback__)[-1]
        violation = f"{type(error).__name__}: {error} ({place.filename.rsplit('/', 1)[-1]}:{place.lineno})"
    if violation is not None:
        history.note("all", "VIOLATION", violation)
    play.close()
    chosen = tuple(range(len(faults))) if keep is None else keep
    return SearchOutcome(seed, faults, chosen, history, violation)


def search(stage: SimulatedStage, seeds: range) -> Iterator[SearchOutcome]:
    """Yield the outcome of each seed."""
    return (run(stage, seed) for seed in seeds)


def shrunk(stage: SimulatedStage, failed: SearchOutcome) -> SearchOutcome:
    """Return a history with the same violation and as few faults as possible.

    It leaves out chunks of the schedule: half of it first, then smaller chunks, down to single faults (delta
    debugging, Zeller 1999). A history with another violation shows another bug, and does not count.
    """
    best, size = failed, max(1, len(failed.keep) // 2)
    violation_kind = _kind(failed.violation or "", stage.names)

    def again(keep: tuple[int, ...]) -> SearchOutcome | None:
        outcome = run(stage, failed.seed, keep)
        return (
            outcome if outcome.violation and _kind(outcome.violation, stage.names) == violation_kind else None
        )

    while True:
        smaller = _without_a_chunk(again, best, size)
        if smaller is not None:
            best = smaller
        elif size == 1:
            return best
        else:
            size //= 2


def _without_a_chunk(
    again: Callable[[tuple[int, ...]], SearchOutcome | None], failed: SearchOutcome, size: int
) -> SearchOutcome | None:
    for first in range(0, len(failed.keep), size):
        smaller = again(failed.keep[:first] + failed.keep[first + size :])
        if smaller is not None:
            return smaller
    return None


def _kind(violation: str, names: Collection[str]) -> str:
    """Return the kind of a violation: its text without numbers, names of nodes and values."""
    words = violation.partition(":")[0].split()
    return " ".join(word for word in words if word.isalpha() and word not in names)


class MeshStage(Stage):
    """Makes the histories of a mesh of nodes from its file. Raises MeshFileError, UsageError."""

    @property
    def reachable(self) -> tuple[Reached, ...]:
        """What a set of many histories must reach: all events of interest."""
        return tuple(Reached)

    def begin(self, seed: int, keep: tuple[int, ...] | None) -> tuple["Play", tuple[InjectedFault, ...]]:
        """Return the history of a seed before its first event, and its faults."""
        scene = self.scene(seed, keep)
        return _MeshPlay(scene), scene.faults


class _MeshPlay:
    """One history of a mesh."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._adversary = scene, Adversary(scene)

    @property
    def history(self) -> SimulatedHistory:
        """The events so far."""
        return self._adversary.world.history

    def to_the_end(self) -> None:
        """Run the phase with faults, then the phase in which the others must continue. Raises Violation."""
        _to_the_end(self._scene, self._adversary)

    def finish(self) -> None:
        """Check what can only be checked at the end. Raises Violation."""
        check_connected(self._adversary.world, self._adversary.broken)
        self._adversary.world.watch.finish()

    def close(self) -> None:
        """Remove the history's files."""
        self._adversary.world.close()


def _to_the_end(scene: Scene, adversary: Adversary) -> None:
    """Run the phase with faults, then the phase in which the others must continue. Raises Violation."""
    world, setting = adversary.world, scene.setting
    calm_at = EVENTS * len(scene.parts.nodes) * setting.rounds
    latest = 0.0
    world.begin()
    while not is_done(world, adversary.broken):
        if not adversary.calmed and world.history.events >= calm_at:
            adversary.calm()
            round_time = setting.slot_time + 2 * setting.round_timeout
            latest = world.broker.now + setting.rounds * round_time + 10 * setting.silence + 30.0
        if adversary.calmed and world.broker.now > latest:
            if may_wait(world, adversary.broken):
                world.history.note("all", "wait", "for somebody who is broken for ever")
                return
            raise Violation(f"the faults have stopped, and it does not go on: {_standing(world)}")
        for _ in range(TOGETHER):
            world.advance()


def _standing(world: World) -> str:
    stepped = world.watch.oracle.stepped
    return ", ".join(f"{name} has stepped {stepped.get(name, 0)}" for name in world.nodes)
