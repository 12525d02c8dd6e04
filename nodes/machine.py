"""The node machine: one learner's life in a mesh, sans-I/O.

Rules
-----
* Events in, effects out; a refused event changes nothing (`Misused`: the caller's mistake). What a peer does
  wrong is noticed, and ignored. Nothing that is read from data can refuse, halt or delay.
* A full member of round t waits for its in-edges' releases, then decides; with its slot closed and the next
  plan known it steps. Charge, clip, draw and step are one transition, ended by one `Journal`; only then is
  the release sent, on the edges that the next plan switches on. A restart sends the same bytes again.
* A release is for the next planned round. A plan acts on this node only if it names this node's instance.
* A listener (first planned round) averages what it hears of full members, publicly and exactly.
* A source that is silent at the deadline gives its weight to the own release; its late release is made good,
  once, within H rounds. A source that sent two values for a round is silent until it joins as a new instance.
* After the last learning round a node relays: zero gradient, exact release, no charge.

| phase     | waits for                               | then                                     |
|-----------|-----------------------------------------|------------------------------------------|
| waiting   | a plan that names this instance         | enter it; the run's end: halt            |
| listening | releases or the deadline, the next plan | journal the average; waiting             |
| learning  | releases or the deadline                | decide                                   |
| decided   | its slot, the next plan                 | step, journal; waiting                   |
| any       | (more than H rounds behind)             | ask to join; waiting                     |
| halted    | nothing                                 |                                          |
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from nodes.averages import Average, averaged
from nodes.events import (
    DeadlinePassed,
    Decided,
    Effect,
    Event,
    Evidence,
    Foreseen,
    Halt,
    Journal,
    Notice,
    Noticed,
    OpenSlot,
    PlanArrived,
    ReleaseArrived,
    Scored,
    SendHeartbeat,
    SendRelease,
    SlotClosed,
    StartDeadline,
    Started,
    Stepped,
)
from nodes.journal import DataPosition, GivenUp, JournalRecord
from nodes.learner import Learner
from nodes.membership import Choice, Identity, Membership
from nodes.messages import ReleaseMessage
from nodes.past import Past
from nodes.plan_book import PlanBook
from nodes.privacy.mechanism import Secret
from nodes.rounds import OpenRound
from nodes.values import Consensus, Decision, FloatArray, Release
from topology.plans import Heartbeat, Plan


class Misused(Exception):
    """The caller broke the machine's protocol."""


class NodeMachine:
    """One node. `in_edges`: every provisioned source; `deadlines`: whether silence is ever given up on."""

    def __init__(
        self, identity: Identity, learner: Learner, in_edges: Iterable[str], horizon: int, *, deadlines: bool
    ) -> None:
        self.identity = identity
        self.learner = learner
        self.halted = False
        self._horizon = horizon
        self._deadlines = deadlines
        self._past = Past(in_edges, horizon)
        self._book = PlanBook()
        self._membership = Membership(identity, self._book, horizon, learner.leave_from)
        self._silent: set[str] = set()
        self._started = False
        self._open: OpenRound | None = None
        self._steps = 0
        self._secret: Secret | None = None  # of the noise; goes into the journal as it comes
        self._out: list[Effect] = []
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            Started: self._start,
            PlanArrived: self._add_plan,
            ReleaseArrived: self._receive,
            SlotClosed: self._close_slot,
            DeadlinePassed: self._give_up,
        }

    @property
    def heartbeat(self) -> Heartbeat:
        """What the node says of itself now; the shell sends it each period."""
        who, wish = self.identity, self._membership.join_after
        return Heartbeat(
            who.run, who.name, who.instance, who.boot, self._past.stepped, wish, self.learner.leave_from
        )

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Take one event and return what is to be done, in order. Raises Misused."""
        if self.halted:
            raise Misused("the machine has halted")
        if isinstance(event, Started) == self._started:
            raise Misused("Started comes first, and once")
        self._out = []
        self._handlers[type(event)](event)
        while self._advance():
            pass
        return tuple(self._out)

    # ------------------------------------------------------------------------------------------- events

    def _start(self, event: Started) -> None:
        self._started = True
        self._past = Past(self._past.edges, self._horizon, event.records)
        self._secret = event.secret
        self._out.append(SendHeartbeat(replace(self.heartbeat, hello=True)))
        for arrived in event.plans:
            self._add_plan(arrived)

    def _add_plan(self, event: PlanArrived) -> None:
        if not self._book.add(event.plan, event.offset):
            self._notice(Notice.PLAN_IGNORED, self.identity.name, event.plan.round)
            return
        record = self._past.record
        reached = self._open.round if self._open else record.round if record else None
        if reached is not None and self._membership.is_behind(reached):
            self._ask_to_join()

    def _receive(self, event: ReleaseArrived) -> None:
        message, offset = event
        edge = self._past.edges.get(message.source)
        if edge is None:
            raise Misused(f"no edge from {message.source!r} is provisioned")
        notice = edge.receive(message, offset, self._past.oldest, most=3 * self._horizon)
        opened = self._open
        if notice is None:
            self._silent.discard(message.source)
            if opened is not None and message.round == opened.round:
                opened.hear(message)
            return
        self._notice(notice, message.source, message.round)
        if notice is Notice.EVIDENCE:
            self._out.append(Evidence(message, edge.first(message.round, message.instance)))
            if opened is not None:
                opened.distrust(message)

    def _close_slot(self, event: SlotClosed) -> None:
        opened = self._open
        if opened is None or opened.listening or event.round < opened.round:
            return  # opened before this node asked to join: its records are read again
        if event.round > opened.round or opened.slot is not None:
            raise Misused(f"slot {event.round} was not opened, or closed twice, in round {opened.round}")
        opened.slot = event

    def _give_up(self, event: DeadlinePassed) -> None:
        opened = self._open
        if opened is None or opened.round != event.round or opened.settled is not None:
            return
        missing = opened.missing()
        opened.give_up(missing)
        self._silent.update(missing)
        for source in missing:
            self._notice(Notice.GIVEN_UP, source, event.round)

    # ------------------------------------------------------------------------------------------- phases

    def _advance(self) -> bool:
        """Do what can be done next; return whether something was."""
        opened = self._open
        if opened is None:
            return self._enter()
        if opened.listening:
            return self._listen(opened)
        if opened.settled is None:
            return self._decide(opened)
        return self._step(opened, *opened.settled)

    def _enter(self) -> bool:
        """Enter the first plan that this instance can act on."""
        chosen = self._membership.choose(self._past.record)
        if chosen is None:
            if self._past.record is None or self._membership.join_after is not None:
                self._past.join_from(self._book.last_round + 1)  # in a later plan, if at all
                self._book.drop_before(self._book.last_round + 1)
            return False
        choice, plan = chosen
        match choice:
            case Choice.TAKE_PART:
                self._take_part(plan)
                return True
            case Choice.OVER:
                self._halt("the run is over")
            case Choice.LEFT:
                self._halt("the budget is spent, and the node has left")
            case Choice.JOIN:
                self._ask_to_join()
                return True
            case Choice.LISTEN:
                self._past.join_from(plan.round)
                self._open_round(plan)
                return True
        return False

    def _open_round(self, plan: Plan) -> OpenRound:
        self._open = OpenRound(self.identity.name, plan, self._past.edges)
        self._book.drop_before(plan.round)
        return self._open

    def _take_part(self, plan: Plan) -> None:
        place = self._open_round(plan).place
        if self._past.record is None:
            start, charged = Release(self.learner.algorithm.start), self._charged_by_plan(plan)
            position = None if self.learner.from_end else ()
            self._write(plan, stepped=0, release=start, exact=True, charged=charged, position=position)
        record = self._known_record()
        targets = tuple(filter(self._past.edges.__contains__, place.targets))
        if targets:
            self._out.append(SendRelease(targets, self._message(record)))
        self._out.append(OpenSlot(plan.round, record.data_position))
        if self._deadlines and place.row:
            self._out.append(StartDeadline(plan.round))

    def _listen(self, opened: OpenRound) -> bool:
        if self._deadlines and not opened.deadline_started and self._membership.mesh_has_come(opened.round):
            opened.deadline_started = True
            self._out.append(StartDeadline(opened.round))
        following = self._book.first_after(opened.round)
        if following is None or opened.is_waiting():
            return False
        heard = opened.heard()
        record = self._past.record
        if heard:
            release = Release(self.learner.algorithm.contain(opened.average(heard)))
        else:
            release = record.release if record else Release(self.learner.algorithm.start)
        charged = record.charged if record else self._charged_by_plan(opened.plan)
        position = record.data_position if record else None
        average = record.average if record else None
        self._membership.join_after = None
        self._notice(Notice.LISTENED, self.identity.name, opened.round)
        self._write(
            following,
            stepped=opened.round,
            release=release,
            exact=True,
            charged=charged,
            average=average,
            position=position,
        )
        self._open = None
        return True

    def _decide(self, opened: OpenRound) -> bool:
        if opened.is_waiting():
            if self._deadlines and not opened.asked_at_once and self._silent.issuperset(opened.missing()):
                opened.asked_at_once = True
                self._out.append(StartDeadline(opened.round, at_once=True))
            return False
        own = self._known_record().release
        heard = opened.heard()
        opened.corrected = tuple(self._past.late())
        consensus = self._corrected(opened.consensus(own, heard), opened.corrected)
        decision = self.learner.algorithm.decide(opened.round, consensus)
        opened.settled = consensus, decision
        releases = tuple([release for _, _, release in heard])
        edges = tuple([source.name for source, _ in opened.place.row])
        self._out.append(Decided(opened.round, decision, own, releases, edges))
        return True

    def _corrected(self, consensus: FloatArray, late: tuple[tuple[int, str], ...]) -> Consensus:
        """Add a_ij(t) (q_t^j - q_t^i) for each source given up in t whose release has come since."""
        for lost_round, source in late:
            consensus = consensus + self._past.correction(lost_round, source)
            self._notice(Notice.CORRECTED, source, lost_round)
        return Consensus(self.learner.algorithm.contain(consensus) if late else consensus)

    def _step(self, opened: OpenRound, consensus: Consensus, decision: Decision) -> bool:
        """Charge, clip, draw and step: one transition, one journal record."""
        slot = opened.slot
        if slot is None:
            return False
        following = self._book.first_after(opened.round)
        if following is None:
            return False
        before = self._known_record()
        self._out.append(Foreseen(opened.round, decision, slot.observations, slot.places))
        lesson = self.learner.learn(
            opened.round, consensus, decision, slot.observations, before.charged, self._secret
        )
        self._secret = lesson.secret
        self._write(
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
        found = lesson.gradient, lesson.clipped, lesson.broken, slot.truth
        self._out.append(Scored(opened.round, decision, slot.observations, *found))
        self._open = None
        return True

    # ------------------------------------------------------------------------------------------- helpers

    def _write(
        self,
        following: Plan,
        *,
        stepped: int,
        release: Release,
        exact: bool,
        charged: int,
        average: Average | None = None,
        position: DataPosition | None = (),
        given_up: tuple[GivenUp, ...] = (),
        corrected: tuple[tuple[int, str], ...] = (),
    ) -> None:
        record = JournalRecord(
            round=following.round,
            stepped=stepped,
            release=release,
            exact=exact,
            charged=charged,
            epsilon_spent=self.learner.ledger.spent(charged, stepped),
            data_position=position,
            topology_position=self._book.offset(following.round),
            edge_positions=self._past.edge_positions(),
            given_up=given_up,
            corrected=corrected,
            distrusted=self._past.distrusted(),
            average=average,
        )
        self._past.remember(record)
        self._out.append(Journal(record, self._secret))
        if stepped:
            self._steps += 1
            self._out.append(Stepped(stepped, record))
            if self._steps % max(1, self._horizon // 4) == 0:
                self._out.append(SendHeartbeat(self.heartbeat))

    def _message(self, record: JournalRecord) -> ReleaseMessage:
        who = self.identity
        simulated = self.learner.mechanism.simulated
        return record.message(who.run, who.name, who.instance, simulated=simulated)

    def _known_record(self) -> JournalRecord:
        if self._past.record is None:
            raise Misused("no round was entered")
        return self._past.record

    def _charged_by_plan(self, plan: Plan) -> int:
        """Return what is charged where a journal begins: the plan counts this run, the operator others."""
        return dict(plan.named).get(self.identity.name, 0) + self.learner.charged_before

    def _ask_to_join(self) -> None:
        self._open = None
        wish = self._membership.ask_to_join()
        self._notice(Notice.JOINING, self.identity.name, wish)
        self._out.append(SendHeartbeat(self.heartbeat))

    def _notice(self, notice: Notice, source: str, round: int) -> None:
        self._out.append(Noticed(notice, source, round))

    def _halt(self, reason: str) -> None:
        self.halted = True
        self._out.append(Halt(reason))


def _moved_on(before: DataPosition | None, after: DataPosition) -> DataPosition | None:
    """Return the position after a slot: a partition that it does not mention was not read from."""
    if not after:
        return before
    merged = dict(before or ()) | dict(after)
    return after if len(merged) == len(after) else tuple(sorted(merged.items()))
