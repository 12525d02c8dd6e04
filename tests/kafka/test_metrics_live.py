"""A mesh at work, as Prometheus reads it: what everyone sees, and what the owner of the data alone does."""

import math
import time
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streams.metrics.catalogue import PREFIX, PrivateMetric, SharedMetric
from tests.support.brokers.development import free_ports
from tests.support.brokers.feeding import SCHEMA, rows
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.nodes.metrics import promtool_says, samples, scraped
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

HERE = "127.0.0.1"
SIZE, STEPPED, HORIZON, BUDGET = 2, 30, 4, 100
FED = SIZE * STEPPED
BAD = 5
"""Lines that cannot be decoded."""
OF_OTHERS = {
    *(SharedMetric.QUERY, SharedMetric.QUERIES, SharedMetric.ANSWERED, SharedMetric.LEFT_OUT),
    *(SharedMetric.SECOND_RESPONSES, SharedMetric.QUERIES_REFUSED),
    PrivateMetric.PASS,
    PrivateMetric.REGISTRY,  # of nodes with one
    *(
        PrivateMetric.LABELS,
        PrivateMetric.HELD_UP,
    ),  # of nodes whose labels come later: tests/kafka/test_later_labels.py
    # of losses with a label: tests/streams/metrics/test_private_verdict.py
    *(PrivateMetric.AUC, PrivateMetric.GAIN, PrivateMetric.RISES),
    # of `mirrormesh score`: tests/kafka/test_score.py
    *(PrivateMetric.SCORES, PrivateMetric.SCORE_LAG, PrivateMetric.SCORE_LATENCY),
    *(PrivateMetric.SCORE_ROUND, PrivateMetric.SCORE_MODEL),
    # of `mirrormesh feed`: tests/kafka/test_feed_process.py
    *(PrivateMetric.FED, PrivateMetric.FEED_LINE, PrivateMetric.FEED_OTHERS, PrivateMetric.FEED_WAITING),
    *(PrivateMetric.FEED_OVER, PrivateMetric.FEED_FAILED),
}


def read(port):
    """The text that is served there, and its samples without the prefix; empty where nothing is yet."""
    try:
        text = scraped(HERE, port)
    except OSError:
        return "", {}
    found = samples(text_string_to_metric_families(text)).items()
    return text, {(name.removeprefix(f"{PREFIX}_"), *labels): value for (name, *labels), value in found}


def names(shown):
    """The names of the metrics among the samples; a histogram's have endings of their own."""
    return {name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum") for name, *_ in shown}


def catalogued(catalogue):
    """The names of a whole catalogue, as far as a mesh of nodes alone has them."""
    return {metric.value.name for metric in catalogue if metric not in OF_OTHERS}


@pytest.fixture
def ports():
    """Of a node: shared, private; of the scheduler."""
    return free_ports(3)


@pytest.fixture
def mesh(tmp_path, broker, ports):
    """Three nodes that have no more than 30 rounds' records, of a thousand: they stand, and can be read."""
    lines = [line.replace(b"{", b'{"u": 3, "v": 4, ') for line in rows(FED)]
    lines[3 : 3 + BAD] = [b"no record"] * BAD
    (tmp_path / "records.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    source = {
        "kind": "json-lines",
        "path": str(tmp_path / "records.jsonl"),
        "schema": SCHEMA | {"truth": ["u", "v"]},
    }
    path = small_mesh_file(
        tmp_path,
        broker.address,
        sources=dict.fromkeys("abc", source),
        own={"a": {"private_endpoint": f"{HERE}:{ports[1]}"}},
        rounds=1000,
        horizon=HORIZON,
        loss="squared",
        slots={"by": "count", "size": SIZE, "timeout": "none"},
        privacy={"mechanism": "laplace", "epsilon": 1, "gradient_bound": 0.5, "noise": "exact"}
        | {"budget": BUDGET},
    )
    with LiveMesh(path) as live:
        live.feed_all()
        yield live


def test_every_figure_of_the_catalogue_is_there_and_true(mesh, ports):
    node, *others = mesh.file.mesh.nodes
    began = time.time()
    mesh.node(node, "--metrics", ports[0])
    mesh.start("scheduler", "scheduler", mesh.path, "--metrics", ports[2])
    for other in others:
        mesh.node(other)

    texts, figures = [], []

    def settled():
        texts[:], figures[:] = zip(*(read(port) for port in ports), strict=True)
        shared, private, scheduler = figures
        waited_for = [shared.get(("releases_received_total", other)) for other in others]
        waited_for += [shared.get(("releases_sent_total",), 0) / 2, scheduler.get(("plan_round",), 0) - 3]
        owner = [private.get((name,)) for name in ("data_lag_records", "records_total")]  # worked out later
        alive = [scheduler.get((name,)) for name in ("plan_members", "live_nodes", "plan_lead_rounds")]
        connected = [shown.get(("broker_connected",)) for shown in (shared, scheduler)]
        return (waited_for, owner, alive, connected) == ([STEPPED + 1] * 4, [0, FED], [3, 3, HORIZON], [1, 1])

    wait_until(settled)
    shared, private, scheduler = figures
    for port in ports:
        for probe in ("livez", "readyz"):
            with urlopen(f"http://{HERE}:{port}/{probe}", timeout=10) as answer:
                assert answer.status == 200
    of_nodes(shared, others, began)
    of_the_owner(private)
    of_a_scheduler(scheduler)
    assert names(shared) | names(scheduler) == catalogued(SharedMetric)
    assert names(private) >= catalogued(PrivateMetric)
    for word in (*catalogued(PrivateMetric), "process_"):
        assert not any(word in name for name in names(shared) | names(scheduler))
    for served in texts:
        assert promtool_says(served) == ""


def of_nodes(shown, others, began):
    """Everyone's figures of a node that has done so many rounds, and has sent its release for the next."""
    expected = {
        "broker_connected": 1,
        "round": STEPPED,
        "rounds_total": STEPPED,
        "round_interval_seconds_count": STEPPED - 1,
        "edges_on": 2,
        "releases_sent_total": 2 * (STEPPED + 1),
        "plans_ignored_total": 0,
        "joins_asked_total": 0,
        "last_learning_round": BUDGET / SIZE,
        "relaying": 0,
        "simulated_noise": 0,
    }
    assert {name: shown[name,] for name in expected} == expected
    assert began < shown["last_round_timestamp_seconds",] < time.time()
    assert 0 < shown["consensus_gap",] < 6.1  # the set's diameter is 6
    spent = {"spent": (1, FED), "budget": (math.inf, BUDGET), "left": (None, BUDGET - FED)}
    for name, (event, stream) in spent.items():
        assert shown.get((f"epsilon_{name}", "event")) in {event, None}
        assert shown[f"epsilon_{name}", "stream"] == stream
    assert shown["epsilon_spent", "event"] == 1
    for other in others:
        assert shown["releases_received_total", other] == STEPPED + 1
        for name in ("releases_given_up", "late_corrections", "evidence", "releases_ignored"):
            assert shown[f"{name}_total", other] == 0
    assert sum(value for (name, *_), value in shown.items() if name == "messages_refused_total") == 0


def of_the_owner(shown):
    """The owner's figures, which are of the records."""
    expected = {
        "records_total": FED,
        "malformed_records_total": BAD,
        "broken_gradients_total": 0,
        "empty_slots_total": 0,
        "data_lag_records": 0,
    }
    assert {name: shown[name,] for name in expected} == expected
    assert [shown["target", coordinate] for coordinate in "01"] == [3, 4]
    decision = [shown["decision", coordinate] for coordinate in "01"]
    assert shown["tracking_error",] == pytest.approx(math.dist(decision, (3, 4)))
    assert 0 < shown["clipped_gradients_total",] <= FED - BAD
    assert shown["regret",] > 0
    assert shown["regret_average",] == pytest.approx(shown["regret",] / STEPPED)
    assert {shown["dropped_records_total", reason] for reason in ("late", "early", "overfull", "lost")} == {0}
    assert 2**24 < shown["process_resident_memory_bytes",] < 2**30


def of_a_scheduler(shown):
    """A scheduler's figures: it is as far ahead as it may be."""
    expected = {"broker_connected": 1, "plan_members": 3, "live_nodes": 3, "plan_lead_rounds": HORIZON}
    expected |= dict.fromkeys(("plan_round", "plans_published_total"), STEPPED + HORIZON)
    assert {name: shown[name,] for name in expected} == expected
