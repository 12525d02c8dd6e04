"""Checks the ports that `up` takes on this machine, before anything is started: free, and each used once."""

import socket
from collections.abc import Iterator

from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile
from streams.tools.broker.launch import CONTROLLER
from streams.tools.up.brokers import named, startable
from streams.tools.up.observers import HERE, grafana
from streams.tools.up.programs import HIGHEST_PORT, Observing, Ports


def check(file: MeshFile, served: Ports | None, observing: Observing | None) -> None:
    """Raise UsageError for a port that is invalid, in use, or needed twice."""
    owners = dict(_of_brokers(file))
    for option, port in _asked_for(served, observing):
        if port in owners:
            raise UsageError(f"{option}: port {port} is taken by {owners[port]}: must be another")
        _free(option, port)
        owners[port] = option


def _of_brokers(file: MeshFile) -> Iterator[tuple[int, str]]:
    """Yield the ports of the brokers that could be started here."""
    for broker in named(file):
        port = startable(broker)
        if port is not None:
            yield port, f"the broker {broker.servers}"
            yield port + CONTROLLER, f"the controller of the broker {broker.servers}"


def _asked_for(served: Ports | None, observing: Observing | None) -> Iterator[tuple[str, int]]:
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
            raise UsageError(f"{option}: {HERE}:{port} cannot be had: {error.strerror}") from None
