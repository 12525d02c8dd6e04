"""Serves a registry to Prometheus, on a thread of its own."""

from types import TracebackType
from typing import Self

from prometheus_client import start_http_server

from streams.metrics.registry import PrivateRegistry, SharedRegistry


class NotServed(Exception):
    """The metrics cannot be served there."""


class Endpoint:
    """Serves until it is closed. Raises NotServed where the port is taken, or the address is not ours."""

    def __init__(self, registry: SharedRegistry | PrivateRegistry, address: str, port: int) -> None:
        try:
            self._server, self._thread = start_http_server(port, address, registry.collected)
        except (OSError, OverflowError) as error:  # OverflowError: no such port
            why = error.strerror if isinstance(error, OSError) else "a port is from 0 to 65535"
            raise NotServed(f"metrics cannot be served on {address}:{port}: {why}") from None

    def close(self) -> None:
        """Stop serving, and let go of the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
