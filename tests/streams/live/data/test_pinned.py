"""What the reading thread does while its broker is away."""

import asyncio

from streams.live.data.pinned import PinnedThread
from streams.live.data.start import failure


class Away(PinnedThread):
    """A thread whose broker gives no answer so many times."""

    def __init__(self, times):
        self.places, self.times, self.asked = {"data.a": None}, times, 0

    async def call_thread(self, *_):
        self.asked += 1
        if self.asked <= self.times:
            raise TimeoutError


def test_a_broker_that_gives_no_answer_is_asked_again():
    thread = Away(2)
    asyncio.run(thread.subscribe(()))
    assert thread.asked == 3


def test_a_failure_without_words_is_named():
    assert str(failure("broker:1", ["data.a"], TimeoutError())) == "data.a: TimeoutError"
    assert str(failure("broker:1", ["data.a"], OSError("gone"))) == "data.a: gone"
