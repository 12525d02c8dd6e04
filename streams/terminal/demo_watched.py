"""What the demo's views show: the state of a run beside the target's way."""

import time

import numpy as np

from nodes.values import FloatArray
from streams.local.run import LocalRun
from streams.local.tracking import distances


class Watched:
    """The state of a run, for both views. `epsilon` is the event-level one, in words.

    `sensors` (N, 2): where those of the recorder's nodes stand; `target` (T, 2): where the target is.
    """

    def __init__(self, local: LocalRun, sensors: FloatArray, target: FloatArray, epsilon: str) -> None:
        self.recorder, self.sensors, self.target, self.epsilon = local.recorder, sensors, target, epsilon
        self.rounds = len(target)
        self._observed = next(iter(local.parts.nodes.values())).learner.algorithm.observed
        self._began = time.monotonic()

    @property
    def rate(self) -> float:
        """Rounds a second so far."""
        return self.recorder.common_rounds / max(time.monotonic() - self._began, 1e-9)

    def decisions(self, done: int) -> FloatArray:
        """Return where the nodes believe the target to be in round `done`, shape (N, 2)."""
        return self._observed(np.array([node.decisions[done - 1] for node in self.recorder.nodes.values()]))

    def errors(self, done: int) -> FloatArray:
        """Return each node's distance from the target in round `done`, shape (N,)."""
        errors: FloatArray = self.errors_after(done - 1, done)[0]
        return errors

    def errors_after(self, round: int, done: int) -> FloatArray:
        """Return each node's distance from the target in rounds `round` + 1 to `done`, shape (T, N)."""
        decisions = [node.decisions[round:done] for node in self.recorder.nodes.values()]
        believed = self._observed(np.stack([np.array(node_decisions) for node_decisions in decisions], 1))
        return distances(believed, self.target[round:done])

    def regrets(self, done: int) -> list[float]:
        """Return each node's local R_t/t."""
        return [node.regrets[done - 1] / done for node in self.recorder.nodes.values()]
