"""`plan` says who can forge what: anyone where a broker knows no users, and nodes that share one."""

import pytest
import yaml

from tests.support.brokers.certificates import Authority
from tests.support.processes.in_process import MESH, Commands

WARNING = "the file names no users: anyone who reaches mesh:9092 can forge heartbeats, plans and releases"
SHARED = "a, b of bank share the user bank: each can forge what the others send"
PASSWORD = {"username": "a", "password": "x"}


def planned(folder, capsys, parties=None, **broker):
    tree = yaml.safe_load(MESH)
    tree["mesh"] |= {} if parties is None else {"parties": parties}
    if broker:
        tree["brokers"] = {"mesh": {"servers": "mesh:9092"} | broker}
    path = folder / "mesh.yaml"
    path.write_text(yaml.safe_dump(tree))
    outcome = Commands(capsys)("plan", path)
    assert outcome.code == 0
    return outcome.out


@pytest.mark.parametrize(
    ("broker", "warned"),
    [({"security": "plaintext"}, True), ({"security": "tls"}, True), (PASSWORD, False), ({}, False)],
)
def test_a_broker_that_is_named_without_a_user_is_warned_of(tmp_path, capsys, broker, warned):
    assert (WARNING in planned(tmp_path, capsys, **broker)) == warned


def test_nodes_that_share_a_user_are_named(tmp_path, capsys):
    shared = {"bank": {"nodes": ["a", "b"], "user": "bank"}}
    assert SHARED in planned(tmp_path, capsys, shared, **PASSWORD)
    for alone in ({"bank": {"nodes": ["a", "b"]}}, {"bank": {"nodes": ["a"], "user": "bank"}}):
        assert "share the user" not in planned(tmp_path, capsys, alone, **PASSWORD)


def test_a_certificate_is_a_user(tmp_path, capsys):
    certificate, key = Authority(tmp_path).issue(user="a")
    assert WARNING not in planned(tmp_path, capsys, certificate=str(certificate), key=str(key))
