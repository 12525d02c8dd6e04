"""What every process of a mesh shows everyone: its version, its broker, the messages that it refused."""

from collections.abc import Callable, Iterable
from importlib.metadata import version

from streams.metrics.catalogue import SharedMetric
from streams.metrics.registry import SharedRegistry

NO_BROKER = "the mesh broker does not answer"


class ProcessFigures:
    """Version, connection and refusals; `reasons` are all that there may be."""

    def __init__(
        self, registry: SharedRegistry, connected: Callable[[], bool], reasons: Iterable[str]
    ) -> None:
        registry.gauge(SharedMetric.BUILD, lambda: 1, version("mirrormesh"))
        registry.gauge(SharedMetric.CONNECTED, connected)
        self._refused = {
            reason: registry.counter(SharedMetric.REFUSED, reason) for reason in dict.fromkeys(reasons)
        }

    def refused(self, reason: str) -> None:
        """Count a peer's message that was refused."""
        self._refused[reason].total += 1
