"""The exact sampler, a call beside OpenDP's and numpy's, and its law: `python -m tests.benchmarks.noise`.

Microseconds of processor time, the median (least to most) of nine batches. `--law` makes 10^8 draws of each
scale instead, which takes minutes, and says how many standard deviations chi-square is above its mean.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from nodes.privacy.exact import ExactSampler
from nodes.values import IntArray
from tests.support.oracles.samplers import opendp_gaussian, opendp_laplace, unlikely

SCALE = 2.0**31
SIZES = (1, 2, 55, 1_000)
LAWS = (0.7, 3.7, 1000.0, SCALE, 2.0**40)
_DRAWS, _BLOCK, _CELLS = 10**8, 10**6, 1_000


def microseconds(call: Callable[[], object], seconds: float = 0.02) -> str:
    """Return the processor time of a call: median, least and most of nine batches of about `seconds`."""
    began = time.process_time()
    call()
    calls = max(1, int(seconds / (time.process_time() - began + 1e-6)))
    batches = []
    for _ in range(9):
        began = time.process_time()
        for _ in range(calls):
            call()
        batches.append(1e6 * (time.process_time() - began) / calls)
    return f"{statistics.median(batches):,.1f} ({min(batches):,.1f} to {max(batches):,.1f})"


def print_times() -> None:
    """Print the time of a call by its size."""
    sampler, random = ExactSampler(), np.random.default_rng(1)
    opendp = {"laplace": opendp_laplace(SCALE), "gaussian": opendp_gaussian(SCALE)}
    print(f"Python {platform.python_version()}, numpy {np.__version__}, scale 2^31; us a call")
    print(f"{'':16}{'exact':>26}{'OpenDP':>34}{'numpy (not private)':>26}")
    for kind in ("laplace", "gaussian"):
        for size in SIZES:
            zeros = np.zeros(size, dtype=np.int64)
            given = zeros.tolist()
            ours = microseconds(lambda: getattr(sampler, kind)(1, zeros, SCALE))  # noqa: B023
            theirs = microseconds(lambda: opendp[kind](given))  # noqa: B023
            bare = random.laplace if kind == "laplace" else random.standard_normal
            floats = microseconds(lambda: np.rint(SCALE * bare(size=size)))  # noqa: B023
            print(f"{kind:10}{size:>6}{ours:>26}{theirs:>34}{floats:>26}")


def print_laws() -> None:
    """Print chi-square of many draws at each scale."""
    for kind in ("laplace", "gaussian"):
        for scale in LAWS:
            counts, shares = law(kind, scale)
            print(f"{kind:10} scale {scale:<16g} {counts.sum():,} draws, {counts.size} cells: ", end="")
            print(f"{unlikely(counts, counts.sum() * shares):+.2f} standard deviations", flush=True)


def law(kind: str, scale: float) -> tuple[IntArray, np.ndarray]:
    """Return how many draws lie in each cell, and the cells' shares."""
    most = int(40 * scale) + 10
    if scale <= _CELLS:
        values = np.arange(-most, most + 1)
        weights = np.exp(-np.abs(values) / scale if kind == "laplace" else -(values**2) / (2 * scale**2))
        edges, shares = np.append(values, most + 1) - 0.5, weights / weights.sum()
    else:
        parts = np.arange(1, _CELLS) / _CELLS
        normal = np.array([NormalDist().inv_cdf(part) for part in parts])
        laplace = -np.sign(parts - 0.5) * np.log1p(-np.abs(2 * parts - 1))
        edges = np.concatenate([[-np.inf], scale * (laplace if kind == "laplace" else normal), [np.inf]])
        shares = np.full(_CELLS, 1 / _CELLS)
    sampler, zeros, counts = ExactSampler(), np.zeros(_BLOCK, dtype=np.int64), np.zeros(shares.size, np.int64)
    for _ in range(_DRAWS // _BLOCK):
        counts += np.histogram(getattr(sampler, kind)(1, zeros, scale), edges)[0]
    return counts, shares


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--law", action="store_true", help="10^8 draws a scale, and their chi-square")
    print_laws() if parser.parse_args().law else print_times()
