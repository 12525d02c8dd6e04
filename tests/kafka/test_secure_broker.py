import socket
import stat
import struct
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AclOperation, ResourceType

from streams.bus.bus import Unreachable
from streams.bus.logs import reach
from streams.mesh.settings.brokers import BrokerSettings
from streams.tools.broker.broker import start, status, stop
from streams.tools.broker.folder import CONTROLLER
from tests.support.brokers.development import Client, started
from tests.support.brokers.users import add_user, allow, rule
from tests.support.processes.in_process import Commands

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("broker") / "secure"
    try:
        started(folder, secure=True)
        yield folder
    finally:
        stop(folder)


@pytest.fixture
def secure(folder):
    return status(folder)


def admin(broker):
    return Client(broker, "admin", broker.password_file.read_text().strip())


def answers(port):
    """Whether a client that has not logged in is told what the cluster is."""
    describe_cluster, version, correlation, no_name, no_tags = 60, 0, 1, -1, b"\0"
    header = struct.pack(">hhih", describe_cluster, version, correlation, no_name) + no_tags
    request = header + b"\0" + no_tags  # without the operations that are allowed
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        try:
            return connection.recv(4) != b""
        except ConnectionResetError:
            return False


def test_a_user_does_what_the_admin_allows(secure):
    root = admin(secure)
    topic = root.new_topic()
    add_user(root.admin, "ann", "ann's own")
    ann = Client(secure, "ann", "ann's own")
    assert ann.topics() == set()
    allow(root.admin, rule("ann", ResourceType.TOPIC, topic, AclOperation.WRITE))
    ann.send(topic, b"hers")
    with pytest.raises(KafkaException, match="AUTHORIZATION_FAILED"):
        ann.new_topic()
    with pytest.raises(KafkaException, match="AUTHORIZATION_FAILED"):
        ann.read(topic, 1)
    stop(secure.folder)
    again = start(secure.folder)
    assert again.secure
    assert admin(again).topics() == {topic}
    Client(again, "ann", "ann's own").send(topic, b"hers again")


def test_nobody_enters_without_a_password(secure):
    for stranger in (Client(secure), Client(secure, "admin", "guessed"), Client(secure, "nobody", "x")):
        with pytest.raises(KafkaException, match="_TRANSPORT"):
            stranger.topics(2)


def test_neither_broker_nor_controller_answers_a_stranger(secure, broker):
    for above in (0, CONTROLLER):
        assert answers(broker.port + above)
        assert not answers(secure.port + above)


def test_the_password_is_its_owners_alone(secure):
    password = secure.password_file.read_text().strip()
    assert len(password) >= 32
    assert password not in Path(f"/proc/{secure.pid}/cmdline").read_text()
    for path in secure.folder.rglob("*"):
        if path.is_file() and password.encode() in path.read_bytes():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert password not in secure.log.read_text()
    assert stat.S_IMODE(secure.folder.stat().st_mode) == 0o700
    assert not (secure.folder / "users.arguments").exists()
    for secret in ("ca.key", "server.pem"):
        assert stat.S_IMODE((secure.folder / secret).stat().st_mode) == 0o600


def test_the_command_line_says_who_may_enter_and_not_how(secure, capsys):
    call = Commands(capsys)
    outcome = call("broker", "status", "--folder", secure.folder)
    assert outcome.code == 0
    options = ("--folder", secure.folder, "--port", secure.port, "--secure")
    assert call("broker", "start", *options) == outcome  # it runs, and is left alone
    assert "\naccess  users and their ACLs; user admin may do everything\n" in outcome.out
    for security, address in (("sasl", secure.address), ("sasl-tls", secure.sasl_tls), ("tls", secure.tls)):
        assert f"\n        security {security:9} {address}" in outcome.out
    assert f"\nsecret  the password of admin: {secure.password_file}\n" in outcome.out
    assert f"\nca      {secure.ca}\n" in outcome.out
    assert secure.password_file.read_text().strip() not in outcome.out


def test_a_client_without_credentials_is_told_that_they_are_missing(secure):
    with pytest.raises(Unreachable) as raised:
        reach(BrokerSettings(servers=secure.address))
    reason = "the broker does not answer without credentials: username and password are missing"
    assert str(raised.value) == f"{secure.address}: {reason}"
