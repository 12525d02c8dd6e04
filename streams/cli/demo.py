"""`mirrormesh demo`: six sensors follow a target privately, then without privacy, then each alone."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from nodes.values import FloatArray
from streams.ledger import known_spends
from streams.local.results import ROUNDS, write_columns, write_rounds
from streams.local.run import LocalRun, mesh_parts, without_neighbours, without_privacy
from streams.mesh.errors import writable_folder
from streams.mesh.file import MeshFile, load
from streams.mesh.shipped import example_mesh
from streams.records.localisation import sensor, target_path
from streams.terminal.demo import EXAMPLE, DemoProgress, Tracked, shown, tracked, verdict
from streams.terminal.plots import MISSING, PATHS, REGRET, installed, plot_paths, plot_regret
from streams.terminal.report import say, say_promises, table
from streams.terminal.text import counted, epsilon_words

SERIES = "series.csv"
PRIVATE = "private, with neighbours"

DemoRoundsOption = Annotated[int, typer.Option("--rounds", min=1, metavar="T", help="Rounds.")]
DemoSeedOption = Annotated[
    int,
    typer.Option("--seed", min=0, metavar="N", help="The seed of the target's path and the measurements."),
]
DemoOutputOption = Annotated[
    Path | None,
    typer.Option("--output", metavar="DIR", help="Write plots (PNG) and series (CSV) there."),
]
PlainOption = Annotated[bool, typer.Option("--plain", help="Lines, also on a terminal.")]


def demo(
    *,
    rounds: DemoRoundsOption = 2000,
    seed: DemoSeedOption = 0,
    output: DemoOutputOption = None,
    plain: PlainOption = False,
) -> None:
    """Six sensors follow a moving target together, privately.

    Each sensor keeps its distances to itself, and cannot locate the target alone. Together the sensors can,
    although everything that leaves a sensor has noise: every measurement is protected with epsilon = 1. The
    demo then repeats the run without privacy, and again without neighbours. The noise comes from the
    operating system, so no two demos are the same.

    \b
    Examples:
      mirrormesh demo
      mirrormesh demo --output demo       with plots and series
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file = load(example_mesh(EXAMPLE))
    if output is not None:
        writable_folder(output, (ROUNDS, SERIES, PATHS, REGRET))
    console = Console(highlight=False)
    target = target_path(seed, rounds, file.mesh.target)
    say(console, "Six sensors follow a target. Each measures its own distance to it, and shows it to nobody.")
    local = LocalRun(mesh_parts(file, seed=seed, rounds=rounds))
    sensors = _sensors(file, local)
    watched = DemoProgress(local, sensors, target, _epsilon(file))
    with closing(local.mesh), shown(console, watched, PRIVATE, plain=plain) as view:
        while local.to_round(local.recorder.common_rounds + 1):
            view(local.recorder.common_rounds)
    runs = [
        tracked(PRIVATE, file, local, target),
        _again("without privacy", without_privacy(file), console, seed, target),
        _again("without neighbours", without_neighbours(file), console, seed, target),
    ]
    _compare(console, file, runs)
    if output is not None:
        write_rounds(output / ROUNDS, local.recorder, file.mesh.dimension)
        _write(output, list(local.recorder.nodes), sensors, runs, target, console)


def _compare(console: Console, file: MeshFile, runs: list[Tracked]) -> None:
    """Print the runs side by side, a verdict on their errors, and the guarantee."""
    rows = [(run.name, f"{run.final_error:.3f}", f"{run.final_regret:.4f}") for run in runs]
    last = counted(len(runs[0].last), "round")
    headings = ("", f"mean error\n(last {last})", "network regret/T\n(largest of a node)")
    console.print(table(headings, rows, "What privacy costs, and what neighbours bring"))
    say(console, "Error: the distance from the target; the sensors stand 1.5 from the centre.", "dim")
    for line in verdict(*runs):
        say(console, line, "bold")
    say_promises(console, file, known_spends(file, file.mesh.nodes))


def _epsilon(file: MeshFile) -> str:
    epsilon = file.mesh.privacy.epsilon
    return "none" if epsilon is None else epsilon_words(epsilon).removeprefix("epsilon ")


def _sensors(file: MeshFile, local: LocalRun) -> FloatArray:
    """Return where the nodes' sensors stand, in the recorder's order, shape (N, 2)."""
    stands = {name: sensor(number, len(file.mesh.nodes)) for number, name in enumerate(file.mesh.nodes)}
    return np.array([stands[name] for name in local.recorder.nodes])


def _again(name: str, file: MeshFile, console: Console, seed: int, target: FloatArray) -> Tracked:
    """Run the mesh of `file` on the same data, without showing it."""
    local = LocalRun(mesh_parts(file, seed=seed, rounds=len(target)))
    with closing(local.mesh), console.status(f"the same {name} ..."):
        local.mesh.run()
    return tracked(name, file, local, target)


def _write(
    folder: Path,
    names: list[str],
    sensors: FloatArray,
    runs: list[Tracked],
    target: FloatArray,
    console: Console,
) -> None:
    """Write all runs' series and the plots, and say what is written."""
    columns = {"round": np.arange(1.0, len(target) + 1), "target_1": target[:, 0], "target_2": target[:, 1]}
    for run in runs:
        columns |= {f"error, {run.name}": run.errors.mean(1), f"regret/T, {run.name}": run.regret}
    write_columns(folder / SERIES, columns)
    file_names = [ROUNDS, SERIES]
    if installed():
        plot_paths(folder / PATHS, runs, names, sensors, target)
        plot_regret(folder / REGRET, runs)
        file_names += [PATHS, REGRET]
    say(console, f"Wrote {', '.join(str(folder / name) for name in file_names)}.")
    if not installed():
        say(console, MISSING)
