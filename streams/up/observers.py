"""Prometheus, and Grafana where there is one, beside a mesh: kept going until everything ends."""

from pathlib import Path

from streams.live.stopping import Stop
from streams.up.brokers import Fact
from streams.up.children import Child, Say, end_all
from streams.up.observing import HERE, grafana, grafana_program, prometheus_program
from streams.up.programs import Observing, Ports


class Observers:
    """Their processes. Nothing runs before the first `look`."""

    def __init__(self, observing: Observing, served: Ports, state: Path, say: Say) -> None:
        folder, logs = (state / "observe").resolve(), state / "logs"
        for made in (folder, logs):
            made.mkdir(exist_ok=True)
        self._observing, command = observing, grafana()
        programs = [prometheus_program(observing, served, folder)]
        if command is not None:
            programs.append(grafana_program(observing, command, folder))
        self._children = tuple(Child(program, logs, say) for program in programs)

    def introduce(self, fact: Fact) -> None:
        """Say where to look."""
        fact("prometheus", f"http://{HERE}:{self._observing.prometheus}; alerts at /alerts")
        if len(self._children) > 1:
            fact("grafana", f"http://{HERE}:{self._observing.grafana}/dashboards")
        else:
            fact(
                "grafana",
                "not on the PATH, so there is none; its dashboards: deploy/compose.yaml, or install it",
            )

    def look(self) -> None:
        """Start what is to be started."""
        for child in self._children:
            child.look()

    def stay(self, stop: Stop, period: float) -> None:
        """Go on until it is asked to stop."""
        while not stop.asked.wait(period):
            self.look()

    def end(self) -> None:
        """End what runs: what asks before what answers."""
        for child in reversed(self._children):
            end_all((child,))
