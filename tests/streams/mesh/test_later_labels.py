"""Settings of labels that come later: what is refused, in one line each, and what the owner is told."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from streams.bus.preflight import check_clusters
from streams.bus.rights import DesiredUsers, Grant, GrantGap, Rule, Scope, data_users_of, gap
from streams.cli.check import unreadable
from streams.ledger import promises_of
from streams.local.run import mesh_parts
from streams.mesh.errors import MeshFileError
from streams.mesh.settings.brokers import BrokerSettings, BrokersSettings
from streams.records.lint import findings
from streams.records.sources import decoder
from streams.terminal.plan_text import facts
from tests.support.meshes.files import changed, loaded

LABELS = {"topic": "chargebacks", "join": "payment_id", "after": "45d", "value": {"constant": "fraud"}}
LABELS |= {"otherwise": "legitimate"}
SCHEMA = {"features": {"x": "number", "y": "number"}, "label": {"column": "outcome", "positive": "fraud"}}
TOPIC = {"kind": "topic", "topic": "payments", "schema": SCHEMA}


def mesh(folder, source=TOPIC, labels=None, held_out=None, **shared):
    """The file of a mesh of two nodes, of which a has labels that come later."""
    tree = changed(**({"nodes": ["a", "b"], "loss": "hinge", "topology": {"graph": "complete"}} | shared))
    own = source | {"labels": LABELS | (labels or {})}
    broker = {"servers": "127.0.0.1:1"}
    tree["brokers"] = {"mesh": broker, "data": broker, "trust_broker": True}
    tree["nodes"] = {
        "a": {"source": own},
        "b": {"source": TOPIC | {"topic": "others", "schema": source.get("schema", SCHEMA)}},
    }
    if held_out is not None:
        tree["held_out"] = held_out
    return loaded(folder, tree)


def refused(folder, *args, **changes):
    """The one line that refuses the file."""
    with pytest.raises(MeshFileError) as error:
        mesh(folder, *args, **changes)
    (line,) = error.value.lines
    return line.partition(": ")[2]


BY_TIME = {"slots": {"by": "time", "period": 60, "start": 0, "size": 10}}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"labels": {"after": 45}}, "nodes.a.source.labels.after: 45: must be a time with its unit"),
        ({"labels": {"after": "0d"}}, 'nodes.a.source.labels.after: "0d": must be a time with its unit'),
        ({"labels": {"before": "soon"}}, 'nodes.a.source.labels.before: "soon": must be a time with its'),
        ({"labels": {"topic": "payments"}}, 'nodes.a.source.labels.topic: "payments": is the topic of the'),
        (
            {"labels": {"topic": "data.tracking.b"}},
            'nodes.a.source.labels.topic: "data.tracking.b": is a topic of the',
        ),
        ({"labels": {"value": "fraud"}}, "nodes.a.source.labels.value: "),
        ({"labels": {"format": "avro"}}, "nodes.a.source.labels.registry: missing: format avro needs one"),
        ({"labels": {"format": "csv"}}, 'nodes.a.source.labels.format: "csv": must be json or avro'),
        (
            {"labels": {"registry": {"url": "http://here"}}},
            "nodes.a.source.labels.registry: (hidden): goes with format avro",
        ),
        (
            {"labels": {"topic": None, "path": "x.csv", "broker": {"servers": "h:1"}}},
            'nodes.a.source.labels.broker: {"servers": "h:1"}: goes with topic',
        ),
        (
            {"labels": {"value": {"constant": [1]}}},
            "nodes.a.source.labels.value.constant: [1]: must be text",
        ),
        ({"source": {"kind": "libsvm", "label": {"positive": 1}}}, 'nodes.a.source.labels: {"after": "45d"'),
        ({"source": {"kind": "localisation"}}, 'nodes.a.source.labels: {"after": "45d"'),
        (
            BY_TIME | {"labels": {"after": "99999d"}},
            'nodes.a.source.labels.after: "99999d": the slots until',
        ),
        (
            {"slots": BY_TIME["slots"] | {"shift": 5}},
            "nodes.a.source.labels: goes with records of the present",
        ),
        (
            {"held_out": {"kind": "json-lines", "path": "x", "schema": SCHEMA, "labels": LABELS}},
            "held_out.labels: goes with the source of a node",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(tmp_path, changes, line):
    assert refused(tmp_path, **changes).startswith(line)


@pytest.mark.parametrize(
    ("label", "changes", "key"),
    [
        ({"column": "z"}, {"otherwise": "none"}, "otherwise"),
        ({"column": "z"}, {"otherwise": 0}, "value.constant"),
        ({"column": "z", "positive": "fraud", "negative": "fine"}, {}, "otherwise"),
        ({"column": "z", "positive": "bad", "negative": "legitimate"}, {}, "value.constant"),
    ],
)
def test_what_the_schema_could_not_read_is_no_label(tmp_path, label, changes, key):
    source = TOPIC | {"schema": SCHEMA | {"label": label}}
    line = refused(tmp_path, source, changes, loss="hinge" if "positive" in label else "squared")
    assert line.startswith(f"nodes.a.source.labels.{key}: ")
    assert "must be a label that" in line


def test_a_join_key_that_is_in_no_column_is_named(tmp_path):
    source = {"kind": "csv", "columns": ["x", "y", "payment"], "schema": SCHEMA}
    with pytest.raises(MeshFileError, match=r"payment_id.*not in columns, which is .*payment"):
        decoder(mesh(tmp_path, source), "a")
    columns = ["x", "y", "payment_id"]  # the label's column need not be there
    assert decoder(mesh(tmp_path, source | {"columns": columns}), "a").columns == tuple(columns)


def test_check_misses_no_label_in_a_file_of_records(tmp_path):
    records = tmp_path / "records.jsonl"
    records.write_text("".join(f'{{"x": 1, "y": {k}, "payment_id": {k}}}\n' for k in range(9)))
    source = {"kind": "json-lines", "path": str(records), "schema": SCHEMA}
    file = mesh(tmp_path, source)
    assert unreadable(file) == []
    assert [line for line in findings(file) if "source" in line] == []
    records.write_text('{"x": 1, "y": 2}\n')
    (line,) = unreadable(file)
    assert "payment_id: missing (1)" in line


def test_run_reads_no_topic(tmp_path):
    records = tmp_path / "records.jsonl"
    records.write_text('{"x": 1, "y": 2, "payment_id": "p"}\n')
    source = {"kind": "json-lines", "path": str(records), "schema": SCHEMA}
    file = mesh(tmp_path, source)
    with pytest.raises(MeshFileError, match=r'nodes.a.source.labels: "chargebacks": a topic is read by'):
        mesh_parts(file)


def test_the_owner_is_told_the_wait_and_what_is_protected(tmp_path):
    file = mesh(tmp_path, privacy={"noise": "exact"})
    first, second = (promise.sentence for promise in promises_of(file).values())
    assert first.startswith("Each record of node a's stream together with its labels is protected with")
    assert "every record waits 45 days for its labels on chargebacks" in first
    assert "a label of k records is protected at k epsilon" in first
    assert "label" not in second
    text = "\n".join(f"{key} {fact}" for key, fact in facts(file, None, 0.0))
    assert "labels a: from chargebacks, by payment_id, up to 45 days after a record" in text
    assert "the first slot is a wait of 45 days" in text


def test_what_others_must_share_says_nothing_of_labels(tmp_path):
    file = mesh(tmp_path)
    assert file.digest() == mesh(tmp_path, labels={"after": "1d"}).digest()
    assert "chargebacks" not in file.mesh.agreed_text


def test_the_settings_come_back_as_they_were_written(tmp_path):
    source = mesh(tmp_path, labels={"before": "90m"}).own("a").source
    written = source.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert written["labels"] == LABELS | {"before": "90m"}
    assert type(source).model_validate(written) == source


def test_labels_may_be_on_another_broker_than_the_records(tmp_path):
    elsewhere = {"servers": "127.0.0.1:2"}
    file = mesh(tmp_path, labels={"topic": "payments", "broker": elsewhere})  # of the name that records have
    assert file.labels_broker("a").servers == elsewhere["servers"]
    assert file.label_topics("ab") == {}  # whose rights its owners give
    here = mesh(tmp_path)
    assert here.labels_broker("a") == here.records_broker("a")
    assert here.label_topics("ab") == {"a": "chargebacks"}


def test_the_nodes_user_may_read_a_topic_of_labels_and_see_its_settings(tmp_path):
    file = mesh(tmp_path)
    own, other = (data_users_of(file, name)[0] for name in "ab")
    reading = Rule("topic", "chargebacks", "literal", ("Read", "DescribeConfigs"))
    assert reading in own.rules
    assert "chargebacks" not in {rule.name for rule in other.rules}
    users = data_users_of(file, "ab")
    scope = Scope.of(file.mesh.name, "ab", file.sources("ab"), file.label_topics("ab"), shared=False)
    wanted = DesiredUsers(users, scope, tls=False)
    there = [*wanted.grants()]
    assert gap(wanted, there, {}) == GrantGap()
    by_others = Grant("User:a", "topic", "chargebacks", "literal", "Write")
    assert gap(wanted, [*there, by_others], {}) == GrantGap()  # the topic is not the mesh's
    theirs = Grant("User:b", "topic", "chargebacks", "literal", "Read")
    assert gap(wanted, [*there, theirs], {}).excess == (theirs,)


@pytest.mark.parametrize(("cluster", "is_refused"), [("of the mesh", True), ("another", False)])
def test_labels_on_the_mesh_brokers_cluster_need_trust_in_it(tmp_path, cluster, is_refused):
    elsewhere = {"servers": "127.0.0.1:2"}
    file = mesh(tmp_path, labels={"broker": elsewhere})
    here = file.brokers("a").data
    apart = BrokersSettings(mesh=here, data=BrokerSettings(servers="127.0.0.1:3"))
    file = replace(file, nodes={**file.nodes, "a": file.own("a").model_copy(update={"brokers": apart})})
    clusters = {here: "of the mesh", apart.data: "of the party", file.labels_broker("a"): cluster}
    with pytest.raises(MeshFileError) if is_refused else nullcontext() as refusal:
        check_clusters(file, {"a": apart}, clusters)
    if is_refused:
        (line,) = refusal.value.lines
        assert "nodes.a.source.labels.broker: the labels are on the mesh broker's cluster: needs" in line
