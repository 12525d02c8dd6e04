"""`mirrormesh plan`: shows what a mesh would do and promise, without running it."""

import time
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console

from streams.cli.command_line import MeshArgument, RoundsOption
from streams.mesh.file import MeshFile, load_any
from streams.mesh.kind import serve
from streams.records.slot_feed import MOST_COUNTED
from streams.records.sources import record_count
from streams.terminal.plan_text import Fact, facts
from streams.terminal.report import say_facts
from streams.terminal.text import counted, protection
from streams.tools.tuning.forecasting import RUNS, Estimate, estimate

EstimateOption = Annotated[
    bool, typer.Option("--estimate", help="Also estimate what it would reach, from runs on made-up records.")
]


def plan(mesh: MeshArgument, *, rounds: RoundsOption = None, estimated: EstimateOption = False) -> None:
    """Show what a mesh would do, and what it promises to whom. Runs nothing, unless --estimate is given.

    Shows members, edges, how fast information spreads, mechanism and noise, the guarantee in words, the
    privacy spent after the rounds and what happens then, and bounds on the regret. Other parties' own parts
    of the mesh file are not needed.

    With --estimate the command also runs a mesh of the same nodes, schedule, slots, steps and mechanism in
    this process, on made-up records with simulated noise, and once more without privacy. The records have the
    features of the first local schema (its bounds and categories, no record), or else random features. Their
    labels follow a random direction, and one label in ten is wrong. The runs read no node's own records, and
    nothing is spent. The result is an estimate: your records may be easier or harder.

    \b
    Examples:
      mirrormesh plan mesh.yaml
      mirrormesh plan mesh.yaml --rounds 10000
      mirrormesh plan mesh.yaml --estimate
    """  # noqa: D301 # \b is click's mark: no new line breaks
    serve("plan", load_any(mesh), rounds, estimated=estimated)


def plan_nodes(file: MeshFile, rounds: int | None, *, estimated: bool) -> None:
    """Show what a mesh of nodes would do."""
    expected = estimate(file, rounds) if estimated else None
    console = Console(highlight=False)
    say_facts(
        console,
        [
            *facts(file, rounds, time.time()),
            *left_over(file, rounds),
            *(("warning", line) for line in file.resolved.cautions),
            *(() if expected is None else in_words(file, expected, rounds)),
        ],
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


def in_words(file: MeshFile, found: Estimate, rounds: int | None) -> Iterator[Fact]:
    """Yield the estimate in words, and the way in which it was made."""
    mesh, size = file.mesh, file.mesh.slots.size
    digits = ".2f" if found.measure == "AUC" else ".3g"
    low, high = f"{found.low:{digits}}", f"{found.high:{digits}}"
    span = low if low == high else f"{low} to {high}"
    yield "estimate", f"{found.measure} {span} ({RUNS} runs), {found.open:{digits}} without privacy"
    if found.alone is not None:
        pilot = "a plain model of the made-up records, which nobody has"
        yield "", f"{found.measure} {found.alone:{digits}} by the pilot alone: {pilot}"
    if found.is_a_guess:
        yield (
            "",
            "no better than guessing in a run at least: use more records, larger slots, a larger epsilon",
        )
    if found.noise is not None:
        signal = "a slot's signal, the mean of the made-up records' clipped gradients at the start"
        yield "", f"noise is {found.noise:.3g} times as long as {signal}"
    like = "" if found.like is None else f" with the features of node {found.like}'s schema"
    yield "", f"made by runs on made-up records{like}; no promise: yours may be easier or harder"
    planned = rounds or mesh.rounds
    of = "" if planned in {None, found.rounds} else f" (the first of {planned:,})"
    learnt = f"{counted(found.rounds, 'round')}{of}, {counted(found.rounds * size, 'record')} a node"
    differ = any(node.model_fields_set for node in mesh.nodes.values())
    shared = ", the shared privacy settings at every node" if differ else ""
    yield "", f"{counted(len(mesh.nodes), 'node')}, {learnt}, {protection(mesh.privacy)}{shared}"
