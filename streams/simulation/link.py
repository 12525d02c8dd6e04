"""The way between one process and the broker, which can be cut in one direction or both."""

from typing import Protocol

from streams.bus.bus import Unreachable


class LinkQueue(Protocol):
    """Holds what waits for the link."""

    def pass_on(self) -> None:
        """Let pass what the link carries again."""


class Link:
    """A process's link to the broker. `deaf`: it reads nothing. `mute`: what it sends waits."""

    def __init__(self) -> None:
        self.deaf = self.mute = False
        self.bus: LinkQueue | None = None

    @property
    def whole(self) -> bool:
        """Whether it carries both directions."""
        return not (self.deaf or self.mute)

    def check(self) -> None:
        """Raise Unreachable unless it carries both directions."""
        if not self.whole:
            raise Unreachable("the broker does not answer")

    def cut(self, *, deaf: bool = False, mute: bool = False) -> None:
        """Cut these directions."""
        self.deaf |= deaf
        self.mute |= mute

    def heal(self, *, deaf: bool = False, mute: bool = False) -> None:
        """Mend these directions, and let pass what has waited."""
        self.deaf &= not deaf
        self.mute &= not mute
        if self.bus is not None:
            self.bus.pass_on()
