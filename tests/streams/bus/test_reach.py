"""Reaching a broker that is slow: a command waits while somebody listens, and not otherwise."""

import socket

import pytest

from streams.bus import logs
from streams.bus.bus import Unreachable
from streams.bus.diagnosis import SILENT
from streams.mesh.settings.brokers import BrokerSettings


@pytest.fixture
def attempts(monkeypatch):
    """Answer the third time; before, say in turn what is wrong."""
    told = []

    def made(*words):
        def reach(broker):
            told.append(broker)
            if len(told) <= len(words):
                raise Unreachable(f"{broker.servers}: {words[len(told) - 1]}")
            return "cluster"

        monkeypatch.setattr(logs, "reach", reach)
        return told

    return made


@pytest.fixture
def somebody():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield BrokerSettings(servers=f"127.0.0.1:{listening.getsockname()[1]}")


def test_a_broker_that_listens_and_is_slow_is_asked_again(attempts, somebody):
    told = attempts(SILENT, SILENT)
    assert logs.reach_busy(somebody) == "cluster"
    assert len(told) == 3


def test_it_is_not_asked_for_ever(attempts, somebody, monkeypatch):
    monkeypatch.setattr(logs, "LONG", -1.0)
    attempts(SILENT)
    with pytest.raises(Unreachable, match=SILENT):
        logs.reach_busy(somebody)


def test_where_nobody_listens_or_somebody_else_does_it_is_said_at_once(attempts, somebody):
    nobody = BrokerSettings(servers="127.0.0.1:1")
    for broker, words in ((nobody, SILENT), (somebody, "speaks HTTP: it is no Kafka broker")):
        told = attempts(words)
        with pytest.raises(Unreachable, match=words):
            logs.reach_busy(broker)
        assert len(told) == 1
        told.clear()
