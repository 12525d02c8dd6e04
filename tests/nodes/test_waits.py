"""What a node waits for: a few neighbours, the next plan, or neither."""

import pytest

from tests.support.nodes.machines import feed, machine, plans, release, slot, started


@pytest.fixture
def node():
    found = machine()
    started(found, *plans(1, 1))
    return found


def test_before_the_first_plan_it_waits_for_a_plan():
    found = machine()
    started(found)
    assert found.done
    assert not found.held


def test_it_is_held_by_the_fewer_of_its_neighbours_once_its_records_are_there(node):
    feed(node, release("b", 1, (1.0, 0.0)))
    assert not node.held  # its own records are missing too
    feed(node, slot(1))
    assert node.held
    assert not node.done


def test_it_is_not_held_where_most_are_missing(node):
    feed(node, slot(1))
    assert not node.held
    assert not node.done


def test_when_all_is_there_it_waits_for_the_next_plan(node):
    feed(node, release("b", 1, (1.0, 0.0)), slot(1), release("c", 1, (1.0, 0.0)))
    assert node.done
    assert not node.held
    feed(node, *plans(2, 2))
    assert not node.done


def test_while_it_waits_for_its_records_alone_it_is_neither(node):
    feed(node, release("b", 1, (1.0, 0.0)), release("c", 1, (1.0, 0.0)))
    assert not node.done
    assert not node.held
