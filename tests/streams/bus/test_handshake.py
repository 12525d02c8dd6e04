"""Why a broker and a client refuse each other's certificates: each cause is one line that names it."""

from datetime import UTC, datetime, timedelta

import pytest

from streams.bus.bus import Denied, Unreachable
from streams.bus.logs import reach
from streams.mesh.settings.brokers import BrokerSettings
from tests.support.brokers.certificates import Authority, tls_server

TOMORROW = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("theirs"), "theirs")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr("streams.bus.logs.PATIENCE", 0.3)


def said(port, authority, pair=None, **settings):
    """What is said of the server by a client with that CA and certificate."""
    own = {} if pair is None else {"certificate": str(pair.certificate), "key": str(pair.key)}
    servers = f"127.0.0.1:{port}"
    broker = BrokerSettings(servers=servers, ca=str(authority.ca), **own, **settings)
    with pytest.raises((Denied, Unreachable)) as raised:
        reach(broker)
    line = str(raised.value)
    assert line.startswith(f"{servers}: ")
    assert "\n" not in line
    return type(raised.value), line.removeprefix(f"{servers}: ")


def test_the_brokers_certificate_has_ended(ours):
    with tls_server(ours.issue("127.0.0.1", days=-1)) as port:
        kind, line = said(port, ours)
    ended = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d}"
    assert kind is Denied
    assert line.startswith(f"the broker's certificate ended on {ended}")
    assert "must be renewed, or is this machine's clock wrong? It says 2" in line


def test_the_brokers_certificate_begins_later_as_by_a_clock_that_is_behind(ours):
    with tls_server(ours.issue("127.0.0.1", begins=TOMORROW)) as port:
        kind, line = said(port, ours)
    assert kind is Denied
    assert line.startswith(f"the broker's certificate begins on {TOMORROW:%Y-%m-%d %H:%M} UTC: is it the rig")
    assert "is this machine's clock wrong?" in line


def test_the_brokers_certificate_is_of_another_ca(ours, theirs):
    with tls_server(theirs.issue("127.0.0.1")) as port:
        kind, line = said(port, ours)
    assert kind is Denied
    assert line.startswith(f"the broker's certificate is not from a CA in {ours.ca} but from OU=")
    assert "O=theirs" in line


def test_the_brokers_certificate_names_another_host(ours):
    with tls_server(ours.issue("kafka.example", "10.0.0.1")) as port:
        refused = said(port, ours)
        unverified = said(port, ours, verify_host_name=False)
    names = (
        "the broker's certificate names kafka.example, 10.0.0.1, not 127.0.0.1: servers must have its name"
    )
    assert refused == (Denied, names)
    assert unverified[0] is Unreachable  # it shakes hands, and is no Kafka broker


def test_the_broker_demands_a_certificate(ours):
    with tls_server(ours.issue("127.0.0.1"), ours.ca) as port:
        assert said(port, ours) == (Denied, "demands a certificate: certificate and key are missing")


def test_the_own_certificate_has_ended_or_begins_later(ours):
    for times, words in (({"days": -1}, "ended on 2"), ({"begins": TOMORROW}, "begins on 2")):
        own = ours.issue(user="ann", **times)
        kind, line = said(1, ours, own)  # nobody needs to be asked
        assert kind is Denied
        assert line.startswith(f"the own certificate {own.certificate} {words}")
        assert "this machine's clock" in line


@pytest.mark.parametrize(
    ("times", "alert"), [({"days": -1}, "certificate expired"), ({"begins": TOMORROW}, "bad certificate")]
)
def test_the_own_certificate_is_refused_by_the_brokers_clock(ours, monkeypatch, times, alert):
    monkeypatch.setattr("streams.bus.logs.check_own", lambda _: None)  # by the own clock it is right
    own = ours.issue(user="ann", **times)
    with tls_server(ours.issue("127.0.0.1"), ours.ca) as port:
        kind, line = said(port, ours, own)
    assert kind is Denied
    assert line == (
        f"refuses the own certificate {own.certificate} ({alert}): is it from a CA that the broker trusts, "
        "and is the broker's clock right?"
    )


def test_the_own_certificate_is_of_another_ca(ours, theirs):
    own = theirs.issue(user="ann")
    with tls_server(ours.issue("127.0.0.1"), ours.ca) as port:
        kind, line = said(port, ours, own)
    assert kind is Denied
    assert line.startswith(
        f"refuses the own certificate {own.certificate} (unknown ca): is it from a CA that"
    )


def test_an_unverified_host_name_is_loud(ours, caplog):
    for _ in range(2):
        with pytest.raises(Unreachable):
            reach(BrokerSettings(servers="127.0.0.1:2", ca=str(ours.ca), verify_host_name=False))
    warned = [record.getMessage() for record in caplog.records if "verify_host_name" in record.getMessage()]
    assert warned == [
        "verify_host_name is false: anyone with a certificate of the CA can pose as 127.0.0.1:2"
    ]
