"""A scheduler's processes in a simulated history. They run the product's role and runner."""

from streams.bus.bus import Unreachable
from streams.live.scheduler_role import SchedulerRole, SchedulerWatcher, scheduler_start
from streams.local.mesh import MeshParts
from streams.runtime.actions import Ended, ProcessWorld, at_once
from streams.runtime.process import LogCut
from streams.runtime.runner import Host, Role, Runner, is_orderly
from streams.simulation.bus import FaultyBroker, FaultyBus, Killed, Link, PausedScheduler, PlannedCrash
from streams.simulation.history import Reached, SimulatedHistory
from topology.scheduler import LeftOut

RETRY = 0.5
"""Seconds after which a process starts again that did not reach the broker or could not read any more."""


class SimulatedScheduler:
    """A scheduler's processes, one after another.

    `speed`: how fast the clock runs, relative to the true time. `wrong`: the clock's error in seconds.
    `current`: the round that the clock shows, in a mesh whose slots do not follow a clock; None: it shows
    none.
    """

    def __init__(
        self, name: str, parts: MeshParts, broker: FaultyBroker, history: SimulatedHistory, number: int
    ) -> None:
        self.name, self.link, self.wanted = name, Link(), True
        self.wrong = 0.0
        self.current: int | None = None
        self._parts, self._broker, self._note = parts, broker, history.note
        self._watcher = _Watcher(name, history)
        self._number, self._starts = number, 0
        self._actions = PausedScheduler(broker)
        self._clock = _Clock(broker)
        self._bus: FaultyBus | None = None
        self._host: Host | None = None
        self._crash = PlannedCrash()

    @property
    def speed(self) -> float:
        """How fast the clock runs, relative to the true time."""
        return self._clock.speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._clock.run_at(speed)

    def start(self) -> None:
        """Start a process unless one runs. If the broker does not answer, try again later."""
        if self._host is not None or not self.wanted:
            return
        bus = FaultyBus(self._broker, self.link)
        self._crash.forget()
        world = ProcessWorld(bus, self._actions, self._clock, self._broker.soon)
        try:
            self.link.check()
            role = self._role(world)
        except Unreachable:
            bus.close()
            self._broker.after(RETRY, self.start)
            return
        self._bus, self._host = bus, Host([Runner(role, world, self._ended, self._crash.effect)], bus)
        self._note(self.name, "starts")
        self._host.begin()

    def end(self, why: str, restart_after: float | None = None) -> None:
        """End the process now. Start the next one after `restart_after` seconds, if given."""
        host, self._host = self._host, None
        if host is not None and self._bus is not None:
            self._note(self.name, why)
            host.close()
            self._bus.close()
        if restart_after is not None:
            self._broker.after(restart_after, self.start)

    def crash_in(self, effects: int, restart_after: float) -> None:
        """Let the process die before one of its next effects (1: the next), and start a new one later."""
        self._crash.plan(effects, restart_after)

    def pause(self) -> None:
        """Pause the process, as SIGSTOP does."""
        self._actions.pause()
        self.link.cut(deaf=True)

    def resume(self) -> None:
        """Continue the process."""
        self.link.heal(deaf=True)
        self._actions.resume()

    def _role(self, world: ProcessWorld) -> Role:
        parts, topics = self._parts, self._parts.topics
        self._starts += 1
        boot = b"%8d%8d" % (self._number, self._starts)
        scheduler = SchedulerRole(
            parts.scheduler, topics, parts.digest, boot, self._watcher, parts.planner, parts.clock
        )
        start = scheduler_start(topics, parts.nodes, world.bus)
        scheduler.presence.hello(world.bus, at_once)
        return scheduler.role(start, world, self._round)

    def _round(self) -> int | None:
        clock = self._parts.clock
        return self.current if clock is None else int(clock.round_at(self._broker.now + self.wrong))

    def _ended(self, error: Ended) -> None:
        """Handle the end of a process: a service manager starts it again, unless this is of no use."""
        if isinstance(error, Killed):
            self.end(str(error), self._crash.restart_after)
        elif is_orderly(error) or isinstance(error, LogCut):
            self.end(str(error), RETRY)
        else:
            self.wanted = False
            self.end(str(error))


class _Clock:
    """A process's monotonic clock. It may run too fast."""

    def __init__(self, broker: FaultyBroker) -> None:
        self.speed = 1.0
        self._broker = broker
        self._passed, self._since = 0.0, broker.now

    def __call__(self) -> float:
        """Return the seconds that the clock has counted."""
        return self._passed + (self._broker.now - self._since) * self.speed

    def run_at(self, speed: float) -> None:
        """Run at another speed from now on."""
        self._passed, self._since, self.speed = self(), self._broker.now, speed


class _Watcher(SchedulerWatcher):
    """Notes which nodes a scheduler leaves out."""

    def __init__(self, name: str, history: SimulatedHistory) -> None:
        self._name, self._history = name, history

    def left_out(self, left: LeftOut) -> None:
        """Record that a node is left out."""
        self._history.note(self._name, f"plans without {left.name} for {left.seconds:g} s")
        self._history.reached.add(Reached.LEFT_OUT)
