"""Every mistake in a mesh file is one line: file, key path, value, what is allowed."""

from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.mesh.file import MeshFileError, load
from tests.support.meshes.files import REMOVED, with_value

BASE = {
    "mesh": {
        "name": "small",
        "run": "run-1",
        "nodes": ["a", "b", "c"],
        "dimension": 2,
        "algorithm": {
            "name": "dpdo-nc",
            "constraint": {"l1-ball": 3},
            "step_size": {"rule": "inverse-sqrt", "a": 0.5},
        },
        "loss": "squared",
        "slots": {"by": "count", "size": 1},
        "privacy": {"mechanism": "laplace", "epsilon": 1, "gradient_bound": 0.5},
        "topology": {"graph": "ring"},
    },
    "nodes": {
        "a": {
            "source": {
                "kind": "csv",
                "path": "a.csv",
                "schema": {
                    "features": {"age": {"bounds": [0, 100]}, "sex": {"categories": ["f"]}},
                    "label": {"column": "pay"},
                },
            },
        },
    },
}
EYE = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
SCHEMA = "nodes.a.source.schema"
MESH_KEYS = "must be a mapping with keys among"
SHUFFLED = BASE["nodes"]["a"]["source"] | {"path": "-", "shuffle": True}
BROKER = {"servers": "one:9092"}

KINDS = "must be csv or json-lines or parquet or libsvm or csr or topic or localisation or own"

MISTAKES = [
    ("nodes.a.source.dialect", {"quote": "x"}, """dialect.quote: "x": must be ", ' or none"""),
    # what belongs to the mesh
    ("mesh", REMOVED, "must be a mapping with keys mesh and nodes"),
    ("mesh", 3, f"mesh: 3: {MESH_KEYS} name, run, nodes"),
    ("extra", 1, "extra: unknown key: must be one of mesh, nodes, brokers, held_out"),
    ("mesh.dimention", 2, "mesh.dimention: 2: unknown key: must be one of name, run, nodes, dimension"),
    ("mesh.dimension", REMOVED, "mesh.dimension: missing: must be given"),
    ("mesh.dimension", 2.5, "mesh.dimension: 2.5: must be a whole number"),
    ("mesh.dimension", "2", 'mesh.dimension: "2": must be a whole number'),
    ("mesh.dimension", True, "mesh.dimension: true: must be a whole number"),
    ("mesh.dimension", 0, "mesh.dimension: 0: must be at least 1"),
    ("mesh.name", "Small", 'mesh.name: "Small": must be made of a-z, 0-9 and -'),
    ("mesh.run", "a.b", 'mesh.run: "a.b": must be made of a-z, 0-9 and -'),
    ("mesh.run", "r" * 61, "must be of at most 60 characters"),
    ("mesh.run", 1, "mesh.run: 1: must be text"),
    ("mesh.nodes", [], "mesh.nodes: []: must not be empty"),
    ("mesh.nodes", ["a", "b", "a"], "a is named twice: every node once"),
    ("mesh.nodes", "a", 'mesh.nodes: "a": must be a list of names, or a mapping from names'),
    ("mesh.nodes", ["a", "b c"], 'mesh.nodes: "b c": must be made of a-z, 0-9 and -'),
    ("mesh.nodes", {"a": {"epsilon": 0}}, "mesh.nodes.a.epsilon: 0: must be a number above 0"),
    ("mesh.nodes", {"a": {"on": "parameters"}}, "mesh.nodes.a.on: "),
    ("mesh.dimension", 10**12, "mesh.dimension: 1000000000000: must be at most 16777216"),
    ("mesh.horizon", 3, "mesh.horizon: 3: must be at least 4"),
    ("mesh.horizon", 10**6, "mesh.horizon: 1000000: must be at most 4096"),
    ("mesh.rounds", 0, "mesh.rounds: 0: must be at least 1"),
    ("mesh.round_timeout", "never", 'mesh.round_timeout: "never": must be a number'),
    ("mesh.round_timeout", -1, "mesh.round_timeout: -1: must be above 0"),
    ("mesh.silence", 0.4, "mesh.silence: 0.4: must be at least 0.5"),
    ("mesh.min_members", 4, "mesh.min_members: 4: must be at most 3, the number of nodes"),
    ("mesh.seed", -1, "mesh.seed: -1: must be at least 0"),
    # what it computes
    ("mesh.loss", "cubed", 'mesh.loss: "cubed": must be one of range, hinge, logistic, squared, absolute, l'),
    ("mesh.loss", {"huber": 0}, "mesh.loss.huber: 0: must be above 0"),
    ("mesh.loss", "huber", 'mesh.loss: "huber": must be one of range, '),
    ("mesh.loss", {"softmax": 1}, "mesh.loss.softmax: 1: must be at least 2"),
    ("mesh.loss", {"softmax": 1001}, "mesh.loss.softmax: 1001: must be at most 1000"),
    ("mesh.loss", {"softmax": 2.5}, "mesh.loss.softmax: 2.5: must be a whole number"),
    ("mesh.loss", {"softmax": 3}, "mesh.dimension: 2: must be 6: 3 classes of 2 features (nodes.a.source.sc"),
    ("mesh.loss", {"softmax": 2}, f"{SCHEMA}.label: must have classes, 2 of them, for loss softmax"),
    ("mesh.class_weights", [1, 2], "mesh.class_weights: [1, 2]: goes with loss hinge, logistic or softmax"),
    ("mesh.class_weights", [1, 0], "mesh.class_weights[1]: 0: must be above 0"),
    ("mesh.algorithm.name", "sgd", 'mesh.algorithm.name: "sgd": must be dpdo-nc, dola, sparse-dola, cl'),
    ("mesh.algorithm.constraint", {"l3-ball": 1}, 'constraint: {"l3-ball": 1}: must be one of simplex, {l1-'),
    ("mesh.algorithm.constraint", "l1-ball", 'mesh.algorithm.constraint: "l1-ball": must be one of simplex'),
    ("mesh.algorithm.constraint", {"l1-ball": 0}, "mesh.algorithm.constraint.l1-ball: 0: must be above 0"),
    ("mesh.algorithm.constraint", {"l1-ball": float("nan")}, "constraint.l1-ball: NaN: must be finite"),
    ("mesh.algorithm.constraint", {"l1-ball": 1, "l2-ball": 1}, "must be one of simplex, {l1-ball: ...}"),
    ("mesh.algorithm.constraint", {"box": {"lower": [0, 0, 0], "upper": 1}}, "corner of 3 numbers: must be"),
    ("mesh.algorithm.constraint", {"box": {"lower": 1, "upper": 0}}, "must be lower <= upper"),
    ("mesh.algorithm.mirror_map", "entropy", "mesh.algorithm: entropy on the l1-ball is not offered; offere"),
    ("mesh.algorithm.mirror_map", "cosine", 'mesh.algorithm.mirror_map: "cosine": must be one of euclidean'),
    ("mesh.algorithm.mirror_map", {"mahalanobis": [[1, 2], [2, 1]]}, "must be positive definite"),
    ("mesh.algorithm.mirror_map", {"mahalanobis": [[1, 2], [3, 9]]}, "q must be symmetric"),
    ("mesh.algorithm.mirror_map", {"mahalanobis": [[1, 2], [3]]}, "rows of the matrix must be of one length"),
    ("mesh.algorithm.mirror_map", {"mahalanobis": [1, 2, 3]}, "mesh.algorithm: q has dimension 3, the l1-ba"),
    ("mesh.algorithm.mirror_map", {"mahalanobis": [1, "x"]}, 'mahalanobis: [1, "x"]: must be a list of rows'),
    ("mesh.algorithm.step_size", {"rule": "inverse", "a": -1}, "mesh.algorithm.step_size.a: -1: must be abo"),
    ("mesh.algorithm.step_size", {"rule": "linear", "a": 1}, "must be constant, inverse-sqrt, inverse or sh"),
    ("mesh.algorithm.step_size", {"rule": "shifted-inverse", "a": 1}, "step_size.b: missing: shifted-invers"),
    ("mesh.algorithm.step_size", {"rule": "inverse", "a": 1, "b": 1}, "step_size.b: 1: only the rule shifte"),
    ("mesh.algorithm.gradient_at", "private", "not on a mesh: the gradient at the un-noised x_t breaks the"),
    ("mesh.algorithm.x_1", [2, 2], "mesh.algorithm: x_1 is [2.0, 2.0]: must be in the l1-ball"),
    ("mesh.algorithm.x_1", [0], "mesh.algorithm: x_1 has shape (1,): must be (2,)"),
    ("mesh.algorithm.regulariser", -0.1, "mesh.algorithm.regulariser: -0.1: must be at least 0"),
    # slots
    ("mesh.slots", {"size": 1}, "mesh.slots.by: missing: must be count or time"),
    ("mesh.slots.by", "offset", 'mesh.slots.by: "offset": must be count or time'),
    ("mesh.slots.size", 0, "mesh.slots.size: 0: must be at least 1"),
    ("mesh.slots.period", 1, "mesh.slots.period: 1: unknown key: must be one of by, size, timeout"),
    ("mesh.slots", {"by": "time", "period": 1, "start": "noon"}, 'mesh.slots.start: "noon": must be seconds'),
    ("mesh.slots", {"by": "time", "period": 1, "start": "2026-01-01T00:00:00"}, "or a time with its zone"),
    ("mesh.slots", {"by": "time", "period": 1, "start": 0}, f"{SCHEMA}.timestamp: missing: slots by time ne"),
    # privacy
    ("mesh.privacy.epsilon", REMOVED, "mesh.privacy.epsilon: missing: mechanism laplace needs a number abov"),
    ("mesh.privacy.epsilon", 0, "mesh.privacy.epsilon: 0: must be a number above 0"),
    ("mesh.privacy.epsilon", float("inf"), "mesh.privacy.epsilon: Infinity: must be finite and above 0"),
    ("mesh.privacy.epsilon", 1e-12, "mesh.privacy.epsilon: 1e-12: must be above"),
    ("mesh.privacy.epsilon", 1e12, "mesh.privacy.epsilon: 1000000000000: must be above"),
    ("mesh.privacy.gradient_bound", 0, "mesh.privacy.gradient_bound: 0: must be above 0"),
    ("mesh.privacy.gradient_bound", float("inf"), "mesh.privacy.gradient_bound: Infinity: must be finite"),
    (
        "mesh.privacy.mechanism",
        "gauss",
        'mesh.privacy.mechanism: "gauss": must be laplace, gaussian, gaussian-bisr, l2-sphere or none',
    ),
    ("mesh.privacy.norm", "l2", 'mesh.privacy.norm: "l2": laplace on the gradient clips in l1: must be l1'),
    ("mesh.privacy", {"mechanism": "none", "gradient_bound": 1, "budget": 9}, "privacy.budget: 9: mechanism"),
    ("mesh.privacy.budget", 0.5, "mesh.privacy.budget: 0.5: must be at least 1, one round's cost"),
    ("mesh.privacy.on", "parameters", "mesh.privacy: norm l1 is not offered for noise on the parameters"),
    # topology
    ("mesh.topology", {}, "mesh.topology: {}: must have either graph or cycle"),
    ("mesh.topology", {"graph": "ring", "cycle": ["ring"]}, "must have either graph or cycle"),
    ("mesh.topology.graph", "tree", 'mesh.topology.graph: "tree": must be one of ring, complete, star, {gri'),
    ("mesh.topology.graph", {"grid": [2, 2]}, "grid 2 x 2: must hold the 3 nodes exactly"),
    ("mesh.topology.graph", {"grid": [3]}, "mesh.topology.graph.grid[1]: missing: must be given"),
    ("mesh.topology.graph", {"edges": [["a", "z"]]}, "edge a -> z: 'z' is not a node"),
    ("mesh.topology.graph", {"edges": [["a", "a"]]}, "edge a -> a: a node has no edge to itself"),
    ("mesh.topology.graph", {"directed-edges": [["a", "b"]]}, "a -> b"),
    ("mesh.topology.graph", {"matrix": [[1, 0], [0, 1]]}, "the matrix must have 3 rows of 3 numbers"),
    ("mesh.topology.graph", {"matrix": [[0.5, 0, 0], *EYE[1:]]}, "row a sums to 0.5: must be 1"),
    ("mesh.topology.graph", {"erdos-renyi": {}}, "erdos-renyi: {}: must have either mean_degree or p"),
    ("mesh.topology.graph", {"erdos-renyi": {"mean_degree": 9}}, "the probability of an edge is 4.5"),
    ("mesh.topology.switching", 1.5, "mesh.topology.switching: 1.5: must be at most 1"),
    ("mesh.topology", {"cycle": ["ring"], "switching": 0.5}, "mesh.topology.switching: 0.5: goes with graph"),
    ("mesh.topology", {"graph": {"matrix": EYE}, "switching": 0.5}, "switching: 0.5: needs a graph of edges"),
    # own parts
    ("nodes", ["a"], 'nodes: ["a"]: must be a mapping from names to own parts'),
    ("nodes.z", {}, "nodes.z: not a node of the mesh: must be one of a, b, c"),
    ("nodes.a.sorce", {}, "nodes.a.sorce: {}: unknown key: must be one of source, brokers"),
    ("nodes.a.private_endpoint", "9201:", 'nodes.a.private_endpoint: "9201:": must be a port, or'),
    ("nodes.a.private_endpoint", ":9201", 'private_endpoint: ":9201": must be a port, or'),
    ("nodes.a.private_endpoint", 70000, "private_endpoint: 70000: must be a port, or address:port, with a"),
    ("nodes.a.private_endpoint", 9201.0, "private_endpoint: 9201.0: must be a port, or address:port, with a"),
    ("nodes.a.private_endpoint", True, "private_endpoint: true: must be a port, or address:port, with a"),
    ("mesh.generation", 2**32, "mesh.generation: 4294967296: must be below 4294967296"),
    ("nodes.a.liveness", 0, "nodes.a.liveness: 0: must be above 0"),
    ("nodes.a.liveness", 9.9, "nodes.a.liveness: 9.9: must be at least 10, ten heartbeats"),
    ("nodes.a.liveness", "none", 'nodes.a.liveness: "none": must be a'),
    ("nodes.a.source.kind", "tsv", 'source.kind: "tsv": must be csv or json-lines or parquet or libsvm or c'),
    ("nodes.a.source.columns", ["x", "x"], "x is named twice"),
    ("nodes.a.source.columns", [], "nodes.a.source.columns: []: must not be empty"),
    ("brokers", {"data": {"servers": "here:1"}}, "brokers.mesh: missing: must be given"),
    (
        "brokers",
        {"data": {"servers": "here:1"}, "mesh": {"servers": "here:1"}},
        "brokers.trust_broker: data and mesh are the same broker: must be true",
    ),
    ("nodes.a.source.path", 3, "nodes.a.source.path: 3: must be a path, or - for standard input"),
    ("nodes.a.source.take", {"every": 2, "offset": 2}, "take.offset: 2: must be below 2, the value"),
    ("nodes.a.source", SHUFFLED, "nodes.a.source.shuffle: true: standard input cannot be shuffled"),
    (f"{SCHEMA}.features", {}, f"{SCHEMA}.features: {{}}: must not be empty"),
    (f"{SCHEMA}.features.age", {"bounds": [1, 1]}, f"{SCHEMA}.features.age.bounds: [1, 1]: must be [low"),
    (f"{SCHEMA}.features.age", {"bounds": [-1e308, 1e308]}, "must be [lowest, highest], both finite, and so"),
    (f"{SCHEMA}.features.age", {"log": [0, 9]}, "age.log: [0, 9]: must be [lowest, highest], 0 < lowest < h"),
    (f"{SCHEMA}.features.age", {"log": [9, 3]}, "age.log: [9, 3]: must be [lowest, highest], 0 < lowest < h"),
    (f"{SCHEMA}.features.age", {"log": 3}, "age.log: 3: must be [lowest, highest], 0 < lowest < highest, bo"),
    (f"{SCHEMA}.features.age", {"log": ["1", "9"]}, 'age.log: ["1", "9"]: must be [lowest, highest], 0 < lo'),
    (f"{SCHEMA}.features.age", {"log": [1, float("inf")]}, "must be [lowest, highest], 0 < lowest < highest"),
    (f"{SCHEMA}.features.age", {"log": [1e16, 1.0000000000000002e16]}, "finite, with different logarithms"),
    (f"{SCHEMA}.features.age", {"log": [1, 10**400]}, "both finite, with different logarithms"),
    (f"{SCHEMA}.features.age", {"buckets": []}, "age.buckets: []: must be a list of numbers, each above the"),
    (f"{SCHEMA}.features.age", {"buckets": [1, 1]}, "buckets: [1, 1]: must be a list of numbers, each above"),
    (f"{SCHEMA}.features.age", {"buckets": 3}, "age.buckets: 3: must be a list of numbers, each above the o"),
    (f"{SCHEMA}.features.age", {"buckets": [True, 2]}, "must be a list of numbers, each above the one befor"),
    (f"{SCHEMA}.features.age", {"buckets": [float("nan")]}, "age.buckets[0]: NaN: must be finite"),
    (f"{SCHEMA}.features.age", {"buckets": [30, 60, 90]}, f"{SCHEMA}: makes 5 features: must be 2, the dime"),
    (f"{SCHEMA}.features.age", {"hour": "Berlin"}, 'age.hour: "Berlin": must be the IANA name of a time zon'),
    (f"{SCHEMA}.features.age", {"hour": "Europe/Berln"}, "or Europe/Berlin (did you mean Europe/Berlin?)"),
    (f"{SCHEMA}.features.age", {"hour": "localtime"}, '"localtime": must be the IANA name of a time zone'),
    (f"{SCHEMA}.features.age", {"hour": "../../etc/passwd"}, "must be the IANA name of a time zone, such as"),
    (f"{SCHEMA}.features.age", {"weekday": "America"}, "must be the IANA name of a time zone, such as UTC o"),
    (f"{SCHEMA}.features.age", {"weekday": 1}, "age.weekday: 1: must be the IANA name of a time zone, such"),
    (f"{SCHEMA}.features.age", {"weekday": ""}, 'age.weekday: "": must be the IANA name of a time zone, suc'),
    (f"{SCHEMA}.features.age", "hour", f'{SCHEMA}.features.age: "hour": must be one of number, {{bounds: ..'),
    (f"{SCHEMA}.features.age", {"hour": "UTC"}, f"{SCHEMA}: makes 25 features: must be 2, the dimension of"),
    (f"{SCHEMA}.features.age", {"weekday": "UTC"}, f"{SCHEMA}: makes 8 features: must be 2, the dimension"),
    (f"{SCHEMA}.features.age", "text", f'{SCHEMA}.features.age: "text": must be one of number, {{bounds'),
    (f"{SCHEMA}.features.sex", {"categories": ["f", "f"]}, 'categories: ["f", "f"]: f is named twice'),
    (f"{SCHEMA}.features.sex", {"hashed": 5}, f"{SCHEMA}: makes 6 features: must be 2, the dimension"),
    (f"{SCHEMA}.label", {"column": "age"}, f'{SCHEMA}.label.column: "age": the label must not be'),
    (f"{SCHEMA}.label", {"column": "pay", "positive": "x"}, f"{SCHEMA}.label: must be a number, for loss"),
    (f"{SCHEMA}.label", {"column": "pay", "negative": "x"}, f'{SCHEMA}.label.negative: "x": goes with posi'),
    (f"{SCHEMA}.label", {"column": "pay", "classes": ["a", "a"]}, "a is named twice: every class once"),
    (f"{SCHEMA}.label", {"column": "pay", "classes": [1], "positive": 1}, "must not be given with positive"),
    (f"{SCHEMA}.label", {"column": "pay", "classes": [1, 2]}, "label.classes: goes with loss softmax, not"),
    (f"{SCHEMA}.truth", ["u"], f'{SCHEMA}.truth: ["u"]: names 1 columns: must be 2, one for each coordinate'),
    (f"{SCHEMA}.truth", [], f"{SCHEMA}.truth: []: must not be empty"),
    (f"{SCHEMA}.truth", "u", f'{SCHEMA}.truth: "u": must be a list'),
    (f"{SCHEMA}.truth", ["u", 3], f"{SCHEMA}.truth[1]: 3: must be text"),
    (f"{SCHEMA}.truth", ["u", "u"], "u is named twice: a column for each coordinate"),
    (f"{SCHEMA}.truth", ["u", "age"], 'truth: ["u", "age"]: age is a feature, and the truth is never learnt'),
    (f"{SCHEMA}.truth", ["pay", "u"], "pay is the label, and the truth is never learnt from"),
    ("nodes.b", {"source": {"kind": "localisation", "truth": 1}}, "source.truth: 1: must be true or false"),
    ("mesh.loss", "hinge", f"{SCHEMA}.label: must say which labels are positive, for loss hinge"),
    ("nodes.b", {"source": {"kind": "localisation"}}, 'mesh.loss: "squared": localisation measures distance'),
    ("nodes.b", {"source": {"kind": "localisation", "position": [1]}}, "position[1]: missing: must be given"),
    (SCHEMA, "none.yaml", f'{SCHEMA}: "none.yaml": cannot be read: No such file or directory: must be a Y'),
    ("held_out", {"kind": "csv", "path": "h"}, "held_out.schema: missing: must be given"),
    ("nodes.a.brokers", {"data": BROKER, "mesh": BROKER}, "nodes.a.brokers.trust_broker: data and mesh are"),
    ("nodes.a.brokers", {"data": {"servers": "${NOWHERE}"}, "mesh": BROKER}, "environment has no variable N"),
]  # fmt: skip


def mistakes(folder, text):
    file = folder / "mesh.yaml"
    file.write_text(text)
    with pytest.raises(MeshFileError) as caught:
        load(file, {})
    return [line.removeprefix(f"{folder}/") for line in caught.value.lines]


def test_the_base_of_all_mistakes_is_right(tmp_path):
    (tmp_path / "mesh.yaml").write_text(yaml.safe_dump(BASE))
    load(tmp_path / "mesh.yaml", {})


@pytest.mark.parametrize(("path", "value", "expected"), MISTAKES)
def test_a_mistake_is_one_line_that_says_what_is_allowed(tmp_path, path, value, expected):
    lines = mistakes(tmp_path, yaml.safe_dump(with_value(BASE, path, value)))
    assert any(expected in line for line in lines), lines
    assert all(line.count("\n") == 0 and line.startswith(("mesh.yaml: ", "none.yaml: ")) for line in lines)


def test_every_mistake_of_a_file_is_told_at_once(tmp_path):
    tree = with_value(BASE, "mesh.horizon", 1)
    tree["mesh"]["seed"] = "x"
    tree["nodes"]["a"]["source"]["kind"] = "tsv"
    assert mistakes(tmp_path, yaml.safe_dump(tree)) == [
        "mesh.yaml: mesh.horizon: 1: must be at least 4",
        'mesh.yaml: mesh.seed: "x": must be a whole number',
        f'mesh.yaml: nodes.a.source.kind: "tsv": {KINDS} (did you mean csv?)',
    ]


def test_a_mistake_in_a_schema_that_several_share_is_one_line(tmp_path):
    own = BASE["nodes"]["a"]["source"]
    tree = with_value(BASE, "mesh.dimension", 3) | {"held_out": own | {"path": "held.csv"}}
    tree["nodes"] = {name: {"source": own | {"path": f"{name}.csv"}} for name in "abc"}
    text = (
        "makes 2 features: must be 3, the dimension of the mesh (mesh.dimension, if that should be 2) "
        "(the same in b, c, held_out)"
    )
    assert mistakes(tmp_path, yaml.safe_dump(tree)) == [f"mesh.yaml: {SCHEMA}: {text}"]
    tree["mesh"]["dimension"] = 2
    tree["nodes"]["b"]["source"] = own | {"schema": own["schema"] | {"norm": "l7"}}
    tree["nodes"]["c"]["source"] = own | {"schema": own["schema"] | {"norm": "l8"}}
    assert len(mistakes(tmp_path, yaml.safe_dump(tree))) == 2  # two mistakes


def test_the_truth_is_no_timestamp(tmp_path):
    schema = BASE["nodes"]["a"]["source"]["schema"] | {"timestamp": "at", "truth": ["u", "at"]}
    (line,) = mistakes(tmp_path, yaml.safe_dump(with_value(BASE, SCHEMA, schema)))
    assert "at is the timestamp, and the truth is never learnt from" in line


def test_two_nodes_cannot_read_standard_input(tmp_path):
    tree = with_value(BASE, "nodes.a.source.path", "-")
    tree["nodes"]["b"] = tree["nodes"]["a"]
    (line,) = mistakes(tmp_path, yaml.safe_dump(tree))
    assert line == 'mesh.yaml: nodes.b.source.path: "-": node a reads standard input already: must be a file'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mesh: [1,\nnodes: {", "mesh.yaml: line 2, column 9: expected the node content"),
        ("mesh:\n  name: a\n  name: b\n", "mesh.yaml: line 3, column 3: the key name is there twice"),
        ("mesh: {[a]: b}", "mesh.yaml: line 1, column 8: a key must be text"),
        ("mesh: !!python/object:os.system x", "could not determine a constructor for the tag"),
        ("mesh: &a [*a]", "found unconstructable recursive node"),
        ("mesh: \x00", "mesh.yaml: is not YAML: "),
        ("mesh: " + "[" * 500, "mesh.yaml: is nested too deeply"),
        ("mesh: " + "9" * 5000, "mesh.yaml: line 1, column 7: the number is too long"),
        (
            "a: 1\n---\nb: 2\n",
            "line 2, column 1: expected a single document in the stream, but found another document",
        ),
        ("", "mesh.yaml: must be a mapping with keys mesh and nodes"),
    ],
    ids=range(10),
)
def test_what_is_no_yaml_is_told_with_its_place(tmp_path, text, expected):
    (line,) = mistakes(tmp_path, text)
    assert expected in line
    assert "\n" not in line


def test_a_file_that_is_not_there_or_not_text_is_told(tmp_path):
    with pytest.raises(MeshFileError, match=r"gone.yaml: cannot be read: No such file or directory$"):
        load(tmp_path / "gone.yaml")
    (tmp_path / "mesh.yaml").write_bytes(b"mesh: \xff")
    with pytest.raises(MeshFileError, match=r"mesh.yaml: byte 6 is not UTF-8: must be a YAML file$"):
        load(tmp_path / "mesh.yaml")


def test_nothing_under_brokers_is_shown(tmp_path):
    secret = {"servers": "one:9092", "username": "u", "password": ["s3cret"], "pasword": "s3cret"}
    for broker in (secret, {**secret, "pasword": REMOVED}, {"password": "s3cret"}, ["s3cret"]):
        kept = broker if isinstance(broker, list) else {k: v for k, v in broker.items() if v is not REMOVED}
        tree = with_value(BASE, "nodes.a.brokers", {"data": kept, "mesh": {"servers": "two:9092"}})
        text = "\n".join(mistakes(tmp_path, yaml.safe_dump(tree)))
        assert "nodes.a.brokers.data" in text
        assert "s3cret" not in text


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
PATHS = sorted({path for path, _, _ in MISTAKES})


@settings(max_examples=100, deadline=None)
@given(path=st.sampled_from(PATHS), value=TREES)
def test_whatever_stands_in_a_file_is_taken_or_told(tmp_path_factory, path, value):
    file: Path = tmp_path_factory.getbasetemp() / "mesh.yaml"
    file.write_text(yaml.safe_dump(with_value(BASE, path, value)), encoding="utf-8")
    with suppress(MeshFileError):
        load(file, {})


@pytest.mark.parametrize(
    ("place", "value", "meant"),
    [
        ("mesh.dimention", 2, "dimension"),
        ("held-out", {}, "held_out"),
        ("mesh.privacy.mechanism", "laplac", "laplace"),
        ("mesh.loss", "hindge", "hinge"),
        ("mesh.loss", {"hubre": 1}, "huber"),
        ("mesh.topology.graph", "rign", "ring"),
        ("nodes.a.source.kind", "cvs", "csv"),
        ("nodes.aa", {}, "a"),
    ],
)
def test_a_slip_of_the_pen_is_told_what_was_meant(tmp_path, place, value, meant):
    told = mistakes(tmp_path, yaml.safe_dump(with_value(BASE, place, value)))
    assert any(f"(did you mean {meant}?)" in line for line in told), told


def test_what_looks_like_nothing_is_told_what_there_is(tmp_path):
    told = mistakes(tmp_path, yaml.safe_dump(with_value(BASE, "mesh.loss", "xyzzy")))
    assert not any("did you mean" in line for line in told)


BROKER = {"mesh": {"servers": "one:9092", "username": "u", "password": "hunter2"}}


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("nodes.a.password", "hunter2", "nodes.a.password: (hidden): unknown key"),
        ("nodes.a.source.key_pasword", "hunter2", "source.key_pasword: (hidden): unknown key"),
        ("nodes.a.broker", BROKER, "nodes.a.broker: (hidden): unknown key"),
        ("nodes.a", [BROKER], "nodes.a: (hidden): must be a mapping"),
        ("nodes", [{"a": {"brokers": BROKER}}], "nodes: (hidden): must be a mapping"),
        ("mesh.password", "hunter2", "mesh.password: (hidden): unknown key"),
        ("mesh.loss", BROKER["mesh"], "mesh.loss: (hidden): must be one of"),
    ],
)
def test_a_password_in_a_wrong_place_is_not_shown(tmp_path, place, value, told):
    lines = mistakes(tmp_path, yaml.safe_dump(with_value(BASE, place, value)))
    assert any(told in line for line in lines)
    assert "hunter2" not in "".join(lines)


@pytest.mark.parametrize("password", ["*hunter2", "!hunter2", "!hunter2 x", "!hunter2!x", "!<hunter2>"])
def test_a_password_without_quotes_is_not_shown(tmp_path, password):
    text = f"{yaml.safe_dump(BASE)}brokers: {{mesh: {{servers: a, username: u, password: {password} }}}}"
    (line,) = mistakes(tmp_path, text)
    assert line.endswith("a text that begins with * or ! must be in quotes")
    assert "hunter2" not in line
