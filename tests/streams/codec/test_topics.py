import pytest

from streams.codec.topics import LONGEST_TOPIC, DataTopics, MeshTopics


def test_mesh_topics_stand_under_mesh_and_run():
    topics = MeshTopics("tracking", "run-1")
    assert topics.topology == "tracking.run-1.topology"
    assert topics.scheduler == "tracking.run-1.scheduler"
    assert topics.progress("east") == "tracking.run-1.progress.east"
    assert topics.edge("east", "west") == "tracking.run-1.edge.east.west"
    assert topics.dead_letters("east") == "tracking.run-1.deadletter.east"
    assert topics.query == "tracking.run-1.query"
    assert topics.response("east") == "tracking.run-1.response.east"


def test_data_topics_belong_to_the_node_alone():
    topics = DataTopics("east")
    assert topics.records == "data.east"
    assert topics.dead_letters == "data-deadletter.east"
    assert topics.predictions == "predictions.east"
    assert topics.decisions == "decisions.east"
    assert topics.spends == "spends.east"


def test_all_names_differ_whatever_mesh_and_run_are_called():
    data = DataTopics("topology")
    mesh = [
        MeshTopics(mesh, run)
        for mesh in ("data", "decisions", "spends")
        for run in ("topology", "data-deadletter")
    ]
    names = [data.records, data.dead_letters, data.predictions, data.decisions, data.spends]
    for topics in mesh:
        names += [topics.topology, topics.scheduler, topics.query, topics.response("a")]
        names += [
            topics.progress("a"),
            topics.dead_letters("a"),
            topics.edge("a", "b"),
            topics.edge("b", "a"),
        ]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("bad", ["", "East", "a.b", "a_b", "é", "a\n", "a b", "٣"])
def test_what_is_not_an_id_is_refused(bad):
    topics = MeshTopics("m", "r")
    for use in (
        lambda: MeshTopics(bad, "r"),
        lambda: MeshTopics("m", bad),
        lambda: DataTopics(bad),
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
