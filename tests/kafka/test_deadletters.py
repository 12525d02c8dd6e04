"""`mirrormesh deadletters` lists letters of peers and of the feed, and shows no content unless told."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from streams.bus.provision import provision
from streams.codec import Reason, Refused, encode_dead_letter
from streams.mesh.file import load
from streams.records.faults import Fault
from streams.tools.feed.lines import Line, encode_letter
from tests.support.brokers.topics import bus_of, connection
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.in_process import Commands

pytestmark = pytest.mark.kafka

SECRET = b"alice;900;\xff\n"
LINE = Line(17, SECRET, None, b"", Fault("amount", "not a number"))


@pytest.fixture
def mesh(tmp_path, broker):
    """A mesh file, a node of it, and what writes letters of both kinds."""
    path = small_mesh_file(tmp_path, broker.address)
    file = load(path)
    provision(file)
    node = next(iter(file.mesh.nodes))
    peers, own = file.resolved.topics.dead_letters(node), file.data_topics(node).dead_letters
    bus = bus_of(connection(broker.address), peers, own)
    for number in range(3):
        bus.send(peers, encode_dead_letter("m.r.edge.b.a", bytes([number]), Refused(Reason.DIGEST, "x")))
    bus.send(peers, b"no letter")
    bus.send(own, encode_letter(LINE))
    assert bus.flush(30)
    yield path, node, peers, own
    bus.close()


def test_they_are_listed_without_what_they_hold(mesh, capsys):
    path, node, peers, own = mesh
    done = Commands(capsys)("deadletters", path, node)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == f"{peers}: 4 letters"
    assert [line.split()[0] for line in lines[1:5]] == ["0", "1", "2", "3"]
    assert lines[1].endswith("m.r.edge.b.a: digest")
    assert lines[4].endswith(": the letter itself cannot be read")
    assert lines[5] == f"{own}: 1 letter"
    assert lines[6].endswith("line 17: amount: not a number")
    assert "alice" not in done.out
    sent = datetime.fromisoformat(lines[6].split()[1])
    assert abs(datetime.now(UTC) - sent) < timedelta(minutes=5)


def test_the_owner_may_ask_for_what_they_hold_and_for_fewer(mesh, capsys):
    path, node, peers, _ = mesh
    done = Commands(capsys)("deadletters", path, node, "--content", "--last", 2, "--json")
    found = json.loads(done.out)
    assert (found["peers"]["topic"], found["peers"]["kept"]) == (peers, 4)
    assert [letter["offset"] for letter in found["peers"]["last"]] == [2, 3]
    (letter,) = found["records"]["last"]
    assert (letter["source"], letter["reason"]) == ("line 17", "amount: not a number")
    assert letter["content"] == r"alice;900;\\xff\n"
    without = json.loads(Commands(capsys)("deadletters", path, node, "--json").out)
    assert "content" not in json.dumps(without)


def test_an_unknown_node_is_refused(mesh, capsys):
    path, *_ = mesh
    done = Commands(capsys)("deadletters", path, "nobody")
    assert (done.code, done.err.count("\n")) == (2, 1)
