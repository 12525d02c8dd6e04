"""Each client, by each way of connecting to one broker; and what is said of each thing that is wrong."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from nodes.machine.slots import CountSlots
from streams.bus.provision import Admin
from streams.bus.topic_specs import MIB, TopicSpec
from streams.mesh.settings.brokers import BrokerSettings
from streams.tools.broker.folder import certify
from tests.support.brokers.certificates import Authority, encrypted
from tests.support.brokers.data_streams import DataTopic, live_stream
from tests.support.brokers.topics import PATIENCE, bus_of, fresh_topics
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.forked import Forked

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

KEY_PASSWORD = "of the key"  # noqa: S105 # a test's own
WAYS = ["sasl", "sasl-256", "sasl-tls", "sasl-tls-256", "plain", "tls", "tls-encrypted-key", "any host name"]


@pytest.fixture(scope="module")
def ways(tmp_path_factory, secure_broker):
    """The settings of each way to be `admin` on one broker."""
    broker = secure_broker
    pair, ca = certify(broker.folder, "admin", tmp_path_factory.mktemp("admin"))
    sasl = {"servers": broker.address, "username": "admin", "password_file": str(broker.password_file)}
    sasl_tls = sasl | {"servers": broker.sasl_tls, "ca": str(ca)}
    own = {"certificate": str(pair.certificate), "key": str(pair.key)}
    tls = {"servers": broker.tls, "ca": str(ca)} | own
    closed = {"key": str(encrypted(pair.key, KEY_PASSWORD)), "key_password": KEY_PASSWORD}
    elsewhere = broker.tls.replace("127.0.0.1", "127.1")  # a name that its certificate does not have
    return {
        "sasl": sasl,
        "sasl-256": sasl | {"mechanism": "scram-sha-256"},
        "sasl-tls": sasl_tls,
        "sasl-tls-256": sasl_tls | {"mechanism": "scram-sha-256"},
        "plain": sasl_tls | {"mechanism": "plain"},
        "tls": tls,
        "tls-encrypted-key": tls | closed,
        "any host name": tls | {"servers": elsewhere, "verify_host_name": False},
        "elsewhere": tls | {"servers": elsewhere},
    }


@pytest.fixture
def connected(ways):
    """The settings of a way, as a mesh file's."""
    return lambda way: BrokerSettings.model_validate(ways[way])


# --------------------------------------------------------------------------------- each way, each client


@pytest.mark.parametrize("way", WAYS)
def test_producer_and_consumer(connected, way):
    (topic,) = fresh_topics(connected("sasl"), "edge")
    bus = bus_of(connected(way), topic)
    try:
        bus.send(topic, b"sent")
        assert bus.flush(PATIENCE)
        assert list(bus.read(topic, 0)) == [b"sent"]
    finally:
        bus.close()


@pytest.mark.parametrize("way", WAYS)
def test_admin(connected, way):
    name = f"made-{uuid.uuid4().hex[:12]}"
    with Admin(connected(way)) as admin:
        admin.create([TopicSpec(name, "made", MIB)])
        assert set(admin.topics([name])) == {name}


@pytest.mark.parametrize("way", WAYS)
def test_data_stream(connected, ways, tmp_path, way):
    settings = connected("sasl")
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "admin",
        "sasl.password": settings.password.get_secret_value(),
    }
    topic = DataTopic(settings.servers, **login)
    topic.count_up(3)
    # a thread that is left behind at the end fails this test: with TLS the broker takes its time to hang up
    with live_stream(topic, tmp_path, slots=lambda: CountSlots(3), broker=connected(way)) as live:
        assert live.take(1) == ([0.0, 1.0, 2.0], ((0, 3),))
    assert live.failed is None


# ------------------------------------------------------------------------------------- what goes wrong


def wrong_password(ways, folder):
    (folder / "password").write_text("hunter2\n")
    return "sasl-tls", {"password_file": str(folder / "password")}, "invalid credentials"


def wrong_ca(ways, folder):
    ca = Authority(folder).ca
    return "sasl-tls", {"ca": str(ca)}, f"the broker's certificate is not from a CA in {ca} but from OU="


def wrong_host_name(ways, folder):
    return "elsewhere", {}, "the broker's certificate names localhost, 127.0.0.1, not 127.1: servers must"


def certificate_of_another_ca(ways, folder):
    pair = Authority(folder).issue(user="admin")
    own = {"certificate": str(pair.certificate), "key": str(pair.key)}
    return (
        "tls",
        own,
        f"refuses the own certificate {pair.certificate} (certificate unknown): is it from a CA",
    )


def certificate_ended(ways, folder):
    pair = Authority(folder).issue(user="admin", days=-1)
    own = {"certificate": str(pair.certificate), "key": str(pair.key)}
    return "tls", own, f"the own certificate {pair.certificate} ended on "


def clock_behind(ways, folder):
    pair = Authority(folder).issue(user="admin", begins=datetime.now(UTC) + timedelta(days=1))
    own = {"certificate": str(pair.certificate), "key": str(pair.key)}
    return "tls", own, f"the own certificate {pair.certificate} begins on "


WRONG = [
    wrong_password,
    wrong_ca,
    wrong_host_name,
    certificate_of_another_ca,
    certificate_ended,
    clock_behind,
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_one_line_to_whoever_provisions_or_starts_a_node(ways, tmp_path, wrong):
    way, changes, words = wrong(ways, tmp_path)
    settings = {key: value for key, value in (ways[way] | changes).items() if value is not None}
    path = small_mesh_file(tmp_path, settings["servers"])
    tree = yaml.safe_load(path.read_text())
    tree["brokers"] |= {"mesh": settings, "data": settings}
    path.write_text(yaml.safe_dump(tree))
    node = next(iter(tree["mesh"]["nodes"]))
    commands = {"provision": (path,), "node": (path, node, "--state", tmp_path / "state")}
    processes = [Forked(tmp_path, name, name, *rest) for name, rest in commands.items()]
    for process in processes:
        assert process.ends() == 1, process.log
        (line,) = process.path.read_text().splitlines()
        assert f"{settings['servers']}: " in line
        assert words in line
        assert "hunter2" not in line
