"""How long a node waits for a few neighbours that are slower than the others."""

import pytest

from streams.runtime.deadlines import Patience


class Node:
    """Waits for what the test says, for so long."""

    held = done = False

    def __init__(self, limit):
        self.now = 0.0
        self.patience = Patience(limit, lambda: self.now, self)

    def wait(self, seconds, *, held=False, done=False):
        self.held, self.done = held, done
        self.now += seconds
        self.patience.look()
        return self.patience.ended


@pytest.fixture
def node():
    return Node(1.0)


def test_it_ends_after_the_limit_and_only_for_who_is_waited_for(node):
    assert not node.wait(0.9, held=True)
    assert node.wait(0.2, held=True)
    node.held = False
    assert not node.patience.ended


def test_other_time_restores_it_up_to_the_limit(node):
    node.wait(5, held=True)
    node.wait(0.5)
    assert not node.wait(0.4, held=True)
    assert node.wait(0.2, held=True)
    node.wait(60)
    assert not node.wait(0.9, held=True)
    assert node.wait(0.2, held=True)


def test_who_waits_for_less_than_half_of_its_time_waits_each_time(node):
    for _ in range(100):
        assert not node.wait(0.4, held=True)
        node.wait(0.6)


def test_the_time_without_a_plan_restores_nothing(node):
    node.wait(5, held=True)
    node.wait(60, done=True)
    assert node.wait(0.01, held=True)
