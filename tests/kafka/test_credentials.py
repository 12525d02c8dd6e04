"""A process with credentials of its own, on a broker that allows only what it was told to."""

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from pydantic import SecretStr

from streams.bus.bus import Denied
from streams.bus.errors import given_by
from streams.bus.logs import reach
from streams.bus.preflight import PreflightFailed, preflight
from streams.bus.provision import Admin, AdminError
from streams.bus.rights import Access
from streams.bus.topic_specs import MIB, TopicSpec
from streams.mesh.settings.brokers import BrokerSettings
from tests.support.brokers.development import Client
from tests.support.brokers.topics import PATIENCE, bus_of, fresh_topics, until
from tests.support.brokers.users import add_user, allow, rule

pytestmark = pytest.mark.kafka


def user(broker, name, password):
    return BrokerSettings(servers=broker.address, username=name, password=SecretStr(password))


def test_what_is_not_allowed_is_said_never_silence(new_broker, monkeypatch):
    monkeypatch.setattr("streams.bus.logs.PATIENCE", 1.0)
    broker = new_broker(secure=True)
    password = broker.password_file.read_text().strip()
    root, ann = user(broker, "admin", password), user(broker, "ann", "hers")
    admin = Client(broker, "admin", password).admin
    add_user(admin, "ann", "hers")
    mine, written, secret = fresh_topics(root, "mine", "written", "secret")
    for topic, operation in ((mine, AclOperation.READ), (written, AclOperation.WRITE)):
        allow(admin, rule("ann", ResourceType.TOPIC, topic, operation))
    until(lambda: preflighted(ann, Access((mine,), (written,))))

    with pytest.raises(PreflightFailed) as failed:
        preflight(ann, Access((mine, written, secret), (mine, written), ("ann-group",)), {})
    assert [line.partition(": ")[2] for line in failed.value.lines] == [
        f"{mine}: these credentials may not write",
        f"{written}: these credentials may not read",
        f"{secret}: these credentials may not read",
        f"group ann-group: these credentials may not commit offsets ({given_by()})",
    ]
    with pytest.raises(Denied, match=secret):
        bus_of(ann, mine, secret)
    with Admin(ann) as refused:
        with pytest.raises(
            AdminError, match=rf"topic {secret}: these credentials may not see it \(Describe\)"
        ):
            refused.topics([secret])
        with pytest.raises(AdminError, match=r"topic hers: these credentials may not make it \(Create\)"):
            refused.create([TopicSpec("hers", "hers", MIB)])
    for wrong in (user(broker, "ann", "not hers"), user(broker, "nobody", "hers")):
        with pytest.raises(Denied, match="invalid credentials") as denied:
            reach(wrong)
        assert "hers" not in str(denied.value)
    reads_and_writes_what_it_may(ann, root, mine, written)


def preflighted(at, access):
    try:
        return preflight(at, access, {}) == ()
    except PreflightFailed:
        return False  # the broker has not heard of the rules yet


def reads_and_writes_what_it_may(ann, root, mine, written):
    bus, other = bus_of(ann, mine, written), bus_of(root, mine, written)
    bus.send(written, b"from ann")
    other.send(mine, b"for ann")
    assert bus.flush(PATIENCE)
    assert other.flush(PATIENCE)
    assert list(other.read(written, 0)) == [b"from ann"]
    seen, failures = [], []
    reader = bus.subscribe(
        {mine: 0, written: 0},
        lambda *record: seen.append(record[:3]),
        lambda *failure: failures.append(failure),
    )
    until(lambda: seen and failures)
    assert seen == [(mine, 0, b"for ann")]
    assert [(topic, type(error)) for topic, error in failures] == [(written, Denied)]
    with pytest.raises(Denied, match=written):
        bus.read(written, 0)
    reader.close()
    bus.close()
    other.close()
