"""`up --observe` on a real broker: what the dashboards ask has answers, and an alert comes and goes."""

import json
import math
import os
import signal
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml

from grafana import learning
from grafana.ask import Prometheus
from grafana.draw import draw
from grafana.drawing import Span
from grafana.generate import DASHBOARDS
from grafana.panels import MESH, TARGET, Query, metric, rate
from grafana.privacy import EVENT, STREAM
from streams.mesh.file import load
from tests.support.brokers.development import free_ports
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.command import Process
from tests.support.processes.mesh import wait_until
from tests.support.processes.programs import need

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PRIVACY = {
    "mechanism": "laplace",
    "epsilon": 1,
    "gradient_bound": 0.5,
    "noise": "exact",
    "budget": 1_000_000,
}
ELSEWHERE = {
    # this mesh learns a position: it has no classes
    *("Accuracy", "AUC before learning", "Better than guessing"),
    *(
        panel.title
        for module in DASHBOARDS.values()
        for row in module.ROWS
        if row.title in {"Collaboration", "Scores"}  # nobody scores here: tests/kafka/test_score.py
        for panel in row.panels
    ),
}
"""Panels that this mesh has nothing for."""
QUERIES = {
    (name, panel.title, query.expr): query
    for name, module in DASHBOARDS.items()
    for row in module.ROWS
    for panel in row.panels
    for query in panel.queries
    if panel.title not in ELSEWHERE
}

NOTHING = {panel.nothing for module in DASHBOARDS.values() for row in module.ROWS for panel in row.panels}


class Observed:
    """A mesh of three under `up --observe`; `source` is what each reads."""

    def __init__(self, folder, broker, source, **changes):
        changes = {"rounds": 1_000_000, "silence": 3, "round_timeout": 1, "privacy": PRIVACY} | changes
        sources = dict.fromkeys("abc", source)
        self.path = small_mesh_file(folder, broker.address, sources=sources, **changes)
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

    def places(self, name):
        """Where the map has that node, or the target."""
        (plane,) = [panel for row in learning.ROWS for panel in row.panels if panel.title == "Map"]
        both = [self.prometheus.now(query) for query in plane.queries]
        return list(
            zip(*[[one.values[0] for one in found if one.name == name] for found in both], strict=True)
        )

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
        rules, others = map(Path, settings["rule_files"])
        tree = yaml.safe_load(rules.read_text())
        (rule,) = [rule for group in tree["groups"] for rule in group["rules"] if rule.get("alert") == alert]
        rule["for"] = "1s"
        copy = path.with_name("rules.yaml")
        copy.write_text(yaml.safe_dump(tree))
        path.write_text(yaml.safe_dump(settings | {"rule_files": [str(copy), str(others)]}))
        os.kill(self.process_of("prometheus", f"--config.file={path}"), signal.SIGHUP)

    def kill(self, node):
        """Kill the node where it is there, as often as it comes back."""
        pid = self.process_of("node", str(self.path), node)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def observing(*what, **changes):
    """A mesh under Prometheus, until the end of the block."""
    need("prometheus")
    made = Observed(*what, **changes)
    try:
        yield made
        made.process.terminate()
        made.process.ends(60)
    finally:
        made.process.kill()


@pytest.fixture
def observed(broker, tmp_path):
    with observing(tmp_path, broker, {"kind": "localisation", "truth": True}) as made:
        yield made


def test_every_panel_has_data_and_a_node_that_dies_is_told_and_untold(observed):
    wait_until(lambda: observed.metric("live_nodes") == [3.0])
    observed.hasten("NodeSilent")
    missing = dict(QUERIES)

    def all_answered():
        for key in [key for key, query in missing.items() if observed.values(query)]:
            query = missing.pop(key, None)
            if query and query.colour:  # one of a panel's alternatives is enough
                for other in [one for one, asked in missing.items() if one[:2] == key[:2] and asked.colour]:
                    del missing[other]
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
            if any(text.get_text() in NOTHING for text in axes.texts)
        }
        assert empty <= ELSEWHERE
        if module is learning:
            (plane,) = [axes for axes in figure.axes if axes.get_title(loc="left") == "Map"]
            assert set(plane.get_legend_handles_labels()[1]) == {*observed.mesh.nodes, TARGET}


def once_there(ask):
    """What `ask` finds, once it finds anything: a scrape that is late on a busy machine leaves a gap."""
    answers = []
    wait_until(lambda: answers.append(ask()) or answers[-1])
    return answers[-1]


def plausible(observed):
    """A few values against what they can be."""
    wait_until(lambda: len(rounds := observed.metric("round")) == 3 and min(rounds) >= 10)
    wait_until(lambda: 0 < min(observed.values(Query(rate("rounds_total"))), default=0.0) < 1_000)
    wait_until(lambda: observed.values(Query(metric("release_epsilon", EVENT))) == [1, 1, 1])
    spent = once_there(lambda: observed.values(Query(metric("epsilon_spent", STREAM))))
    assert min(spent) > 0
    wait_until(lambda: max(spent) <= max(observed.metric("round"), default=0) + 1)
    wait_until(lambda: len(found := observed.metric("regret")) == 3 and all(found))
    assert all(abs(regret) < 1e6 for regret in observed.metric("regret"))  # a lucky one is below 0
    wait_until(lambda: observed.metric("simulated_noise") == [0, 0, 0])
    assert all(0 < error < 3 + math.hypot(0.8, 0.95) for error in observed.metric("tracking_error"))
    ((x, y),) = once_there(lambda: observed.places(TARGET))
    assert math.hypot(0.8 - x, 0.95 - y) < 1  # it starts there, and moves slowly
    for name in observed.mesh.nodes:
        ((x, y),) = once_there(lambda name=name: observed.places(name))
        assert abs(x) + abs(y) <= 3 + 1e-6
    assert len(observed.prometheus.get("targets")["activeTargets"]) == 10


def test_a_mesh_of_classes_shows_how_often_they_were_said_right(broker, tmp_path):
    rows = [{"x": k % 7 - 3, "y": k % 5 - 2, "kind": "up" if k % 7 > 2 else "down"} for k in range(5_000)]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    schema = {
        "features": {"x": "number", "y": "number"},
        "label": {"column": "kind", "positive": "up", "negative": "down"},
    }
    source = {"kind": "json-lines", "path": str(tmp_path / "rows.jsonl"), "schema": schema}
    (panel,) = [panel for row in learning.ROWS for panel in row.panels if panel.title == "Accuracy"]
    privacy = {"mechanism": "none", "gradient_bound": 0.5}  # so that it surely learns
    with observing(tmp_path, broker, source, loss="hinge", privacy=privacy) as mesh:
        # six of seven records are on the one side or the other, the seventh on the line
        wait_until(lambda: len(shares := mesh.values(*panel.queries)) == 3 and min(shares) > 0.7)
        assert max(mesh.values(*panel.queries)) <= 1
        assert mesh.metric("tracking_error") == mesh.metric("target") == []  # its records say no truth
