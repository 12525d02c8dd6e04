"""Two registries of two types, with their series. A private metric cannot be made in the shared registry."""

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate
from math import nan
from operator import add
from typing import ClassVar, Generic, TypeVar

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric as Shown
from prometheus_client.core import Sample
from prometheus_client.registry import Collector

from nodes.values import FloatArray
from streams.metrics.catalogue import PREFIX, Metric, PrivateMetric, SharedMetric

# The numbers of a metric's series, which become samples only at a scrape.
#
# There are no locks: each number is written by one thread at a time, and a scrape, in its own thread, only
# reads. It sees a number from before or after a write, and one number may be newer than another.

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_LIMITS = (*map(str, SECONDS), "+Inf")


class Counter:
    """A total. Only one thread may add to it, by `counter.total += 1`."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total: float = 0


class Histogram:
    """Counts observations, in seconds, between limits, and sums them. One thread observes."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * len(_LIMITS)
        self._sum = 0.0

    def observe(self, seconds: float, added: float | None = None) -> None:
        """Count an observation; `added`: a coarser value to add to the sum."""
        self._counts[bisect_left(SECONDS, seconds)] += 1
        self._sum += seconds if added is None else added

    def observe_all(self, seconds: FloatArray) -> None:
        """Count many observations."""
        places = np.bincount(np.searchsorted(SECONDS, seconds), minlength=len(_LIMITS))
        self._counts = [*map(add, self._counts, places.tolist())]
        self._sum += float(seconds.sum())

    def read(self) -> tuple[list[int], float]:
        """Return the number of observations up to each limit, and the sum."""
        return list(accumulate(self._counts)), self._sum


class _Family(Collector):
    """One metric with all its series; every series has the labels `common`."""

    def __init__(self, what: Metric, common: Mapping[str, str]) -> None:
        self._what, self._common = what, common
        self._name = f"{PREFIX}_{what.name}"

    def describe(self) -> list[Shown]:
        """Return the metric without samples."""
        return [Shown(self._name.removesuffix("_total"), self._what.help, self._what.kind)]

    def collect(self) -> list[Shown]:
        """Return the metric with its current samples."""
        (family,) = self.describe()
        family.samples = self._samples()
        return [family]

    @abstractmethod
    def _samples(self) -> list[Sample]:
        """Return the samples of every series."""


class Numbers(_Family):
    """A counter or gauge, with one number per series."""

    def __init__(self, what: Metric, common: Mapping[str, str]) -> None:
        super().__init__(what, common)
        self._series: list[tuple[dict[str, str], Callable[[], float]]] = []

    def add(self, values: tuple[str, ...], read: Callable[[], float]) -> None:
        """Add the series with these values of the metric's own labels."""
        labels = {**self._common, **dict(zip(self._what.labels, values, strict=True))}
        if any(labels == known_labels for known_labels, _ in self._series):
            raise ValueError(f"{self._name}{labels} is there already")
        self._series.append((labels, read))

    def _samples(self) -> list[Sample]:
        return [Sample(self._name, labels, get_value()) for labels, get_value in self._series]


class Distribution(_Family):
    """One histogram."""

    def __init__(self, what: Metric, common: Mapping[str, str], histogram: Histogram) -> None:
        super().__init__(what, common)
        self._histogram = histogram
        self._labels = [{**common, "le": limit} for limit in _LIMITS]

    def _samples(self) -> list[Sample]:
        counts, total = self._histogram.read()
        bucket, common = f"{self._name}_bucket", dict(self._common)
        return [
            *(Sample(bucket, labels, count) for labels, count in zip(self._labels, counts, strict=True)),
            Sample(f"{self._name}_count", common, counts[-1]),
            Sample(f"{self._name}_sum", common, total),
        ]


M = TypeVar("M", SharedMetric, PrivateMetric)


class _Registry(Generic[M]):
    """Makes metrics of one type, with the same labels on all. Raises TypeError for metrics of other types."""

    _takes: ClassVar[type]

    run_over = False
    """Whether the run is over; set at the process's end (LastReads)."""

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
        """Show a counter that another object stores; it is read at each scrape, like a gauge."""
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
    """Shows version, connection and refusals. `reasons` are all possible reasons of a refusal."""

    def __init__(
        self, registry: SharedRegistry, connected: Callable[[], bool], reasons: Iterable[str]
    ) -> None:
        registry.gauge(SharedMetric.BUILD, lambda: 1, version("mirrormesh"))
        registry.gauge(SharedMetric.CONNECTED, connected)
        registry.gauge(SharedMetric.RUN_OVER, lambda: registry.run_over)
        self._refused = {
            reason: registry.counter(SharedMetric.REFUSED, reason) for reason in dict.fromkeys(reasons)
        }

    def refused(self, reason: str) -> None:
        """Count a peer's message that was refused."""
        self._refused[reason].total += 1


# Merges the registries of several nodes into one, where each series has its node's label.

R = TypeVar("R", SharedRegistry, PrivateRegistry)


class _Union(Collector):
    """Collects the metrics of all registries; metrics of one name become one."""

    def __init__(self, registries: Iterable[SharedRegistry | PrivateRegistry]) -> None:
        self._collected = [registry.collected for registry in registries]

    def describe(self) -> list[Shown]:
        """Return nothing: names are not checked, as each registry has checked its own."""
        return []

    def collect(self) -> list[Shown]:
        """Return each metric with the samples of all registries."""
        families: dict[str, Shown] = {}
        for collected in self._collected:
            for family in collected.collect():
                families.setdefault(
                    family.name, Shown(family.name, family.documentation, family.type)
                ).samples += family.samples
        return list(families.values())


def merge_registries(registries: Sequence[R]) -> R:
    """Return a registry that shows all of these. It has their type, so private ones stay private."""
    if len(registries) == 1:
        return registries[0]
    union = type(registries[0])()
    union.collected.register(_Union(registries))
    return union
