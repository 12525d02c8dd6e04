"""Turns librdkafka's errors into errors of the bus."""

import re
from enum import Enum

from confluent_kafka import KafkaError

from streams.bus.bus import BusError, Denied, OffsetOutOfRange, TooLarge, UnknownTopic, Unreachable

# Names the right that a process lacks and the command that gives it. The words at its start and while it
# runs are the same.


def lacking(subject: str, rights: str) -> str:
    """Return the clause that names the rights that these credentials lack on a topic or group."""
    return f"{subject}: these credentials may not {rights}"


def given_by(user: str | None = None) -> str:
    """Return the words for what gives a process its rights; `user`: the user that it should log in as."""
    to_user = "" if user is None else f" to the user {user}"
    return f"mirrormesh provision MESH --users gives the rights{to_user}, with an administrator's credentials"


def denied(servers: str, subject: str, rights: str, user: str | None = None) -> Denied:
    """Return the error of a process that lacks rights on a topic or group of a broker."""
    return Denied(f"{servers}: {lacking(subject, rights)} ({given_by(user)})")


# What a reader does about each error of its client, so that no error leaves it reading nothing unnoticed.
#
# The names are the client's. Those with an underscore are its own errors, the others a broker's. An error
# that is not listed here ends the process, as does one that this version of the client does not know. An
# error that the client calls retriable is the exception: it is temporary.


class Cure(Enum):
    """What a reader does about an error."""

    WAIT = "it passes by itself, and is in the log"
    SEEK = "the reader continues where the log begins if it may lose records, else the process begins again"
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
"""Certificates and passwords may be renewed at any time, so the reader waits."""
CLUSTER = (
    "_UNKNOWN_PARTITION",  # to the client, which also says so while a broker is away: no proof
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
"""A broker has just come back, or its cluster moves a partition. The client repeats the request."""
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
"""The record cannot be read, and repeating the request does not help."""

PASSING = (*CONNECTION, *CREDENTIALS, *CLUSTER, *NOTHING)
_CURES: dict[int, Cure] = {
    getattr(KafkaError, name): cured
    for names, cured in ((PASSING, Cure.WAIT), (OUTSIDE, Cure.SEEK), (UNREADABLE, Cure.SKIP))
    for name in names
}


def cure(error: KafkaError) -> Cure:
    """Return what a reader does about an error. An error that is fatal to the client ends the process."""
    if error.fatal():
        return Cure.END
    return _CURES.get(error.code()) or (Cure.WAIT if error.retriable() else Cure.END)


_KINDS: dict[int, type[BusError]] = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: UnknownTopic,
    KafkaError._UNKNOWN_TOPIC: UnknownTopic,  # noqa: SLF001 # librdkafka's names of local errors
    KafkaError.TOPIC_AUTHORIZATION_FAILED: Denied,
    KafkaError.GROUP_AUTHORIZATION_FAILED: Denied,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: Denied,
    KafkaError.SASL_AUTHENTICATION_FAILED: Denied,
    KafkaError._AUTHENTICATION: Denied,  # noqa: SLF001 # as above
    KafkaError.MSG_SIZE_TOO_LARGE: TooLarge,
    KafkaError._TRANSPORT: Unreachable,  # noqa: SLF001 # as above
    KafkaError._ALL_BROKERS_DOWN: Unreachable,  # noqa: SLF001 # as above
    KafkaError._SSL: Unreachable,  # noqa: SLF001 # as above; a certificate may be renewed any time
    KafkaError._TIMED_OUT: Unreachable,  # noqa: SLF001 # as above
    KafkaError._RESOLVE: Unreachable,  # noqa: SLF001 # as above
    KafkaError._UNKNOWN_PARTITION: Unreachable,  # noqa: SLF001 # unknown to the client, as while a broker is away
}


_PASSING = {  # temporary errors of a broker that has just come back; the client calls none retriable
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError._WAIT_COORD,  # noqa: SLF001 # as above
}


def is_passing(error: KafkaError) -> bool:
    """Return whether the broker answers with a temporary error."""
    return error.code() in _PASSING


def is_denial(error: KafkaError) -> bool:
    """Return whether the broker refuses a request for a topic because a right is missing."""
    return error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def bus_error(error: KafkaError, subject: str) -> BusError:
    """Return the bus's error; `subject` is the topic, or the servers, that it concerns."""
    code = error.code()
    if cure(error) is Cure.SEEK:
        return OffsetOutOfRange(subject, "the position is not inside the log")
    passing = is_passing(error) or error.retriable()
    kind = _KINDS.get(code) or (Unreachable if passing else BusError)
    if kind is UnknownTopic:
        return UnknownTopic(f"no topic {subject}: run mirrormesh provision")
    return kind(f"{subject}: {_words(error)}")


def _words(error: KafkaError) -> str:
    """Return the client's text without the connection's name and state, which are for programmers."""
    text = re.sub(r"^\w+://\S+: | \(after \d+ms in state \w+\)$", "", str(error.str()))
    if "current SASL state" in text:
        return "takes no users at this address: must be security tls or plaintext"
    if not text.strip() or text.rstrip().endswith(":"):  # an answer may hold a code and no words
        return f"{text.strip()} {KafkaError(error.code()).str()}".strip()
    return text
