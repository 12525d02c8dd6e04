"""Ensures that a mesh file's brokers answer: starts missing ones that belong on this machine."""

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

from streams.bus.bus import Unreachable
from streams.bus.logs import reach
from streams.mesh.file import AnyFile
from streams.mesh.settings.brokers import BrokerSettings
from streams.runtime.process import Interruptible, Stop
from streams.state.folder import StateFolder
from streams.tools.broker import broker as development
from streams.tools.broker.folder import CONTROLLER
from streams.tools.broker.java import BrokerError
from streams.tools.up.children import Backoff

Fact = Callable[[str, str], None]
"""Prints a fact by name."""
_HERE = {"127.0.0.1", "localhost"}
_HIGHEST_PORT = 65_535 - CONTROLLER


class StartedBroker:
    """A development broker of this mesh; it is started again when it dies."""

    def __init__(self, folder: Path, port: int, fact: Fact) -> None:
        self._folder, self._port, self._fact = folder, port, fact
        self._start: Thread | None = None
        self._failed = ""
        self._backoff, self._began, self._due = Backoff(), time.monotonic(), 0.0

    def look(self) -> None:
        """Start it again if it has died. The start takes seconds, in a thread of its own."""
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
        """Start it no more; wait for a start under way."""
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
    """Ensure that every broker of the mesh file answers; `closing` stops those started for this mesh.

    Returns those to be kept running. Raises MeshFileError if none is named, Denied, Unreachable, BrokerError,
    Stopped.
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
    """Return the port for a development broker that fits the settings; None if none can."""
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
    """Start the broker if nobody listens; return what was done, in words, and whether it is this mesh's."""
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
