"""The commands for a mesh file of `kind: collaboration`: a learner and owners."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import numpy as np
import typer
from rich.console import Console

from nodes.alone import MOST_COLUMNS
from nodes.checks import rounded_up
from nodes.collaboration.own_model import own_model, serves
from streams.bus.bus import BusError, Unreachable
from streams.bus.logs import reach
from streams.cli.command_line import EstimateOptions, WatchOptions
from streams.cli.feed import feed_fully
from streams.cli.model import ModelOptions, check_output, show_model
from streams.cli.up import run_here
from streams.collaboration.file import CollaborationFile
from streams.collaboration.local import LocalCollaboration, StateJournals
from streams.collaboration.outcome import CollaborationOutcome, OwnerOutcome, outcome_so_far, seeded
from streams.collaboration.passes import fixed_sets, passes
from streams.ledger import known_spends
from streams.local.results import MODEL, SUMMARY, write_whole
from streams.local.scoring import Score, score
from streams.mesh.errors import MeshFileError, UsageError, chosen, told_once, writable_folder
from streams.mesh.model_file import read_model
from streams.mesh.user_code import OrderlyEnd
from streams.records.detection import proposals
from streams.records.sources import records_to_score
from streams.runtime.process import INTERRUPTED, Asked, Stop
from streams.status.account import owner_account
from streams.status.status_poller import look
from streams.terminal.collaboration import facts, headline, of_own, parties_table, result, spending
from streams.terminal.collaboration import line as status_line
from streams.terminal.report import SHORT, progress_bar, say, say_facts, say_promises
from streams.terminal.text import counted, listed, shared
from streams.tools.feed.feed import Fed, feed_set
from streams.tools.feed.figures import FeedFigures, FeedServing
from streams.tools.feed.lines import FeedOptions
from streams.tools.model.writing import learner_model, model_paths, outcome_model, own_model_of, write_model
from streams.tools.up.collaboration import up_collaboration
from streams.tools.up.programs import Options
from streams.tools.up.up import UpEnd


def run(
    file: CollaborationFile,
    *,
    rounds: int | None,
    seed: int | None,
    output: Path | None,
    state: Path | None,
    other_data: bool,
    quiet: bool,
) -> None:
    """Run the learner and all owners in this process, for at most `rounds` queries.

    `seed` replaces the seed of simulated noise.
    """
    file = seeded(file, seed)
    test_records = records_to_score(file)
    if output is not None:
        writable_folder(output, (SUMMARY, *(path.name for path in model_paths(output / MODEL))))
    console = Console(highlight=False, quiet=quiet)
    # the check comes before a journal is made, which would not fit a corrected file
    sets = fixed_sets(file, sorted(file.mesh.owners))
    with ExitStack() as closing:
        journals = None if state is None else StateJournals(file, state, closing, other_data=other_data)
        local = LocalCollaboration(file, None if journals is None else journals.opened, sets)
        over = local.done
        if journals is not None:
            journals.begin()
        spends = known_spends(file, file.mesh.owners) if journals is None else journals.reuses()
        say_promises(console, file, spends)
        for line in file.resolved.cautions:
            say(console, f"Warning: {line}", "bold yellow")
        interrupted = _to_the_end(local, rounds, quiet=quiet)
    outcome = outcome_so_far(local, test_records, None if journals is None else journals.reuses())
    if over:
        say(console, "Nothing was asked: this run is over, and what follows is what it has learnt.", "bold")
    _report(console, local, outcome.scores, interrupted=interrupted)
    if output is not None and local.answered:
        text = json.dumps(_summary(local, outcome, interrupted=interrupted), indent=2, allow_nan=False)
        write_whole(output / SUMMARY, f"{text}\n".encode())
        for path in (output / SUMMARY, *write_model(output / MODEL, outcome_model(file, outcome))):
            say(console, f"Wrote {path}.")
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _to_the_end(local: LocalCollaboration, rounds: int | None, *, quiet: bool) -> bool:
    """Ask up to `rounds` queries; return whether Ctrl-C ended it. Each query so far is complete."""
    last = local.file.mesh.queries if rounds is None else min(local.file.mesh.queries, rounds)
    try:
        with OrderlyEnd() as end, progress_bar(last, hidden=quiet) as advance:
            while not end.asked and local.answered < last and local.advance():
                advance(local.answered)
    except KeyboardInterrupt:
        return True
    return end.asked


def _report(
    console: Console, local: LocalCollaboration, scores: dict[str, Score], *, interrupted: bool
) -> None:
    if interrupted:
        say(console, "Interrupted: what follows is what there is.", "bold yellow")
    mesh, answered = local.file.mesh, local.answered
    say(console, f"{mesh.name}, run {mesh.run}: {answered:,} of {mesh.queries:,} queries answered.")
    for name, owner in local.owners.items():
        spent, budget_text = owner.machine.epsilon_spent, of_own(local.file.resolved.mechanism(name))
        say(console, f"Owner {name} has spent epsilon {spent:.6g} of {budget_text}.")
    if answered and mesh.dimension <= SHORT:
        learnt = ", ".join(f"{number:.4g}" for number in local.record.average.tolist())
        say(console, f"Learnt: ({learnt}).", "bold")
    for sentence in result(scores):
        say(console, sentence, "bold")


def _summary(
    local: LocalCollaboration, found: CollaborationOutcome, *, interrupted: bool
) -> dict[str, object]:
    mesh = local.file.mesh
    return {
        "mesh": mesh.name,
        "run": mesh.run,
        "interrupted": interrupted,
        "queries": found.queries,
        "owners": {name: _owner(owner) for name, owner in found.owners.items()},
        "parameters": found.parameters.tolist(),
        "average": found.average.tolist(),
        "scores": {name: asdict(measured) for name, measured in found.scores.items()},
    }


def _owner(owner: OwnerOutcome) -> dict[str, object]:
    epsilon = owner.promise.epsilon
    return {
        "records": owner.records,
        "charged": owner.charged,
        "epsilon_spent": owner.epsilon_spent,
        "epsilon_of_a_record": None if epsilon is None else rounded_up(epsilon),
        "guarantee": owner.guarantee,
    }


def check(file: CollaborationFile, *, last: bool) -> None:
    """Read every local set as a whole. Raises MeshFileError with every mistake."""
    if last:
        raise UsageError("--last: goes with a mesh of nodes with slots by time")
    on_files = [name for name, part in file.owners.items() if part.source and part.source.path]
    wrong = _mistakes(lambda: fixed_sets(file, on_files))
    if file.held_out is not None:
        wrong += _mistakes(lambda: records_to_score(file))
    if wrong:
        raise MeshFileError([*told_once(wrong), *proposals(file)])
    typer.echo(f"{file.path}: right")
    typer.echo(headline(file.mesh))
    for line in [*file.resolved.dominated, *file.resolved.cautions]:
        typer.echo(f"Warning: {line}")
    for line in shared(file):
        typer.echo(f"Warning: {line}")
    absent_owners = [name for name in file.mesh.owners if name not in file.owners]
    if absent_owners:
        typer.echo(f"the own part of {listed(absent_owners)} is not here: its owner has it")


def _mistakes(look: Callable[[], object]) -> list[str]:
    try:
        look()
    except MeshFileError as error:
        return list(error.lines)
    return []


def budget(file: CollaborationFile, owner: str | None, state: Path | None, *, as_json: bool) -> None:
    """Show what the owners have spent, according to their journals and `.spends` in the folder."""
    console, owner_budgets = Console(highlight=False), []
    for name in chosen(file.mesh.owners, owner, "an owner of the collaboration"):
        account = owner_account(file, name, state)
        if as_json:
            tree = account._asdict() | {"all_runs": account.all_runs._asdict()}
            owner_budgets.append({key: value for key, value in tree.items() if key != "reuse"})
        else:
            say_facts(console, spending(file, name, account.charged, account.reuse))
    if as_json:
        typer.echo(
            json.dumps({"mesh": file.mesh.name, "run": file.mesh.run, "owners": owner_budgets}, indent=2)
        )


def plan(file: CollaborationFile, rounds: int | None, estimated: EstimateOptions | None) -> None:
    """Show what a collaboration would do. For it `rounds` is a number of queries."""
    del rounds
    if estimated is not None:
        raise UsageError("--estimate: is for a mesh of nodes: mirrormesh forecast says it of a collaboration")
    say_facts(Console(highlight=False), facts(file))


def model(file: CollaborationFile, output: Path, options: ModelOptions) -> None:
    """Write the learner's model, read from its journal, or an owner's own one."""
    if options.own is not None or options.star is not None:
        _own(file, output, options)
        return
    if options.state is None or options.node is not None:
        raise UsageError("--state: must be given, without --node: a collaboration's model is the learner's")
    check_output(output)
    try:
        model_of_run = learner_model(file, options.state)
    except BusError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    show_model(output, model_of_run)


def _own(file: CollaborationFile, output: Path, options: ModelOptions) -> None:
    """Fit an owner's own model to its own records, near the collaboration's."""
    if options.own is None or options.star is None or (options.state or options.node) is not None:
        raise UsageError("--own and --star: must be given both, without --state and --node")
    owner, loss = (
        chosen(file.mesh.owners, options.own, "an owner of the collaboration")[0],
        file.resolved.loss,
    )
    if not serves(loss, file.dimension):
        raise UsageError(f"--own: serves squared and logistic losses of at most {MOST_COLUMNS} columns")
    star = read_model(options.star)
    if (star.mesh, star.run, star.dimension, star.own) != (
        file.mesh.name,
        file.mesh.run,
        file.dimension,
        None,
    ):
        raise UsageError(f"--star {options.star}: is not the model of {file.mesh.name}, run {file.mesh.run}")
    check_output(output)
    records = passes(file, owner).whole()
    fitted = own_model(loss, records.features, records.labels, np.array(star.average))
    show_model(output, own_model_of(file, owner, star, fitted))
    console = Console(highlight=False)
    say(
        console,
        f"On {owner}'s own {counted(len(records.labels), 'record')}, out of fold, the mean loss is "
        f"{fitted.near:.5g}, of the collaboration's model {fitted.star:.5g}, "
        f"of {owner} alone {fitted.alone:.5g}.",
    )
    test_records = records_to_score(file)
    if test_records is not None:
        vectors = {"the collaboration's": np.array(star.average), f"{owner}'s own": fitted.parameters}
        for sentence in result(
            {name: score(loss, vector, *test_records) for name, vector in vectors.items()}
        ):
            say(console, sentence)


def feed(
    file: CollaborationFile, owner: str, options: FeedOptions, state: Path | None, serving: FeedServing
) -> None:
    """Feed an owner's whole set to its topic, without times."""
    values = {"--timestamps": options.timestamps, "--shift": options.shift, "--records": options.records}
    for option, value in values.items():
        if value:
            raise UsageError(f"{option}: goes with a mesh of nodes: a set is fed whole, without times")

    def work(stop: Stop, figures: FeedFigures) -> Fed:
        return feed_set(file, owner, options.path, options.rate, stop, figures)

    feed_fully(file, owner, options, state, serving, work)


def up(file: CollaborationFile, options: Options, *, plain: bool) -> None:
    """Run the learner, and the owners whose own part is here."""
    del plain
    values = {
        "rate": options.rate is not None,
        "processes": options.processes is not None,
        "no-feed": not options.feed,
        "replay": options.replay,
        "observe": options.observing is not None,
    }
    for option, value in values.items():
        if value:
            raise UsageError(f"--{option}: goes with a mesh of nodes, not a collaboration")
    state, metrics = options.state, options.metrics_from

    def work(console: Console, stop: Stop) -> UpEnd:
        up_collaboration(file, state, console, stop, metrics, other_data=options.other_data)
        return UpEnd()

    run_here(options, work)


LINES = 10.0
"""Seconds between two lines of `watch`."""


def watch(file: CollaborationFile, console: Console, stopped: Asked, options: WatchOptions) -> None:
    """Print a table once, or a line every ten seconds until asked to stop or the learner is done.

    Raises BusError, UsageError.
    """
    if options.owner:
        raise UsageError("--owner is for a mesh of nodes: an owner's set is read whole, or not at all")
    if options.round is not None:
        raise UsageError("--round is for a mesh of nodes: a collaboration has queries, and no rounds")
    if options.once:
        reach(file.mesh_broker)
        parties = look(file)
        say(console, f"{file.mesh.name}, run {file.mesh.run}: {status_line(file.mesh, parties)}")
        console.print(parties_table(file.mesh, parties))
        return
    while not stopped.is_set():
        try:
            parties = look(file)
        except Unreachable as away:
            say(console, str(away))
        else:
            say(console, status_line(file.mesh, parties))
            if parties[0].query > file.mesh.queries:
                return
        stopped.wait(LINES)
