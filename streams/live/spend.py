"""What an operator says of a node's process, and what the process owes to earlier runs over the same data."""

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from nodes.accounting.spends import DataReuse, Reuse, Spend
from nodes.machine.journal import DataPosition
from streams.bus.bus import BusError
from streams.bus.logs import Logs
from streams.codec.topics import DataTopics
from streams.mesh.file import MeshFile
from streams.mesh.settings.base import Address
from streams.state.earlier_runs import check_reuse, check_same, knows_run, read_before
from streams.state.folder import StateFolder
from streams.state.journal import Journal
from streams.state.known_spends import Written, known_by, together, unwritten
from streams.state.run_spends import begin_spend, end_spend
from streams.state.spend_file import read_spends
from streams.state.spends import all_spends, put_aside
from streams.state.spends_topic import SpendsTopic


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """`spent`: charged rounds of unknown runs; `reuse`: whether records used by them will be read again."""

    state: Path
    spent: int | None = None
    reuse: DataReuse | None = None
    decisions: bool = True
    metrics: Address | None = None
    private_metrics: Address | None = None
    web: Address | None = None


@dataclass(slots=True)
class RunSpend:
    """One process's view of its data's cost so far. Create it before the journal is opened."""

    file: MeshFile
    node: str
    options: NodeOptions
    named: bool = False
    begun: bool = False
    whole: bool = True
    anew: bool = False

    def __post_init__(self) -> None:
        put_aside(self.options.state, self.node, self.file.mesh.run)

    def before(self) -> int:
        """Return the charged rounds of unknown runs, as stated now, or when the run began."""
        return max([self.options.spent or 0, *(spend.before for spend in self._lives())])

    def check(self, journal: Journal, topic: SpendsTopic, is_named: Callable[[], bool]) -> None:
        """Raise UsageError if the records were read before at an unstated price; BusError.

        Raises UsageError also if the operator's options differ from those at the beginning of the run.

        `is_named` tells whether a plan of this run names the node. Call it before this process's hello, after
        which plans may name it because of itself.
        """
        self.begun = bool(journal.records() or journal.carried)
        if self.begun:
            check_same(self.node, self.file.mesh.run, self._lives(), self.options.reuse, self.options.spent)
        there, mesh = topic.read(), self.file.mesh
        unpriced = not there and read_before(self.file.brokers(self.node).data, self.node)
        self.whole = self.whole and not unpriced
        if journal.records():
            return
        self.named = is_named()
        if self.begun:
            return
        lives = together(StateFolder(self.options.state).id(), self._lives(), there)
        unknown = self.named and not knows_run(lives, mesh.name, mesh.run)
        check_reuse(
            self.node, named=unknown, read=unpriced, reuse=self.options.reuse, spent=self.options.spent
        )

    def begin(self, journal: Journal, topic: SpendsTopic) -> str:
        """Record that the run continues; return the sentence after the guarantee. Raises BusError.

        Call it before this process's hello, and again if its journal has begun a new life since.
        """
        state = self.options.state
        record = next(iter(journal.records(1)), None)
        said = (0, None) if self.begun else (self.options.spent or 0, self.options.reuse)
        by_plans = record is None and self.named
        own = begin_spend(
            state, self.file.resolved, self.node, record, self._position(), *said, by_plans=by_plans
        )
        folder = StateFolder(state).id()
        here = [own, *(life for life in all_spends(state, self.node) if life.identity != own.identity)]
        there = topic.read()
        if self.anew:  # the data topic was recreated, so other runs' offsets mean nothing now
            others = (life for life in together(folder, here, there) if life.identity != own.identity)
            here += [life._replace(spans=()) for life in others]
        for life in unwritten(folder, here, there):
            topic.write(Written(folder, life))
        lives = {life.identity: life for life in together(folder, here, topic.read())}
        own = lives.pop(own.identity)
        return Reuse(tuple(lives.values()), own, known_by(self.node, here=True, there=self.whole)).sentence()

    def end(self, journal: Journal, topic: SpendsTopic) -> None:
        """Record how far the run has come, and send it, without waiting. Raises JournalError."""
        state, records = self.options.state, journal.records(1)
        ended = end_spend(state, self.file.resolved, self.node, records[-1] if records else None)
        if ended is not None:
            with suppress(BusError):  # if the broker is away, its line stays open until the next start
                topic.send(Written(StateFolder(state).id(), ended))

    def _lives(self) -> list[Spend]:
        """Return the recorded lives of this run."""
        found = read_spends(StateFolder(self.options.state).spends(self.node))
        return [spend for spend in found if spend.run == self.file.mesh.run]

    def _position(self) -> DataPosition:
        if self.options.reuse != "end":
            return ()
        topic = DataTopics(self.node).records
        with closing(Logs(self.file.brokers(self.node).data, committed=True)) as logs:
            count = logs.partitions([topic])[topic]
            return tuple((partition, logs.span(topic, partition)[1]) for partition in range(count))
