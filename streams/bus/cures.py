"""What a reader does about each error of its client, so that none leaves it deaf.

The names are the client's: those with an underscore are its own errors, the others a broker's. An error that
stands nowhere here ends the process, and so does one that this version does not know, unless the client calls
it retriable: then it passes.
"""

from enum import Enum

from confluent_kafka import KafkaError


class Cure(Enum):
    """What a reader does about an error."""

    WAIT = "it passes by itself, and is in the log"
    SEEK = "the reader goes on where the log begins if it may lose records, else the process begins again"
    SKIP = "the record is passed over, and counted as refused"
    END = "the process ends and says why: a restart mends it, or its operator must"


CONNECTION = (
    "_TRANSPORT",
    "_ALL_BROKERS_DOWN",
    "_RESOLVE",
    "_TIMED_OUT",
    "_TIMED_OUT_QUEUE",
    "_MSG_TIMED_OUT",
    "_DESTROY_BROKER",  # it has left the cluster
    "_UNKNOWN_BROKER",
    "_NODE_UPDATE",
    "NETWORK_EXCEPTION",
    "REBOOTSTRAP_REQUIRED",
)
"""The client connects again."""
CREDENTIALS = (
    "_SSL",
    "_AUTHENTICATION",
    "SASL_AUTHENTICATION_FAILED",
    "ILLEGAL_SASL_STATE",
    "GROUP_AUTHORIZATION_FAILED",  # there is no group, and it reads anyway
)
"""Certificates and passwords may be renewed any time."""
CLUSTER = (
    "_UNKNOWN_PARTITION",  # to the client, as while a broker is away: no proof
    "_WAIT_COORD",
    "_WAIT_CACHE",
    "UNKNOWN",  # the broker has failed at a request, as for lack of memory
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "PREFERRED_LEADER_NOT_AVAILABLE",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "BROKER_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
    "LISTENER_NOT_FOUND",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "NOT_CONTROLLER",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "REASSIGNMENT_IN_PROGRESS",
    "OFFSET_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "STALE_BROKER_EPOCH",
    "STALE_CTRL_EPOCH",
    "KAFKA_STORAGE_ERROR",
    "FETCH_SESSION_ID_NOT_FOUND",
    "INVALID_FETCH_SESSION_EPOCH",
    "THROTTLING_QUOTA_EXCEEDED",
)
"""A broker has just come back, or its cluster moves a partition: the client asks again."""
NOTHING = (
    "NO_ERROR",
    "_PARTITION_EOF",
    "_NOOP",
    "_IN_PROGRESS",
    "_PREV_IN_PROGRESS",
    "_RETRY",
    "_INTR",
    "_OUTDATED",
)
"""Nothing is wrong."""
OUTSIDE = (
    "OFFSET_OUT_OF_RANGE",
    "_AUTO_OFFSET_RESET",  # without an offset: the log was cut
    "_LOG_TRUNCATION",
    "_NO_OFFSET",
)
"""The position is not in the log."""
UNREADABLE = (
    "_BAD_COMPRESSION",  # broken, or larger than the client may take
    "_BAD_MSG",  # a wrong checksum, or a form that is none
    "_NOT_IMPLEMENTED",  # an unknown codec or format
    "_UNDERFLOW",
    "_PARTIAL",
    "_KEY_DESERIALIZATION",
    "_VALUE_DESERIALIZATION",
    "INVALID_MSG",  # the broker finds the checksum wrong
    "INVALID_MSG_SIZE",
    "INVALID_RECORD",
    "INVALID_TIMESTAMP",
    "MSG_SIZE_TOO_LARGE",
    "RECORD_LIST_TOO_LARGE",
    "UNSUPPORTED_COMPRESSION_TYPE",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT",
)
"""The record cannot be read, and will not be."""

PASSING = (*CONNECTION, *CREDENTIALS, *CLUSTER, *NOTHING)
_CURES: dict[int, Cure] = {
    getattr(KafkaError, name): cured
    for names, cured in ((PASSING, Cure.WAIT), (OUTSIDE, Cure.SEEK), (UNREADABLE, Cure.SKIP))
    for name in names
}


def cure(error: KafkaError) -> Cure:
    """Return what a reader does about an error. One that is fatal to the client ends the process."""
    if error.fatal():
        return Cure.END
    return _CURES.get(error.code()) or (Cure.WAIT if error.retriable() else Cure.END)
