"""A source that is a topic which others made: what the mesh file makes of it, and what each command says."""

import sys

import pytest

from streams.bus.rights import Scope, data_users
from streams.bus.topic_specs import data_specs
from streams.ledger import promises_of
from streams.mesh.compatibility import Part, part_of
from streams.mesh.errors import MeshFileError
from streams.tools.model.writing import source_of
from tests.support.brokers.avro import need_fastavro
from tests.support.brokers.registry import stub_registry
from tests.support.meshes.files import changed, loaded
from tests.support.processes.in_process import Commands

SCHEMA = {"features": {"x": "number", "deep.y": "number"}, "label": {"column": "z"}}


def source(**settings):
    return {"kind": "topic", "topic": "payments.authorised", "schema": SCHEMA} | settings


REGISTRY = {"url": "http://127.0.0.1:9"}
AVRO = {"format": "avro", "registry": REGISTRY}
UNSET = REGISTRY | {"password": "${NONE}"}


def placed(origin):
    """A schema whose first column is from there."""
    return SCHEMA | {"features": {"x": {"number": True, "from": origin}, "deep.y": "number"}}


def mesh(folder, *, privacy=None, **sources):
    """The file of a mesh of two nodes with these sources, each on a broker of its own."""
    more = {} if privacy is None else {"privacy": privacy}
    tree = changed(nodes=["a", "b"], loss="squared", topology={"graph": "complete"}, **more)
    broker = {"servers": "127.0.0.1:1"}
    tree["brokers"] = {"mesh": broker, "data": broker, "trust_broker": True}
    tree["nodes"] = {name: {"source": settings} for name, settings in sources.items()}
    return loaded(folder, tree)


def test_the_node_reads_the_topic_and_has_all_others_of_its_own(tmp_path):
    file = mesh(tmp_path, a=source(), b=source(topic="other"))
    topics = file.data_topics("a")
    assert topics.records == "payments.authorised"
    assert topics.spends == "spends.payments.authorised"
    assert topics.decisions == f"decisions.{file.mesh.name}.a"
    assert "payments.authorised" not in topics.all


def test_nobody_makes_the_topic_or_gives_rights_on_it(tmp_path):
    file = mesh(tmp_path, a=source(), b=source(topic="other"))
    made = [spec.name for spec in data_specs(file.mesh, "a", file.data_topics("a").source)]
    assert made == list(file.data_topics("a").all)
    (user, *feeders) = data_users(file.resolved, ["a"], file.sources(["a"]))
    assert feeders == []
    assert {rule.name for rule in user.rules} == set(made)
    scope = Scope.of(file.mesh.name, ["a"], file.sources(["a"]), shared=False)
    assert "payments.authorised" not in scope.names


@pytest.mark.parametrize("own", [{}, {"partitions": [0, 1]}])
def test_two_nodes_that_read_one_topic_are_refused(tmp_path, own):
    with pytest.raises(MeshFileError, match=r"nodes.b.source.topic: .*node a reads it too: their partitions"):
        mesh(tmp_path, a=source(), b=source(**own))


def test_two_nodes_may_share_a_topic_by_partitions(tmp_path):
    file = mesh(tmp_path, a=source(partitions=[0, 2]), b=source(partitions=[1]))
    assert [promise.reuse.earlier for promise in promises_of(file).values()] == [(), ()]


def test_parts_by_partitions():
    parts = [part_of(None, by_time=False), Part(partitions=(0, 1)), Part(partitions=(2,))]
    assert [[part.overlaps(other) for other in parts] for part in parts] == [
        [True, True, True],
        [True, True, False],
        [True, False, True],
    ]


def test_slots_by_time_take_kafka_s_time_unless_the_schema_names_a_column(tmp_path):
    slots = {"by": "time", "start": 0, "period": 1}
    tree = changed(nodes=["a", "b"], loss="squared", topology={"graph": "complete"}, slots=slots)
    tree["nodes"] = {"a": {"source": source()}}
    assert loaded(tmp_path, tree).own("a").source.record.timestamp is None


def test_the_sentence_says_what_is_made_of_the_key(tmp_path, capsys):
    features = {"x": {"number": True, "from": {"key": "x"}}, "y": {"number": True, "from": {"header": "y"}}}
    keyed = SCHEMA | {"features": features}
    privacy = {"mechanism": "laplace", "epsilon": 1, "gradient_bound": 0.5, "noise": "exact"}
    file = mesh(tmp_path, privacy=privacy, a=source(schema=keyed), b=source(topic="other"))
    sentences = {name: promise.sentence for name, promise in promises_of(file).items()}
    text = "are public (count slots), so what is made of the key (x) is not protected; a fact in k records"
    assert text in sentences["a"]
    assert "made of the key" not in sentences["b"]
    outcome = Commands(capsys)("plan", file.path)
    assert "so what is made of the key (x) is not protected" in " ".join(outcome.out.split())


def test_with_slots_by_time_the_key_is_protected(tmp_path):
    keyed = SCHEMA | {"label": {"column": "z", "from": {"key": "."}}}
    slots = {"by": "time", "start": 0, "period": 1}
    tree = changed(nodes=["a", "b"], loss="squared", topology={"graph": "complete"}, slots=slots)
    tree["nodes"] = {"a": {"source": source(schema=keyed)}}
    tree["mesh"]["privacy"] |= {"noise": "exact"}
    sentence = promises_of(loaded(tmp_path, tree))["a"].sentence
    assert "is protected" in sentence
    assert "made of the key" not in sentence


def test_a_file_has_its_columns_under_their_names(tmp_path):
    elsewhere = SCHEMA | {"label": {"column": "z", "from": {"header": "z"}}}
    file = {"kind": "json-lines", "path": "records.jsonl", "schema": elsewhere}
    with pytest.raises(MeshFileError, match=r"nodes.a.source.schema.label.from: .*goes with kind topic"):
        mesh(tmp_path, a=file, b=source())


def test_run_says_in_one_line_that_it_reads_files(tmp_path, capsys):
    outcome = Commands(capsys)("run", mesh(tmp_path, a=source(), b=source(topic="other")).path)
    assert (outcome.code, outcome.out) == (2, "")
    assert 'nodes.a.source.kind: "topic": a topic is read by up and node alone' in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("command", ["check", "plan"])
def test_commands_that_read_no_record_take_it(tmp_path, capsys, command):
    outcome = Commands(capsys)(command, mesh(tmp_path, a=source(), b=source(topic="other")).path)
    assert outcome.code == 0, outcome.err


@pytest.mark.parametrize(
    ("text", "seconds"), [("7d", 604_800), ("36h", 129_600), ("90m", 5_400), ("45s", 45), ("24h", 86_400)]
)
def test_the_longest_lag_has_a_unit(tmp_path, text, seconds):
    settings = mesh(tmp_path, a=source(lag=text)).own("a").source
    assert settings.lag == seconds
    assert settings.model_dump(mode="json")["lag"] == ("1d" if text == "24h" else text)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"topics": "x"}, 'source.topics: "x": unknown key'),
        ({"topic": 7}, "source.topic: 7: must be text"),
        ({"topic": ["a"]}, "source.topic: "),
        ({"broker": "127.0.0.1:1"}, 'source.broker: "127.0.0.1:1": must be a mapping'),
        ({"broker": {"servers": 1}}, "source.broker.servers: "),
        ({"format": "protobuf"}, 'source.format: "protobuf": must be json, csv or avro'),
        ({"format": "avro"}, "source.registry: missing: format avro needs one"),
        ({"registry": REGISTRY}, "source.registry: (hidden): goes with format avro"),
        ({"registry": REGISTRY, "framed": True}, "source.registry: (hidden): goes with format avro"),
        (AVRO | {"framed": True}, "source.framed: true: goes with format json: Avro has a frame as it is"),
        (AVRO | {"registry": "http://x"}, "source.registry: (hidden): must be a mapping"),
        (AVRO | {"registry": {}}, "source.registry.url: missing: must be given"),
        (AVRO | {"registry": {"url": "127.0.0.1:8081"}}, "source.registry.url: (hidden): must be http://"),
        (AVRO | {"registry": {"url": "http://u:hush@x"}}, "source.registry.url: (hidden): must have no user"),
        (AVRO | {"registry": REGISTRY | {"username": "u"}}, "source.registry.password: missing: a user has"),
        (AVRO | {"registry": REGISTRY | {"password": "hush"}}, "source.registry.username: missing: a user"),
        (AVRO | {"registry": UNSET}, "source.registry.password: (hidden): the environment has no variable"),
        (AVRO | {"registry": REGISTRY | {"ca": "ca.pem"}}, "source.registry.ca: (hidden): needs an https://"),
        ({"columns": ["x"]}, "source.columns: "),
        ({"value": ""}, 'source.value: "": must be names with dots between them'),
        ({"where": {"op": ["c", {"a": 1}]}}, "source.where.op: "),
        ({"framed": "yes"}, 'source.framed: "yes": must be true or false'),
        ({"where_headers": {"op": []}}, "source.where_headers.op: "),
        ({"schema": placed("customer..x")}, 'source.schema.features.x.from: "customer..x": must be'),
        ({"schema": placed({"headers": "x"})}, "source.schema.features.x.from: "),
        ({"schema": placed({"header": "x", "key": "x"})}, "source.schema.features.x.from: "),
        ({"schema": placed({"header": ""})}, "source.schema.features.x.from.header: "),
        ({"schema": placed({"key": "a..b"})}, 'source.schema.features.x.from.key: "a..b": must be names'),
        ({"where": {"": "c"}}, 'source.where: "": must be names with dots'),
        ({"partitions": "0"}, 'source.partitions: "0": must be a list'),
        ({"partitions": [0, -1]}, "source.partitions: "),
        ({"lag": 7}, "source.lag: 7: must be a time with its unit, like 7d, 36h, 90m or 45s"),
        ({"lag": "0d"}, 'source.lag: "0d": must be a time with its unit'),
        ({"lag": "1.5d"}, 'source.lag: "1.5d": must be a time with its unit'),
        ({"max_record_bytes": 0}, "source.max_record_bytes: 0: must be"),
        *(
            ({"topic": name}, f'source.topic: "{name}": begins with tracking.run-1., so who may read the run')
            for name in ("tracking.run-1.topology", "tracking.run-1.payments")
        ),
        *(
            ({"topic": name}, f'source.topic: "{name}": a node of the mesh writes to it: must be another')
            for name in (
                "decisions.tracking.a",
                "predictions.tracking.b",
                "data-deadletter.tracking.a",
                "spends.data.tracking.b",
            )
        ),
        ({"schema": {"features": {"x": "numbr"}, "label": {"column": "z"}}}, "source.schema.features.x: "),
    ],
)
def test_a_mistake_is_told_at_its_own_key(tmp_path, settings, line):
    with pytest.raises(MeshFileError) as refused:
        mesh(tmp_path, a=source(**settings), b=source(topic="other"))
    assert f"nodes.a.{line}" in str(refused.value)
    assert "hush" not in str(refused.value)


def avro(url, password=None):
    user = {} if password is None else {"username": "reader", "password": password}
    return source(format="avro", registry={"url": url} | user)


def test_check_warns_of_a_registry_that_is_away(tmp_path, capsys):
    need_fastavro()
    outcome = Commands(capsys)(
        "check", mesh(tmp_path, a=avro("http://127.0.0.1:9"), b=source(topic="b")).path
    )
    assert outcome.code == 0, outcome.err
    text = "Warning: nodes.a.source.registry: http://127.0.0.1:9: the schema registry is away (ConnectError)"
    assert text in outcome.out


def test_check_says_in_one_line_that_a_registry_refuses(tmp_path, capsys):
    need_fastavro()
    with stub_registry(user="reader:hush") as stub:
        right = mesh(tmp_path, a=avro(stub.url, "hush"), b=source(topic="b"))
        assert Commands(capsys)("check", right.path).code == 0
        wrong = mesh(tmp_path, a=avro(stub.url, "of-nobody"), b=source(topic="b"))
        outcome = Commands(capsys)("check", wrong.path)
    assert (outcome.code, outcome.out) == (2, "")
    (line,) = outcome.err.strip().splitlines()
    assert f"nodes.a.source.registry: {stub.url}: the schema registry refuses these credentials (401)" in line
    assert "of-nobody" not in line


def test_what_is_not_installed_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastavro", None)
    outcome = Commands(capsys)(
        "check", mesh(tmp_path, a=avro("http://127.0.0.1:9"), b=source(topic="b")).path
    )
    assert (outcome.code, outcome.out) == (2, "")
    (line,) = outcome.err.strip().splitlines()
    assert 'nodes.a.source.format: "avro": needs fastavro, which is not installed: pip install' in line


def test_a_model_says_nothing_of_the_registry(tmp_path):
    """Without one there is no Avro: messages that it scores are JSON of the same columns."""
    settings = mesh(tmp_path, a=avro("http://127.0.0.1:9"), b=source(topic="b")).own("a").source
    tree = source_of([settings])
    assert "schema" in tree
    assert not {"registry", "format"} & tree.keys()


def test_a_node_whose_registry_refuses_ends_at_its_start_in_one_line(tmp_path, capsys):
    need_fastavro()
    with stub_registry(user="reader:hush") as stub:
        file = mesh(tmp_path, a=avro(stub.url, "of-nobody"), b=source(topic="b"))
        outcome = Commands(capsys)("node", file.path, "a", "--state", tmp_path / "state")
    assert outcome.code == 1
    (line,) = [line for line in outcome.err.splitlines() if "schema registry" in line]
    assert line.endswith(f"{stub.url}: the schema registry refuses these credentials (401)")
    assert "of-nobody" not in outcome.err
    assert "Traceback" not in outcome.err
