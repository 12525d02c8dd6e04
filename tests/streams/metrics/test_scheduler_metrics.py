from dataclasses import replace
from math import inf, isnan

from streams.codec import Reason, decode_heartbeat, encode_heartbeat
from streams.local.mesh import MemoryMesh, MemoryScheduler
from streams.local.run import mesh_parts
from streams.metrics.scheduler_metrics import SchedulerMetrics
from tests.support.meshes.files import changed, loaded, until
from tests.support.nodes.machines import plan
from tests.support.nodes.metrics import shown
from tests.support.nodes.scheduling import beat
from topology.lag import LeftOut
from topology.scheduler_events import Refusal


def test_a_scheduler_shows_its_plans_and_who_is_live():
    metrics = SchedulerMetrics("tracking", "abc", connected=lambda: False)

    def now(name, *labels):
        return shown(metrics.shared)[f"mirrormesh_{name}", *labels]

    assert now("plan_round") == now("plan_members") == now("plan_lead_rounds") == 0
    metrics.published(3)
    metrics.planned(plan(7))
    assert now("plan_lead_rounds") == 0  # nobody is there to be ahead of
    metrics.heard(live=2, slowest=3)
    metrics.refused(Reason.DIGEST)
    metrics.refused(Refusal.REPLACED)
    metrics.refused(Reason.RUN)
    metrics.refused(Refusal.RUN)
    assert (now("plans_published_total"), now("plan_round"), now("plan_members")) == (3, 7, 3)
    assert (now("live_nodes"), now("plan_lead_rounds"), now("broker_connected")) == (2, 4, 0)
    refused = [now("messages_refused_total", reason) for reason in ("digest", "replaced", "run", "place")]
    assert refused == [1, 1, 2, 0]


def test_a_node_that_has_left_in_order_is_not_missed():
    metrics = SchedulerMetrics("tracking", "abc", connected=lambda: True, clock=lambda: 50.0)
    metrics.planned(plan(7))
    metrics.beat(beat("c", 6, leave_from=7))
    for name in ("mirrormesh_node_last_seen_timestamp_seconds", "mirrormesh_node_round"):
        assert by_node(metrics, name)["c"] in {50.0, 6}  # it is in the plan still
    metrics.planned(plan(8, names="ab"))
    for name in ("mirrormesh_node_last_seen_timestamp_seconds", "mirrormesh_node_round"):
        assert isnan(by_node(metrics, name)["c"])  # so that no alert compares it with the clock
    metrics.beat(beat("c", 6, join_after=8))
    assert by_node(metrics, "mirrormesh_node_last_seen_timestamp_seconds")["c"] == 50.0


def test_a_heartbeat_of_a_process_that_was_replaced_is_no_sign_of_life(tmp_path):
    parts = mesh_parts(loaded(tmp_path, changed(rounds=1000)))
    mesh = MemoryMesh(parts, lambda *_: None)
    until(mesh, lambda: all(len(node.journal.records()) >= 4 for node in mesh.nodes.values()))
    name, now = next(iter(mesh.nodes)), [1e9]
    metrics = SchedulerMetrics("tracking", mesh.nodes, connected=lambda: True, clock=lambda: now[0])
    runner = MemoryScheduler(parts, mesh.broker, metrics).runner
    topic = parts.topics.progress(name)
    last = decode_heartbeat(mesh.bus.read(topic, 0)[-1], parts.topics.run, name, parts.digest)
    for at, boot, hello in ((2e9, "2" * 32, True), (3e9, last.boot, False)):
        now[0] = at
        runner.read(topic, 0, encode_heartbeat(replace(last, boot=boot, hello=hello), parts.digest), inf)
    assert shown(metrics.shared)["mirrormesh_messages_refused_total", "replaced"] == 1
    assert by_node(metrics, "mirrormesh_node_last_seen_timestamp_seconds")[name] == 2e9
    assert by_node(metrics, "mirrormesh_node_starts_total")[name] == 1
    assert by_node(metrics, "mirrormesh_node_round")[name] == 3


def by_node(metrics, name):
    """The values of a metric that has a series for each node."""
    (family,) = [one for one in metrics.shared.collected.collect() if name.startswith(one.name)]
    return {sample.labels["node"]: sample.value for sample in family.samples if sample.name == name}


def test_a_scheduler_shows_when_each_node_of_the_mesh_file_was_heard_and_how_often_it_started():
    now = [1000.0]
    metrics = SchedulerMetrics("tracking", "abc", connected=lambda: True, clock=lambda: now[0])
    assert shown(metrics.shared)["mirrormesh_mesh_nodes",] == 3
    metrics.replayed(
        beat("a", 4, boot="one", hello=True), 900.19
    )  # before this scheduler: no start it has heard
    metrics.replayed(beat("c", 4, boot="one", hello=True), 2000.0)  # by a clock that runs ahead
    now[0] = 1234.56
    for found in (
        beat("b", boot="one", hello=True),
        beat("b", boot="one", hello=True),
        beat("b", 5, boot="one"),
    ):
        metrics.beat(found)
    assert by_node(metrics, "mirrormesh_node_last_seen_timestamp_seconds") == {
        "a": 900.1,
        "b": 1234.5,
        "c": 1000,
    }
    assert by_node(metrics, "mirrormesh_node_starts_total") == {"a": 0, "b": 1, "c": 0}
    assert by_node(metrics, "mirrormesh_node_round") == {"a": 4, "b": 5, "c": 4}
    metrics.beat(beat("b", 5, boot="two", hello=True))
    metrics.beat(beat("a", 4, boot="two", hello=True))
    assert by_node(metrics, "mirrormesh_node_starts_total") == {"a": 1, "b": 2, "c": 0}


def test_a_scheduler_counts_whom_it_leaves_out(caplog):
    metrics = SchedulerMetrics("tracking", "abc", connected=lambda: True)
    assert by_node(metrics, "mirrormesh_nodes_left_out_total") == {"a": 0, "b": 0, "c": 0}
    for held in (15.0, 30.0):
        metrics.left_out(LeftOut("b", held, 2 * held))
    assert by_node(metrics, "mirrormesh_nodes_left_out_total") == {"a": 0, "b": 2, "c": 0}
    assert [record.args for record in caplog.records] == [("b", 15.0, 30.0), ("b", 30.0, 60.0)]
