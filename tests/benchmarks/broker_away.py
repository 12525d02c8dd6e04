"""What a mesh's processes take, and say, while their broker is away: `... tests.benchmarks.broker_away`.

A ring of three nodes with a scheduler and a feeder runs on a broker of its own, which is then stopped. The
table has the share of one core that each process takes from then on, and its log lines. A process that can
do nothing should take next to nothing: below 1 %.
"""

import argparse
import tempfile
import time
from pathlib import Path

from streams.tools.broker.broker import stop
from tests.benchmarks.kafka_watch import COMPILING, WAITING, times
from tests.support.brokers.development import started
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh, wait_until


def measured(folder: Path, settle: float, seconds: float) -> dict[str, tuple[float, int]]:
    """Return each process's share of a core, in per cent, and its log lines since the broker was stopped."""
    broker = started(folder / "broker")
    path = small_mesh_file(folder, broker.address, rounds=1_000_000)
    with LiveMesh(path, Process) as mesh:
        first, *_ = mesh.file.mesh.nodes
        mesh.scheduler()
        mesh.nodes()
        for name in mesh.file.mesh.nodes:
            mesh.start(f"feeder of {name}", "feed", path, name, "--rate", "8")
        wait_until(lambda: "goes on" in mesh.processes[first].log)
        time.sleep(settle)
        before = {label: process.log.count("\n") for label, process in mesh.processes.items()}
        stop(broker.folder)
        time.sleep(settle)
        cores = {label: _used(process) for label, process in mesh.processes.items()}
        time.sleep(seconds)
        for label, process in mesh.processes.items():
            (folder / f"{label}.cut").write_text(
                "".join(process.log.splitlines(keepends=True)[before[label] :])
            )
        return {
            label: (
                100 * (_used(process) - cores[label]) / seconds,
                process.log.count("\n") - before[label],
            )
            for label, process in mesh.processes.items()
        }


def _used(process: Process) -> float:
    taken = times(process._process.pid)
    return sum(seconds for kind, seconds in taken.items() if kind not in {WAITING, COMPILING})


def main() -> None:
    """Measure once, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settle", type=float, default=10.0, help="seconds before and after the stop")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds that are measured")
    parser.add_argument("--keep", type=Path, help="keep the processes' lines in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(options.keep or Path(folder), options.settle, options.seconds)
    print("| process | % of a core | log lines |\n|---|---|---|")
    for label, (share, lines) in figures.items():
        print(f"| {label.rsplit('-', 1)[0]} | {share:.2f} | {lines} |")


if __name__ == "__main__":
    main()
