"""Three institutions, each with a Kafka of its own, and one in common: TLS everywhere, a user a party.

From the mesh file to the end of the run, with what `provision` and `export` wrote for each and nothing else.
"""

import pytest
import yaml

from streams.bus.bus import Denied
from streams.bus.logs import reach
from streams.codec.topics import DataTopics
from streams.mesh.file import load
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.files import read_yaml
from tests.kafka.test_equality import SIMULATED, WAITING, equal
from tests.support.brokers.feeding import stored
from tests.support.brokers.users import reads
from tests.support.processes.mesh import released, released_in_memory
from tests.support.processes.sites import INCOME, Site, admin, finish, login, own_part
from tests.support.published.exports import IMAGE

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTIES = {
    "bank-a": {"bank-1": "bank-a", "bank-2": "bank-a"},
    "bank-b": {"bank-3": "bank-3"},
    "bank-c": {"bank-4": "bank-4"},
}
"""The nodes of each, and the user of each node: bank-a has one for both."""
SHARED = {
    **read_yaml(INCOME)["mesh"],
    "parties": {
        "bank-a": {"nodes": ["bank-1", "bank-2"], "user": "bank-a"},
        "bank-b": {"nodes": ["bank-3"]},
        "bank-c": {"nodes": ["bank-4"]},
    },
    "rounds": 10,
    "privacy": SIMULATED | {"gradient_bound": 2},
    **WAITING,
    "slots": {"by": "count", "size": 220, "timeout": "none"},
}


@pytest.fixture
def common(new_broker):
    return new_broker("common", secure=True)


@pytest.fixture
def operator(tmp_path, common):
    with_operator = Site(tmp_path / "operator", SHARED, common)
    with_operator.do(
        "provision",
        with_operator.write("admin.yaml", brokers={"mesh": admin(common)}),
        "--only",
        "mesh",
        "--users",
        "--output",
        "users",
    )
    yield with_operator
    with_operator.end()


@pytest.fixture
def sites(tmp_path, common, operator, new_broker):
    found = {}
    for party, users in PARTIES.items():
        found[party] = site = Site(
            tmp_path / party, SHARED, common, new_broker(f"{party}-kafka", secure=True)
        )
        (user,) = set(users.values())
        site.receive((operator.folder / "users" / user, "mesh-password"), (common.ca, "mesh-ca.crt"))
        site.provision_data(users)
    yield found
    for site in found.values():
        site.end()


def test_three_institutions_learn_together_and_none_does_what_is_not_its_business(
    tmp_path, common, operator, sites
):
    for party, site in sites.items():
        for node in PARTIES[party]:
            site.feed(node)
    finish(*sites.values())
    start_scheduler(operator)
    for party, site in sites.items():
        start_nodes(site, party)
    finish(*sites.values(), operator)
    whole = tmp_path / "whole.yaml"
    nodes = {node: own_part(node) for users in PARTIES.values() for node in users}
    whole.write_text(yaml.safe_dump({"mesh": SHARED, "nodes": nodes}))
    auditor = settings(operator, common, "income-auditor")
    equal(released_as(auditor, whole), released_in_memory(whole))
    kept_apart(common, operator, sites)
    no_secret_is_told(tmp_path, operator, sites)


def start_scheduler(operator):
    """Start the scheduler as the operator's export says."""
    user = "income-scheduler"
    broker = login(operator.mesh_broker, user, operator.folder / "users" / user, operator.mesh_broker.ca)
    operator.do(
        "export",
        "kubernetes",
        operator.write("mesh.yaml", brokers={"mesh": broker}),
        "--mesh-operator",
        "--output",
        "export",
        "--image",
        IMAGE,
    )
    operator.start_exported(
        "scheduler", {"mesh-password": operator.folder / "users" / user, "mesh-ca": operator.mesh_broker.ca}
    )


def start_nodes(site, party):
    """Write the own parts of a party, and start its nodes as its export says."""
    elsewhere = {node: f"{node}.yaml" for users in PARTIES.values() for node in users}
    for node, user in PARTIES[party].items():
        data = login(site.broker, user, site.folder / "data-users" / user, site.broker.ca)
        brokers = {"mesh": site.mesh_login(user), "data": data}
        (site.folder / f"{node}.yaml").write_text(yaml.safe_dump({**own_part(node), "brokers": brokers}))
    site.do(
        "export",
        "kubernetes",
        site.write("mesh.yaml", nodes=elsewhere),
        "--party",
        party,
        "--output",
        "export",
        "--image",
        IMAGE,
    )
    handed = site.folder / "secrets"
    for node, user in PARTIES[party].items():
        secrets = {
            "mesh-password": handed / "mesh-password",
            "mesh-ca": handed / "mesh-ca.crt",
            "data-password": site.folder / "data-users" / user,
            "data-ca": site.broker.ca,
        }
        site.start_exported(f"node-{node}", secrets)


def settings(operator, broker, user):
    """How a user of the mesh broker reaches it."""
    return BrokerSettings.model_validate(login(broker, user, operator.folder / "users" / user, broker.ca))


def released_as(user, path):
    """What all edges hold, read by that user."""
    file = load(path)
    return released(file, lambda topic: [message.value() for message in stored(user, topic)])


def kept_apart(common, operator, sites):
    """Assert that no party reads what is another's, on the common Kafka or on the other's own."""
    topics = load(operator.folder / "mesh.yaml").resolved.topics
    bank_a, bank_b = settings(operator, common, "bank-a"), settings(operator, common, "bank-3")
    assert reads(bank_a, topics.edge("bank-1", "bank-2"))
    assert reads(bank_b, topics.edge("bank-2", "bank-3"))
    assert not reads(bank_a, topics.edge("bank-4", "bank-3"))
    assert not reads(bank_b, topics.edge("bank-1", "bank-2"))
    assert not reads(bank_b, topics.progress("bank-1"))
    for party, node in (("bank-a", "bank-1"), ("bank-b", "bank-3")):
        own = sites[party]
        user = PARTIES[party][node]
        there = login(own.broker, user, own.folder / "data-users" / user, own.broker.ca)
        assert reads(BrokerSettings.model_validate(there), DataTopics(topics.mesh, node).records)
    stranger = bank_a.model_copy(update={"servers": sites["bank-b"].broker.sasl_tls})
    with pytest.raises(Denied):
        reach(stranger)


def no_secret_is_told(folder, operator, sites):
    """Assert that no log, export or journal holds a password."""
    passwords = {
        path.read_bytes().strip()
        for site in (operator, *sites.values())
        for path in site.folder.glob("*users/*")
    }
    assert len(passwords) == 12
    found = [
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not {"secrets", "users", "data-users"} & set(path.parts)
        and "-kafka" not in str(path)
        and "common" not in path.parts
        if any(password in path.read_bytes() for password in passwords)
    ]
    assert not found
