"""A producer that has failed for good, as the client tells it: an exception, in whatever call comes next."""

from threading import Event

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.bus.bus import ClientFailed, Denied, OffsetOutOfRange
from streams.bus.reader import KafkaReader
from streams.bus.sender import Sender
from streams.mesh.settings.brokers import BrokerSettings
from streams.runtime.process import BEGINS_AGAIN, unreadable
from tests.support.brokers.development import free_port

FATAL = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "sequence desynchronization", fatal=True)


class Failing:
    """A producer that raises a fatal error when it is polled, as librdkafka's does."""

    def poll(self, _):
        raise KafkaException(FATAL)

    def __len__(self):
        return 1


@pytest.fixture
def nobody():
    """A broker that does not answer."""
    return BrokerSettings(servers=f"127.0.0.1:{free_port()}")


@pytest.fixture
def sender(nobody):
    sender = Sender(nobody, 1024)
    sender._producer.close()
    sender._producer = Failing()
    return sender


def test_serving_flushing_and_sending_say_that_it_has_failed(sender):
    for call in (sender.serve, lambda: sender.flush(1.0), lambda: sender.send("t", b"v", None)):
        with pytest.raises(ClientFailed, match="the producer has failed: sequence desynchronization"):
            call()


def test_a_reader_that_serves_it_tells_so_and_the_process_begins_again(sender, nobody):
    told, heard = Event(), []

    def failed(topic, error):
        heard.append(unreadable(topic, error))
        told.set()

    reader = KafkaReader(nobody, {}, lambda *_: None, failed, sender.serve)
    try:
        assert told.wait(60)
    finally:
        reader.close()
    assert len(heard) == 1
    assert isinstance(heard[0], BEGINS_AGAIN)


@pytest.mark.parametrize(
    ("error", "again"), [(OffsetOutOfRange("t", "cut"), True), (Denied("no right"), False)]
)
def test_what_else_ends_reading(error, again):
    assert isinstance(unreadable("t", error), BEGINS_AGAIN) is again
