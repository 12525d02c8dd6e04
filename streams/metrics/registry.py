"""Two registries of two types, so that no private metric can be made in the shared one."""

from collections.abc import Callable, Iterable
from importlib.metadata import version
from math import nan
from typing import ClassVar, Generic, TypeVar

from prometheus_client import CollectorRegistry

from streams.metrics.catalogue import Metric, PrivateMetric, SharedMetric
from streams.metrics.series import Counter, Distribution, Histogram, Numbers

M = TypeVar("M", SharedMetric, PrivateMetric)


class _Registry(Generic[M]):
    """Makes metrics of one type, with the same labels on all. Raises TypeError for one of another type."""

    _takes: ClassVar[type]

    def __init__(self, **labels: str) -> None:
        self.labels = labels
        self.collected = CollectorRegistry()
        self._families: dict[str, Numbers] = {}

    def counter(self, metric: M, *values: str) -> Counter:
        """Return a new counter, at 0, for these values of the metric's own labels."""
        counter = Counter()
        self.total(metric, lambda: counter.total, *values)
        return counter

    def total(self, metric: M, value: Callable[[], float], *values: str) -> None:
        """Show a counter that is kept elsewhere, read at each scrape like a gauge."""
        self._numbers(self._checked(metric, "counter")).add(values, value)

    def gauge(self, metric: M, value: Callable[[], float | None], *values: str) -> None:
        """Show the result of `value`, called at each scrape in the scraper's thread; None: not known."""

        def known() -> float:
            now = value()
            return nan if now is None else now

        self._numbers(self._checked(metric, "gauge")).add(values, known)

    def histogram(self, metric: M) -> Histogram:
        """Return the histogram, of seconds."""
        histogram = Histogram()
        self.collected.register(Distribution(self._checked(metric, "histogram"), self.labels, histogram))
        return histogram

    def _checked(self, metric: M, kind: str) -> Metric:
        if type(metric) is not self._takes:
            raise TypeError(f"{metric}: must be a {self._takes.__name__}")
        entry: Metric = metric.value
        if entry.kind != kind:
            raise TypeError(f"{metric} is a {entry.kind}: must be a {kind}")
        return entry

    def _numbers(self, what: Metric) -> Numbers:
        if what.name not in self._families:
            self._families[what.name] = Numbers(what, self.labels)
            self.collected.register(self._families[what.name])
        return self._families[what.name]


class SharedRegistry(_Registry[SharedMetric]):
    """The registry of shared metrics."""

    _takes = SharedMetric


class PrivateRegistry(_Registry[PrivateMetric]):
    """The registry of private metrics."""

    _takes = PrivateMetric


NO_BROKER = "the mesh broker does not answer"


class ProcessFigures:
    """Shows version, connection and refusals; `reasons` are all possible ones."""

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
