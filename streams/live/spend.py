"""What an operator says of a node's process, and what the process owes to earlier runs over the same data."""

from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from nodes.accounting.spends import DataReuse, Spend, merged_lives
from nodes.machine.journal import DataPosition
from streams.bus.bus import BusError
from streams.bus.logs import Logs
from streams.codec.topics import DataTopics
from streams.ledger import Reuse, data_of, known_spends, stated_apart
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile
from streams.mesh.settings.base import Address
from streams.state.folder import StateFolder
from streams.state.journal import SqliteJournal
from streams.state.spend_file import keep_spends, read_spends
from streams.state.spends import all_spends, begin_spend, end_spend, put_aside
from streams.state.spends_topic import SpendsTopic, read_before, unwritten


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """`spent`: charged rounds of unknown runs; `reuse`: whether records used by them will be read again.

    `other_data`: whether a new run reads other data than all earlier runs in `state`.
    """

    state: Path
    spent: int | None = None
    reuse: DataReuse | None = None
    other_data: bool = False
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

    def __post_init__(self) -> None:
        put_aside(self.options.state, self.node, self.file.mesh.run)

    def before(self) -> int:
        """Return the charged rounds of unknown runs, as stated now, or when the run began."""
        return max([self.options.spent or 0, *(spend.before for spend in self._lives())])

    def check(self, journal: SqliteJournal, topic: SpendsTopic, is_named: Callable[[], bool]) -> None:
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
        lives = merged_lives(self._lives(), there).values()
        unknown = self.named and not knows_run(lives, mesh.name, mesh.run)
        check_reuse(
            self.node, named=unknown, read=unpriced, reuse=self.options.reuse, spent=self.options.spent
        )

    def begin(self, journal: SqliteJournal, topic: SpendsTopic) -> Reuse:
        """Record that the run continues; return what is known of the data. Raises BusError.

        Call it before this process's hello, and again if its journal has begun a new life since.
        """
        state, file, node = self.options.state, self.file, self.node
        record = next(iter(journal.records(1)), None)
        before, reuse = (0, None) if self.begun else (self.options.spent or 0, self.options.reuse)
        data = data_of(file, node, topic=topic.data)
        stated = self.options.other_data and not self.begun
        own = begin_spend(
            state,
            file.resolved,
            node,
            record,
            self._position(),
            before,
            reuse,
            by_plans=record is None and self.named,
            data=data,
            apart=stated_apart(file, state, {node: data}, other_data=stated)[node],
        )
        folder, there = StateFolder(state).id(), topic.read()
        here = [life._replace(folder=life.folder or folder) for life in all_spends(state, node)]
        topic.write(unwritten([*(life for life in here if life.identity != own.identity), own], there))
        there = topic.read()
        others = [life for life in there if life.identity != own.identity]
        if others:  # so that the folder knows what its process knew
            keep_spends(StateFolder(state).spends(node), *others)
        lines = {node: there if self.whole else None}
        return known_spends(file, [node], state, lines, own={node: own})[node]

    def end(self, journal: SqliteJournal, topic: SpendsTopic) -> None:
        """Record how far the run has come, and send it, without waiting. Raises JournalError."""
        state, records = self.options.state, journal.records(1)
        ended = end_spend(state, self.file.resolved, self.node, records[-1] if records else None)
        if ended is not None:
            with suppress(BusError):  # if the broker is away, its line stays open until the next start
                topic.send(ended)

    def _lives(self) -> list[Spend]:
        """Return the recorded lives of this run in this folder: to others the operator said nothing here."""
        folder = StateFolder(self.options.state)
        lives = (life for life in read_spends(folder.spends(self.node)) if life.run == self.file.mesh.run)
        return [life for life in lives if life.folder in {"", folder.known_id()}]

    def _position(self) -> DataPosition:
        if self.options.reuse != "end":
            return ()
        topic = DataTopics(self.node).records
        with closing(Logs(self.file.brokers(self.node).data, committed=True)) as logs:
            count = logs.partitions([topic])[topic]
            return tuple((partition, logs.span(topic, partition)[1]) for partition in range(count))


def knows_run(lives: Iterable[Spend], mesh: str, run: str) -> bool:
    """Return whether one of the lives belongs to that run, or may: a life without a mesh may."""
    return any(life.run == run and life.mesh in {"", mesh} for life in lives)


def check_reuse(node: str, *, named: bool, read: bool, reuse: DataReuse | None, spent: int | None) -> None:
    """Raise UsageError if a run whose spend is unknown has read the node's records.

    `named`: plans of this run have named the node in an unknown life; they count the charges of this run, not
    of others. `read`: its data topic was read at a price that is not recorded.
    """
    if not (read or named) or (reuse is not None and spent is not None):
        return
    topics = DataTopics(node)
    raise UsageError(
        f"{topics.records} has already been read by a run recorded in neither --state nor {topics.spends}. "
        f"Give --spent N (rounds charged by other runs; plans count those of this one) and either --from end "
        f"(skip those records) or --data-reused (read them again)"
    )


def check_same(
    node: str, run: str, lives: Iterable[Spend], reuse: DataReuse | None, spent: int | None
) -> None:
    """Raise UsageError if the operator's options differ from those at the beginning of the run.

    `lives`: the run's recorded lives. The same options are allowed, as services repeat their command line.
    """
    known = [(spend.before, spend.reuse) for spend in lives]
    before = max((count for count, _ in known), default=0)
    statements = [statement for _, statement in known if statement is not None]
    begun = "reused" if "reused" in statements else statements[0] if statements else None
    if spent is not None and spent != before:
        raise UsageError(
            f"--spent is {spent}: must be {before}, as when {run} was begun for {node}, or not be given"
        )
    if reuse is not None and reuse != begun:
        option, then = (_OPTION[reuse], f"with {_OPTION[begun]}" if begun else "without it")
        raise UsageError(f"{option}: must not be given now: {run} was begun for {node} {then}")


_OPTION = {"end": "--from end", "reused": "--data-reused"}
