"""A panel's queries to a running Prometheus, with the dashboards' variables filled in."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

from grafana.panels import Query


@dataclass(frozen=True)
class Series:
    """One series: what it is called, its labels, and its values at its times (seconds since 1970)."""

    name: str
    labels: dict[str, str]
    times: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Prometheus:
    """Asks for one mesh. `nodes` is a regular expression; `interval` stands for $__rate_interval.

    `shown` stands for $__range: the time that is shown.

    Raises OSError where it does not answer, ValueError where it refuses the query.
    """

    address: str
    mesh: str
    nodes: str = ".+"
    interval: str = "10s"
    shown: str = "15m"

    def now(self, query: Query) -> list[Series]:
        """Return the last value of every series."""
        return list(self._series(query, "query", {}))

    def at(self, query: Query, time: float) -> list[Series]:
        """Return the value of every series at a time."""
        return list(self._series(query, "query", {"time": time}))

    def over(self, query: Query, start: float, end: float, step: float) -> list[Series]:
        """Return the values from start to end, one every `step` seconds."""
        return list(self._series(query, "query_range", {"start": start, "end": end, "step": step}))

    def get(self, path: str, **words: object) -> Any:
        """Return the data of any answer of the HTTP API."""
        url = f"{self.address.rstrip('/')}/api/v1/{path}?{urlencode(words)}"
        try:
            with urlopen(url, timeout=30) as answer:  # noqa: S310 # the address is the user's own
                return json.loads(answer.read())["data"]
        except HTTPError as error:
            if error.code >= 500:  # it is there, and not ready yet
                raise
            raise ValueError(f"{path}: {error.read().decode(errors='replace')}") from None

    def _series(self, query: Query, path: str, words: dict[str, object]) -> Iterator[Series]:
        expr = query.expr.replace("$__rate_interval", self.interval).replace("$__range", self.shown)
        expr = expr.replace("$mesh", self.mesh).replace("$node", self.nodes)
        for found in self.get(path, query=expr, **words)["result"]:
            labels, points = found["metric"], found.get("values") or [found["value"]]
            times, values = zip(*((float(time), float(value)) for time, value in points), strict=True)
            yield Series(_named(query.legend, labels), labels, times, values)


def _named(legend: str, labels: dict[str, str]) -> str:
    """Return the legend with the labels' values in the place of their names."""
    return re.sub(r"{{(\w+)}}", lambda label: labels.get(label[1], ""), legend)
