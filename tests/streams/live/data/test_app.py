"""The settings of the Faust app: what must not be as Faust has it by default."""

from pathlib import Path

import pytest
from mode.supervisors import CrashingSupervisor
from pydantic import SecretStr

from streams.codec.topics import DataTopics
from streams.live.data.app import DataPart, PinnedTransport, data_app
from streams.mesh.settings.brokers import BrokerSettings


async def nowhere(arrival):
    raise AssertionError("nothing is read here")


def app(tmp_path, web=None, **broker):
    given = BrokerSettings(**({"servers": "one:9092, two:9093"} | broker))
    return data_app(
        given,
        [DataPart(DataTopics("m", "east"), "m.r.east", None, nowhere)],
        letters=given,
        state=tmp_path,
        web=web,
    )


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("id", "m.r.east"),
        ("topic_allow_declare", False),
        ("topic_disable_leader", True),
        ("topic_partitions", 1),
        ("consumer_auto_offset_reset", "none"),
        ("stream_wait_empty", False),
        ("agent_supervisor", CrashingSupervisor),
        ("web_enabled", False),
        ("processing_guarantee", "at_least_once"),
        ("broker_credentials", None),
        ("autodiscover", False),
    ],
)
def test_the_settings_are_in_force(tmp_path, setting, value):
    configured = getattr(app(tmp_path).conf, setting)
    assert getattr(configured, "value", configured) == value


def test_it_keeps_its_files_in_the_state_folder(tmp_path):
    assert Path(app(tmp_path).conf.datadir).parent == tmp_path


def test_every_server_is_known(tmp_path):
    assert [(url.host, url.port) for url in app(tmp_path).conf.broker] == [("one", 9092), ("two", 9093)]


def test_it_logs_in_where_the_broker_asks_for_it(tmp_path):
    login = app(tmp_path, username="ann", password=SecretStr("hush")).conf.broker_credentials
    assert (login.protocol.value, login.mechanism.value) == ("SASL_PLAINTEXT", "SCRAM-SHA-512")
    assert (login.username, login.password) == ("ann", "hush")
    assert "hush" not in repr(login)


def test_there_is_one_agent_on_the_data_topic_and_no_table(tmp_path):
    built = app(tmp_path)
    (agent,) = built.agents.values()
    assert agent.channel.topics == ("data.m.east",)
    assert agent.concurrency == 1
    assert not built.tables


def test_the_web_pages_are_where_the_owner_says_without_tables(tmp_path):
    conf = app(tmp_path, ("127.0.0.1", 20123)).conf
    assert (conf.web_enabled, conf.web_bind, conf.web_port) == (True, "127.0.0.1", 20123)
    assert (conf.web_tables_enabled, conf.web_router_enabled) == (False, False)


def test_faust_finds_the_transport_by_its_entry_point(tmp_path):
    made = app(tmp_path)
    assert type(made.transport) is PinnedTransport
    assert "_new_transport" not in vars(type(made))
    assert [url.host for url in made.conf.broker_consumer] == ["one", "two"]
