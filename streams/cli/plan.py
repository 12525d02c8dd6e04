"""`mirrormesh plan`: shows what a mesh would do and promise, without running it."""

import time
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console

from streams.cli.command_line import EstimateOptions, MeshArgument, RoundsOption
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile, load_any
from streams.mesh.kind import dispatch
from streams.records.slot_feed import MOST_COUNTED
from streams.records.sources import record_count
from streams.terminal.plan_text import Fact, facts
from streams.terminal.report import say_facts
from streams.terminal.text import counted, noisy_subject, protection
from streams.tools.tuning.forecasting import RUNS, Estimate, estimate
from streams.tools.tuning.signals import (
    BALANCED,
    MIDDLING,
    SIGNAL_RUNS,
    SIGNALS,
    SignalTable,
    by_signal,
    no_better,
    records_needed,
)

EstimateOption = Annotated[
    bool, typer.Option("--estimate", help="Also estimate what it would reach, from runs on made-up records.")
]


RecordsOption = Annotated[
    int | None,
    typer.Option(
        "--records",
        min=1,
        metavar="N",
        help="With --estimate: how many records each node has.",
        show_default=False,
    ),
]
PositiveOption = Annotated[
    float | None,
    typer.Option(
        "--positive",
        metavar="SHARE",
        help="With --estimate: the share of positive records, such as 0.003.",
        show_default="0.5",
    ),
]


def plan(
    mesh: MeshArgument,
    *,
    rounds: RoundsOption = None,
    estimated: EstimateOption = False,
    records: RecordsOption = None,
    positive: PositiveOption = None,
) -> None:
    """Show what a mesh would do, and what it promises to whom. Runs nothing, unless --estimate is given.

    Shows members, edges, how fast information spreads, mechanism and noise, the guarantee in words, the
    privacy spent after the rounds and what happens then, bounds on the regret, and whether models of two
    classes may be no better than guessing. Other parties' own parts of the mesh file are not needed.

    With --estimate the command also runs a mesh of the same nodes, schedule, slots, steps and mechanism in
    this process, on made-up records with simulated noise, and once more without privacy. The records have the
    features of the first local schema (its bounds and categories, no record), or else random features. Labels
    of two classes follow a random direction: weakly, middling or strongly. The next run on such records has
    an AUC in the range of their signal in 90 %. --records and --positive are public guesses of yours. The
    runs read no node's own records, and nothing is spent. The result is an estimate: your records may be
    easier or harder.

    \b
    Examples:
      mirrormesh plan mesh.yaml
      mirrormesh plan mesh.yaml --rounds 10000
      mirrormesh plan mesh.yaml --estimate
      mirrormesh plan mesh.yaml --estimate --records 18000 --positive 0.003
    """  # noqa: D301 # \b is click's mark: no new line breaks
    for option, value in {"--records": records, "--positive": positive}.items():
        if value is not None and not estimated:
            raise UsageError(f"{option}: is for --estimate, which must be given too")
    options = EstimateOptions(records, positive) if estimated else None
    dispatch("plan", load_any(mesh), rounds, options)


def plan_nodes(file: MeshFile, rounds: int | None, estimated: EstimateOptions | None) -> None:
    """Show what a mesh of nodes would do."""
    expected = at_a_glance(file, rounds) if estimated is None else estimate_facts(file, rounds, estimated)
    console = Console(highlight=False)
    say_facts(
        console,
        [
            *facts(file, rounds, time.time()),
            *left_over(file, rounds),
            *(("warning", line) for line in file.resolved.cautions),
            *expected,
        ],
    )


def estimate_facts(file: MeshFile, rounds: int | None, supposed: EstimateOptions) -> list[Fact]:
    """Return the estimate in words: by signal for two classes, else of one kind of made-up records."""
    if file.mesh.loss.signed:
        positive = BALANCED if supposed.positive is None else supposed.positive
        table = by_signal(file, rounds=rounds, records=supposed.records, positive=positive)
        middling = next(row for row in table.rows if row.signal == MIDDLING)
        needed = _needed(file, rounds, positive) if middling.is_a_guess and positive != BALANCED else ()
        return [*table_in_words(file, table), *needed]
    if supposed.positive is not None:
        raise UsageError(f"--positive: is for losses of two classes, not for {file.mesh.loss}")
    if supposed.records is not None:
        enough, planned = -(-supposed.records // file.mesh.slots.size), rounds or file.mesh.rounds
        rounds = enough if planned is None else min(enough, planned)
    return list(in_words(file, estimate(file, rounds), rounds))


def at_a_glance(file: MeshFile, rounds: int | None) -> Iterator[Fact]:
    """Yield a line if a run may be no better than guessing; no made-up run is made."""
    signals = no_better(file, rounds)
    if signals:
        yield "warning" if set(signals) == set(SIGNALS) else "guessing", guess_in_words(signals)
    if MIDDLING in signals:
        yield from _needed(file, rounds, BALANCED)


def _needed(file: MeshFile, rounds: int | None, positive: float) -> Iterator[Fact]:
    """Yield how many records a middling signal needs, as far as it is known."""
    needed = records_needed(file, rounds, positive)
    if needed is not None:
        share = "" if positive == BALANCED else f" of which {100 * positive:.3g} % are positive"
        yield "", f"a middling signal needs at least about {needed:,} records a node{share}"


def guess_in_words(signals: tuple[str, ...]) -> str:
    """Return the sentence on the signals, at least one, at which a run may be no better than guessing."""
    best, cure = f"{max(SIGNALS[signal] for signal in signals):.2f}", "more records or a larger epsilon helps"
    if set(signals) == set(SIGNALS):
        beginning = "no run surely beats guessing at these settings: even where a line reaches an AUC of"
        return f"{beginning} {best}, one run in twenty is no better than a guess; {cure}"
    return (
        f"where a line reaches an AUC of {best} at best, one run in twenty is no better than a guess; {cure}"
    )


def left_over(file: MeshFile, rounds: int | None) -> Iterator[Fact]:
    """Yield the number of records of each file here that fill no slot on a broker, with slots by count.

    There is no line for a file of more than `MOST_COUNTED` records, nor if the rounds end before the file.
    """
    slots, planned = file.mesh.slots, rounds or file.mesh.rounds
    if slots.by != "count":
        return
    for name in file.nodes:
        count = record_count(file, name, MOST_COUNTED + 1)
        if count is None or count > MOST_COUNTED or count % slots.size == 0:
            continue
        if planned is None or planned > count // slots.size:
            text = f"the last {count % slots.size:,} of {counted(count, 'record')} fill no slot on a broker"
            yield "left over", f"{name}: {text}; `run` learns from them in a short slot"


def table_in_words(file: MeshFile, table: SignalTable) -> Iterator[Fact]:
    """Yield a line for each signal, and the way in which the estimate was made."""
    name = "estimate"
    for row in table.rows:
        reaches = (
            f"AUC {row.low:.2f} to {row.high:.2f} for a {row.signal} signal, {row.open:.2f} without privacy"
        )
        guess = "; the range holds chance: the run may be no better than guessing" if row.is_a_guess else ""
        yield name, f"{reaches}; a line reaches {row.best:.2f} at best{guess}"
        name = ""
    is_whole = table.rounds == table.planned
    if not is_whole:
        beginning = counted(table.rounds, "round")
        yield "", f"so much after {beginning}: the whole run of {table.planned:,} may be better"
    elif all(row.is_a_guess for row in table.rows):
        yield "", guess_in_words(tuple(SIGNALS))
    yield (
        "",
        f"the next run on such records is in the range of their signal in 90 % ({SIGNAL_RUNS} runs each)",
    )
    share = "half" if table.positive == BALANCED else f"{100 * table.positive:.3g} %"
    rare = "; where yours are fewer, say --positive SHARE" if table.positive == BALANCED else ""
    yield "", f"{share} of the made-up records are positive{rare}"
    if not table.is_known:
        yield "", "how many records there are is not known: say --records N"
    yield from _noise(table.noise)
    yield from _how(file, table.like, table.rounds, table.planned if table.is_known else None, table.records)


def in_words(file: MeshFile, found: Estimate, rounds: int | None) -> Iterator[Fact]:
    """Yield the estimate of a mesh that does not learn two classes, and the way in which it was made."""
    low, high = f"{found.low:.3g}", f"{found.high:.3g}"
    span = low if low == high else f"{low} to {high}"
    yield "estimate", f"{found.measure} {span} ({RUNS} runs), {found.open:.3g} without privacy"
    if found.alone is not None:
        pilot = "a plain model of the made-up records, which nobody has"
        yield "", f"{found.measure} {found.alone:.3g} by the pilot alone: {pilot}"
    yield from _noise(found.noise)
    size = file.mesh.slots.size
    yield from _how(file, found.like, found.rounds, rounds or file.mesh.rounds, found.rounds * size)


def _how(file: MeshFile, like: str | None, rounds: int, planned: int | None, records: int) -> Iterator[Fact]:
    features = "" if like is None else f" with the features of node {like}'s schema"
    yield "", f"made by runs on made-up records{features}; no promise: yours may be easier or harder"
    of = "" if planned in {None, rounds} else f" (the first of {planned:,})"
    learnt = f"{counted(rounds, 'round')}{of}, {counted(records, 'record')} a node"
    nodes = file.mesh.nodes
    differ = any(node.model_fields_set for node in nodes.values())
    shared = ", the shared privacy settings at every node" if differ else ""
    protected = protection(file.mesh.privacy, noisy_subject(file.mesh))
    yield "", f"{counted(len(nodes), 'node')}, {learnt}, {protected}{shared}"


def _noise(ratio: float | None) -> Iterator[Fact]:
    if ratio is not None:
        signal = "a slot's signal, the mean of the made-up records' clipped gradients at the start"
        yield "", f"noise is {ratio:.3g} times as long as {signal}"
