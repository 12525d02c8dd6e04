"""Shared by the commands that run a process on a broker: options, log, exit codes."""

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from streams.bus.bus import BusError
from streams.bus.preflight import PreflightFailed
from streams.live.log import start_logging
from streams.mesh.errors import UsageError
from streams.mesh.settings.base import Address
from streams.mesh.settings.base import address as parsed
from streams.metrics.endpoint import NotServed
from streams.runtime.process import BEGINS_AGAIN, ProcessExit, ProcessStopped, StartWatch, Stop
from streams.state.folder import JournalError
from streams.state.journal_file import JournalLocked


class LogFormat(StrEnum):
    """The format of a log line."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The level of detail of the log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogOption = Annotated[LogFormat, typer.Option("--log", help="The format of log lines.")]
LevelOption = Annotated[LogLevel, typer.Option("--log-level", help="The lowest level in the log.")]
PAUSE = 0.5
"""Seconds before a process begins again."""
StateOption = Annotated[
    Path, typer.Option("--state", metavar="DIR", help="The folder of the journal.", show_default=False)
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics", metavar="[ADDRESS:]PORT", help="Serve the shared metrics there (127.0.0.1 unless given)."
    ),
]
PrivateMetricsOption = Annotated[
    str | None,
    typer.Option(
        "--private-metrics",
        metavar="[ADDRESS:]PORT",
        help="Serve the private metrics there: they reveal something of the data.",
    ),
]


def existing(state: Path) -> Path:
    """Return a state folder. Raises UsageError if it is none."""
    if not state.is_dir():
        raise UsageError(f"--state {state}: is no folder: must be the folder of the journal")
    return state


def address(option: str, text: str | None) -> Address | None:
    """Return the (address, port) in `text`; None for None. Raises UsageError."""
    try:
        return None if text is None else parsed(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from None


def live(
    log: logging.Logger,
    work: Callable[[Stop], None],
    form: LogFormat,
    level: LogLevel,
    *,
    watched: bool = True,
) -> None:
    """Do `work` until it ends, or until asked to stop; then exit with the code.

    Where a log was cut under it, or a client has failed, it begins again. `watched`: end at once if its
    start hangs.
    """
    start_logging(json=form is LogFormat.JSON, level=level.value)
    with Stop() as stop:
        try:
            while _begins_again(work, stop, log, watched=watched):
                stop.asked.wait(PAUSE)
        except ProcessStopped:
            log.info("stopped, as asked")
        except ProcessExit as ended:
            log.log(logging.ERROR if ended.exit_code else logging.INFO, "%s", ended.reason)
            raise typer.Exit(ended.exit_code) from None
        except PreflightFailed as failed:
            for line in failed.lines:
                log.error("%s", line)  # noqa: TRY400 # a line for the operator, not a traceback
            raise typer.Exit(1) from None
        except JournalLocked:
            raise  # a mistake in the input
        except (BusError, NotServed, JournalError) as error:
            log.error("%s", error)  # noqa: TRY400 # as above
            raise typer.Exit(1) from None
    raise typer.Exit(stop.exit_code)


def _begins_again(work: Callable[[Stop], None], stop: Stop, log: logging.Logger, *, watched: bool) -> bool:
    """Do `work`; return whether it has ended by what beginning again mends."""
    with StartWatch(stop, log) if watched else nullcontext():
        try:
            work(stop)
        except BEGINS_AGAIN as failed:
            if stop.asked.is_set():
                raise
            log.warning("%s: begins again", str(failed))  # a kind is a text
            stop.forget()
            return True
    return False


def named_once(names: Sequence[str]) -> Sequence[str]:
    """Return the names of those that share a process. Raises UsageError for one that is given twice."""
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise UsageError(f"{repeated}: is given twice")
    return names
