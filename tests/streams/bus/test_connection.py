import logging

import pytest
from confluent_kafka import KafkaError

from streams.bus.bus import BusError, Denied, OffsetOutOfRange, TooLarge, UnknownTopic, Unreachable
from streams.bus.connection import RateLimited
from streams.bus.errors import bus_error


@pytest.fixture
def spoken():
    """A log with a clock in hand: (say, what was said, move the clock)."""
    now, lines = [0.0], []

    class Lines(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    logger = logging.getLogger("tests.quiet")
    logger.propagate = False
    logger.filters, logger.handlers = [RateLimited(60.0, lambda: now[0])], [Lines()]

    def later(seconds):
        now[0] += seconds

    return logger, lines, later


def test_one_kind_speaks_once_a_minute_and_says_what_it_kept_back(spoken):
    logger, lines, later = spoken
    for k in range(40):
        logger.warning("%s [%s] %s", "FAIL", "client-1", f"try {k}")
        later(1)
    assert lines == ["FAIL [client-1] try 0"]
    later(30)
    logger.warning("%s [%s] %s", "FAIL", "client-1", "again")
    assert lines[1:] == ["FAIL [client-1] again (and 39 times since the last line)"]
    later(60)
    logger.warning("%s [%s] %s", "FAIL", "client-1", "and again")
    assert lines[2:] == ["FAIL [client-1] and again"]


def test_other_kinds_and_other_clients_are_heard(spoken):
    logger, lines, _ = spoken
    for client in ("client-1", "client-2"):
        for kind in ("FAIL", "GETPID"):
            logger.warning("%s [%s] %s", kind, client, "x")
    logger.warning("plain")
    assert len(lines) == 5


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, UnknownTopic),
        (KafkaError._UNKNOWN_PARTITION, Unreachable),  # said while a broker is away: no proof
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Denied),
        (KafkaError._AUTHENTICATION, Denied),
        (KafkaError.MSG_SIZE_TOO_LARGE, TooLarge),
        (KafkaError._AUTO_OFFSET_RESET, OffsetOutOfRange),
        (KafkaError._TRANSPORT, Unreachable),
        (KafkaError._TIMED_OUT, Unreachable),
        (KafkaError._BAD_MSG, BusError),
    ],
)
def test_errors_are_told_in_the_words_of_the_bus(code, kind):
    error = bus_error(KafkaError(code), "topic-1")
    assert type(error) is kind
    assert "topic-1" in str(error)
