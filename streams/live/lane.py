"""One node's turns of a loop that the nodes of a process share."""

from collections import deque
from collections.abc import Callable
from functools import partial

from streams.bus.bus import BusError
from streams.live.loop import Action, Loop, Turns
from streams.live.stopping import ProcessExit
from streams.state.folder import JournalError

Ended = ProcessExit | BusError | JournalError
"""How a node ends by itself. Any other exception is a mistake of ours, and ends the process."""


class Lane(Turns):
    """Does a node's actions in the loop's turns, `before` before each; an `Ended` ends this node alone.

    `over` is called once, in the loop's turn or before it runs, and nothing is done after it. Call `put`,
    `do`, `fail`, `after` and `every` as those of `Loop`; an `Ended` that `fail` raises ends the node.
    """

    def __init__(self, loop: Loop, before: Action, over: Callable[[Ended], None]) -> None:
        self._loop, self._before, self._over = loop, before, over
        self.ended = self._held = False
        self._waiting: deque[Action] = deque()

    def put(self, action: Action) -> None:
        """Do `action` after those before it; actions put by an action follow it at once."""
        self._loop.put(partial(self.turn, action))

    def do(self, action: Action) -> None:
        """Do `action` in this thread, once the loop runs and its current action is done."""
        self._loop.do(partial(self.turn, action))

    def after(self, seconds: float, action: Action) -> None:
        """Do `action` once, that many seconds from now."""
        self._loop.after(seconds, partial(self.turn, action))

    def turn(self, action: Action) -> None:
        """Do `action` now, unless the node has ended: in the loop's turn, or before it runs."""
        if self._held:
            self._waiting.append(action)
        elif not self.ended:
            self._do(action)

    def hold(self) -> None:
        """Let all actions wait until `resume`. In the node's turn, or before the loop runs."""
        self._held = True

    def resume(self, action: Action) -> None:
        """Do `action`, and then what has waited, unless it holds again. From any thread."""
        self._loop.put(partial(self._resume, action))

    def _resume(self, action: Action) -> None:
        self._held = False
        self._waiting.appendleft(action)
        while self._waiting and not (self._held or self.ended):
            self._do(self._waiting.popleft())

    def _do(self, action: Action) -> None:
        self._before()
        try:
            action()
        except (ProcessExit, BusError, JournalError) as error:
            self.ended = True
            self._over(error)
