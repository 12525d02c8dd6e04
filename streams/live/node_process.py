"""One node's process, from its start with a mesh file and state folder to its end."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TypeVar

from nodes.machine.journal import DataPosition
from streams.bus.access import node_on_data
from streams.bus.kafka import KafkaBus
from streams.bus.preflight import preflight
from streams.codec.topics import DataTopics
from streams.live.data.stream import DataStream
from streams.live.deadlines import FetchClock
from streams.live.live_node import LiveNode
from streams.live.liveness import Liveness
from streams.live.node_watcher import NodeWatcher
from streams.live.opening import open_decisions, open_mesh, open_predictions, reach_brokers
from streams.live.outputs import Decisions, Predictions
from streams.live.process import retry_until_reachable
from streams.live.service_manager import ServiceManager
from streams.live.serving import Certificates, Endpoints, liveness, serve, warn_of_open
from streams.live.spend import NodeOptions, RunSpend
from streams.live.start import FLUSH, MeshStart, Starter, is_named
from streams.live.stopping import ProcessExit, Stop
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile
from streams.metrics.node_metrics import NodeMetrics
from streams.records.observed import has_truth
from streams.records.sources import decoder
from streams.state.journal import Journal, open_journal
from streams.state.spends import forget_places

T = TypeVar("T")


class NodeProcess:
    """One process of the node `name`. Raises MeshFileError if the file lacks something that it needs."""

    def __init__(self, file: MeshFile, name: str, options: NodeOptions) -> None:
        self._file, self._name, self._options = file, name, options
        self._brokers = file.brokers(name)
        self._made = file.resolved.node(name)
        self._mesh = self._made.surroundings
        self._decoder = decoder(file, name)
        spent, from_end = options.spent or 0, options.reuse == "end"
        try:
            self._learner = replace(self._made.learner, charged_before=spent, from_end=from_end)
        except ValueError as error:
            raise UsageError(f"--spent: {error}") from None
        self._log = logging.getLogger(f"mirrormesh.node.{name}")

    def run(self, stop: Stop) -> None:
        """Run until asked to stop.

        Raises ProcessExit when the run is over, Failed, Stopped, JournalError, BusError, NotServed.
        """
        with ExitStack() as closing:
            private = self._options.private_metrics or self._file.own(self._name).private_endpoint
            endpoints = Endpoints(self._options.metrics, private, self._log, closing)
            warn_of_open("Faust's pages", self._options.web, self._log)
            spend = RunSpend(self._file, self._name, self._options)
            journal = closing.enter_context(
                open_journal(self._options.state, self._name, self._mesh, _new_id(), self._made.price)
            )
            if journal.copied:
                self._log.warning("the journal is a copy: joining as a new instance")
            self._learner = replace(self._learner, charged_before=spend.before())
            reach_brokers(self._file, self._name, stop)
            life = journal.instance
            retry_until_reachable(stop, lambda: self._check_data(journal))
            spend.anew = journal.instance != life
            bus = retry_until_reachable(stop, lambda: open_mesh(self._file, self._name, self._mesh, closing))
            named = partial(is_named, self._name, self._mesh, bus)
            topic = retry_until_reachable(stop, lambda: spend.topic(closing))
            retry_until_reachable(stop, lambda: spend.check(journal, topic, named))
            life, reused = journal.instance, retry_until_reachable(stop, lambda: spend.begin(journal, topic))
            start = self._start(journal, bus, stop)
            if journal.instance != life:
                reused = retry_until_reachable(stop, lambda: spend.begin(journal, topic))
            closing.callback(spend.end, journal, topic)
            decisions = None
            if self._options.decisions:
                decisions = retry_until_reachable(
                    stop, lambda: open_decisions(self._file, self._name, closing)
                )
            predictions = None
            if self._file.own(self._name).predictions:
                loss = self._learner.loss
                predictions = retry_until_reachable(
                    stop, lambda: open_predictions(self._file, self._name, loss, closing)
                )
            live, data, alive = self._assembled(journal, start, bus, decisions, predictions, endpoints)
            self._say(journal, start, reused)
            manager = closing.enter_context(ServiceManager())
            manager.attend(live.every, alive.stalled, stop)
            try:
                asyncio.run(serve(live, data, self._position(start), stop))
            except ProcessExit as ended:
                # a neighbour may still need the last release, and no later process would send it
                while not ended.exit_code and not stop.asked.is_set() and not bus.flush(FLUSH):
                    manager.works(None)
                if not ended.exit_code:
                    journal.forget_secret()
                raise
            self._log.info("stopped, as asked")

    def _check_data(self, journal: Journal) -> None:
        """Check the data broker's topics and rights.

        If the log ends before the journal's position, the topic was recreated. Then a new life begins, with
        the old one's charges, as records may be fed again at other offsets. Slots by count need one
        partition. Raises PreflightFailed, BusError, JournalError.
        """
        topics, records = DataTopics(self._name), journal.records()
        position = dict(records[-1].data_position or ()) if records else {}
        several = {topics.records} if self._file.mesh.slots.by == "time" else set()
        access = node_on_data(self._name, topics.group)
        outside = preflight(self._brokers.data, access, {topics.records: position}, several=several)
        if any(found.position > found.end for found in outside):
            forget_places(self._options.state, self._name, ())
            journal.renew(_new_id())
            self._log.warning("%s was made anew: joining as a new instance", topics.records)

    def _start(self, journal: Journal, bus: KafkaBus, stop: Stop) -> MeshStart:
        def ask(question: Callable[[], T]) -> T:
            return retry_until_reachable(stop, question)

        simulated = self._learner.mechanism.simulated
        starter = Starter(self._name, journal, self._mesh, bus, _new_id, simulated, self._log.warning)
        return starter.start(ask)

    def _assembled(
        self,
        journal: Journal,
        start: MeshStart,
        bus: KafkaBus,
        decisions: Decisions | None,
        predictions: Predictions | None,
        endpoints: Endpoints,
    ) -> tuple[LiveNode, DataStream, Liveness]:
        """Return the node, its data stream, and what tells whether they work."""
        mesh = self._mesh
        clock, slots = FetchClock(time.monotonic, mesh.silence), self._file.mesh.slots
        data = DataStream(
            self._brokers.data,
            self._name,
            self._made.mesh.slots,
            self._decoder,
            slots.timeout if slots.by == "count" else None,
            state=self._options.state,
            web=self._options.web,
        )
        certificates = Certificates(self._brokers, self._log)
        metrics = NodeMetrics(
            self._file.mesh.name,
            self._name,
            self._learner,
            mesh.expected,
            start.records[-1] if start.records else None,
            connected=lambda: clock.going,
            lag=lambda: data.lag,
            counts=lambda: data.counts,
            journal_bytes=lambda: journal.size,
            truth=has_truth(self._decoder),
            ends=certificates.ends,
        )
        watcher = NodeWatcher(self._log, metrics, decisions, predictions)
        live = LiveNode(start, self._learner, journal, mesh, bus, clock, data.open_slot, watcher)
        alive = liveness(live, data, self._file.own(self._name).liveness, self._log)
        endpoints.show(metrics, alive.stalled, certificates)
        return live, data, alive

    def _position(self, start: MeshStart) -> DataPosition | None:
        if start.records:
            return start.records[-1].data_position
        return None if self._learner.from_end else ()

    def _say(self, journal: Journal, start: MeshStart, reused: str) -> None:
        """Log the guarantee, and where the node continues."""
        promised = self._made.guarantee.sentence(self._name)
        self._log.info("%s", f"{promised} {reused}".strip())
        at = f"after round {start.records[-1].stepped}" if start.records else "with a new journal"
        self._log.info("instance %s goes on %s", journal.instance, at)


def _new_id() -> str:
    return secrets.token_hex(16)
