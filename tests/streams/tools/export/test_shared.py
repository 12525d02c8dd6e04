"""What every kind of export rests on: whose nodes, the mesh file of a process, its secrets, the folder."""

import os
import stat

import pytest
import yaml

from streams.mesh.errors import MeshFileError, UsageError
from streams.mesh.file import load
from streams.mesh.settings.files import as_yaml, read_yaml
from streams.tools.export.asked import INDEX, check_image, write_folder
from streams.tools.export.cluster import source_ports
from streams.tools.export.raw_mesh import files, moved, node_file, party, read, scheduler_file
from tests.support.published.exports import IMAGE, SECURED

NEEDED = {"MESH_PASSWORD": "never-written", "DATA_PASSWORD": "never-written"}


@pytest.fixture
def secured(tmp_path):
    path = tmp_path / "mesh.yaml"
    path.write_text(SECURED)
    return path


def test_a_node_s_file_has_its_own_part_alone_and_loads_with_its_variables(secured, tmp_path, monkeypatch):
    for name, value in NEEDED.items():
        monkeypatch.setenv(name, value)
    made = node_file(read(secured), "b", "/secrets", "192.0.2.1:9101")
    (tmp_path / "b.yaml").write_text(made.text)
    loaded = load(tmp_path / "b.yaml")
    assert set(loaded.nodes) == {"b"}
    assert loaded.own("b").private_endpoint == ("192.0.2.1", 9101)
    assert (loaded.brokers("b"), loaded.digest()) == (load(secured).brokers("b"), load(secured).digest())
    assert made.variables == tuple(NEEDED)
    assert "a.example" not in made.text
    assert "small-scheduler" not in made.text


def test_a_scheduler_s_file_has_no_own_part_and_no_data_broker(secured, tmp_path):
    made = scheduler_file(read(secured), "/secrets")
    (tmp_path / "scheduler.yaml").write_text(made.text)
    loaded = load(tmp_path / "scheduler.yaml", NEEDED)
    assert (loaded.nodes, loaded.mesh_broker.username) == ({}, "small-scheduler")
    assert made.variables == ("MESH_PASSWORD",)
    assert "example:9095" not in made.text


def test_the_checksum_changes_with_what_a_process_reads_and_with_nothing_else(secured):
    def checksums():
        raw = read(secured)
        return [node_file(raw, name, "/secrets", "9101").checksum for name in "ab"]

    first = checksums()
    secured.write_text(SECURED.replace("a.example", "elsewhere.example") + "# another comment\n")
    other = checksums()
    assert (first[0] == other[0], first[1] == other[1]) == (False, True)
    secured.write_text(SECURED.replace("rounds: 40", "rounds: 41"))
    assert not set(checksums()) & set(first)


def test_files_of_secrets_have_a_name_of_their_own_in_one_folder():
    side = {
        "ca": "x/ca.crt",
        "certificate": "n.crt",
        "key": "n.key",
        "password_file": "word",
        "username": "a",
    }
    brokers = {"mesh": side, "data": {"ca": "y/ca.crt"}, "trust_broker": False}
    assert files(brokers) == {
        "mesh-password": "brokers.mesh.password_file",
        "mesh-ca": "x/ca.crt",
        "mesh-certificate": "n.crt",
        "mesh-key": "n.key",
        "data-ca": "y/ca.crt",
    }
    there = moved(brokers, "/s")
    assert there["mesh"] == {
        "ca": "/s/mesh-ca",
        "certificate": "/s/mesh-certificate",
        "key": "/s/mesh-key",
        "password_file": "/s/mesh-password",
        "username": "a",
    }
    assert (there["data"], there["trust_broker"]) == ({"ca": "/s/data-ca"}, False)


def test_files_of_secrets_need_not_be_here(secured):
    files = "ca: ca.crt, certificate: n.crt, key: n.key, key_password_file: k, password_file: p"
    secured.write_text(SECURED.replace('password: "${MESH_PASSWORD}"', files))
    made = node_file(read(secured), "a", "/secrets", "9101")
    assert set(made.files) == {
        f"mesh-{kind}" for kind in ("ca", "certificate", "key", "key-password", "password")
    }
    assert "/secrets/mesh-key-password" in made.text
    assert made.variables == ("DATA_PASSWORD",)
    secured.write_text(SECURED.replace('password: "${MESH_PASSWORD}"', 'password_file: "${FOLDER}/p"'))
    assert node_file(read(secured), "a", "/secrets", "9101").variables == ("DATA_PASSWORD",)
    secured.write_text(SECURED.replace('password: "${MESH_PASSWORD}"', "password_file: p, key: n.key"))
    with pytest.raises(MeshFileError, match="needs"):
        read(secured)


@pytest.mark.parametrize(
    ("place", "written", "said"),
    [
        ("${MESH_PASSWORD}", "hunter2", "brokers.mesh.password: (hidden): must be ${MESH_PASSWORD}"),
        ("${DATA_PASSWORD}", "x${Y}", "nodes.a.brokers.data.password: (hidden): must be ${DATA_PASSWORD}"),
    ],
)
def test_a_secret_that_is_written_out_is_refused_with_the_variable_to_use(secured, place, written, said):
    secured.write_text(SECURED.replace(place, written, 1))
    with pytest.raises(MeshFileError) as refused:
        read(secured)
    assert refused.value.lines == (f"{secured}: {said}, or another variable: an export holds no secret",)


def test_a_secret_in_an_own_part_s_file_is_refused_there(secured, tmp_path):
    own = "brokers: {mesh: {servers: 'm:1', username: a, password: hunter2}, data: {servers: 'd:1'}}"
    (tmp_path / "a.yaml").write_text(own)
    secured.write_text(SECURED.partition("\n  a:\n")[0] + "\n  a: a.yaml\n")
    with pytest.raises(MeshFileError) as refused:
        read(secured)
    (line,) = refused.value.lines
    assert line.startswith(
        f"{tmp_path / 'a.yaml'}: brokers.mesh.password: (hidden): must be ${{MESH_PASSWORD}}"
    )
    assert "hunter2" not in line


def test_yaml_is_read_back_as_it_was_written(tmp_path):
    words = ["1e-3", "007", "yes", "on", "0o7", "1:30", "", "null", "~", "2020-01-01", "=", "a\nb\n", "é"]
    tree = {"on": words, "n": [1e-5, 1e300, 0.1, 12345678901234567890, True, None]}
    path = tmp_path / "written.yaml"
    path.write_text(as_yaml(tree), "utf-8")
    assert read_yaml(path) == tree


def test_an_image_needs_a_name_and_should_have_a_digest():
    assert check_image(IMAGE) is None
    assert "has no digest" in (check_image("localhost:5000/mirrormesh:0.1") or "")
    for wrong in ("", "Upper", "a b", "x@sha256:12", "-x", "x:"):
        with pytest.raises(UsageError, match="must be an image's name"):
            check_image(wrong)


def test_a_party_that_is_not_there_is_answered_with_the_nearest(secured):
    assert party(read(secured).file.mesh, "b").nodes == ("b",)
    with pytest.raises(UsageError, match="--party bb: must be one of a, b, c"):
        party(read(secured).file.mesh, "bb")


def test_a_folder_takes_an_earlier_export_s_place_as_a_whole(tmp_path):
    folder = tmp_path / "out" / "b"
    assert write_folder(folder, {"one/a.yaml": "1", "b.yaml": "2"}) == 3
    assert write_folder(folder, {"b.yaml": "3"}) == 2
    found = {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert found == {"b.yaml": "3", INDEX: "b.yaml\n"}
    assert list(folder.parent.iterdir()) == [folder]


def test_whoever_may_enter_a_folder_may_read_all_of_it(tmp_path):
    earlier = os.umask(0o077)
    try:
        write_folder(tmp_path / "out", {"one/two/a.yaml": "1"})
    finally:
        os.umask(earlier)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"out": 0o700, "one": 0o755, "two": 0o755, "a.yaml": 0o644, INDEX: 0o644}


def test_a_folder_with_something_else_is_refused_and_stays(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret.env").write_text("kept")
    with pytest.raises(UsageError, match=r"holds secret\.env, which no export wrote"):
        write_folder(tmp_path / "out", {"a": "1"})
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        write_folder(tmp_path / "file", {"a": "1"})
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "out", "secret.env"]


def test_a_folder_that_cannot_be_written_whole_stays_as_it_was(tmp_path):
    folder = tmp_path / "out"
    write_folder(folder, {"a": "1"})
    with pytest.raises(UsageError, match="cannot be written to"):
        write_folder(folder, {"a": "2", "a/b": "a file cannot be a folder too"})
    assert (folder / "a").read_text() == "1"
    assert list(tmp_path.iterdir()) == [folder]


def test_the_columns_that_a_file_s_header_names_are_written_out(tmp_path, monkeypatch):
    source = {
        "kind": "csv",
        "path": "rows.csv",
        "schema": {"features": {"x": "number", "y": "number"}, "label": {"column": "l", "positive": 1}},
    }
    tree = yaml.safe_load(SECURED)
    tree["mesh"]["loss"] = "logistic"
    for own in tree["nodes"].values():
        own["source"] = source
    (tmp_path / "mesh.yaml").write_text(yaml.safe_dump(tree))
    (tmp_path / "rows.csv").write_text("y,l,x\n1,1,0\n")
    made = node_file(read(tmp_path / "mesh.yaml"), "a", "/secrets", "9101")
    there = yaml.safe_load(made.text)["nodes"]["a"]["source"]
    assert (there["columns"], "path" in there) == (["y", "l", "x"], False)
    monkeypatch.setenv("ROWS", str(tmp_path))
    source["path"] = "${ROWS}/rows.csv"
    (tmp_path / "mesh.yaml").write_text(yaml.safe_dump(tree))
    assert node_file(read(tmp_path / "mesh.yaml"), "a", "/secrets", "9101") == made
    (tmp_path / "rows.csv").unlink()
    with pytest.raises(MeshFileError, match=r"nodes\.a\.source\.path: .*rows\.csv"):
        node_file(read(tmp_path / "mesh.yaml"), "a", "/secrets", "9101")
    del source["path"]
    (tmp_path / "mesh.yaml").write_text(yaml.safe_dump(tree))
    with pytest.raises(MeshFileError, match=r"nodes\.a\.source\.columns: missing: must name the columns"):
        node_file(read(tmp_path / "mesh.yaml"), "a", "/secrets", "9101")


def test_a_list_of_files_that_is_no_text_is_another_file(tmp_path):
    (tmp_path / INDEX).write_bytes(b"\xff\n")
    (tmp_path / "mine").touch()
    with pytest.raises(UsageError, match="holds mine, which no export wrote"):
        write_folder(tmp_path, {"a.yaml": "1"})


TOPIC = """{kind: topic, topic: t, schema: {features: {x: number, y: number}, label: {column: distance}},
      format: avro, registry: {url: "http://registry.example:8081", username: reader, MORE}}"""


def with_registry(path, more):
    tree = yaml.safe_load(path.read_text())
    tree["nodes"]["b"]["source"] = yaml.safe_load(TOPIC.replace("MORE", more))
    path.write_text(yaml.safe_dump(tree))
    return read(path)


def test_the_variables_of_a_source_s_registry_are_the_process_s_too(secured):
    made = node_file(with_registry(secured, 'password: "${REGISTRY}"'), "b", "/secrets", "9101")
    assert made.variables == (*NEEDED, "REGISTRY")
    assert yaml.safe_load(made.text)["nodes"]["b"]["source"]["registry"]["password"] == "${REGISTRY}"  # noqa: S105


LABELS = {"topic": "l", "join": "id", "after": "1h", "value": {"column": "distance"}, "otherwise": 0}


def with_labels(path, **broker):
    """The source's labels are on a broker of their own."""
    with_registry(path, 'password: "${REGISTRY}"')
    tree = yaml.safe_load(path.read_text())
    later = LABELS | {"broker": {"servers": "labels.example:9092", "username": "reader"} | broker}
    tree["nodes"]["b"]["source"]["labels"] = later
    path.write_text(yaml.safe_dump(tree))
    return read(path)


def test_the_variables_of_a_broker_of_labels_are_the_process_s_too(secured):
    raw = with_labels(secured, password="${LABELS}")  # noqa: S106 # a variable
    assert node_file(raw, "b", "/secrets", "9101").variables == (*NEEDED, "REGISTRY", "LABELS")
    source = raw.owns["b"]["source"]
    assert source_ports(source, "mesh.yaml", ("nodes", "b", "source")) == [8081, 9092]


def test_a_secret_of_a_broker_of_labels_is_not_written_out(secured):
    with pytest.raises(MeshFileError) as refused:
        node_file(with_labels(secured, password="hush"), "b", "/secrets", "9101")  # noqa: S106
    assert "nodes.b.source.labels.broker.password: (hidden): must be ${BROKER_PASSWORD}" in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ("password: hush", "registry.password: (hidden): must be ${REGISTRY_PASSWORD}, or another variable"),
        ("password_file: hush", "registry.password_file: (hidden): must not be given: an export takes"),
    ],
)
def test_a_registry_s_secret_is_not_written_out(secured, more, line):
    with pytest.raises(MeshFileError) as refused:
        node_file(with_registry(secured, more), "b", "/secrets", "9101")
    assert f"nodes.b.source.{line}" in str(refused.value)
    assert "hush" not in str(refused.value)
