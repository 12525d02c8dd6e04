"""One plan from its members: weights among the full ones, equal weights from those to the listeners."""

import numpy as np

from topology.graph import Graph
from topology.plans import FloatArray, IntArray, Member, Plan
from topology.schedules import Schedule

Edges = tuple[IntArray, IntArray, FloatArray]


def make_plan(
    run: str, round: int, last: Plan | None, members: tuple[Member, ...], schedule: Schedule
) -> Plan:
    """Return the plan of `round` after `last`, for `members` in bytes order, over provisioned edges only.

    Full members have the schedule's weights for the round. A listener has an edge from each full member
    that it is provisioned with, whatever is on in the round, each with weight 1/n.
    """
    full = tuple(member.name for member in members if member.full)
    weights = schedule.weights(round, full)
    edges: Edges = weights.sources, weights.targets, weights.values
    if len(full) < len(members):
        edges = _with_listeners(edges, members, schedule.graph)
    return Plan(run, round, last.round if last else 0, members, *edges, named_after(last))


def end_plan(run: str, round: int, last: Plan | None) -> Plan:
    """Return the plan without members, which ends the run."""
    nothing = np.empty(0, np.int64)
    return Plan(run, round, last.round if last else 0, (), nothing, nothing, np.empty(0), named_after(last))


def named_after(last: Plan | None) -> tuple[tuple[str, int], ...]:
    """Return how many plans up to `last` name each node that was ever a member, in bytes order."""
    if last is None:
        return ()
    counts = dict(last.named)
    for member in last.members:
        counts[member.name] = counts.get(member.name, 0) + 1
    return tuple(sorted(counts.items()))


def _with_listeners(edges: Edges, members: tuple[Member, ...], graph: Graph) -> Edges:
    """Place the edges between full members among all members, and add those into the listeners."""
    place = {member.name: k for k, member in enumerate(members)}
    full = {member.name for member in members if member.full}
    places = np.array([place[name] for name in sorted(full)], np.int64)
    sources, targets, values = [places[edges[0]]], [places[edges[1]]], [edges[2]]
    for member in members:
        if member.full:
            continue
        heard = [place[name] for name in graph.into[graph.index[member.name]] if name in full]
        sources.append(np.array(heard, np.int64))
        targets.append(np.full(len(heard), place[member.name], np.int64))
        values.append(np.full(len(heard), 1 / max(len(heard), 1)))
    joined = np.concatenate(sources), np.concatenate(targets), np.concatenate(values)
    order = np.lexsort((joined[0], joined[1]))
    return joined[0][order], joined[1][order], joined[2][order]
