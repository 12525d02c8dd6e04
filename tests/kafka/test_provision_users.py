"""`mirrormesh provision --users`: users, passwords, rights and quotas; only differences are written."""

import stat

import pytest
import yaml
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from streams.bus.bus import Denied
from streams.bus.logs import reach
from streams.bus.provision import provision
from streams.bus.rights import Grant
from tests.support.brokers.topics import until
from tests.support.brokers.users import Users, add_user, allow, secure_mesh_file
from tests.support.processes.in_process import Commands

pytestmark = pytest.mark.kafka


@pytest.fixture
def users(tmp_path, secure_broker, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Users(secure_mesh_file(tmp_path, secure_broker), secure_broker, monkeypatch)


@pytest.fixture
def call(capsys):
    return Commands(capsys)


def names(users):
    """All users of the mesh on its one broker."""
    mesh = users.file.mesh
    feeders = [f"{node}-feeder" for node in mesh.nodes]
    return [*mesh.nodes, f"{mesh.name}-scheduler", f"{mesh.name}-auditor", *feeders]


def rules(users):
    """The rules on the broker that are this mesh's."""
    own = {f"User:{name}" for name in names(users)}
    with users.admin() as admin:
        return {grant for grant in admin.grants() if grant.principal in own}


def enters(users, name, password=None):
    """Whether a user may log in."""
    settings = users.settings(name)
    changed = {} if password is None else {"password": type(settings.password)(password)}
    try:
        reach(settings.model_copy(update=changed))
    except Denied:
        return False
    return True


def test_the_command_makes_what_it_said_it_would_once_and_then_finds_it_right(users, call):
    path, name = users.path, users.file.mesh.name
    dry = call("provision", path, "--users", "--dry-run")
    assert dry.code == 0
    assert f"  would allow User:{name}-auditor: Read on topics {name}.run-1.*\n" in dry.out
    refused = call("provision", path, "--users")
    assert (refused.code, refused.err.partition(" of ")[0]) == (2, WANTED)
    missing = call("provision", path, "--check", "--users")
    assert (missing.code, missing.out) == (1, "")
    assert f": missing: the user {name}-scheduler (scheduler)\n" in missing.err
    assert f": missing: topic {name}.run-1.topology\n" in missing.err
    assert rules(users) == set()

    made = call("provision", path, "--users", "--output", "passwords")
    assert made.code == 0
    would = [line.removeprefix("  would ") for line in dry.out.splitlines() if line.startswith("  would ")]
    assert len(would) > 30
    for verb, past in (("allow", "  allowed"), ("limit", "  limited")):
        assert [line.removeprefix(verb) for line in would if line.startswith(verb)] == [
            line.removeprefix(past) for line in made.out.splitlines() if line.startswith(past)
        ]
    assert f"  made the user {name}-auditor (auditor), with the password in " in made.out
    for user in names(users):
        assert stat.S_IMODE((users.folder / user).stat().st_mode) == 0o600
        assert users.password(user) not in made.out
        assert enters(users, user)
    before = {path: path.read_text() for path in users.folder.iterdir()}
    assert len(before) == len(names(users)) == 8
    again = call("provision", path, "--users", "--output", "passwords")
    assert again.out.splitlines()[-1].endswith(": 8 users: all right")
    assert {path: path.read_text() for path in users.folder.iterdir()} == before
    assert call("provision", path, "--check").out == "right: nothing is missing or too much\n"


WANTED = "--output: missing: must be the folder for the passwords"


def test_what_differs_is_named_and_only_that_is_written(users, call):
    users.provision()
    node, other, _ = users.file.mesh.nodes
    topics = users.file.resolved.topics
    beats, plans = topics.progress(node), topics.topology
    more = Grant(f"User:{other}", "topic", plans, "literal", "Write")
    users.without(Grant(f"User:{node}", "topic", beats, "literal", "Write"))
    with users.admin() as admin:
        admin.grant([more])
        until(lambda: more in admin.grants())
    checked = call("provision", users.path, "--check", "--users")
    assert checked.code == 1
    assert [line.partition(": ")[2] for line in checked.err.splitlines() if ": topic " not in line] == [
        f"missing: User:{node}: Write on topic {beats}",
        f"too much: User:{other}: Write on topic {plans}",
    ]
    changes = users.provision()
    assert [grant.name for grant in changes.gap.missing] == [beats]
    assert (changes.logins.new, changes.logins.changed, changes.gap.quotas) == ((), (), {})
    assert more in rules(users)
    users.provision(prune=True)
    until(lambda: more not in rules(users))
    assert not users.provision().different


def test_pruning_takes_what_this_mesh_gave_once_and_nothing_of_others(users, secure_broker):
    users.provision()
    name, node = users.file.mesh.name, next(iter(users.file.mesh.nodes))
    gone = [
        Grant(f"User:{node}", "topic", f"{name}.run-0.progress.{node}", "literal", "Write"),
        Grant("User:gone", "topic", f"{name}.run-1.edge.gone.", "prefix", "Write"),
        Grant(f"User:{node}", "topic", users.file.data_topics(node).records, "literal", "Write"),
    ]
    others = [
        Grant(f"User:{node}", "topic", f"{name}x.run-1.topology", "literal", "Read"),
        Grant("User:shop", "topic", users.file.data_topics(node).decisions, "literal", "Read"),
        Grant("User:shop", "topic", f"orders.{name}", "literal", "Write"),
    ]
    with users.admin() as admin:
        admin.grant([*gone, *others])
        until(lambda: {*gone, *others} <= set(admin.grants()))
        assert set(users.provision(prune=True).gap.excess) == set(gone)
        until(lambda: not set(gone) & set(admin.grants()))
        assert set(others) <= set(admin.grants())
        admin.revoke(others)


def test_a_user_whose_file_changes_gets_that_password_and_one_without_keeps_its_own(users):
    users.provision()
    first, second, _ = users.file.mesh.nodes
    old = users.password(first)
    (users.folder / first).write_text("a new one\n")
    (users.folder / second).rename(users.path.parent / "kept")
    changes = users.provision()
    assert [user.name for user in changes.logins.changed] == [first]
    assert [user.name for user in changes.logins.elsewhere] == [second]
    until(lambda: enters(users, first))
    assert not enters(users, first, old)
    (users.path.parent / "kept").rename(users.folder / second)
    assert enters(users, second)


def test_each_side_is_provisioned_by_itself(users, call):
    made = call("provision", users.path, "--only", "mesh", "--users", "--output", "mesh-passwords")
    assert made.code == 0
    mesh = users.file.mesh
    there = {path.name for path in (users.path.parent / "mesh-passwords").iterdir()}
    assert there == {*mesh.nodes, f"{mesh.name}-scheduler", f"{mesh.name}-auditor"}
    assert {grant.name.partition(".")[0] for grant in rules(users)} == {mesh.name}
    checked = call("provision", users.path, "--only", "mesh", "--check")
    assert checked.out == "right: nothing is missing or too much\n"
    assert "data broker of" in call("provision", users.path, "--only", "data", "--check").err


def test_the_users_of_a_broker_are_its_administrators_alone(users, call, monkeypatch):
    users.provision()
    node = next(iter(users.file.mesh.nodes))
    users.be(node)
    outcome = call("provision", users.path, "--users", "--dry-run")
    assert (outcome.code, len(outcome.err.splitlines())) == (2, 1)
    assert "provisions here, so it must be an administrator and no user of the mesh" in outcome.err
    users.be("admin")
    with users.admin() as admin:
        add_user(users.client("admin").admin, "clerk", "hers")
        until(lambda: admin.with_password(["clerk"], "scram-sha-512"))
    users.be("clerk", "hers")
    outcome = call("provision", users.path, "--users", "--dry-run")
    assert outcome.code == 1
    assert outcome.err.endswith("may not read or change users and rights: ask its administrator\n")
    assert len(outcome.err.splitlines()) == 1


def test_a_rule_that_denies_is_named_and_left(users, call):
    users.provision()
    node, *_ = users.file.mesh.nodes
    admin = users.client("admin").admin
    denial = AclBinding(
        ResourceType.TOPIC,
        users.file.data_topics(node).records,
        ResourcePatternType.LITERAL,
        f"User:{node}",
        "*",
        AclOperation.READ,
        AclPermissionType.DENY,
    )
    allow(admin, denial)
    rule = f"denied by a DENY rule: User:{node}: Read on topic {users.file.data_topics(node).records}"
    until(lambda: call("provision", users.path, "--check", "--users").err.endswith(f"{rule}\n"))
    assert call("provision", users.path, "--check", "--users").code == 1
    made = call("provision", users.path, "--users", "--prune", "--output", "passwords")
    assert f"  {rule.replace('rule', 'rule, which stays')}\n" in made.out
    assert [grant.name for grant in users.provision().gap.denied] == [users.file.data_topics(node).records]


def test_who_is_no_administrator_is_told_which_right_is_missing(users, call):
    provision(users.file)
    with users.admin() as admin:
        add_user(users.client("admin").admin, "clerk", "hers")
        until(lambda: admin.with_password(["clerk"], "scram-sha-512"))
    users.be("clerk", "hers")
    ask = "an administrator of the broker may"
    for options in (["--check"], ["--check", "--users"], []):
        found = call("provision", users.path, *options)
        assert (found.code, found.out) == (1, "")
        assert found.err.startswith(f"{users.broker.address}: topic ")
        assert found.err.endswith(f": these credentials may not see it (Describe): {ask}\n")
        assert len(found.err.splitlines()) == 1


def test_a_broker_without_users_is_refused_before_anything_is_made(users, call):
    tree = yaml.safe_load(users.path.read_text())
    for side in ("mesh", "data"):
        tree["brokers"][side] = {"servers": "127.0.0.1:1"}
    users.path.write_text(yaml.safe_dump(tree))
    outcome = call("provision", users.path, "--users", "--output", "passwords")
    assert outcome.code == 2
    words = "must be sasl, tls or sasl-tls for a broker with users"
    assert outcome.err == f"mesh broker 127.0.0.1:1: security is plaintext: {words}\n"
    assert not users.folder.exists()
