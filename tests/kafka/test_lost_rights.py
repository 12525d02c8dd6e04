"""Processes that lose a right while they run: each says once which one, on which topic, and what gives it."""

import pytest

from streams.bus.errors import given_by
from streams.bus.rights import Grant
from streams.codec.topics import edges_of
from streams.mesh.settings.parties import feeder_user, scheduler_user
from tests.support.brokers.feeding import stored
from tests.support.brokers.topics import until
from tests.support.brokers.users import Users, secure_mesh_file
from tests.support.processes.mesh import LiveMesh

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


class Running:
    """A mesh whose processes have a user each."""

    def __init__(self, users, mesh):
        self.users, self.mesh = users, mesh
        self.scheduler = self._be(scheduler_user(mesh.file.mesh.name), mesh.scheduler)
        self.nodes = {
            name: self._be(name, lambda name=name: mesh.node(name)) for name in mesh.file.mesh.nodes
        }
        for name in self.nodes:
            self._be(
                feeder_user(name),
                lambda name=name: mesh.start(f"feed-{name}", "feed", mesh.path, name, "--rate", 20),
            )

    def _be(self, user, start):
        self.users.be(user)
        return start()

    def goes_on(self, node):
        """Wait until the node makes more decisions."""
        before = self._decided(node)
        until(lambda: self._decided(node) > before)

    def _decided(self, node):
        return len(stored(self.users.settings("admin"), self.mesh.file.data_topics(node).decisions))


@pytest.fixture
def running(tmp_path, secure_broker, monkeypatch):
    path = secure_mesh_file(tmp_path, secure_broker, rounds=100_000)
    users = Users(path, secure_broker, monkeypatch)
    users.provision()
    with LiveMesh(path) as mesh:
        found = Running(users, mesh)
        for node in found.nodes:
            found.goes_on(node)
        yield found


def said(process, subject, rights):
    """The lines of a log that tell of a right."""
    words = f"{subject}: these credentials may not {rights} ({given_by()})"
    return [line for line in process.log.splitlines() if words in line]


def test_a_process_that_loses_a_right_says_once_which_one_and_what_gives_it(running):
    topics = running.mesh.file.resolved.topics
    a, b, c = running.nodes
    own = Grant(f"User:{a}", "topic", edges_of(topics, a), "prefix", "Write")
    running.users.without(own)
    until(lambda: all(said(running.nodes[a], topics.edge(a, other), "write") for other in (b, c)))
    running.users.provision()
    for node in running.nodes:
        running.goes_on(node)  # what was refused was sent again
    for other in (b, c):
        (line,) = said(running.nodes[a], topics.edge(a, other), "write")
        assert " ERROR " in line
    assert "AUTHORIZATION" not in running.nodes[a].log

    ends(running, running.nodes[b], b, topics.edge(a, b), "read", "Read")
    ends(running, running.nodes[c], c, running.mesh.file.data_topics(c).records, "read", "Read")
    ends(
        running,
        running.nodes[a],
        a,
        topics.mesh + "." + topics.run + "." + a,
        "commit offsets",
        "Read",
        "group",
    )
    ends(running, running.scheduler, scheduler_user(topics.mesh), topics.progress(a), "read", "Read")


def ends(running, process, user, name, rights, operation, kind="topic"):
    """Take the right away; the process ends, and the reason is its one error since (Faust has more)."""
    before = len(process.log.splitlines())
    running.users.without(Grant(f"User:{user}", kind, name, "literal", operation))
    assert process.ends() == 1
    subject = name if kind == "topic" else f"{kind} {name}"
    (line,) = said(process, subject, rights)
    ours = (" ERROR node ", " ERROR scheduler", " ERROR kafka")
    assert [one for one in process.log.splitlines()[before:] if any(map(one.__contains__, ours))] == [line]
