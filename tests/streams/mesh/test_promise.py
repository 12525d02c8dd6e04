"""One sentence: `plan`, `budget`, `run`, its summary and a node's log say the same, word for word."""

import json
import logging
import re

import pytest

from nodes.protocol import Identity
from streams.live.hosted_node import HostedNode
from streams.live.spend import NodeOptions
from streams.live.start import NodeStart
from streams.mesh.file import load
from streams.state.journal import open_journal
from tests.support.meshes.files import changed, written
from tests.support.processes.in_process import Commands

MECHANISMS = {
    "laplace": {},
    "parameters": {"on": "parameters", "norm": "l2"},
    "growing": {"epsilon": {"total": 5, "rounds": 20, "schedule": "growing"}},
    "gaussian": {"mechanism": "gaussian", "delta": 1e-6},
    "l2-sphere": {"mechanism": "l2-sphere", "epsilon": 0.5},
    "gaussian-bisr": {"mechanism": "gaussian-bisr", "delta": 1e-6},
    "simulated": {"noise": "simulated"},
    "none": {"mechanism": "none"},
}
SLOTS = {
    "count": {"by": "count", "size": 1, "timeout": "none"},
    "time": {"by": "time", "period": 1, "start": 0, "size": 1},
}
SCHEMA = {
    "features": {"x": "number", "y": "number"},
    "label": {"column": "distance"},
    "timestamp": "at",
}
BROKER = {"servers": "127.0.0.1:1"}


def mesh_file(folder, privacy, slots, *, trusted):
    """A mesh of two, of which `a` reads a file; its broker is trusted, or each has one of its own."""
    tree = changed(nodes=["a", "b"], privacy={"noise": "exact"} | privacy, slots=slots, rounds=3)
    for name in "ab":  # of other records
        rows = "".join(f"1,0,{1 + (name == 'b')},{k}\n" for k in range(1, 9))
        (folder / f"{name}.csv").write_text(f"x,y,distance,at\n{rows}")
    tree["nodes"] = {
        name: {"source": {"kind": "csv", "path": f"{name}.csv", "schema": SCHEMA}} for name in "ab"
    }
    data = BROKER if trusted else {"servers": "127.0.0.1:2"}
    tree["brokers"] = {"mesh": BROKER, "data": data, "trust_broker": trusted}
    return written(folder, tree)


def logged(file, state, caplog):
    """What the process of node `a` says as it starts."""
    caplog.set_level(logging.INFO)
    node = HostedNode(file, "a", NodeOptions(state))
    with open_journal(state, "a", file.resolved.node("a").context, "aa" * 16) as node.journal:
        node.start = NodeStart(Identity("a", "run-1", "aa" * 16, "bb" * 16), (), (), {}, ())
        node.say()
    return caplog.messages


@pytest.mark.parametrize("trusted", [True, False], ids=["one broker", "two brokers"])
@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_all_say_the_same(tmp_path, capsys, caplog, monkeypatch, name, slots, trusted):
    monkeypatch.setattr("streams.bus.logs.PATIENCE", 0.2)  # there is no broker
    call, path = Commands(capsys), mesh_file(tmp_path, MECHANISMS[name], SLOTS[slots], trusted=trusted)
    file, state = load(path), tmp_path / "state"
    state.mkdir()
    sentence = file.resolved.node("a").guarantee.sentence("a")
    both = f"{sentence} The same holds for b."
    assert sentence in logged(file, state, caplog)
    assert f"guarantee:   {both}" in call("plan", path).out.splitlines()
    told = call("budget", path, "a", "--state", state)
    assert f"guarantee:   {sentence}" in told.out.splitlines()
    (account,) = json.loads(call("budget", path, "a", "--state", state, "--json").out)["nodes"]
    assert account["guarantee"] == sentence
    said = call("run", path, "--output", tmp_path / "results").out
    assert said.splitlines()[0] == both
    assert said.count(sentence) == 1
    summary = json.loads((tmp_path / "results" / "summary.json").read_text())
    assert summary["nodes"][0]["guarantee"] == sentence


def test_the_sentence_says_what_is_asked_of_it(tmp_path):
    for trusted, slots in ((True, "count"), (False, "time")):
        path = mesh_file(tmp_path, MECHANISMS["gaussian-bisr"], SLOTS[slots], trusted=trusted)
        sentence = load(path).resolved.node("a").guarantee.sentence("a")
        assert ("is trusted" in sentence) == trusted
        assert f"({slots} slots)" in sentence
        assert re.search(r"epsilon = 1 \(delta = 1e-06, proved for real arithmetic\)", sentence)
