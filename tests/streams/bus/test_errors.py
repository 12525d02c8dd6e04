from confluent_kafka import KafkaError

from streams.bus.bus import UnknownTopic
from streams.bus.errors import bus_error


def test_a_topic_that_is_missing_says_who_makes_it():
    error = bus_error(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "m.run-1.topology")
    assert isinstance(error, UnknownTopic)
    assert str(error) == "no topic m.run-1.topology: run mirrormesh provision"


def test_an_answer_without_words_is_told_by_its_code():
    code = KafkaError.COORDINATOR_NOT_AVAILABLE
    error = bus_error(KafkaError(code, "ConsumerGroupDescribe: "), "group data.a")
    assert str(error) == "group data.a: ConsumerGroupDescribe: Broker: Coordinator not available"
    assert str(bus_error(KafkaError(code, "busy"), "group data.a")) == "group data.a: busy"
