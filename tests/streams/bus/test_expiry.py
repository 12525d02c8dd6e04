"""Certificates near their end are named, with the setting that names them."""

from datetime import UTC, datetime, timedelta
from math import inf
from urllib.request import urlopen

import pytest

from streams.bus.diagnosis import Expiry
from streams.mesh.settings.brokers import BrokerSettings
from streams.metrics.endpoint import Endpoint
from tests.support.brokers.certificates import Authority
from tests.support.brokers.development import free_port
from tests.support.nodes.metrics import metrics


@pytest.fixture
def lasting(tmp_path):
    """What is said of a broker whose certificate lasts so many days."""
    authority = Authority(tmp_path)

    def made(days):
        certificate, key = authority.issue(user="ann", days=days)
        own = {"certificate": str(certificate), "key": str(key)}
        return Expiry({"brokers.mesh": BrokerSettings(servers="one:9093", ca=str(authority.ca), **own)})

    return made


def test_a_certificate_is_named_from_two_weeks_before_its_end_on(lasting):
    assert lasting(15).soon() is None
    ends = datetime.now(UTC) + timedelta(days=13)
    assert lasting(13).soon() == (
        f"brokers.mesh.certificate ends on {ends:%Y-%m-%d %H:%M} UTC: renew it and restart"
    )
    assert "brokers.mesh.certificate ended on" in lasting(-1).soon()
    assert abs(lasting(13).first - ends.timestamp()) < 60


def test_a_broker_without_certificates_has_no_end():
    none = Expiry({"brokers.mesh": BrokerSettings(servers="one:9092")})
    assert (none.first, none.soon()) == (inf, None)


def test_it_is_said_on_readyz_and_takes_nobody_out_of_service(lasting):
    port, expiry = free_port(), lasting(3)
    with Endpoint("127.0.0.1", port) as endpoint:
        endpoint.show(metrics(ends=(expiry.first, inf)).shared, lambda: None, noted=expiry.soon)
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            first, second = answer.read().decode().splitlines()
        assert (answer.status, first) == (200, "ready")
        assert second.startswith("brokers.mesh.certificate ends on ")
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert "mirrormesh_certificate_end_timestamp_seconds{mesh=" in answer.read().decode()
