"""What a mesh's log holds, read once: order, offsets, and what is refused."""

import numpy as np
import pytest

from nodes.machine.journal import ReleaseMessage
from nodes.values import Release
from streams.bus.bus import Stored, UnknownTopic
from streams.bus.mesh_log import MeshLog, messages, valid
from streams.codec import Expected, encode_heartbeat, encode_plans, encode_release
from streams.codec.topics import MeshTopics
from topology.plans import Heartbeat, Member, Plan

TOPICS, DIGEST, OTHER = MeshTopics("m", "r"), bytes(16), bytes([1] * 16)
ID = "a" * 32
EXPECTED = Expected("r", "a", DIGEST, 2, 1.0)


class Held:
    """Logs whose first two records are gone, and how often they were asked."""

    def __init__(self, **values):
        self.values = {".".join(("m", "r", *key.split("_"))): value for key, value in values.items()}
        self.asked = 0

    def span(self, topic):
        if topic not in self.values:
            raise UnknownTopic(topic)
        return 2, 2 + len(self.values[topic])

    def stored(self, offsets):
        self.asked += 1
        records = {topic: enumerate(self.values[topic], 2) for topic in offsets}
        return {
            topic: [Stored(at, value, 0.0) for at, value in records[topic] if at >= first]
            for topic, first in offsets.items()
        }


def plan(round, digest=DIGEST, follows=None):
    nothing = np.array([], np.int64)
    edges = nothing, nothing, nothing.astype(float)
    follows = round - 1 if follows is None else follows
    members = (Member("a", ID, full=True),)
    last = Plan("r", follows, follows - 1, members, *edges) if follows else None
    (record,) = encode_plans(last, (Plan("r", round, follows, members, *edges),), digest)
    return record


def beat(stepped, node="a"):
    return encode_heartbeat(Heartbeat("r", node, ID, ID, stepped), DIGEST)


def release(round, value=0.5, digest=DIGEST):
    message = ReleaseMessage(
        "r", "a", ID, round, exact=False, simulated=False, release=Release(np.full(2, value))
    )
    return encode_release(message, digest)


def log(**values):
    held = Held(**values)
    return MeshLog(TOPICS, DIGEST, held), held


def test_plans_come_in_their_order_and_what_is_refused_keeps_its_place():
    made, _ = log(topology=[plan(1), b"no plan", plan(2, OTHER), plan(5, follows=3), plan(2)])
    entries = made.plans()
    assert [entry.record.offset for entry in entries] == [2, 3, 4, 5, 6]
    assert [one.last.round for one in messages(entries)] == [1, 5, 2]
    assert [entry.record.offset for entry in valid(entries)] == [2, 6]
    assert list(made.valid_plans()) == [1, 2]
    made.refused.clear()
    made.plans()
    assert {reason: count for (_, reason), count in made.refused.items()} == {"version": 1, "digest": 1}
    assert [entry.record.offset for entry in made.plans(5)] == [5, 6]


def test_the_last_heartbeats_are_those_at_the_end_of_the_log():
    made, _ = log(progress_a=[beat(1), beat(2, "b"), beat(3)], progress_b=[])
    assert [one.stepped for one in messages(made.heartbeats("a"))] == [1, 3]
    assert [entry.message and entry.message.stepped for entry in made.heartbeats("a", last=2)] == [None, 3]
    assert made.heartbeats("b", last=1) == []
    assert sum(made.refused.values()) == 2  # the same record, read twice
    with pytest.raises(UnknownTopic):
        made.heartbeats("c")


def test_a_source_s_edges_are_read_together_and_nothing_outside_its_bound_is_a_release():
    edges = {"edge_a_b": [release(1), release(2, 9.0), release(3, digest=OTHER)], "edge_a_c": [release(1)]}
    made, held = log(**edges)
    found = [(target, one.round, value) for target, value, one in made.releases(EXPECTED, "bc")]
    assert found == [("b", 1, release(1)), ("c", 1, release(1))]
    assert held.asked == 1
    assert {(topic, reason) for topic, reason in made.refused} == {
        (TOPICS.edge("a", "b"), "out-of-bound"),
        (TOPICS.edge("a", "b"), "digest"),
    }


def test_news_are_plans_and_heartbeats_in_one_question():
    made, held = log(topology=[plan(1), plan(2)], progress_a=[beat(1), b"", beat(2)])
    news = list(made.news(["a"], {TOPICS.topology: 3, TOPICS.progress("a"): 2}))
    assert held.asked == 1
    assert [(entry.topic, entry.record.offset, entry.message is None) for entry in news] == [
        (TOPICS.topology, 3, False),
        (TOPICS.progress("a"), 2, False),
        (TOPICS.progress("a"), 3, True),
        (TOPICS.progress("a"), 4, False),
    ]
