"""The brokers that a mesh file names: used where they answer, else started, where they are to be here."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from streams.broker import broker as development
from streams.broker.launch import CONTROLLER
from streams.feed.waiting import Waiting
from streams.kafka.errors import Unreachable
from streams.kafka.reach import reach
from streams.live.stopping import Stop
from streams.mesh_file.file import MeshFile
from streams.mesh_file.settings.node import BrokerSettings

Fact = Callable[[str, str], None]
"""Says something by name."""
_HERE = {"127.0.0.1", "localhost"}
_HIGHEST_PORT = 65_535 - CONTROLLER


def ensure_brokers(file: MeshFile, state: Path, stop: Stop, fact: Fact, closing: ExitStack) -> None:
    """See that every broker of the mesh file answers; `closing` stops those that were started for this mesh.

    Raises MeshFileError where none is named, Denied, Unreachable, BrokerError, Stopped.
    """
    for broker, folder in _named(file, state):
        port = startable(broker)
        if port is None:
            _reach_elsewhere(broker)
            how = "used"
        else:
            how = _started(port, folder, stop, fact, closing)
            reach(broker)
        fact("broker", f"{broker.servers}: {how}")


def startable(broker: BrokerSettings) -> int | None:
    """Return the port at which a development broker can be what is named; None where it cannot."""
    host, _, port = broker.servers.strip().rpartition(":")
    if host not in _HERE or broker.username is not None or not port.isdecimal():
        return None
    return int(port) if 0 < int(port) <= _HIGHEST_PORT else None


def _named(file: MeshFile, state: Path) -> Iterator[tuple[BrokerSettings, Path]]:
    """Yield every broker once, with the folder that it has if it is started here."""
    yield file.mesh_broker, state / "broker"
    seen = {file.mesh_broker}
    for name in file.nodes:
        brokers = file.brokers(name)
        for broker in (brokers.mesh, brokers.data):
            if broker not in seen:
                seen.add(broker)
                yield broker, state / f"broker-{startable(broker)}"


def _reach_elsewhere(broker: BrokerSettings) -> None:
    try:
        reach(broker)
    except Unreachable as error:
        here = "one without password at 127.0.0.1:PORT"
        raise Unreachable(f"{error}, and it cannot be started here: only {here} can") from None


def _started(port: int, folder: Path, stop: Stop, fact: Fact, closing: ExitStack) -> str:
    """Start the broker where nobody listens; return what was done."""
    ours = development.status(folder)
    running = ours is not None and ours.running and ours.port == port
    if not running and _listens(port):
        return "used"
    closing.callback(_stop, folder, fact)
    if running:
        return f"found running in {folder}, and stopped at the end"
    fact("broker", "starting one")
    with Waiting(stop):
        development.start(folder, port, say=lambda line: fact("broker", line))
    return f"started in {folder}, and stopped at the end"


def _stop(folder: Path, fact: Fact) -> None:
    if development.stop(folder):
        fact("broker", f"stopped; for what it holds: mirrormesh broker start --folder {folder}")


def _listens(port: int) -> bool:
    with socket.socket() as looking:
        return looking.connect_ex(("127.0.0.1", port)) == 0
