"""Which nodes one process runs: what an operator may say, and what not."""

import pytest

from streams.cli import main
from streams.cli.processes import nodes_of, part
from streams.live.node_process import NodeProcess, check_shared
from streams.live.spend import NodeOptions
from streams.mesh.errors import MeshFileError, UsageError
from tests.support.meshes.files import changed, loaded, written

NAMES = tuple("abcdefg")


def mesh(tmp_path, **own):
    tree = changed()
    broker = {"servers": "127.0.0.1:1"}
    tree["brokers"] = {"mesh": broker, "data": broker, "trust_broker": True}
    for name, settings in own.items():
        tree["nodes"][name] |= settings
    return tree


def test_shares_are_all_nodes_once_in_their_order_and_of_about_one_size():
    for n in range(1, len(NAMES) + 1):
        shares = [part(NAMES, f"{k}/{n}") for k in range(1, n + 1)]
        assert sum(shares, ()) == NAMES
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(
    "share",
    ["0/4", "5/4", "1/0", "1/8", "1", "/", "a/2", "-1/2", "1/2/2", "1 /2", "²/2", f"1/{'9' * 5_000}"],
    ids=lambda share: share[:6],
)
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(UsageError, match=r"^--share is .*: must be K/N, with K from 1 to N and N at most 7"):
        part(NAMES, share)


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        ([], {}, "the nodes: none is given: must be NAME, --all or --share K/N"),
        (
            ["a"],
            {"all_here": True},
            "the nodes: NAME and --all are given: must be NAME, --all or --share K/N",
        ),
        ([], {"all_here": True, "share": "1/2"}, "the nodes: --all and --share are given: must be NAME"),
        (["a", "b", "a"], {}, "a: is given twice"),
    ],
)
def test_nodes_are_chosen_in_one_way_and_once(tmp_path, names, options, said):
    file = loaded(tmp_path, mesh(tmp_path))
    with pytest.raises(UsageError, match=f"^{said}"):
        nodes_of(file, names, **({"all_here": False, "share": None} | options))


def test_private_metrics_of_a_node_go_where_its_own_part_says_and_nowhere_else(tmp_path):
    file = loaded(tmp_path, mesh(tmp_path, a={"private_endpoint": "127.0.0.1:9301"}))
    with pytest.raises(UsageError, match=r"^--private-metrics: must be given, as a and b differ in"):
        NodeProcess(file, ["a", "b"], NodeOptions(tmp_path))
    NodeProcess(file, ["a", "b"], NodeOptions(tmp_path, private_metrics=("127.0.0.1", 1)))


def test_an_unknown_node_is_refused(tmp_path):
    with pytest.raises(MeshFileError, match="is no node of the mesh"):
        nodes_of(loaded(tmp_path, mesh(tmp_path)), ["a", "z"], all_here=False, share=None)


def test_all_and_shares_are_of_the_nodes_whose_own_part_is_here(tmp_path):
    tree = mesh(tmp_path)
    del tree["nodes"]["b"]
    file = loaded(tmp_path, tree)
    assert nodes_of(file, [], all_here=True, share=None) == ("a", "c", "d")
    assert nodes_of(file, [], all_here=False, share="2/2") == ("c", "d")
    assert nodes_of(file, ["c", "a"], all_here=False, share=None) == ("c", "a")


def test_nodes_of_different_brokers_share_no_process(tmp_path):
    other = {"mesh": {"servers": "127.0.0.1:1"}, "data": {"servers": "127.0.0.1:2"}}
    file = loaded(tmp_path, mesh(tmp_path, b={"brokers": other}))
    check_shared(file, ["a", "c"])
    with pytest.raises(
        UsageError, match=r"a and b have different brokers\.data: each needs a process of its own"
    ):
        check_shared(file, ["a", "b"])


def test_nodes_that_read_partitions_of_one_topic_share_no_process(tmp_path):
    schema = {"features": {"u": "number", "v": "number"}, "label": {"column": "distance"}}
    topic = {"kind": "topic", "topic": "payments", "schema": schema}
    parts = {name: {"source": topic | {"partitions": [k]}} for k, name in enumerate("ab")}
    file = loaded(tmp_path, mesh(tmp_path, **parts))
    check_shared(file, ["a", "c"])
    with pytest.raises(UsageError, match="a and b read one topic, payments: each needs a process of its own"):
        NodeProcess(file, ["a", "b"], NodeOptions(tmp_path))


def test_the_command_says_it_in_one_line(tmp_path, monkeypatch, capsys):
    path = written(tmp_path, mesh(tmp_path))
    monkeypatch.setattr("sys.argv", ["mirrormesh", "node", str(path), "a", "a", "--state", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines() == ["a: is given twice"]
