"""Two registries of two types: what is private cannot be made in the shared one."""

from collections.abc import Callable, Mapping
from functools import partial
from math import nan
from typing import Any, ClassVar, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.registry import Collector

from streams.metrics.catalogue import PREFIX, Metric, PrivateMetric, SharedMetric

M = TypeVar("M", SharedMetric, PrivateMetric)
P = TypeVar("P", Counter, Gauge, Histogram)

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

# each counter's birth is a second series, which nobody asks for
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library does not annotate it


class _Registry(Generic[M]):
    """Makes metrics of one type, with the same labels on all. Raises TypeError for one of another type."""

    _takes: ClassVar[type]

    def __init__(self, **labels: str) -> None:
        self.labels = labels
        self.collected = CollectorRegistry()
        self._made: dict[str, Any] = {}

    def counter(self, metric: M, *values: str) -> Counter:
        """Return the counter for these values of the metric's own labels; it stands at 0."""
        return self._child(Counter, self._checked(metric, "counter"), values)

    def gauge(self, metric: M, value: Callable[[], float | None], *values: str) -> None:
        """Show what `value` returns, asked at each scrape in the scraper's thread; None: not known."""
        gauge = self._child(Gauge, self._checked(metric, "gauge"), values)
        gauge.set_function(lambda: nan if (now := value()) is None else now)

    def histogram(self, metric: M) -> Histogram:
        """Return the histogram, of seconds."""
        return self._child(partial(Histogram, buckets=_SECONDS), self._checked(metric, "histogram"), ())

    def totals(self, metric: M, totals: Callable[[], Mapping[str, float]]) -> None:
        """Show a counter that is kept elsewhere, asked as a gauge is: totals by the metric's own label."""
        self.collected.register(_Totals(self._checked(metric, "counter"), self.labels, totals))

    def _checked(self, metric: M, kind: str) -> Metric:
        if type(metric) is not self._takes:
            raise TypeError(f"{metric}: must be a {self._takes.__name__}")
        what: Metric = metric.value
        if what.kind != kind:
            raise TypeError(f"{metric} is a {what.kind}: must be a {kind}")
        return what

    def _child(self, make: Callable[..., P], what: Metric, values: tuple[str, ...]) -> P:
        if what.name not in self._made:
            labels = (*self.labels, *what.labels)
            self._made[what.name] = make(what.name, what.help, labels, PREFIX, registry=self.collected)
        child: P = self._made[what.name].labels(*self.labels.values(), *values)
        return child


class _Totals(Collector):
    def __init__(
        self, what: Metric, labels: Mapping[str, str], totals: Callable[[], Mapping[str, float]]
    ) -> None:
        self._what, self._labels, self._totals = what, labels, totals

    def collect(self) -> list[CounterMetricFamily]:
        names = [*self._labels, *self._what.labels]
        family = CounterMetricFamily(f"{PREFIX}_{self._what.name}", self._what.help, labels=names)
        for value, total in self._totals().items():
            family.add_metric([*self._labels.values(), value], total)
        return [family]


class SharedRegistry(_Registry[SharedMetric]):
    """What everyone may see."""

    _takes = SharedMetric


class PrivateRegistry(_Registry[PrivateMetric]):
    """What the owner of the data alone may see."""

    _takes = PrivateMetric
