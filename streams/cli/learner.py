"""`mirrormesh learner`: runs the learner of a collaboration on a broker."""

import logging

from streams.cli.arguments import MeshArgument
from streams.cli.process_command import (
    LevelOption,
    LogFormat,
    LogLevel,
    LogOption,
    MetricsOption,
    StateOption,
    address,
    live,
)
from streams.collaboration.processes import LearnerProcess, PartyOptions
from streams.mesh.errors import writable_folder
from streams.mesh.file import load_collaboration
from streams.runtime.process import Stop


def learner(
    mesh: MeshArgument,
    *,
    state: StateOption,
    metrics: MetricsOption = None,
    log: LogOption = LogFormat.TEXT,
    level: LevelOption = LogLevel.INFO,
) -> None:
    """Run a collaboration's learner: it asks the owners, and learns.

    It sees no record. Owners that do not answer in time are left out of a query, and named in the log. After
    a crash it continues where its journal ends. It ends after the last query.

    \b
    Example:
      mirrormesh learner mesh.yaml --state state --metrics 9100
    """  # noqa: D301 # \b is click's mark: no new line breaks
    options = PartyOptions(state, address("--metrics", metrics))

    def work(stop: Stop) -> None:
        process = LearnerProcess(load_collaboration(mesh), options)
        writable_folder(state)
        process.run(stop)

    live(logging.getLogger("mirrormesh.learner"), work, log, level)
