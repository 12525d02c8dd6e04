"""A scheduler's process in a simulated history."""

from collections.abc import Callable
from functools import partial

from streams.bus.bus import BusError, Reader, Unreachable
from streams.codec import Reason
from streams.live.scheduler_shell import SchedulerShell
from streams.local.mesh import MeshParts
from streams.simulation.broker import FaultyBroker
from streams.simulation.bus import FaultyBus
from streams.simulation.history import Reached, SimulatedHistory
from streams.simulation.link import Link
from topology.plans import Heartbeat, Plan
from topology.scheduler import LeftOut, Refusal

RETRY = 0.5
"""Seconds after which a process starts again that found no broker, or could not read any more."""


class SimulatedScheduler:
    """A scheduler's processes, one after another.

    `speed`: how fast its clock runs. `wrong`: by how many seconds it is wrong. `current`: the round that it
    tells where slots do not follow a clock, if any.
    """

    def __init__(self, name: str, parts: MeshParts, broker: FaultyBroker, history: SimulatedHistory) -> None:
        self.name, self.link, self.wanted = name, Link(), True
        self.speed, self.paused = 1.0, False
        self.wrong = 0.0
        self.current: int | None = None
        self.refused: dict[Reason | Refusal, int] = {}
        self._parts, self._broker, self._note = parts, broker, history.note
        self._watcher = _Watcher(self.refused, partial(self._left_out, history))
        self._bus: FaultyBus | None = None
        self._shell: SchedulerShell | None = None
        self._reader: Reader | None = None

    def start(self) -> None:
        """Start a process, unless one runs; try again later if the broker does not answer."""
        if self._shell is not None or not self.wanted:
            return
        parts, bus = self._parts, FaultyBus(self._broker, self.link)
        shell = SchedulerShell(
            parts.scheduler, parts.topics, parts.digest, bus, self._watcher, parts.planner, parts.clock
        )
        try:
            self.link.check()
            start = shell.logs()
        except Unreachable:
            bus.close()
            self._broker.after(RETRY, self.start)
            return
        self._bus, self._shell = bus, shell
        self._note(self.name, "starts")
        self._reader = bus.subscribe(start.offsets, self._read, self._reading_failed)
        shell.start(start)

    def end(self, why: str, restart_after: float | None = None) -> None:
        """End the process at once; start another after that many seconds, if any."""
        if self._bus is not None and self._shell is not None:
            self._note(self.name, why)
            self._bus.close()
        self._shell = None
        if restart_after is not None:
            self._broker.after(restart_after, self.start)

    def pause(self) -> None:
        """Stop the process, as SIGSTOP does."""
        self.paused = True
        self.link.cut(deaf=True)

    def resume(self) -> None:
        """Let it go on."""
        self.paused = False
        self.link.heal(deaf=True)

    def tick(self, seconds: float) -> None:
        """Let time pass on a clock that stands still while the process cannot read its own heartbeats."""
        shell = self._shell
        if shell is not None and self.link.whole and not self.paused:
            shell.tick(seconds * self.speed, self._round())

    def _round(self) -> int | None:
        clock = self._parts.clock
        return self.current if clock is None else int(clock.round_at(self._broker.now + self.wrong))

    def _left_out(self, history: SimulatedHistory, left: LeftOut) -> None:
        history.note(self.name, f"plans without {left.name} for {left.seconds:g} s")
        history.reached.add(Reached.LEFT_OUT)

    def _read(self, topic: str, _: int, value: bytes, appended: float) -> None:
        if self._shell is not None:
            self._shell.read(topic, value, appended)

    def _reading_failed(self, topic: str, error: BusError) -> None:
        self.end(f"cannot read {topic.split('.', 2)[-1]}: {error}", RETRY)


class _Watcher:
    """Counts what a scheduler refuses; `left_out` takes whom it leaves out."""

    def __init__(self, counts: dict[Reason | Refusal, int], left_out: Callable[[LeftOut], None]) -> None:
        self._counts, self.left_out = counts, left_out

    def refused(self, reason: Reason | Refusal) -> None:
        """Count it."""
        self._counts[reason] = self._counts.get(reason, 0) + 1

    def planned(self, plan: Plan | None) -> None:
        """Ignored here."""

    def published(self, count: int) -> None:
        """Ignored here."""

    def heard(self, live: int, slowest: int) -> None:
        """Ignored here."""

    def recalled(self, beat: Heartbeat, at: float) -> None:
        """Ignored here."""

    def beat(self, beat: Heartbeat) -> None:
        """Ignored here."""
