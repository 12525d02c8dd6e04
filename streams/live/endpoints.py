"""The endpoints of a node's metrics and probes: for everyone, and for the data's owner."""

import logging
from contextlib import ExitStack

from streams.mesh.settings.addresses import Address, is_loopback
from streams.metrics.endpoint import Endpoint
from streams.metrics.node_metrics import NodeMetrics


class Endpoints:
    """Serves at the given addresses until `closing` closes; probes answer before there are metrics.

    Raises NotServed.
    """

    def __init__(
        self, shared: Address | None, private: Address | None, log: logging.Logger, closing: ExitStack
    ) -> None:
        warn_of_open("private metrics", private, log)
        self._shared, self._private = (
            None if address is None else closing.enter_context(Endpoint(*address))
            for address in (shared, private)
        )

    def show(self, metrics: NodeMetrics) -> None:
        """Show a node's metrics, each kind at its own endpoint."""
        if self._shared is not None:
            self._shared.show(metrics.shared, metrics.missing)
        if self._private is not None:
            self._private.show(metrics.private, metrics.missing)


def warn_of_open(what: str, address: Address | None, log: logging.Logger) -> None:
    """Log a warning if others can reach pages that reveal something of the data."""
    if address is not None and not is_loopback(address):
        log.warning("%s tell about the data, and %s:%d is open to others", what, *address)
