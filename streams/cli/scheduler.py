"""`mirrormesh scheduler`: plans the rounds of a mesh on its broker."""

from streams.cli.arguments import MeshArgument
from streams.cli.process_command import (
    LevelOption,
    LogFormat,
    LogLevel,
    LogOption,
    MetricsOption,
    address,
    live,
)
from streams.live.scheduler_process import LOGGER, run_scheduler
from streams.mesh.file import load


def scheduler(
    mesh: MeshArgument,
    *,
    metrics: MetricsOption = None,
    log: LogOption = LogFormat.TEXT,
    level: LevelOption = LogLevel.INFO,
) -> None:
    """Plan which edges are on in which round, ahead of the nodes. Any number may run: the first plan wins.

    It sees releases and heartbeats, never data. Killed and started again, it goes on. With slots by time a
    run whose slots have all ended before its first plan is refused.

    \b
    Example:
      mirrormesh scheduler mesh.yaml --metrics 9100
    """  # noqa: D301 # \b is click's mark: no new line breaks
    served = address("--metrics", metrics)
    live(LOGGER, lambda stop: run_scheduler(load(mesh), stop, served), log, level)
