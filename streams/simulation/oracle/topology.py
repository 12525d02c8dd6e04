"""Reads the topology as readers do, and checks every plan: which nodes it names, and by which mesh file."""

from collections.abc import Iterable, Mapping

from streams.simulation.history import Reached, SimulatedHistory, Violation
from streams.simulation.oracle.given import Excuses, Setup
from streams.simulation.oracle.wire import (
    NOTHING,
    TOLERANCE,
    ReadBeat,
    ReadMember,
    ReadPlan,
    ReadPlans,
    Unreadable,
    WireReader,
)

READ = 1.0
"""Seconds in which a scheduler reads all that is on a topic, and its plans reach the topology."""


class PlanLog:
    """The chain of valid plans. `valid` has the plans of each round: several only if plans were `lost`."""

    def __init__(self, setup: Setup, wire: WireReader, excuses: Excuses, history: SimulatedHistory) -> None:
        self.last: ReadPlan | None = None
        self.lost = False
        self.valid: dict[int, list[ReadPlan]] = {}
        self._setup, self._wire, self._excuses, self._history = setup, wire, excuses, history
        self._topics = {name: topic for topic, name in setup.progress.items()}
        self._named: dict[str, int] = {}
        self._marks = {NOTHING}
        self._told: dict[str, dict[str, float]] = {}  # by node: instances, last told at
        self._beats: dict[str, ReadBeat] = {}
        self._beaten: dict[str, float] = {}
        self._leaving: dict[str, float] = {}  # by node: since when its heartbeats name the same round
        self._replaced: dict[str, set[str]] = {}  # by node: boots of processes that a later hello replaced

    @property
    def named(self) -> Mapping[str, int]:
        """The number of valid plans that have named each node."""
        return self._named

    def closing_before(self, plan: ReadPlan) -> list[ReadPlan]:
        """Return the closing rounds right before a plan, in order; none for a round of learning."""
        chain: list[ReadPlan] = []
        while plan.closing and (before := self.valid.get(plan.follows)) and before[-1].closing:
            plan = before[-1]
            chain.insert(0, plan)
        return chain

    def heard(self, beat: ReadBeat) -> None:
        """Handle a heartbeat that has been appended to a node's progress."""
        now = self._history.now
        self._told.setdefault(beat.node, {})[beat.instance] = now
        before_it, replaced = self._beats.get(beat.node), self._replaced.setdefault(beat.node, set())
        if beat.boot in replaced:
            return
        if before_it is not None and beat.hello and before_it.boot != beat.boot:
            replaced.add(before_it.boot)
        if before_it is None or before_it.instance != beat.instance:
            self._beaten[beat.node] = now
        if before_it is None or before_it.leave_from != beat.leave_from:
            self._leaving[beat.node] = now
        self._beats[beat.node] = beat

    def last_beat(self, name: str) -> ReadBeat | None:
        """Return a node's last heartbeat."""
        return self._beats.get(name)

    def appended(self, value: bytes, stepped: Mapping[str, int]) -> None:
        """Handle a record. Schedulers must be the only writers of readable plans. Raises Violation."""
        record = self._record(value, self._history.now)
        if record is None:
            return
        first, last = record.plans[0].round, record.plans[-1].round
        if record.continues not in self._marks:
            raise Violation(f"plan {first} continues a plan that nobody has published")
        self._marks.update(plan.mark for plan in record.plans)
        if not self._continues(record):
            self._history.note("topology", "void", f"plans {first} to {last}")
            return
        self._history.note("topology", "plans", f"{first} to {last}: {_words(record.plans[-1])}")
        for plan in record.plans:
            self._check(plan, stepped)
            self.valid.setdefault(plan.round, []).append(plan)
            self._count(plan)

    def read_again(self, left: Iterable[tuple[bytes, float]]) -> None:
        """Record that the topology has lost its last records.

        `left`: the others, and when each was appended.
        """
        self.lost = True
        self.last, self._named = None, {}
        for value, appended in left:
            record = self.readable(value, appended)
            if record is not None and self._continues(record):
                for plan in record.plans:
                    self._count(plan)

    def readable(self, value: bytes, appended: float) -> ReadPlans | None:
        """Return the plans of a record; None if readers refuse the record."""
        try:
            return self._wire.plans(value, appended)
        except Unreadable:
            return None

    def _record(self, value: bytes, appended: float) -> ReadPlans | None:
        try:
            record = self._wire.plans(value, appended)
        except Unreadable as refusal:
            if str(refusal) != "ahead" and (self._setup.topology, value) not in self._excuses.forged:
                raise Violation(f"a scheduler publishes what nobody can read: {refusal}") from None
            if str(refusal) == "ahead":
                self._history.note("topology", "ahead", "of the clock")
            return None
        if (self._setup.topology, value) in self._excuses.forged:
            raise Violation("a stranger's plan can be read")
        return record

    def _continues(self, record: ReadPlans) -> bool:
        last = self.last
        if last is None:
            return record.continues == NOTHING
        return not last.ended and record.continues == last.mark and record.plans[0].follows == last.round

    def _count(self, plan: ReadPlan) -> None:
        for member in plan.members:
            self._named[member.name] = self._named.get(member.name, 0) + (not plan.closing)
        self.last = plan

    # -------------------------------------------------------------------------------------- one plan

    def _check(self, plan: ReadPlan, stepped: Mapping[str, int]) -> None:
        if plan.named != self._named:
            raise Violation(f"plan {plan.round} counts {plan.named}: the plans so far say {self._named}")
        if plan.round > plan.follows + 1 and plan.follows:
            self._history.reached.add(Reached.GAP)
        self._check_file(plan)
        self._check_round(plan, stepped)
        self._check_closing(plan)
        self._check_weights(plan)
        self._check_members(plan)

    def _check_round(self, plan: ReadPlan, stepped: Mapping[str, int]) -> None:
        """Check that a plan is not far ahead of every node, and that the run does not end early."""
        setup, excuses = self._setup, self._excuses
        horizon, furthest = setup.horizon, max(stepped.values(), default=0)
        clock_round = excuses.ahead if setup.clock is None else setup.clock.round_at(self._history.now)
        bound = max(furthest + 2 * horizon, plan.follows + horizon, clock_round + horizon) + 1
        if plan.round > bound and not self._liars_have_the_say():
            raise Violation(f"plan {plan.round} is far ahead: nobody has stepped more than {furthest}")
        expected_nodes = set(self._named) - excuses.rolled_back - excuses.liars - set(excuses.clones)
        expected_nodes -= {name for name, beat in self._beats.items() if beat.leave_from is not None}
        # a journal without a round cannot continue
        expected_nodes = {name for name in expected_nodes if stepped.get(name)}
        closed = self.last.closing == 1 if self.last is not None else plan.round > self._rounds(plan)
        if plan.ended and not closed and expected_nodes:
            raise Violation(
                f"the run ends before round {plan.round}, though {min(expected_nodes)} has its journal"
            )

    def _check_closing(self, plan: ReadPlan) -> None:
        """Check that closing rounds follow the last lesson, all of them, and nothing else does.

        A plan in which nobody is full begins again after lost plans, and is none of them.
        """
        before, any_full, rounds = self.last, any(map(_is_full, plan.members)), self._rounds(plan)
        if plan.ended or before is None:
            return
        if before.closing:
            if plan.closing != before.closing - any_full:
                raise Violation(f"plan {plan.round} has {plan.closing} closing rounds left")
        elif plan.closing:
            nodes = set(self._named).union(member.name for member in plan.members)
            if plan.round <= rounds and not all(map(self._learns_no_more, nodes)):
                raise Violation(
                    f"plan {plan.round} is a closing one, though not all have learnt what they may"
                )
        elif any_full and plan.round > rounds:
            raise Violation(f"plan {plan.round} lets nodes learn after round {rounds}")

    def _rounds(self, plan: ReadPlan) -> int:
        """Return the last round of learning, by the file that a plan was made by."""
        return self._setup.files[plan.generation].rounds

    def _learns_no_more(self, name: str) -> bool:
        """Return whether a node has told that it learns no more, or that it leaves; a liar may tell both."""
        beat = self._beats.get(name)
        if beat is None or name in self._excuses.liars or self._topics[name] in self._excuses.forgotten:
            return True
        return beat.finished or beat.leave_from is not None

    def _liars_have_the_say(self) -> bool:
        """Return whether more than half of the last plan's members lie, so that they decide their median."""
        members = {member.name for member in self.last.members} if self.last else set()
        return 2 * len(members & self._excuses.liars) > len(members)

    def _check_file(self, plan: ReadPlan) -> None:
        """Check that a plan's mesh file is not older than the last plan's, and that the plan fits it."""
        before = 0 if self.last is None else self.last.generation
        if plan.generation < before:
            raise Violation(f"plan {plan.round} is of generation {plan.generation}, after one of {before}")
        if plan.generation > min(self._setup.files):
            self._history.reached.add(Reached.GENERATION)
        file = self._setup.files.get(plan.generation)
        names = [member.name for member in plan.members]
        if file is None or not set(names) <= set(file.tree["mesh"]["nodes"]):
            raise Violation(
                f"plan {plan.round} names {names}, by a mesh file of generation {plan.generation}"
            )
        edges = {(names[source], names[target]) for source, target, _ in plan.edges}
        if not edges <= file.edges:
            raise Violation(f"plan {plan.round} has edges {sorted(edges - file.edges)}, which have no topic")

    def _check_weights(self, plan: ReadPlan) -> None:
        """Check that a listener's sources have equal weights. The reader of the plan has checked the sums."""
        for member in plan.members:
            row = plan.row(member.name)
            if not member.full and any(abs(weight * len(row) - 1) > TOLERANCE for _, weight in row):
                raise Violation(f"plan {plan.round} lets {member.name} listen with unequal weights")

    def _check_members(self, plan: ReadPlan) -> None:
        """Check that each member's life has said hello, and that a new member listens first."""
        begins_again = not any(member.full for member in plan.members)
        for member in plan.members:
            earlier_member = self.last.member(member.name) if self.last else None
            if member.instance not in self._told.get(member.name, {}) and earlier_member is None:
                raise Violation(f"plan {plan.round} names a life of {member.name} that nobody has told")
            new = self.last is not None and (
                earlier_member is None or earlier_member.instance != member.instance
            )
            if member.full and new and not begins_again:
                raise Violation(f"plan {plan.round} has {member.name} full at once: it has not listened")
            self._check_current(plan, member.name, member.instance)

    def _check_current(self, plan: ReadPlan, name: str, instance: str) -> None:
        """Check that a plan agrees with the node's current heartbeat, unless schedulers may be late."""
        excuses, beat, since = self._excuses, self._beats.get(name), self._history.now - READ
        if since < excuses.late_until or beat is None or name in excuses.liars:
            return
        if self._topics[name] in excuses.forgotten:
            return
        if beat.instance != instance and since > self._beaten[name]:
            raise Violation(f"plan {plan.round} names an earlier life of {name}")
        leave_from = beat.leave_from
        if leave_from is not None and plan.round >= leave_from and since > self._leaving[name]:
            raise Violation(f"plan {plan.round} names {name}, which leaves from round {leave_from} on")


def _is_full(member: ReadMember) -> bool:
    return member.full


def _words(plan: ReadPlan) -> str:
    if plan.ended:
        return "the run ends"
    words = " ".join(f"{member.name}{'' if member.full else ' listens'}" for member in plan.members)
    return f"{words}, {plan.closing} closing rounds left" if plan.closing else words
