"""A broker that `up` has started, and that dies."""

from types import SimpleNamespace

import pytest

from streams.tools.broker.java import BrokerError
from streams.tools.up import brokers
from streams.tools.up.brokers import StartedBroker
from streams.tools.up.children import LONGEST
from tests.support.processes.mesh import wait_until


@pytest.fixture
def development(monkeypatch):
    """A broker that can die, and be started."""
    made = SimpleNamespace(running=True, starts=[], fails=False)

    def start(folder, port):
        made.starts.append((folder, port))
        if made.fails:
            raise BrokerError("no room\nin its log")
        made.running = True

    made.start, made.status = start, lambda _: SimpleNamespace(running=made.running)
    monkeypatch.setattr(brokers, "development", made)
    return made


def settled(kept, said, number):
    """Look until so much is said."""

    def is_said():
        kept.look()
        return len(said) == number

    wait_until(is_said)


def test_a_broker_that_dies_is_started_again(tmp_path, development):
    said = []
    kept = StartedBroker(tmp_path, 19092, lambda _, text: said.append(text))
    kept.look()
    assert said == []
    development.running = False
    settled(kept, said, 2)
    assert said == ["127.0.0.1:19092 has died, and is started again", "127.0.0.1:19092 runs again"]
    assert development.starts == [(tmp_path, 19092)]
    kept.end()


def test_one_that_cannot_be_started_is_tried_again_later_and_later(tmp_path, development, monkeypatch):
    now, said = [100.0], []
    monkeypatch.setattr(brokers, "time", SimpleNamespace(monotonic=lambda: now[0]))
    kept = StartedBroker(tmp_path, 19092, lambda _, text: said.append(text))
    development.running, development.fails = False, True
    settled(kept, said, 2)
    assert said[1] == "no room"
    kept.look()
    assert len(development.starts) == 1
    now[0] += LONGEST
    settled(kept, said, 4)
    assert len(development.starts) == 2
    kept.end()
