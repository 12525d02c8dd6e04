"""A process of several nodes, before any broker is asked: which start, and what is waited for."""

import logging
from contextlib import ExitStack

import pytest

from streams.bus.preflight import PreflightFailed
from streams.live import hosted_node
from streams.live.hosted_node import HostedNode
from streams.live.node_process import NodeProcess
from streams.live.serving import Certificates, Endpoints
from streams.live.spend import NodeOptions
from streams.mesh.errors import UsageError
from streams.runtime.process import Failed, Stop
from streams.runtime.runner import is_orderly
from streams.state import folder as state_folder
from streams.state.folder import JournalError, StateFolder
from streams.state.journal_file import JournalLocked, locked
from tests.streams.live.test_serving import not_ready
from tests.support.brokers.development import free_ports
from tests.support.meshes.files import changed, loaded

NAMES = ("a", "b", "c")


@pytest.fixture
def file(tmp_path):
    """A mesh of which all nodes are here, on brokers that do not answer."""
    tree = changed(nodes=list(NAMES))
    tree["nodes"] = dict.fromkeys(NAMES, tree["nodes"]["a"])
    broker = {"servers": "127.0.0.1:1"}
    tree["brokers"] = {"mesh": broker, "data": broker, "trust_broker": True}
    return loaded(tmp_path, tree)


class Host:
    """A process's nodes; `act` does with each what the process does."""

    def __init__(self, file, state):
        state.mkdir(exist_ok=True)
        self.process = NodeProcess(file, NAMES, NodeOptions(state))
        self.state, self.closing = state, ExitStack()

    def open(self):
        self.process._prepare()
        self.process._each(lambda node: node.open(self.closing))

    @property
    def started(self):
        return [node.name for node in self.process._nodes]

    @property
    def refused(self):
        return {node.name: node for node in self.process._refused}

    def journal(self, name):
        return StateFolder(self.state).journal(name)


@pytest.fixture
def host(file, tmp_path):
    host = Host(file, tmp_path / "state")
    with host.closing:
        yield host


def is_free(path):
    """Whether no process has the journal open."""
    try:
        with locked(path):
            return True
    except JournalLocked:
        return False


def test_a_journal_that_cannot_be_used_is_refused_alone(host, caplog):
    host.journal("b").write_bytes(b"this is no journal")
    host.open()
    assert host.started == ["a", "c"]
    b = host.refused["b"]
    assert isinstance(b.ended, JournalError)
    assert not b.waits
    assert [is_free(host.journal(name)) for name in NAMES] == [False, True, False]
    assert [record.levelno for record in caplog.records if record.name == "mirrormesh.node.b"] == [
        logging.ERROR
    ]
    assert "the journal" in caplog.text
    host.closing.close()
    host.open()  # where all begin again, it has failed for good
    assert host.started == ["a", "c"]


def test_a_lock_is_waited_for(host):
    with locked(host.journal("a")):
        host.open()
        assert host.started == ["b", "c"]
        assert host.refused["a"].waits
        assert not host.process._can_start(host.refused["a"])
    assert host.process._can_start(host.refused["a"])
    host.closing.close()
    host.open()
    assert host.started == ["a", "b", "c"]


@pytest.mark.parametrize("error", [UsageError("--spent is missing"), JournalError("it is another's price")])
def test_what_fails_after_the_journal_is_open_frees_its_lock(host, error):
    host.open()

    def begin(node):
        if node.name == "c":
            raise error

    host.process._each(begin)
    assert host.started == ["a", "b"]
    assert is_free(host.journal("c"))
    assert str(host.refused["c"].ended) == str(error)
    assert not host.refused["c"].waits


@pytest.mark.parametrize("missing", [True, False])
def test_a_topic_that_is_missing_is_waited_for_and_a_right_is_not(host, missing):
    host.open()

    def check(nodes):
        if any(node.name == "b" for node in nodes):
            raise PreflightFailed(["edge.b: is not there"], missing=missing)
        return [node.name for node in nodes]

    assert host.process._all_or_some(lambda ask: ask(), check, check) == ["a", "c"]
    assert host.refused["b"].waits is missing
    assert is_free(host.journal("b"))


def test_where_all_fail_at_once_the_process_ends_as_one_node_does(host):
    host.open()

    def check(nodes):
        raise PreflightFailed([f"topology: is not there, of {len(nodes)}"], missing=True)

    with pytest.raises(PreflightFailed, match="of 3"):  # the lines of all, once
        host.process._all_or_some(lambda ask: ask(), check, check)
    assert host.started == [*NAMES]


def test_where_the_last_one_fails_too_it_is_a_failure_and_no_mistake_in_the_input(host):
    for name in "ab":
        host.journal(name).write_bytes(b"this is no journal")
    host.open()

    def begin(node):
        raise UsageError("--spent is missing")

    with pytest.raises(Failed, match="node c has failed, and 2 more: --spent is missing") as raised:
        host.process._each(begin)
    assert raised.value.exit_code == 1


def test_one_that_cannot_start_is_in_the_metrics_as_ended(host, file):
    host.journal("b").write_bytes(b"this is no journal")
    host.open()
    b = host.refused["b"]
    certificates = Certificates(file.brokers("b"), logging.getLogger("mirrormesh.nodes"))
    b.show_refused(certificates)
    shared, private = [("127.0.0.1", port) for port in free_ports(2)]
    with ExitStack() as closing:
        endpoints = Endpoints(
            shared, private, logging.getLogger("mirrormesh.nodes"), closing, stop=Stop(), is_over=is_orderly
        )
        endpoints.show({"a": b.metrics, "b": b.metrics}, lambda: None, certificates, host.process._ended)
        told = [not_ready(port) for _, port in (shared, private)]
    assert "b: has ended" in told[0]
    assert "cannot be used" not in told[0]
    assert "b: the journal" in told[1]


def test_a_node_alone_ends_its_process(file, tmp_path):
    (tmp_path / "a.journal").write_bytes(b"this is no journal")
    process = NodeProcess(file, ["a"], NodeOptions(tmp_path))
    process._prepare()
    with pytest.raises(JournalError), ExitStack() as closing:
        process._each(lambda node: HostedNode.open(node, closing))


def test_without_a_boot_id_no_node_may_go_without_syncs(tmp_path, monkeypatch):
    tree = changed(nodes=["a"], topology={"graph": "complete"})
    tree["nodes"] = {"a": tree["nodes"]["a"] | {"durability": "process"}}
    broker = {"servers": "127.0.0.1:1"}
    tree["brokers"] = {"mesh": broker, "data": broker, "trust_broker": True}
    file, missing = loaded(tmp_path, tree), tmp_path / "boot_id"
    monkeypatch.setattr(state_folder, "BOOT_ID", missing)
    monkeypatch.setattr(hosted_node, "BOOT_ID", missing)
    with pytest.raises(UsageError) as refused:
        NodeProcess(file, ["a"], NodeOptions(tmp_path))
    assert str(refused.value) == (
        f"nodes.a.durability is process: must be machine here, as {missing} is missing"
    )
    missing.write_text("a boot\n")
    NodeProcess(file, ["a"], NodeOptions(tmp_path))
