"""`up --observe` on a real broker: what the dashboards ask has answers, and an alert comes and goes."""

import math
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from grafana.ask import Prometheus
from grafana.draw import draw
from grafana.drawing import Span
from grafana.generate import DASHBOARDS
from grafana.panels import MESH, Query, metric, rate
from grafana.privacy import EVENT, STREAM
from streams.mesh_file.file import load
from tests.support.brokers import free_ports
from tests.support.metrics import need
from tests.support.processes import Process, wait_until
from tests.support.small_mesh import small_mesh_file

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

BUDGET = 1_000_000
QUERIES = {
    (name, panel.title, query.expr): query
    for name, module in DASHBOARDS.items()
    for row in module.ROWS
    for panel in row.panels
    for query in panel.queries
    if panel.title != "Accuracy"  # this mesh learns a position: it has no classes
}


class Observed:
    """A mesh of three under `up --observe`."""

    def __init__(self, folder, broker):
        changes = {"rounds": 1_000_000, "silence": 3, "round_timeout": 1}
        privacy = {
            "mechanism": "laplace",
            "epsilon": 1,
            "gradient_bound": 0.5,
            "noise": "exact",
            "budget": BUDGET,
        }
        self.path = small_mesh_file(folder, broker.address, privacy=privacy, **changes)
        self.state, ports = folder / "state", free_ports(2)
        self.mesh = load(self.path).mesh
        self.prometheus = Prometheus(f"http://127.0.0.1:{ports[0]}", self.mesh.name)
        options = ("--rate", 8, "--metrics-from", ports[1] + 1_100, "--prometheus-port", ports[0])
        self.process = Process(folder, "up", "up", self.path, "--state", self.state, "--observe", *options)

    def values(self, query):
        """What a panel's query finds now, the numbers; none while Prometheus does not answer yet."""
        try:
            found = [value for series in self.prometheus.now(query) for value in series.values]
        except OSError:
            return []
        return [value for value in found if math.isfinite(value)]

    def metric(self, name):
        """The values of one metric of the mesh."""
        return self.values(Query(metric(name, MESH)))

    def firing(self):
        """The alerts that fire."""
        found = self.prometheus.get("alerts")["alerts"]
        return {one["labels"]["alertname"] for one in found if one["state"] == "firing"}

    def process_of(self, *words):
        """The id of a process whose command line has these words; None where there is none."""
        for entry in Path("/proc").iterdir():
            with suppress(OSError, UnicodeDecodeError):
                line = (entry / "cmdline").read_bytes().decode().split("\0")
                if entry.name.isdecimal() and set(words) <= set(line):
                    return int(entry.name)
        return None

    def hasten(self, alert):
        """Let the alert fire after a second: by a copy of the rules, which Prometheus is told to read."""
        path = self.state / "observe" / "prometheus.yaml"
        settings = yaml.safe_load(path.read_text())
        (rules,) = map(Path, settings["rule_files"])
        tree = yaml.safe_load(rules.read_text())
        (rule,) = [rule for group in tree["groups"] for rule in group["rules"] if rule.get("alert") == alert]
        rule["for"] = "1s"
        copy = path.with_name("rules.yaml")
        copy.write_text(yaml.safe_dump(tree))
        path.write_text(yaml.safe_dump(settings | {"rule_files": [str(copy)]}))
        os.kill(self.process_of("prometheus", f"--config.file={path}"), signal.SIGHUP)

    def kill(self, node):
        """Kill the node where it is there, as often as it comes back."""
        pid = self.process_of("node", str(self.path), node)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def observed(broker, tmp_path):
    need("prometheus")
    made = Observed(tmp_path, broker)
    yield made
    made.process.terminate()
    try:
        made.process.ends(60)
    finally:
        made.process.kill()


def test_every_panel_has_data_and_a_node_that_dies_is_told_and_untold(observed):
    wait_until(lambda: observed.metric("live_nodes") == [3.0])
    observed.hasten("NodeSilent")
    missing = dict(QUERIES)

    def all_answered():
        for key in [key for key, query in missing.items() if observed.values(query)]:
            del missing[key]
        return not missing

    try:
        wait_until(all_answered)
    except AssertionError:
        pytest.fail(f"no data for {sorted(missing)}: {observed.process.log[-3000:]}")
    plausible(observed)
    drawn(observed)
    wait_until(lambda: "NodeSilent" not in observed.firing())  # on a busy machine any may have been silent
    last = list(observed.mesh.nodes)[-1]

    def told():
        observed.kill(last)
        return "NodeSilent" in observed.firing() and observed.metric("live_nodes") == [2.0]

    wait_until(told)
    wait_until(lambda: "NodeSilent" not in observed.firing() and observed.metric("live_nodes") == [3.0])
    observed.process.terminate()
    assert observed.process.ends() == 0
    assert (
        observed.process_of("prometheus", f"--config.file={observed.state}/observe/prometheus.yaml") is None
    )


def drawn(observed):
    """The pictures: every panel is there, and has something in it."""
    now = time.time()
    for module in DASHBOARDS.values():
        figure = draw(module, observed.prometheus, Span(now - 60, now, 2))
        assert [axes.get_title(loc="left") for axes in figure.axes] == [
            panel.title for row in module.ROWS for panel in row.panels
        ]
        assert all(axes.lines or axes.collections or axes.texts for axes in figure.axes)
        empty = {
            axes.get_title(loc="left")
            for axes in figure.axes
            if any(text.get_text() == "No data" for text in axes.texts)
        }
        assert empty <= {"Accuracy"}  # of classes, which this mesh has none of


def plausible(observed):
    """A few values against what they can be."""
    wait_until(lambda: len(rounds := observed.metric("round")) == 3 and min(rounds) >= 10)
    wait_until(lambda: 0 < min(observed.values(Query(rate("rounds_total"))), default=0.0) < 1_000)
    assert observed.values(Query(metric("release_epsilon", EVENT))) == [1, 1, 1]
    spent = observed.values(Query(metric("epsilon_spent", STREAM)))
    assert 0 < min(spent) <= max(spent) <= max(observed.metric("round")) + 1
    wait_until(lambda: len(found := observed.metric("regret")) == 3 and all(found))
    assert all(abs(regret) < 1e6 for regret in observed.metric("regret"))  # a lucky one is below 0
    assert observed.metric("simulated_noise") == [0, 0, 0]
    assert len(observed.prometheus.get("targets")["activeTargets"]) == 7
