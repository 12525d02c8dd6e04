import json
import uuid
from dataclasses import replace
from functools import partial

import pytest
import typer
from typer.testing import CliRunner

from streams.bus.bus import Unreachable
from streams.bus.kafka import KafkaBus
from streams.bus.preflight import PreflightFailed, preflight
from streams.bus.provision import Admin, Differs, provision
from streams.bus.rights import scheduler
from streams.bus.topic_specs import (
    LEAST_LIMIT,
    MIB,
    OVERHEAD,
    data_specs,
    mesh_specs,
    sizes,
)
from streams.cli.provision import provision as command
from streams.codec import Reason, Refused, encode_dead_letter
from streams.mesh.file import MeshFileError, load
from tests.support.brokers.topics import PATIENCE, connection
from tests.support.meshes.files import changed, written

pytestmark = pytest.mark.kafka


@pytest.fixture
def at(broker):
    return connection(broker.address)


@pytest.fixture
def tree(broker):
    """A mesh whose topics no other test knows: a ring of three, all on one broker."""
    mark = uuid.uuid4().hex[:8]
    names = [f"{letter}-{mark}" for letter in "abc"]
    made = changed(run=f"run-{mark}", nodes=names)
    brokers = {side: {"servers": broker.address} for side in ("data", "mesh")} | {"trust_broker": True}
    made["nodes"] = {name: {"brokers": brokers} for name in names}
    return made


def saved(tmp_path, tree):
    return load(written(tmp_path, tree), {})


def there(at, file):
    """Every topic of the mesh file that the broker has."""
    return found(at, [spec.name for spec in specs(file)])


def found(at, names):
    with Admin(at) as admin:
        return admin.topics(names)


def specs(file):
    return [
        *mesh_specs(file.resolved),
        *(spec for name in file.nodes for spec in data_specs(file.mesh, name)),
    ]


def test_every_topic_is_made_as_it_is_wanted_and_twice_is_harmless(tmp_path, tree, at):
    file = saved(tmp_path, tree)
    done = provision(file)
    assert [side.label.split()[0] for side in done] == ["mesh", "data", "data", "data"]
    assert [len(side.created) for side in done] == [2 + 3 + 3 + 6, 5, 5, 5]
    topics = there(at, file)
    for spec in specs(file):
        assert topics[spec.name].partitions == 1
        assert spec.configs.items() <= topics[spec.name].configs.items()
    again = provision(file)
    assert [len(side.created) for side in again] == [0, 0, 0, 0]
    assert [len(side.existing) for side in again] == [14, 5, 5, 5]


def test_features_that_all_share_stand_for_the_dimension(tmp_path, tree, at):
    by_dimension = specs(saved(tmp_path, tree))
    columns = {f"x{number}": "number" for number in range(tree["mesh"].pop("dimension"))}
    tree["mesh"]["features"] = "shared.yaml"
    (tmp_path / "shared.yaml").write_text(json.dumps({"features": columns, "label": {"column": "y"}}))
    file = saved(tmp_path, tree)
    assert specs(file) == by_dimension
    provision(file)
    assert there(at, file).keys() == {spec.name for spec in by_dimension}
    assert [len(side.created) for side in provision(file)] == [0, 0, 0, 0]


def test_a_dry_run_makes_nothing(tmp_path, tree, at):
    file = saved(tmp_path, tree)
    assert sum(len(side.created) for side in provision(file, dry_run=True)) == 29
    assert there(at, file) == {}


def test_what_a_mesh_sends_fits_its_topics(tmp_path, tree, at):
    tree["mesh"]["dimension"] = 200_000  # a release of 1.6 MB: more than Kafka takes unless told
    tree["mesh"]["loss"] = "squared"
    file = saved(tmp_path, tree)
    provision(file)
    largest = {spec.name: spec.largest for spec in mesh_specs(file.resolved)}
    edge, letters = (next(name for name in largest if kind in name) for kind in (".edge.", ".deadletter."))
    assert largest[edge] >= sizes(file.resolved).release > 1_600_000
    bus = KafkaBus(at, largest)
    letter = encode_dead_letter(edge, bytes(largest[edge] + OVERHEAD), Refused(Reason.OUT_OF_BOUND))
    for topic, value in ((edge, bytes(largest[edge])), (letters, letter), (letters, bytes(largest[letters]))):
        bus.send(topic, value)
        assert bus.flush(PATIENCE)
        assert bus.read(topic, bus.end(topic) - 1) == [value]
    bus.close()


def test_a_topic_that_differs_is_an_error_and_nothing_else_is_made(tmp_path, tree, at):
    file = saved(tmp_path, tree)
    progress = next(spec for spec in mesh_specs(file.resolved) if spec.kind == "progress")
    with Admin(at) as admin:
        admin.create([replace(progress, compacted=True)])
    with pytest.raises(Differs) as differs:
        provision(file)
    words = "cleanup.policy is compact: must be delete"
    assert differs.value.lines == (f"mesh broker {at.servers}: topic {progress.name}: {words}",)
    assert set(there(at, file)) == {progress.name}


def test_limits_of_a_smaller_mesh_are_raised_and_no_larger_one_is_lowered(tmp_path, tree, at):
    file = saved(tmp_path, tree)
    topology, scheduler_topic, progress, *_ = mesh_specs(file.resolved)
    with Admin(at) as admin:
        admin.create([replace(topology, retention_bytes=MIB - 1, max_message_bytes=3659)])
        admin.create([replace(progress, retention_bytes=-1, max_message_bytes=2000)])
        admin.create([scheduler_topic])
    lines = tuple(
        f"mesh broker {at.servers}: topic {spec.name}: {key} is {value}: must be {limit}"
        for spec, key, value, limit in (
            (topology, "max.message.bytes", 3659, topology.max_message_bytes),
            (topology, "retention.bytes", MIB - 1, topology.retention_bytes),
            (progress, "max.message.bytes", 2000, progress.max_message_bytes),
        )
    )
    assert provision(file, dry_run=True)[0].bounded == lines
    assert provision(file)[0].bounded == lines
    topics = there(at, file)
    assert topics[topology.name].configs.items() >= topology.configs.items()
    assert topics[progress.name].configs.items() >= (progress.configs | {"retention.bytes": "-1"}).items()
    assert provision(file)[0].bounded == ()


def test_topics_of_an_older_version_are_named_and_get_their_bounds(tmp_path, tree, at):
    file = saved(tmp_path, tree)
    wanted = mesh_specs(file.resolved)
    with Admin(at) as admin:
        admin.create([replace(spec, shared=False, max_message_bytes=LEAST_LIMIT) for spec in wanted])
    planning = partial(preflight, at, scheduler(file.resolved.topics, file.mesh.nodes), {}, specs=wanted)
    with pytest.raises(PreflightFailed) as failed:
        planning()
    topology, words = wanted[0].name, "compression.type is producer: must be uncompressed"
    assert f"{at.servers}: {topology}: {words}: run mirrormesh provision" in failed.value.lines
    checked = call(file.path, "--check")
    assert checked.exit_code == 1
    assert f"mesh broker {at.servers}: topic {topology}: {words}" in checked.stderr.splitlines()
    would = provision(file, dry_run=True)[0].bounded
    with pytest.raises(PreflightFailed):
        planning()
    assert provision(file)[0].bounded == would
    assert planning() == ()
    topics = there(at, file)
    assert all(spec.configs.items() <= topics[spec.name].configs.items() for spec in wanted)
    assert provision(file)[0].bounded == ()


def raw(at, name, partitions=1, **configs):
    """Make a topic as its owner likes it."""
    with Admin(at) as admin:
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        admin._client.create_topics(
            {name: {"num_partitions": partitions, "configs": settings}}, wait_for_metadata=True
        )


def test_a_data_topic_keeps_its_owners_limits_and_partitions_but_must_keep_all_records(tmp_path, tree, at):
    file = saved(tmp_path, tree)
    first, second, third = (file.data_topics(name).records for name in file.nodes)
    raw(at, first, retention_bytes="1000", max_message_bytes="5000")
    raw(at, second, partitions=3)
    raw(at, third, cleanup_policy="compact")
    with pytest.raises(Differs) as differs:
        provision(file)
    assert [line.split("topic ")[1] for line in differs.value.lines] == [
        f"{third}: cleanup.policy is compact: must be delete",
    ]


def test_one_broker_under_two_addresses_must_be_trusted(tmp_path, tree, broker):
    port = broker.address.rpartition(":")[2]
    name = next(iter(tree["nodes"]))
    tree["nodes"][name]["brokers"] = {
        "data": {"servers": f"127.0.0.1:{port}"},
        "mesh": {"servers": f"localhost:{port}"},
    }
    with pytest.raises(MeshFileError, match=f"nodes.{name}.brokers.trust_broker: data and mesh are one"):
        provision(saved(tmp_path, tree))


def test_a_node_without_brokers_is_refused_by_name(tmp_path, tree):
    name = next(iter(tree["nodes"]))
    tree["nodes"][name] = {"source": {"kind": "localisation"}}
    with pytest.raises(MeshFileError, match=f"nodes.{name}.brokers: missing"):
        provision(saved(tmp_path, tree))


def test_only_the_parties_that_are_here_are_provisioned(tmp_path, tree, at):
    (name, other, _) = tree["nodes"]
    tree["nodes"] = {name: tree["nodes"][name]}
    file = saved(tmp_path, tree)
    done = provision(file)
    assert [side.label for side in done] == ["mesh broker", f"data broker of {name}"]
    assert found(at, [file.data_topics(other).records]) == {}


def test_a_broker_that_is_not_there_is_one_line(monkeypatch):
    monkeypatch.setattr("streams.bus.logs.PATIENCE", 0.3)
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1: the broker does not answer"):
        Admin(connection("127.0.0.1:1"))


def call(*arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_command_says_what_it_did(tmp_path, tree, broker):
    path = written(tmp_path, tree)
    dry = call(path, "--dry-run")
    assert dry.exit_code == 0
    assert dry.output.startswith(f"mesh broker {broker.address}: would make 14, found right 0\n")
    made = call(path).output.splitlines()
    assert made[0] == f"mesh broker {broker.address}: made 14, found right 0"
    assert any(line.endswith("and 5 more edge: keeps 1 MiB, messages up to 4 KiB") for line in made)
    spends = f"spends.data.tracking.{next(iter(tree['nodes']))}"
    assert f"  {spends}: keeps the last of each key, messages up to 1 MiB" in made
    again = call(path).output.splitlines()
    assert [line.partition(": ")[2] for line in again] == [
        "made 0, found right 14",
        *["made 0, found right 5"] * 3,
    ]


def test_the_command_leaves_with_a_line_for_each_difference(tmp_path, tree, at):
    file = saved(tmp_path, tree)
    spec = mesh_specs(file.resolved)[0]
    with Admin(at) as admin:
        admin.create([replace(spec, compacted=True)])
    outcome = call(file.path)
    assert outcome.exit_code == 1
    assert all(
        line.startswith(f"mesh broker {at.servers}: topic {spec.name}: ")
        for line in outcome.stderr.splitlines()
    )
    assert "cleanup.policy is compact: must be delete" in outcome.stderr
