"""A budget used up, on a broker: what anybody can tell of it, beside each node's own journal."""

import json

import pytest

from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS = 60
PRIVACY = {
    "mechanism": "gaussian",
    "delta": 1e-6,
    "noise": "exact",
    "budget": {"epsilon": 6, "delta": 1e-6},
}
NODES = {"a": {}, "b": {"epsilon": 1.5}, "c": {"epsilon": 2}}


def told(mesh, label, *options):
    """The accounts that `mirrormesh budget` prints: {node: account}."""
    asked = mesh.start(label, "budget", mesh.path, "--json", *options)
    assert asked.ends() == 0, asked.log
    return {account["node"]: account for account in json.loads(asked.log)["nodes"]}


def known_to_all(account):
    """What an account says, but where it is from, and what a state folder knows of other runs."""
    return {key: value for key, value in account.items() if key not in {"source", "all_runs"}}


def test_what_is_public_tells_what_the_journals_do_while_the_nodes_relay(tmp_path, broker):
    path = small_mesh_file(tmp_path, broker.address, nodes=NODES, privacy=PRIVACY, rounds=ROUNDS)
    with LiveMesh(path) as mesh:
        mesh.feed_all()
        mesh.scheduler()
        names = list(mesh.nodes())
        wait_until(lambda: all("goes on" in mesh.processes[name].log for name in names))
        early = told(mesh, "early"), told(mesh, "early own", "--state", tmp_path / "state")
        mesh.finish("scheduler", *names)
        public, own = told(mesh, "late"), told(mesh, "late own", "--state", tmp_path / "state")
        values = mesh.values()
    for name in names:
        assert early[0][name]["source"] == "plans"
        assert early[1][name]["source"] == "journal"
        last = own[name]["last_learning_round"]
        assert 0 < last < ROUNDS - 5
        assert (own[name]["charged"], own[name]["relaying"]) == (last, True)
        assert last < own[name]["stepped"] < ROUNDS  # all have spent their budgets
        assert own[name]["spent"] <= own[name]["budget"] == 6
        assert own[name]["rounds_left"] == 0
        assert known_to_all(public[name]) == known_to_all(own[name])
        relayed = {round for (source, round), ((_, exact, _),) in values.items() if source == name and exact}
        assert relayed == {1, *range(last + 2, own[name]["stepped"] + 1)}
    assert len({own[name]["last_learning_round"] for name in names}) == len(names)
