"""The node machine: one learner's life in a mesh, sans-I/O.

Rules
-----
* Events go in, effects come out. A refused event changes nothing (`Misused`: the caller's mistake). A peer's
  mistakes are noticed and ignored. No content of the data can make the machine refuse, halt or wait.
* A full member of round t waits for the releases on its in-edges, then decides. Once its slot is closed and
  the next plan is known, it steps. Charge, clip, draw and step are one transition, which ends with one
  `Journal`. The release is sent only after that, on the edges that the next plan switches on. A restart sends
  the same bytes.
* A release is for the next planned round. A plan acts on this node only if it names this node's instance, and
  is not below the round of its newest release: plans that a broker has lost may be made again.
* A listener (in its first planned round) averages the full members' releases, publicly and exactly.
* The weight of a source that is silent at the deadline goes to the node's own release. If the source's
  release arrives late, within H rounds, the error is corrected once. A source that sent two values for a
  round counts as silent until it joins as a new instance. Where others may have written the second value, the
  source does not count as silent, and the first value in the edge's log counts, over all restarts, in
  whatever order rounds arrived (`InEdge.drop_before`).
* After its last learning round a node relays: its release is its consensus, exact, without a charge.
* A closing round has no slot, and a node relays in it, so its last lesson is sent and mixed. The last round
  before its leave is a closing one for a node, and so is each round for which it has no records.
* A node that is asked to leave reports that in its heartbeat. It halts at the first plan from the round of
  its leave on that does not name it.

After each event the machine repeats the action of its phase (`ACTIONS`) until the action changes nothing:
`enter` and `listen` until it takes part, `decide` and `step` while it learns. `TRANSITIONS` lists these steps
as data, which a test compares with the code.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from nodes.learner import Learner
from nodes.machine.events import (
    BeforeStep,
    Decided,
    Effect,
    Event,
    Evidence,
    LeaveAsked,
    NoSlot,
    Notice,
    OpenSlot,
    PlanArrived,
    ReleaseArrived,
    Scored,
    SendHeartbeat,
    SendRelease,
    SlotClosed,
    Started,
)
from nodes.machine.history import History
from nodes.machine.journal import DataPosition, JournalRecord
from nodes.machine.membership import MembershipChoice
from nodes.machine.state import NodeState
from nodes.protocol import DeadlinePassed, Identity, Misused, StartDeadline
from nodes.values import Consensus, FloatArray, Release, averaged
from topology.plans import Heartbeat, Plan

# A full member's round: decide, then step.
#
# `decide` acts in the phase "learning", `step` in the phase "decided".


def decide(node: NodeState) -> bool:
    """Fix the consensus and the decision once every source has sent its release or is given up."""
    open_round = node.opened
    if open_round.is_waiting():
        if node.deadlines and not open_round.asked_at_once and node.silent.issuperset(open_round.missing()):
            open_round.asked_at_once = True
            node.effects.append(StartDeadline(open_round.round, at_once=True))
        return False
    own_release = node.record.release
    neighbours = open_round.heard()
    open_round.corrected = tuple(node.history.late())
    consensus = _corrected(
        node, _moved(node, open_round.consensus(own_release, neighbours)), open_round.corrected
    )
    closing = node.book.closing(open_round.round)
    learnt = closing[0].round if closing else open_round.round
    share = open_round.share(neighbours, closing[:-1])
    decision = node.learner.algorithm.decide(learnt, consensus, share)
    average = node.record.average if open_round.closing else averaged(node.record.average, decision)
    open_round.settled = consensus, decision, average
    releases = tuple([release for _, _, release in neighbours])
    edges = tuple([source.name for source, _ in open_round.place.row])
    node.effects.append(Decided(open_round.round, decision, own_release, releases, edges, average))
    return True


def _moved(node: NodeState, consensus: FloatArray) -> FloatArray:
    """Apply F to the consensus once for each unplanned round before this one: F^(r - follows - 1) z."""
    algorithm, plan = node.learner.algorithm, node.opened.plan
    if algorithm.dynamics is None or not (times := algorithm.dynamics.skipped(plan.round, plan.follows)):
        return consensus
    return algorithm.contain(algorithm.dynamics.moved(consensus, times))


def _corrected(node: NodeState, consensus: FloatArray, late: tuple[tuple[int, str], ...]) -> Consensus:
    """Add F^k a_ij(t) (q_t^j - q_t^i) for each source given up in t whose release has come since.

    k is the number of F between the two rounds, so a late release is moved as a timely one, but for the
    projection onto the set.
    """
    dynamics = node.learner.algorithm.dynamics
    for lost_round, source in late:
        missing = node.history.correction(lost_round, source)
        if dynamics is not None:
            missing = dynamics.carried(missing, node.history.moves(dynamics, lost_round, node.opened.round))
        consensus = consensus + missing
        node.notice(Notice.CORRECTED, source, lost_round)
    return Consensus(node.learner.algorithm.contain(consensus) if late else consensus)


def step(node: NodeState) -> bool:
    """Charge, clip, draw and step in one journal record, once the slot is closed and the next plan known."""
    open_round = node.opened
    slot, following = open_round.slot, node.book.first_after(open_round.round)
    if open_round.settled is None or following is None:
        return False
    if open_round.closing:
        _relay(node, following)
        return True
    if slot is None:
        return False
    consensus, decision, average = open_round.settled
    before = node.record
    node.effects.append(BeforeStep(open_round.round, decision, slot.observations, slot.places, slot.counts))
    lesson = node.learner.learn(
        open_round.round, consensus, decision, slot.observations, before.charged, node.secret, slot.counts
    )
    node.secret = lesson.secret
    node.write(
        following,
        stepped=open_round.round,
        release=lesson.release,
        exact=lesson.exact,
        charged=lesson.charged,
        average=average,
        position=_moved_on(before.data_position, slot.position),
        read=_furthest(before.read, slot.position, slot.read),
        given_up=open_round.given_up,
        corrected=open_round.corrected,
    )
    figures = lesson.gradient, lesson.clipped, lesson.broken, slot.truth, slot.counts
    node.effects.append(Scored(open_round.round, decision, slot.observations, *figures))
    node.open = None
    return True


def _relay(node: NodeState, following: Plan) -> None:
    """End a closing round: the consensus is the next release. No slot, no record, no charge."""
    open_round, before = node.opened, node.record
    if open_round.settled is None:
        raise RuntimeError("no consensus was fixed")
    consensus, _, _ = open_round.settled
    if not node.learner.ledger.may_learn(following.round, before.charged):
        node.secret = None
    node.write(
        following,
        stepped=open_round.round,
        release=node.learner.relay(consensus),
        exact=True,
        charged=before.charged,
        average=before.average,  # that a round has no slot may be known after its decision
        position=before.data_position,
        read=before.read,
        given_up=open_round.given_up,
        corrected=open_round.corrected,
    )
    node.open = None


def _moved_on(before: DataPosition | None, after: DataPosition) -> DataPosition | None:
    """Return the position after a slot; partitions that the slot does not name keep their offsets."""
    if not after:
        return before
    merged = dict(before or ()) | dict(after)
    return after if len(merged) == len(after) else tuple(sorted(merged.items()))


def _furthest(*ends: DataPosition) -> DataPosition:
    """Return the largest offset of each partition."""
    furthest: dict[int, int] = {}
    for partition, offset in chain(*ends):
        furthest[partition] = max(offset, furthest.get(partition, 0))
    return tuple(sorted(furthest.items()))


# The way from waiting into a round: enter a plan, ask to join, listen.
#
# `enter` acts in the phase "waiting", `listen` in the phase "listening".


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
        case MembershipChoice.TAKE_PART:
            _take_part(node, plan)
            return True
        case MembershipChoice.OVER:
            node.halt("the run is over")
        case MembershipChoice.LEFT:
            as_asked = node.membership.leave_from == node.membership.asked_from
            node.halt(
                "the node has left, as asked" if as_asked else "the budget is spent, and the node has left"
            )
        case MembershipChoice.JOIN:
            node.ask_to_join()
            return True
        case MembershipChoice.LISTEN:
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
    if not node.opened.closing:
        node.effects.append(OpenSlot(plan.round, record.data_position))
    if node.deadlines and place.row:
        node.effects.append(StartDeadline(plan.round))


def listen(node: NodeState) -> bool:
    """Average the full members' releases, publicly, once all have arrived and the next plan is known."""
    open_round = node.opened
    if node.deadlines and not open_round.deadline_started and node.membership.mesh_has_come(open_round.round):
        open_round.deadline_started = True
        node.effects.append(StartDeadline(open_round.round))
    following = node.book.first_after(open_round.round)
    if following is None or open_round.is_waiting():
        return False
    neighbours = open_round.heard()
    record = node.history.record
    if neighbours:
        release = _moved_release(node, open_round.average(neighbours), open_round.plan)
    else:
        release = _moved_alone(node, record, open_round.round)
    node.membership.join_after = None
    node.notice(Notice.LISTENED, node.identity.name, open_round.round)
    node.write(
        following,
        stepped=open_round.round,
        release=release,
        exact=True,
        charged=record.charged if record else _charged_by_plan(node, open_round.plan),
        average=record.average if record else None,
        position=record.data_position if record else None,
        read=record.read if record else (),
    )
    node.open = None
    return True


def _moved_release(node: NodeState, average: FloatArray, plan: Plan) -> Release:
    """Return the release after listening: F z, with one more F for each unplanned round before the plan."""
    algorithm = node.learner.algorithm
    if algorithm.dynamics is not None:
        times = 1 + algorithm.dynamics.skipped(plan.round, plan.follows)
        average = algorithm.dynamics.moved(average, times)
    return Release(algorithm.contain(average))


def _moved_alone(node: NodeState, record: JournalRecord | None, round: int) -> Release:
    """Return the release after a round without sources: the node's own last one, moved to the next round.

    F is applied once a round, planned or not, as the node does not know the plans of its absence.
    """
    algorithm = node.learner.algorithm
    if record is None:
        return Release(algorithm.start)
    if algorithm.dynamics is None:
        return record.release
    made_for = record.stepped + 1 if record.stepped else record.round
    return Release(algorithm.contain(algorithm.dynamics.moved(record.release, round + 1 - made_for)))


def _charged_by_plan(node: NodeState, plan: Plan) -> int:
    """Return the charges at the start of a life: the plan's count for this run, the operator's for others.

    The result is at least the charges of the journal's earlier lives, as plans may be lost with the broker.
    """
    plan_charges = dict(plan.named).get(node.identity.name, 0)
    return max(node.carried, plan_charges + node.learner.charged_before)


class Phase(StrEnum):
    """A node's phase between two events."""

    WAITING = "waiting"
    LISTENING = "listening"
    LEARNING = "learning"
    DECIDED = "decided"
    HALTED = "halted"


def phase_of(node: NodeState) -> Phase:
    """Return the phase of a node."""
    if node.halted:
        return Phase.HALTED
    if node.open is None:
        return Phase.WAITING
    if node.open.listening:
        return Phase.LISTENING
    return Phase.LEARNING if node.open.settled is None else Phase.DECIDED


ACTIONS: dict[Phase, Callable[[NodeState], bool]] = {
    Phase.WAITING: enter,
    Phase.LISTENING: listen,
    Phase.LEARNING: decide,
    Phase.DECIDED: step,
    Phase.HALTED: lambda _: False,
}
"""Each does what is possible now, and returns whether it did anything."""


class Transition(NamedTuple):
    """From `phase` to `then` once `when` holds: by the phase's action, or by `event` alone."""

    phase: Phase
    when: str
    does: str
    then: Phase
    event: type[Event] | None = None


_HEARD = "releases or the deadline"
_BEHIND = ("more than H plans ahead", "ask to join", Phase.WAITING, PlanArrived)

TRANSITIONS = (
    Transition(Phase.WAITING, "a plan as a full member", "send the release", Phase.LEARNING),
    Transition(Phase.WAITING, "a plan as a listener", "listen", Phase.LISTENING),
    Transition(Phase.WAITING, "a plan without a release for it", "ask to join", Phase.WAITING),
    Transition(Phase.WAITING, "the run's end, or its own", "halt", Phase.HALTED),
    Transition(Phase.WAITING, *_BEHIND),
    Transition(Phase.LISTENING, f"{_HEARD}, and the next plan", "journal the average", Phase.WAITING),
    Transition(Phase.LISTENING, *_BEHIND),
    Transition(Phase.LEARNING, _HEARD, "decide", Phase.DECIDED),
    Transition(Phase.LEARNING, *_BEHIND),
    Transition(Phase.DECIDED, "its slot, if it has one, and the next plan", "step, journal", Phase.WAITING),
    Transition(Phase.DECIDED, *_BEHIND),
)


class NodeMachine:
    """One node. `in_edges`: all provisioned sources; `deadlines`: whether silent sources are given up.

    `isolates`: whether a source that sent two values for a round counts as silent. It must be false where
    others than the source may have written them.
    """

    def __init__(
        self,
        identity: Identity,
        learner: Learner,
        in_edges: Iterable[str],
        horizon: int,
        *,
        deadlines: bool,
        isolates: bool = True,
    ) -> None:
        self.identity = identity
        self._node = NodeState(identity, learner, in_edges, horizon, deadlines=deadlines, isolates=isolates)
        self._started = False
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            Started: self._start,
            PlanArrived: self._add_plan,
            ReleaseArrived: self._receive,
            SlotClosed: self._close_slot,
            NoSlot: self._go_without_slot,
            DeadlinePassed: self._give_up,
            LeaveAsked: self._leave,
        }

    @property
    def halted(self) -> bool:
        """Whether the node is done and accepts no more events."""
        return self._node.halted

    @property
    def planned(self) -> int:
        """The newest round whose plan is known (0: none)."""
        return self._node.book.last_round

    @property
    def held(self) -> bool:
        """Whether the node waits only for some neighbours, and at least as many have sent their releases."""
        open_round = self._node.open
        return open_round is not None and open_round.has_slot and open_round.waits_for_few()

    @property
    def done(self) -> bool:
        """Whether the node waits only for the next plan."""
        open_round = self._node.open
        return open_round is None or (open_round.settled is not None and open_round.has_slot)

    @property
    def heartbeat(self) -> Heartbeat:
        """The node's current heartbeat; the shell sends one each period."""
        return self._node.heartbeat

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Handle one event and return the effects to carry out, in order. Raises Misused."""
        node = self._node
        if node.halted:
            raise Misused("the machine has halted")
        if isinstance(event, Started) == self._started:
            raise Misused("Started comes first, and once")
        node.effects = []
        self._handlers[type(event)](event)
        while ACTIONS[phase_of(node)](node):
            pass
        return tuple(node.effects)

    def _start(self, event: Started) -> None:
        self._started = True
        node = self._node
        node.history = History(node.history.edges, node.horizon, event.records, isolates=node.isolates)
        node.secret, node.carried = event.secret, event.carried
        node.membership.asked_from = event.leave_from
        # in addition to the one of its recovery, which may have begun an instance that no peer knows yet
        node.effects.append(SendHeartbeat(replace(node.heartbeat, hello=True)))
        for arrived in event.plans:
            self._add_plan(arrived)

    def _add_plan(self, event: PlanArrived) -> None:
        node = self._node
        if not node.book.add(event.plan, event.offset):
            node.notice(Notice.PLAN_IGNORED, node.identity.name, event.plan.round)
            return
        record = node.history.record
        reached = node.open.round if node.open else record.round if record else None
        if reached is not None and node.membership.is_behind(reached):
            node.ask_to_join()

    def _receive(self, event: ReleaseArrived) -> None:
        message, offset = event
        node = self._node
        edge = node.history.edges.get(message.source)
        if edge is None:
            raise Misused(f"no edge from {message.source!r} is provisioned")
        planned = partial(node.book.instances, message.source)
        notice = edge.receive(message, offset, node.history.oldest, 3 * node.horizon, planned)
        open_round = node.open
        if notice is None:
            node.silent.discard(message.source)
            if open_round is not None and message.round == open_round.round:
                open_round.hear(message)
            return
        node.notice(notice, message.source, message.round)
        if notice is Notice.EVIDENCE:
            node.effects.append(Evidence(message, edge.first(message.round, message.instance)))
            if open_round is not None and node.isolates:
                open_round.distrust(message)

    def _close_slot(self, event: SlotClosed) -> None:
        open_round = self._node.open
        if open_round is None or open_round.listening or event.round < open_round.round:
            return  # opened before this node asked to join; its records are read again
        if event.round > open_round.round or open_round.slot is not None:
            raise Misused(f"slot {event.round} was not opened, or closed twice, in round {open_round.round}")
        open_round.slot = event

    def _go_without_slot(self, event: NoSlot) -> None:
        open_round = self._node.open
        if open_round is not None and open_round.round == event.round and open_round.slot is None:
            open_round.closing = True

    def _give_up(self, event: DeadlinePassed) -> None:
        node, open_round = self._node, self._node.open
        if open_round is None or open_round.round != event.number or open_round.settled is not None:
            return
        missing = open_round.missing()
        open_round.give_up(missing)
        node.silent.update(missing)
        for source in missing:
            node.notice(Notice.GIVEN_UP, source, event.number)

    def _leave(self, event: LeaveAsked) -> None:
        self._node.membership.asked_from = event.leave_from
        self._node.effects.append(SendHeartbeat(self._node.heartbeat))
