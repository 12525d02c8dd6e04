"""A full member's round: decide, then step.

`decide` acts in the phase "learning", `step` in the phase "decided".
"""

from nodes.machine.events import Decided, Foreseen, Notice, Scored
from nodes.machine.journal import DataPosition
from nodes.machine.state import NodeState
from nodes.protocol import StartDeadline
from nodes.values import Consensus, FloatArray, averaged


def decide(node: NodeState) -> bool:
    """Fix consensus and decision once every source is heard or given up."""
    opened = node.opened
    if opened.is_waiting():
        if node.deadlines and not opened.asked_at_once and node.silent.issuperset(opened.missing()):
            opened.asked_at_once = True
            node.effects.append(StartDeadline(opened.round, at_once=True))
        return False
    own_release = node.record.release
    neighbours = opened.heard()
    opened.corrected = tuple(node.history.late())
    consensus = _corrected(node, _moved(node, opened.consensus(own_release, neighbours)), opened.corrected)
    decision = node.learner.algorithm.decide(opened.round, consensus)
    opened.settled = consensus, decision
    releases = tuple([release for _, _, release in neighbours])
    edges = tuple([source.name for source, _ in opened.place.row])
    node.effects.append(Decided(opened.round, decision, own_release, releases, edges))
    return True


def _moved(node: NodeState, consensus: FloatArray) -> FloatArray:
    """Move the consensus through the rounds that no plan has: F^(r - follows - 1) z."""
    algorithm, plan = node.learner.algorithm, node.opened.plan
    if algorithm.dynamics is None or not (times := algorithm.dynamics.skipped(plan.round, plan.follows)):
        return consensus
    return algorithm.contain(algorithm.dynamics.moved(consensus, times))


def _corrected(node: NodeState, consensus: FloatArray, late: tuple[tuple[int, str], ...]) -> Consensus:
    """Add F^k a_ij(t) (q_t^j - q_t^i) for each source given up in t whose release has come since.

    k counts the F between: what comes late has moved as it would have in time, but for the set.
    """
    dynamics = node.learner.algorithm.dynamics
    for lost_round, source in late:
        missing = node.history.correction(lost_round, source)
        if dynamics is not None:
            missing = dynamics.moved(missing, node.history.moves(dynamics, lost_round, node.opened.round))
        consensus = consensus + missing
        node.notice(Notice.CORRECTED, source, lost_round)
    return Consensus(node.learner.algorithm.contain(consensus) if late else consensus)


def step(node: NodeState) -> bool:
    """Charge, clip, draw and step once slot and next plan are there: one transition, one journal record."""
    opened = node.opened
    slot, following = opened.slot, node.book.first_after(opened.round)
    if slot is None or opened.settled is None or following is None:
        return False
    consensus, decision = opened.settled
    before = node.record
    node.effects.append(Foreseen(opened.round, decision, slot.observations, slot.places))
    lesson = node.learner.learn(
        opened.round, consensus, decision, slot.observations, before.charged, node.secret
    )
    node.secret = lesson.secret
    node.write(
        following,
        stepped=opened.round,
        release=lesson.release,
        exact=lesson.exact,
        charged=lesson.charged,
        average=averaged(before.average, decision),
        position=_moved_on(before.data_position, slot.position),
        given_up=opened.given_up,
        corrected=opened.corrected,
    )
    figures = lesson.gradient, lesson.clipped, lesson.broken, slot.truth
    node.effects.append(Scored(opened.round, decision, slot.observations, *figures))
    node.open = None
    return True


def _moved_on(before: DataPosition | None, after: DataPosition) -> DataPosition | None:
    """Return the position after a slot; partitions that it does not mention keep theirs."""
    if not after:
        return before
    merged = dict(before or ()) | dict(after)
    return after if len(merged) == len(after) else tuple(sorted(merged.items()))
