"""The role of the learner: it asks the owners, and steps on their answers.

It recovers from its journal: it asks the newest query again, the same bytes, and reads the owners' topics
from the first response to that query on. A query on its topic that the journal does not know was asked by a
journal that is lost.
"""

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from nodes.collaboration.events import (
    CollaborationNotice,
    JournalQuery,
    LearnerStarted,
    ResponseArrived,
    ResponseEvidence,
    SendQuery,
)
from nodes.collaboration.learner import LearnerMachine
from nodes.collaboration.messages import Query, QueryRecord
from nodes.protocol import Identity, Noticed, Stepped
from streams.bus.bus import Bus
from streams.codec import (
    Reason,
    Refused,
    encode_query,
    encode_response,
)
from streams.collaboration.owner import RESTORE, messages, presence
from streams.mesh.collaboration import Wire
from streams.mesh.collaboration_file import CollaborationFile
from streams.runtime.process import Failed, Unmendable
from streams.runtime.runner import BEAT, Arrived, BadMessage, Role


class LearnerRecords(Protocol):
    """The learner's journal."""

    @property
    def instance(self) -> str:
        """The journal's own id."""

    def records(self, limit: int | None = None) -> tuple[QueryRecord, ...]:
        """Return the last `limit` records (None: all), oldest first."""

    def append(self, record: QueryRecord) -> None:
        """Append the record, durable when this returns."""


class LearnerWatcher(Protocol):
    """Observes a learner, one call at a time: metrics, the log."""

    def stepped(self, record: QueryRecord) -> None:
        """Note that a query is over, and the next one's record durable."""

    def noticed(self, noticed: Noticed[CollaborationNotice]) -> None:
        """Handle a notice of the machine."""

    def refused(self, owner: str, refused: Refused) -> None:
        """Note that an owner's response was refused."""


def learner_start(journal: LearnerRecords, wire: Wire, bus: Bus) -> dict[str, int]:
    """Return the offsets to read the owners' responses from.

    Raises BusError, and Failed if queries were asked that the journal does not know.
    """
    topics, records = wire.topics, journal.records()
    thetas = {record.number: record.parameters.tobytes() for record in records}
    for _, _, query in messages(bus, topics.query, wire.query):
        if query.instance != journal.instance or thetas.get(query.number) != query.parameters.tobytes():
            raise Failed(
                f"{topics.query} holds query {query.number}, which this journal did not ask: {RESTORE}"
            )
    number = max(thetas, default=1)
    return {topics.response(owner): _first_response(bus, wire, owner, number) for owner in wire.responses}


def _first_response(bus: Bus, wire: Wire, owner: str, number: int) -> int:
    """Return the offset of the first response to that query, or a later one."""
    topic = wire.topics.response(owner)
    end = bus.end(topic)  # before it is read: a response may come behind what is read
    for offset, _, response in messages(bus, topic, partial(wire.response, owner)):
        if response.query >= number:
            return offset
    return end


class LearnerRole:
    """Makes the role of one process of the learner. `asked`: the last query that was asked."""

    def __init__(self, file: CollaborationFile, wire: Wire, journal: LearnerRecords, boot: str = "") -> None:
        self._wire, self._journal = wire, journal
        self._before = journal.records()
        self.asked = self._before[-1].number if self._before else 0
        mesh, whole = file.mesh, file.resolved
        identity = Identity(mesh.learner, mesh.run, journal.instance, boot)
        self.machine = LearnerMachine(identity, whole.step, whole.records)
        self.presence = presence(identity, "learner", wire, lambda: self.asked)

    def role(
        self,
        offsets: Mapping[str, int],
        watcher: LearnerWatcher,
        *,
        timeout: float | None,
        beat: float | None = BEAT,
    ) -> Role:
        """Return the role that reads responses from `offsets` on, after `presence` has said hello.

        `timeout`: seconds until an owner is left out of a query; None: never.
        """
        topics, owners = (
            self._wire.topics,
            {self._wire.topics.response(name): name for name in self._wire.responses},
        )

        def kept(effect: JournalQuery, _: float) -> None:
            self.asked = effect.record.number

        return Role(
            machine=self.machine,
            first=LearnerStarted(self._before),
            presence=self.presence,
            beat=beat,
            offsets=offsets,
            decode={topic: partial(self._arrived, owner) for topic, owner in owners.items()},
            send={SendQuery: lambda effect: [(topics.query, self._encoded(effect.query))]},
            keep={JournalQuery: lambda effect: self._journal.append(effect.record)},
            report={Stepped: lambda effect: watcher.stepped(effect.record), Noticed: watcher.noticed},
            evidence={ResponseEvidence: self._letters},
            peers=tuple(owners),
            timeout=timeout,
            letters=topics.dead_letters(self.presence.who.name),
            kept=kept,
            refused=lambda topic, refused: watcher.refused(owners[topic], refused),
            failure=Unmendable,
        )

    def _encoded(self, query: Query) -> bytes:
        return self._wire.envelope.sealed(encode_query(query, self._wire.whole.digest))

    def _arrived(self, owner: str, read: Arrived) -> list[ResponseArrived]:
        return [ResponseArrived(self._wire.response(owner, read.value))]

    def _letters(self, evidence: ResponseEvidence) -> list[BadMessage]:
        response = evidence.response
        topic = self._wire.topics.response(response.owner)
        values = (evidence.first, response.response)
        return [
            BadMessage(
                topic,
                encode_response(response._replace(response=value), self._wire.whole.digest),
                Refused(Reason.SECOND_VALUE),
            )
            for value in values
        ]
