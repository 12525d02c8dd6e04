"""The worlds that a process runs in: memory here, a broker in `kafka`; a simulation is memory with faults."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from streams.bus.bus import Bus
from streams.bus.memory import MemoryBroker, MemoryBus
from streams.runtime.actions import Action, ActionScheduler

T = TypeVar("T")

COMMITS = 16
"""Appends at a time, where several roles share a process: their waits for the disk overlap."""
TURN = 1e-6
"""The shortest wait, in seconds: virtual time must go on where a difference of times is only rounding."""


@dataclass(frozen=True, slots=True)
class ProcessWorld:
    """What one process has of its world.

    `clock` returns monotonic seconds. `elsewhere` does long work, an owner's pass, where it holds nobody up.
    `commits` does appends there; None: they are done in the turn, as nobody shares the loop.
    """

    bus: Bus
    actions: ActionScheduler
    clock: Callable[[], float]
    elsewhere: Callable[[Action], object]
    commits: Callable[[Action], object] | None = None


class VirtualScheduler(ActionScheduler):
    """Turns in the virtual time of a broker in memory."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def put(self, action: Action) -> None:
        """Do `action` among the due deliveries."""
        self._broker.soon(action)

    def do(self, action: Action) -> None:
        """Do `action` now: a delivery is a turn."""
        action()

    def after(self, seconds: float, action: Action) -> None:
        """Do `action` after that much virtual time."""
        self._broker.after(max(seconds, TURN), action)


def in_memory(broker: MemoryBroker, bus: MemoryBus) -> ProcessWorld:
    """Return the world of one process on a broker in memory."""
    return ProcessWorld(bus, VirtualScheduler(broker), lambda: broker.now, broker.soon)


def at_once(question: Callable[[], T]) -> T:
    """Ask a bus that is never away."""
    return question()
