"""The messages between learner and owners, and the records of both journals: all public values.

Theta_k is computed from responses, and a response from a sum with noise: nothing here shows a record.
"""

from enum import StrEnum
from typing import NamedTuple

from nodes.privacy.private import Private
from nodes.privacy.query import GradientSum
from nodes.protocol import DeadlinePassed, Halt, Noticed, StartDeadline, Stepped
from nodes.values import FloatArray


class Query(NamedTuple):
    """The learner asks every owner for the private mean gradient at theta_k, k = `number`.

    `final`: no answer is asked for. Then `parameters` (d,) are the run's last, and `number` is T + 1. If the
    run ends before query T is over, `number` is that of the last query.
    """

    run: str
    learner: str
    instance: str
    number: int
    parameters: FloatArray
    final: bool = False


class Response(NamedTuple):
    """The owner's Q_l(k), shape (d,), k = `query`. `simulated`: seeded noise, so nothing is protected."""

    run: str
    owner: str
    instance: str
    query: int
    simulated: bool
    response: FloatArray


class Answer(NamedTuple):
    """A response used in a step: its owner, its weight in the sum, and its value, shape (d,)."""

    owner: str
    instance: str
    weight: float
    response: FloatArray


class QueryRecord(NamedTuple):
    """The learner's state, durable before query `number` is sent: everything that a restart needs.

    Attributes
    ----------
    number : int
        k of the query that follows; T + 1 after the last.
    parameters : array (d,)
        theta_k.
    average : array (d,)
        The model so far: of Algorithm 2 the average, of Algorithm 1 theta_k.
    answers : tuple of Answer
        The answers to query `number` - 1, which theta_k was computed from; in the order of the owners.
    missing : tuple of str
        The owners left out of query `number` - 1.
    """

    number: int
    parameters: FloatArray
    average: FloatArray
    answers: tuple[Answer, ...] = ()
    missing: tuple[str, ...] = ()


class RecordSet(NamedTuple):
    """The identity of an owner's set of records. It holds no content of the records, and no hash of it.

    Attributes
    ----------
    source : str
        The settings by which gradients are computed from the source's bytes, as canonical JSON.
    extent : tuple of (name, number)
        Where the source ends: the size of a file, the end offset of each partition.
    records : int
        n_l.
    """

    source: str
    extent: tuple[tuple[str, int], ...]
    records: int


class ResponseRecord(NamedTuple):
    """An owner's answer to a query, durable before it is sent.

    Attributes
    ----------
    query : int
        k.
    asked : bytes
        The digest of theta_k (`nodes.collaboration.owner.digest`).
    response : array (d,)
        Q_l(k), as sent.
    charged : int
        How many queries were charged so far, this one included.
    epsilon_spent : float
        The epsilon that the charged queries have spent, rounded up.
    set : RecordSet
        The set that was read; the same in all records of a journal.
    """

    query: int
    asked: bytes
    response: FloatArray
    charged: int
    epsilon_spent: float
    set: RecordSet


# The events and effects of learner and owner, beside those of `nodes.protocol`: frozen values.
#
# The shell feeds events one by one, each after all effects of the one before are done, in order: a
# `Journal...` is done when its record is durable, a `Send...` when the producer has accepted the message. A
# deadline is `response_timeout`; the learner has stepped query k once the record of query k + 1 is durable.

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

    It replaces a pass that is still under way, whose sum is no longer needed.
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
    """The learner broke the protocol: keep the query. `first`: the digest of its earlier query, if any."""

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
