"""Records a process's spending on its node's or owner's data, and exchanges the records of earlier lives.

A life's line is written as open when its process starts, and again when the process ends in order. The line
goes to the state folder, and beside a topic of data. At a start each of the two gets the lines that only the
other has.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from nodes.accounting.guarantee import Price
from nodes.accounting.spends import TIME, DataReuse, Span, Spend, added, merged_lives
from nodes.machine.journal import DataPosition, JournalRecord
from streams.bus.bus import BusError
from streams.bus.logs import Logs
from streams.codec.topics import DataTopics
from streams.ledger import Reuse, data_of, known_spends, stated_apart
from streams.mesh.errors import UsageError
from streams.mesh.file import AnyFile, MeshFile
from streams.mesh.mesh import Mesh
from streams.mesh.settings.base import Address
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import TimeSlotsSettings
from streams.state.folder import StateFolder
from streams.state.journal import SqliteJournal
from streams.state.journal_file import JournalReader
from streams.state.spends import all_spends, begin_life, end_life, keep_spends, put_aside, read_spends
from streams.state.spends_topic import SpendsTopic, unwritten


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """`spent`: charged rounds of unknown runs; `reuse`: whether records of those runs will be read again.

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


class LifeRecord:
    """One process's record of a life, in its folder and beside its topic. `own`: the life, as it began."""

    own: Spend

    def __init__(self, file: AnyFile, reader: str, state: Path) -> None:
        self._reader, self._state, self._mesh_file = reader, state, file
        self._topic: SpendsTopic | None = None
        self._lines: tuple[Spend, ...] | None = None

    def _begin(self, life: Spend, topic: SpendsTopic | None, *, fresh: bool, other_data: bool) -> Spend:
        """Record in folder and topic that a life begins or continues. Raises JournalError, BusError."""
        file, reader, state, self._topic = self._mesh_file, self._reader, self._state, topic
        data = data_of(file, reader, topic=None if topic is None else topic.data)
        stated = stated_apart(file, state, {reader: data}, other_data=other_data)[reader]
        self.own = spend = begin_life(state, life._replace(data=data, apart=stated), fresh=fresh)
        if topic is None:
            return spend
        folder = StateFolder(state)
        folder_lines = [
            line._replace(folder=line.folder or folder.id()) for line in all_spends(state, reader)
        ]
        lines_here = [*(line for line in folder_lines if line.identity != spend.identity), spend]
        topic.write(unwritten(lines_here, topic.read()))
        self._lines = topic.read()
        other_lines = [line for line in self._lines if line.identity != spend.identity]
        if other_lines:  # so that the folder has what its process knew
            keep_spends(folder.spends(reader), *other_lines)
        return spend

    def _known(self) -> Reuse:
        """Return all known spending on the data."""
        reader, lines = self._reader, {self._reader: self._lines}
        return known_spends(self._mesh_file, [reader], self._state, lines, own={reader: self.own})[reader]

    def _send(self, ended: Spend) -> None:
        """Send the line of a life's orderly end, without waiting."""
        if self._topic is not None:
            with suppress(BusError):  # if the broker is away, its line stays open until the next start
                self._topic.send(ended)


class NodeSpend(LifeRecord):
    """The record of a node's life. Create it before the journal is opened.

    Attributes
    ----------
    named : bool
        Whether plans of this run name the node in a life that its journal does not know.
    begun : bool
        Whether the journal goes on with the run.
    """

    def __init__(self, file: MeshFile, node: str, options: NodeOptions) -> None:
        super().__init__(file, node, options.state)
        self.file, self.node, self.options = file, node, options
        self.named, self.begun = False, False
        put_aside(options.state, node, file.mesh.run)

    def before(self) -> int:
        """Return the charged rounds of unknown runs, as stated now, or when the run began."""
        return max([self.options.spent or 0, *(spend.before for spend in self._lives())])

    def check(self, journal: SqliteJournal, topic: SpendsTopic, is_named: Callable[[], bool]) -> None:
        """Raise UsageError if the records were read before at an unstated price; BusError.

        Raises UsageError also if the operator's options differ from those at the beginning of the run.

        `is_named` returns whether a plan of this run names the node. Call it before this process's hello, as
        plans may name the node because of that hello.
        """
        self.begun = bool(journal.records() or journal.carried)
        if self.begun:
            check_same(self.node, self.file.mesh.run, self._lives(), self.options.reuse, self.options.spent)
        topic_spends, mesh = topic.read(), self.file.mesh
        if journal.records():
            return
        self.named = is_named()
        if self.begun:
            return
        lives = merged_lives(self._lives(), topic_spends).values()
        unknown = self.named and not knows_run(lives, mesh.name, mesh.run)
        topics = self.file.data_topics(self.node)
        check_reuse(topics, named=unknown, reuse=self.options.reuse, spent=self.options.spent)

    def begin(self, journal: SqliteJournal, topic: SpendsTopic) -> Reuse:
        """Record that the run continues; return what is known of the data. Raises BusError.

        Call `begin` before this process's hello, and again if its journal has begun a new life since.
        """
        record = next(iter(journal.records(1)), None)
        first_life = begun_life(self._state, self.file.resolved, self.node, record, self._position())
        life = first_life._replace(by_plans=record is None and self.named)
        if not self.begun:
            life = life._replace(before=self.options.spent or 0, reuse=self.options.reuse)
        stated = self.options.other_data and not self.begun
        self._begin(life, topic, fresh=record is None, other_data=stated)
        return self._known()

    def end(self, journal: SqliteJournal) -> None:
        """Record how far the run has come, and send it. Raises JournalError."""
        records = journal.records(1)
        if records:
            self._send(end_node(self._state, self.file.resolved, self.node, records[-1]))

    def _lives(self) -> list[Spend]:
        """Return the recorded lives of this run in this folder. The operator's options apply to no others."""
        folder = StateFolder(self.options.state)
        lives = (life for life in read_spends(folder.spends(self.node)) if life.run == self.file.mesh.run)
        return [life for life in lives if life.folder in {"", folder.known_id()}]

    def _position(self) -> DataPosition:
        if self.options.reuse != "end":
            return ()
        topic = self.file.data_topics(self.node).records
        with closing(Logs(self.file.records_broker(self.node), committed=True)) as logs:
            count = logs.partitions([topic])[topic]
            return tuple((partition, logs.span(topic, partition)[1]) for partition in range(count))


def begun_life(
    state: Path, mesh: Mesh, node: str, record: JournalRecord | None, start: DataPosition
) -> Spend:
    """Return a node's current life, with the places from which it learns from now on.

    `record` is the journal's last one. If it has no position, `start` counts: () is the data's beginning, and
    with `--from end` it holds the partitions' current ends. Raises JournalError.
    """
    position = dict(start) if record is None else dict(record.data_position or start)
    return _node_life(state, mesh, node, record)._replace(spans=_begun(mesh.settings, record, position))


def end_node(state: Path, mesh: Mesh, node: str, record: JournalRecord) -> Spend:
    """Record a node's progress by its last record; return its life. Raises JournalError."""
    slots = mesh.settings.slots
    ends: dict[str, float] = {}
    if isinstance(slots, TimeSlotsSettings):
        ends = {TIME: slots.start + record.stepped * slots.period}
    elif record.data_position:
        ends = {str(partition): end for partition, end in record.data_position}
    return end_life(state, _node_life(state, mesh, node, record), ends)


def _node_life(state: Path, mesh: Mesh, node: str, record: JournalRecord | None) -> Spend:
    """Return the current life by its last record, at its journal's price."""
    path, price = StateFolder(state).journal(node), mesh.node(node).price
    life = Spend(mesh.settings.run, 0, None, 0.0, 0.0, 0.0, node=node)
    carried, carried_epsilon = 0, 0.0
    if path.exists():
        with JournalReader(path) as journal:
            life, price = journal.spend, journal.price or Price(None)
            carried, carried_epsilon = journal.life.carried, journal.life.carried_epsilon
    charged, spent = (record.charged, record.epsilon_spent) if record else (carried, carried_epsilon)
    return life._replace(
        charged=charged - carried,
        epsilon=price.epsilon,
        delta=price.delta,
        stream_epsilon=math.inf if price.epsilon is None else added(carried_epsilon, spent),
        stream_delta=price.stream_delta,
        mesh=mesh.settings.name,
        settings=price.settings,
    )


def _begun(mesh: MeshSettings, record: JournalRecord | None, position: dict[int, int]) -> tuple[Span, ...]:
    """Return the spans of a run that learns from `position` on, or from the slot after the record's."""
    if isinstance(mesh.slots, TimeSlotsSettings):
        if record is None:
            return (Span(TIME),)
        return (Span(TIME, mesh.slots.start + record.stepped * mesh.slots.period),)
    return tuple(Span(str(partition), offset) for partition, offset in (position or {0: 0}).items())


def knows_run(lives: Iterable[Spend], mesh: str, run: str) -> bool:
    """Return whether one of the lives belongs to that run, or may: a life without a mesh may."""
    return any(life.run == run and life.mesh in {"", mesh} for life in lives)


def check_reuse(topics: DataTopics, *, named: bool, reuse: DataReuse | None, spent: int | None) -> None:
    """Raise UsageError if a run whose spend is unknown has read the node's records.

    `named`: plans of this run have named the node in an unknown life; they count the charges of this run, not
    of others.
    """
    if not named or (reuse is not None and spent is not None):
        return
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
    earlier_statements = [(spend.before, spend.reuse) for spend in lives]
    before = max((count for count, _ in earlier_statements), default=0)
    statements = [statement for _, statement in earlier_statements if statement is not None]
    first_statement = "reused" if "reused" in statements else statements[0] if statements else None
    if spent is not None and spent != before:
        raise UsageError(
            f"--spent is {spent}: must be {before}, as when {run} was begun for {node}, or not be given"
        )
    if reuse is not None and reuse != first_statement:
        option, earlier_option = (
            _OPTION[reuse],
            f"with {_OPTION[first_statement]}" if first_statement else "without it",
        )
        raise UsageError(f"{option}: must not be given now: {run} was begun for {node} {earlier_option}")


_OPTION = {"end": "--from end", "reused": "--data-reused"}
