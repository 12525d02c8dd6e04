"""What a start costs before anything is done: processor seconds of a fresh Python, the lowest of five.

`python -m tests.benchmarks.imports`, on a machine that does nothing else.
"""

import resource
import subprocess
import sys

TIMES = 5
STARTS = {
    "python": "pass",
    "mirrormesh --help": "from streams.cli import main; main(['--help'])",
    "mirrormesh node --help": "from streams.cli import main; main(['node', '--help'])",
    "a node up to hello": "import typer, streams.cli.node",
    "the same without typer": "import streams.live.node_process, streams.live.log",
    "a node with all it loads": "import typer, streams.cli.node, streams.live.data.app",
    "a scheduler": "import typer, streams.cli.scheduler",
}


def lowest(code: str) -> float:
    """Return the processor seconds of a Python that runs `code`, the lowest of `TIMES`."""
    found = []
    for _ in range(TIMES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def main() -> None:
    """Print a line for each start."""
    for name, code in STARTS.items():
        print(f"{name:28}{lowest(code):6.2f} s", flush=True)


if __name__ == "__main__":
    main()
