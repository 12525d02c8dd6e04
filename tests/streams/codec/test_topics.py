from itertools import permutations

import pytest

from streams.codec.topics import DATA_KINDS, LONGEST_TOPIC, RUN_KINDS, DataTopics, MeshTopics, all_of
from streams.mesh.errors import MeshFileError
from tests.support.meshes.files import changed, loaded

KINDS = (*DATA_KINDS, *RUN_KINDS)
"""Words that a mesh, a run or a node may be called, unless they are refused."""


def of_run(topics):
    """All topics of a run of the nodes a and b."""
    releases = topics.edge("a", "b"), topics.edge("b", "a"), topics.outbox("a"), topics.response("a")
    return {topics.topology, topics.scheduler, topics.query, topics.progress("a"), *releases} | {
        topics.dead_letters("a")
    }


def test_mesh_topics_stand_under_mesh_and_run():
    topics = MeshTopics("tracking", "run-1")
    assert topics.topology == "tracking.run-1.topology"
    assert topics.scheduler == "tracking.run-1.scheduler"
    assert topics.progress("east") == "tracking.run-1.progress.east"
    assert topics.edge("east", "west") == "tracking.run-1.edge.east.west"
    assert topics.dead_letters("east") == "tracking.run-1.deadletter.east"
    assert topics.query == "tracking.run-1.query"
    assert topics.response("east") == "tracking.run-1.response.east"
    assert {name.split(".")[2] for name in of_run(topics)} == set(RUN_KINDS)


def test_data_topics_belong_to_the_node_of_a_mesh_and_spends_to_the_data():
    topics = DataTopics("tracking", "east")
    assert topics.records == "data.tracking.east"
    assert topics.dead_letters == "data-deadletter.tracking.east"
    assert topics.predictions == "predictions.tracking.east"
    assert topics.decisions == "decisions.tracking.east"
    assert topics.spends == "spends.data.tracking.east"
    assert topics.group("run-1") == "tracking.run-1.east"
    assert {name.split(".")[0] for name in topics.all} == set(DATA_KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_a_mesh_may_be_called_like_a_kind_of_a_run_and_not_like_one_of_a_party(tmp_path, name):
    tree = changed(name=name)
    if name not in DATA_KINDS:
        assert loaded(tmp_path, tree).mesh.name == name
        return
    with pytest.raises(MeshFileError, match=rf'mesh\.name: "{name}": is a kind of topics'):
        loaded(tmp_path, tree)
    with pytest.raises(ValueError, match="is called like a kind"):
        DataTopics(name, "a")


@pytest.mark.parametrize("run", KINDS)
def test_no_name_is_that_of_two_topics_whatever_mesh_run_and_node_are_called(run):
    names = [name for mesh in RUN_KINDS for name in of_run(MeshTopics(mesh, run))]
    own = [DataTopics(mesh, node) for mesh in RUN_KINDS for node in KINDS]
    names += [name for topics in own for name in topics.all]
    assert len(set(names)) == len(names)
    rights = [all_of(MeshTopics(mesh, run)) for mesh in RUN_KINDS]
    assert not [name for topics in own for name in topics.all if name.startswith(tuple(rights))]


def test_no_mesh_reads_in_another_s_group_or_topics():
    for one, other in permutations([DataTopics(mesh, "a") for mesh in ("m", "m1", "m-1", "a")], 2):
        assert not set(one.all) & set(other.all)
        assert one.group("r") != other.group("r")


@pytest.mark.parametrize("bad", ["", "East", "a.b", "a_b", "é", "a\n", "a b", "٣"])
def test_what_is_not_an_id_is_refused(bad):
    topics = MeshTopics("m", "r")
    for use in (
        lambda: MeshTopics(bad, "r"),
        lambda: MeshTopics("m", bad),
        lambda: DataTopics("m", bad),
        lambda: DataTopics(bad, "a"),
        lambda: topics.progress(bad),
        lambda: topics.edge("a", bad),
        lambda: topics.dead_letters(bad),
        lambda: topics.response(bad),
    ):
        with pytest.raises(ValueError, match="must match"):
            use()


def test_a_topic_longer_than_kafka_takes_is_refused():
    topics = MeshTopics("m", "r")
    room = LONGEST_TOPIC - len("m.r.progress.")
    assert len(topics.progress("a" * room)) == LONGEST_TOPIC
    with pytest.raises(ValueError, match="at most 249"):
        topics.progress("a" * (room + 1))
    with pytest.raises(ValueError, match="at most 249"):
        DataTopics("m", "a" * (LONGEST_TOPIC - len("data-deadletter.m.") + 1))
