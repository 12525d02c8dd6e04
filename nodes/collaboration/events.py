"""The events and effects of learner and owner, beside those of `nodes.protocol`: frozen values.

The shell feeds events one by one, each after all effects of the one before are done, in order: a `Journal...`
is done when it is durable, a `Send...` when the producer has taken it. A deadline is `response_timeout`; the
learner has stepped query k once the record of query k + 1 is durable.
"""

from enum import StrEnum
from typing import NamedTuple

from nodes.collaboration.messages import Query, QueryRecord, RecordSet, Response, ResponseRecord
from nodes.privacy.private import Private
from nodes.privacy.query import GradientSum
from nodes.protocol import DeadlinePassed, Halt, Noticed, StartDeadline, Stepped
from nodes.values import FloatArray

# ------------------------------------------------------------------------------------- the owner's events


class OwnerStarted(NamedTuple):
    """The owner's process has started. `records`: all of its journal, oldest first.

    `set`: its set of records as it stands. `published`: the largest query that its own topic holds a response
    to (0: none).
    """

    set: RecordSet
    records: tuple[ResponseRecord, ...] = ()
    published: int = 0


class QueryArrived(NamedTuple):
    """A well-formed query of this run was read."""

    query: Query


class SetRead(NamedTuple):
    """The pass of `ReadSet` is over: the set that was read, and the sum of its clipped gradients."""

    query: int
    set: RecordSet
    total: Private[GradientSum]


OwnerEvent = OwnerStarted | QueryArrived | SetRead

# ------------------------------------------------------------------------------------ the owner's effects


class ReadSet(NamedTuple):
    """Read the set once and sum the clipped gradients at `parameters` (d,); then `SetRead`.

    It replaces a pass that is still under way: its sum is not wanted any more.
    """

    query: int
    parameters: FloatArray


class JournalResponse(NamedTuple):
    """Make the record durable before the next effect. Any error ends the process."""

    record: ResponseRecord


class SendResponse(NamedTuple):
    """Send the response to the learner, again until it is acknowledged."""

    response: Response


class QueryEvidence(NamedTuple):
    """The learner broke the protocol: keep the query. `first`: the digest of what it asked before, if any."""

    query: Query
    first: bytes | None


# ----------------------------------------------------------------------------------- the learner's events


class LearnerStarted(NamedTuple):
    """The learner's process has started. `records`: its journal's last records, oldest first."""

    records: tuple[QueryRecord, ...] = ()


class ResponseArrived(NamedTuple):
    """A well-formed response of this run was read."""

    response: Response


LearnerEvent = LearnerStarted | ResponseArrived | DeadlinePassed

# ---------------------------------------------------------------------------------- the learner's effects


class JournalQuery(NamedTuple):
    """Make the record durable before the next effect. Any error ends the process."""

    record: QueryRecord


class SendQuery(NamedTuple):
    """Send the query to all owners, again until it is acknowledged."""

    query: Query


class ResponseEvidence(NamedTuple):
    """An owner has sent two values for one query: keep both. The `first` counts."""

    response: Response
    first: FloatArray


# ------------------------------------------------------------------------------------------------- of both


class CollaborationNotice(StrEnum):
    """An event with a peer: public, counted by the shell."""

    DUPLICATE = "asked or answered again"
    CHANGED = "another theta for the same query"
    SKIPPED = "query out of order"
    BEYOND = "query beyond the last"
    PASSED = "query passed over"
    FOREIGN = "not of this run"
    EVIDENCE = "second value for a query"
    LATE = "response too late"
    EARLY = "response to no query yet"
    LEFT_OUT = "owner left out of a query"
    UNANSWERED = "nobody has answered"


OwnerEffect = ReadSet | JournalResponse | SendResponse | QueryEvidence | Noticed[CollaborationNotice] | Halt
LearnerEffect = (
    JournalQuery
    | SendQuery
    | StartDeadline
    | ResponseEvidence
    | Stepped[QueryRecord]
    | Noticed[CollaborationNotice]
    | Halt
)
