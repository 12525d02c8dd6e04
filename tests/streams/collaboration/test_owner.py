"""An owner that starts compares its journal with what its topic says it has answered."""

import numpy as np
import pytest

from nodes.collaboration.messages import Query, RecordSet, Response, ResponseRecord
from nodes.collaboration.owner import digest
from streams.bus.memory import MemoryBroker, MemoryBus
from streams.collaboration.local import CollaborationJournals, LocalCollaboration, OwnerMemory
from streams.collaboration.roles import learner_start, owner_start
from streams.collaboration.wire import Wire, encode_query, encode_response
from streams.runtime.process import Failed
from tests.support.collaborations.folders import written


@pytest.fixture
def start(tmp_path):
    """Start owner a, which has answered twice, with the answers that are in its journal and on its topic."""
    file = written(tmp_path)
    journals, wire = CollaborationJournals.in_memory(file), Wire(file.resolved)
    local = LocalCollaboration(file, journals)
    while local.answered < 2:
        local.advance()
    own, answers, instance = wire.responses["a"], journals.owners["a"].records, journals.owners["a"].instance
    machine = local.owners["a"].machine

    def begin(journalled, sent):
        topic = wire.topics.response("a")
        bus = MemoryBus(MemoryBroker([topic, wire.topics.query]))
        for number in sent:
            bus.send(topic, encode_response(machine._message(answers[number - 1]), own.digest))
        known = [answers[number - 1] for number in journalled]
        return owner_start(OwnerMemory(instance, known), "a", wire, bus)

    return begin


def test_what_the_topic_lacks_is_sent(start):
    found = start((1, 2), (1,))
    assert (found.published, len(found.unsent)) == (1, 1)
    assert start((1, 2), (1, 2)).unsent == ()


@pytest.mark.parametrize(("journalled", "missing"), [((), 1), ((1,), 2), ((2,), 1)])
def test_an_answer_that_the_journal_lacks_ends_the_start(start, journalled, missing):
    words = f"holds an answer to query {missing} that the journal does not: continue with the journal that"
    with pytest.raises(Failed, match=words):
        start(journalled, (1, 2))


def test_an_owner_that_was_away_when_the_run_ended_reads_that_it_has(tmp_path):
    file = written(tmp_path)
    wire = Wire(file.resolved)
    own, learner = wire.responses["a"], "5a" * 16
    bus = MemoryBus(MemoryBroker([wire.topics.response("a"), wire.topics.query]))
    theta = np.zeros(3)
    known = [ResponseRecord(1, digest(theta), theta, 1, 1.0, RecordSet("", (), 6))]
    for final in (False, True):
        asked = Query("first", "l", learner, 1, theta, final=final)
        bus.send(wire.topics.query, encode_query(asked, wire.whole.digest))
    bus.send(
        wire.topics.response("a"),
        encode_response(Response("first", "a", learner, 1, True, theta), own.digest),
    )
    found = owner_start(OwnerMemory(learner, known), "a", wire, bus)
    assert (found.offset, found.end) == (1, 2)


class Raced(MemoryBus):
    """A bus on which a peer's message comes as soon as its topic was read."""

    def __init__(self, wire, topic, value):
        super().__init__(MemoryBroker([wire.topics.query, *map(wire.topics.response, "abc")]))
        self._late = [(topic, value)]

    def stored(self, offsets):
        records = super().stored(offsets)
        if self._late and self._late[0][0] in offsets:
            self.send(*self._late.pop())
        return records


def test_a_query_that_comes_while_an_owner_starts_is_read(tmp_path):
    wire, learner = Wire(written(tmp_path).resolved), "5a" * 16
    asked = encode_query(Query("first", "l", learner, 1, np.zeros(3)), wire.whole.digest)
    bus = Raced(wire, wire.topics.query, asked)
    start = owner_start(OwnerMemory(learner, []), "a", wire, bus)
    assert (bus.end(wire.topics.query), start.offset) == (1, 0)


def test_a_response_that_comes_while_a_learner_starts_is_read(tmp_path):
    file = written(tmp_path)
    wire, theta = Wire(file.resolved), np.zeros(3)
    answer = Response("first", "a", "5a" * 16, 1, True, theta)
    bus = Raced(wire, wire.topics.response("a"), encode_response(answer, wire.responses["a"].digest))
    offsets = learner_start(CollaborationJournals.in_memory(file).learner, wire, bus)
    assert (bus.end(wire.topics.response("a")), offsets[wire.topics.response("a")]) == (1, 0)
