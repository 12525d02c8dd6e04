"""Watches a simulated mesh: hands every event to the checks, and to the history."""

from collections.abc import Iterable

from nodes.machine.events import Decided, Foreseen, Notice, Report, Scored
from nodes.machine.journal import JournalRecord
from nodes.privacy.mechanism import Secret
from nodes.protocol import Noticed
from streams.bus.bus import Stored
from streams.codec import Reason, Refused
from streams.local.recorder import for_the_owner
from streams.simulation.checks.facts import Facts
from streams.simulation.checks.life import Life
from streams.simulation.checks.plans import PlanChecks
from streams.simulation.checks.steps import StepChecks
from streams.simulation.checks.totals import TotalChecks
from streams.simulation.checks.values import ValueChecks
from streams.simulation.history import Reached, Violation
from streams.simulation.node import SimulatedNode
from streams.simulation.stage import Scene
from topology.plans import Plan

_QUIET = {Notice.DUPLICATE, Notice.STALE}


class Watch:
    """All checks of one history."""

    def __init__(self, facts: Facts, scene: Scene) -> None:
        self.facts, self.history = facts, facts.history
        self._plans, self._values = PlanChecks(facts), ValueChecks(facts)
        self._steps, self._totals = StepChecks(facts, scene), TotalChecks(facts, scene)
        self._lives: dict[SimulatedNode, Life] = {}
        self._kept: dict[str, int] = {}  # charged rounds, by node

    @property
    def last_plan(self) -> Plan | None:
        """The last valid plan that the topology still has."""
        return self._plans.last

    # ------------------------------------------------------------------------------------ the broker's

    def appended(self, topic: str, value: bytes) -> None:
        """Take a new record of any topic."""
        if topic == self.facts.parts.topics.topology:
            self._plans.appended(value)
        elif topic in self.facts.edges:
            message = self.facts.message(topic, value)
            if message is not None:
                self.facts.add(topic, message)
                self._values.appended(message, self._kept.get(message.source, 0))

    def plans_lost(self, left: Iterable[Stored]) -> None:
        """Take that the topology has lost its tail; `left`: its records."""
        self._plans.read_again(left)

    # ---------------------------------------------------------------------------------------- a node's

    def started(self, node: SimulatedNode) -> None:
        """Take that a process has started."""
        journal = node.journal
        life = self._lives[node] = Life.of(journal.instance, journal.records(), journal.secret())
        self._kept[node.name] = max(self._kept.get(node.name, 0), journal.charged)
        last = max(life.own, default=0)
        self.history.note(node.name, "starts", f"as {life.instance.lstrip('0')}, with a release for {last}")
        if any("joining as a new instance" in warning for warning in node.warnings):
            self.history.reached.add(Reached.RENEWED)

    def stopped(self, node: SimulatedNode, why: str) -> None:
        """Take that a process has ended."""
        self.history.note(node.name, "ends", why)

    def journalled(self, node: SimulatedNode, record: JournalRecord, secret: Secret | None) -> None:
        """Check a record that has become durable."""
        name, life = node.name, self._lives[node]
        self.history.note(
            name, "journals", f"release for {record.round}, {_exact(record)}, {record.charged} paid"
        )
        self._values.journalled(name, life, record)
        self._steps.journalled(name, life, record)
        self._totals.journalled(name, life, record)
        life.remember(record, secret)
        self._kept[name] = max(self._kept.get(name, 0), record.charged)
        if name not in self.facts.liars:
            self.facts.stepped[name] = max(self.facts.stepped.get(name, 0), record.stepped)

    def sending(self, node: SimulatedNode, topic: str, value: bytes) -> None:
        """Check a record that a process sends."""
        if topic not in self.facts.edges:
            return
        message = self.facts.message(topic, value)
        if message is None:
            raise Violation(f"{node.name} sends on {topic} what its readers refuse")
        self.history.note(node.name, "sends", f"release for {message.round} to {topic.rsplit('.', 1)[-1]}")
        self._values.sending(node.journal.records(), node.journal.instance, message)

    def refused(self, node: SimulatedNode, topic: str, refused: Refused) -> None:
        """Take that a peer's record was refused."""
        self.history.note(node.name, "refuses", f"{refused.reason.value} from {topic.split('.', 2)[-1]}")
        if refused.reason is Reason.SIGNATURE:
            self.history.reached.add(Reached.FORGED)
        elif refused.reason is not Reason.SECOND_VALUE:
            self.history.reached.add(Reached.POISON)

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """Take a report of a machine."""
        life = self._lives[node]
        match report:
            case Decided():
                life.decided = report
            case Foreseen(places=places):
                life.foreseen, life.places = report, for_the_owner(places)
            case Scored():
                self._totals.scored(node.name, life, report)
            case Noticed():
                self._noticed(node, report)

    def finish(self) -> None:
        """Check what can be told at the end alone."""
        whole = self._totals.finish(self._steps.mixed)
        self.history.note("all", "sums", f"of {whole} rounds hold")

    def _noticed(self, node: SimulatedNode, noticed: Noticed[Notice]) -> None:
        notice, source, round = noticed
        if notice not in _QUIET:
            self.history.note(node.name, "notices", f"{notice}, {source} in {round}")
        if notice is Notice.GIVEN_UP:
            self.history.reached.add(Reached.GIVEN_UP)
            self._check_given_up(node, source, round)
        if notice is Notice.EVIDENCE:
            self.history.reached.add(Reached.EVIDENCE)
        if notice is Notice.LISTENED and self.facts.partitions:
            self.history.reached.add(Reached.JOINED)

    def _check_given_up(self, node: SimulatedNode, source: str, round: int) -> None:
        """Check that what the edge held when its end was looked up has been read."""
        facts = self.facts
        member = facts.plans[round][0].member(source)
        stood = facts.values.get((source, node.name, round, member.instance if member else ""), [])
        if facts.parts.topics.edge(source, node.name) in facts.forgotten or len(facts.plans[round]) > 1:
            return
        if stood and stood[0].time < node.looked_at:
            said = f"its release stands on the edge since {stood[0].time:.3f} s"
            raise Violation(f"{node.name} gives up {source} in round {round}, but {said}")


def _exact(record: JournalRecord) -> str:
    return "exact" if record.exact else "noisy"
