"""The processes of an owner and of the learner on a broker, and an owner's set that is a topic."""

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from nodes.collaboration.messages import CollaborationNotice, QueryRecord, ResponseRecord, SetRead
from nodes.protocol import Noticed
from streams.bus.bus import Bus, OffsetOutOfRange, Unreachable
from streams.bus.connection import PATIENCE, consumer_settings
from streams.bus.diagnosis import Expiry
from streams.bus.errors import bus_error
from streams.bus.logs import SOON, Logs
from streams.bus.rights import access_of_all
from streams.codec import Refused
from streams.collaboration.file import CollaborationFile, party_envelope
from streams.collaboration.journals import OwnerSpend, open_learner_journal
from streams.collaboration.metrics import LearnerMetrics, OwnerMetrics
from streams.collaboration.passes import Passes, passes
from streams.collaboration.rights import collaboration_specs, owner_on_mesh
from streams.collaboration.rights import learner as learner_access
from streams.collaboration.roles import LearnerRole, OwnerRole, learner_start, owner_start
from streams.collaboration.wire import Wire
from streams.ledger import Reuse, promises_of
from streams.live.serving import warn_of_end, warn_of_open
from streams.log_events import LogEvent
from streams.mesh.errors import UsageError
from streams.mesh.settings.base import Address
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.node import LIVENESS, FileSettings
from streams.metrics.endpoint import Endpoint, LastReads
from streams.metrics.registry import merge_registries
from streams.records.schema_files import file_decoder
from streams.records.sparse import LibsvmDecoder
from streams.runtime.actions import COMMITS, ProcessWorld
from streams.runtime.floods import Summed
from streams.runtime.kafka import KafkaProcess, open_bus
from streams.runtime.process import FLUSH, Ask, Stop, retry_until_reachable
from streams.runtime.runner import Role, is_orderly
from streams.state.spends_topic import SpendsBus, SpendsTopic

Extent = tuple[tuple[str, int], ...]
_BATCH = 4096


class TopicSet:
    """The committed records of a topic, partition after partition.

    `fixed`: the partitions' ends; None: their current ends.
    """

    def __init__(self, broker: BrokerSettings, topic: str, fixed: Extent | None) -> None:
        self._broker, self._topic, self._fixed = broker, topic, fixed

    def extent(self) -> Extent:
        """Return the end of each partition. Raises BusError."""
        if self._fixed is None:
            logs = Logs(self._broker, committed=True)
            try:
                count = logs.partitions([self._topic])[self._topic]
                self._fixed = tuple(
                    (_name(partition), logs.span(self._topic, partition)[1]) for partition in range(count)
                )
            finally:
                logs.close()
        return self._fixed

    def values(self) -> Iterator[bytes]:
        """Yield all records in order. Raises BusError; OffsetOutOfRange if a log does not reach its end."""
        consumer = Consumer(consumer_settings(self._broker, committed=True) | {"log_level": 0})
        try:
            for partition, (_, end) in enumerate(self.extent()):
                yield from self._partition(consumer, partition, end)
        except KafkaException as error:
            raise bus_error(error.args[0], self._topic) from None
        finally:
            consumer.close()

    def _partition(self, consumer: Consumer, partition: int, end: int) -> Iterator[bytes]:
        place = TopicPartition(self._topic, partition)
        first, last = consumer.get_watermark_offsets(place, PATIENCE)
        if last < end:
            raise OffsetOutOfRange(self._topic, f"it ends at {last}, and the set at {end}: it was made anew")
        consumer.assign([TopicPartition(self._topic, partition, first)])
        position, until = first, time.monotonic() + PATIENCE
        while position < end:
            # the client waits for that many messages, which do not exist where offsets have no record
            messages = consumer.consume(min(_BATCH, end - position), SOON)
            if messages:
                until = time.monotonic() + PATIENCE
            elif time.monotonic() > until:
                raise Unreachable(f"{self._topic} cannot be read to its end")
            for message in messages:
                error, offset = message.error(), message.offset()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 # librdkafka's names of local errors
                    raise bus_error(error, self._topic)
                if error is None and offset is not None and offset < end:
                    yield message.value() or b""
                position = end if error is not None else (offset or 0) + 1


def topic_passes(file: CollaborationFile, owner: str, fixed: Extent | None) -> Passes:
    """Return the passes over the topic of an owner's own broker. Raises MeshFileError."""
    source, topic = file.own(owner).source, file.data_topics(owner).records
    if isinstance(source, FileSettings):
        decoder = file_decoder(file, source, ("owners", owner, "source"))
        topic_set = TopicSet(file.brokers(owner).data, topic, fixed)
        return Passes(file, owner, decoder, topic_set.values, topic_set.extent)
    if source is None:
        raise file.refuse(("owners", owner, "source"), "missing: must be given to run the owner here")
    topic_set = TopicSet(file.brokers(owner).data, topic, fixed)
    return Passes(file, owner, LibsvmDecoder(source, file.dimension), topic_set.values, topic_set.extent)


def _name(partition: int) -> str:
    return f"partition {partition}"


LEARNER = logging.getLogger("mirrormesh.learner")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PartyOptions:
    """The operator's options: the folder of the journal, and where to serve metrics.

    `other_data`: whether a new run of an owner reads other data than all earlier runs in `state`.
    """

    state: Path
    metrics: Address | None = None
    private_metrics: Address | None = None
    other_data: bool = False


class OwnerProcess:
    """One process of the owners `names`, which share a broker, a loop and endpoints, and no state.

    Raises MeshFileError if the file lacks something that an owner needs, UsageError for owners that cannot
    share a process.
    """

    def __init__(self, file: CollaborationFile, names: Sequence[str], options: PartyOptions) -> None:
        self._file, self._names, self._options = file, tuple(names), options
        self._owners = [_HostedOwner(file, name, options) for name in self._names]
        self._broker = self._shared("brokers.mesh", file.mesh_broker_of)
        self._private = options.private_metrics or self._shared(
            "private_endpoint", lambda name: file.own(name).private_endpoint
        )
        self._log = self._owners[0].log if len(names) == 1 else logging.getLogger("mirrormesh.owners")

    def run(self, stop: Stop) -> None:
        """Run until asked to stop, or until every owner has ended. If an owner cannot start, all end.

        Raises ProcessExit when the learner is done, Failed, Stopped, JournalError, BusError, NotServed.
        """
        file, owners, wire = self._file, self._owners, Wire(self._file.resolved)
        ask: Ask = partial(retry_until_reachable, stop)
        with ExitStack() as closing:
            warn_of_open("private metrics", self._private, self._log)
            shared, private = (
                None if address is None else closing.enter_context(Endpoint(*address))
                for address in (self._options.metrics, self._private)
            )
            last_reads = closing.enter_context(LastReads(is_orderly, stop.asked.wait, stays=stop.stays))
            for owner in owners:
                owner.open(closing)
            access = access_of_all(owner_on_mesh(wire.topics, name) for name in self._names)
            bus = open_bus(self._broker, access, collaboration_specs(wire), stop, closing)
            for owner in owners:
                owner.begin(bus, ask, closing)
            commits = None
            if len(owners) > 1:  # so that waits for the disk overlap
                commits = closing.enter_context(ThreadPoolExecutor(COMMITS, "journals")).submit
            limit = min(file.own(name).liveness for name in self._names)
            process = KafkaProcess(bus, "owner", limit, self._log, commits)
            expiry = certificates(self._broker, self._log)
            figures = {owner.name: owner.figures(process, expiry) for owner in owners}

            def missing() -> str | None:
                reasons = {name: of_one.missing() for name, of_one in figures.items()}
                named_reasons = {name: f"{name}: {text}" for name, text in reasons.items() if text}
                lines = reasons.values() if len(reasons) == 1 else named_reasons.values()
                return "; ".join(filter(None, lines)) or None

            shared_registries = [of_one.shared for of_one in figures.values()]
            private_registries = [of_one.private for of_one in figures.values()]
            if shared is not None:
                shared.show(merge_registries(shared_registries), missing, noted=expiry.soon)
            if private is not None:
                private_union = merge_registries(private_registries)
                private.show(private_union, missing, process.alive.stalled, expiry.soon)
            last_reads.watch(shared, shared_registries)
            last_reads.watch(private, private_registries)
            roles = {owner.name: owner.role(figures[owner.name], process.world) for owner in owners}
            process.run(roles, stop)
            self._log.info("stopped, as asked", extra=LogEvent.STOPPED.of())

    def _shared(self, key: str, of_owner: Callable[[str], T]) -> T:
        """Return a setting that all owners of the process must share. Raises UsageError if two differ."""
        first, *rest = self._names
        for name in rest:
            if of_owner(name) != of_owner(first):
                raise UsageError(f"{first} and {name} have different {key}: each needs a process of its own")
        return of_owner(first)


class _HostedOwner:
    """One owner of a process, from its journal to its role."""

    def __init__(self, file: CollaborationFile, name: str, options: PartyOptions) -> None:
        self.name, self.log = name, logging.getLogger(f"mirrormesh.owner.{name}")
        self._file, self._options = file, options
        file.own(name)
        self._wire = Wire(file.resolved, party_envelope(file, name))
        if name in file.on_topics:
            file.brokers(name)
            self._passes: Passes | None = None
        else:
            self._passes = passes(file, name)

    def open(self, closing: ExitStack) -> None:
        """Read a set that is a file, and open the journal. Raises MeshFileError, UsageError, JournalError."""
        # the check comes before a journal is made, which would not fit a corrected file
        self._fixed = None if self._passes is None else self._passes.fixed()
        self._spend = OwnerSpend(
            self._file, self.name, self._options.state, other_data=self._options.other_data
        )
        self._journal = closing.enter_context(self._spend.journal(secrets.token_hex(16)))

    def begin(self, bus: Bus, ask: Ask, closing: ExitStack) -> None:
        """Say hello on the bus, and find where the owner continues. Raises Failed, BusError."""
        file, name, journal = self._file, self.name, self._journal
        self._role = OwnerRole(file, name, self._wire, journal, boot=secrets.token_hex(16))
        self._role.presence.hello(bus, ask)
        self._start = ask(lambda: owner_start(journal, name, self._wire, bus))
        if journal.copied:
            text = "the journal is a copy, as new as what was answered: going on with it"
            self.log.warning(text, extra=LogEvent.JOURNAL.of())
            journal.adopt()
        earlier_spend = self._spent(ask, closing)
        own_passes = self._passes or self._topic_passes()
        self._set = own_passes, self._fixed or ask(own_passes.fixed)
        sentence = promises_of(file, {name: earlier_spend})[name].sentence
        self.log.info("%s", sentence, extra=LogEvent.GUARANTEE.of())

    def figures(self, process: KafkaProcess, expiry: Expiry) -> OwnerMetrics:
        """Return the owner's metrics in its process."""
        records, journal = self._start.records, self._journal
        return OwnerMetrics(
            self._file.mesh.name,
            self.name,
            self._wire.whole.mechanism(self.name),
            records[-1] if records else None,
            connected=lambda: process.connected,
            journal_bytes=lambda: journal.size,
            ends=expiry.first,
        )

    def role(self, figures: OwnerMetrics, world: ProcessWorld) -> Role:
        """Return the role that continues."""
        mesh, answered = self._file.mesh, self._start.records
        at = f"after query {answered[-1].query}" if answered else "with a new journal"
        self.log.info("run %s of %s goes on %s", mesh.run, mesh.name, at, extra=LogEvent.STARTED.of())
        own_passes, records = self._set
        return self._role.role(self._start, records, own_passes, world, OwnerLog(self.log, figures))

    def _spent(self, ask: Ask, closing: ExitStack) -> Reuse:
        """Record that the run continues, also beside a topic of data.

        Return the known spending on the set.
        """
        topic, spend, journal = None, self._spend, self._journal
        if self._passes is None:
            broker, topics = self._file.brokers(self.name).data, self._file.data_topics(self.name)
            lines = ask(lambda: SpendsBus(broker, [topics]))
            closing.callback(lines.close)
            closing.callback(lines.flush, FLUSH / 2)
            topic = SpendsTopic(lines, topics)
        ask(lambda: spend.begin(journal, topic))
        closing.callback(spend.end, journal)
        return spend.known()

    def _topic_passes(self) -> Passes:
        """Return the passes over the owner's topic, up to the ends that its first answer has fixed."""
        records = self._journal.records
        return topic_passes(self._file, self.name, records[0].set.extent if records else None)


class LearnerProcess:
    """One process of the learner."""

    def __init__(self, file: CollaborationFile, options: PartyOptions) -> None:
        self._file, self._options = file, options
        self._wire = Wire(file.resolved, party_envelope(file, file.mesh.learner))

    def run(self, stop: Stop) -> None:
        """Run until asked to stop.

        Raises ProcessExit when all queries are done, Failed, Stopped, JournalError, BusError, NotServed.
        """
        file, mesh, wire, broker = self._file, self._file.mesh, self._wire, self._file.mesh_broker
        ask: Ask = partial(retry_until_reachable, stop)
        with ExitStack() as closing:
            metrics = self._options.metrics
            endpoint = None if metrics is None else closing.enter_context(Endpoint(*metrics))
            last_reads = closing.enter_context(LastReads(is_orderly, stop.asked.wait, stays=stop.stays))
            journal = closing.enter_context(
                open_learner_journal(file, self._options.state, secrets.token_hex(16))
            )
            access = learner_access(wire.topics, mesh.learner, mesh.owners)
            bus = open_bus(broker, access, collaboration_specs(wire), stop, closing)
            learner = LearnerRole(file, wire, journal, boot=secrets.token_hex(16))
            learner.presence.hello(bus, ask)
            offsets = ask(lambda: learner_start(journal, wire, bus))
            if journal.copied:
                text = "the journal is a copy, as new as what was asked: going on with it"
                LEARNER.warning(text, extra=LogEvent.JOURNAL.of())
                journal.adopt()
            process = KafkaProcess(bus, "learner", LIVENESS, LEARNER)
            expiry = certificates(broker, LEARNER)
            figures = LearnerMetrics(
                mesh.name,
                mesh.learner,
                tuple(mesh.owners),
                mesh.queries,
                learner.asked,
                connected=lambda: process.connected,
                ends=expiry.first,
            )
            if endpoint is not None:
                endpoint.show(figures.shared, figures.missing, process.alive.stalled, expiry.soon)
            last_reads.watch(endpoint, [figures.shared])
            at = f"after query {learner.asked}" if learner.asked else "with a new journal"
            text, count = "run %s of %s goes on %s: %d owners", len(mesh.owners)
            LEARNER.info(text, mesh.run, mesh.name, at, count, extra=LogEvent.STARTED.of())
            watcher = LearnerLog(LEARNER, figures)
            process.run({mesh.learner: learner.role(offsets, watcher, timeout=mesh.response_timeout)}, stop)
            LEARNER.info("stopped, as asked", extra=LogEvent.STOPPED.of())


def certificates(broker: BrokerSettings, log: logging.Logger) -> Expiry:
    """Return when the certificates for the shared broker expire. Logs a warning if that is soon."""
    expiry = Expiry({"brokers.mesh": broker})
    warn_of_end(expiry, log)
    return expiry


_LINES = {
    CollaborationNotice.CHANGED: (
        logging.ERROR,
        "%s has asked query %d again, with another theta: it gets no answer",
    ),
    CollaborationNotice.SKIPPED: (
        logging.WARNING,
        "%s has skipped a query before query %d: it gets no answer",
    ),
    CollaborationNotice.BEYOND: (
        logging.WARNING,
        "%s has asked query %d, beyond the last: it gets no answer",
    ),
    CollaborationNotice.PASSED: (logging.WARNING, "%s went on without an answer of ours before query %d"),
    CollaborationNotice.EVIDENCE: (logging.ERROR, "%s has sent two answers to query %d: the first counts"),
    CollaborationNotice.LEFT_OUT: (
        logging.WARNING,
        "%s has not answered query %d in time: it is left out of it",
    ),
    CollaborationNotice.UNANSWERED: (logging.WARNING, "%s: nobody has answered query %d in time: waiting on"),
}


def _say(log: logging.Logger, summed: Summed, noticed: Noticed[CollaborationNotice]) -> None:
    level, text = _LINES.get(noticed.notice, (logging.DEBUG, f"{noticed.notice}: %s, query %d"))
    if log.isEnabledFor(level):
        summed.say(level, (noticed.notice, noticed.peer), text % (noticed.peer, noticed.number))


class LearnerLog:
    """Forwards the learner's events to metrics and log.

    A silent owner is logged once, until it is heard again.
    """

    def __init__(self, log: logging.Logger, metrics: LearnerMetrics) -> None:
        self._log, self._metrics, self._summed = log, metrics, Summed(log)
        self._silent: set[str] = set()

    def stepped(self, record: QueryRecord) -> None:
        """Note that a query is over."""
        self._metrics.stepped(record)
        self._summed.catch_up()
        for owner in [answer.owner for answer in record.answers if answer.owner in self._silent]:
            self._silent.discard(owner)
            self._log.info("%s answers again", owner, extra=LogEvent.PEER_HEARD.of(peer=owner))
        answered, missing = len(record.answers), len(record.missing)
        query, text = record.number - 1, "query %d: %d answers, %d missing"
        self._log.debug(text, query, answered, missing, extra=LogEvent.QUERY.of(round=query))

    def noticed(self, noticed: Noticed[CollaborationNotice]) -> None:
        """Handle a notice of the machine."""
        self._metrics.noticed(noticed)
        if noticed.notice is CollaborationNotice.LEFT_OUT:
            if noticed.peer in self._silent:
                return
            self._silent.add(noticed.peer)
        _say(self._log, self._summed, noticed)

    def refused(self, owner: str, refused: Refused) -> None:
        """Note that an owner's record was refused. Its bytes are in the dead letters."""
        self._metrics.refused(refused.reason)
        line = f"a record of {owner} was refused: {refused.reason.value}"
        self._summed.say(logging.WARNING, (owner, refused.reason), line)


class OwnerLog:
    """Forwards the owner's events to metrics and log."""

    def __init__(self, log: logging.Logger, metrics: OwnerMetrics) -> None:
        self._log, self._metrics, self._summed = log, metrics, Summed(log)

    def answered(self, record: ResponseRecord) -> None:
        """Note that an answer is durable."""
        self._metrics.answered(record)
        self._summed.catch_up()
        extra = LogEvent.QUERY.of(round=record.query)
        self._log.debug("query %d is answered", record.query, extra=extra)

    def read(self, seconds: float, read: SetRead) -> None:
        """Record how long a pass took. Its result is private."""
        del read
        self._metrics.read(seconds)

    def noticed(self, noticed: Noticed[CollaborationNotice]) -> None:
        """Handle a notice of the machine."""
        self._metrics.noticed(noticed)
        _say(self._log, self._summed, noticed)

    def refused(self, refused: Refused) -> None:
        """Note that a query was refused. Its bytes are in the dead letters."""
        self._metrics.refused(refused.reason)
        line = f"a query was refused: {refused.reason.value}"
        self._summed.say(logging.WARNING, refused.reason, line)
