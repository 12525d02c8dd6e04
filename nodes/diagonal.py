"""Projections in the metric of a diagonal Q: argmin over the ball of 1/2 (x - y)'Q(x - y)."""

import numpy as np

from nodes.values import FloatArray


def project_diagonal_l1(q: FloatArray, radius: float, y: FloatArray) -> FloatArray:
    """Return the projection of y (..., d) onto the L1 ball; q (d,) > 0.

    x_k = sign(y_k) max(|y_k| - tau/q_k, 0), and tau is the largest of the weighted means
    (|y_1| + ... + |y_k| - radius)/(1/q_1 + ... + 1/q_k) in descending order of q|y| (as `nodes.thresholds`).
    """
    magnitudes = np.abs(y)
    outside = np.add.reduce(magnitudes, -1, keepdims=True) > radius
    if not np.count_nonzero(outside):
        return y
    order = np.argsort(-q * magnitudes, axis=-1)
    sums = np.add.accumulate(np.take_along_axis(magnitudes, order, -1), -1) - radius
    means = sums / np.add.accumulate((1.0 / q)[order], -1)
    tau = np.where(outside, np.maximum(np.maximum.reduce(means, -1, keepdims=True), 0.0), 0.0)
    shrunk: FloatArray = np.copysign(np.maximum(magnitudes - tau / q, 0.0), y)
    return shrunk


def project_diagonal_l2(q: FloatArray, radius: float, y: FloatArray) -> FloatArray:
    """Return the projection of y (..., d) onto the L2 ball; q (d,) > 0.

    x = Qy/(Q + lambda) with ||x|| = radius. Newton on 1/||x|| - 1/radius, which is concave and increasing in
    lambda, climbs to the root from 0 (More, Sorensen 1983, section 3). Each row stops where it moves no more.
    """
    x, multiplier = y, np.zeros((*y.shape[:-1], 1))
    for _ in range(100):  # quadratic: a handful of turns, whatever the row
        norm = np.sqrt(np.add.reduce(x * x, -1, keepdims=True))
        slope = np.add.reduce(x * x / (q + multiplier), -1, keepdims=True)
        step = norm / np.where(slope > 0.0, slope, 1.0) * norm * (norm / radius - 1.0)
        climbed = multiplier + np.maximum(step, 0.0)
        if np.array_equal(climbed, multiplier):
            break
        multiplier = climbed
        x = y * (q / (q + multiplier))
    return x
