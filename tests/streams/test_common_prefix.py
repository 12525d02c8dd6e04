"""Names that begin alike are found apart: topics, groups, rights, logs, folders, and what they keep."""

from itertools import permutations

import pytest

from streams.bus.rights import feeder, node_on_data, node_on_mesh, scheduler
from streams.codec.topics import DataTopics, MeshTopics
from streams.mesh.errors import UsageError
from streams.state.data_order import check_order, keep_order
from streams.state.folder import StateFolder
from streams.state.spends import keep_spends, put_aside
from streams.tools.up import programs
from streams.tools.up.programs import Options
from tests.support.meshes.files import changed, loaded
from tests.support.nodes.accounts import journal, record
from tests.support.nodes.spends import earlier_spends

NODES = ["n1", "n10", "n1-0", "n", "feed-n1", "node-n1", "scheduler"]


def file_of(folder, nodes=NODES, **mesh):
    """A mesh of nodes whose names begin alike."""
    tree = changed(nodes=nodes, loss="squared", privacy={"noise": "exact"}, **mesh)
    source = {"kind": "csv", "path": "x.csv", "schema": {"features": {"x": "number", "y": "number"}}}
    source["schema"]["label"] = {"column": "d"}
    (folder / "x.csv").write_text("x,y,d\n1,0,1\n")
    tree["nodes"] = {name: {"source": source} for name in nodes}
    tree["brokers"] = {"mesh": {"servers": "127.0.0.1:1"}, "data": {"servers": "127.0.0.1:2"}}
    return loaded(folder, tree)


def data_names(node):
    return set(DataTopics("m", node).all)


def written_by(topics, node):
    return set(node_on_mesh(topics, node, [], ["b"]).writes)


def test_rights_are_of_one_node_of_one_run_alone():
    for one, other in permutations(NODES, 2):
        topics, others = DataTopics("m", one), DataTopics("m", other)
        allowed = set(node_on_data(topics, "r").topics) | set(feeder(topics).topics)
        assert allowed <= data_names(one)
        assert not data_names(one) & data_names(other)
        assert topics.group("r") != others.group("r")
    runs = [MeshTopics(mesh, run) for mesh in ("m", "m-1", "m1") for run in ("run-1", "run-10", "run")]
    names = [{*scheduler(topics, NODES).topics, *written_by(topics, "n1")} for topics in runs]
    assert len(set().union(*names)) == sum(map(len, names))
    for one, other in permutations(NODES, 2):
        assert not written_by(runs[0], one) & written_by(runs[0], other)


def test_no_process_of_up_writes_to_the_log_of_another(tmp_path):
    file, options = file_of(tmp_path), Options(tmp_path)
    everything = [programs.scheduler(file, None)]
    everything += [
        one for _, one in (*programs.nodes(file, options, None), *programs.feeders(file, options, None))
    ]
    assert (
        len({StateFolder(tmp_path).log(one.label) for one in everything})
        == len(everything)
        == 1 + 2 * len(NODES)
    )


def test_a_state_folder_tells_nodes_and_runs_apart(tmp_path):
    nodes, state = ["n1", "n10", "n1-0", "n"], tmp_path / "state"
    state.mkdir()
    first = file_of(tmp_path, nodes, run="run-1")
    for charged, name in enumerate(nodes, 3):
        journal(state, first, name, record(charged))
    assert put_aside(state, "n1", "run-10") == state / "n1.run-1.journal"
    assert sorted(path.name for path in state.glob("*.journal")) == [
        "n.journal",
        "n1-0.journal",
        "n1.run-1.journal",
        "n10.journal",
    ]
    assert [path.name for path in state.glob("*.spends")] == ["n1.spends"]
    (spend,) = earlier_spends(state, "n1", "run-10")
    assert (spend.run, spend.charged) == ("run-1", 3)
    keep_spends(StateFolder(state).spends("n"), spend._replace(charged=9))
    assert [one.charged for one in earlier_spends(state, "n10", "run-10")] == [4]
    assert [one.charged for one in earlier_spends(state, "n1", "run-1")] == []


def test_a_run_that_was_put_aside_may_begin_again(tmp_path):
    state, first = tmp_path / "state", file_of(tmp_path, ["n1"], run="run-1")
    state.mkdir()
    journal(state, first, "n1", record(3))
    put_aside(state, "n1", "run-2")
    keep_order(state, first, 0, {})
    assert StateFolder(state).order.exists()
    journal(state, first, "n1", record(3))
    StateFolder(state).order.unlink()
    with pytest.raises(UsageError, match=r"run-1 was begun in it, and .* does not say in which order"):
        check_order(state, first, 0, learnt=True)
