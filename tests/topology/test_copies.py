"""Copies of a mesh: the same weights once each, and nothing between them."""

import numpy as np
import pytest

from topology.graph import complete, ring
from topology.schedules import Copies, CycleSchedule, SwitchingSchedule

NAMES = ("a", "b", "c", "d")
SCHEDULES = {
    "cycle": CycleSchedule([ring(NAMES), complete(NAMES)]),
    "switching": SwitchingSchedule(complete(NAMES), 0.5, 3),
}


@pytest.mark.parametrize("kind", SCHEDULES)
def test_the_matrix_is_in_blocks_each_that_of_one_mesh(kind):
    one, copies = SCHEDULES[kind], Copies(SCHEDULES[kind], 3)
    for round in range(1, 6):
        found = copies.weights(round, copies.graph.nodes).dense()
        expected = np.kron(np.eye(3), one.weights(round, NAMES).dense())
        assert found.tobytes() == expected.tobytes()


def test_what_comes_again_is_the_same_object():
    copies = Copies(SCHEDULES["cycle"], 2)
    names = copies.graph.nodes
    assert copies.weights(1, names) is copies.weights(3, names)
    assert copies.weights(1, names) is not copies.weights(2, names)


def test_all_nodes_are_members():
    copies = Copies(SCHEDULES["cycle"], 2)
    with pytest.raises(ValueError, match="all nodes"):
        copies.weights(1, copies.graph.nodes[:-1])
