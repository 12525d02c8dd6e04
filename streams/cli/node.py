"""`mirrormesh node`: runs one or more nodes of a party on a broker, in one process."""

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Literal

import typer

from streams.cli.arguments import CodeOption, MeshArgument, OtherDataOption
from streams.cli.process_command import (
    LevelOption,
    LogFormat,
    LogLevel,
    LogOption,
    MetricsOption,
    PrivateMetricsOption,
    StateOption,
    address,
    live,
    named_once,
)
from streams.live.node_process import NodeProcess, logger
from streams.live.spend import NodeOptions
from streams.mesh.errors import UsageError, writable_folder
from streams.mesh.file import MeshFile, load
from streams.runtime.process import Stop

NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="The nodes, as the mesh file names them.", show_default=False),
]
AllOption = Annotated[bool, typer.Option("--all", help="All nodes whose own part is here.")]
ShareOption = Annotated[
    str | None,
    typer.Option(
        "--share", metavar="K/N", help="The K-th of N equal shares of the nodes whose own part is here."
    ),
]


def node(
    mesh: MeshArgument,
    names: NamesArgument = None,
    *,
    all_here: AllOption = False,
    share: ShareOption = None,
    state: StateOption,
    spent: Annotated[
        int | None,
        typer.Option(
            "--spent", min=0, metavar="N", help="Rounds charged by other runs that are not recorded anywhere."
        ),
    ] = None,
    begin: Annotated[
        Literal["end"] | None,
        typer.Option("--from", help="A new journal skips the records that are already there."),
    ] = None,
    data_reused: Annotated[
        bool, typer.Option("--data-reused", help="A new journal may read records that --spent was spent on.")
    ] = False,
    other_data: OtherDataOption = False,
    no_decisions: Annotated[
        bool, typer.Option("--no-decisions", help="Do not write decisions to the data broker.")
    ] = False,
    metrics: MetricsOption = None,
    private_metrics: PrivateMetricsOption = None,
    web: Annotated[
        str | None, typer.Option("--web", metavar="[ADDRESS:]PORT", help="Serve Faust's own pages there.")
    ] = None,
    code: CodeOption = None,
    log: LogOption = LogFormat.TEXT,
    level: LevelOption = LogLevel.INFO,
) -> None:
    """Run nodes: each on its own data topic, with its neighbours.

    It never shows its records. It needs the topics (`mirrormesh provision`) and plans (`mirrormesh
    scheduler`). After a crash it continues where its journal ends. SIGTERM ends it in order.

    Several nodes of a party cost far less in one process than in one each: they share connections, loop and
    endpoints, so they need the same brokers and users. Each has its own journal and lock. A node that has
    ended, failed or cannot start leaves the others alone; the process ends with the last one, with 1 if one
    has failed. A lock and a topic that is missing are waited for meanwhile; then all nodes begin again.
    What the broker's connections or a bug end, ends all. Options apply to each node.

    \b
    Examples:
      mirrormesh node mesh.yaml east --state /var/lib/mirrormesh
      mirrormesh node mesh.yaml east --state state --metrics 9101 --private-metrics 127.0.0.1:9201
      mirrormesh node mesh.yaml east west --state state
      mirrormesh node mesh.yaml --share 2/4 --state state
    """  # noqa: D301 # \b is click's mark: no new line breaks
    if begin is not None and data_reused:
        raise UsageError("--from end reads nothing again: must not be given with --data-reused")
    options = NodeOptions(
        state,
        spent,
        "end" if begin else "reused" if data_reused else None,
        other_data=other_data,
        decisions=not no_decisions,
        metrics=address("--metrics", metrics),
        private_metrics=address("--private-metrics", private_metrics),
        web=address("--web", web),
    )

    file = load(mesh, code=code or ())
    chosen = nodes_of(file, names or [], all_here=all_here, share=share)
    file.make_code(chosen)

    @cache
    def process() -> NodeProcess:
        return NodeProcess(file, chosen, options)  # one, which knows which nodes have failed for good

    def work(stop: Stop) -> None:
        process()
        writable_folder(state)
        process().run(stop)

    live(logger(chosen), work, log, level)


def nodes_of(file: MeshFile, names: Sequence[str], *, all_here: bool, share: str | None) -> tuple[str, ...]:
    """Return the nodes that the operator has chosen. Raises UsageError, MeshFileError for an unknown name."""
    options = [
        option for option, value in [("NAME", names), ("--all", all_here), ("--share", share)] if value
    ]
    if len(options) != 1:
        mistake = "none is given" if not options else f"{' and '.join(options)} are given"
        raise UsageError(f"the nodes: {mistake}: must be NAME, --all or --share K/N")
    for name in named_once(names):
        file.own(name)
    if names:
        return tuple(names)
    nodes_here = tuple(file.nodes)
    if not nodes_here:
        raise file.refuse(("nodes",), "missing: the own part of one node at least must be here")
    return nodes_here if share is None else part(nodes_here, share)


def part(names: Sequence[str], share: str) -> tuple[str, ...]:
    """Return the share `K/N` of the names, in their order. Raises UsageError."""
    k, slash, n = share.partition("/")
    most = len(names)
    numbers = [text for text in (k, n) if text.isdecimal() and len(text) <= len(str(most))]
    if not (slash and len(numbers) == 2 and 0 < int(k) <= int(n) <= most):
        raise UsageError(
            f"--share is {share!r}: must be K/N, with K from 1 to N and N at most {most}, the nodes here"
        )
    first, end = ((int(k) - back) * most // int(n) for back in (1, 0))
    return tuple(names[first:end])
