"""A mesh of parties apart runs from what export writes for each: its own file, secrets, topics and rights."""

import urllib.request

import pytest
import yaml
from confluent_kafka.admin import NewTopic

from streams.bus.access import data_users
from streams.bus.grants import Grant, grants, principal
from tests.kafka.test_equality import equal
from tests.support.brokers import free_ports
from tests.support.exports import for_operator, for_party
from tests.support.kafka import PATIENCE, until
from tests.support.pods import Pod, objects
from tests.support.processes import LiveMesh, released_in_memory
from tests.support.users import Users, add_user, secure_mesh_file

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS = 30
ONE_BROKER = {"replicas": 1, "min.insync.replicas": 1}


def test_parties_apart_run_from_what_export_wrote(tmp_path, secure_broker, monkeypatch):
    path = secure_mesh_file(tmp_path, secure_broker, rounds=ROUNDS)
    users = Users(path, secure_broker, monkeypatch)
    exported = apart(path, secure_broker, users.file.mesh)
    operator = for_operator(exported)
    make_topics(users, operator)
    passwords = make_users(users, operator)
    with LiveMesh(path) as mesh:  # finds the topics right, and adds those of data
        mesh.feed_all()
        ca = secure_broker.ca.read_text()
        pods = {mesh.file.mesh.name + "-scheduler": operator}
        pods |= {node: for_party(exported, node) for node in mesh.file.mesh.nodes}
        ports = iter(free_ports(2 * len(pods)))
        running = []
        for user, files in pods.items():
            secret = dict.fromkeys(("mesh-ca", "data-ca"), ca)
            secret |= dict.fromkeys(("mesh-password", "data-password", "MESH_PASSWORD"), passwords[user])
            count = 1 if files is operator else 2
            running.append(Pod(files, tmp_path / "pods" / user, secret, [next(ports) for _ in range(count)]))
        for pod in reversed(running):  # the scheduler last: before it nothing ends
            for name, value in pod.environment.items():
                monkeypatch.setenv(name, value)
            mesh.start(pod.label, *pod.mount())
            for port in pod.ports.values():
                until(lambda port=port: alive(port))
        mesh.finish()
        users.be("admin")
        equal(mesh.values(), released_in_memory(path))


def apart(path, broker, mesh):
    """Write the mesh file of parties apart: each node reaches the brokers over TLS as itself."""
    tree = yaml.safe_load(path.read_text())

    def side(user, **login):
        return {"servers": broker.sasl_tls, "username": user, "ca": str(broker.ca), **login}

    tree["brokers"] = {"mesh": side(f"{mesh.name}-scheduler", password="${MESH_PASSWORD}")}  # noqa: S106
    for node, own in tree["nodes"].items():
        sides = {which: side(node, password_file=f"{node}.password") for which in ("mesh", "data")}
        own["brokers"] = {**sides, "trust_broker": True}
    exported = path.with_name("apart.yaml")
    exported.write_text(yaml.safe_dump(tree))
    return exported


def of_kind(files, kind):
    return {name: one["spec"] for (made, name), one in objects(files).items() if made == kind}


def make_topics(users, files):
    """Make the topics as Strimzi would, but on a single broker."""
    asked = [
        NewTopic(
            name,
            spec["partitions"],
            1,
            config={key: str(value) for key, value in spec["config"].items() if key not in ONE_BROKER},
        )
        for name, spec in of_kind(files, "KafkaTopic").items()
    ]
    client = users.client("admin")
    for future in client.admin.create_topics(asked).values():
        future.result(PATIENCE)


def make_users(users, files):
    """Make the users as Strimzi would, and those of the data broker; return their passwords."""
    mesh, client = users.file.resolved, users.client("admin")
    allowed = [
        Grant(f"User:{name}", place["type"], place["name"], place["patternType"], word)
        for name, spec in of_kind(files, "KafkaUser").items()
        for place, words in ((acl["resource"], acl["operations"]) for acl in spec["authorization"]["acls"])
        for word in words
    ]
    for user in data_users(mesh, mesh.settings.nodes):
        allowed += grants(principal(user.name, tls=False), user.rules)
    passwords = {name: f"of-{name}" for name in of_kind(files, "KafkaUser")}
    for name, password in passwords.items():
        add_user(client.admin, name, password)
    with users.admin() as admin:
        admin.grant(allowed)
        until(lambda: set(allowed) <= set(admin.grants()))
    return passwords


def alive(port):
    """Whether a kubelet would find it alive."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False
