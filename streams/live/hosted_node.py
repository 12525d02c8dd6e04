"""One node of a process: the steps of its start, and its observers (log, metrics, applications)."""

import logging
import secrets
from collections.abc import Callable, Iterable
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial

from nodes.machine.events import BeforeStep, Decided, Notice, Report, SlotClosed
from nodes.machine.journal import Bounds, DataPosition, JournalRecord
from nodes.protocol import Noticed
from streams.bus.bus import BusError
from streams.bus.kafka import KafkaBus
from streams.bus.mesh_log import MeshLog
from streams.bus.preflight import Outside, PreflightFailed
from streams.bus.registry import NoRegistryExtra
from streams.codec import Refused
from streams.codec.topics import DataTopics
from streams.ledger import Promise, Reuse
from streams.live.data.registry import registry_watch
from streams.live.data.stream import DataStream
from streams.live.node_role import NodeRole
from streams.live.outputs import Decisions, Predictions
from streams.live.serving import Certificates
from streams.live.spend import NodeOptions, NodeSpend
from streams.live.start import NodeStart
from streams.log_events import LogEvent
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile, knows_writers, node_envelope
from streams.metrics.node_metrics import NodeMetrics
from streams.metrics.verdict import owner_score
from streams.records.decoder import SchemaDecoder
from streams.records.observed import has_truth
from streams.records.sources import decoder
from streams.runtime.actions import Ended, ProcessWorld
from streams.runtime.floods import Summed
from streams.runtime.process import Ask, Failed, lacking
from streams.runtime.runner import Runner
from streams.state.folder import BOOT_ID, JournalError, StateFolder, boot_id, read_wish, write_verdict
from streams.state.journal import SqliteJournal, open_journal
from streams.state.journal_file import JournalLocked, locked
from streams.state.spends_topic import SpendsTopic
from topology.scheduler import heartbeat_period

_OWN = {Notice.GIVEN_UP, Notice.JOINING, Notice.LISTENED}
"""Notices that the node itself causes. No other party can flood its log with them."""
_LINES = {
    Notice.EVIDENCE: (
        logging.ERROR,
        LogEvent.EQUIVOCATION,
        "%s has sent two values for round %d: it is silent until it joins anew",
    ),
    Notice.ACCUSED: (
        logging.ERROR,
        LogEvent.ACCUSED,
        "%s has two values of this node for a round, as it says after its round %d: see the runbook Accused",
    ),
    Notice.GIVEN_UP: (logging.WARNING, LogEvent.PEER_SILENT, "%s was silent in round %d: given up"),
    Notice.OVERFULL: (
        logging.WARNING,
        LogEvent.PEER_AHEAD,
        "%s sends far ahead of the plans: round %d was not kept",
    ),
    Notice.JOINING: (logging.WARNING, LogEvent.LISTENING, "%s asks to join after round %d"),
    Notice.LISTENED: (logging.INFO, LogEvent.LISTENING, "%s has joined as a listener in round %d"),
}
_UNKNOWN_WRITER = (
    logging.WARNING,
    LogEvent.EQUIVOCATION,
    "%s has two values for round %d, and anybody may have written them: the first counts",
)


class NodeWatcher:
    """Forwards every report to its observers. The log sums up unusual events, and names a silent source once.

    `isolates`: whether a source that sent two values for a round counts as silent.
    """

    def __init__(
        self,
        log: logging.Logger,
        metrics: NodeMetrics,
        decisions: Decisions | None,
        predictions: Predictions | None,
        generation: int = 0,
        *,
        isolates: bool = True,
    ) -> None:
        self._log, self._metrics = log, metrics
        self._lines = _LINES if isolates else _LINES | {Notice.EVIDENCE: _UNKNOWN_WRITER}
        self._own = self._newest = generation
        self._decisions, self._predictions = decisions, predictions
        self._summed = Summed(log)
        self._silent: set[str] = set()
        timing = metrics.timing
        self.began, self.entered, self.closed = timing.began, timing.entered, timing.closed
        self.planned = metrics.planned
        self.committed, self.left = metrics.committed, self._summed.end

    def report(self, report: Report) -> None:
        """Handle a report of the machine."""
        self._metrics.report(report)
        if isinstance(report, Noticed):
            self._noticed(report)
        elif isinstance(report, Decided) and self._decisions is not None:
            self._decisions.write(report)
        elif isinstance(report, BeforeStep) and self._predictions is not None:
            self._predictions.write(report)

    def catch_up(self) -> None:
        """Do the work that `report` has put off."""
        self._metrics.catch_up()
        self._summed.catch_up()

    def sent(self) -> None:
        """Note that the broker has acknowledged a release; in the reader's thread."""
        self._metrics.sent()

    def received(self, source: str) -> None:
        """Note a record read from an in-edge."""
        self._metrics.received(source)
        if source in self._silent:
            self._silent.discard(source)
            self._log.info("%s is heard again", source, extra=LogEvent.PEER_HEARD.of(peer=source))

    def refused(self, topic: str, refused: Refused) -> None:
        """Note that a peer's record was refused. Its bytes are in the dead letters."""
        del topic  # the log would have a line for each
        reason = refused.reason
        self._metrics.refused(reason)
        line, event = (
            f"a record of a peer was refused: {reason.value}",
            LogEvent.PEER_REFUSED.of(reason=reason.value),
        )
        self._summed.say(logging.WARNING, reason, line, event)

    def wished(self, leave_from: int | None) -> None:
        """Do nothing, as plans will show the wish."""

    def made_by(self, generation: int) -> None:
        """Handle the generation of the newest mesh file that a plan was made by."""
        if generation > self._newest:
            self._newest = generation
            text = "%s: it goes on, and does not hear who is new; start it with that file"
            self._log.warning(text, lacking(generation, self._own), extra=LogEvent.MESH_FILE_OLD.of())
        self._metrics.made_by(generation)

    def _noticed(self, noticed: Noticed[Notice]) -> None:
        if noticed.notice is Notice.GIVEN_UP:
            if noticed.peer in self._silent:
                return
            self._silent.add(noticed.peer)
        unusual = (logging.DEBUG, LogEvent.NOTICED, f"{noticed.notice}: %s, round %d")
        level, kind, text = self._lines.get(noticed.notice, unusual)
        event = kind.of(peer=noticed.peer, round=noticed.number)
        if noticed.notice in _OWN:
            self._log.log(level, text, noticed.peer, noticed.number, extra=event)
        elif self._log.isEnabledFor(level):
            line = text % (noticed.peer, noticed.number)
            self._summed.say(level, (noticed.notice, noticed.peer), line, event)


class HostedNode:
    """One node of a process. `ended` is the exception with which it has ended.

    Call `open`, `check_registry`, `data_positions`, `check_outside`, `begin` and `assemble` in this order. If
    a node cannot start while others can, call `refuse`. Raises MeshFileError if the file lacks something that
    the node needs.
    """

    journal: SqliteJournal
    start: NodeStart
    metrics: NodeMetrics
    runner: Runner
    watcher: NodeWatcher

    def __init__(self, file: MeshFile, name: str, options: NodeOptions) -> None:
        self.name = name
        self.ended: Ended | None = None
        self._journal = ExitStack()
        self._known: Reuse | None = None
        self.log = logging.getLogger(f"mirrormesh.node.{name}")
        self._file, self._options = file, options
        self._made = file.resolved.node(name)
        self.mesh = replace(
            self._made.context, isolates=knows_writers(file, name), envelope=node_envelope(file, name)
        )
        self._decoder = decoder(file, name)
        spent, from_end = options.spent or 0, options.reuse == "end"
        try:
            self._learner = replace(self._made.learner, charged_before=spent, from_end=from_end)
        except ValueError as error:
            raise UsageError(f"--spent: node {name}: {error}") from None
        slots = file.mesh.slots
        timeout = slots.timeout if slots.by == "count" else None
        late = file.own(name).late_policy.policy(slots.size)
        self._bounds = None
        if file.own(name).durability == "process":
            if not boot_id():
                text = f"nodes.{name}.durability is process: must be machine here, as {BOOT_ID} is missing"
                raise UsageError(text)
            self._bounds = Bounds(self.mesh.horizon, slots.size, self._learner.ledger)
        self._registry = registry_watch(file.existing_topic(name), self._decoder, self.log)
        settings, labels = file.later_labels(name), None
        if settings is not None and isinstance(self._decoder, SchemaDecoder):
            from streams.live.data.labels import LaterLabels  # noqa: PLC0415 # few nodes have any

            try:
                labels = LaterLabels(settings, file.labels_broker(name), self._decoder, self.log)
            except NoRegistryExtra as error:
                place = ("nodes", name, "source", "labels", "format")
                raise file.refuse(place, str(error), settings.format) from None
        self._labels = labels
        delay = 0.0 if settings is None else settings.after
        self.data = DataStream(
            file.data_topics(name),
            file.mesh.run,
            partial(self._made.mesh.slots, delay),
            self._decoder,
            timeout,
            late,
            file.existing_topic(name),
            self._registry,
            labels=labels,
        )

    def open(self, closing: ExitStack) -> None:
        """Open the journal. Raises JournalLocked, JournalError."""
        self._spend = NodeSpend(self._file, self.name, self._options)
        closing.callback(
            self._write_verdict
        )  # first, so that it is last: nothing that others need waits for it
        closing.enter_context(self._journal)
        self.journal = self._journal.enter_context(
            open_journal(self._options.state, self.name, self.mesh, new_id(), self._made.price, self._bounds)
        )
        self.data.floor = self.journal.floor
        if self.journal.was_cut:
            text = "the machine has started anew: joining as a new instance, charged and read up to the bound"
            self.log.warning(text, extra=LogEvent.JOURNAL.of())
        elif self.journal.copied:
            text = "the journal is a copy: joining as a new instance"
            self.log.warning(text, extra=LogEvent.JOURNAL.of())
        self._learner = replace(self._learner, charged_before=self._spend.before())

    @property
    def topics(self) -> DataTopics:
        """The topics on its data broker."""
        return self.data.topics

    def refuse(self, error: Exception) -> None:
        """End the node, which cannot start: free its journal's lock, so that it can be started alone."""
        self._journal.close()
        self.ended = error if isinstance(error, BusError | JournalError) else Failed(str(error))
        reason = "; ".join(str(error).splitlines())
        self.log.error("cannot start: %s", reason, extra=LogEvent.CANNOT_START.of())

    @property
    def waits(self) -> bool:
        """Whether the node could not start for a temporary reason: a lock, or a missing topic."""
        missing = isinstance(self.ended, PreflightFailed) and self.ended.missing
        return missing or isinstance(self.ended, JournalLocked)

    def check_registry(self) -> None:
        """Check whether the node's schema registry answers, if it has one. Raises Denied."""
        if self._registry is not None:
            self._registry.check()
        if self._labels is not None:
            self._labels.check_registry()

    def check_lock(self) -> None:
        """Raise JournalLocked while another process has the journal open."""
        with locked(StateFolder(self._options.state).journal(self.name)):
            pass

    def data_positions(self) -> dict[int, int]:
        """Return the journal's position in the data topic. Raises JournalError."""
        records = self.journal.records()
        return dict(records[-1].data_position or ()) if records else {}

    def check_outside(self, outside: Iterable[Outside]) -> None:
        """Begin a new life if the data topic was recreated: its log ends before the journal's position.

        The new life inherits the charges of the old one, as records may be fed again at other offsets. If a
        power cut has ended the old life, the log may still grow up to the journal's position.
        """
        topic, floor = self.data.topic, dict(self.journal.floor)
        if any(
            position.topic == topic
            and position.position > position.end
            and position.position != floor.get(position.partition)
            for position in outside
        ):
            self.journal.renew(new_id(), data_anew=True)
            self.data.floor = ()
            text = "%s was made anew: joining as a new instance"
            self.log.warning(text, topic, extra=LogEvent.DATA_TOPIC.of())

    def begin(
        self,
        bus: KafkaBus,
        spends: SpendsTopic,
        log: MeshLog,
        ask: Ask,
        closing: ExitStack,
    ) -> None:
        """Settle the spending of earlier runs, say hello, and find where to start.

        `log`: the mesh's log; `closing` records the run's progress at the end. Raises BusError, UsageError.
        """
        journal = self.journal
        ask(lambda: self._spend.check(journal, spends, partial(log.names, self.name)))
        life, reuse = journal.instance, ask(lambda: self._spend.begin(journal, spends))
        warn = partial(self.log.warning, extra=LogEvent.RECOVERED.of())
        self._role = role = NodeRole(
            self.name, self._learner, journal, self.mesh, new_id, warn, self._leave_from
        )
        role.recover(bus, ask)
        self.start = role.start
        if journal.instance != life:
            reuse = ask(lambda: self._spend.begin(journal, spends))
        closing.callback(self._end_spend)
        self._known = reuse

    def _leave_from(self) -> int | None:
        """Return the first round without the node, if its owner has asked. Raises JournalError."""
        return read_wish(self._options.state, self.name, self._file.mesh.run)

    def _write_verdict(self) -> None:
        """Store the verdict on this process's rounds for the owner; no log and no exit code knows of it."""
        if not hasattr(self, "metrics"):
            return
        with suppress(OSError):  # a full disk, which the journal has told of
            write_verdict(self._options.state, self.name, self._file.mesh.run, self.metrics.verdict())

    def _end_spend(self) -> None:
        broken = isinstance(self.ended, JournalError)  # the log has reported this already
        with suppress(JournalError) if broken else nullcontext():
            self.journal.settle()  # what `.spends` and the broker get is durable
            self._spend.end(self.journal)

    def assemble(
        self,
        world: ProcessWorld,
        decisions: Decisions | None,
        predictions: Predictions | None,
        certificates: Certificates,
        over: Callable[[], None],
    ) -> None:
        """Make the runner of the node in a world; `over` is called when the node has ended by itself."""

        def ended(error: Ended) -> None:
            self.ended = error
            self.watcher.left()
            self.data.end()
            over()

        journal = self.journal
        record = self.start.records[-1] if self.start.records else None
        self.metrics = self._metrics(
            certificates,
            record,
            connected=lambda: self.runner.clock.going,
            journal_bytes=lambda: journal.size,
        )
        isolates, generation = self.mesh.isolates, self.mesh.generation
        self.watcher = NodeWatcher(
            self.log, self.metrics, decisions, predictions, generation, isolates=isolates
        )
        role = self._role.role(
            self.watcher,
            lambda opened, _: self.data.open_slot(opened),
            clock=world.clock,
            beat=heartbeat_period(self.mesh.silence),
            written=(lambda: None) if predictions is None else predictions.settle,
        )
        self.runner = Runner(role, world, ended)

    @property
    def run_over(self) -> bool:
        """Whether the node knows the plan that ends the run."""
        return self._role.run_over

    def slot_closed(self, slot: SlotClosed) -> None:
        """Handle the requested slot. From any thread."""
        self.runner.pending.answer(partial(self._role.closed, slot))

    def show_refused(self, certificates: Certificates) -> None:
        """Make the metrics of a node that could not start: it is not connected, and all its counts are 0."""
        self.metrics = self._metrics(certificates, None, connected=lambda: False, journal_bytes=lambda: 0)

    def _metrics(
        self,
        certificates: Certificates,
        record: JournalRecord | None,
        *,
        connected: Callable[[], bool],
        journal_bytes: Callable[[], int],
    ) -> NodeMetrics:
        return NodeMetrics(
            self._file.mesh.name,
            self.name,
            self._learner,
            self.mesh.expected,
            record,
            connected=connected,
            lag=lambda: self.data.lag,
            counts=lambda: self.data.counts,
            labels=None if self._file.later_labels(self.name) is None else lambda: self.data.label_counts,
            journal_bytes=journal_bytes,
            registry=None if self._registry is None else self._registry.is_there,
            truth=has_truth(self._decoder),
            score=owner_score(self._made),
            ends=certificates.ends,
            generation=self.mesh.generation,
            nodes=len(self._file.mesh.nodes),
        )

    @property
    def position(self) -> DataPosition | None:
        """Where to read the data topic from; None: from its end."""
        if self.start.records:
            return self.start.records[-1].data_position
        return None if self._learner.from_end else ()

    def say(self) -> None:
        """Log the guarantee, and the round in which the node continues."""
        sentence = Promise(self.name, self._made.guarantee, self._known).sentence
        self.log.info("%s", sentence, extra=LogEvent.GUARANTEE.of())
        records = self.start.records
        at = f"after round {records[-1].stepped}" if records else "with a new journal"
        text, last = "instance %s goes on %s", records[-1].stepped if records else None
        self.log.info(text, self.journal.instance, at, extra=LogEvent.STARTED.of(round=last))


def new_id() -> str:
    """Return a new random id."""
    return secrets.token_hex(16)
