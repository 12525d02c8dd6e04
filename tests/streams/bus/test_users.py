"""Which passwords go where: a user of two brokers has two."""

import errno
import os
import stat
from importlib.metadata import version
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient
from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from streams.bus.provision import AdminError
from streams.bus.rights import DesiredUsers, Scope, User
from streams.bus.users import Passwords, UserAdmin, _check_apart
from streams.mesh.errors import UsageError
from streams.mesh.settings.parties import LONGEST_USER


def wanted(*names, tls=False):
    return DesiredUsers(tuple(User(name, (), (), None) for name in names), Scope(), tls=tls)


def test_one_password_for_two_brokers_is_refused():
    with pytest.raises(UsageError) as refused:
        _check_apart([("mesh broker", wanted("s", "a")), ("data broker of a", wanted("a", "a-feeder"))])
    assert str(refused.value) == (
        "--output: would hold one password of a for the mesh broker and the data broker of a: "
        "must be provisioned apart (--only mesh, --only data), with a folder each"
    )


def test_users_of_one_broker_each_and_users_with_certificates_share_no_password():
    _check_apart([("mesh broker", wanted("a", "b")), ("data broker of a", wanted("a-feeder"))])
    _check_apart([("mesh broker", wanted("a", tls=True)), ("data broker of a", wanted("a"))])


# Passwords of users: written once, for their owner alone, and never overwritten


def test_a_password_is_long_in_its_own_file_and_its_owner_s_alone(tmp_path):
    passwords = Passwords(tmp_path / "new" / "folder")
    made = {user: passwords.make(user) for user in ("a", "b")}
    assert len(set(made.values())) == 2
    for user, password in made.items():
        path = passwords.path(user)
        assert len(password) >= 43
        assert path.read_text() == f"{password}\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert passwords.of(user) == password
        assert not passwords.shown_to_others(user)
    assert stat.S_IMODE(passwords.folder.stat().st_mode) == 0o700
    assert sorted(path.name for path in passwords.folder.iterdir()) == ["a", "b"]


def test_an_existing_file_is_used_and_never_overwritten(tmp_path):
    passwords = Passwords(tmp_path)
    assert passwords.of("a") is None
    passwords.path("a").write_text("chosen by hand\r\n")
    assert passwords.of("a") == "chosen by hand"
    with pytest.raises(UsageError, match="a: cannot be written: File exists"):
        passwords.make("a")
    assert passwords.of("a") == "chosen by hand"
    passwords.path("a").chmod(0o640)
    assert passwords.shown_to_others("a")


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(UsageError) as refused:
        Passwords(file)
    assert str(refused.value) == f"--output {file}: is a file: must be a folder, or not there yet"


def test_what_an_interrupted_writing_left_is_no_password(tmp_path):
    passwords = Passwords(tmp_path)
    (tmp_path / ".a.new").write_text("half")
    assert passwords.of("a") is None
    assert passwords.make("a") == passwords.of("a")
    assert {path.name for path in tmp_path.iterdir()} == {"a", ".a.new"}


def test_the_longest_user_has_a_file(tmp_path):
    user = "a" * LONGEST_USER
    assert Passwords(tmp_path).make(user) == Passwords(tmp_path).of(user)
    assert [path.name for path in tmp_path.iterdir()] == [user]


def test_where_it_cannot_be_written_nothing_is_left(tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refused)  # as where there are no hard links
    with pytest.raises(UsageError, match="a: cannot be written: Operation not permitted"):
        Passwords(tmp_path).make("a")
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_s_is_his_to_guard(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("secret")
    path.chmod(0o444)
    assert Passwords(tmp_path).shown_to_others("a")
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)  # as in a container
    assert not Passwords(tmp_path).shown_to_others("a")


@pytest.mark.parametrize(
    ("content", "wrong"),
    [(b"", "is empty"), (b"\n", "is empty"), (b"a\nb\n", "has several lines"), (b"\xff", "it is not text")],
)
def test_a_file_that_holds_no_password_is_one_line(tmp_path, content, wrong):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(
        UsageError, match=f"^{tmp_path / 'a'}: .*{wrong}.*: must hold a password in one line$"
    ):
        Passwords(tmp_path).of("a")


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(UsageError, match=r"taken/new/a: cannot be written: "):
        Passwords(tmp_path / "taken" / "new").make("a")


# What of kafka-python is used in ways that are not its public interface: a newer version may change it


PINNED = "3.0."


def test_the_admin_client_has_no_method_for_quotas_yet():
    """When one comes, `UserAdmin._sent` goes, and `quotas` and `set_quotas` call it."""
    assert version("kafka-python").startswith(PINNED)
    assert [name for name in dir(KafkaAdminClient) if "quota" in name.lower()] == []


def test_the_requests_for_quotas_are_there_with_their_fields():
    wanted = DescribeClientQuotasRequest.ComponentData(entity_type="user", match_type=2, match=None)
    assert DescribeClientQuotasRequest(components=[wanted], strict=True).strict
    entity = AlterClientQuotasRequest.EntryData.EntityData(entity_type="user", entity_name="a")
    change = AlterClientQuotasRequest.EntryData.OpData(key="request_percentage", value=1.0, remove=False)
    entry = AlterClientQuotasRequest.EntryData(entity=[entity], ops=[change])
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
    assert request.entries[0].ops[0].value == 1.0


class Foreign:
    """A client whose broker has a rule of an operation that kafka-python does not know."""

    def describe_acls(self, _):
        raise ValueError("15 is not a valid ACLOperation")


def test_a_rule_that_kafka_python_does_not_know_is_one_line():
    admin = UserAdmin.__new__(UserAdmin)
    admin.servers, admin._client = "broker:9092", Foreign()
    with pytest.raises(AdminError, match=r"^broker:9092: has a rule that cannot be read here: 15 is not"):
        admin.grants()
