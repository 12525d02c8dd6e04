"""Whom each node waited for in a round, from what the topics have of it."""

from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from nodes.machine.journal import ReleaseMessage
from nodes.values import Release
from streams.bus.bus import Stored
from streams.bus.mesh_log import MeshLog
from streams.codec import Expected, encode_plans, encode_release
from streams.codec.topics import MeshTopics
from streams.mesh.errors import UsageError
from streams.status.one_round import Neighbour, OneRound, members, round_of
from streams.terminal.live_views import round_lines, round_table
from topology.plans import Member, Plan

ID, DIGEST, TOPICS = "a" * 32, bytes(16), MeshTopics("m", "r")
RING = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("c", "a"), ("a", "c")]
HEARD_BY_B = [edge for edge in RING if edge[0] != "b"]


def plan(round, names="abc", edges=RING, listeners="", closing=0):
    pairs = sorted((names.index(target), names.index(source)) for source, target in edges)
    targets, sources = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    named = tuple(Member(name, ID, full=name not in listeners) for name in names)
    weights = np.full(len(pairs), 0.25)
    return Plan("r", round, round - 1, named, sources, targets, weights, closing=closing)


def told(sent, last=False, **changes):
    """What is told of round 5, in which b hears a at 1 s, c at 2 s, and so on: `sent` by (source, round)."""
    this, following = plan(5, **changes), None if last else plan(6)
    on_edges = {
        (source, target, round): at
        for (source, round), at in sent.items()
        for _, target in RING
        if source != target
    }
    return OneRound(this, 0.0, tuple(members(this, following, on_edges)))


ALL = {(name, round): 10.0 * (round - 5) + place for round in (5, 6) for place, name in enumerate("abc")}


def test_each_waited_for_the_last_of_those_that_it_heard():
    story = told(ALL)
    assert [(node.node, node.sent, node.went_on) for node in story.nodes] == [
        ("a", 0, 10),
        ("b", 1, 11),
        ("c", 2, 12),
    ]
    assert [node.waited_for for node in story.nodes] == [
        Neighbour("c", 2.0),
        Neighbour("c", 2.0),
        Neighbour("b", 1.0),
    ]
    assert [node.given_up or node.awaited for node in story.nodes] == [(), (), ()]
    assert list(round_lines(story)) == [
        "round 5: a round of learning; follows 4; 3 members, 6 edges",
        "a, b heard c last",
        "c heard b last",
    ]


def test_who_came_too_late_or_never_was_given_up():
    story = told(ALL | {("c", 5): 10.5})
    assert [node.given_up for node in story.nodes] == [(Neighbour("c", 10.5),), (), ()]
    assert (
        "a went on without c, whose release came 0.50 s later (within the horizon its error is corrected)"
        in list(round_lines(story))
    )
    never = {key: at for key, at in ALL.items() if key[0] != "c"}
    lines = list(round_lines(told(never)))
    assert "a went on without c, whose release is not in the log" in lines
    assert "b went on without c, whose release is not in the log" in lines
    assert not any(line.startswith("c ") for line in lines)  # nothing of c's is there


def test_an_open_round_says_who_is_awaited():
    story = told({("a", 5): 0.0, ("b", 5): 1.0})
    assert [node.awaited for node in story.nodes] == [("c",), ("c",), ()]
    assert "a still waits for c" in list(round_lines(story))


def test_the_last_round_a_listener_and_a_closing_round():
    story = told({(name, 5): 1.0 for name in "abc"}, last=True, listeners="b", closing=3, edges=HEARD_BY_B)
    assert [node.awaited for node in story.nodes] == [()] * 3
    assert next(round_lines(story)) == (
        "round 5: a closing round, 2 after it; follows 4; 3 members, 4 edges; listening: b"
    )


def test_the_table_is_in_seconds_from_the_first_release():
    console = Console(width=80, record=True)
    console.print(round_table(told(ALL | {("c", 5): 10.5})))
    rows = [line.split() for line in console.export_text().splitlines() if line.strip().startswith("│")]
    assert [[cell for cell in row if cell != "│"] for row in rows] == [
        ["a", "0.00", "b", "1.00", "10.00", "c"],
        ["b", "1.00", "c", "10.50", "11.00", "-"],
        ["c", "10.50", "b", "1.00", "12.00", "-"],
    ]


class Logs:
    """The logs of a mesh of two, with the senders' times."""

    def __init__(self, releases):
        (record,) = encode_plans(
            None, (plan(1, "ab", [("a", "b"), ("b", "a")]), plan(2, "ab", [("a", "b"), ("b", "a")])), DIGEST
        )
        self.values = {TOPICS.topology: [(record, 0.0)], TOPICS.edge("a", "b"): [], TOPICS.edge("b", "a"): []}
        for source, target, round, at in releases:
            message = ReleaseMessage(
                "r", source, ID, round, exact=False, simulated=False, release=Release(np.zeros(2))
            )
            self.values[TOPICS.edge(source, target)].append((encode_release(message, DIGEST), at))

    def span(self, topic):
        return 0, len(self.values[topic])

    def stored(self, offsets):
        return {
            topic: [
                Stored(at, value, sent, appended=100.0) for at, (value, sent) in enumerate(self.values[topic])
            ]
            for topic in offsets
        }


FILE = SimpleNamespace(
    resolved=SimpleNamespace(
        graph=SimpleNamespace(nodes=("a", "b"), neighbours=lambda name: (["ba"["ab".index(name)]],) * 2),
        node=lambda name: SimpleNamespace(expected=Expected("r", name, DIGEST, 2, 1.0)),
    )
)


def test_a_round_is_read_from_plans_and_releases_and_the_first_of_equal_ones_counts():
    sent = [("a", "b", 1, 5.0), ("a", "b", 1, 9.0), ("b", "a", 1, 6.0), ("b", "a", 2, 7.0)]
    story = round_of(FILE, MeshLog(TOPICS, DIGEST, Logs(sent)), 1)
    assert (story.planned, story.first) == (100.0, 5.0)
    assert [(node.node, node.sent, node.went_on) for node in story.nodes] == [
        ("a", 5.0, None),
        ("b", 6.0, 7.0),
    ]
    with pytest.raises(
        UsageError, match=r"--round 3: must be a round of a plan; the log has the plans of rounds 1 to 2"
    ):
        round_of(FILE, MeshLog(TOPICS, DIGEST, Logs(sent)), 3)
