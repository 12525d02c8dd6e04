"""What is missing and too much of a mesh's rights on a broker that serves others too."""

import pytest

from streams.bus.rights import DesiredUsers, Grant, GrantGap, Quota, Rule, Scope, User, gap, grants, principal

EDGES = Rule("topic", "m.r.edge.a.", "prefix", ("Read", "Write"))
BEATS = Rule("topic", "m.r.progress.a", "literal", ("Read",))
QUOTA = Quota(1, 2, 3)
LIMITS = QUOTA._asdict()
A = User("a", ("node a",), (EDGES, BEATS), QUOTA)
ON_MESH = DesiredUsers((A,), Scope.of("m", []), tls=False)
OWN = User("a", ("node a",), (Rule("topic", "data.a", "literal", ("Read",)),), None)
ON_DATA = DesiredUsers((OWN,), Scope.of(None, ["a"]), tls=False)


def topic(name, operation="Read", pattern="literal", user="User:a", **more):
    return Grant(user, "topic", name, pattern, operation, **more)


RIGHT = (
    topic("m.r.edge.a.", "Read", "prefix"),
    topic("m.r.edge.a.", "Write", "prefix"),
    topic("m.r.progress.a"),
)


def test_a_broker_that_is_right_has_no_gap_and_an_empty_one_lacks_everything():
    assert gap(ON_MESH, RIGHT, {"a": LIMITS}) == GrantGap()
    assert gap(ON_MESH, (), {}) == GrantGap(missing=RIGHT, quotas={"a": QUOTA})
    assert gap(ON_MESH, RIGHT[1:], {"a": LIMITS}).missing == RIGHT[:1]


@pytest.mark.parametrize(
    "denial",
    [
        topic("m.r.progress.a"),
        topic("m.r.progress.a", "All", user="User:*"),
        topic("m.r.progress.a", "Describe", host="10.0.0.1"),
        topic("m.r.edge.a.b", "Write"),
        topic("m.r.edge.a.b", "Write", "prefix"),
        topic("m.", "Read", "prefix"),
        topic("*", "Read"),
    ],
)
def test_a_rule_that_denies_what_is_wanted_is_named_whatever_is_allowed(denial):
    assert gap(ON_MESH, RIGHT, {"a": LIMITS}, [denial]) == GrantGap(denied=(denial,))


@pytest.mark.parametrize(
    "denial",
    [
        topic("m.r.progress.a", "Write"),
        topic("m.r.progress.a", user="User:b"),
        topic("m.r.progress.b"),
        topic("m.r.edge.b.", "Read", "prefix"),
        topic("m.r.edge.a.", "Delete", "prefix"),
        Grant("User:a", "group", "*", "literal", "Read"),
    ],
)
def test_a_rule_that_denies_something_else_is_none_of_the_mesh_s_business(denial):
    assert gap(ON_MESH, RIGHT, {"a": LIMITS}, [denial]) == GrantGap()


@pytest.mark.parametrize(
    "there", [{}, {"a": LIMITS | {"request_percentage": 2.0}}, {"a": {"producer_byte_rate": 1}}]
)
def test_a_quota_that_differs_is_set(there):
    assert gap(ON_MESH, RIGHT, there).quotas == {"a": QUOTA}


@pytest.mark.parametrize(
    "more",
    [
        topic("m.r.progress.a", "Write"),
        topic("m.earlier.progress.a"),
        topic("m.r.topology", "Write", user="User:gone"),
        topic("m.r.", "All", "prefix", user="User:gone"),
        topic("m.r.progress.a", host="10.0.0.1"),
        topic("m.r.topology", user="User:*"),
    ],
)
def test_what_the_mesh_file_does_not_give_on_a_mesh_s_topics_is_too_much_whoever_has_it(more):
    assert gap(ON_MESH, (*RIGHT, more), {"a": LIMITS}) == GrantGap(excess=(more,))


@pytest.mark.parametrize(
    "others",
    [
        topic("m2.r.topology", "Write"),
        topic("mm.", "Write", "prefix"),
        topic("data.a", user="User:application"),
        topic("x", "All", user="User:b"),
        Grant("User:b", "group", "g", "literal", "Read"),
        Grant("User:a", "cluster", "kafka-cluster", "literal", "IdempotentWrite"),
    ],
)
def test_what_is_of_others_is_left_alone(others):
    assert gap(ON_MESH, (*RIGHT, others), {"a": LIMITS}) == GrantGap()


@pytest.mark.parametrize(
    "wide",
    [
        topic("*", "Write"),
        topic("m", "Read", "prefix"),
        topic("*", "Write", user="User:*"),
        topic("*", "Read", user="User:ANONYMOUS"),
        Grant("User:a", "cluster", "kafka-cluster", "literal", "Alter"),
    ],
)
def test_a_right_for_more_than_the_mesh_is_too_much_for_its_users_and_for_everyone_but_never_taken(wide):
    assert gap(ON_MESH, (*RIGHT, wide), {"a": LIMITS}) == GrantGap(wider=(wide,))
    if wide.principal == "User:a":
        other = wide._replace(principal="User:backup")
        assert gap(ON_MESH, (*RIGHT, other), {"a": LIMITS}) == GrantGap(others=(other,))


def test_on_a_party_s_own_broker_only_what_its_nodes_have_is_the_mesh_s():
    right = topic("data.a")
    assert gap(ON_DATA, [right, topic("data.a", "Write", user="User:application")], {}) == GrantGap()
    more = [topic("data.a", "Write"), Grant("User:a", "group", "data.a", "literal", "Delete")]
    assert gap(ON_DATA, [right, *more], {}) == GrantGap(excess=tuple(more))
    assert gap(ON_DATA, [right, topic("data.b"), topic("shop.orders", "Write")], {}) == GrantGap()


def test_with_certificates_a_user_is_its_subject_and_has_no_password():
    assert principal("a", tls=False) == "User:a"
    assert principal("a", tls=True) == "User:CN=a"
    for tls in (False, True):
        assert principal("CN=x,O=y", tls=tls) == "User:CN=x,O=y"
    subject = User("CN=x", (), (BEATS,), QUOTA)
    wanted = DesiredUsers((A, subject), Scope.of("m", []), tls=True)
    assert wanted.logins() == ()
    assert set(wanted.quotas()) == {"CN=a", "CN=x"}
    assert DesiredUsers((A, subject), Scope.of("m", []), tls=False).logins() == (A,)
    assert grants("User:CN=x", [BEATS]) == (topic("m.r.progress.a", user="User:CN=x"),)


def test_a_mesh_named_like_topics_of_data_leaves_these_to_their_owners():
    on_mesh = DesiredUsers((), Scope.of("data", []), tls=False)
    earlier, others = topic("data.r.topology"), topic("data.b", "Write", user="User:b-feeder")
    assert gap(on_mesh, (earlier, others), {}) == GrantGap(excess=(earlier,))
