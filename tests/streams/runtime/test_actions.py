"""One queue, its timers, and the reader that takes its turn."""

import sys
import threading

import pytest

from streams.bus.bus import BusError
from streams.runtime.actions import Loop, RoleQueue
from streams.runtime.process import Failed, ProcessExit, Pulse
from streams.state.folder import JournalError


def test_actions_are_done_in_order_and_stop_ends_it():
    loop, done = Loop(), []
    for number in range(5):
        loop.put(lambda number=number: done.append(number))
    loop.put(loop.stop)
    loop.put(lambda: done.append("too late"))
    loop.run()
    assert done == [0, 1, 2, 3, 4]


def test_timers_go_by_their_time_and_among_equals_by_their_order():
    loop, done = Loop(), []
    loop.after(0.02, lambda: done.append("late"))
    loop.after(0.0, lambda: done.append("first"))
    loop.after(0.0, lambda: done.append("second"))
    loop.after(0.03, loop.stop)
    loop.run()
    assert done == ["first", "second", "late"]


def test_what_is_put_from_another_thread_wakes_it():
    loop, done = Loop(), []
    loop.after(60.0, lambda: done.append("never"))

    def other():
        loop.put(lambda: done.append("put"))
        loop.stop()

    threading.Thread(target=other).start()
    loop.run()
    assert "never" not in done


def test_a_repeated_action_comes_again_until_the_end():
    loop, done = Loop(), []

    def again():
        done.append(len(done))
        if len(done) == 3:
            loop.stop()

    loop.every(0.001, again)
    loop.run()
    assert done == [0, 1, 2]


def test_what_an_action_raises_comes_out():
    loop = Loop()

    def fail():
        raise ZeroDivisionError

    loop.put(fail)
    with pytest.raises(ZeroDivisionError):
        loop.run()


# --------------------------------------------------------------------------- what another thread does itself


def beside(work):
    """A thread that does `work`."""
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_what_a_reader_does_is_done_in_its_own_thread_and_so_is_what_follows_from_it():
    loop, done = Loop(), []

    def read():
        loop.put(follow)
        done.append(("read", threading.current_thread()))

    def follow():
        done.append(("follow", threading.current_thread()))
        loop.put(loop.stop)

    reader = beside(lambda: loop.do(read))
    loop.run()
    reader.join()
    assert done == [("read", reader), ("follow", reader)]


def test_it_is_done_only_when_the_loop_has_begun_and_not_after_its_end():
    loop, done = Loop(), []
    reader = beside(lambda: [loop.do(lambda k=k: done.append(k)) for k in range(3)])
    loop.stop()  # it never begins
    reader.join(10.0)
    assert not reader.is_alive()
    assert done == []
    loop = Loop()
    loop.put(loop.stop)
    loop.run()
    loop.do(lambda: done.append("too late"))
    assert done == []


def test_what_it_raises_comes_out_of_run_and_nothing_more_is_done():
    loop, done = Loop(), []

    def fail():
        loop.put(lambda: done.append("follows"))
        raise ZeroDivisionError

    def read():
        loop.do(fail)
        loop.do(lambda: done.append("read"))
        loop.put(lambda: done.append("put"))

    reader = beside(read)
    with pytest.raises(ZeroDivisionError):
        loop.run()
    reader.join()
    assert done == []


class Turn:
    """The lock of turns; who gives it up does `then`."""

    def __init__(self, then):
        self._lock, self._then = threading.Lock(), then

    def __enter__(self):
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()
        self._then()


@pytest.fixture
def ended():
    """Set when `run` has ended."""
    return threading.Event()


def fails(loop, ended):
    """Assert that `run` raises what the reader did."""
    try:
        with pytest.raises(ZeroDivisionError):
            loop.run()
    finally:
        ended.set()


def test_what_a_reader_raises_comes_out_though_a_timer_is_due_just_then(ended):
    loop, done, runner = Loop(), [], threading.current_thread()
    loop._turn = Turn(lambda: threading.current_thread() is runner or ended.wait(10.0))

    def fail():
        loop.after(0.0, lambda: done.append("timer"))
        raise ZeroDivisionError

    reader = beside(lambda: loop.do(fail))
    fails(loop, ended)
    reader.join()
    assert done == []


def test_a_stop_waits_for_the_readers_turn_and_what_that_raises_comes_out(ended):
    loop, turned, stopped = Loop(), threading.Event(), threading.Event()
    loop._turn = Turn(lambda: turned.is_set() and stopped.wait(10.0))
    loop.put(turned.set)

    def fail():
        loop.stop()
        stopped.set()
        assert not ended.wait(0.2)
        raise ZeroDivisionError

    def read():
        turned.wait()
        loop.do(fail)

    reader = beside(read)
    fails(loop, ended)
    reader.join()


def test_nothing_is_read_after_an_error_of_the_loop_itself():
    loop, done = Loop(), []

    def fail():
        raise ZeroDivisionError

    loop.put(fail)
    with pytest.raises(ZeroDivisionError):
        loop.run()
    loop.do(lambda: done.append("read"))
    assert done == []


def test_one_thing_is_done_at_a_time():
    loop, busy, done = Loop(), threading.Lock(), []

    def work():
        assert busy.acquire(blocking=False)
        done.append(sum(range(200)))  # long enough to be interrupted now and then
        busy.release()

    readers = [beside(lambda: [loop.do(work) for _ in range(500)]) for _ in range(3)]
    putter = beside(lambda: [loop.put(work) for _ in range(500)])

    def end():
        for thread in (*readers, putter):
            thread.join()
        loop.put(loop.stop)

    waiting = beside(end)
    loop.run()
    waiting.join()
    assert len(done) == 2_000


def test_a_timer_that_a_reader_sets_wakes_the_loop():
    loop = Loop()
    loop.after(60.0, lambda: pytest.fail("the loop slept on"))
    reader = beside(lambda: loop.do(lambda: loop.after(0.0, loop.stop)))
    loop.run()
    reader.join()


def test_a_reader_that_is_ended_in_its_turn_ends_the_run_as_a_failure():
    loop = Loop()

    def read():
        with pytest.raises(SystemExit):
            loop.do(sys.exit)

    reader = beside(read)
    with pytest.raises(Failed, match="the thread that reads was ended by SystemExit"):
        loop.run()
    reader.join(10.0)
    assert not reader.is_alive()


def test_its_pulse_beats_at_each_turn_and_not_in_a_long_one():
    now = [0.0]
    loop, ages = Loop(), []
    loop.pulse = Pulse(lambda: now[0])

    def work():
        now[0] += 40
        ages.append(loop.pulse.age)

    loop.put(work)
    loop.put(work)
    loop.put(loop.stop)
    loop.run()
    assert (ages, loop.pulse.age) == ([40, 40], 0)


# The turns of several nodes in one loop: what one ends leaves the others alone


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
