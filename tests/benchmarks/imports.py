"""What a start costs before anything is done: processor seconds and memory of a fresh Python, lowest of five.

`python -m tests.benchmarks.imports`, on a machine that does nothing else. Compiled modules are written by the
first of the five, as an installation has them.
"""

import os
import subprocess
import sys

TIMES = 5
STARTS = {
    "python": "pass",
    "mirrormesh --help": "from streams.cli import main; main(['--help'])",
    "mirrormesh node --help": "from streams.cli import main; main(['node', '--help'])",
    "a node up to hello": "import typer, streams.cli.processes",
    "the same without typer": "import streams.live.node_process, streams.live.log",
    "a node with all it loads": "import typer, streams.cli.processes, streams.live.data.app",
    "a scheduler": "import typer, streams.cli.processes",
}


def cost(code: str) -> tuple[float, float]:
    """Return the processor seconds, and the MiB of memory at most, of a Python that runs `code`."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, env=environment
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"python -c {code!r} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Print a line for each start."""
    for name, code in STARTS.items():
        seconds, memory = map(min, zip(*[cost(code) for _ in range(TIMES)], strict=True))
        print(f"{name:28}{seconds:6.2f} s{memory:6.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
