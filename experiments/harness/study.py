"""Many runs of one function: in parallel, each kept by its arguments and the code's version, so resumable."""

import hashlib
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Memory, Parallel, delayed
from rich.console import Console
from rich.progress import track

from nodes.values import FloatArray

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "out" / "experiments"
"""Where what was measured is kept."""
RUN_THROUGH = (
    *("topology", "nodes", "experiments/harness", "deploy/meshes"),
    *("streams/mesh", "streams/records", "streams/local", "streams/tools/tuning", "streams/collaboration"),
)
"""Folders of the code that makes the numbers, and of the data that the clone itself has."""
FEW = 3
"""Runs where it shall be quick."""

Measured = dict[str, FloatArray]
"""What one run gives: arrays by name."""
Measure = Callable[..., Measured]
"""Takes `seed` and the case's own arguments (numbers, text, lists: what makes the run, and its key)."""


@dataclass(frozen=True)
class Study:
    """Where an experiment writes, and how much it does. `quick`: a few runs on excerpts, to see it work."""

    output: Path
    quick: bool = False
    workers: int = os.cpu_count() or 1
    kept: Path = field(default_factory=lambda: KEPT)

    def repeated(
        self, measure: Measure, cases: Mapping[str, Mapping[str, Any]], runs: int
    ) -> dict[str, Measured]:
        """Return measure(seed, **case) of seeds 0, 1, ... stacked, shape (runs, ...), for each case.

        What was measured before by the same code is read again; Ctrl-C loses only what is under way.
        """
        runs = min(runs, FEW) if self.quick else runs
        kept = Memory(self.kept, verbose=0).cache(_measured, ignore=["measure"])
        version = f"{measure.__module__}.{measure.__qualname__} {_version(inspect.getfile(measure))}"
        jobs = [
            delayed(kept)(measure, version, seed, dict(case))
            for case in cases.values()
            for seed in range(runs)
        ]
        pool = Parallel(n_jobs=self.workers, return_as="generator")
        console = Console(stderr=True)
        found = list(
            track(
                pool(jobs),
                total=len(jobs),
                description=measure.__module__,
                transient=True,
                console=console,
                disable=not console.is_terminal,
            )
        )
        return {
            label: _stacked(found[number * runs : (number + 1) * runs]) for number, label in enumerate(cases)
        }


def _measured(measure: Measure, version: str, seed: int, case: dict[str, Any]) -> Measured:  # noqa: ARG001 # a key
    return measure(seed, **case)


def _stacked(found: list[Measured]) -> Measured:
    return {name: np.stack([one[name] for one in found]) for name in found[0]}


@cache
def _version(file: str) -> str:
    """Return a digest of all code and data of the clone that a run goes through, and of numpy's version."""
    parts = [path for name in RUN_THROUGH for path in (ROOT / name).rglob("*") if path.is_file()]
    digest = hashlib.sha256(np.__version__.encode())
    for path in [Path(file), *sorted(path for path in parts if "__pycache__" not in path.parts)]:
        digest.update(path.read_bytes())
    return digest.hexdigest()
