"""The topics of a collaboration, and the rights of each of its users: what its process needs, and no more."""

import numpy as np
import pytest
import yaml

from nodes.collaboration.messages import Query, Response
from streams.bus.provision import sides
from streams.bus.rights import FASTEST, LEAST_BYTES, LEAST_PERCENTAGE, NETWORK, ROOM, Rule
from streams.codec import Refused
from streams.codec.topics import DataTopics
from streams.collaboration.file import load_collaboration
from streams.collaboration.rights import (
    collaboration_specs,
    collaboration_users,
    learner,
    learner_quota,
    owner_data_users,
    owner_on_data,
    owner_on_mesh,
    owner_quota,
    owner_specs,
    queries_per_second,
)
from streams.collaboration.wire import Wire, decode_query, encode_query, encode_response
from streams.mesh.file import MeshFileError, load
from tests.streams.bus.test_rights import allowed, needed
from tests.support.collaborations.files import OWNERS, collaboration_file
from tests.support.meshes.files import changed, loaded

LIFE = "5a" * 16
OWN = DataTopics("m", "bank-a")


@pytest.fixture
def file(tmp_path):
    return load_collaboration(collaboration_file(tmp_path, "127.0.0.1:1", name="lending"))


@pytest.fixture
def wire(file):
    return Wire(file.resolved)


def test_the_shared_broker_has_these_topics_and_no_other(wire):
    names = {spec.name.removeprefix("lending.first.") for spec in collaboration_specs(wire)}
    kinds = {f"{kind}.{name}" for kind in ("progress", "deadletter") for name in ("analyst", *OWNERS)}
    assert names == {"query", *(f"response.{owner}" for owner in OWNERS), *kinds}


def test_a_log_keeps_all_messages_of_a_run_twice(wire):
    specs = {spec.kind: spec for spec in collaboration_specs(wire)}
    theta = np.zeros(2)
    asked = encode_query(Query("first", "analyst", LIFE, 13, theta, final=True), wire.whole.digest)
    said = encode_response(Response("first", "bank-a", LIFE, 12, True, theta), wire.whole.digest)
    for kind, value, count in (("query", asked, 13), ("response", said, 12)):
        assert specs[kind].retention_bytes >= 2 * count * len(value)
        assert specs[kind].largest >= len(value)


def test_each_user_may_exactly_what_its_process_does(wire):
    specs, topics = collaboration_specs(wire), wire.topics
    asking, *owners, auditor = collaboration_users(wire)
    assert (asking.name, asking.roles) == ("analyst", ("learner",))
    assert allowed(asking, specs) == needed(learner(topics, "analyst", OWNERS))
    assert [user.name for user in owners] == list(OWNERS)
    for user in owners:
        assert allowed(user, specs) == needed(owner_on_mesh(topics, user.name))
    assert (auditor.name, allowed(auditor, specs)) == (
        "lending-auditor",
        {("Read", spec.name) for spec in specs},
    )


def test_only_the_learner_asks_and_each_owner_answers_for_itself_alone(wire):
    topics = wire.topics
    for user in collaboration_users(wire):
        writes = {rule.name for rule in user.rules if "Write" in rule.operations}
        assert (topics.query in writes) == (user.name == "analyst")
        for owner in OWNERS:
            assert (topics.response(owner) in writes) == (user.name == owner)


def test_an_owner_writes_what_was_spent_alone_on_its_own_broker():
    own, feeder = owner_data_users("m", ["bank-a"])
    rights = {("Read", "data.m.bank-a"), ("Read", "spends.data.m.bank-a"), ("Write", "spends.data.m.bank-a")}
    assert allowed(own, owner_specs(OWN)) == needed(owner_on_data(OWN)) == rights
    assert (feeder.name, feeder.rules) == (
        "bank-a-feeder",
        (Rule("topic", "data.m.bank-a", "literal", ("Read", "Write", "DescribeConfigs")),),
    )


def test_only_an_owner_whose_set_is_a_topic_has_a_broker_of_its_own(file):
    assert file.on_topics == ()
    assert [name for name, _ in sides(file)] == [None]


def test_theta_outside_the_constraint_is_refused(wire):
    def asked(length):
        query = Query("first", "analyst", LIFE, 1, np.array([length, 0.0]), final=False)
        return decode_query(encode_query(query, wire.whole.digest), wire.queries)

    assert asked(10.0).parameters.tolist() == [10.0, 0.0]
    with pytest.raises(Refused, match="out-of-bound"):
        asked(10.001)


def test_each_kind_of_mesh_file_is_refused_where_it_does_not_belong(tmp_path, file):
    with pytest.raises(MeshFileError, match="describes a collaboration: must be a mesh of nodes"):
        load(file.path)
    mesh = loaded(tmp_path, changed())
    with pytest.raises(MeshFileError, match="must be a collaboration"):
        load_collaboration(mesh.path)


def test_a_quota_is_at_least_ten_times_the_bytes_of_a_user_s_queries(tmp_path):
    for dimension in (2, 10_000, 1_000_000):
        path = collaboration_file(tmp_path, "127.0.0.1:1", name="lending", dimension=dimension)
        tree = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump(tree | {"owners": {}}))
        wire = Wire(load_collaboration(path).resolved)
        found, rate = {user.name: user.quota for user in collaboration_users(wire)}, queries_per_second(wire)
        vector = 8 * dimension
        assert found["analyst"].producer_byte_rate >= ROOM * rate * vector
        assert found["analyst"].consumer_byte_rate >= ROOM * rate * len(OWNERS) * vector
        for owner in OWNERS:
            assert found[owner].producer_byte_rate >= ROOM * rate * vector
            assert found[owner].consumer_byte_rate >= ROOM * rate * vector
        assert found["lending-auditor"].consumer_byte_rate >= ROOM * rate * (1 + len(OWNERS)) * vector
        assert rate == FASTEST or len(OWNERS) * vector * rate == pytest.approx(NETWORK, rel=0.01)


def test_a_small_collaboration_has_quotas_that_let_it_start(wire):
    for found in (learner_quota(wire), owner_quota(wire, "bank-a")):
        assert found.producer_byte_rate >= LEAST_BYTES
        assert found.consumer_byte_rate >= LEAST_BYTES
        assert found.request_percentage >= LEAST_PERCENTAGE
    assert learner_quota(wire).request_percentage > owner_quota(wire, "bank-a").request_percentage


def test_an_owner_s_own_broker_limits_nobody():
    assert {user.quota for user in owner_data_users("m", ["bank-a"])} == {None}
