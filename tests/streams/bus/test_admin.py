"""Topics on a broker that has just started, and counts as fenced for a moment."""

import pytest

from streams.bus import provision as administration
from streams.bus.provision import Admin, AdminError
from streams.bus.topic_specs import MIB, TopicSpec

SPEC = TopicSpec("m.r.topology", "topology", MIB)
FENCED = {
    "name": SPEC.name,
    "error_code": 38,
    "error_message": "Unable to replicate the partition 1 time(s): All brokers are currently fenced.",
}
MADE = {"name": SPEC.name, "error_code": 0}


class Client:
    """Answers each request to make topics with the next of these."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def create_topics(self, *_, **__):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {"topics": [answer]}

    def wait_for_topics(self, *_, **__):
        pass


def made(*answers):
    admin = Admin.__new__(Admin)
    admin.servers, admin._client = "one:9092", Client(*answers)
    return admin.create([SPEC])


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(administration, "_AGAIN", 0.0)


def test_it_is_asked_again():
    assert made(FENCED, FENCED, MADE) == [SPEC]


def test_not_for_ever(monkeypatch):
    monkeypatch.setattr(administration, "READY", 10)
    with pytest.raises(AdminError, match="All brokers are currently fenced"):
        made(FENCED)


def test_a_replication_that_cannot_be_is_told_at_once():
    with pytest.raises(AdminError, match="only 1 broker"):
        made(FENCED | {"error_message": "only 1 broker(s) are registered"}, MADE)
