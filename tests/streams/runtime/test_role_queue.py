"""The turns of several nodes in one loop: what one ends leaves the others alone."""

import pytest

from streams.bus.bus import BusError
from streams.runtime.actions import Loop, RoleQueue
from streams.runtime.process import Failed, ProcessExit
from streams.state.folder import JournalError


class Two:
    """Two queues of one loop; `done` is what was done, and `over` how a queue has ended."""

    def __init__(self):
        self.loop, self.done, self.over = Loop(), [], []
        self.a, self.b = (self.queue(name) for name in "ab")

    def queue(self, name):
        return RoleQueue(
            self.loop,
            lambda: self.done.append(f"before {name}"),
            lambda error: self.over.append((name, str(error))),
        )

    def does(self, what):
        return lambda: self.done.append(what)


@pytest.mark.parametrize("kind", [Failed, ProcessExit, BusError, JournalError])
def test_what_ends_one_leaves_the_other_alone(kind):
    two = Two()
    two.a.fail(kind("enough"))
    two.a.put(two.does("a"))
    two.b.put(two.does("b"))
    two.b.put(two.loop.stop)
    two.loop.run()
    assert two.over == [("a", "enough")]
    assert two.a.ended
    assert two.done == ["before a", "before b", "b", "before b"]


def test_a_timer_of_one_that_has_ended_does_nothing():
    two = Two()
    two.a.every(0.001, two.does("a"))
    two.a.fail(Failed("enough"))
    two.b.after(0.05, two.loop.stop)
    two.loop.run()
    assert two.done.count("a") <= 1  # if it was due before the end
    assert two.done[-1] == "before b"


def test_any_other_exception_ends_the_loop():
    def wrong():
        raise KeyError("a mistake of ours")

    two = Two()
    two.a.put(wrong)
    with pytest.raises(KeyError):
        two.loop.run()
    assert not two.over


def test_what_an_action_puts_follows_it_before_the_others():
    two = Two()
    two.a.put(lambda: two.a.put(two.does("follows")))
    two.b.put(two.does("b"))
    two.b.put(two.loop.stop)
    two.loop.run()
    assert [what for what in two.done if "before" not in what] == ["follows", "b"]


def test_what_comes_while_a_lane_is_held_waits_in_order_and_the_other_lane_does_not():
    two = Two()

    def held():
        two.a.hold()
        two.a.put(two.does("first"))

    two.a.put(held)
    two.a.put(two.does("second"))
    two.b.put(two.does("b"))
    two.b.put(lambda: two.a.resume(two.does("resumed")))
    two.b.after(0.05, two.loop.stop)
    two.loop.run()
    assert [what for what in two.done if "before" not in what] == ["b", "resumed", "first", "second"]


def test_a_lane_that_ends_as_it_resumes_does_not_do_what_has_waited():
    def ends():
        raise JournalError("the disk is full")

    two = Two()
    two.a.put(two.a.hold)
    two.a.put(two.does("waits"))
    two.b.put(lambda: two.a.resume(ends))
    two.b.after(0.05, two.loop.stop)
    two.loop.run()
    assert two.over == [("a", "the disk is full")]
    assert "waits" not in two.done
