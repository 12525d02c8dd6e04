"""The events and effects that all machines share, so that one shell can run any of them.

A `number` counts the machine's unit: a node's round, or a query of a collaboration.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

Kind = TypeVar("Kind", bound=StrEnum)
Record = TypeVar("Record")


class Misused(Exception):
    """The caller broke a machine's protocol; nothing has changed."""


class Machine(Protocol):
    """A state machine without input or output: events go in, effects come out."""

    @property
    def halted(self) -> bool:
        """Whether it is done and takes no more events."""

    def handle(self, event: Any, /) -> tuple[Any, ...]:
        """Handle one event and return the effects to carry out, in order. Raises Misused."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A machine's identity: its own name, the run, the journal's life, the process start ("": not known)."""

    name: str
    run: str
    instance: str
    boot: str = ""


# ---------------------------------------------------------------------------------------------- events


class DeadlinePassed(NamedTuple):
    """The deadline of `StartDeadline` has passed, and the peers' topics were then read to their ends."""

    number: int


# --------------------------------------------------------------------------------------------- effects


class StartDeadline(NamedTuple):
    """Wait for the peers' messages of that number, once the machine's own are acknowledged.

    `at_once`: do not wait, but still read every topic of the peers to its end. `DeadlinePassed` follows.
    """

    number: int
    at_once: bool = False


class Halt(NamedTuple):
    """The machine is done. `failed`: it refuses to continue, with the reason in one line for the operator."""

    reason: str
    failed: bool = False


class Noticed(NamedTuple, Generic[Kind]):
    """A notice to count, of a kind of this machine; `peer` is the party concerned, or the machine itself."""

    notice: Kind
    peer: str
    number: int


class Stepped(NamedTuple, Generic[Record]):
    """The round or query of that number is over, and its record is durable (public)."""

    number: int
    record: Record
