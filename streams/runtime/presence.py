"""A process's heartbeats. With a name the newest process of the name replaces older ones by its hello."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from nodes.protocol import Identity
from streams.bus.bus import Bus, Unreachable
from streams.codec import Refused, decode_heartbeat, encode_heartbeat
from streams.codec.envelope import PLAIN, Envelope
from streams.runtime.process import FLUSH, Ask
from topology.plans import Heartbeat

RECENT = 256
"""The number of a name's newest heartbeats that are read. Those of every process that still runs are among
them."""


class Beacon:
    """The heartbeats of a process without a name, of which any number may run. Each is the process's `boot`.

    They only show that the broker answers, as no other process reads them. `kind` is the kind of process.
    """

    replaced = False

    def __init__(self, boot: bytes, kind: str, topic: str) -> None:
        self._boot, self.whose, self.topic, self.first = boot, kind, topic, 0

    def hello(self, bus: Bus, ask: Ask) -> None:
        """Find the offset `first` from which to read the topic.

        Send no hello, as the process replaces no other.
        """
        self.first = ask(lambda: bus.end(self.topic))

    def value(self) -> bytes:
        """Return the heartbeat."""
        return self._boot

    def read(self, offset: int, value: bytes) -> bool:
        """Handle a record of the topic. Return whether this process sent it."""
        del offset
        return value == self._boot


class Presence:
    """Makes a process's heartbeats and reads them back. `replaced` is true after a newer process's hello.

    `kind`: the kind of process, such as "owner". `beat` returns its current heartbeat. Call `read` in one
    thread only.
    """

    def __init__(
        self,
        who: Identity,
        kind: str,
        topic: str,
        digest: bytes,
        beat: Callable[[], Heartbeat],
        envelope: Envelope = PLAIN,
    ) -> None:
        self.who, self.topic, self.replaced, self.first = who, topic, False, 0
        self.whose = f"{kind} {who.name}"
        self._digest, self._current, self._envelope = digest, beat, envelope
        self._hello: int | None = None  # its offset, after it was read
        self._earlier = {who.boot}  # earlier processes, whose later hellos replace no process

    def hello(self, bus: Bus, ask: Ask) -> None:
        """Send a hello, so that an older process of the name ends.

        Sets `first`, the offset to read the topic from.
        """
        self.first = ask(lambda: bus.end(self.topic))
        self._earlier |= ask(lambda: self._boots(bus))
        bus.send(self.topic, self._encoded(replace(self._current(), hello=True)))

        def acknowledged() -> None:
            if not bus.flush(FLUSH):
                raise Unreachable("hello is not acknowledged yet")

        ask(acknowledged)

    def renew(self, who: Identity) -> None:
        """Continue under the identity `who`. The process has said hello under its earlier identity."""
        self.who = who
        self._earlier.add(who.boot)

    def value(self) -> bytes:
        """Return the current heartbeat."""
        return self._encoded(self._current())

    def read(self, offset: int, value: bytes) -> bool:
        """Handle a record of the node's own progress topic. Return whether this process sent it."""
        try:
            beat = self._decoded(self._envelope.of_node(value, self.who.name))
        except Refused:
            return False
        is_own = beat.boot == self.who.boot
        if is_own and self._hello is None:
            self._hello = offset  # or that of a later heartbeat: a broker may have lost the hello
        elif not is_own and beat.hello and beat.boot not in self._earlier:
            if self._hello is None:
                self._earlier.add(beat.boot)  # it says hello twice, and the second may come after this one's
            self.replaced |= self._hello is not None and offset > self._hello
        return is_own

    def _boots(self, bus: Bus) -> set[str]:
        """Return the boots of the earlier processes, which may say hello again.

        If messages are signed these are all earlier processes, as others may replay their hellos; otherwise
        only the processes that may still run.
        """
        boots = set[str]()
        first, end = bus.span(self.topic)
        for value in bus.read(self.topic, first if self._envelope.signs else max(first, end - RECENT)):
            with suppress(Refused):
                boots.add(self._decoded(self._envelope.unverified(value)).boot)
        return boots

    def _encoded(self, beat: Heartbeat) -> bytes:
        return self._envelope.sealed(encode_heartbeat(beat, self._digest))

    def _decoded(self, value: bytes) -> Heartbeat:
        return decode_heartbeat(value, self.who.run, self.who.name, self._digest)
