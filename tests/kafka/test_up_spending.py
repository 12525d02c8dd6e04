"""Two meshes, two state folders, one data topic: all places of `up` state what a record has paid on it."""

import json
import re
import uuid
from contextlib import contextmanager

import pytest

from streams.state.folder import StateFolder
from tests.support.meshes.files import changed, written
from tests.support.processes.command import Process
from tests.support.processes.forked import Forked
from tests.support.processes.mesh import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


MEASURED = {
    "kind": "topic",
    "schema": {"features": {"x": "number", "y": "number"}, "label": {"column": "distance"}},
}
"""What a made-up sensor's records hold, on a topic that another mesh has."""


class Bench:
    """A folder in which commands are called one after the other, on a broker."""

    def __init__(self, folder, servers):
        self.mark = uuid.uuid4().hex[:8]
        self.folder, self.servers = folder, servers
        self.nodes = [f"{name}-{self.mark}" for name in "ab"]

    def mesh(self, name, run):
        """The file of a mesh: all of them read the data topics of `m1`."""
        tree = changed(
            name=f"{name}-{self.mark}",
            run=run,
            nodes=self.nodes,
            slots={"timeout": "none"},
            privacy={"noise": "exact"},
            topology={"graph": "complete"},
            round_timeout="none",
            silence=60,
            rounds=3,
        )
        made_here = {"kind": "localisation"}
        sources = {
            node: made_here if name == "m1" else {**MEASURED, "topic": f"data.m1-{self.mark}.{node}"}
            for node in self.nodes
        }
        tree["nodes"] = {node: {"source": source} for node, source in sources.items()}
        tree["brokers"] = {side: {"servers": self.servers} for side in ("mesh", "data")}
        tree["brokers"]["trust_broker"] = True
        folder = self.folder / f"{name}-{run}"
        folder.mkdir()
        return written(folder, tree)

    def call(self, *arguments):
        """What a command says that ends well."""
        process = Forked(self.folder, f"call-{uuid.uuid4().hex}", *arguments)
        assert process.ends() == 0, process.log[-2000:]
        return process.log

    @contextmanager
    def upped(self, path, state):
        """`up` in the background, feeding nobody, from when all its nodes have logged a guarantee."""
        process = Process(self.folder, state, "up", path, "--state", state, "--no-feed")
        try:
            logs = [StateFolder(self.folder / state).log(f"node {name}") for name in self.nodes]
            wait_until(lambda: all(log.exists() and "is protected with" in log.read_text() for log in logs))
            yield process, logs
        finally:
            process.terminate()  # so that its own processes end with it
            try:
                process.ends()
            finally:
                process.kill()

    def stated(self, path, state):
        """What the places state after `up`, by the place."""
        places = {"up": of_sentence(self.call("up", path, "--state", state))}
        for name in self.nodes:
            log = StateFolder(self.folder / state).log(f"node {name}").read_text()
            places[f"log of {name}"] = of_sentence(log)
            places[f"budget of {name}"] = of_sentence(self.call("budget", path, name, "--state", state))
            (account,) = json.loads(self.call("budget", path, name, "--json"))["nodes"]
            places[f"budget of {name} without a folder"] = account["all_runs"]["epsilon"]
        return places


def of_sentence(text):
    """The last epsilon that a guarantee states."""
    return float(re.findall(r"is protected with epsilon = ([\d.]+)", text)[-1])


def test_all_places_count_what_another_mesh_has_spent_from_another_folder(broker, tmp_path):
    bench = Bench(tmp_path, broker.address)
    for run, paid in (("run-1", 1), ("run-2", 2)):
        places = bench.stated(bench.mesh("m1", run), "k1")
        assert places == dict.fromkeys(places, paid)
    places = bench.stated(bench.mesh("m2", "run-1"), "k2")
    assert places == dict.fromkeys(places, 3)
    places = bench.stated(bench.mesh("m1", "run-3"), "k3")  # the folder of the first two is away
    assert places == dict.fromkeys(places, 4)
    assert len(places) == 7


def test_what_another_mesh_has_begun_to_spend_meanwhile_counts_at_the_end(broker, tmp_path):
    bench = Bench(tmp_path, broker.address)
    first, second = bench.mesh("m1", "run-1"), bench.mesh("m2", "run-1")
    with bench.upped(first, "k1") as (one, logs), bench.upped(second, "k2") as (other, _):
        assert {of_sentence(log.read_text()) for log in logs} == {1}  # nobody else had begun
        for name in bench.nodes:
            bench.call("feed", first, name, "--records", 12)
        assert one.ends() == other.ends() == 0
        assert of_sentence(one.log) == of_sentence(other.log) == 2
    assert of_sentence(bench.call("budget", first, bench.nodes[0], "--state", "k1")) == 2
