"""The events that processes log: a stable name for each kind of line, and the fields beside its sentence.

A line of a log in JSON has `event`, one of these names, and those of the fields that the event has. Sentences
may change; names and fields are an interface. docs/reference/log.md has the table, generated from here.
"""

import logging
import re
import time
from collections.abc import Callable
from enum import Enum
from typing import Any

FIELDS = {
    "mesh": "The mesh's name, once the mesh file is read.",
    "run": "The run's name, likewise.",
    "node": "The node, owner or learner that the line is about, where it is one.",
    "round": "The round, or an owner's query.",
    "peer": "The other party: a node, an owner.",
    "reason": "A library's name, or a reason of a closed list.",
}
"""The fields of an event, and their meaning. None is made of records."""


class LogEvent(Enum):
    """A kind of line: its meaning. The name in a log is the member's in lower case."""

    ACCESS_DENIED = "The broker refuses what the process needs to read or write."
    ACCUSED = "A peer says that it has two values of this node for a round: see the runbook Accused."
    BEGINS_AGAIN = "The process starts its work anew, as a log was cut or a client has failed."
    BROKER_AWAY = "A broker does not answer. One line an outage, and one more as its length doubles."
    BROKER_BACK = "The mesh broker answers again."
    CANNOT_START = "One of several nodes of the process cannot start."
    CAUTION = "The mesh file has a setting that is valid, and probably not meant."
    CERTIFICATE_EXPIRES = "A certificate expires soon."
    CLIENT = "A line of the Kafka client about anything but a broker that is away."
    DATA_TOPIC = "A topic of records that others made, or what reads it, has settings that fit badly."
    ENDED = "The process, or one of its roles, has ended: its run is over, or it has failed."
    EQUIVOCATION = "A peer has sent two values for one round."
    FED = "How far a feed is, for the owner of its records, and what it has left out."
    GUARANTEE = "What is guaranteed for the node's or owner's records."
    HOST_UNVERIFIED = "The broker's host name is not verified."
    JOURNAL = "The journal is a copy, or older than what was published: what follows from it."
    LABELS_AWAY = "Labels that come later cannot be read now."
    LABELS_BACK = "They can be read again."
    LIBRARY = "A line of a library, without the texts of its exceptions."
    LISTENING = "A node has joined, or asks to join."
    MESH_FILE_OLD = "Plans are made by a newer mesh file."
    NODE_JOINED = "The scheduler plans with a node that it did not plan with before."
    NODE_LEFT = "A node has left in order, as its owner wished."
    NODE_LEFT_OUT = "A member has held up the others: it is planned without for a while."
    NODE_RETURNED = "A node that was silent is heard again by the scheduler."
    NODE_SILENT = "The scheduler has not heard a node for `mesh.silence` seconds."
    NOTICED = "The machine has noticed something else, at level debug."
    OUTPUT_LOST = "A decision, prediction or dead letter could not be written."
    PEER_AHEAD = "A peer sends far ahead of the plans: a round was not kept."
    PEER_HEARD = "A peer that was silent is heard again."
    PEER_REFUSED = "A record of a peer was refused; its bytes are in the dead letters."
    PEER_SILENT = "A peer was silent in a round, and given up: one line until it is heard again."
    PORT_OPEN = "Pages or metrics that tell about the data are open to other machines."
    QUERY = "A query of a collaboration is answered."
    RECORDS_BROKEN = "Stored batches of a topic cannot be read."
    RECORDS_DELETED = "Records of a topic were deleted before they were read."
    RECOVERED = "What was found, and done, when a node looked for its place in the logs."
    REGISTRY_AWAY = "The schema registry does not answer."
    REGISTRY_BACK = "It answers again."
    SENT_AGAIN = "The broker has not taken a record, which is sent again."
    STALLED = "A part of the process makes no progress, or is dead."
    STARTED = "The process goes on, and where."
    STOPPED = "The process was asked to stop, and has."
    WAITS_FOR_MODEL = "`score` waits for a model."

    @property
    def label(self) -> str:
        """The name in a log."""
        return self.name.lower()

    def of(
        self,
        *,
        node: str | None = None,
        round: int | None = None,
        peer: str | None = None,
        reason: str | None = None,
    ) -> dict[str, Any]:
        """Return what a call of a logger takes as `extra`."""
        fields = {"node": node, "round": round, "peer": peer, "reason": reason}
        return {"event": self, "fields": {name: value for name, value in fields.items() if value is not None}}


_ABSENT = re.compile(
    r"Connect|connect|NodeNotReady|RequestTimedOut|oordinator dead|Unable to update metadata|Disconnected"
    r"|brokers are down|timed out|resolve"
)
_ADDRESS = re.compile(r"[\w.-]+:\d+|\[[0-9a-fA-F:]+\]:\d+")
_CLIENTS = ("aiokafka", "faust", "mode", "kafka")


class Outages(logging.Filter):
    """Lets one line through of a broker that is away, and another as the outage's length doubles.

    The first line is that of librdkafka, or our own, as these name the broker. Another one comes
    through only if none that does has come for `WAIT` seconds. `BROKER_BACK` ends all outages, and comes
    through if there was one; 150 s without a line end one too.
    """

    WAIT, FIRST, LONGEST, QUIET = 10.0, 60.0, 3600.0, 150.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._outages: dict[str, _Outage] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record comes through; the record of a library becomes an event."""
        if getattr(record, "event", None) is LogEvent.BROKER_BACK:
            was_away, self._outages = any(outage.next_age for outage in self._outages.values()), {}
            return was_away
        if not _is_of_absence(record):
            return True
        record.event = LogEvent.BROKER_AWAY
        now, text = self._clock(), record.getMessage()
        address = _ADDRESS.search(text)
        broker = address[0] if address else ""
        self._outages = {
            name: outage for name, outage in self._outages.items() if now - outage.last < self.QUIET
        }
        outage = self._outages.setdefault(broker, _Outage(now))
        outage.last = now
        due = self.WAIT if not broker and not outage.next_age else outage.next_age
        if now - outage.since < due or (not broker and len(self._outages) > 1):
            outage.dropped += 1
            return False
        drops = f" (and {outage.dropped} such lines before)" if outage.dropped else ""
        record.msg, record.args = "%s%s", (text, drops)
        outage.next_age, outage.dropped = max(self.FIRST, 2 * (now - outage.since)), 0
        outage.next_age = min(outage.next_age, now - outage.since + self.LONGEST)
        return True


class _Outage:
    """An outage: when it began, its last line came, and (as an age) one is due; and the lines dropped."""

    def __init__(self, now: float) -> None:
        self.since = self.last = now
        self.next_age = 0.0
        self.dropped = 0


def _is_of_absence(record: logging.LogRecord) -> bool:
    event = getattr(record, "event", None)
    if event is not None:
        return event is LogEvent.BROKER_AWAY
    client = record.name.partition(".")[0] in _CLIENTS or record.name == "mirrormesh.kafka"
    return client and _ABSENT.search(record.getMessage()) is not None
