"""An extended Kalman filter that sees all raw distances, without privacy: the limit for a tracker."""

import numpy as np

from experiments.harness.moving_runs import others, pilots
from experiments.harness.moving_targets import ERROR, distances, sensors
from experiments.harness.study import Measured
from nodes.dynamics import motion
from nodes.values import FloatArray

JERKS = tuple(10.0**-k for k in np.arange(2.0, 7.0, 0.25))
"""Standard deviations of a round's acceleration that are tried."""


def limit(seed: int, *, speed: float, rounds: int, runs: int) -> Measured:
    """Tune the process noise on the pilot, then filter the runs' distances: setting, and errors (R,)."""
    targets, measured = pilots(speed, rounds)
    tried = [errors(targets, measured, jerk).mean() for jerk in JERKS]
    best = JERKS[int(np.argmin(tried))]
    targets = others(speed, rounds, runs)
    return {"setting": np.array([best]), "errors": errors(targets, distances(targets, seed), best)}


def errors(targets: FloatArray, measured: FloatArray, jerk: float) -> FloatArray:
    """Return each run's root mean square error over the second half, shape (R,); distances (T, R, N).

    State (position, velocity) from (0, 0); white accelerations of that deviation; the distance's gradient at
    the predicted place in H (Bar-Shalom, Li, Kirubarajan 2001, sections 5.4, 10.3).
    """
    runs, f, half = targets.shape[1], motion(2, 2, 1.0).matrix, len(targets) // 2
    gain = np.kron([[0.5], [1.0]], np.eye(2))
    q, r = jerk**2 * gain @ gain.T, ERROR**2 * np.eye(measured.shape[-1])
    x, p = np.zeros((runs, 4)), np.tile(np.diag([1.0, 1.0, 1e-3, 1e-3]), (runs, 1, 1))
    total = np.zeros(runs)
    for t, (target, seen) in enumerate(zip(targets, measured, strict=True)):
        if t >= half:
            total += ((x[:, :2] - target) ** 2).sum(-1)  # predicted before the round's distances, as a node's
        offsets = x[:, None, :2] - sensors()
        far = np.sqrt((offsets * offsets).sum(-1))
        h = np.concatenate((offsets / far[..., None], np.zeros_like(offsets)), -1)
        k = np.linalg.solve(h @ p @ h.swapaxes(1, 2) + r, h @ p).swapaxes(1, 2)
        x = x + (k @ (seen - far)[..., None])[..., 0]
        p = p - k @ h @ p
        p = 0.5 * (p + p.swapaxes(1, 2))  # rounding would make it no covariance
        x, p = x @ f.T, f @ p @ f.T + q
    found: FloatArray = np.sqrt(total / (len(targets) - half))
    return found
