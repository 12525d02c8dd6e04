"""Tells which of a process's certificates end soon."""

import logging
from typing import Protocol

from streams.bus.diagnosis import Expiry
from streams.mesh.settings.brokers import BrokersSettings


class Certificates:
    """When a node's certificates end: those for the mesh broker, and those for the party's own."""

    def __init__(self, brokers: BrokersSettings, log: logging.Logger) -> None:
        self.mesh = Expiry({"brokers.mesh": brokers.mesh})
        self.data = Expiry({"brokers.data": brokers.data})
        warn_of_end(self, log)

    @property
    def ends(self) -> tuple[float, float]:
        """When the first for each broker ends, in seconds since 1970."""
        return self.mesh.first, self.data.first

    def soon(self) -> str | None:
        """Return a line on those that end soon; None if none does."""
        return ", ".join(filter(None, [self.mesh.soon(), self.data.soon()])) or None


class Ending(Protocol):
    """Tells which certificates end soon."""

    def soon(self) -> str | None:
        """Return a line on them; None if there are none."""


def warn_of_end(certificates: Ending, log: logging.Logger) -> None:
    """Log a warning of certificates that end soon."""
    soon = certificates.soon()
    if soon is not None:
        log.warning("%s", soon)
