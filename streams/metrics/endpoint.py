"""Serves a process's metrics (/metrics) and probes (/livez, /readyz) from a separate thread."""

import socket
import time
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
    """Answers each connection in a thread, `MOST` at a time. A further connection ends the oldest one.

    Without this limit a client could occupy a thread, and its memory, for each of any number of connections.
    The oldest connection ends, as a probe is answered at once. So no client can keep probes out by open
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
        self.reads = 0
        self._moments: tuple[float, ...] = ()
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
        """Serve a registry's metrics from now on. Each function returns a text, or None.

        `missing`: what the process still waits for. `stalled`: which part of the process makes no progress.
        `noted`: a note that /readyz adds, whether ready or not.
        """
        self._collected, self._missing, self._stalled = registry.collected, missing, stalled
        self._noted = noted

    def interval(self) -> float | None:
        """Return the seconds between the last two reads of the metrics; None if they are not read now."""
        match self._moments:
            case (before, last) if time.monotonic() - last < 2 * (last - before) + 1:
                return last - before
        return None

    def finish(self, failure: str | None = None) -> None:
        """Show that the run is over: the process is alive, idle, and ready unless there is a failure."""
        self._missing, self._stalled = lambda: failure, lambda: None
        self._noted = lambda: None if failure else "the run is over"

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
                self.reads += 1
                self._moments = (*self._moments, time.monotonic())[-2:]
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
    """Return the status and text of a probe's answer. The probe succeeds if `reason` is None."""
    return ("200 OK", well) if reason is None else ("503 Service Unavailable", reason)


LONGEST = 60.0
"""Seconds for which a process waits at most, at the end of its run, until its metrics were read."""
READS = 2


class LastReads:
    """Keeps a process alive after its run until the readers of its metrics have seen that the run is over.

    A process that ends at once looks like one that was killed, as its address no longer answers readers. So
    the process serves `run_over` 1 until each endpoint that is read regularly was read `READS` times more,
    for at most three of the endpoint's intervals and at most `LONGEST` seconds.

    Enter this context after the endpoints. `is_over` returns whether an exception is the end of the run.
    `wait` waits for a number of seconds and returns whether the process was asked to stop. With `stays` the
    process waits until it is asked to stop. `failure` returns the text of a failure that readers must see
    likewise, whether or not they have read before: a process that fails at once would look like one that was
    never there.
    """

    def __init__(
        self,
        is_over: Callable[[BaseException | None], bool],
        wait: Callable[[float], bool],
        *,
        stays: bool = False,
        failure: Callable[[BaseException | None], str | None] = lambda _: None,
    ) -> None:
        self._is_over, self._wait, self._stays, self._failure = is_over, wait, stays, failure
        self._endpoints: list[Endpoint] = []
        self._registries: list[SharedRegistry | PrivateRegistry] = []

    def watch(
        self, endpoint: Endpoint | None, registries: Iterable[SharedRegistry | PrivateRegistry]
    ) -> None:
        """Add an endpoint, if there is one, and the registries that it shows."""
        if endpoint is not None:
            self._endpoints.append(endpoint)
            self._registries += registries

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failure = self._failure(error)
        if failure is None and not self._is_over(error):
            return
        for registry in self._registries:
            registry.run_over = failure is None
        for endpoint in self._endpoints:
            endpoint.finish(failure)
        if self._stays and failure is None:
            while not self._wait(LONGEST):
                pass
            return
        start = time.monotonic()
        unknown = None if failure is None else LONGEST / READS
        intervals = {endpoint: endpoint.interval() or unknown for endpoint in self._endpoints}
        unread = {
            endpoint: (endpoint.reads + READS, start + min(LONGEST, 1 + (READS + 1) * interval))
            for endpoint, interval in intervals.items()
            if interval is not None
        }
        while any(
            endpoint.reads < reads and time.monotonic() < until for endpoint, (reads, until) in unread.items()
        ):
            if self._wait(0.1):
                return
