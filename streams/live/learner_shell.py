"""The shell of a collaboration's learner: bytes to events, effects carried out in order, without time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nodes.collaboration.events import (
    JournalQuery,
    LearnerEvent,
    LearnerStarted,
    Notice,
    ResponseArrived,
    ResponseEvidence,
    SendQuery,
)
from nodes.collaboration.learner import LearnerMachine
from nodes.collaboration.messages import QueryRecord
from nodes.protocol import DeadlinePassed, Halt, Noticed, StartDeadline, Stepped
from streams.codec import Expected, Reason, Refused, decode_response, encode_query, encode_response


@dataclass(frozen=True, slots=True)
class LearnerPorts:
    """The functions that carry out a learner's effects.

    `append` makes a record durable before it returns. `send` takes the bytes of a query. `refused` takes
    (owner, bytes, reason) of a response, for the dead letters.
    """

    append: Callable[[QueryRecord], None]
    send: Callable[[bytes], None]
    start_deadline: Callable[[StartDeadline], None]
    stepped: Callable[[Stepped[QueryRecord]], None]
    noticed: Callable[[Noticed[Notice]], None]
    refused: Callable[[str, bytes, Refused], None]
    halt: Callable[[Halt], None]


class LearnerShell:
    """The shell of one learner's process. `expected`: the responses that it accepts, by owner."""

    def __init__(
        self,
        machine: LearnerMachine,
        records: tuple[QueryRecord, ...],
        expected: Mapping[str, Expected],
        digest: bytes,
        ports: LearnerPorts,
    ) -> None:
        self._machine, self._records, self._expected, self._ports = machine, records, expected, ports
        self._digest = digest
        self._effects: dict[type, Callable[[Any], None]] = {
            JournalQuery: lambda effect: ports.append(effect.record),
            SendQuery: lambda effect: ports.send(encode_query(effect.query, digest)),
            StartDeadline: ports.start_deadline,
            Stepped: ports.stepped,
            Noticed: ports.noticed,
            ResponseEvidence: self._keep_evidence,
            Halt: ports.halt,
        }

    def start(self) -> None:
        """Start the machine where the journal ends."""
        self._handle(LearnerStarted(self._records))

    def response_read(self, owner: str, value: bytes) -> None:
        """Take a record of an owner's topic."""
        try:
            response = decode_response(value, self._expected[owner])
        except Refused as refused:
            self._ports.refused(owner, value, refused)
            return
        self._handle(ResponseArrived(response))

    def deadline_passed(self, number: int) -> None:
        """Take the end of a deadline; every response was read to its end after it."""
        self._handle(DeadlinePassed(number))

    def _handle(self, event: LearnerEvent) -> None:
        if self._machine.halted:
            return
        for effect in self._machine.handle(event):
            self._effects[type(effect)](effect)

    def _keep_evidence(self, effect: ResponseEvidence) -> None:
        for values in (effect.first, effect.response.response):
            value = encode_response(effect.response._replace(response=values), self._digest)
            self._ports.refused(effect.response.owner, value, Refused(Reason.SECOND_VALUE))
