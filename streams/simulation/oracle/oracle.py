"""Checks the events of a history one by one. Raises Violation for a forbidden one."""

from collections.abc import Iterable

import numpy as np

from streams.simulation.history import Reached, SimulatedHistory, Violation
from streams.simulation.oracle.given import (
    Begun,
    Durable,
    Excuses,
    FloatArray,
    HandedDecision,
    HandedSlot,
    LabelFacts,
    Repeated,
    Setup,
    close,
)
from streams.simulation.oracle.releases import EdgeLog, Lives, WatchedProcess
from streams.simulation.oracle.steps import Draw, Steps, rows_of
from streams.simulation.oracle.topology import PlanLog
from streams.simulation.oracle.wire import ReadBeat, ReadMember, ReadPlan, Unreadable, WireReader

GRACE = 5.0
"""Seconds of calm after which every message that was in flight has arrived and been read."""


class Oracle:
    """All checks of one history. Faults note in `excuses` which nodes and topics they excuse."""

    def __init__(self, setup: Setup, repeated: Repeated, history: SimulatedHistory) -> None:
        self.excuses, self._setup, self._repeated, self._history = Excuses(), setup, repeated, history
        self._wire = WireReader(setup)
        self.topology = PlanLog(setup, self._wire, self.excuses, history)
        self._edges = EdgeLog(setup, self.excuses, history)
        self._lives = Lives(setup, self._edges)
        self._steps = Steps(setup, self.topology, self._edges, repeated, self.excuses, history)
        self.stepped: dict[str, int] = {}
        self._newest: dict[int, WatchedProcess] = {}  # by folder
        self._processes: list[WatchedProcess] = []
        self._wishes: dict[str, int] = {}
        self._hellos: dict[tuple[str, str], tuple[int, float]] = {}  # by node and boot: order, time
        self._missing: dict[tuple[str, int], set[str]] = {}
        self._own: dict[int, dict[str, FloatArray]] = {}
        self._partial: set[int] = set()

    @property
    def last_plan(self) -> ReadPlan | None:
        """The last valid plan that the topology still has."""
        return self.topology.last

    def last_beat(self, name: str) -> ReadBeat | None:
        """Return a node's last heartbeat."""
        return self.topology.last_beat(name)

    # ------------------------------------------------------------------------------------- the broker's

    def appended(self, topic: str, value: bytes) -> None:
        """Handle a new record of any topic. Raises Violation."""
        setup = self._setup
        if topic == setup.topology:
            self.topology.appended(value, self.stepped)
        elif topic in setup.edge_topics:
            source = setup.edge_topics[topic][0]
            try:
                release = self._wire.release(value, source)
            except Unreadable:
                release = None
            self._check_forged(topic, value, readable=release is not None)
            self._edges.appended(topic, release, self._lives.most_charged(source))
        elif topic in setup.progress:
            self._beat_appended(setup.progress[topic], value)

    def forgotten(self, topic: str, count: int, left: Iterable[tuple[bytes, float]]) -> None:
        """Record that a topic has lost its last `count` records.

        `left`: the others, and when each was appended.
        """
        self.excuses.forgotten.add(topic)
        if topic == self._setup.topology:
            self.topology.read_again(left)
        else:
            self._edges.forgotten(topic, count)

    def skips_to(self, value: bytes, appended: float) -> tuple[bool, bool]:
        """Return whether a record of the topology can be read, and whether one of its plans skips rounds."""
        record = self.topology.readable(value, appended)
        if record is None:
            return False, False
        plans = record.plans
        skips = any(plan.round > plan.follows + 1 and any(map(_is_full, plan.members)) for plan in plans)
        return True, skips

    def _beat_appended(self, node: str, value: bytes) -> None:
        try:
            beat = self._wire.heartbeat(value, node)
        except Unreadable:
            self._check_forged(self._topic_of(node), value, readable=False)
            return
        self._check_forged(self._topic_of(node), value, readable=True)
        self.topology.heard(beat)
        if beat.hello:
            self._hellos.setdefault((node, beat.boot), (len(self._hellos), self._history.now))

    def _check_forged(self, topic: str, value: bytes, *, readable: bool) -> None:
        if readable and (topic, value) in self.excuses.forged:
            raise Violation("what a stranger has signed can be read")

    # --------------------------------------------------------------------------------------- processes

    def begun(self, begun: Begun) -> WatchedProcess:
        """Record that a process has started. Until then it has sent nothing but a hello. Raises Violation."""
        process = self._lives.begin(begun, self._history.now)
        process.wish = self._wishes.get(begun.node)
        self._processes.append(process)
        self._newest[begun.folder] = process
        last = max(process.records, default=0)
        if any(plan.closing for plan in self.topology.valid.get(last, [])):
            self._history.reached.add(Reached.CLOSING)
        life = begun.instance.lstrip("0")
        self._history.note(begun.node, "starts", f"as {life}, with a release for {last}")
        return process

    def ended(self, process: WatchedProcess) -> None:
        """Record that a process has ended."""
        self._processes.remove(process)

    def restored(self, folder: int, behind: int, count: int) -> None:
        """Record that a disk's journal is an older copy. It lacks `behind` records, and has `count`."""
        self._lives.restored(folder, behind, count)

    def copied(self, folder: int, copy: int) -> None:
        """Record that a disk was copied."""
        self._lives.copied(folder, copy)

    def asked(self, name: str, leave_from: int | None) -> None:
        """Handle an owner's wish that no plan names the node from this round on. None: any plan may."""
        if leave_from is None:
            self._wishes.pop(name, None)
        else:
            self._wishes[name] = leave_from
            self._history.reached.add(Reached.LEFT)

    def halted(self, process: WatchedProcess) -> None:
        """Record that a machine is done, as the run is over or the node has left. Raises Violation."""
        name, valid = process.name, self.topology.valid
        if any(plan.ended for plans in valid.values() for plan in plans):
            return
        # the process may not know yet that its owner has just withdrawn the wish
        wishes = [process.wish, self._steps.account(process).leave_from]
        leave_from = min((round for round in wishes if round is not None), default=None)
        instance = process.begun.instance
        without = [
            round
            for round, plans in valid.items()
            for plan in plans
            if (member := plan.member(name)) is None or member.instance != instance
        ]
        if leave_from is None or max(without, default=0) < leave_from:
            raise Violation(f"{name} halts, though the run goes on and it has not left")

    def sending(self, process: WatchedProcess, topic: str, value: bytes) -> None:
        """Check what a process sends. Raises Violation."""
        setup, name = self._setup, process.name
        try:
            if topic in setup.edge_topics:
                release = self._wire.release(value, name)
                to = topic.rsplit(".", 1)[-1]
                self._history.note(name, "sends", f"release for {release.round} to {to}")
                self._edges.sending(process.records, process.begun.instance, release)
                process.sent.add((topic, release.round))
            elif topic in setup.progress:
                self._check_beat(process, self._wire.heartbeat(value, name))
        except Unreadable as refusal:
            raise Violation(f"{name} sends on {topic} what its readers refuse: {refusal}") from None
        self._check_replaced(process)

    def _check_beat(self, process: WatchedProcess, beat: ReadBeat) -> None:
        """Check the content of a process's heartbeat against its journal, its owner's wish, and the edges."""
        name = process.name
        if beat.hello:
            process.boot = beat.boot
        if beat.instance != process.begun.instance:
            raise Violation(f"{name} sends a heartbeat of another instance than its journal has")
        if beat.stepped > process.stepped:
            raise Violation(
                f"{name} says that it has stepped {beat.stepped}: its journal has {process.stepped}"
            )
        wishes = [process.wish, self._steps.account(process).leave_from]
        leave_from = min((round for round in wishes if round is not None), default=None)
        if self._steps.account(process).known and beat.leave_from != leave_from:
            raise Violation(
                f"{name} says that it leaves from round {beat.leave_from} on: wish or budget say {leave_from}"
            )
        proven = {instance for _, target, instance in self._edges.second if target == name}
        if not proven.issuperset(beat.accused):
            raise Violation(f"{name} accuses a node of which no two values for a round are on the edge")

    def _check_replaced(self, process: WatchedProcess) -> None:
        """Check, after the faults have stopped, that no process continues after a newer one has
        said hello.
        """
        name, since = process.name, self._history.now - GRACE
        is_lost = self._topic_of(name) in self.excuses.forgotten
        if since < self.excuses.calm_at or name in self.excuses.liars or is_lost:
            return
        if any(at < since for _, at in self._after(process)):
            raise Violation(f"{name} has two processes: a replaced one goes on")

    def _after(self, process: WatchedProcess) -> list[tuple[int, float]]:
        """Return the first hellos of the node's other processes that came after this process's."""
        rivals = [rival for rival in self._processes if rival.name == process.name and rival is not process]
        hellos = [self._hellos.get((rival.name, rival.boot or "")) for rival in rivals]
        before = self._hellos.get((process.name, process.boot or ""))
        return [hello for hello in hellos if hello is not None and before is not None and hello > before]

    def _topic_of(self, name: str) -> str:
        return next(topic for topic, node in self._setup.progress.items() if node == name)

    # --------------------------------------------------------------------------------------- its rounds

    def wished(self, process: WatchedProcess, leave_from: int | None) -> None:
        """Record that a process has learnt of its owner's wish."""
        process.wish_before, process.wish = process.wish, leave_from
        process.wished_in = process.newest.round if process.newest else 0

    def data_ended(self, process: WatchedProcess) -> None:
        """Record that a process has no more records for a slot."""
        process.data_ended = True

    def decided(self, process: WatchedProcess, decision: HandedDecision) -> None:
        """Record a decision that the node can act on."""
        process.decision, process.decided_at = decision, self._history.now

    def slot(self, process: WatchedProcess, slot: HandedSlot) -> None:
        """Record the offsets of a slot's records. Check labels that come later. Raises Violation."""
        process.slot = slot
        facts = self._setup.labels.get(process.name)
        if facts is not None:
            self._check_labels(process.name, slot, facts)

    def _check_labels(self, name: str, slot: HandedSlot, facts: LabelFacts) -> None:
        """Check that each record was due, and has the label that counts for it."""
        if facts.closes is None:
            moment = slot.moment
            if not slot.offsets:
                raise Violation(f"{name} closes the slot of round {slot.round} empty: it waits for labels")
            if moment < max((facts.times[offset] or 0.0) + facts.after for offset in slot.offsets):
                raise Violation(f"{name} reads the labels of round {slot.round} before its records are due")
        else:
            moment = facts.closes[0] + slot.round * facts.closes[1]
        for offset, label in zip(slot.offsets, slot.labels, strict=True):
            if label is not None and label != (expected := facts.label(offset, moment)):
                raise Violation(f"{name} learns from record {offset} by label {label}: it is {expected}")

    def durable(self, process: WatchedProcess, record: Durable, draws: list[Draw]) -> None:
        """Check a record that has become durable. `draws`: the noise drawn since the previous record."""
        name = process.name
        kind = "exact" if record.exact else "noisy"
        self._history.note(name, "journals", f"release for {record.round}, {kind}, {record.charged} paid")
        offsets = process.slot.offsets if process.slot is not None else ()
        self._edges.durable(process, record, offsets)
        self._steps.durable(process, record, draws)
        self._add_to_totals(process, record)
        self._lives.durable(process, record)
        if name not in self.excuses.liars:
            self.stepped[name] = max(self.stepped.get(name, 0), record.stepped)

    def gave_up(self, process: WatchedProcess, source: str, round: int, looked_at: float) -> None:
        """Check that a process that gives up a source has read all that its edge had at the look-up of its
        end.
        """
        self._history.reached.add(Reached.GIVEN_UP)
        name, plans = process.name, self.topology.valid.get(round)
        if plans is None:
            raise Violation(f"{name} gives up {source} in round {round}, which no plan has")
        if self._setup.topics[source, name] in self.excuses.forgotten or len(plans) > 1:
            return
        member = plans[0].member(source)
        values = self._edges.values.get((source, name, round, member.instance if member else ""), [])
        if values and values[0].time < looked_at:
            text = f"its release stands on the edge since {values[0].time:.3f} s"
            raise Violation(f"{name} gives up {source} in round {round}, but {text}")

    def scored(
        self, process: WatchedProcess, round: int, gradient: FloatArray, point: FloatArray, regret: float
    ) -> None:
        """Check a slot's score and the owner's regret, computed by its definition from the repeated steps."""
        name, repeated = process.name, self._repeated
        mine, decision = process.gradients.get(round, (None, None))
        if mine is None or decision is None:
            raise Violation(f"{name} scores round {round}, which it has not stepped")
        if not close(gradient, mine) or not close(point, decision):
            raise Violation(f"{name} scores another gradient or decision in round {round} than it had")
        process.scored[round] = mine, repeated.observed(name, decision)
        gradients, decisions = rows_of(list(process.scored.values()))
        regret_again = (gradients * decisions).sum() + repeated.support(name, -gradients.sum(0))
        if not close(np.array(regret), np.array(regret_again)):
            raise Violation(f"the regret of {name} after round {round} is not that of its journal")

    # ---------------------------------------------------------------------------------------- the end

    def finish(self) -> None:
        """Check what is known only at the end. Raises Violation."""
        round_count = self._check_sums()
        self._history.note("all", "sums", f"of {round_count} rounds hold")
        for process in self._newest.values():
            if process in self._processes:
                self._check_sent(process)

    def _check_sent(self, process: WatchedProcess) -> None:
        """Check that a process has sent the releases of its journal for all rounds that it has stepped."""
        name, excuses, start = process.name, self.excuses, process.begun
        if name in excuses.liars | excuses.broken or self._after(process):
            return
        if self._setup.topology in excuses.forgotten:
            return  # without a plan it is unknown who should receive the releases
        kept_rounds = {record.round for record in start.records}
        oldest = min(kept_rounds, default=0)
        stepped = {record.stepped for record in process.records.values()}
        for record in process.records.values():
            plans = self.topology.valid.get(record.round, [])
            if record.round < oldest or record.round not in stepped or len(plans) != 1:
                continue
            member = plans[0].member(name)
            for target in plans[0].targets(name) if member is not None and member.full else ():
                topic = self._setup.topics[name, target]
                if (name, target) not in self._setup.files[
                    start.generation
                ].edges or topic in excuses.forgotten:
                    continue
                under_way = (topic, record.round) in process.sent
                if not under_way and (name, target, record.round, start.instance) not in self._edges.values:
                    raise Violation(f"{name} has never sent its release for round {record.round} to {target}")

    def _add_to_totals(self, process: WatchedProcess, record: Durable) -> None:
        name, round, decision = process.name, record.stepped, process.decision
        if decision is None or decision.round != round:
            return
        self._own.setdefault(round, {})[name] = process.records[round].value
        self._missing[name, round] = {is_lost.source for is_lost in record.given_up}
        for lost_round, source in record.corrected:
            self._missing.get((name, lost_round), set()).discard(source)
        if len(decision.heard) + len(record.given_up) < len(decision.edges):
            self._partial.add(round)  # one source is distrusted, or has no topic

    def _check_sums(self) -> int:
        """Check the sums over nodes of every complete round. Return the number of these rounds."""
        round_count, excuses = 0, self.excuses
        for round, mixed in self._steps.mixed.items():
            plans = self.topology.valid[round]
            names = [member.name for member in plans[0].members if member.full]
            hello_of_its_own = self._own.get(round, {})
            complete = all(name in mixed and not self._missing[name, round] for name in names)
            excused = (excuses.rolled_back | excuses.liars) & set(names)
            if excuses.clones:
                excused |= self._edges.two_valued(round)  # no plan tells which node heard which value
            if not complete or round in self._partial or excused or len(plans) > 1:
                continue
            round_count += 1
            after = np.add.reduce([mixed[name] for name in names])
            before = np.add.reduce([hello_of_its_own[name] for name in names])
            if not close(after, before):
                raise Violation(f"the consensus values of round {round} do not add up to its releases")
        return round_count


def _is_full(member: ReadMember) -> bool:
    return member.full
