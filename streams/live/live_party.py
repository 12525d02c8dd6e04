"""Runs a machine of a collaboration on a broker: its loop, its reader, its heartbeats."""

import time
from collections.abc import Callable, Mapping
from functools import partial

from streams.bus.bus import BusError
from streams.bus.kafka import KafkaBus
from streams.bus.reader import KafkaReader
from streams.runtime.deadlines import FetchClock, InFlight
from streams.runtime.liveness import Pulse
from streams.runtime.presence import Presence
from streams.runtime.process import Failed, ProcessExit, unreadable
from streams.runtime.turns import Loop

LAST_BEAT = 1.0
"""Longest wait for the last heartbeat's acknowledgement, in seconds."""
BEAT = 1.0
"""Seconds between two heartbeats."""

Handler = Callable[[bytes], None]
"""Takes the bytes of one record, in the loop's turn."""


class LiveParty:
    """One loop on one bus. `done` returns the last query that is asked or answered.

    `handlers`: what takes each topic's records, by topic. The own heartbeats, when read back, keep `clock`
    running; a later hello ends the process.
    """

    def __init__(
        self, presence: Presence, progress: str, bus: KafkaBus, done: Callable[[], int], whose: str
    ) -> None:
        self._presence, self._progress, self._bus, self._done = presence, progress, bus, done
        self._whose = whose
        self.loop, self.clock = Loop(), FetchClock(time.monotonic)
        self._handlers: Mapping[str, Handler] = {}
        self._beats = InFlight()
        self.reader: KafkaReader | None = None

    @property
    def pulse(self) -> Pulse:
        """The loop's signs of life."""
        return self.loop.pulse

    @property
    def reading(self) -> bool:
        """Whether the reader's thread is there, or not needed. From any thread."""
        reader = self.reader
        return reader is None or reader.alive

    def run(
        self,
        offsets: Mapping[str, int],
        handlers: Mapping[str, Handler],
        begin: Callable[[KafkaReader], None],
    ) -> None:
        """Do `begin`, then work until the loop's `stop`. Raises ProcessExit, JournalError, BusError."""
        self._handlers = handlers
        self.reader = reader = self._bus.subscribe(
            offsets, self._read, self._reading_failed, lossy={self._progress}
        )
        try:
            self.loop.every(BEAT, self._beat)
            begin(reader)
            self.loop.run()
            self._last_beat()
        except ProcessExit as ended:
            if not ended.exit_code:
                self._last_beat()
            raise
        finally:
            self.loop.stop()  # the reader may wait for it to begin
            self.reader = None
            reader.close()
            self.loop.pulse.rest()

    def _read(self, topic: str, offset: int, value: bytes, _: float) -> None:
        """Take a record, in the reader's thread."""
        if topic != self._progress:
            self.loop.do(partial(self._handlers[topic], value))
        elif self._presence.read(offset, value):
            self.clock.beat()
        elif self._presence.replaced:
            reason = f"another process of {self._whose} has started after this one, and takes its place"
            self.loop.fail(Failed(reason))

    def _reading_failed(self, topic: str, error: BusError) -> None:
        self.loop.fail(unreadable(topic, error))

    def _last_beat(self) -> None:
        """Tell where it has stopped."""
        self._bus.flush(LAST_BEAT)
        self._beat()
        self._bus.flush(LAST_BEAT)

    def _beat(self) -> None:
        if self._beats.none:  # otherwise the broker is away, and would get them all at once
            self._beats.sent()
            self._bus.send(self._progress, self._presence.beat(self._done()), self._beats.acknowledged)
