"""`mirrormesh up`: runs a whole mesh on this machine."""

import math
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streams.bus.bus import BusError
from streams.bus.provision import Differs
from streams.cli.command_line import CodeOption, MeshArgument, OtherDataOption, cautioned
from streams.mesh.errors import UsageError, naming, writable_folder
from streams.mesh.file import MeshFile, load_any
from streams.mesh.kind import dispatch
from streams.runtime.process import Stop
from streams.terminal.malformed import MALFORMED
from streams.tools.broker.java import BrokerError
from streams.tools.up.programs import Observing, Options, default_folder
from streams.tools.up.up import UpEnd, run_up

StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="The folder of journals, logs and a broker started here. With the same DIR the run continues, "
        "and a new run counts earlier spending. [default: mirrormesh-state/<mesh>]",
        show_default=False,
    ),
]
RateOption = Annotated[
    float | None,
    typer.Option(
        "--rate",
        metavar="R",
        help="With slots by count: feed each node R records a second. [default: full speed]",
    ),
]
ReplayOption = Annotated[
    bool,
    typer.Option(
        "--replay",
        help="With slots by time: slots begin now, and the times of all records move along. The own parts of "
        "all nodes must be here.",
    ),
]
NoFeedOption = Annotated[bool, typer.Option("--no-feed", help="Feed nobody.")]
MetricsOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-from",
        metavar="PORT",
        help="Serve metrics on this machine: the scheduler's on PORT, the shared and private ones of each "
        "process of nodes on the next two.",
    ),
]
ObserveOption = Annotated[
    bool,
    typer.Option(
        "--observe",
        help="Also run Prometheus with the alerts, and Grafana with the dashboards if it is installed. "
        "Metrics are served from port 9100 on, or from --metrics-from.",
    ),
]
PrometheusOption = Annotated[
    int, typer.Option("--prometheus-port", metavar="PORT", help="Prometheus's port.")
]
GrafanaOption = Annotated[int, typer.Option("--grafana-port", metavar="PORT", help="Grafana's port.")]
ProcessesOption = Annotated[
    int | None,
    typer.Option(
        "--processes",
        min=1,
        metavar="N",
        help="Run the nodes in N processes. [default: one each; of more than 8 nodes, one a processor]",
        show_default=False,
    ),
]
PlainOption = Annotated[bool, typer.Option("--plain", help="Lines, also on a terminal.")]

OBSERVED_FROM = 9100
"""The first port of metrics with --observe, by default."""


def up(
    mesh: MeshArgument,
    *,
    state: StateOption = None,
    other_data: OtherDataOption = False,
    rate: RateOption = None,
    no_feed: NoFeedOption = False,
    replay: ReplayOption = False,
    processes: ProcessesOption = None,
    metrics_from: MetricsOption = None,
    plain: PlainOption = False,
    observe: ObserveOption = False,
    prometheus_port: PrometheusOption = 9090,
    grafana_port: GrafanaOption = 3000,
    code: CodeOption = None,
) -> None:
    """Run a whole mesh on this machine, on Kafka.

    Starts a broker if none answers, creates topics, and runs scheduler, nodes and feeders, and `mirrormesh
    score` for each node whose own part has `score`. Each is a process of its own, restarted when it fails,
    and so is a broker that the command has started. Nodes whose own part is not here are run by their owners;
    a source without a path, or standard input, is fed by its owner; a topic of others by its producers. The
    command ends with the run or with Ctrl-C, and ends every process that it has started. If the command is
    killed, only its broker keeps running. The next start uses that broker, or you stop it with: mirrormesh
    broker stop --folder DIR/broker

    With --processes nodes share processes, which start sooner and need a fraction of the memory. A node that
    fails in a shared process starts again with that process, once the other nodes have ended.

    With --observe Prometheus scrapes the whole mesh, private endpoints too, as one party runs the whole mesh.
    Its data is kept in DIR/observe. After the run, Prometheus and Grafana stay until Ctrl-C.

    With slots by time records are fed at their own times, and --rate is refused. A run whose slots have all
    ended is refused. --replay runs such a run from now on. It writes to DIR/replay.yaml a mesh file whose
    slots start once all processes run, with the number of seconds by which every record's time is moved.
    This number is public.

    For a collaboration the command runs the learner, and the owners whose own part is here, until the last
    query is answered. --rate, --no-feed, --replay, --observe and --processes do not apply to it.

    If many of a node's records are malformed, whoever produced them, the last line gives their number and the
    reasons. If more than half are, the exit code is 3. A feeder that has failed and never finished is named
    on standard error, and the exit code is 1.

    \b
    Examples:
      mirrormesh up mesh.yaml
      mirrormesh up mesh.yaml --state state --rate 50 --metrics-from 9100
      mirrormesh up mesh.yaml --rate 5 --observe
      mirrormesh up mesh.yaml --processes 2
      mirrormesh up mesh.yaml --replay
    """  # noqa: D301 # \b is click's mark: no new line breaks
    if rate is not None and not 0 < rate < math.inf:
        raise UsageError(f"--rate is {rate:g}: must be a number above 0")
    file = cautioned(load_any(mesh, code=code or ()))
    observing = Observing(prometheus_port, grafana_port) if observe else None
    if observing is not None and metrics_from is None:
        metrics_from = OBSERVED_FROM
    folder = state or default_folder(file)
    options = Options(folder, rate, not no_feed, metrics_from, observing, replay, processes, other_data)
    dispatch("up", file, options, plain=plain)


def up_nodes(file: MeshFile, options: Options, *, plain: bool) -> None:
    """Run a mesh of nodes."""
    run_here(options, lambda console, stop: run_up(file, options, console, stop, plain=plain))


def run_here(options: Options, work: Callable[[Console, Stop], UpEnd]) -> None:
    """Do `work` until it ends; exit with the code."""
    writable_folder(options.state)
    end = UpEnd()
    with Stop() as stop:
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # the terminal closes; nohup ignores it
            signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
        try:
            with naming(options.state):  # where nothing nearer is named
                end = work(Console(highlight=False), stop)
        except Differs as error:
            _leave(*error.lines)
        except (BusError, BrokerError) as error:
            _leave(str(error))
    exit_code = stop.exit_code if stop.asked.is_set() else 0
    for failure in end.failures:
        typer.echo(failure, err=True)
    if end.mostly_malformed:
        exit_code = exit_code or MALFORMED
    if exit_code or end.failures:
        raise typer.Exit(exit_code or 1)


def _leave(*lines: str) -> None:
    for line in lines:
        typer.echo(line, err=True)
    raise typer.Exit(1)
