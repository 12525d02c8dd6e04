"""`mirrormesh simulate`: searches seeded histories of a mesh for one in which an invariant does not hold."""

import time
from typing import Annotated

import typer
from rich.console import Console

from streams.cli.command_line import CodeOption, MeshArgument, cautioned
from streams.mesh.errors import UsageError
from streams.mesh.file import load_any
from streams.simulation.history import Reached
from streams.simulation.search import SearchOutcome, SimulatedStage, run, search, shrunk
from streams.terminal.report import progress_bar, say
from streams.terminal.text import counted

NONE = "none"
ALL = 1000
"""The number of histories in which everything of `Reached` must occur."""

FirstSeedOption = Annotated[
    int, typer.Option("--seed", min=0, metavar="S", help="The first history's seed; the next have S + 1, ...")
]
HistoriesOption = Annotated[
    int, typer.Option("--histories", min=1, metavar="H", help="The histories to run.")
]
KeepOption = Annotated[
    str | None,
    typer.Option("--faults", metavar="K,K,...", help="Of the first seed's faults only these, by place."),
]


def simulate(
    mesh: MeshArgument,
    *,
    seed: FirstSeedOption = 0,
    histories: HistoriesOption = 1000,
    faults: KeepOption = None,
    code: CodeOption = None,
) -> None:
    """Search a mesh for bugs: seeded faults in virtual time.

    The command runs the real nodes and schedulers, in this process on a broker in memory, against faults that
    are drawn from a seed: crashes, lost connections, damaged journals, schedulers with wrong clocks, members
    that lie. For a collaboration it runs the learner and the owners, whose answers may be lost. After every
    event it checks the invariants. At the end it checks that all processes that are not broken have made
    progress. The same seed gives the same history, byte for byte.

    A history that fails is printed, reduced to as few faults as still make it fail, and the exit code is 1.

    \b
    Examples:
      mirrormesh simulate mesh.yaml
      mirrormesh simulate mesh.yaml --seed 17 --histories 1
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file, console = cautioned(load_any(mesh, code=code or ())), Console(highlight=False)
    stage: SimulatedStage = file.kind.histories(file)
    if faults is not None:
        replayed = run(stage, seed, _places(faults, len(stage.begin(seed, None)[1])))
        _show(console, str(mesh), replayed)
        raise typer.Exit(0 if replayed.violation is None else 1)
    started, reached, events = time.monotonic(), set[Reached](), 0
    failed: SearchOutcome | None = None
    with progress_bar(histories, thing="history", things="histories") as advance:
        for count, outcome in enumerate(search(stage, range(seed, seed + histories)), 1):
            if outcome.violation is not None:
                failed = outcome
                break
            advance(count)
            reached |= outcome.history.reached
            events += outcome.history.events
    if failed is not None:
        _show(console, str(mesh), shrunk(stage, failed))
        raise typer.Exit(1)
    seconds = time.monotonic() - started
    text = f"{histories:,} histories, {events:,} events, {seconds:,.1f} s: no violation."
    say(console, text)
    missing = [event for event in stage.reachable if event not in reached]
    if stage.reachable:
        say(console, f"Reached: {', '.join(event for event in Reached if event in reached) or 'nothing'}.")
    if missing and histories >= ALL:
        say(console, f"Never reached: {', '.join(missing)}.", "bold red")
        raise typer.Exit(1)


def _places(text: str, most: int) -> tuple[int, ...]:
    try:
        numbers = sorted({int(place) for place in text.split(",") if text != NONE})
    except ValueError:
        raise UsageError(f"--faults {text}: must be whole numbers, with commas between them") from None
    if numbers and not 0 <= numbers[0] <= numbers[-1] < most:
        raise UsageError(f"--faults {text}: the seed has {counted(most, 'fault')}: must be places from 0 on")
    return tuple(numbers)


def _show(console: Console, mesh: str, outcome: SearchOutcome) -> None:
    """Print a history, its faults, and how to run it again."""
    for line in outcome.history.text():
        console.print(line, markup=False, soft_wrap=True)
    say(console, f"\nSeed {outcome.seed}, {counted(len(outcome.faults), 'fault')}:")
    for place, fault in zip(outcome.keep, outcome.faults, strict=True):
        say(console, f"  {place:>3}  {fault}")
    if outcome.violation is not None:
        say(console, f"Violation: {outcome.violation}", "bold red")
    places = ",".join(map(str, outcome.keep))
    say(console, f"Again: mirrormesh simulate {mesh} --seed {outcome.seed} --faults {places or NONE}")
