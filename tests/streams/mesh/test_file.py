"""Loading a mesh file: what it means, own parts elsewhere, the environment, the digest."""

import re
from copy import deepcopy
from fractions import Fraction

import pytest
import yaml

from streams.mesh.file import MeshFileError, load

KINDS = "must be csv or json-lines or parquet or libsvm or csr or topic or localisation or own"
BASE = """
mesh:
  name: small
  run: run-1
  nodes: [a, b]
  dimension: 2
  algorithm:
    name: dpdo-nc
    constraint: {l1-ball: 3}
    step_size: {rule: inverse-sqrt, a: 0.5}
  loss: range
  slots: {by: count}
  privacy: {mechanism: laplace, on: gradient, epsilon: 0.1, gradient_bound: 5e-1}
  topology: {graph: ring}
nodes:
  a: {source: {kind: localisation}}
"""
OWN = """
source: {kind: csv, path: rows.csv, schema: schema.yaml}
brokers:
  data: {servers: "${HERE}:9092"}
  mesh:
    servers: one:9092,two:9092
    username: a
    password: ${SECRET}
"""
SCHEMA = """
features: {x: number, y: {bounds: [-1, 1]}}
label: {column: distance}
"""
UNSET = "(hidden): the environment has no variable {}: must be set"


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder / "mesh.yaml"


def edited(change):
    tree = yaml.safe_load(re.sub(r"\bon:", "'on':", BASE))
    change(tree["mesh"])
    return yaml.safe_dump(tree)


def test_plain_values_mean_what_they_say(tmp_path):
    mesh = load(write(tmp_path, mesh=BASE)).mesh
    assert mesh.privacy.on == "gradient"  # YAML 1.1 reads `on` as true
    assert mesh.privacy.gradient_bound == 0.5  # and 5e-1 as text
    assert mesh.privacy.epsilon == Fraction(1, 10)  # not the double next to it
    assert (mesh.slots.size, mesh.horizon, mesh.round_timeout, mesh.rounds) == (1, 32, 5.0, None)


def test_words_that_older_yaml_reads_as_true_or_false_are_words(tmp_path):
    schema = SCHEMA.replace("{bounds: [-1, 1]}", "{categories: [no, on, 12:30, 007, 1_0]}")
    write(tmp_path, b=OWN.split("brokers:", maxsplit=1)[0], schema=schema)
    text = BASE.replace("dimension: 2", "dimension: 6").replace(
        "kind: localisation", "kind: csv, path: x, schema: schema.yaml"
    )
    record = load(write(tmp_path, mesh=text)).own("a").source.record
    assert record.features["y"].categories == ("no", "on", "12:30", "007", "1_0")


def test_the_word_none_is_nothing(tmp_path):
    text = BASE.replace("by: count", "by: count, timeout: none").replace(
        "loss:", "round_timeout: none\n  loss:"
    )
    mesh = load(write(tmp_path, mesh=text)).mesh
    assert mesh.slots.timeout is None
    assert mesh.round_timeout is None


def test_a_start_is_seconds_or_a_time_with_its_zone(tmp_path):
    for start in ("1767225600", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"):
        text = BASE.replace("{by: count}", f"{{by: time, period: 1, start: {start}}}")
        assert load(write(tmp_path, mesh=text)).mesh.slots.start == 1767225600.0


def test_an_own_part_may_stand_in_a_file_that_others_do_not_have(tmp_path):
    text = BASE + "  b: own/b.yaml\n"
    path = write(tmp_path, mesh=text)
    file = load(path, {})
    assert list(file.nodes) == ["a"]
    with pytest.raises(
        MeshFileError, match=r'mesh.yaml: nodes.b: ".*own/b.yaml": no such file: must be here'
    ):
        file.own("b")
    (tmp_path / "own").mkdir()
    write(tmp_path / "own", b=OWN, schema=SCHEMA)
    own = load(path, {"HERE": "localhost", "SECRET": "s3cret"}).own("b")
    assert own.source.path == str(tmp_path / "own" / "rows.csv")  # relative to the file it is written in
    assert own.source.record.columns == ("x", "y", "distance")


def test_a_node_without_an_own_part_is_allowed_until_it_runs(tmp_path):
    file = load(write(tmp_path, mesh=BASE))
    with pytest.raises(MeshFileError, match=r"mesh.yaml: nodes.b: missing: must be here to run the node$"):
        file.own("b")


def test_a_mistake_in_an_own_file_is_told_there(tmp_path):
    write(tmp_path, b=OWN.replace("csv,", "tsv,"), schema=SCHEMA.replace("[-1, 1]", "[1, -1]"))
    with pytest.raises(MeshFileError) as caught:
        load(write(tmp_path, mesh=BASE + "  b: b.yaml\n"), {})
    (line,) = caught.value.lines
    assert line.startswith(f"{tmp_path}/schema.yaml: features.y.bounds: [1, -1]: must be [lowest, highest]")
    write(tmp_path, schema=SCHEMA)
    with pytest.raises(MeshFileError) as caught:
        load(write(tmp_path, mesh=BASE + "  b: b.yaml\n"), {})
    assert caught.value.lines == (
        f'{tmp_path}/b.yaml: source.kind: "tsv": {KINDS} (did you mean csv?)',
        f"{tmp_path}/b.yaml: brokers.mesh.password: {UNSET.format('SECRET')}",
        f"{tmp_path}/b.yaml: brokers.data.servers: {UNSET.format('HERE')}",
    )


def test_a_name_that_is_no_nodes_is_told_with_those_that_are(tmp_path):
    file = load(write(tmp_path, mesh=BASE + "  b: b.yaml\n"))
    with pytest.raises(
        MeshFileError, match=r'mesh\.nodes: "z": is no node of the mesh: must be one of a, b$'
    ):
        file.own("z")


def test_brokers_come_from_the_environment_and_a_password_is_never_shown(tmp_path):
    write(tmp_path, b=OWN, schema=SCHEMA)
    file = load(write(tmp_path, mesh=BASE + "  b: b.yaml\n"), {"HERE": "localhost", "SECRET": "s3cret"})
    brokers = file.own("b").brokers
    assert brokers.data.servers == "localhost:9092"
    assert brokers.mesh.password.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(file)


def test_one_broker_for_both_needs_trust(tmp_path):
    both = OWN.replace("${HERE}:9092", "two:9092")
    write(tmp_path, b=both + "  trust_broker: true\n", schema=SCHEMA)
    file = load(write(tmp_path, mesh=BASE + "  b: b.yaml\n"), {"SECRET": "s"})
    assert file.trusts_broker("b")
    assert not file.trusts_broker("a")


COMMON = "brokers: {mesh: {servers: m:1}, data: {servers: d:1}}\n"


def test_a_node_without_brokers_takes_the_common_ones(tmp_path):
    write(tmp_path, b=OWN.replace("${HERE}", "here"), schema=SCHEMA)
    file = load(write(tmp_path, mesh=BASE + "  b: b.yaml\n" + COMMON), {"SECRET": "s"})
    assert file.brokers("a").data.servers == "d:1"
    assert file.brokers("b").data.servers == "here:9092"
    assert file.mesh_broker.servers == "m:1"


def test_a_scheduler_needs_the_mesh_broker_alone(tmp_path):
    file = load(write(tmp_path, mesh=BASE.rpartition("nodes:")[0] + "brokers: {mesh: {servers: m:1}}\n"))
    assert file.mesh_broker.servers == "m:1"


def test_what_no_one_names_is_asked_for(tmp_path):
    file = load(write(tmp_path, mesh=BASE))
    with pytest.raises(MeshFileError, match=r"nodes\.a\.brokers: missing"):
        file.brokers("a")
    with pytest.raises(MeshFileError, match="brokers: missing"):
        _ = file.mesh_broker
    file = load(write(tmp_path, mesh=BASE + "brokers: {mesh: {servers: m:1}}\n"))
    with pytest.raises(MeshFileError, match=r"brokers\.data: missing"):
        file.brokers("a")


def test_overrides_are_a_nodes_own_and_the_rest_is_the_meshs(tmp_path):
    text = BASE.replace("[a, b]", "{a: , b: {epsilon: 2, gradient_bound: 1}}")
    mesh = load(write(tmp_path, mesh=text)).mesh
    assert mesh.privacy_of("a") == mesh.privacy
    own = mesh.privacy_of("b")
    assert (own.epsilon, own.gradient_bound, own.mechanism) == (2, 1.0, "laplace")


def test_an_override_that_does_not_fit_is_told(tmp_path):
    text = BASE.replace("[a, b]", "{a: , b: {epsilon: 1e-9}}")
    with pytest.raises(MeshFileError, match=r"mesh.yaml: mesh.nodes.b.epsilon: 1e-09: must be above"):
        load(write(tmp_path, mesh=text))
    budget = text.replace("{epsilon: 1e-9}", "{mechanism: none}").replace("5e-1}", "5e-1, budget: 9}")
    with pytest.raises(
        MeshFileError, match=r"mesh.yaml: mesh.nodes.b.budget: .*mechanism none protects nothing"
    ):
        load(write(tmp_path, mesh=budget))


SHARED = {
    "dimension": lambda mesh: mesh.update(dimension=2, algorithm={**mesh["algorithm"], "x_1": [0, 0]}),
    "algorithm": lambda mesh: mesh["algorithm"].update(name="dola"),
    "gradient_at": lambda mesh: mesh["algorithm"].update(gradient_at="consensus"),
    "mirror_map": lambda mesh: mesh["algorithm"].update(mirror_map={"mahalanobis": [1, 2]}),
    "constraint": lambda mesh: mesh["algorithm"].update(constraint={"l2-ball": 3}),
    "radius": lambda mesh: mesh["algorithm"]["constraint"].update({"l1-ball": 4}),
    "rule": lambda mesh: mesh["algorithm"]["step_size"].update(rule="inverse"),
    "step": lambda mesh: mesh["algorithm"]["step_size"].update(a=0.6),
    "regulariser": lambda mesh: mesh["algorithm"].update(regulariser=0.1),
    "slot size": lambda mesh: mesh["slots"].update(size=2),
    "slots": lambda mesh: mesh.update(slots={"by": "time", "period": 1, "start": 0}),
    "epsilon": lambda mesh: mesh["privacy"].update(epsilon=0.2),
    "gradient bound": lambda mesh: mesh["privacy"].update(gradient_bound=1),
    "mechanism": lambda mesh: mesh["privacy"].update(mechanism="none"),
    "noise": lambda mesh: mesh["privacy"].update(noise="simulated"),
    "on": lambda mesh: mesh["privacy"].update(on="parameters", norm="l2"),
    "budget": lambda mesh: mesh["privacy"].update(budget=10),
    "after_budget": lambda mesh: mesh["privacy"].update(after_budget="leave"),
    "horizon": lambda mesh: mesh.update(horizon=16),
}
OWN_AFFAIRS = {
    "name": lambda mesh: mesh.update(name="other"),
    "run": lambda mesh: mesh.update(run="run-2"),
    "members": lambda mesh: mesh.update(nodes=["a", "b", "c"]),
    "overrides": lambda mesh: mesh.update(nodes={"a": {"epsilon": 2}, "b": {}}),
    "graph": lambda mesh: mesh.update(topology={"graph": "complete"}),
    "schedule": lambda mesh: mesh["topology"].update(switching=0.5),
    "seed": lambda mesh: mesh.update(seed=1),
    "rounds": lambda mesh: mesh.update(rounds=10),
    "round_timeout": lambda mesh: mesh.update(round_timeout=9),
    "min_members": lambda mesh: mesh.update(min_members=1),
    "generation": lambda mesh: mesh.update(generation=7),
}


@pytest.mark.parametrize("name", SHARED)
def test_the_digest_shows_what_all_must_agree_on(tmp_path, name):
    digests = [load(write(tmp_path, mesh=edited(change))).digest() for change in (dict, SHARED[name])]
    assert [len(digest) for digest in digests] == [16, 16]
    assert digests[0] != digests[1]


@pytest.mark.parametrize("name", OWN_AFFAIRS)
def test_the_digest_shows_nothing_else(tmp_path, name):
    digests = {load(write(tmp_path, mesh=edited(change))).digest() for change in (dict, OWN_AFFAIRS[name])}
    assert len(digests) == 1


def test_the_digest_is_the_same_for_ever_and_however_it_is_written(tmp_path):
    file = load(write(tmp_path, mesh=BASE))
    spelt_out = (
        BASE.replace("l1-ball: 3", "l1-ball: 3.0")
        .replace("5e-1", "0.50")
        .replace("{by: count}", "{size: 1, by: count}")
    )
    assert file.digest() == load(write(tmp_path, mesh=spelt_out)).digest()
    assert file.digest().hex() == "39474b362e3109cabbc2a3b5ccf73e4e"
    assert deepcopy(file.mesh).digest() == file.digest()


def test_a_shift_of_times_is_in_the_digest_and_one_of_zero_leaves_it_as_it_was(tmp_path):
    def digest(**own):
        slots = {"by": "time", "period": 1, "start": 1_700_000_000, **own}
        return load(write(tmp_path, mesh=edited(lambda mesh: mesh.update(slots=slots)))).digest()

    assert digest().hex() == digest(shift=0).hex() == "df3eb210b6978b1cf3419c84811e6974"
    assert digest(shift=60) != digest()
