"""`mirrormesh tune`: proposes a clip, a step and a slot size from a public pilot."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from nodes.sparse import dense
from nodes.values import FloatArray
from streams.cli.arguments import MeshArgument
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile, load
from streams.mesh.settings.node import FileSettings
from streams.records.sources import decoded
from streams.terminal.progress_bars import progress_bar
from streams.terminal.report import say, table
from streams.tools.tuning.pilot import MovingTargets, Pilot, Resampled, made_up
from streams.tools.tuning.trials import Setting, Trials
from streams.tools.tuning.walk import MOST, best, walk

PUBLIC = (
    "THE PILOT MUST BE PUBLIC. What is proposed is a function of it without any noise: never tune on records "
    "that the mesh is to protect, nor on ones like them that somebody wants kept secret."
)
SHOWN = 12

PilotOption = Annotated[
    Path | None,
    typer.Option(
        "--pilot",
        metavar="FILE",
        help="Public records, in the format of the first node here that reads a file.",
    ),
]


def tune(
    mesh: MeshArgument,
    *,
    pilot: PilotOption = None,
    synthetic: Annotated[bool, typer.Option("--synthetic", help="Use random records instead.")] = False,
    records: Annotated[
        int | None,
        typer.Option(
            "--records", min=1, metavar="N", help="Records per node to learn from, in place of the file's."
        ),
    ] = None,
    slot_size: Annotated[bool, typer.Option("--slot-size", help="Try other slot sizes too.")] = False,
    by_auc: Annotated[
        bool, typer.Option("--auc", help="Optimise the last decisions' AUC on the pilot, not the mean loss.")
    ] = False,
    runs: Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Runs of each trial.")] = 4,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="The seed of pilot, noise and schedule.")
    ] = 1,
) -> None:
    """Propose gradient_bound and step size from public records.

    The pilot must be PUBLIC or random records, as the proposal reveals something of them. Settings are tried
    on the pilot, drawn with replacement to as many records as the mesh is to learn from, under the mesh
    file's mechanism with simulated noise. The search starts from the mesh file's setting, and lowers the mean
    loss (or, with --auc, improves the ranking) by factors of four, then of two, until no neighbour is better.
    Prints the settings tried and the lines for the mesh file. The nodes' own records are not read.

    \b
    Examples:
      mirrormesh tune mesh.yaml --synthetic
      mirrormesh tune mesh.yaml --pilot public.csv --records 8000 --slot-size
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file = load(mesh)
    if (pilot is None) == (not synthetic):
        raise UsageError("must have either --pilot FILE, public records, or --synthetic")
    console = Console(highlight=False)
    source = made_up_like(file, seed) if pilot is None else from_file(file, pilot)
    settings = file.mesh
    total = records or (settings.rounds or 1000) * settings.slots.size
    if total < settings.slots.size:
        raise UsageError(
            f"--records is {total}: must be at least {settings.slots.size}, a slot's size in {file.path}"
        )
    trials = Trials(settings, source, total, runs, seed, labelled(file, source) if by_auc else None)
    say(console, PUBLIC, "bold red")
    with progress_bar(MOST) as advance:
        tried = walk(Setting.of(settings), trials.loss, sizes=slot_size, report=advance)
    report(console, file, tried, "1 - AUC" if by_auc else "mean loss", total)


def made_up_like(file: MeshFile, seed: int) -> Pilot:
    """Return a random pilot for the mesh's loss. Raises UsageError if the loss has none."""
    loss, dimension = file.mesh.loss, file.mesh.dimension
    if loss.name == "range" and dimension == 2:
        return MovingTargets()
    if loss.signed:
        return made_up(dimension, "signs", seed)
    if loss.name in {"squared", "absolute", "huber"}:
        return made_up(dimension, "numbers", seed)
    raise UsageError(f"--synthetic: there are no made-up records for loss {loss} in {dimension} dimensions")


def from_file(file: MeshFile, pilot: Path) -> Pilot:
    """Return the records of a file, in the format of the first node here that has a file.

    Raises UsageError for a node's own file: nothing may be tuned on private records.
    """
    if not pilot.is_file():
        raise UsageError(f"{pilot}: no such file: must be a file of public records")
    for name, own in file.nodes.items():
        path = Path(getattr(own.source, "path", None) or "-")
        if path.exists() and pilot.samefile(path):
            raise UsageError(f"{pilot}: is node {name}'s own source: must be another file, of public records")
    for name, own in file.nodes.items():
        if isinstance(own.source, FileSettings):
            settings = own.source.model_copy(update={"path": str(pilot), "take": None, "shuffle": False})
            rows, labels = decoded(file, settings, ("nodes", name, "source"))
            return Resampled(dense(rows), labels)
    raise UsageError(
        f"{file.path}: no node here reads CSV or JSON lines, so the pilot has no schema: use --synthetic"
    )


def labelled(file: MeshFile, pilot: Pilot) -> tuple[FloatArray, FloatArray]:
    """Return the pilot's rows and labels. Raises UsageError unless these are of two signs."""
    if file.mesh.loss.decisions_per_feature > 1:
        raise UsageError(f"--auc: is for losses of one score, not for {file.mesh.loss}")
    if not isinstance(pilot, Resampled) or len(np.unique(np.sign(pilot.labels))) != 2:
        raise UsageError("--auc: the pilot must have labels of both signs")
    return pilot.features, pilot.labels


def report(console: Console, file: MeshFile, tried: dict[Setting, float], measure: str, records: int) -> None:
    """Print the best settings, and the lines for the mesh file."""
    chosen, start = best(tried), Setting.of(file.mesh)
    ranked = sorted(tried, key=tried.__getitem__)
    rows = [
        (
            f"{setting.gradient_bound:.4g}",
            f"{setting.step:.4g}",
            f"{setting.size:,}",
            f"{tried[setting]:.5g}",
            "proposed" if setting == chosen else "the file's" if setting == start else "",
        )
        for setting in ranked
        if setting in {*ranked[:SHOWN], chosen, start}
    ]
    title = f"{len(tried)} settings tried, the best first; {records:,} records a node"
    console.print(table(("gradient_bound", "a of step_size", "slot size", measure, ""), rows, title))
    rule = file.mesh.algorithm.step_size
    more = "" if rule.b is None else f", b: {rule.b:g}"
    if chosen == start:
        say(console, "The mesh file's own setting is the best of them.")
    say(console, "For the mesh file:")
    typer.echo(f"  algorithm:\n    step_size: {{rule: {rule.rule}, a: {chosen.step:.6g}{more}}}")
    typer.echo(f"  slots: {{by: {file.mesh.slots.by}, size: {chosen.size}}}")
    typer.echo(f"  privacy:\n    gradient_bound: {chosen.gradient_bound:.6g}")
