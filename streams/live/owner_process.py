"""An owner's process, from its start with a mesh file and state folder to its end."""

import logging
from contextlib import ExitStack

from nodes.collaboration.owner import OwnerMachine
from nodes.protocol import Identity
from streams.bus.collaboration_rights import owner_on_mesh
from streams.bus.collaboration_specs import collaboration_specs
from streams.bus.kafka import KafkaBus
from streams.ledger import Reuse, promises_of
from streams.live.live_owner import LiveOwner
from streams.live.owner_spend import OwnerSpend
from streams.live.party_process import (
    PartyOptions,
    asker,
    attended,
    certificates,
    liveness,
    new_id,
    open_bus,
    presence_of,
)
from streams.live.party_start import OwnerStart, owner_start, say_hello
from streams.live.party_watchers import OwnerLog
from streams.live.serving import warn_of_open
from streams.live.topic_set import topic_passes
from streams.mesh.collaboration_file import CollaborationFile
from streams.mesh.wire import Wire
from streams.metrics.collaboration import OwnerMetrics
from streams.metrics.endpoint import Endpoint
from streams.records.passes import Passes, passes
from streams.runtime.presence import Presence
from streams.runtime.process import FLUSH, Ask, Stop
from streams.state.owner_journal import OwnerJournal
from streams.state.spends_topic import SpendsBus, SpendsTopic


class OwnerProcess:
    """One process of the owner `name`. Raises MeshFileError if the file lacks something that it needs."""

    def __init__(self, file: CollaborationFile, name: str, options: PartyOptions) -> None:
        self._file, self._name, self._options, self._wire = file, name, options, Wire(file.resolved)
        self._own = file.own(name)
        self._broker = file.mesh_broker_of(name)
        self._mechanism = file.resolved.mechanism(name)
        if name in file.on_topics:
            file.brokers(name)
            self._passes: Passes | None = None
        else:
            self._passes = passes(file, name)
        self._log = logging.getLogger(f"mirrormesh.owner.{name}")

    def run(self, stop: Stop) -> None:
        """Run until asked to stop.

        Raises ProcessExit when the learner is done, Failed, Stopped, JournalError, BusError, NotServed.
        """
        file, name, wire, log = self._file, self._name, self._wire, self._log
        with ExitStack() as closing:
            shared, private = self._endpoints(closing)
            # before a journal is made, which a mended file may not fit
            looked = None if self._passes is None else self._passes.fixed()
            spend = OwnerSpend(file, name, self._options.state, other_data=self._options.other_data)
            journal = closing.enter_context(spend.journal(new_id()))
            bus = open_bus(
                self._broker, owner_on_mesh(wire.topics, name), collaboration_specs(wire), stop, closing
            )
            ask, presence = asker(stop), presence_of(file, name, journal.instance)
            first = say_hello(presence, wire.topics.progress(name), len(journal.records), bus, ask)
            start = ask(lambda: self._start(journal, bus))
            if journal.copied:
                log.warning("the journal is a copy, as new as what was answered: going on with it")
                journal.adopt()
            known = self._spent(spend, journal, ask, closing)
            read = self._passes or self._topic_passes(journal)
            held = looked or ask(read.fixed)
            expiry = certificates(self._broker, log)
            figures = OwnerMetrics(
                file.mesh.name,
                name,
                self._mechanism,
                start.records[-1] if start.records else None,
                connected=lambda: live.party.clock.going,
                journal_bytes=lambda: journal.size,
                ends=expiry.first,
            )
            live = self._live(start, journal, read, presence, bus, figures)
            alive = liveness(live.party, self._own.liveness, "owner", log)
            if shared is not None:
                shared.show(figures.shared, figures.missing, noted=expiry.soon)
            if private is not None:
                private.show(figures.private, figures.missing, alive.stalled, expiry.soon)
            self._say(start, known)
            attended(live.party, alive, bus, stop, lambda: live.run(held, first))
            log.info("stopped, as asked")

    def _endpoints(self, closing: ExitStack) -> tuple[Endpoint | None, Endpoint | None]:
        private = self._options.private_metrics or self._own.private_endpoint
        warn_of_open("private metrics", private, self._log)
        shared, own = (
            None if address is None else closing.enter_context(Endpoint(*address))
            for address in (self._options.metrics, private)
        )
        return shared, own

    def _start(self, journal: OwnerJournal, bus: KafkaBus) -> OwnerStart:
        wire = self._wire
        return owner_start(
            journal.records,
            journal.instance,
            wire.topics,
            wire.responses[self._name],
            wire.queries,
            bus,
            simulated=self._mechanism.simulated,
        )

    def _topic_passes(self, journal: OwnerJournal) -> Passes:
        """Return the passes over the owner's topic, up to where its first answer has fixed it."""
        fixed = journal.records[0].set.extent if journal.records else None
        return topic_passes(self._file, self._name, fixed)

    def _live(
        self,
        start: OwnerStart,
        journal: OwnerJournal,
        read: Passes,
        presence: Presence,
        bus: KafkaBus,
        figures: OwnerMetrics,
    ) -> LiveOwner:
        wire, mesh = self._wire, self._file.mesh
        machine = OwnerMachine(
            Identity(self._name, mesh.run, journal.instance), mesh.learner, self._mechanism
        )
        watcher = OwnerLog(self._log, figures)
        return LiveOwner(machine, start, journal, read, presence, wire, bus, watcher)

    def _spent(self, spend: OwnerSpend, journal: OwnerJournal, ask: Ask, closing: ExitStack) -> Reuse:
        """Record that the run continues, beside a topic of data too; return what is known of the set."""
        topic = None
        if self._passes is None:
            broker = self._file.brokers(self._name).data
            lines = ask(lambda: SpendsBus(broker, [self._name]))
            closing.callback(lines.close)
            closing.callback(lines.flush, FLUSH / 2)
            topic = SpendsTopic(lines, self._name)
        own = ask(lambda: spend.begin(journal, topic))
        closing.callback(spend.end, journal)
        return ask(lambda: spend.known(own))

    def _say(self, start: OwnerStart, known: Reuse) -> None:
        """Log the guarantee, and where the owner continues."""
        self._log.info("%s", promises_of(self._file, {self._name: known})[self._name].sentence)
        at = f"after query {start.records[-1].query}" if start.records else "with a new journal"
        self._log.info("run %s of %s goes on %s", self._file.mesh.run, self._file.mesh.name, at)
