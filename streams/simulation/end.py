"""Says when a history is over, and whether a mesh that stands still does so by the rules.

The rules are those of `topology.scheduler`, told again: they are held against what the processes' journals
and the topology have, not against what a scheduler believes.
"""

from streams.simulation.node import SimulatedNode
from streams.simulation.oracle.wire import ReadMember, ReadPlan
from streams.simulation.world import World


def is_done(world: World, broken: set[str]) -> bool:
    """Return whether every node that is not broken, nor lies, has reached the end of the run."""
    ended = {node.name for node in world.processes if node.halted}
    return ended | broken | world.excuses.liars >= set(world.nodes)


def may_wait(world: World, broken: set[str]) -> bool:
    """Return whether the mesh may wait for somebody who never comes, once the faults have stopped.

    It waits for the first plan's members, and for a full member of the last plan that is only silent, if
    nobody else has a place there. If all full members have begun anew, whoever has stepped begins again; if
    nobody has, it waits for those who may have: silence ends no run.
    """
    settings = world.scene.parts.scheduler
    last = world.watch.oracle.last_plan
    present = [node for node in world.processes if node.wanted and node.name not in broken]
    staying = [node for node in present if last is None or not _leaves(node, last.round + 1)]
    if len(staying) < len(present) and {node.name for node in present} >= set(world.nodes):
        return False  # all others leave, and nobody is away
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
    """Return whether a process tells that it leaves by that round."""
    leave_from = None if node.role is None else node.role.machine.heartbeat.leave_from
    return leave_from is not None and leave_from <= round


def _carries_on(node: SimulatedNode, last: ReadPlan) -> bool:
    """Return whether the node has a place in that plan, or had one and may begin again."""
    member = last.member(node.name)
    if member is None or member.instance != node.journal.instance:
        return False
    asks = node.role is not None and node.role.machine.heartbeat.join_after is not None
    return not asks or (member.full and _stepped(node) > 0)


def _is_silent(world: World, member: ReadMember) -> bool:
    """Return whether a full member that is away was last heard with its place in the plan, if at all."""
    beat = world.watch.oracle.last_beat(member.name)
    return member.full and (beat is None or beat.instance == member.instance)


def _stepped(node: SimulatedNode) -> int:
    records = node.journal.records()
    return records[-1].stepped if records else 0
