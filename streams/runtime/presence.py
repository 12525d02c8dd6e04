"""A process's hello and heartbeats on its own topic of progress: the newest process of a name wins."""

from nodes.protocol import Identity
from streams.codec import Refused, decode_heartbeat, encode_heartbeat
from topology.plans import Heartbeat


class Presence:
    """Makes a process's heartbeats, and reads them back; `replaced` once a newer process has said hello.

    Call `read` in one thread only.
    """

    def __init__(self, who: Identity, digest: bytes) -> None:
        self.who, self.replaced = who, False
        self._digest = digest
        self._hello: int | None = None  # its offset, once read

    def beat(self, done: int, *, hello: bool = False) -> bytes:
        """Return a heartbeat; `done`: the last query that is asked or answered."""
        beat = Heartbeat(self.who.run, self.who.name, self.who.instance, self.who.boot, done, hello=hello)
        return encode_heartbeat(beat, self._digest)

    def read(self, offset: int, value: bytes) -> bool:
        """Take a record of the own progress; return whether this process sent it."""
        try:
            beat = decode_heartbeat(value, self.who.run, self.who.name, self._digest)
        except Refused:
            return False
        own = beat.boot == self.who.boot
        if own and beat.hello and self._hello is None:
            self._hello = offset
        self.replaced |= beat.hello and not own and self._hello is not None and offset > self._hello
        return own
