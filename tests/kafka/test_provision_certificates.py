"""`mirrormesh provision --users` where users show certificates: `CN=<user>` each, without a password."""

import pytest
import yaml

from streams.bus.preflight import PreflightFailed, preflight
from streams.bus.provision import provision
from streams.bus.rights import Grant, Quota, node_on_mesh
from streams.bus.rights import scheduler as planner
from streams.bus.users import UserAdmin
from streams.mesh.file import load
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.parties import auditor_user, scheduler_user
from streams.tools.broker.folder import certify
from tests.kafka.test_quota import sent
from tests.support.brokers.topics import bus_of, until
from tests.support.brokers.users import reads
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.in_process import Commands

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


class Holders:
    """Who hold certificates of a broker's CA; a command is the one that `be` was told."""

    def __init__(self, folder, broker, environment):
        self._folder, self._broker, self._environment = folder, broker, environment

    def settings(self, user):
        """How that user reaches the broker."""
        pair, ca = certify(self._broker.folder, user, self._folder / "certificates")
        own = {"certificate": str(pair.certificate), "key": str(pair.key)}
        return {"servers": self._broker.tls, "security": "tls", "ca": str(ca)} | own

    def reach(self, user):
        """The same, checked."""
        return BrokerSettings.model_validate(self.settings(user))

    def be(self, user):
        """Be that user from now on."""
        found = self.settings(user)
        self._environment.setenv("CERTIFICATE", found["certificate"])
        self._environment.setenv("KEY", found["key"])

    def mesh_file(self):
        """Write the file of a mesh on that broker; return its path."""
        path = small_mesh_file(self._folder, self._broker.tls)
        tree = yaml.safe_load(path.read_text())
        variables = {"certificate": "${CERTIFICATE}", "key": "${KEY}"}
        tree["brokers"] = {"mesh": self.settings("admin") | variables}
        path.write_text(yaml.safe_dump(tree))
        return path

    def may(self, user, access):
        """Whether a user's process finds all its rights."""
        try:
            preflight(self.reach(user), access, {})
        except PreflightFailed:
            return False
        return True


@pytest.fixture
def holders(tmp_path, secure_broker, monkeypatch):
    return Holders(tmp_path, secure_broker, monkeypatch)


def test_users_with_certificates_get_their_rights_and_no_passwords(holders, capsys):
    call, path = Commands(capsys), holders.mesh_file()
    holders.be("admin")
    file = load(path)
    name, topics, (a, b, c) = file.mesh.name, file.resolved.topics, file.mesh.nodes
    provision(file, only="mesh")
    made = call("provision", path, "--only", "mesh", "--users")
    assert made.code == 0, made.err
    assert "password" not in made.out
    assert f"  allowed User:CN={name}-auditor: Read on topics {name}.run-1.*\n" in made.out
    assert f"  limited CN={a} to " in made.out
    right = "right: nothing is missing or too much\n"
    until(lambda: call("provision", path, "--only", "mesh", "--check").out == right)
    work = {
        node: node_on_mesh(topics, node, *file.resolved.graph.neighbours(node)) for node in file.mesh.nodes
    }
    work[scheduler_user(name)] = planner(topics, list(file.mesh.nodes))
    for user, access in work.items():
        until(lambda user=user, access=access: holders.may(user, access))
        assert not any(holders.may(user, other) for other in work.values() if other is not access)
    bus = bus_of(holders.reach(a), topics.edge(a, b))
    bus.send(topics.edge(a, b), b"a release")
    assert bus.flush(120.0)
    bus.close()
    may_read = {user: reads(holders.reach(user), topics.edge(a, b)) for user in (b, c, auditor_user(name))}
    assert may_read == {b: True, c: False, auditor_user(name): True}
    taken(holders, call, path, Grant(f"User:CN={a}", "topic", topics.progress(a), "literal", "Write"))
    held_up(holders, a, topics.edge(a, b))


def taken(holders, call, path, grant):
    """Assert that a right that is taken away is named, and given again."""
    with UserAdmin(holders.reach("admin")) as admin:
        admin.revoke([grant])
        until(lambda: grant not in admin.grants())
        checked = call("provision", path, "--only", "mesh", "--check")
        assert (checked.code, len(checked.err.splitlines())) == (1, 1)
        assert checked.err.endswith(f": missing: {grant.principal}: Write on topic {grant.name}\n")
        assert call("provision", path, "--only", "mesh", "--users").code == 0
        until(lambda: grant in admin.grants())


def held_up(holders, user, topic):
    """Assert that a quota holds up the user of that name."""
    with UserAdmin(holders.reach("admin")) as admin:
        admin.set_quotas({f"CN={user}": Quota(1_000, 1_000_000, 100)})
        until(lambda: admin.quotas()[f"CN={user}"]["producer_byte_rate"] == 1_000)
    assert sent(holders.reach(user), {topic: 5_000}, 5) > 0
