"""What the oracle excuses where a disk was copied: values that nobody could know of, and one round a copy."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from streams.mesh.file import load
from streams.simulation.history import SimulatedHistory, Violation
from streams.simulation.oracle.given import Begun, Durable, Excuses
from streams.simulation.oracle.releases import EdgeLog, WatchedProcess
from streams.simulation.oracle.wire import ReadRelease
from streams.simulation.search import MeshStage, run

MESH = Path(__file__).parent / "mesh.yaml"
EDGE = "edge.c.d"


class Edge:
    """The edge from c to d, on which processes of c release what `durable` put into their journals."""

    def __init__(self):
        self.now = 0.0
        setup = SimpleNamespace(
            edge_topics={EDGE: ("c", ("d",))}, topics={("c", "d"): EDGE}, topology="topology"
        )
        excuses = Excuses()
        excuses.clones["c"] = 1
        self.log = EdgeLog(setup, excuses, SimulatedHistory(lambda: self.now))
        self.values = np.arange(100.0)

    def process(self, folder, at):
        """A process of c on that disk, which looks at the edge at that time."""
        return WatchedProcess(Begun("c", folder, 0, "life", 0, ()), at)

    def durable(self, process, round, at, offset):
        """Put a release into a journal at that time, of that record; return what sends it."""
        value, self.values = self.values[:2], self.values[2:]
        record = Durable(round, round - 1, value, False, 9, 0.0, None, (), (), (), 0, None)
        self.now = at
        self.log.durable(process, record, (offset,))
        release = ReadRelease("c", "life", round, False, True, value, value.tobytes())
        return lambda: self.log.appended(EDGE, release, 9)


@pytest.fixture
def edge():
    return Edge()


def test_values_that_were_under_way_when_the_newer_process_looked_are_excused(edge):
    older, newer = edge.process(1, 0.0), edge.process(2, 5.0)
    late = [edge.durable(older, round, at, round) for round, at in [(11, 1.0), (12, 2.0), (13, 3.0)]]
    for round in (11, 12, 13):
        edge.durable(newer, round, 6.0, round)()
    for send in late:
        send()


def test_of_what_the_older_one_does_afterwards_one_round_a_copy_is_excused(edge):
    older, newer = edge.process(1, 0.0), edge.process(2, 5.0)
    for round in (11, 12):
        edge.durable(newer, round, 6.0, round)()
    edge.durable(older, 11, 6.5, 11)()
    with pytest.raises(Violation, match="c has published two values for round 12"):
        edge.durable(older, 12, 7.0, 12)()


def test_two_values_of_one_disk_are_never_under_way(edge):
    older, newer = edge.process(1, 0.0), edge.process(1, 5.0)
    late = [edge.durable(older, round, 1.0, round) for round in (11, 12)]
    for round in (11, 12):
        edge.durable(newer, round, 6.0, round)()
    late[0]()
    with pytest.raises(Violation, match="c has published two values for round 12"):
        late[1]()


def test_records_of_what_was_under_way_may_be_in_a_later_round_of_the_newer_process(edge):
    older, newer = edge.process(1, 0.0), edge.process(2, 5.0)
    late = [edge.durable(older, round, 1.0, round) for round in (11, 12)]
    for round in (21, 22):
        edge.durable(newer, round, 6.0, round - 10)()
    for send in late:
        send()
    late = [edge.durable(older, round, 6.0, round) for round in (13, 14)]
    for round in (23, 24):
        edge.durable(newer, round, 7.0, round - 10)()
    late[0]()
    with pytest.raises(Violation, match="record 14 of c is in its releases for rounds 24 and 14"):
        late[1]()


@pytest.mark.parametrize("keep", [None, (3, 4, 5, 12, 13, 14, 15, 18)])
def test_a_copy_that_can_not_be_heard_goes_on_for_rounds_before_the_original_starts_again(keep):
    assert run(MeshStage(load(MESH)), 997, keep).violation is None
