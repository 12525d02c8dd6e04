"""Turns librdkafka's errors into errors of the bus."""

import re

from confluent_kafka import KafkaError

from streams.bus.bus import BusError, Denied, OffsetOutOfRange, TooLarge, UnknownTopic, Unreachable
from streams.bus.cures import Cure, cure

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
