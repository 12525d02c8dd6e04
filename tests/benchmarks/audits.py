"""How sure an audit's verdict is: its lower bound over many runs, with the right noise and with too little.

`python -m tests.benchmarks.audits`; noise by numpy, claims of epsilon = 1 and mu = 1. Bounds above 1 refute.
"""

import numpy as np

from nodes.audit import epsilon_lower_bound, mu_lower_bound
from topology.keyed import generator

RUNS, DRAWS = 60, 60_000
SCALES = {"right": 1.0, "too little by 1.2": 1 / 1.2}


def bounds(law: str, scale: float) -> list[float]:
    """Return each run's bound for inputs 0 and 1 under noise of that law and scale."""
    judged = {"laplace": epsilon_lower_bound, "normal": mu_lower_bound}[law]
    random = generator("audits", law, round(scale * 1000))
    draw = getattr(random, law)
    return [judged(draw(size=DRAWS, scale=scale), draw(size=DRAWS, scale=scale) + 1) for _ in range(RUNS)]


def main() -> None:
    """Print a line for each law and scale."""
    print(f"{RUNS} runs of {DRAWS:,} draws: lowest, median, highest bound; runs that refute")
    for law in ("laplace", "normal"):
        for name, scale in SCALES.items():
            found = bounds(law, scale)
            low, middle, high = np.quantile(found, (0, 0.5, 1))
            refuted = sum(bound > 1 for bound in found)
            print(f"{law:8} {name:18} {low:.3f} {middle:.3f} {high:.3f} {refuted:3}", flush=True)


if __name__ == "__main__":
    main()
