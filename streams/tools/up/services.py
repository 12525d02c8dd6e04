"""The services beside a mesh on this machine: development brokers, Prometheus and Grafana."""

import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import yaml

from streams.bus.bus import Unreachable
from streams.bus.logs import reach
from streams.mesh.errors import UsageError, check_output, naming
from streams.mesh.file import AnyFile, MeshFile
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.shipped import packed
from streams.runtime.process import Interruptible, Stop
from streams.state.folder import StateFolder
from streams.tools.broker import broker as development
from streams.tools.broker.folder import CONTROLLER
from streams.tools.broker.java import BrokerError
from streams.tools.up.become import WORD
from streams.tools.up.children import Backoff, Child, Say, end_all
from streams.tools.up.programs import HIGHEST_PORT, MetricsPorts, Observing, Program

Fact = Callable[[str, str], None]
"""A function that prints a fact by name."""
_HERE = {"127.0.0.1", "localhost"}
_HIGHEST_PORT = 65_535 - CONTROLLER


class StartedBroker:
    """A development broker of this mesh. It is started again if it dies."""

    def __init__(self, folder: Path, port: int, fact: Fact) -> None:
        self._folder, self._port, self._fact = folder, port, fact
        self._start: Thread | None = None
        self._failed = ""
        self._backoff, self._began, self._due = Backoff(), time.monotonic(), 0.0

    def look(self) -> None:
        """Start the broker again if it has died. A start takes seconds, so a thread of its own does it."""
        if self._start is not None:
            if self._start.is_alive():
                return
            self._start = None
            self._fact("broker", self._failed or f"127.0.0.1:{self._port} runs again")
        now = time.monotonic()
        status = development.status(self._folder)
        if now < self._due or (status is not None and status.running):
            return
        self._due = now + self._backoff.after(now - self._began)
        self._began, self._failed = now, ""
        self._fact("broker", f"127.0.0.1:{self._port} has died, and is started again")
        self._start = Thread(target=self._try, name="broker")
        self._start.start()

    def end(self) -> None:
        """Let the broker not be started again, and wait for a start that is being made."""
        if self._start is not None:
            self._start.join()

    def _try(self) -> None:
        try:
            development.start(self._folder, self._port)
        except (BrokerError, OSError) as error:
            self._failed = str(error).splitlines()[0]


def ensure_brokers(
    file: AnyFile, state: Path, stop: Stop, fact: Fact, closing: ExitStack
) -> list[StartedBroker]:
    """Ensure that every broker of the mesh file answers. `closing` stops those that are started for this
    mesh.

    Returns the brokers to keep running. Raises MeshFileError if the file names none, Denied, Unreachable,
    BrokerError, Stopped.
    """
    started: list[StartedBroker] = []
    for broker in file.named_brokers:
        port = startable(broker)
        folder = StateFolder(state).broker(None if broker == file.mesh_broker else port)
        if port is None:
            _reach_elsewhere(broker)
            state_text = "used"
        else:
            state_text, is_started = _started(port, folder, stop, fact, closing)
            reach(broker)
            if is_started:
                started.append(StartedBroker(folder, port, fact))
                closing.callback(started[-1].end)
        fact("broker", f"{broker.servers}: {state_text}")
    return started


def startable(broker: BrokerSettings) -> int | None:
    """Return the port for a development broker that fits the settings; None if no development
    broker can fit.
    """
    host, _, port = broker.servers.strip().rpartition(":")
    if host not in _HERE or broker.protocol != "PLAINTEXT" or not port.isdecimal():
        return None
    return int(port) if 0 < int(port) <= _HIGHEST_PORT else None


def _reach_elsewhere(broker: BrokerSettings) -> None:
    try:
        reach(broker)
    except Unreachable as error:
        startable = "one without password at 127.0.0.1:PORT"
        raise Unreachable(f"{error}, and it cannot be started here: only {startable} can") from None


def _started(port: int, folder: Path, stop: Stop, fact: Fact, closing: ExitStack) -> tuple[str, bool]:
    """Start the broker if no server listens.

    Return what was done, in words, and whether the broker is this mesh's.
    """
    status = development.status(folder)
    running = status is not None and status.running and status.port == port
    if not running and _listens(port):
        return "used", False
    closing.callback(_stop, folder, fact)
    if running:
        return f"found running in {folder}, and stopped at the end", True
    fact("broker", "starting one")
    with Interruptible(stop):
        development.start(folder, port, say=lambda line: fact("broker", line))
    return f"started in {folder}, and stopped at the end", True


def _stop(folder: Path, fact: Fact) -> None:
    if development.stop(folder):
        fact("broker", f"stopped; for what it holds: mirrormesh broker start --folder {folder}")


def _listens(port: int) -> bool:
    with socket.socket() as looking:
        return looking.connect_ex(("127.0.0.1", port)) == 0


# Runs Prometheus and Grafana for a mesh on this machine: programs, configuration, free ports.

HERE = "127.0.0.1"
SCRAPE = "2s"
"""The scrape interval. A rate needs several of them."""
RULES = ("rules.yaml", "rules-owner.yaml")
"""The files of alerts: those for all parties, and those for a node's owner."""
_HOMES = (Path("/usr/share/grafana"), Path("/usr/local/share/grafana"))


def check() -> None:
    """Raise UsageError if Prometheus is missing. It must be called before anything is started."""
    if shutil.which("prometheus") is None:
        raise UsageError(
            "--observe: no prometheus on the PATH: install the package prometheus (Debian, Ubuntu)"
        )


def grafana() -> tuple[str, ...] | None:
    """Return the command that starts Grafana; None if the command or Grafana's files are not found."""
    for name, words in (("grafana", ("server",)), ("grafana-server", ())):
        program = shutil.which(name)
        if program is not None:
            beside = Path(program).resolve().parent.parent
            for home in (beside, *_HOMES):
                if (home / "conf" / "defaults.ini").is_file():
                    return (program, *words, "--homepath", str(home))
    return None


def prometheus_program(observing: Observing, served: MetricsPorts, folder: Path) -> Program:
    """Write Prometheus's configuration into the folder, where it also keeps its data. Return the program."""
    packed_folder = packed("deploy_prometheus", "deploy/prometheus")
    settings = {
        "global": {
            "scrape_interval": SCRAPE,
            "evaluation_interval": SCRAPE,
            "external_labels": {"runbooks": (packed_folder / "runbooks.md").as_uri()},
        },
        "rule_files": [str(packed_folder / name) for name in RULES],
        "scrape_configs": [
            {
                "job_name": "mirrormesh",
                "static_configs": [{"targets": [f"{HERE}:{port}" for port in served.all]}],
            }
        ],
    }
    path = folder / "prometheus.yaml"
    check_output(path)
    with naming(path):
        path.write_text(yaml.safe_dump(settings, sort_keys=False), "utf-8")
    words = (
        f"--config.file={path}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address={HERE}:{observing.prometheus}",
    )
    return Program("prometheus", (WORD, "prometheus", *words))


def grafana_program(observing: Observing, command: tuple[str, ...], folder: Path) -> Program:
    """Return Grafana with our data source and dashboards. Anyone on this machine can open them."""
    settings = {
        "GF_SERVER_HTTP_ADDR": HERE,
        "GF_SERVER_HTTP_PORT": observing.grafana,
        "GF_PATHS_DATA": folder / "grafana",
        "GF_PATHS_LOGS": folder / "grafana",
        "GF_PATHS_PLUGINS": folder / "grafana",
        "GF_PATHS_PROVISIONING": packed("grafana/provisioning", "grafana/provisioning"),
        "GF_AUTH_ANONYMOUS_ENABLED": "true",
        "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
        "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
        "MIRRORMESH_DASHBOARDS": packed("grafana/dashboards", "grafana/dashboards"),
        "PROMETHEUS_URL": f"http://{HERE}:{observing.prometheus}",
        "SCRAPE_INTERVAL": SCRAPE,
    }
    words = (f"{name}={value}" for name, value in settings.items())
    return Program("grafana", (WORD, "env", *words, *command))


class Observers:
    """The processes of Prometheus and Grafana. Nothing runs before the first `look`."""

    def __init__(self, observing: Observing, served: MetricsPorts, state: Path, say: Say) -> None:
        state_folder = StateFolder(state)
        folder = state_folder.observe.resolve()
        for path in (folder, state_folder.logs):
            path.mkdir(exist_ok=True)
        self._observing, command = observing, grafana()
        programs = [prometheus_program(observing, served, folder)]
        if command is not None:
            programs.append(grafana_program(observing, command, folder))
        self._children = tuple(Child(program, state_folder.log(program.label), say) for program in programs)

    def introduce(self, fact: Fact) -> None:
        """Print the addresses of the dashboards and metrics."""
        fact("prometheus", f"http://{HERE}:{self._observing.prometheus}; alerts at /alerts")
        if len(self._children) > 1:
            fact("grafana", f"http://{HERE}:{self._observing.grafana}/dashboards")
        else:
            fact(
                "grafana",
                "not on the PATH, so there is none: install it, or see deploy/compose.observe.yaml",
            )

    def look(self) -> None:
        """Start the processes that are due."""
        for child in self._children:
            child.look()

    def stay(self, stop: Stop, period: float) -> None:
        """Keep the processes running until asked to stop."""
        while not stop.asked.wait(period):
            self.look()

    def end(self) -> None:
        """End all processes. Grafana, which asks Prometheus, ends first."""
        for child in reversed(self._children):
            end_all((child,))


def check_ports(file: MeshFile, served: MetricsPorts | None, observing: Observing | None) -> None:
    """Raise UsageError for a port that is invalid, in use, or given twice."""
    owners = dict(_of_brokers(file))
    for option, port in _asked_for(served, observing):
        if port in owners:
            raise UsageError(f"{option}: port {port} is taken by {owners[port]}: must be another")
        _free(option, port)
        owners[port] = option


def _of_brokers(file: MeshFile) -> Iterator[tuple[int, str]]:
    """Yield the ports of the brokers that could be started here."""
    for broker in file.named_brokers:
        port = startable(broker)
        if port is not None:
            yield port, f"the broker {broker.servers}"
            yield port + CONTROLLER, f"the controller of the broker {broker.servers}"


def _asked_for(served: MetricsPorts | None, observing: Observing | None) -> Iterator[tuple[str, int]]:
    if served is not None:
        for port in served.all:
            yield "--metrics-from", port
    if observing is not None:
        yield "--prometheus-port", observing.prometheus
        if grafana() is not None:
            yield "--grafana-port", observing.grafana


def _free(option: str, port: int) -> None:
    if not 0 < port <= HIGHEST_PORT:
        raise UsageError(f"{option} {port}: must be from 1 to {HIGHEST_PORT}")
    with socket.socket() as trying:
        trying.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as servers do: a port that was just released is free
        try:
            trying.bind((HERE, port))
        except OSError as error:
            raise UsageError(f"{option}: {HERE}:{port} is not available: {error.strerror}") from None
