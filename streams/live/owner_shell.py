"""The shell of a collaboration's owner: bytes to events, effects carried out in order, without time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nodes.collaboration.events import (
    JournalResponse,
    Notice,
    OwnerEvent,
    OwnerStarted,
    QueryArrived,
    QueryEvidence,
    ReadSet,
    SendResponse,
    SetRead,
)
from nodes.collaboration.messages import RecordSet, ResponseRecord
from nodes.collaboration.owner import OwnerMachine
from nodes.protocol import Halt, Noticed
from streams.codec import Expected, Reason, Refused, decode_query, encode_query, encode_response
from streams.live.party_start import OwnerStart


@dataclass(frozen=True, slots=True)
class OwnerPorts:
    """The functions that carry out an owner's effects.

    `append` makes a record durable before it returns. `send` takes the bytes of a response. `refused` takes
    (bytes, reason) of a query, for the dead letters.
    """

    append: Callable[[ResponseRecord], None]
    send: Callable[[bytes], None]
    read_set: Callable[[ReadSet], None]
    noticed: Callable[[Noticed[Notice]], None]
    refused: Callable[[bytes, Refused], None]
    halt: Callable[[Halt], None]


class OwnerShell:
    """The shell of one owner's process."""

    def __init__(
        self, machine: OwnerMachine, start: OwnerStart, expected: Expected, ports: OwnerPorts
    ) -> None:
        self._machine, self._begin, self._expected, self._ports = machine, start, expected, ports
        self._effects: dict[type, Callable[[Any], None]] = {
            JournalResponse: lambda effect: ports.append(effect.record),
            SendResponse: lambda effect: ports.send(encode_response(effect.response, expected.digest)),
            ReadSet: ports.read_set,
            Noticed: ports.noticed,
            QueryEvidence: self._keep_evidence,
            Halt: ports.halt,
        }

    def start(self, records: RecordSet) -> None:
        """Send journalled answers that the topic lacks, and start the machine on its set."""
        for value in self._begin.unsent:
            self._ports.send(value)
        self._handle(OwnerStarted(records, self._begin.records, self._begin.published))

    def query_read(self, value: bytes) -> None:
        """Take a record of the topic of queries."""
        try:
            query = decode_query(value, self._expected)
        except Refused as refused:
            self._ports.refused(value, refused)
            return
        self._handle(QueryArrived(query))

    def set_read(self, read: SetRead) -> None:
        """Take the sum requested by `read_set`."""
        self._handle(read)

    def _handle(self, event: OwnerEvent) -> None:
        if self._machine.halted:
            return
        for effect in self._machine.handle(event):
            self._effects[type(effect)](effect)

    def _keep_evidence(self, effect: QueryEvidence) -> None:
        asked = (
            "" if effect.first is None else f"query {effect.query.number} was asked at {effect.first.hex()}"
        )
        reason = Reason.MALFORMED if effect.first is None else Reason.SECOND_VALUE
        self._ports.refused(encode_query(effect.query, self._expected.digest), Refused(reason, asked))
