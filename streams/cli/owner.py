"""`mirrormesh owner`: runs one owner of a collaboration on a broker."""

import logging
from typing import Annotated

import typer

from streams.cli.arguments import MeshArgument, OtherDataOption
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
from streams.collaboration.processes import OwnerProcess, PartyOptions
from streams.mesh.errors import writable_folder
from streams.mesh.file import load_collaboration
from streams.runtime.process import Stop


def owner(
    mesh: MeshArgument,
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME", help="The owners, as the mesh file names them.", show_default=False),
    ],
    *,
    state: StateOption,
    other_data: OtherDataOption = False,
    metrics: MetricsOption = None,
    private_metrics: PrivateMetricsOption = None,
    log: LogOption = LogFormat.TEXT,
    level: LevelOption = LogLevel.INFO,
) -> None:
    """Run a collaboration's owner: it answers queries about its set.

    Each answer is a mean gradient of its set with noise, and nothing else leaves. It answers each query once,
    as many as the mesh file says, and spends no more than its epsilon. It needs the topics (`mirrormesh
    provision`). After a crash it continues where its journal ends; without its journal it cannot go on.

    Several owners that reach the shared broker in the same way can share a process. Each has a journal of its
    own, and ends for itself.

    \b
    Examples:
      mirrormesh owner mesh.yaml bank-a --state /var/lib/mirrormesh
      mirrormesh owner mesh.yaml bank-a bank-b --state state
      mirrormesh owner mesh.yaml bank-a --state state --metrics 9101 --private-metrics 127.0.0.1:9201
    """  # noqa: D301 # \b is click's mark: no new line breaks
    options = PartyOptions(
        state,
        address("--metrics", metrics),
        address("--private-metrics", private_metrics),
        other_data=other_data,
    )

    def work(stop: Stop) -> None:
        process = OwnerProcess(load_collaboration(mesh), named_once(names), options)
        writable_folder(state)
        process.run(stop)

    # its start reads all of a set, however long that takes
    logger = f"mirrormesh.owner.{names[0]}" if len(names) == 1 else "mirrormesh.owners"
    live(logging.getLogger(logger), work, log, level, watched=False)
