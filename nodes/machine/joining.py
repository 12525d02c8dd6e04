"""The way from waiting into a round: enter a plan, ask to join, listen.

`enter` acts in the phase "waiting", `listen` in the phase "listening".
"""

from nodes.machine.events import Notice, OpenSlot, SendRelease
from nodes.machine.journal import JournalRecord
from nodes.machine.membership import Choice
from nodes.machine.state import NodeState
from nodes.protocol import StartDeadline
from nodes.values import FloatArray, Release
from topology.plans import Plan


def enter(node: NodeState) -> bool:
    """Enter the first plan that this instance can act on."""
    chosen = node.membership.choose(node.history.record)
    if chosen is None:
        if node.history.record is None or node.membership.join_after is not None:
            node.history.join_from(node.book.last_round + 1)  # in a later plan, if at all
            node.book.drop_before(node.book.last_round + 1)
        return False
    choice, plan = chosen
    match choice:
        case Choice.TAKE_PART:
            _take_part(node, plan)
            return True
        case Choice.OVER:
            node.halt("the run is over")
        case Choice.LEFT:
            as_asked = node.membership.leave_from == node.membership.asked_from
            node.halt(
                "the node has left, as asked" if as_asked else "the budget is spent, and the node has left"
            )
        case Choice.JOIN:
            node.ask_to_join()
            return True
        case Choice.LISTEN:
            node.history.join_from(plan.round)
            node.open_round(plan)
            return True
    return False


def _take_part(node: NodeState, plan: Plan) -> None:
    """Act as a full member: send the release for this round, open its slot, start waiting for the others."""
    place = node.open_round(plan).place
    if node.history.record is None:
        start, charged = Release(node.learner.algorithm.start), _charged_by_plan(node, plan)
        position = None if node.learner.from_end else ()
        node.write(plan, stepped=0, release=start, exact=True, charged=charged, position=position)
    record, identity = node.record, node.identity
    targets = tuple(filter(node.history.edges.__contains__, place.targets))
    if targets:
        simulated = node.learner.mechanism.simulated
        message = record.message(identity.run, identity.name, identity.instance, simulated=simulated)
        node.effects.append(SendRelease(targets, message))
    node.effects.append(OpenSlot(plan.round, record.data_position))
    if node.deadlines and place.row:
        node.effects.append(StartDeadline(plan.round))


def listen(node: NodeState) -> bool:
    """Average the full members' releases, publicly, once all are there and the next plan is known."""
    opened = node.opened
    if node.deadlines and not opened.deadline_started and node.membership.mesh_has_come(opened.round):
        opened.deadline_started = True
        node.effects.append(StartDeadline(opened.round))
    following = node.book.first_after(opened.round)
    if following is None or opened.is_waiting():
        return False
    neighbours = opened.heard()
    record = node.history.record
    if neighbours:
        release = _moved(node, opened.average(neighbours), opened.plan)
    else:
        release = _moved_alone(node, record, opened.round)
    node.membership.join_after = None
    node.notice(Notice.LISTENED, node.identity.name, opened.round)
    node.write(
        following,
        stepped=opened.round,
        release=release,
        exact=True,
        charged=record.charged if record else _charged_by_plan(node, opened.plan),
        average=record.average if record else None,
        position=record.data_position if record else None,
    )
    node.open = None
    return True


def _moved(node: NodeState, average: FloatArray, plan: Plan) -> Release:
    """Return the release after listening: F z, and F for each round before the plan that no plan has."""
    algorithm = node.learner.algorithm
    if algorithm.dynamics is not None:
        times = 1 + algorithm.dynamics.skipped(plan.round, plan.follows)
        average = algorithm.dynamics.moved(average, times)
    return Release(algorithm.contain(average))


def _moved_alone(node: NodeState, record: JournalRecord | None, round: int) -> Release:
    """Return the release after a round in which nobody was heard: its own last one, moved to the next round.

    It counts rounds, planned or not: of those in which it was away it knows no more.
    """
    algorithm = node.learner.algorithm
    if record is None:
        return Release(algorithm.start)
    if algorithm.dynamics is None:
        return record.release
    made_for = record.stepped + 1 if record.stepped else record.round
    return Release(algorithm.contain(algorithm.dynamics.moved(record.release, round + 1 - made_for)))


def _charged_by_plan(node: NodeState, plan: Plan) -> int:
    """Return the charges at the start of a life: the plan counts those of this run, the operator others.

    It is never less than the charges of the journal's earlier lives, as plans may be lost with the broker.
    """
    named = dict(plan.named).get(node.identity.name, 0)
    return max(node.carried, named + node.learner.charged_before)
