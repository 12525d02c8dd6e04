"""One queue, its timers, one thread."""

import threading

import pytest

from streams.live.loop import Loop


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


def test_it_is_idle_when_nothing_waits_and_only_then():
    done = []
    loop = Loop(lambda: done.append("before"), lambda: done.append("idle"))
    loop.put(lambda: done.append("first"))
    loop.put(lambda: done.append("second"))
    loop.after(0.01, loop.stop)
    loop.run()
    assert done[:5] == ["before", "first", "before", "second", "idle"]
