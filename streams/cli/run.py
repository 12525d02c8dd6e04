"""`mirrormesh run`: runs a mesh file in one process, on the bus in memory."""

import math
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from nodes.losses.own_loss import failures
from streams.cli.command_line import CodeOption, MeshArgument, OtherDataOption, RoundsOption, SeedOption
from streams.ledger import Reuse, known_spends
from streams.local.results import MODEL, ROUNDS, SUMMARY, Summary, summarise, write_results
from streams.local.run import LocalRun, LocalSpends, mesh_parts
from streams.mesh.errors import MeshFileError, writable_folder
from streams.mesh.file import MeshFile, load_any
from streams.mesh.kind import dispatch
from streams.mesh.settings.node import LocalisationSettings
from streams.mesh.settings.privacy import TimeSlotsSettings
from streams.mesh.user_code import OrderlyEnd
from streams.records.decoder import SchemaDecoder
from streams.records.faults import FaultCounts
from streams.records.lint import afterwards
from streams.records.localisation import last_target
from streams.records.slot_feed import MOST_COUNTED
from streams.records.sources import records_to_score
from streams.runtime.process import INTERRUPTED
from streams.terminal.malformed import MALFORMED, say_malformed
from streams.terminal.report import progress_bar, say, say_labels, say_promises, say_summary
from streams.terminal.text import listed
from streams.terminal.verdicts import say_verdicts
from streams.tools.model.writing import mesh_model, model_paths, write_model

# Describes why a run in one process ended.


def starved(local: LocalRun) -> list[str]:
    """Return the nodes that had no records left for another slot, which ended the run."""
    return [name for name, node in local.mesh.nodes.items() if node.starved]


def without_records(local: LocalRun, file: MeshFile) -> list[str]:
    """Return a line for each source without records, if a new run has made no round."""
    lines: list[str] = []
    for name in starved(local):
        if not local.recorder.nodes[name].rounds:
            lines += file.refuse(("nodes", name, "source"), "has no record: must have at least one").lines
    return lines


def why_nothing(local: LocalRun) -> str:
    """Return why no round was run."""
    if starved(local):
        return f"No round was run: of {', '.join(starved(local))} no records are left."
    if local.mesh.done:
        return "No round was run: the run had ended before."
    return "No round was run: the nodes could not continue from their journals."


def what_ended(local: LocalRun, file: MeshFile) -> str:
    """Return which nodes have no records left, and how many records the others have not learnt from.

    Only files are counted. A pipe, standard input, a generator or a user-defined source may never end.
    """
    unread = []
    for name in file.mesh.nodes:
        path = getattr(file.own(name).source, "path", None)
        if name in starved(local) or not Path(path or "-").is_file():
            continue
        try:
            number = local.unread(name)
        except MeshFileError:  # the rest of the file is damaged
            unread.append(f"{name} unknown")
            continue
        prefix = "over " if number > MOST_COUNTED else ""
        unread.append(f"{name} {prefix}{min(number, MOST_COUNTED):,}")
    has = "has" if len(starved(local)) == 1 else "have"
    rest = f"; unread: {listed(unread)}" if unread else ""
    return f"{listed(starved(local))} {has} no records left{rest}."


OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="DIR",
        help=f"Write {ROUNDS} (every round of every node), {SUMMARY} and {MODEL}.npz, .json "
        "(what was learnt) there, over those of an earlier run.",
    ),
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="Keep the nodes' journals there (default: in memory). With the same DIR the run continues.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print nothing but mistakes.")]


def run(
    mesh: MeshArgument,
    *,
    rounds: RoundsOption = None,
    seed: SeedOption = None,
    output: OutputOption = None,
    state: StateOption = None,
    other_data: OtherDataOption = False,
    quiet: QuietOption = False,
    code: CodeOption = None,
) -> None:
    """Run a mesh in this process, without a broker.

    The process runs all nodes and a scheduler. It ends after the mesh file's rounds, when the last source
    ends, or with Ctrl-C, SIGTERM or SIGHUP. The first such signal lets it finish the planned rounds, a second
    one stops it at once. In each case the results so far are written. The output names the nodes whose
    records have ended; they relay while others learn.

    The command gives the warnings of `check`: those on settings first, those on records at the end. If more
    than 1 % of a node's records are malformed, the last line gives their number and the reasons. If more than
    half are, the exit code is 3. The output also counts the failures of a user-defined loss by exception.

    A collaboration (kind: collaboration) asks its queries of all owners in turn; --rounds limits them.

    With slots by time no clock is used: files are sorted by time first, and every slot closes, even an empty
    one, up to the number of rounds, which must be given.

    \b
    Examples:
      mirrormesh run mesh.yaml
      mirrormesh run mesh.yaml --rounds 500 --seed 1 --output results
      zcat records.csv.gz | mirrormesh run mesh.yaml      (a source with path: "-")
    """  # noqa: D301 # \b is click's mark: no new line breaks
    options = {"rounds": rounds, "seed": seed, "output": output, "state": state}
    dispatch("run", load_any(mesh, code=code or ()), **options, other_data=other_data, quiet=quiet)


def run_nodes(
    file: MeshFile,
    *,
    rounds: int | None,
    seed: int | None,
    output: Path | None,
    state: Path | None,
    other_data: bool,
    quiet: bool,
) -> None:
    """Run a mesh of nodes."""
    parts = mesh_parts(file, seed=seed, rounds=rounds)
    tested = FaultCounts()
    test_records = records_to_score(file, tested)
    if output is not None:
        writable_folder(output, (ROUNDS, SUMMARY, *(path.name for path in model_paths(output / MODEL))))
    spends = None if state is None else LocalSpends(file, state, seed, other_data=other_data)
    local = LocalRun(parts, spends=spends)
    fresh = not any(node.journal.records() for node in local.mesh.nodes.values())
    console = Console(highlight=False, quiet=quiet)
    say_promises(console, file, reuses(spends, file))
    for line in file.resolved.cautions:
        say(console, f"Warning: {line}", "bold yellow")
    interrupted = to_the_end(local, rounds or file.mesh.rounds, quiet=quiet)
    if spends is not None:
        spends.end(local.recorder)
    summary = summarise(
        file,
        local.recorder,
        test_records,
        interrupted=interrupted,
        reuses=None if spends is None else spends.reuses(),
        counts=local.counts,
        left_out=tested.malformed,
    )
    result_files: tuple[Path, ...] = ()
    if output and summary.rounds:
        result_files = write_results(output, local.recorder, summary)
        result_files += write_model(output / MODEL, mesh_model(file, summary))
    if fresh and not (summary.rounds or interrupted) and starved(local):
        raise MeshFileError(without_records(local, file))
    report(console, local, file, summary, result_files)
    if summary.rounds and (place := target(file, summary, seed)):
        say(console, place, "bold")
    for line in afterwards(file):
        say(console, f"Warning: {line}", "bold yellow")
    malformed = {name: counts.read for name, counts in local.counts.items()}
    decoders = {name: node.decoder for name, node in parts.nodes.items()}
    say_labels(
        console,
        {
            name: counts
            for name, decoder in decoders.items()
            if isinstance(decoder, SchemaDecoder) and (counts := decoder.label_counts) is not None
        },
    )
    failed = {name: failures(node.learner.loss) for name, node in parts.nodes.items()}
    mostly = say_malformed(console, malformed, failed)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if mostly:
        raise typer.Exit(MALFORMED)


def reuses(spends: LocalSpends | None, file: MeshFile) -> dict[str, Reuse]:
    """Return what is known of other spending on the nodes' data; without a folder, by the mesh file alone."""
    return known_spends(file, file.mesh.nodes) if spends is None else spends.reuses()


def to_the_end(local: LocalRun, rounds: int | None, *, quiet: bool) -> bool:
    """Run to the end, with a progress bar on a terminal; return whether Ctrl-C ended it."""
    recorder = local.recorder
    try:
        with closing(local.mesh), OrderlyEnd() as end:
            with progress_bar(rounds, hidden=quiet) as advance:
                while not end.asked and local.to_round(recorder.common_rounds + 1):
                    advance(recorder.common_rounds)
            local.finish()
    except KeyboardInterrupt:  # the second signal: every node's steps so far are complete
        return True
    return end.asked


def target(file: MeshFile, summary: Summary, seed: int | None) -> str:
    """Return where the target of simulated sensors was last, beside the decision; empty without sensors."""
    mesh = file.mesh
    if not any(isinstance(part.source, LocalisationSettings) for part in file.nodes.values()):
        return ""
    size = 1 if isinstance(mesh.slots, TimeSlotsSettings) else mesh.slots.size
    at = last_target(mesh.seed if seed is None else seed, summary.last_round, mesh.target, size)
    decision = file.resolved.algorithm.observed(np.array(summary.decision))
    x, y = at.tolist()
    away = f"{math.dist(at, decision[:2]):.3g} from the mean of the nodes' last decisions"
    return f"The sensors' target was last at ({x:.4g}, {y:.4g}), {away}."


def report(
    console: Console, local: LocalRun, file: MeshFile, summary: Summary, written: Iterable[Path]
) -> None:
    """Print the result of the run."""
    if summary.interrupted:
        say(console, "Interrupted: what follows is what there is.", "bold yellow")
    if summary.rounds:
        say_summary(console, summary)
        say_verdicts(console, {node.name: node.verdict for node in summary.nodes if node.verdict is not None})
        if starved(local) and not (summary.interrupted or console.quiet):
            say(console, f"The run ended: {what_ended(local, file)}")
    else:
        say(console, why_nothing(local))
    for path in written:
        say(console, f"Wrote {path}.")
