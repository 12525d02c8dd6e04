"""Serves a process's metrics and probes on its own thread: /metrics, /livez, /readyz."""

import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from socketserver import ThreadingMixIn
from threading import BoundedSemaphore, Lock, Thread
from types import TracebackType
from typing import Any, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app

from streams.metrics.registry import PrivateRegistry, SharedRegistry

MOST = 16
"""The largest number of connections at once. Prometheus and probes need one each."""
STARTING = "starting: the process waits for what it needs"


class NotServed(Exception):
    """The metrics cannot be served at this address."""


class _Server(ThreadingMixIn, WSGIServer):
    """Answers each connection in a thread, `MOST` at a time; one more connection ends the oldest.

    Without this limit a client could occupy a thread, and its memory, for each of any number of connections.
    The oldest connection ends, as a probe is answered at once: so no client can keep probes out by open
    connections.
    """

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self._free, self._lock = BoundedSemaphore(MOST), Lock()
        self._connections: list[socket.socket] = []
        super().__init__(*arguments)

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 # as the base calls it
        """Reserve a thread for the connection; return whether one was free."""
        if not self._free.acquire(blocking=False):
            with self._lock, suppress(OSError, IndexError):  # the connection may have ended already
                self._connections[0].shutdown(socket.SHUT_RDWR)  # its thread reads the end, and frees itself
            if not self._free.acquire(timeout=1.0):
                return False
        with self._lock:
            self._connections.append(request)
        return True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and free the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._connections.remove(request)
            self._free.release()


class _Handler(WSGIRequestHandler):
    timeout = 30  # seconds until a request must have come

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 # the library's name
        """Log nothing: scrapes are too frequent."""


class Endpoint:
    """Serves until it is closed. Raises NotServed if the port is taken, or the address is not this machine's.

    Until `show` is called, the process counts as alive and not ready. Neither depends on data.
    """

    def __init__(self, address: str, port: int) -> None:
        self._collected = CollectorRegistry()
        self._missing: Callable[[], str | None] = lambda: STARTING
        self._stalled: Callable[[], str | None] = lambda: None
        self._noted: Callable[[], str | None] = lambda: None
        server = (
            type("_Server6", (_Server,), {"address_family": socket.AF_INET6}) if ":" in address else _Server
        )
        try:
            self._server = server((address, port), _Handler)
        except (OSError, OverflowError) as error:  # OverflowError: there is no such port
            reason = error.strerror if isinstance(error, OSError) else "a port is from 0 to 65535"
            raise NotServed(f"metrics cannot be served on {address}:{port}: {reason}") from None
        self._server.set_app(self._answer)
        self._thread = Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def show(
        self,
        registry: SharedRegistry | PrivateRegistry,
        missing: Callable[[], str | None],
        stalled: Callable[[], str | None] = lambda: None,
        noted: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Show a registry. The functions return a reason, or None.

        `missing`: what the process still waits for. `stalled`: which part of it makes no progress. `noted`: a
        note that /readyz adds, ready or not.
        """
        self._collected, self._missing, self._stalled = registry.collected, missing, stalled
        self._noted = noted

    def close(self) -> None:
        """Stop serving and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        match environ.get("PATH_INFO"):
            case "/livez":
                status, text = _probed("alive", self._stalled())
            case "/readyz":
                status, text = _probed("ready", self._missing())
                text = "\n".join(filter(None, [text, self._noted()]))
            case "/metrics" | "/":
                response: Iterable[bytes] = make_wsgi_app(self._collected)(environ, start_response)
                return response
            case _:
                status, text = "404 Not Found", "must be /metrics, /livez or /readyz"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{text}\n".encode()]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _probed(well: str, reason: str | None) -> tuple[str, str]:
    """Return the status and text of a probe; `reason` None: the probe succeeds."""
    return ("200 OK", well) if reason is None else ("503 Service Unavailable", reason)
