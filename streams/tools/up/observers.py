"""Runs Prometheus and Grafana for a mesh on this machine: programs, configuration, free ports."""

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import yaml

from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile
from streams.mesh.shipped import packed
from streams.runtime.process import Stop
from streams.state.folder import StateFolder
from streams.tools.broker.folder import CONTROLLER
from streams.tools.up.become import WORD
from streams.tools.up.brokers import Fact, startable
from streams.tools.up.children import Child, Say, end_all
from streams.tools.up.programs import HIGHEST_PORT, MetricsPorts, Observing, Program

HERE = "127.0.0.1"
SCRAPE = "2s"
"""The scrape interval; a rate needs a few of them."""
RULES = ("rules.yaml", "rules-owner.yaml")
"""The alerts for everyone, and those of a node's owner."""
_HOMES = (Path("/usr/share/grafana"), Path("/usr/local/share/grafana"))


def check() -> None:
    """Raise UsageError if Prometheus is missing. Call it before anything is started."""
    if shutil.which("prometheus") is None:
        raise UsageError(
            "--observe: no prometheus on the PATH: install the package prometheus (Debian, Ubuntu)"
        )


def grafana() -> tuple[str, ...] | None:
    """Return the command that starts Grafana; None if it, or its own files, are not found."""
    for name, words in (("grafana", ("server",)), ("grafana-server", ())):
        program = shutil.which(name)
        if program is not None:
            beside = Path(program).resolve().parent.parent
            for home in (beside, *_HOMES):
                if (home / "conf" / "defaults.ini").is_file():
                    return (program, *words, "--homepath", str(home))
    return None


def prometheus_program(observing: Observing, served: MetricsPorts, folder: Path) -> Program:
    """Write Prometheus's configuration into the folder; return the program, which keeps its data there."""
    of_nodes = [f"{HERE}:{port}" for ports in (served.shared, served.private) for port in ports.values()]
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
                "static_configs": [{"targets": [f"{HERE}:{served.scheduler}", *of_nodes]}],
            }
        ],
    }
    path = folder / "prometheus.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False), "utf-8")
    words = (
        f"--config.file={path}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address={HERE}:{observing.prometheus}",
    )
    return Program("prometheus", (WORD, "prometheus", *words))


def grafana_program(observing: Observing, command: tuple[str, ...], folder: Path) -> Program:
    """Return Grafana with our data source and dashboards, open to anyone on this machine."""
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
    """Their processes. Nothing runs before the first `look`."""

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
        """Run on until asked to stop."""
        while not stop.asked.wait(period):
            self.look()

    def end(self) -> None:
        """End all processes: Grafana, which asks, before Prometheus."""
        for child in reversed(self._children):
            end_all((child,))


def check_ports(file: MeshFile, served: MetricsPorts | None, observing: Observing | None) -> None:
    """Raise UsageError for a port that is invalid, in use, or needed twice."""
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
        for port in (served.scheduler, *served.shared.values(), *served.private.values()):
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
        )  # as servers do: a port just released is free
        try:
            trying.bind((HERE, port))
        except OSError as error:
            raise UsageError(f"{option}: {HERE}:{port} is not available: {error.strerror}") from None
