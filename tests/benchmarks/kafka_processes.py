"""Bare processes beside those of a mesh: each is told what it does by its one argument."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def running(folder: Path, module: str, programs: Mapping[str, object]) -> Iterator[dict[str, int]]:
    """Run `python -m MODULE JSON` for each label, logs in `folder`; give the process ids, kill them all."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for label, told in programs.items():
            with (folder / f"{label}.log").open("wb") as log:
                program = [sys.executable, "-m", module, json.dumps(told)]
                started.append(
                    subprocess.Popen(program, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                )
        yield {label: process.pid for label, process in zip(programs, started, strict=True)}
    finally:
        for process in started:
            process.kill()
            process.wait()
