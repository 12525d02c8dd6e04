"""What a node's process owes to earlier runs over the same data: looked up, said, and written down."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from nodes.journal import DataPosition
from nodes.privacy.spends import Spend
from streams.journal.journal import Journal
from streams.journal.spends import put_aside, read_spends, spends_file
from streams.kafka.logs import Logs
from streams.live.options import NodeOptions
from streams.live.start import MeshStart
from streams.mesh_file.file import MeshFile
from streams.spending.run import begin_spend, end_spend, reuse
from streams.spending.word import check_same, check_word, knows_spends, mark_read, read_before
from streams.topics import DataTopics


@dataclass(slots=True)
class RunSpend:
    """One process's view of what its data has cost so far. To be made before the journal is opened."""

    file: MeshFile
    node: str
    options: NodeOptions
    known: bool = False
    named: bool = False
    begun: bool = False

    def __post_init__(self) -> None:
        put_aside(self.options.state, self.node, self.file.mesh.run)
        self.known = knows_spends(self.options.state, self.node)

    def before(self) -> int:
        """Return the charged rounds of unknown runs: as is said now, or was when the run began."""
        return max([self.options.spent or 0, *(spend.before for spend in self._lives())])

    def check(self, journal: Journal, is_named: Callable[[], bool]) -> None:
        """Raise UsageError where the records were read before, and nobody says at what price; BusError.

        UsageError also where the run has begun, and its operator says other than then.

        `is_named` tells whether a plan of this run names the node. To be called before this process says
        hello: from then on plans may name it for what it does itself.
        """
        self.begun = bool(journal.records() or journal.carried)
        if self.begun:
            check_same(self.node, self.file.mesh.run, self._lives(), self.options.word, self.options.spent)
        if journal.records():
            return
        self.named = is_named()
        if self.known:
            return
        read = read_before(self.file.brokers(self.node).data, self.node)
        word, spent = self.options.word, self.options.spent
        check_word(self.node, known=self.known, named=self.named, read=read, word=word, spent=spent)

    def begin(self, start: MeshStart) -> str:
        """Write down that the run goes on; return what to say after the guarantee. Raises BusError."""
        state, mesh = self.options.state, self.file.mesh
        record = start.records[-1] if start.records else None
        mark_read(self.file.brokers(self.node).data, self.node)
        said = (0, None) if self.begun else (self.options.spent or 0, self.options.word)
        by_plans = record is None and self.named
        own = begin_spend(state, mesh, self.node, record, self._position(), *said, by_plans=by_plans)
        return reuse(state, mesh, self.node, own).sentence()

    def end(self, journal: Journal) -> None:
        """Write down how far the run has come. Raises JournalError."""
        records = journal.records(1)
        end_spend(self.options.state, self.file.mesh, self.node, records[-1] if records else None)

    def _lives(self) -> list[Spend]:
        """Return what is written down of this run's lives."""
        found = read_spends(spends_file(self.options.state, self.node))
        return [spend for spend in found if spend.run == self.file.mesh.run]

    def _position(self) -> DataPosition:
        if self.options.word != "end":
            return ()
        topic = DataTopics(self.node).records
        with closing(Logs(self.file.brokers(self.node).data)) as logs:
            count = logs.partitions([topic])[topic]
            return tuple((partition, logs.span(topic, partition)[1]) for partition in range(count))
