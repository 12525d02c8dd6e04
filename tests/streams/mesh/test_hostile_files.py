"""Whatever a mesh file holds or is, it is read within a second, or refused in lines that are text."""

import copy
import json
import os
import time

import pytest

from streams.cli import main
from streams.mesh.file import MeshFileError, load_any
from tests.support.meshes.files import changed, written

NINES = "[1, 1, 1, 1, 1, 1, 1, 1, 1]"
BOMB = f"a: &x0 {NINES}\n" + "".join(f"a{k}: &x{k} [{', '.join([f'*x{k - 1}'] * 9)}]\n" for k in range(1, 10))
MIB = 1 << 20


def refused(path):
    """The lines with which a file is refused."""
    began = time.process_time()
    with pytest.raises(MeshFileError) as caught:
        load_any(path, {})
    assert time.process_time() - began < 1.0
    assert all(line.isprintable() for line in caught.value.lines)
    return caught.value.lines


@pytest.mark.parametrize(
    "last", ["mesh: *x9", "mesh: {nodes: *x9}", "mesh: {nodes: {a: *x9}}", "nodes: *x9", "b: 1"]
)
def test_a_bomb_of_aliases_is_one_line(tmp_path, last):
    path = tmp_path / "mesh.yaml"
    path.write_text(f"{BOMB}{last}\n")
    (line,) = refused(path)
    assert "aliases that stand for more than 500,000 values" in line


@pytest.mark.parametrize("text", ["mesh: &a {nodes: *a}", "mesh: &a [*a]", "&a b: &c {d: *c}"])
def test_an_alias_of_itself_is_one_line(tmp_path, text):
    path = tmp_path / "mesh.yaml"
    path.write_text(text + "\n")
    (line,) = refused(path)
    assert "recursive" in line


def test_aliases_of_reasonable_size_stay_as_they_are(tmp_path):
    tree = changed(nodes=[f"n{k}" for k in range(300)])
    source = "{kind: csv, path: rows.csv, schema: &s {features: {x: number, y: number}, label: {column: z}}}"
    nodes = [f"  n{k}: {{source: {{kind: csv, path: rows.csv, schema: *s}}}}\n" for k in range(1, 300)]
    path = tmp_path / "mesh.yaml"
    path.write_text(f"mesh: {json.dumps(tree['mesh'])}\nnodes:\n  n0: {{source: {source}}}\n{''.join(nodes)}")
    assert len(load_any(path, {}).nodes) == 300


@pytest.mark.parametrize("text", ["- 1\n", "- []\n", "- {}\n", "- *x\n"])
def test_of_a_file_of_many_values_the_first_100_000_are_looked_at(tmp_path, text):
    """The refusal names the place of the reader there, and not the mistake behind it."""
    path = tmp_path / "mesh.yaml"
    path.write_text(f"- &x 1\n{text * 120_000}- {{a: \n")
    with pytest.raises(MeshFileError) as caught:
        load_any(path, {})
    (line,) = caught.value.lines
    assert line.startswith(f"{path}: line 10000")
    assert line.endswith(": has more than 100,000 values and keys")


def hostile_paths(folder):
    os.mkfifo(folder / "pipe")
    (folder / "large.yaml").write_text(f"# {'x' * MIB}\n")
    return {
        "/dev/zero": "no regular file",
        "pipe": "no regular file",
        ".": "Is a directory",
        "large.yaml": "larger than 1 MiB",
        "a\0b": "no path of a file",
        "a\ud800b": "no path of a file",
        "none.yaml": "No such file",
    }


def test_a_file_that_has_no_end_or_never_begins_is_one_line(tmp_path):
    for name, why in hostile_paths(tmp_path).items():
        (line,) = refused(tmp_path / name)
        assert f"cannot be read: {why}" in line


@pytest.mark.parametrize("key", ["schema", "part", "held_out"])
def test_so_is_a_schema_or_an_own_part(tmp_path, key):
    for name, why in hostile_paths(tmp_path).items():
        tree, source = changed(), {"kind": "csv", "path": "rows.csv", "schema": name}
        if key == "held_out":
            tree["held_out"] = source
        else:
            tree["nodes"] = {"a": name if key == "part" else {"source": source}}
        path = tmp_path / "mesh.yaml"
        path.write_text(json.dumps(tree))
        if key == "part" and name not in {"/dev/zero", "pipe", ".", "large.yaml"}:
            assert load_any(path, {}).elsewhere  # its owner has it
            continue
        (line,) = refused(path)
        assert f"cannot be read: {why}" in line


@pytest.mark.parametrize("key", ["password_file", "ca", "signing_key"])
def test_so_is_a_secret(tmp_path, key):
    for name in hostile_paths(tmp_path):
        broker = {"servers": "h:9092", "username": "u", "security": "sasl-tls", "password": "p", key: name}
        if key == "password_file":
            del broker["password"]
        path = tmp_path / "mesh.yaml"
        path.write_text(json.dumps(changed() | {"brokers": {"mesh": broker}}))
        lines = refused(path)
        assert len(lines) == 1
        assert f"brokers.mesh.{key}" in lines[0]


@pytest.mark.parametrize("ending", ["\n", "\r", "\u2028", "\0", "\x1b[31m"])
@pytest.mark.parametrize("key", ["servers", "username"])
def test_a_broker_s_address_and_user_are_one_line(tmp_path, key, ending):
    broker = {"servers": "h:9092", "username": "u", "password": "p"}
    broker[key] += f"{ending}x"
    path = tmp_path / "mesh.yaml"
    path.write_text(json.dumps(changed() | {"brokers": {"mesh": broker}}))
    (line,) = refused(path)
    assert line.endswith("must be one line of text, without control characters")


SCHEMA = {
    "features": {
        "x": {"bounds": [0, 8]},
        "y": {"log": [0.5, 10]},
        "c": {"categories": ["a", "b"]},
        "h": {"hour": "UTC"},
        "b": {"buckets": [1, 2]},
        "q": {"hashed": 4},
    },
    "label": {"column": "l", "positive": ["1"], "negative": ["0"]},
    "timestamp": "t",
}
FILE = {"kind": "csv", "path": "rows.csv", "schema": SCHEMA, "take": {"every": 2, "offset": 1}}
WHOLE = changed(
    nodes={"a": {"epsilon": 2, "budget": 9}, "b": {}, "c": {}},
    dimension=38,
    loss="logistic",
    slots={"by": "time", "size": 3, "period": 5, "start": 0, "grace": 1},
    class_weights=[1, 2],
    rounds=40,
    seed=3,
    horizon=64,
    round_timeout=5,
    silence=30,
    generation=2,
    min_members=2,
    parties={"us": {"nodes": ["a", "b", "c"], "user": "x"}},
) | {
    "brokers": {"mesh": {"servers": "h:9092", "username": "u", "password": "p"}, "data": {"servers": "h:1"}},
    "held_out": FILE,
    "nodes": {
        "a": {
            "source": FILE | {"max_record_bytes": 1000},
            "liveness": 400,
            "private_endpoint": "127.0.0.1:9000",
        },
        "b": {"source": {"kind": "own", "name": "some.module:Source"}},
        "c": {"source": {"kind": "localisation", "noise": 0.1, "position": [1, 2], "last": 9}},
    },
}
HOSTILE = [
    *("a\0b", "a\n\x1b[31m\u2028b", "a\ud800b", "/dev/zero", None),
    *(2**64, 10**400, -(2**64), 1e308, float("nan")),
]


def leaves(tree, path=()):
    """The path of every text and number."""
    if isinstance(tree, dict | list):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            yield from leaves(tree[key], (*path, key))
    else:
        yield path


@pytest.mark.parametrize("path", list(leaves(WHOLE)), ids=lambda path: ".".join(map(str, path)))
def test_every_text_and_number_may_be_anything(tmp_path, path):
    """It is right, or each of its mistakes is a line of text that no terminal obeys."""
    file = tmp_path / "mesh.yaml"
    for value in HOSTILE:
        at = tree = copy.deepcopy(WHOLE)
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
        file.write_text(json.dumps(tree).replace("NaN", ".nan").replace("Infinity", ".inf"))
        lines = mistakes(file)
        assert all(line.isprintable() for line in lines), value


def mistakes(file):
    """The lines with which a file is refused; none if it is right."""
    try:
        load_any(file, {})
    except MeshFileError as error:
        return error.lines
    return ()


@pytest.mark.parametrize("every", [2**63, 2**64])
def test_a_part_of_too_many_is_one_line_of_check(tmp_path, capsys, every):
    tree = changed(nodes=["a", "b"], loss="squared")
    schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}}
    (tmp_path / "rows.csv").write_text("x,y,z\n1,2,3\n")
    rows = {"kind": "csv", "path": str(tmp_path / "rows.csv"), "schema": schema, "take": {"every": every}}
    tree["nodes"] = {"a": {"source": rows}}
    with pytest.raises(SystemExit) as ended:
        main(["check", str(written(tmp_path, tree))])
    err = capsys.readouterr().err
    assert (ended.value.code, err.count("\n")) == (2, 1)
    assert "nodes.a.source.take.every" in err


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize("kind", ["csv", "json-lines", "parquet", "libsvm", "csr"])
@pytest.mark.parametrize("key", ["source", "held_out"])
def test_a_device_is_no_file_of_records(tmp_path, capsys, kind, key, command):
    """A line of /dev/zero has no end."""
    tree = changed(loss="squared", rounds=2)
    schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}}
    more = {"label": {}} if kind in {"libsvm", "csr"} else {"schema": schema}
    rows = {"kind": kind, "path": "/dev/zero", **more}
    lines = {"kind": "csv", "path": str(tmp_path / "rows.csv"), "schema": schema}
    (tmp_path / "rows.csv").write_text("x,y,z\n" + "1,2,3\n" * 9)
    tree["nodes"] = {name: {"source": rows if key == "source" else lines} for name in "abcd"}
    tree |= {"held_out": rows} if key == "held_out" else {}
    with pytest.raises(SystemExit) as ended:
        main([command, str(written(tmp_path, tree))])
    errors = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert errors
    assert all('path: "/dev/zero": ' in line for line in errors)


@pytest.mark.parametrize("place", ["top", "nodes"])
def test_mistakes_without_number_are_few_lines(tmp_path, place):
    keys = ", ".join(f"k{k}: 1" for k in range(2_000))
    text = {
        "top": f"{{mesh: 1, {keys}}}",
        "nodes": f"mesh: 1\nnodes: {{{keys}}}",
    }
    path = tmp_path / "mesh.yaml"
    path.write_text(text[place])
    with pytest.raises(MeshFileError) as caught:
        load_any(path, {})
    lines = caught.value.lines
    assert len(lines) == 201
    assert lines[-1].endswith("more mistakes")


def test_a_long_key_is_told_by_its_ends(tmp_path):
    path = tmp_path / "mesh.yaml"
    path.write_text(f"mesh: {{? {'k' * 100_000} : 1}}\n? {'j' * 100_000}\n: 1\n")
    assert all(len(line) < 1_000 for line in mistakes(path))
