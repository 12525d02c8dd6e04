"""Builds a plan from its members: weights among full members, equal weights from them to listeners."""

import numpy as np

from topology.graph import Graph
from topology.plans import FloatArray, IntArray, Member, Plan
from topology.schedules import Schedule

Edges = tuple[IntArray, IntArray, FloatArray]


def make_plan(
    run: str, round: int, last: Plan | None, members: tuple[Member, ...], schedule: Schedule
) -> Plan:
    """Return the plan of `round` after `last`, for `members` in bytes order, over provisioned edges only.

    Full members get the schedule's weights of the round. A listener hears all n full members that it has a
    provisioned edge from, whichever edges are on in the round, each with weight 1/n.
    """
    full = tuple(member.name for member in members if member.full)
    weights = schedule.weights(round, full)
    edges: Edges = weights.sources, weights.targets, weights.values
    if len(full) < len(members):
        edges = _with_listeners(edges, members, schedule.graph)
    return Plan(run, round, last.round if last else 0, members, *edges, named_after(last))


def end_plan(run: str, round: int, last: Plan | None) -> Plan:
    """Return the plan without members that ends the run."""
    nothing = np.empty(0, np.int64)
    return Plan(run, round, last.round if last else 0, (), nothing, nothing, np.empty(0), named_after(last))


def named_after(last: Plan | None) -> tuple[tuple[str, int], ...]:
    """Return, for each node that was ever a member, the number of plans up to `last` that name it."""
    if last is None:
        return ()
    counts = dict(last.named)
    for member in last.members:
        counts[member.name] = counts.get(member.name, 0) + 1
    return tuple(sorted(counts.items()))


def _with_listeners(edges: Edges, members: tuple[Member, ...], graph: Graph) -> Edges:
    """Return the edges between full members, as indices into all members, and those into listeners."""
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
