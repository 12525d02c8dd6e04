"""The learner's process, from its start with a mesh file and state folder to its end."""

import logging
from contextlib import ExitStack

from nodes.collaboration.learner import LearnerMachine
from nodes.protocol import Identity
from streams.bus.collaboration_rights import learner as learner_access
from streams.bus.collaboration_specs import collaboration_specs
from streams.live.live_learner import LiveLearner
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
from streams.live.party_start import learner_start, say_hello
from streams.live.party_watchers import LearnerLog
from streams.mesh.collaboration_file import CollaborationFile
from streams.mesh.settings.node import LIVENESS
from streams.mesh.wire import Wire
from streams.metrics.collaboration import LearnerMetrics
from streams.metrics.endpoint import Endpoint
from streams.runtime.process import Stop
from streams.state.learner_journal import open_learner_journal

LOGGER = logging.getLogger("mirrormesh.learner")


class LearnerProcess:
    """One process of the learner."""

    def __init__(self, file: CollaborationFile, options: PartyOptions) -> None:
        self._file, self._options, self._wire = file, options, Wire(file.resolved)
        self._broker = file.mesh_broker

    def run(self, stop: Stop) -> None:
        """Run until asked to stop.

        Raises ProcessExit when all is asked, Failed, Stopped, JournalError, BusError, NotServed.
        """
        file, mesh, wire = self._file, self._file.mesh, self._wire
        with ExitStack() as closing:
            metrics = self._options.metrics
            endpoint = None if metrics is None else closing.enter_context(Endpoint(*metrics))
            journal = closing.enter_context(open_learner_journal(file, self._options.state, new_id()))
            access = learner_access(wire.topics, mesh.learner, mesh.owners)
            bus = open_bus(self._broker, access, collaboration_specs(wire), stop, closing)
            ask, presence = asker(stop), presence_of(file, mesh.learner, journal.instance)
            records, progress = journal.records(), wire.topics.progress(mesh.learner)
            asked = records[-1].number if records else 0
            first = say_hello(presence, progress, asked, bus, ask)
            offsets = ask(
                lambda: learner_start(
                    records, journal.instance, wire.topics, wire.queries, wire.responses, bus
                )
            )
            if journal.copied:
                LOGGER.warning("the journal is a copy, as new as what was asked: going on with it")
                journal.adopt()
            expiry = certificates(self._broker, LOGGER)
            figures = LearnerMetrics(
                mesh.name,
                mesh.learner,
                tuple(mesh.owners),
                mesh.queries,
                asked,
                connected=lambda: live.party.clock.going,
                ends=expiry.first,
            )
            live = LiveLearner(
                LearnerMachine(
                    Identity(mesh.learner, mesh.run, journal.instance),
                    file.resolved.step,
                    file.resolved.records,
                ),
                journal,
                presence,
                wire,
                bus,
                mesh.response_timeout,
                LearnerLog(LOGGER, figures),
            )
            alive = liveness(live.party, LIVENESS, "learner", LOGGER)
            if endpoint is not None:
                endpoint.show(figures.shared, figures.missing, alive.stalled, expiry.soon)
            at = f"after query {asked}" if asked else "with a new journal"
            LOGGER.info("run %s of %s goes on %s: %d owners", mesh.run, mesh.name, at, len(mesh.owners))
            attended(live.party, alive, bus, stop, lambda: live.run(offsets | {progress: first}))
            LOGGER.info("stopped, as asked")
