"""A node's state between two events, and the one place that writes a journal record.

The machine and the actions of its phases (`nodes.machine.machine`) change it.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np

from nodes.learner import Learner
from nodes.machine.events import Effect, Journal, Notice, SendHeartbeat, SlotClosed
from nodes.machine.history import History, InEdge
from nodes.machine.journal import DataPosition, GivenUp, JournalRecord, ReleaseMessage
from nodes.machine.membership import Membership, PlanBook
from nodes.privacy.mechanism import Secret
from nodes.protocol import Halt, Identity, Noticed, Stepped
from nodes.values import (
    MOST_ROWS,
    Average,
    Consensus,
    Decision,
    FloatArray,
    Release,
    mixed,
    rows_after,
    squares_of,
)
from topology.plans import MOST_TOLD, Heartbeat, Plan
from topology.weights import Weights

# One round of a full member or listener: the releases that it waits for, and their consensus.

Heard = tuple[str, float, Release]
"""A source that counts, its weight, its release."""


class OpenRound:
    """A node's current round, from plan to step; `settled` once consensus and decision are fixed.

    Beside them is the average of all decisions up to this one, but for those of closing rounds. `closing`:
    the node has no slot, and learns nothing.
    """

    def __init__(self, name: str, plan: Plan, edges: Mapping[str, InEdge], *, closing: bool) -> None:
        place = plan.place(name)
        if place is None:
            raise ValueError(f"plan {plan.round} does not name {name!r}")
        self.plan = plan
        self.place = place
        self.round = plan.round
        self.listening = not place.member.full
        self.closing = closing
        self.slot: SlotClosed | None = None
        self.settled: tuple[Consensus, Decision, Average | None] | None = None
        self.corrected: tuple[tuple[int, str], ...] = ()
        self.given_up: tuple[GivenUp, ...] = ()
        self.deadline_started = False
        self.asked_at_once = False
        self._counted = {  # the instances to wait for, in bytes order: provisioned, trusted, not given up
            source: instance
            for (source, instance, _), _ in place.row
            if source in edges and not edges[source].distrusts(instance)
        }
        self._releases: dict[str, Release] = {}
        for source, instance in self._counted.items():
            release = edges[source].release(plan.round, instance)
            if release is not None:
                self._releases[source] = release

    def hear(self, message: ReleaseMessage) -> None:
        """Store the first release of a source for this round."""
        if self._counted.get(message.source) == message.instance:
            self._releases[message.source] = message.release

    def distrust(self, message: ReleaseMessage) -> None:
        """Count the sender's instance as silent, as it has sent two values for a round."""
        if self._counted.get(message.source) == message.instance:
            del self._counted[message.source]
            self._releases.pop(message.source, None)

    @property
    def has_slot(self) -> bool:
        """Whether the slot is closed, if the round has one."""
        return self.closing or self.slot is not None

    def is_waiting(self) -> bool:
        """Return whether a source is missing."""
        return len(self._releases) < len(self._counted)

    def waits_for_few(self) -> bool:
        """Return whether sources are missing, and at least as many have sent their releases."""
        return self.is_waiting() and 2 * len(self._releases) >= len(self._counted)

    def missing(self) -> list[str]:
        """Return the sources that are neither heard, nor distrusted, nor given up."""
        return [source for source in self._counted if source not in self._releases]

    def give_up(self, sources: list[str]) -> None:
        """Count the sources as silent in this round: their weights go to the own release."""
        for source, weight in self.place.row:
            if source.name in sources:
                self.given_up += (GivenUp(source.name, source.instance, weight),)
                del self._counted[source.name]

    def heard(self) -> list[Heard]:
        """Return (source, weight, release) of the sources that count, in bytes order."""
        releases = self._releases
        return [
            (source, weight, releases[source])
            for (source, _, _), weight in self.place.row
            if source in releases
        ]

    def consensus(self, own: Release, heard: list[Heard]) -> FloatArray:
        """Return sum_j a_ij q_j, shape (d,); the weights of sources not heard go to the own release."""
        return mixed([*heard, (self.place.member.name, self._own_weight(heard), own)])

    def share(self, heard: list[Heard], closing: tuple[Plan, ...]) -> float:
        """Return the sum of squares of the consensus's weights; after `closing` rounds, of their product."""
        weights = [(source, weight) for source, weight, _ in heard]
        weights.append((self.place.member.name, self._own_weight(heard)))
        rows = _rows(closing, self.plan) if self.plan.closing else None
        if rows is None:
            return float(mixed([(source, weight, np.array(weight)) for source, weight in weights]))
        places = {member.name: place for place, member in enumerate(self.plan.members)}
        return float(
            squares_of(mixed([(source, weight, rows[places[source]]) for source, weight in weights]))
        )

    def _own_weight(self, heard: list[Heard]) -> float:
        place = self.place
        own_weight = place.own_weight
        if len(heard) < len(place.row):
            present = {source for source, _, _ in heard}
            for source, weight in place.row:
                own_weight += 0.0 if source.name in present else weight
        return own_weight

    def average(self, heard: list[Heard]) -> FloatArray:
        """Return the equal-weight average of the received releases (a listener's consensus), shape (d,)."""
        return mixed([(source, 1.0 / len(heard), release) for source, _, release in heard])


@lru_cache(maxsize=16)  # nodes of one process share it
def _rows(closing: tuple[Plan, ...], plan: Plan) -> FloatArray | None:
    """Return the product (N, N) of the weights of `closing` rounds before a plan, since all had its members.

    None: some members listen, or there are too many.
    """
    names = _mixing(plan)
    if names is None or len(names) > MOST_ROWS:
        return None
    if not closing or _mixing(closing[-1]) != names:
        return np.eye(len(names))
    before = closing[-1]
    weights = Weights(names, before.sources, before.targets, before.weights)
    return rows_after(_rows(closing[:-1], before), weights)


def _mixing(plan: Plan) -> tuple[str, ...] | None:
    """Return the members, if all of them mix."""
    return (
        tuple([member.name for member in plan.members])
        if all(member.full for member in plan.members)
        else None
    )


class NodeState:
    """One node: its settings, history, known plans, current round, and pending effects.

    Attributes
    ----------
    open : OpenRound or None
        The current round; None: it waits for a plan.
    silent : set of str
        Sources given up, and not heard since.
    secret : Secret or None
        The mechanism's state, which goes into the journal unchanged.
    isolates : bool
        Whether an instance that sent two values for a round counts as silent.
    carried : int
        The rounds that earlier lives of the journal have charged.
    effects : list of Effect
        The effects of this event so far, in order.
    """

    def __init__(
        self,
        identity: Identity,
        learner: Learner,
        in_edges: Iterable[str],
        horizon: int,
        *,
        deadlines: bool,
        isolates: bool,
    ) -> None:
        self.identity = identity
        self.learner = learner
        self.horizon = horizon
        self.deadlines = deadlines
        self.isolates = isolates
        self.history = History(in_edges, horizon, isolates=isolates)
        self.book = PlanBook()
        self.membership = Membership(identity, self.book, horizon, learner.leave_from)
        self.open: OpenRound | None = None
        self.silent: set[str] = set()
        self.secret: Secret | None = None
        self.carried = 0
        self.effects: list[Effect] = []
        self.halted = False
        self._steps = 0
        self._told_finished = False

    @property
    def heartbeat(self) -> Heartbeat:
        """The node's current heartbeat."""
        identity, wish = self.identity, self.membership.join_after
        return Heartbeat(
            identity.run,
            identity.name,
            identity.instance,
            identity.boot,
            self.history.stepped,
            wish,
            self.membership.leave_from,
            accused=self.history.accused()[:MOST_TOLD],
            finished=self.finished,
        )

    @property
    def finished(self) -> bool:
        """Whether it learns in no later round, as its budget is spent."""
        record = self.history.record
        return record is not None and not self.learner.ledger.may_learn(record.round, record.charged)

    def tell_finished(self) -> None:
        """Say at once that it learns no more, the first time that it does not: schedulers wait for it."""
        if self.finished and not self._told_finished:
            self._told_finished = True
            self.effects.append(SendHeartbeat(self.heartbeat))

    @property
    def opened(self) -> OpenRound:
        """The current round. Raises RuntimeError if there is none."""
        if self.open is None:
            raise RuntimeError("no round was entered")
        return self.open

    @property
    def record(self) -> JournalRecord:
        """The newest record of a node in a round. Raises RuntimeError if no round was entered."""
        if self.history.record is None:
            raise RuntimeError("no round was entered")
        return self.history.record

    def notice(self, notice: Notice, source: str, round: int) -> None:
        """Report a notice about a peer or plan."""
        self.effects.append(Noticed(notice, source, round))

    def halt(self, reason: str) -> None:
        """End the node's work for good; the last heartbeat reports the last round."""
        self.halted = True
        self.effects += (SendHeartbeat(self.heartbeat), Halt(reason))

    def open_round(self, plan: Plan) -> OpenRound:
        """Enter the round of the plan; drop earlier plans."""
        closing = plan.closing > 0 or self.membership.closes(plan.round)
        self.open = OpenRound(self.identity.name, plan, self.history.edges, closing=closing)
        self.book.drop_before(plan.round)
        return self.open

    def ask_to_join(self) -> None:
        """Leave the round, if any, and ask to listen in a plan above the newest known one."""
        self.open = None
        wish = self.membership.ask_to_join()
        self.notice(Notice.JOINING, self.identity.name, wish)
        self.effects.append(SendHeartbeat(self.heartbeat))

    def write(
        self,
        following: Plan,
        *,
        stepped: int,
        release: Release,
        exact: bool,
        charged: int,
        average: Average | None = None,
        position: DataPosition | None = (),
        read: DataPosition = (),
        given_up: tuple[GivenUp, ...] = (),
        corrected: tuple[tuple[int, str], ...] = (),
    ) -> None:
        """End a transition: journal the release for the round of `following`, made in `stepped` (0: none).

        A heartbeat follows every (H/4)-th step.
        """
        record = JournalRecord(
            round=following.round,
            stepped=stepped,
            release=release,
            exact=exact,
            charged=charged,
            epsilon_spent=self.learner.ledger.spent(charged, stepped),
            data_position=position,
            topology_position=self.book.offset(following.round),
            edge_positions=self.history.edge_positions(),
            given_up=given_up,
            corrected=corrected,
            distrusted=self.history.distrusted(),
            average=average,
            pardoned=self.history.pardoned(),
            read=read,
        )
        self.history.remember(record)
        self.effects.append(Journal(record, self.secret))
        if stepped:
            self._steps += 1
            self.effects.append(Stepped(stepped, record))
            if self._steps % max(1, self.horizon // 4) == 0:
                self._told_finished = self.finished
                self.effects.append(SendHeartbeat(self.heartbeat))
            self.tell_finished()
