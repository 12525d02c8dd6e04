"""The numbers of a metric's series, which become samples only at a scrape.

There are no locks: each number is written by one thread at a time, and a scrape, in its own thread, only
reads. It sees a number from before or after a write, and one number may be newer than another.
"""

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import accumulate

from prometheus_client.core import Metric as Shown
from prometheus_client.core import Sample
from prometheus_client.registry import Collector

from streams.metrics.catalogue import PREFIX, Metric

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_LIMITS = (*map(str, SECONDS), "+Inf")


class Counter:
    """A total; one thread adds to it: `counter.total += 1`."""

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
    """A counter or gauge: one number per series."""

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
        return [Sample(self._name, labels, read()) for labels, read in self._series]


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
