"""A stranger writes releases of instances that do not exist: they crowd out none that counts."""

from nodes.machine.events import Decided, Notice
from nodes.protocol import Noticed
from tests.support.nodes.machines import (
    HORIZON,
    feed,
    machine,
    neighbours,
    of,
    plans,
    release,
    slot,
    started,
)

MANY = 5 * HORIZON


def invented(round, count=MANY):
    """Releases for that round of as many instances of b that nobody has ever planned."""
    return [
        release("b", round, (9.0, 9.0), instance=f"{number:032x}", offset=number) for number in range(count)
    ]


def test_releases_of_invented_instances_crowd_out_no_planned_one():
    node = machine()
    started(node, *plans(1, 3))
    feed(node, *neighbours(1), slot(1))
    for round in (1, 2):
        told = of(feed(node, *invented(round)), Noticed)
        assert {notice for notice, *_ in told} == {Notice.OVERFULL}
        effects = feed(node, *neighbours(round + 1), slot(round + 1))
        assert [decided.round for decided in of(effects, Decided)] == [round + 1]


def test_where_no_plan_is_known_nothing_is_foreign():
    node = machine()
    started(node)
    told = of(feed(node, *invented(1), release("b", 2, (1.0, 1.0))), Noticed)
    assert len(told) == MANY + 1 - 3 * HORIZON
