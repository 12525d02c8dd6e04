"""A password and a certificate are changed while a mesh runs: a restart each, and no round is lost."""

from contextlib import suppress

import pytest
import yaml
from confluent_kafka.admin import AclOperation, ResourceType

from streams.bus.bus import BusError
from streams.mesh.settings.brokers import BrokerSettings
from streams.tools.broker.folder import certify
from tests.kafka.test_equality import equal
from tests.kafka.test_rolling_restart import begun, each_round_of_each_node, restarted
from tests.support.brokers.development import Client
from tests.support.brokers.topics import fresh_topics, until
from tests.support.brokers.users import add_user, allow, rule
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.mesh import LiveMesh, released_in_memory

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS, USER = 80, "ann"
PASSWORD = "known-to-ann"  # noqa: S105 # a test's own


class Secrets:
    """The password and the certificate of a user, in files, as the broker knows them."""

    def __init__(self, broker, folder):
        self._broker, self._folder, self._turn = broker, folder, 0
        self._root = Client(broker, "admin", broker.password_file.read_text().strip()).admin
        self.change()
        kinds = (ResourceType.TOPIC, ResourceType.GROUP)
        for user in (USER, f"CN={USER}"):  # by password, and by certificate
            allow(self._root, *(rule(user, kind, "*", AclOperation.ALL) for kind in kinds))

    def change(self):
        """Make new ones, at the old paths; return the old certificate."""
        self._turn += 1
        password, old = f"{PASSWORD} {self._turn}", self._folder / f"{USER}.crt"
        before = old.read_text() if old.exists() else None
        add_user(self._root, USER, password)
        (self._folder / "password").write_text(password)
        certify(self._broker.folder, USER, self._folder)
        return before

    def brokers(self):
        """What a mesh file says: the mesh's broker by certificate, the data's by password."""
        ca = {"ca": str(self._folder / "ca.crt")}
        own = {"certificate": str(self._folder / f"{USER}.crt"), "key": str(self._folder / f"{USER}.key")}
        user = {"username": USER, "password_file": str(self._folder / "password")}
        return {
            "mesh": {"servers": self._broker.tls, **ca, **own},
            "data": {"servers": self._broker.sasl_tls, **ca, **user},
            "trust_broker": True,
        }


def may_make_topics(settings):
    """Whether the broker knows the user, the rights and the certificate by now."""
    with suppress(BusError):
        return bool(fresh_topics(BrokerSettings.model_validate(settings), "probe"))
    return False


def test_rotating_a_password_and_a_certificate_loses_no_round(tmp_path, new_broker):
    broker = new_broker(secure=True)
    secrets = Secrets(broker, tmp_path)
    path = small_mesh_file(tmp_path, broker.tls, rounds=ROUNDS)
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"brokers": secrets.brokers()}))
    until(lambda: all(may_make_topics(secrets.brokers()[side]) for side in ("mesh", "data")))
    with LiveMesh(path) as mesh:
        turns = begun(mesh)
        assert secrets.change() != (tmp_path / f"{USER}.crt").read_text()
        restarted(mesh, turns)
        values = mesh.values()
        equal(values, released_in_memory(path))
    held = [
        path.read_bytes()
        for path in tmp_path.rglob("*")
        if broker.folder not in path.parents and path.is_file()
    ]
    assert sum(PASSWORD.encode() in one for one in held) == 1, "a log or a journal has it"
    each_round_of_each_node(mesh, values)
    assert turns[1] < turns[-1] < ROUNDS, f"rotated after the run was over: {turns}"
