"""`mirrormesh node`: runs one node on a broker."""

import logging
from typing import Annotated, Literal

import typer

from streams.cli.arguments import MeshArgument
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
)
from streams.live.node_process import NodeProcess
from streams.live.spend import NodeOptions
from streams.live.stopping import Stop
from streams.mesh.errors import UsageError, writable_folder
from streams.mesh.file import load

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The node, as the mesh file names it.", show_default=False)
]


def node(
    mesh: MeshArgument,
    name: NameArgument,
    *,
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
    no_decisions: Annotated[
        bool, typer.Option("--no-decisions", help="Do not write decisions to the data broker.")
    ] = False,
    metrics: MetricsOption = None,
    private_metrics: PrivateMetricsOption = None,
    web: Annotated[
        str | None, typer.Option("--web", metavar="[ADDRESS:]PORT", help="Serve Faust's own pages there.")
    ] = None,
    log: LogOption = LogFormat.TEXT,
    level: LevelOption = LogLevel.INFO,
) -> None:
    """Run one node: on its own data topic, with its neighbours.

    It never shows its records. It needs the topics (`mirrormesh provision`) and plans (`mirrormesh
    scheduler`). After a crash it continues where its journal ends. SIGTERM ends it in order.

    \b
    Examples:
      mirrormesh node mesh.yaml east --state /var/lib/mirrormesh
      mirrormesh node mesh.yaml east --state state --metrics 9101 --private-metrics 127.0.0.1:9201
    """  # noqa: D301 # \b is click's mark: no new line breaks
    if begin is not None and data_reused:
        raise UsageError("--from end reads nothing again: must not be given with --data-reused")
    options = NodeOptions(
        state,
        spent,
        "end" if begin else "reused" if data_reused else None,
        decisions=not no_decisions,
        metrics=address("--metrics", metrics),
        private_metrics=address("--private-metrics", private_metrics),
        web=address("--web", web),
    )

    def work(stop: Stop) -> None:
        process = NodeProcess(load(mesh), name, options)
        writable_folder(state)
        process.run(stop)

    live(logging.getLogger(f"mirrormesh.node.{name}"), work, log, level)
