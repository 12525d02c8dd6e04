"""The node machine: one learner's life in a mesh, sans-I/O.

Rules
-----
* Events go in, effects come out. A refused event changes nothing (`Misused`: the caller's mistake). A peer's
  mistakes are noticed and ignored. Nothing read from data can refuse, halt or delay.
* A full member of round t waits for its in-edges' releases, then decides. Once its slot is closed and the
  next plan is known, it steps. Charge, clip, draw and step are one transition, which ends with one `Journal`.
  Only then the release is sent, on the edges that the next plan switches on. A restart sends the same bytes.
* A release is for the next planned round. A plan acts on this node only if it names this node's instance, and
  is not below the round of its newest release: plans that a broker has lost may be made again.
* A listener (in its first planned round) averages the full members' releases, publicly and exactly.
* The weight of a source that is silent at the deadline goes to the own release. If its release comes late,
  within H rounds, the error is corrected once. A source that sent two values for a round counts as silent
  until it joins as a new instance. Where anybody may have written the second one, only the first counts:
  the first in the edge's log, over all restarts, in whatever order rounds came (`InEdge.drop_before`).
* After the last learning round a node relays: zero gradient, exact release, no charge.
* Asked to leave, it says so, and halts at the first plan from that round on that does not name it.

This module takes events; the phases (table in `phases`) act on a `NodeState`: `enter` and `listen` until it
takes part, `decide` and `step` while it learns.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from nodes.learner import Learner
from nodes.machine.events import (
    Effect,
    Event,
    Evidence,
    LeaveAsked,
    Notice,
    PlanArrived,
    ReleaseArrived,
    SendHeartbeat,
    SlotClosed,
    Started,
)
from nodes.machine.history import History
from nodes.machine.phases import ACTIONS, phase_of
from nodes.machine.state import NodeState
from nodes.protocol import DeadlinePassed, Identity, Misused
from topology.plans import Heartbeat


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
            DeadlinePassed: self._give_up,
            LeaveAsked: self._leave,
        }

    @property
    def halted(self) -> bool:
        """Whether the node is done and takes no more events."""
        return self._node.halted

    @property
    def planned(self) -> int:
        """The newest round whose plan is known (0: none)."""
        return self._node.book.last_round

    @property
    def held(self) -> bool:
        """Whether the node waits for nothing but some neighbours, and has heard as many at least."""
        opened = self._node.open
        return opened is not None and opened.slot is not None and opened.waits_for_few()

    @property
    def done(self) -> bool:
        """Whether the node waits for nothing but the next plan."""
        opened = self._node.open
        return opened is None or (opened.settled is not None and opened.slot is not None)

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
        # again, after the one of its recovery: that may have begun a new instance, which nobody has heard of
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
        opened = node.open
        if notice is None:
            node.silent.discard(message.source)
            if opened is not None and message.round == opened.round:
                opened.hear(message)
            return
        node.notice(notice, message.source, message.round)
        if notice is Notice.EVIDENCE:
            node.effects.append(Evidence(message, edge.first(message.round, message.instance)))
            if opened is not None and node.isolates:
                opened.distrust(message)

    def _close_slot(self, event: SlotClosed) -> None:
        opened = self._node.open
        if opened is None or opened.listening or event.round < opened.round:
            return  # opened before this node asked to join; its records are read again
        if event.round > opened.round or opened.slot is not None:
            raise Misused(f"slot {event.round} was not opened, or closed twice, in round {opened.round}")
        opened.slot = event

    def _give_up(self, event: DeadlinePassed) -> None:
        node, opened = self._node, self._node.open
        if opened is None or opened.round != event.number or opened.settled is not None:
            return
        missing = opened.missing()
        opened.give_up(missing)
        node.silent.update(missing)
        for source in missing:
            node.notice(Notice.GIVEN_UP, source, event.number)

    def _leave(self, event: LeaveAsked) -> None:
        self._node.membership.asked_from = event.leave_from
        self._node.effects.append(SendHeartbeat(self._node.heartbeat))
