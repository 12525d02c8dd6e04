"""A message's score is what `predict` says of the same record in a file, and no message stops it."""

import gc
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.losses.losses import Logistic, RangeLoss, Softmax, Squared
from streams.bus.registry import Definition
from streams.mesh.errors import MeshFileError, UsageError
from streams.mesh.file import load
from streams.mesh.model_file import ModelGuarantee, read_model
from streams.mesh.settings.brokers import RegistrySettings
from streams.mesh.settings.node import TopicSettings
from streams.records.decoder import SchemaDecoder
from streams.records.faults import Fault
from streams.records.messages import Messages
from streams.tools.model.predicting import ModelFile, predict
from streams.tools.model.writing import source_of
from streams.tools.score.processor import BATCH, Copied, Route, rare_collections
from streams.tools.score.score import Scoring, group_of, reading_of, scorer_of
from streams.tools.score.scorer import ModelVersion, Scorer
from tests.support.brokers import avro
from tests.support.brokers.scoring import SCHEMA, expected, model, record
from tests.support.brokers.topics import connection
from tests.support.meshes.files import changed, written
from tests.support.processes.in_process import Commands

LABELS = {
    "topic": "chargebacks",
    "join": "payment_id",
    "after": "45d",
    "value": {"constant": "1"},
    "otherwise": "0",
}
GUARANTEE = ModelGuarantee(adjacency="event", epsilon=1.5, delta=1e-6, nodes={})


def route(topic="payments.new"):
    return Route(connection("127.0.0.1:1"), topic, "payments.scored", "score.banks.payments.new")


def scorer(path, **options):
    scoring, way = Scoring(model=path, **options), route()
    made, models = scorer_of(scoring, way, reading_of(scoring, way.input))
    return made, models.newest()


odd = st.sampled_from(
    [
        b"",
        b"{",
        b"[1]",
        b'{"x": 1}',
        b'{"x": "a", "y": 2}',
        b'{"x": 1e999, "y": 2}',
        b"\xff",
        b'{"x": 1, "x": 2, "y": 3}',
    ]
)
ordinary = st.integers(0, 999).map(lambda number: json.dumps(record(number)).encode())
unlabelled = st.integers(0, 999).map(lambda number: json.dumps({"x": number, "y": -number}).encode())


@settings(max_examples=80, deadline=None)
@given(st.lists(st.one_of(odd, ordinary, unlabelled), min_size=1, max_size=30), ordinary)
def test_it_says_of_each_record_what_predict_says_of_it_in_a_file(values, readable):
    values.append(readable)  # predict refuses a file without one
    with TemporaryDirectory() as folder:
        path = model(Path(folder))
        lines = Path(folder) / "records.jsonl"
        lines.write_bytes(b"".join(value + b"\n" for value in values))
        made, version = scorer(path, threshold=0.5)
        outcomes = made.scores(values, version)
        outcome = predict(path, str(lines), threshold=0.5)
        by_line = dict(outcome.records)
    following = zip(outcome.probabilities, outcome.decided.positive, strict=True)
    for number, (value, score) in enumerate(zip(values, outcomes, strict=True), 1):
        if not value:  # an empty line is no record
            assert score is None
            assert number not in by_line
        elif by_line[number] is None:
            assert isinstance(score, Fault)
        else:
            probability, is_positive = next(following)
            body = json.loads(score)
            assert body["prediction"] == by_line[number]
            assert body["probability"] == probability
            assert body["class"] == ("positive" if is_positive else "negative")


def test_a_score_has_the_models_round_run_and_guarantee(tmp_path):
    made, version = scorer(model(tmp_path))
    (score,) = made.scores([json.dumps(record(3)).encode()], version)
    body = json.loads(score)
    assert body.pop("prediction") == pytest.approx(expected(3)["prediction"], abs=1e-15)
    assert body.pop("probability") == pytest.approx(expected(3)["probability"], abs=1e-15)
    assert body == {"round": 41, "run": "run-3", "epsilon": 1.5}


def score_of(loss, values, vector, schema=SCHEMA, classes=(), **settings):
    topic = TopicSettings.model_validate({"kind": "topic", "topic": "t", "schema": schema} | settings)
    decoder = SchemaDecoder(topic.record, Messages(topic), None, len(vector))
    made = Scorer(decoder, loss, GUARANTEE, classes=classes)
    return made.scores(values, ModelVersion("r", 1, np.array(vector, dtype=float)))


def test_python_looks_for_no_garbage_while_it_scores_a_batch(tmp_path):
    scores, version = scorer(model(tmp_path))
    batch = [json.dumps(record(number)).encode() for number in range(BATCH)]
    looked = []

    def note(phase, _):
        looked.append(phase)

    usual = gc.get_threshold()
    gc.collect()
    with rare_collections():
        gc.callbacks.append(note)
        try:
            copies = [Copied(value, [("a", value)]) for value in batch]
            assert len(scores.scores(batch, version)) == len(copies)
        finally:
            gc.callbacks.remove(note)
    assert looked == []
    assert gc.get_threshold() == usual


def test_softmax_says_the_class_and_its_number():
    classes = ("a", "b", "c")
    schema = SCHEMA | {"label": {"column": "kind", "classes": list(classes)}, "intercept": False}
    vector = [1, 0, 0, 1, -1, -1]  # of class a x, of b y, of c neither
    values = [b'{"x": 2, "y": 1}', b'{"x": 1, "y": 2}', b'{"x": -1, "y": -2}']
    scores = score_of(Softmax(3), values, vector, schema, classes)
    assert [json.loads(score)["class"] for score in scores] == ["a", "b", "c"]
    assert [json.loads(score)["prediction"] for score in scores] == [0, 1, 2]
    assert json.loads(scores[0])["delta"] == 1e-6


def test_an_infinite_score_is_null_and_a_distance_is_one():
    schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}}
    (infinite,) = score_of(Squared(), [b'{"x": 1e308, "y": 1e308}'], [10.0, 10.0], schema)
    assert json.loads(infinite)["prediction"] is None
    (distance,) = score_of(RangeLoss(), [b'{"x": 3, "y": 4}'], [0.0, 0.0], schema)
    assert json.loads(distance)["prediction"] == pytest.approx(5.0)


def test_envelopes_tombstones_and_what_where_leaves_out_have_no_score():
    values = [
        b'{"op": "c", "after": {"x": 1, "y": 2}}',
        b'{"op": "u", "after": {"x": 1, "y": 2}}',
        None,
        b"",
        b'{"op": "c", "after": 7}',
    ]
    outcomes = score_of(Logistic(), values, [1.0, 1.0, 1.0], value="after", where={"op": "c"})
    assert json.loads(outcomes[0])["prediction"] == 4.0
    assert outcomes[1:4] == [None, None, None]
    assert isinstance(outcomes[4], Fault)


def test_a_model_of_a_topics_records_says_how_messages_are_read_and_not_where(tmp_path):
    source = {
        "kind": "topic",
        "topic": "payments.authorised",
        "broker": {"servers": "kafka.bank.example:9092", "username": "u", "password": "secret"},
        "schema": SCHEMA | {"truth": ["best_x", "best_y", "best_z"]},
        "value": "payload.after",
        "where": {"payload.op": ["c"]},
        "partitions": [0, 1],
        "labels": LABELS
        | {"format": "avro", "registry": {"url": "http://r", "password": "p", "username": "u"}},
    }
    mesh = load(
        written(
            tmp_path,
            changed(nodes=["a"], loss="logistic", dimension=3) | {"nodes": {"a": {"source": source}}},
        ),
        {},
    )
    about = source_of([mesh.own("a").source])
    assert set(about) == {"kind", "schema", "value"}  # conditions may name what is the owner's own
    assert "truth" not in about["schema"]
    path = model(tmp_path, source=about)
    made, version = scorer(path)
    message = json.dumps({"payload": {"op": "c", "after": record(3)}}).encode()
    assert json.loads(made.scores([message], version)[0])["prediction"] == pytest.approx(
        expected(3)["prediction"]
    )
    with pytest.raises(MeshFileError, match="its records came from a topic: give --mesh MESH NODE"):
        predict(path, str(tmp_path / "none.jsonl"))
    assert read_model(path).source == ModelFile(path, read_model(path)).model.source


def test_csv_lines_need_their_columns(tmp_path):
    path = model(tmp_path, source={"kind": "csv", "schema": SCHEMA})
    with pytest.raises(MeshFileError, match=r"source\.columns: must name the columns .* --columns a,b,c"):
        scorer(path)
    made, version = scorer(path, columns=("y", "fraud", "x"))
    scores = made.scores([b"3,1,1.5", b"3,1"], version)
    assert json.loads(scores[0])["prediction"] == pytest.approx(expected(3)["prediction"])
    assert isinstance(scores[1], Fault)


def test_csv_messages_have_the_dialect_of_the_file_that_was_learnt_from(tmp_path):
    dialect = {"delimiter": ";", "decimal": ",", "line_breaks": True}
    path = model(tmp_path, source={"kind": "csv", "schema": SCHEMA, "dialect": dialect})
    made, version = scorer(path, columns=("y", "fraud", "x"))
    (score,) = made.scores([b"3;1;1,5"], version)
    assert json.loads(score)["prediction"] == pytest.approx(expected(3)["prediction"])


@pytest.mark.parametrize("kind", ["csv", "topic"])
def test_avro_is_read_by_the_registry_that_is_given_and_the_models_schema(tmp_path, kind):
    avro.need_fastavro()
    source = {"kind": kind, "schema": SCHEMA} | ({"value": "after"} if kind == "topic" else {})
    registry = RegistrySettings(url="http://registry.example")
    scoring = Scoring(model=model(tmp_path, source=source), registry=registry)
    reading = reading_of(scoring, "payments.new")
    assert reading.settings.registry == registry
    row = avro.record(x="double", y="long")
    schema = avro.record("Change", after=avro.record("Row", x="double", y="long")) if kind == "topic" else row
    reading.decoder.schemas.learn(7, Definition("AVRO", json.dumps(schema)))
    fields = {"x": record(3)["x"], "y": record(3)["y"]}
    value = avro.message(7, schema, {"after": fields} if kind == "topic" else fields)
    made, models = scorer_of(scoring, route(), reading)
    score, unknown = made.scores([value, b"\0\0\0\0\x08" + value[5:]], models.newest())
    assert json.loads(score)["prediction"] == pytest.approx(expected(3)["prediction"])
    assert str(unknown) == "of a schema that is not known"


def test_groups_of_scores_begin_with_a_word_that_no_mesh_may_have(tmp_path):
    assert group_of(Scoring(model=model(tmp_path)), "t") == "score.banks.t"
    with pytest.raises(MeshFileError, match=r'mesh\.name: "score": is a kind of topics or groups'):
        load(written(tmp_path, changed(name="score")), {})


@pytest.mark.parametrize(
    ("changes", "options", "line"),
    [
        ({"dimension": 2, "newest": [0, 0], "average": [0, 0]}, {}, "makes 3 features: must be 2"),
        ({"source": None}, {}, "it does not say how records are read"),
        (
            {"loss": "squared"},
            {"threshold": 0.5},
            r"source\.schema\.label: must be a number, for loss squared",
        ),
        ({}, {"threshold": 2.0}, r"--threshold is 2: must be a probability from 0 to 1"),
        ({"source": {"kind": "csr", "path": "x"}}, {}, "source"),
    ],
)
def test_a_model_of_another_schema_is_refused_in_a_line(tmp_path, changes, options, line):
    with pytest.raises((MeshFileError, UsageError), match=line):
        scorer(model(tmp_path, **changes), **options)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"output": "in"}, r'output: "in": scores, or their dead letters, would be written into input'),
        ({"input": "out.deadletter"}, r'output: "out": scores, or their dead letters, would be written into'),
        ({"output": "a" * 239}, "must have at most 238 letters, as .deadletter follows"),
        ({"output": "a/b"}, "score.output"),
        ({"vector": "last"}, r'score\.vector: "last": must be'),
        ({"group": "mine"}, "score.group"),
    ],
)
def test_what_a_mesh_file_says_of_scores_is_refused_in_a_line(tmp_path, settings, line):
    own = {"source": {"kind": "localisation"}, "score": {"input": "in", "output": "out"} | settings}
    path = written(tmp_path, changed(nodes=["a"]) | {"nodes": {"a": own}})
    with pytest.raises(MeshFileError, match=line) as refused:
        load(path, {})
    assert len(refused.value.lines) == 1


def test_a_threshold_of_the_mesh_file_is_refused_by_its_place_there(tmp_path, capsys):
    (tmp_path / "r.csv").write_text("x,y,fraud\n1,2,1\n")
    source = {"kind": "csv", "path": str(tmp_path / "r.csv"), "schema": SCHEMA}
    own = {"source": source, "score": {"input": "in", "output": "out", "threshold": 7.0}}
    tree = changed(nodes=["a"], loss="logistic", dimension=3) | {"nodes": {"a": own}}
    outcome = Commands(capsys)("score", written(tmp_path, tree), "a", "--servers", "127.0.0.1:1")
    assert outcome.err.endswith(
        "nodes.a.score.threshold: 7.0: must be a probability from 0 to 1, for loss logistic\n"
    )
    options = ["--servers", "127.0.0.1:1", "--threshold", "8"]
    outcome = Commands(capsys)("score", written(tmp_path, tree), "a", *options)
    assert outcome.err.startswith("--threshold is 8: must be a probability")


def test_options_go_before_what_the_mesh_file_says(tmp_path, capsys):
    own = {"source": {"kind": "localisation"}, "score": {"input": "in", "output": "out"}}
    path = written(tmp_path, changed(nodes=["a"]) | {"nodes": {"a": own}})
    brokers = ["--servers", "127.0.0.1:1"]
    outcome = Commands(capsys)("score", path, "a", *brokers)
    assert "must be of records with a schema" in outcome.err  # and it misses no option
    outcome = Commands(capsys)("score", path, "a", "--output", "a/b", *brokers)
    assert outcome.err.startswith("--output a/b: must be the name of a topic")
    outcome = Commands(capsys)("score", "--model", model(tmp_path), "--output", "out", *brokers)
    line = "--input: must be given, or `score` in the node's own part of a mesh file\n"
    assert (outcome.code, outcome.err) == (2, line)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--threshold", "7"], "--threshold is 7: must be a probability from 0 to 1"),
        (["--columns", "x,x,y"], "--columns x,x,y: must name each of these once: x, y"),
        (["--columns", "x,z"], "--columns x,z: must name each of these once: x, y"),
        (["--run", "run-1"], "--run run-1: goes with a node's decisions, not with --model"),
        (["--input", "a/b"], "--input a/b: must be the name of a topic"),
        (["--output", "a" * 240], "must be the name of a topic: up to 238 letters"),
        (["--registry", "ftp://registry"], '--registry: url: "ftp://registry": must be http:// or https://'),
        (["--registry", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
        (
            ["--registry", "http://r", "--columns", "x,y"],
            "--columns x,y: are those of CSV lines, not of Avro",
        ),
        (["--servers", "kafka"], "--servers kafka: must be HOST:PORT"),
        (["--servers", "kafka:99999"], "--servers kafka:99999: must be HOST:PORT"),
    ],
)
def test_what_is_wrong_without_a_broker_is_said_without_one(tmp_path, capsys, options, line):
    kind = (
        {"kind": "csv", "schema": SCHEMA}
        if "--columns" in options
        else {"kind": "json-lines", "schema": SCHEMA}
    )
    path = model(tmp_path, source=kind)
    usual = {"--servers": "127.0.0.1:1", "--input": "in", "--output": "out"}
    usual |= dict(zip(options[::2], options[1::2], strict=True))
    words = [word for pair in usual.items() for word in pair]
    outcome = Commands(capsys)("score", "--model", path, *words)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome
    assert line in outcome.err


def of_node(folder, **source):
    """A node of a mesh whose source is a topic."""
    tree = changed(nodes=["a", "b", "c"], loss="logistic", dimension=3)
    tree["nodes"] = {"a": {"source": {"kind": "topic", "topic": "payments", "schema": SCHEMA} | source}}
    return load(written(folder, tree), {}), "a"


def test_a_message_has_no_label_where_labels_come_later(tmp_path):
    scoring = Scoring(model=model(tmp_path), node=of_node(tmp_path, labels=LABELS))
    reading = reading_of(scoring, "payments.new")
    made, models = scorer_of(scoring, route(), reading)
    for more in ({}, {"payment_id": "p-1"}):
        value = json.dumps({"x": record(3)["x"], "y": record(3)["y"]} | more).encode()
        (score,) = made.scores([value], models.newest())
        assert json.loads(score)["prediction"] == pytest.approx(expected(3)["prediction"])
        assert np.isnan(reading.decoder.parts_of([value]).labels).all()


@pytest.mark.parametrize(
    ("features", "line"),
    [
        ({"x": "number", "z": "number"}, None),
        ({"y": "number", "x": "number"}, r"features: x: number where the model's records have y: number"),
        (
            {"x": {"bounds": [0, 5]}, "y": "number"},
            r"x: number where the model's records have x: {bounds: \[0, 5\]}: must make the same features",
        ),
    ],
)
def test_a_model_of_other_features_than_the_nodes_is_refused_though_it_has_as_many(tmp_path, features, line):
    source = {"kind": "json-lines", "schema": SCHEMA | {"features": features}}
    scoring = Scoring(model=model(tmp_path, source=source), node=of_node(tmp_path))
    if line is None:  # columns may have other names
        reading_of(scoring, "payments.new")
        return
    with pytest.raises(MeshFileError, match=line):
        reading_of(scoring, "payments.new")
