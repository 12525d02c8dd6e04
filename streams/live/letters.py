"""What peers sent and was refused: kept on the mesh broker, a few a second, however many come."""

import time
from collections.abc import Callable
from contextlib import suppress

from streams.bus import BusError
from streams.codec import Refused, encode_dead_letter

MOST = 10
"""Letters a second: whoever floods an edge fills no disk, and stops nobody."""


class DeadLetters:
    """Writes letters with `send` until `MOST` are written in a second; the rest is dropped."""

    def __init__(self, send: Callable[[bytes], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._send, self._clock = send, clock
        self._second, self._written = 0, 0

    def write(self, topic: str, value: bytes, refused: Refused) -> None:
        """Write the letter about a value that was read from `topic`."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._written = second, 0
        if self._written < MOST:
            self._written += 1
            with suppress(BusError):  # a letter less
                self._send(encode_dead_letter(topic, value, refused))
