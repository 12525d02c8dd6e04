from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.machine.journal import ReleaseMessage
from nodes.values import Release
from streams.bus.provision import TopicDescription, differences
from streams.bus.rights import node_on_data, node_on_mesh, scheduler
from streams.bus.topic_specs import (
    LEAST_SEGMENT,
    MIB,
    OVERHEAD,
    ROOM,
    TopicSpec,
    data_specs,
    mesh_specs,
    sizes,
)
from streams.codec import (
    Reason,
    Refused,
    encode_dead_letter,
    encode_heartbeat,
    encode_plans,
    encode_release,
)
from streams.codec.topics import LONGEST_TOPIC, DataTopics, MeshTopics
from streams.mesh.mesh import Mesh
from tests.support.meshes.files import changed, loaded
from topology.plans import Heartbeat, Member, Plan

DIGEST = bytes(16)


@pytest.fixture
def mesh(tmp_path):
    return loaded(tmp_path, changed()).mesh


def test_the_mesh_broker_has_every_topic_of_the_mesh_and_no_other(mesh):
    names = {spec.name.removeprefix("tracking.run-1.") for spec in mesh_specs(Mesh(mesh))}
    ring = ["a.b", "b.a", "b.c", "c.b", "c.d", "d.c", "d.a", "a.d"]
    assert names == {
        "topology",
        "scheduler",
        *(f"progress.{node}" for node in "abcd"),
        *(f"deadletter.{node}" for node in "abcd"),
        *(f"edge.{pair}" for pair in ring),
    }


def test_only_provisioned_edges_have_topics(tmp_path):
    tree = changed()
    tree["mesh"]["topology"] = {"graph": "star"}
    edges = [spec.name for spec in mesh_specs(loaded(tmp_path, tree).resolved) if spec.kind == "edge"]
    assert sorted(name.split("edge.")[1] for name in edges) == ["a.b", "a.c", "a.d", "b.a", "c.a", "d.a"]


def test_an_outbox_is_a_topic_a_node_in_place_of_one_an_edge(tmp_path):
    by_edge, by_node = (
        mesh_specs(loaded(tmp_path, changed(layout=one)).resolved) for one in ("edges", "outbox")
    )
    boxes = [spec for spec in by_node if spec.kind == "outbox"]
    assert sorted(spec.name for spec in boxes) == [f"tracking.run-1.outbox.{node}" for node in "abcd"]
    edges = [spec for spec in by_edge if spec.kind == "edge"]
    assert {spec.configs["retention.bytes"] for spec in boxes + edges} == {
        edges[0].configs["retention.bytes"]
    }
    assert [spec for spec in by_node if spec not in boxes] == [spec for spec in by_edge if spec not in edges]


def test_a_party_has_its_own_topics(mesh):
    assert [spec.name for spec in data_specs(mesh, "b")] == [
        "data.tracking.b",
        "data-deadletter.tracking.b",
        "predictions.tracking.b",
        "decisions.tracking.b",
        "spends.data.tracking.b",
    ]
    assert [spec.owned for spec in data_specs(mesh, "b")] == [True, False, False, False, False]


def test_what_was_spent_is_never_cut(mesh):
    spends = data_specs(mesh, "b")[-1]
    assert spends.configs["cleanup.policy"] == "compact"
    assert spends.configs["retention.bytes"] == spends.configs["retention.ms"] == "-1"
    cut = TopicDescription(1, spends.configs | {"cleanup.policy": "delete"})
    assert differences(spends, cut, partitioned=False) == ["cleanup.policy is delete: must be compact"]


@pytest.mark.parametrize("names", [["a", "b", "c"], ["a-long-name", "b", "c", "d", "e", "f"]])
def test_the_sizes_are_those_of_the_longest_messages(tmp_path, names):
    mesh = loaded(tmp_path, changed(nodes=names, dimension=2) | {"nodes": {}}).mesh
    graph = Mesh(mesh).graph
    weights = np.full(graph.sources.size, 0.25)
    members = tuple(Member(name, "1" * 32) for name in graph.nodes)
    counts = tuple((name, 4) for name in graph.nodes)
    plan = Plan(mesh.run, 5, 4, members, graph.sources.copy(), graph.targets.copy(), weights, counts)
    (record,) = encode_plans(plan, (plan,), DIGEST)
    assert sizes(Mesh(mesh)).plan == len(record)
    longest = max(names, key=len)
    release = ReleaseMessage(
        mesh.run, longest, "1" * 32, 1, exact=False, simulated=False, release=Release(np.zeros(2))
    )
    assert sizes(Mesh(mesh)).release == len(encode_release(release, DIGEST))


@pytest.mark.parametrize("layout", ["edges", "outbox"])
@pytest.mark.parametrize("dimension", [1, 2, 127, 5_000])
def test_who_joins_changes_no_topic_of_the_others(tmp_path, dimension, layout):
    def specs(names):
        tree = changed(nodes=names, dimension=dimension, layout=layout, loss="squared") | {"nodes": {}}
        return {spec.name: spec for spec in mesh_specs(loaded(tmp_path, tree).resolved)}

    before = specs(["a", "b", "c"])
    for name in ("d", "a-name-of-some-length", "x" * 60):
        after = specs(["a", "b", "c", name])
        assert len(after) > len(before)
        for topic in before.keys() & after.keys():
            assert (
                differences(after[topic], TopicDescription(1, before[topic].configs), partitioned=False) == []
            )
            assert after[topic].unbounded(before[topic].configs) == []


def largest_messages(mesh):
    """The longest message of each kind that the mesh may send, by the kind of its topic."""
    settings, graph = mesh.settings, mesh.graph
    members = tuple(Member(name, "1" * 32) for name in graph.nodes)
    weights = np.full(graph.sources.size, 1 / len(members))
    counts = tuple((name, 4) for name in graph.nodes)
    arrays = graph.sources.copy(), graph.targets.copy(), weights
    plans = [Plan(settings.run, round, round - 1, members, *arrays, counts) for round in range(5, 9)]
    plans += [replace(plans[-1], round=round, follows=round - 1) for round in range(9, 4 + settings.horizon)]
    longest = max(graph.nodes, key=len)
    release = Release(np.full(settings.dimension, -1e300))
    message = ReleaseMessage(
        settings.run, longest, "1" * 32, 2**63 - 1, exact=False, simulated=True, release=release
    )
    last = 2**63 - 1
    beat = Heartbeat(settings.run, longest, "1" * 32, "2" * 32, last, last, last, hello=True)
    found = {
        "topology": max(encode_plans(plans[0], tuple(plans[1:]), DIGEST), key=len),
        "progress": encode_heartbeat(beat, DIGEST),
        "scheduler": bytes(16),
        "edge": encode_release(message, DIGEST),
    }
    refused = max((found["edge"], found["topology"]), key=len)
    return found | {
        "deadletter": encode_dead_letter("t" * LONGEST_TOPIC, refused, Refused(Reason.TOO_LONG, "x" * 300))
    }


NAMES = st.lists(
    # the dumper leaves 1e0 without quotation marks, and a mesh file reads it as a number
    st.from_regex("(?![0-9]+e)[a-z0-9][a-z0-9-]{0,30}", fullmatch=True),
    min_size=2,
    max_size=9,
    unique=True,
)


@given(NAMES, st.integers(1, 3000), st.sampled_from([4, 200]), st.sampled_from(["complete", "ring"]))
@settings(max_examples=12)
def test_the_largest_message_of_each_kind_fits_its_topic(tmp_path_factory, names, dimension, horizon, graph):
    tree = changed(
        nodes=names, dimension=dimension, horizon=horizon, loss="squared", topology={"graph": graph}
    )
    mesh = loaded(tmp_path_factory.mktemp("mesh"), tree | {"nodes": {}}).resolved
    longest = largest_messages(mesh)
    for spec in mesh_specs(mesh):
        assert len(longest[spec.kind]) + ROOM <= spec.largest or spec.kind == "deadletter"
        assert len(longest[spec.kind]) <= spec.largest == spec.max_message_bytes - OVERHEAD


def test_a_shared_topic_takes_a_few_kilobytes_at_two_dimensions_and_inflates_nothing(mesh):
    for spec in mesh_specs(Mesh(mesh)):
        assert spec.configs["compression.type"] == "uncompressed"
        if spec.kind not in {"topology", "deadletter"}:
            assert spec.max_message_bytes <= 4096
    for spec in data_specs(mesh, "a"):
        assert "compression.type" not in spec.configs  # the party's own: as its programs like it


OLD = {"compression.type": "producer", "max.message.bytes": str(MIB), "segment.bytes": str(8 * MIB)}


def test_a_topic_of_an_older_version_is_told_by_what_lets_its_records_grow(mesh):
    edge = next(spec for spec in mesh_specs(Mesh(mesh)) if spec.kind == "edge")
    assert edge.unbounded(edge.configs) == []
    assert edge.unbounded(edge.configs | {"max.message.bytes": "100", "segment.bytes": "100"}) == []
    assert edge.unbounded(edge.configs | OLD) == [
        "compression.type is producer: must be uncompressed",
        f"max.message.bytes is {MIB}: must be {edge.max_message_bytes}",
        f"segment.bytes is {8 * MIB}: must be {MIB}",
    ]
    assert data_specs(mesh, "a")[0].unbounded(OLD) == []


@pytest.mark.parametrize(("dimension", "horizon"), [(2, 4), (100, 32), (100_000, 32)])
def test_a_log_keeps_four_horizons_of_rounds_and_can_be_cut(tmp_path, dimension, horizon):
    tree = changed(dimension=dimension, horizon=horizon, loss="squared") | {"nodes": {}}
    mesh = loaded(tmp_path, tree).mesh
    longest = {
        "edge": sizes(Mesh(mesh)).release,
        "topology": sizes(Mesh(mesh)).plan,
        "decisions": 24 * dimension,
    }
    for spec in [*mesh_specs(Mesh(mesh)), *data_specs(mesh, "a")]:
        assert spec.retention_bytes >= 4 * horizon * longest.get(spec.kind, 0)
        assert spec.segment_bytes >= LEAST_SEGMENT
        assert spec.max_message_bytes <= spec.segment_bytes  # Kafka refuses a record that no segment holds
        assert spec.segment_bytes <= max(spec.retention_bytes, spec.max_message_bytes)
        assert spec.configs["cleanup.policy"] == ("compact" if spec.kind == "spends" else "delete")
        assert spec.configs["retention.ms"] == "-1"


@pytest.mark.parametrize("nodes", [3, 16, 200])
def test_only_the_topology_grows_with_the_nodes_and_keeps_as_many_plans(tmp_path, nodes):
    mesh = loaded(tmp_path, changed(nodes=[f"n{k}" for k in range(nodes)]) | {"nodes": {}}).mesh
    specs = {spec.kind: spec for spec in mesh_specs(Mesh(mesh))}
    assert specs["topology"].retention_bytes >= 4 * mesh.horizon * sizes(Mesh(mesh)).plan
    assert {specs[kind].retention_bytes for kind in ("scheduler", "progress", "edge")} == {MIB}


SPEC = TopicSpec("t", "edge", 8 * MIB, 2 * MIB)
OWNED = replace(SPEC, owned=True)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("cleanup.policy", "compact", "cleanup.policy is compact: must be delete"),
        ("cleanup.policy", "compact,delete", "cleanup.policy is compact,delete: must be delete"),
        ("retention.ms", "604800000", "retention.ms is 604800000: must be -1 (none)"),
        ("retention.bytes", "1", f"retention.bytes is 1: must be at least {8 * MIB}, or -1"),
        ("retention.bytes", "-1", None),
        ("retention.bytes", str(9 * MIB), None),
        ("segment.bytes", str(2**30), f"segment.bytes is {2**30}: must be at most {2 * MIB}"),
        ("segment.bytes", str(MIB), None),
        ("max.message.bytes", "100", f"max.message.bytes is 100: must be at least {2 * MIB}"),
        ("max.message.bytes", str(3 * MIB), None),
    ],
)
def test_too_little_is_a_difference_and_more_is_none(key, value, expected):
    topic = TopicDescription(1, SPEC.configs | {key: value})
    assert differences(SPEC, topic, partitioned=False) == ([] if expected is None else [expected])
    owned = differences(OWNED, topic, partitioned=False)
    assert owned == ([expected] if expected and key == "cleanup.policy" else [])


def test_more_room_for_records_is_a_difference_of_a_shared_topic():
    shared = replace(SPEC, shared=True)
    wider = TopicDescription(
        1, shared.configs | {"max.message.bytes": str(3 * MIB), "compression.type": "zstd"}
    )
    assert differences(shared, wider, partitioned=False) == [
        "compression.type is zstd: must be uncompressed",
        f"max.message.bytes is {3 * MIB}: must be {2 * MIB}",
    ]


@pytest.mark.parametrize(
    ("spec", "partitioned", "expected"),
    [
        (SPEC, False, ["has 3 partitions: must have one"]),
        (SPEC, True, ["has 3 partitions: must have one"]),
        (OWNED, False, ["has 3 partitions: must have one"]),
        (OWNED, True, []),
    ],
)
def test_only_a_data_topic_may_have_partitions_and_only_of_a_node(spec, partitioned, expected):
    assert differences(spec, TopicDescription(3, SPEC.configs), partitioned=partitioned) == expected


def test_a_node_needs_its_edges_and_nobody_elses():
    topics = MeshTopics("m", "r")
    access = node_on_mesh(topics, "b", ["a", "c"], ["c"])
    assert set(access.reads) == {
        "m.r.topology",
        "m.r.progress.b",
        "m.r.progress.c",
        "m.r.edge.a.b",
        "m.r.edge.c.b",
        "m.r.edge.b.c",
    }
    assert set(access.writes) == {"m.r.progress.b", "m.r.deadletter.b", "m.r.edge.b.c"}
    assert len(access.topics) == len(set(access.reads) | set(access.writes))


def test_with_outboxes_a_node_reads_its_neighbours_and_writes_its_own():
    access = node_on_mesh(MeshTopics("m", "r", "outbox"), "b", ["a", "c"], ["a", "c"])
    shared = {"m.r.topology", "m.r.outbox.a", "m.r.outbox.c", "m.r.outbox.b"}
    assert set(access.reads) == shared | {f"m.r.progress.{node}" for node in "abc"}
    assert set(access.writes) == {"m.r.progress.b", "m.r.deadletter.b", "m.r.outbox.b"}
    assert not access.owned


def test_no_process_may_more_than_it_needs():
    data = node_on_data(DataTopics("m", "b"), "r")
    assert (set(data.reads), data.groups) == ({"data.m.b", "spends.data.m.b"}, ("m.r.b",))
    assert set(data.writes) == {"data-deadletter.m.b", "predictions.m.b", "decisions.m.b", "spends.data.m.b"}
    planning = scheduler(MeshTopics("m", "r"), "ab")
    assert set(planning.reads) == {"m.r.topology", "m.r.scheduler", "m.r.progress.a", "m.r.progress.b"}
    assert set(planning.writes) == {"m.r.topology", "m.r.scheduler"}


@pytest.mark.parametrize(("by", "expected"), [("time", 1), ("count", 0)])
def test_slots_by_time_go_by_the_records_own_times(tmp_path, by, expected):
    slots = {"time": {"by": "time", "start": 0, "period": 1}, "count": {"by": "count"}}[by]
    mesh = loaded(tmp_path, changed(slots=slots)).mesh
    records, *_ = data_specs(mesh, "a")
    appended = records.configs | {"message.timestamp.type": "LogAppendTime"}
    lines = differences(records, TopicDescription(1, appended), partitioned=True)
    assert lines == ["message.timestamp.type is LogAppendTime: must be CreateTime"] * expected
