"""The actions of a process, one at a time: its loop, and a queue for each role in it.

Two threads take turns: the one that runs the loop, and the broker's reader, which handles its records itself,
as a hand-over would wake a thread for each record.
"""

import heapq
import itertools
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Lock, get_ident
from typing import TypeVar

from streams.bus.bus import Bus, BusError
from streams.bus.memory import MemoryBroker, MemoryBus
from streams.runtime.process import Failed, ProcessExit, Pulse
from streams.state.folder import JournalError

Action = Callable[[], None]


def _nothing() -> None:
    pass


def _ended(error: BaseException) -> Failed:
    """Return the failure for an error that would end only a reader's thread. With it the process fails."""
    return Failed(f"the thread that reads was ended by {type(error).__name__}")


class ActionScheduler(ABC):
    """The interface of what does actions in order, one at a time."""

    @abstractmethod
    def put(self, action: Action) -> None:
        """Do `action` after those before it. An action that an action puts follows it at once."""

    @abstractmethod
    def do(self, action: Action) -> None:
        """Do `action` in this thread as soon as the current one is done, but not after the end."""

    @abstractmethod
    def after(self, seconds: float, action: Action) -> None:
        """Do `action` once, after this many seconds."""

    def fail(self, error: Exception) -> None:
        """Raise the error in a turn of its own, after the actions put before it. From any thread."""

        def raise_it() -> None:
            raise error

        self.put(raise_it)

    def every(self, seconds: float, action: Action) -> None:
        """Do `action` every `seconds`, for the first time after that time."""

        def again() -> None:
            self.every(seconds, action)
            action()

        self.after(seconds, again)


class Loop(ActionScheduler):
    """Does actions in order, one at a time.

    Call `put`, `fail` and `stop` from any thread, `do` from a thread other than the running one; everything
    else before `run`, or inside an action. `pulse` beats at each turn; the user of the loop ends it.
    """

    def __init__(self) -> None:
        self.pulse = Pulse()
        self._queue: SimpleQueue[Action] = SimpleQueue()
        self._following: deque[Action] = deque()  # put by the current action
        self._timers: list[tuple[float, int, Action]] = []
        self._order = itertools.count()
        self._turn = Lock()
        self._working = self._runner = 0  # threads: the one whose turn it is, and the running one
        self._begun, self._running = Event(), True
        self._error: Exception | None = None

    def put(self, action: Action) -> None:
        """Do `action` after those before it. An action that an action puts follows it at once."""
        if self._working == get_ident():
            self._following.append(action)
        else:
            self._queue.put(action)

    def do(self, action: Action) -> None:
        """Do `action` in this thread as soon as `run` has begun and the current action is done, but not after
        the end.

        `run` raises its exceptions.
        """
        self._begun.wait()
        try:
            self._take_turn(action)
        except Exception:  # noqa: BLE001 # it is raised where it is awaited
            self.stop()
        except BaseException:  # it ends this thread, and `run`
            self.stop()
            raise

    def after(self, seconds: float, action: Action) -> None:
        """Do `action` once, after this many seconds."""
        timer = (time.monotonic() + seconds, next(self._order), action)
        heapq.heappush(self._timers, timer)
        if self._timers[0] is timer and self._working != self._runner:
            self._queue.put(_nothing)  # the running thread sleeps until the earlier first timer

    def stop(self) -> None:
        """Stop after the current action. From any thread."""
        self._running = False
        self._begun.set()
        self._queue.put(_nothing)  # wakes it

    def run(self) -> None:
        """Work until `stop`. Raises an action's exception."""
        self._runner = get_ident()
        self.pulse.beat()
        self._begun.set()
        while self._running:
            action = self._next()
            if action is not None:
                self._take_turn(action)
        with self._turn:  # after `stop` an action may still run, and fail
            error = self._error
        if error is not None:
            raise error

    def _take_turn(self, action: Action) -> None:
        with self._turn:
            if not self._running:
                return
            self._working = get_ident()
            try:
                self._work(action)
            except BaseException as error:  # noted in its turn, as `run` ends with the next one
                self._error = error if isinstance(error, Exception) else _ended(error)
                self._running = False
                raise
            finally:
                self._working = 0
                self.pulse.beat()

    def _work(self, action: Action) -> None:
        self._following.append(action)
        while self._following and self._running:
            self._following.popleft()()

    def _next(self) -> Action | None:
        with self._turn:  # actions set timers
            timeout = self._timers[0][0] - time.monotonic() if self._timers else None
            if timeout is not None and timeout <= 0:
                return heapq.heappop(self._timers)[2]
        try:
            return self._queue.get(timeout=timeout)
        except Empty:
            return None


Ended = ProcessExit | BusError | JournalError
"""The exceptions with which a node ends by itself. Any other exception is a bug here, and ends the
process."""


class RoleQueue(ActionScheduler):
    """Does a node's actions in the loop's turns, and `before` before each of them. An `Ended` ends this node
    alone.

    `over` is called once, in the loop's turn or before the loop runs, and no action is done after it. Call
    `put`, `do`, `fail`, `after` and `every` as those of `Loop`. An `Ended` that `fail` raises ends the node.
    """

    def __init__(self, loop: ActionScheduler, before: Action, over: Callable[[Ended], None]) -> None:
        self._loop, self._before, self._over = loop, before, over
        self.ended = self.held = False
        self._waiting: deque[Action] = deque()

    def put(self, action: Action) -> None:
        """Do `action` after those before it. An action that an action puts follows it at once."""
        self._loop.put(partial(self.turn, action))

    def do(self, action: Action) -> None:
        """Do `action` in this thread, once the loop runs and its current action is done."""
        self._loop.do(partial(self.turn, action))

    def after(self, seconds: float, action: Action) -> None:
        """Do `action` once, after this many seconds."""
        self._loop.after(seconds, partial(self.turn, action))

    def turn(self, action: Action) -> None:
        """Do `action` now, unless the node has ended. Call it in the loop's turn, or before the loop runs."""
        if self.held:
            self._waiting.append(action)
        elif not self.ended:
            self._do(action)

    def hold(self) -> None:
        """Make all actions wait until `resume`. In the node's turn, or before the loop runs."""
        self.held = True

    def resume(self, action: Action) -> None:
        """Do `action`, then the actions that have waited, unless `action` makes them wait again.

        From any thread.
        """
        self._loop.put(partial(self._resume, action))

    def _resume(self, action: Action) -> None:
        self.held = False
        self._waiting.appendleft(action)
        while self._waiting and not (self.held or self.ended):
            self._do(self._waiting.popleft())

    def _do(self, action: Action) -> None:
        self._before()
        try:
            action()
        except (ProcessExit, BusError, JournalError) as error:
            self.ended = True
            self._over(error)


# The worlds in which a process runs: memory here, a broker in `kafka`. A simulation is memory with faults.

T = TypeVar("T")

COMMITS = 16
"""The number of concurrent appends if several roles share a process, so that their waits for the disk
overlap."""
TURN = 1e-6
"""The shortest wait, in seconds: virtual time must advance even if two times differ by rounding alone."""


@dataclass(frozen=True, slots=True)
class ProcessWorld:
    """One process's access to its world.

    `clock` returns monotonic seconds. `elsewhere` does long work, such as an owner's pass, outside of the
    loop's turns. `commits` does appends outside of them; None: appends are done in the turn, as no other role
    shares the loop.
    """

    bus: Bus
    actions: ActionScheduler
    clock: Callable[[], float]
    elsewhere: Callable[[Action], object]
    commits: Callable[[Action], object] | None = None


class VirtualScheduler(ActionScheduler):
    """The turns of a process in the virtual time of a broker in memory."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def put(self, action: Action) -> None:
        """Do `action` in turn with the deliveries that are due."""
        self._broker.soon(action)

    def do(self, action: Action) -> None:
        """Do `action` now, as a delivery is a turn."""
        action()

    def after(self, seconds: float, action: Action) -> None:
        """Do `action` after this much virtual time."""
        self._broker.after(max(seconds, TURN), action)


def in_memory(broker: MemoryBroker, bus: MemoryBus) -> ProcessWorld:
    """Return the world of one process on a broker in memory."""
    return ProcessWorld(bus, VirtualScheduler(broker), lambda: broker.now, broker.soon)


def at_once(question: Callable[[], T]) -> T:
    """Make the request once, as a bus in memory always answers."""
    return question()
