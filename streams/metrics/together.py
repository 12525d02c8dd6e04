"""One registry of those of several nodes: each series has its node's label."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streams.metrics.registry import PrivateRegistry, SharedRegistry

R = TypeVar("R", SharedRegistry, PrivateRegistry)


class _Together(Collector):
    """Collects the metrics of all, those of one name as one."""

    def __init__(self, registries: Iterable[SharedRegistry | PrivateRegistry]) -> None:
        self._collected = [registry.collected for registry in registries]

    def describe(self) -> list[Metric]:
        """Return nothing: names are not checked, as each registry has checked its own."""
        return []

    def collect(self) -> list[Metric]:
        """Return each metric with the samples of all."""
        families: dict[str, Metric] = {}
        for collected in self._collected:
            for family in collected.collect():
                families.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type)
                ).samples += family.samples
        return list(families.values())


def together(registries: Sequence[R]) -> R:
    """Return a registry that shows all of these, which keep their types: private ones stay private."""
    if len(registries) == 1:
        return registries[0]
    union = type(registries[0])()
    union.collected.register(_Together(registries))
    return union
